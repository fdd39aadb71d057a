//! Calls from the log's own threads: the writer and the preallocator. Neither may wait for its own work.

use crate::engine::Engine;
use crate::sync::pool::is_pool_thread;
use logforce_commit::sync::wakers::is_waking;
use logforce_device::sync::thread_local;
use std::cell::{Cell, RefCell};

thread_local! {
    /// The log whose writer thread this is.
    static WRITER_OF: Cell<*const Engine> = const { Cell::new(std::ptr::null()) };
    /// The log whose writer or preallocator this is.
    static THREAD_OF: Cell<*const Engine> = const { Cell::new(std::ptr::null()) };
    /// Logs that calls of this thread are closing or whose files they are changing. Such calls may be
    /// nested, because a callback in a call may make another one.
    static WITHIN: RefCell<Vec<*const Engine>> = const { RefCell::new(Vec::new()) };
}

/// Mark of the calling thread during a close, or during a call for which a close waits.
pub(crate) struct Within(*const Engine);

impl Drop for Within {
    fn drop(&mut self) {
        WITHIN.with(|within| {
            let mut within = within.borrow_mut();
            if let Some(at) = within.iter().rposition(|log| *log == self.0) {
                within.remove(at);
            }
        });
    }
}

/// Mark of a thread as a log's own, until this is dropped. A thread of a pool works for one log after
/// another, and may work for a second one in a callback of the first.
pub(crate) struct Adopted {
    writer_before: *const Engine,
    thread_before: *const Engine,
}

impl Drop for Adopted {
    fn drop(&mut self) {
        WRITER_OF.with(|log| log.set(self.writer_before));
        THREAD_OF.with(|log| log.set(self.thread_before));
    }
}

/// Returns true in a thread that may be in a callback or a waker of any log, or in a call for which a close
/// waits. Such a thread must not wait for another thread that closes the log, which may wait for this one.
pub(crate) fn may_be_awaited() -> bool {
    let is_marked = |log: &Cell<*const Engine>| !log.get().is_null();
    let is_within = || WITHIN.with(|within| !within.borrow().is_empty());
    is_pool_thread() || THREAD_OF.with(is_marked) || is_within() || is_waking()
}

/// Returns true in a thread for which [`may_be_awaited`] holds and which is not in a waker.
pub(crate) fn may_be_in_callback() -> bool {
    may_be_awaited() && !is_waking()
}

impl Engine {
    /// Marks the calling thread as one of the log's own.
    pub(crate) fn adopt_thread(&self) -> Adopted {
        Adopted {
            writer_before: WRITER_OF.with(Cell::get),
            thread_before: THREAD_OF.with(|log| log.replace(self)),
        }
    }

    /// Marks the calling thread as the writer thread.
    pub(crate) fn adopt_writer_thread(&self) -> Adopted {
        let adopted = self.adopt_thread();
        WRITER_OF.with(|log| log.set(self));
        adopted
    }

    /// Returns true if the calling thread is one of the log's own.
    pub(crate) fn is_own_thread(&self) -> bool {
        THREAD_OF.with(|log| std::ptr::eq(log.get(), self))
    }

    /// Returns true if the calling thread is the writer thread, that is, in one of its callbacks.
    pub(crate) fn is_writer_thread(&self) -> bool {
        WRITER_OF.with(|log| std::ptr::eq(log.get(), self))
    }

    /// Marks the calling thread as closing the log or changing its files.
    pub(crate) fn enter(&self) -> Within {
        WITHIN.with(|within| within.borrow_mut().push(self));
        Within(self)
    }

    /// Returns the number of marks by [`Engine::enter`] for this log that the calling thread has now. A
    /// call made within these calls must not wait for them.
    pub(crate) fn calls_within(&self) -> u32 {
        let is_this = |log: &&*const Engine| std::ptr::eq(**log, self);
        WITHIN.with(|within| within.borrow().iter().filter(is_this).count() as u32)
    }

    /// Returns true in a callback of a thread for which a task of this log would wait: the writer, or a
    /// thread of a pool. Returns false in a waker, which must not wait.
    pub(crate) fn must_do_it_itself(&self) -> bool {
        (self.is_writer_thread() || is_pool_thread()) && !is_waking()
    }

    /// Frees buffer space by a write in the calling thread, and returns true if it succeeded. Does so only
    /// in the writer thread, which would otherwise wait for itself, and in a thread of a pool, because all
    /// threads of the pool may be in callbacks that append to this log.
    pub(crate) fn write_in_own_thread(&self) -> bool {
        if !self.is_writer_thread() && !is_pool_thread() {
            return false;
        }
        let job = {
            let mut state = self.state();
            let job = state.take();
            job.or_else(|| state.take_overflow())
        };
        // If the job fails, it has poisoned the log.
        job.is_some_and(|job| self.lead(job).is_ok())
    }
}
