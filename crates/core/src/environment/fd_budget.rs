//! Which logs of an environment have files open besides their lock: a limit on descriptors.

use crate::sync::pool::Task;
use logforce_device::sync::{AtomicBool, Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::atomic::Ordering::*;
use std::sync::{Arc, OnceLock, PoisonError};

/// The logs with open files, the one that opened them first in front.
pub(crate) struct FdBudget {
    limit: usize,
    open: Mutex<VecDeque<Arc<OpenFiles>>>,
}

/// Whether the files of one log are open.
pub(crate) struct OpenFiles {
    among: Arc<FdBudget>,
    /// The log's writer, which closes them when the log is idle.
    writer: OnceLock<Arc<Task>>,
    /// Closes them now, if no write needs them.
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

    /// How many logs have open files.
    pub(crate) fn count(&self) -> usize {
        self.open().len()
    }

    /// Adds a log, and closes files of others if there are too many: of those that opened theirs first,
    /// and are not being written. In the calling thread: the pool's may all wait for descriptors.
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
                // It is being written: its writer does it.
                other.must_close.store(true, SeqCst);
            }
        }
    }

    /// Closes the files of all logs that no write needs. Returns whether there were any.
    pub(crate) fn close_idle(&self) -> bool {
        let open: Vec<_> = self.open().iter().cloned().collect();
        // All of them, not only the first.
        open.iter().filter(|log| log.close()).count() > 0
    }

    fn remove(&self, log: &Arc<OpenFiles>) {
        self.open().retain(|l| !Arc::ptr_eq(l, log));
    }
}

impl OpenFiles {
    /// Of a log that is being opened.
    pub(crate) fn new(among: &Arc<FdBudget>) -> Arc<OpenFiles> {
        Arc::new(OpenFiles {
            among: among.clone(),
            writer: OnceLock::new(),
            closer: OnceLock::new(),
            are_closed: AtomicBool::new(true),
            must_close: AtomicBool::new(false),
        })
    }

    /// The log has a writer from now on.
    pub(crate) fn set_writer(self: &Arc<Self>, task: Arc<Task>) {
        let _ = self.writer.set(task);
    }

    /// What closes the files now, from now on; it says whether it did.
    pub(crate) fn set_closer(&self, closer: impl Fn() -> bool + Send + Sync + 'static) {
        let _ = self.closer.set(Box::new(closer));
    }

    fn close(&self) -> bool {
        self.closer.get().is_some_and(|close| close())
    }

    /// A file was opened.
    pub(crate) fn note_open(self: &Arc<Self>) {
        if self.are_closed.swap(false, SeqCst) {
            self.among.add(self);
            // It sleeps without a timeout once it has closed all.
            if let Some(writer) = self.writer.get() {
                writer.schedule();
            }
        }
    }

    /// Whether files are open.
    pub(crate) fn are_open(&self) -> bool {
        !self.are_closed.load(SeqCst)
    }

    /// Whether others need the descriptors.
    pub(crate) fn must_close(&self) -> bool {
        self.must_close.load(SeqCst)
    }

    /// The files are closed next; a file that is opened meanwhile counts as opened after that.
    pub(crate) fn note_closing(self: &Arc<Self>) {
        self.among.remove(self);
        self.must_close.store(false, SeqCst);
        self.are_closed.store(true, SeqCst);
    }
}
