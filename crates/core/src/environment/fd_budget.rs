//! The limit on descriptors of an environment: how many of its logs have files open besides their locks.

use crate::sync::pool::Task;
use logforce_device::sync::{AtomicBool, Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::atomic::Ordering::*;
use std::sync::{Arc, OnceLock, PoisonError};

/// The logs with open files, in the order in which they opened them.
pub(crate) struct FdBudget {
    limit: usize,
    open: Mutex<VecDeque<Arc<OpenFiles>>>,
}

/// State of the files of one log: open or closed.
pub(crate) struct OpenFiles {
    among: Arc<FdBudget>,
    /// The log's writer, which closes the files when the log is idle.
    writer: OnceLock<Arc<Task>>,
    /// Closes the files now, if no write needs them, and returns whether it did.
    closer: OnceLock<Box<dyn Fn() -> bool + Send + Sync>>,
    are_closed: AtomicBool,
    must_close: AtomicBool,
}

impl FdBudget {
    pub(crate) fn new(limit: usize) -> Arc<FdBudget> {
        Arc::new(FdBudget {
            limit: limit.max(1),
            open: Mutex::default(),
        })
    }

    fn open(&self) -> MutexGuard<'_, VecDeque<Arc<OpenFiles>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of logs with open files.
    pub(crate) fn count(&self) -> usize {
        self.open().len()
    }

    /// Adds a log. Beyond the limit, closes the files of other logs that are not being written, starting
    /// with those that opened theirs first. Closes them in the calling thread, because all threads of the
    /// pool may be waiting for descriptors.
    fn add(&self, log: &Arc<OpenFiles>) {
        let others = {
            let mut open = self.open();
            open.push_back(log.clone());
            if open.len() <= self.limit {
                return;
            }
            open.iter().cloned().collect::<Vec<_>>()
        };
        for other in others {
            if self.count() <= self.limit {
                return;
            }
            if !Arc::ptr_eq(&other, log) && !other.close() {
                // The log is being written: its writer closes the files later.
                other.must_close.store(true, SeqCst);
            }
        }
    }

    /// Closes the files of all logs that are not being written. Returns false if there were none.
    pub(crate) fn close_idle(&self) -> bool {
        let open: Vec<_> = self.open().iter().cloned().collect();
        // `any` would stop after the first log.
        open.iter().filter(|log| log.close()).count() > 0
    }

    fn remove(&self, log: &Arc<OpenFiles>) {
        self.open().retain(|l| !Arc::ptr_eq(l, log));
    }
}

impl OpenFiles {
    /// Returns the state for a log that is being opened: no open files.
    pub(crate) fn new(among: &Arc<FdBudget>) -> Arc<OpenFiles> {
        Arc::new(OpenFiles {
            among: among.clone(),
            writer: OnceLock::new(),
            closer: OnceLock::new(),
            are_closed: AtomicBool::new(true),
            must_close: AtomicBool::new(false),
        })
    }

    /// Sets the log's writer.
    pub(crate) fn set_writer(self: &Arc<Self>, task: Arc<Task>) {
        let _ = self.writer.set(task);
    }

    /// Sets the function that closes the files. It returns whether it did.
    pub(crate) fn set_closer(&self, closer: impl Fn() -> bool + Send + Sync + 'static) {
        let _ = self.closer.set(Box::new(closer));
    }

    fn close(&self) -> bool {
        self.closer.get().is_some_and(|close| close())
    }

    /// Notes that a file was opened.
    pub(crate) fn note_open(self: &Arc<Self>) {
        if self.are_closed.swap(false, SeqCst) {
            self.among.add(self);
            // The writer sleeps without a timeout once it has closed all files.
            if let Some(writer) = self.writer.get() {
                writer.schedule();
            }
        }
    }

    /// Returns true if files are open.
    pub(crate) fn are_open(&self) -> bool {
        !self.are_closed.load(SeqCst)
    }

    /// Returns true if other logs need the descriptors.
    pub(crate) fn must_close(&self) -> bool {
        self.must_close.load(SeqCst)
    }

    /// Notes that the files are about to be closed. A file that is opened meanwhile counts as opened
    /// afterwards.
    pub(crate) fn note_closing(self: &Arc<Self>) {
        self.among.remove(self);
        self.must_close.store(false, SeqCst);
        self.are_closed.store(true, SeqCst);
    }
}
