//! Which logs of an environment have files open besides their lock: a limit on descriptors.

use crate::sync::pool::Task;
use logforce_device::sync::{AtomicBool, Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::atomic::Ordering::*;
use std::sync::{Arc, OnceLock, PoisonError};

/// The logs with open files, the one that opened them first in front.
pub(crate) struct OpenLogs {
    limit: usize,
    open: Mutex<VecDeque<Arc<OpenFiles>>>,
}

/// Whether the files of one log are open.
pub(crate) struct OpenFiles {
    among: Arc<OpenLogs>,
    /// The log's writer, which closes them.
    writer: OnceLock<Arc<Task>>,
    are_closed: AtomicBool,
    must_close: AtomicBool,
}

impl OpenLogs {
    pub(crate) fn new(limit: usize) -> Arc<OpenLogs> {
        Arc::new(OpenLogs {
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

    /// Adds a log, and has the one close its files that has had them open for longest if there are
    /// too many.
    fn add(&self, log: &Arc<OpenFiles>) {
        let oldest = {
            let mut open = self.open();
            open.push_back(log.clone());
            // It leaves the list when it has closed them.
            (open.len() > self.limit)
                .then(|| {
                    open.iter()
                        .find(|l| !l.must_close.swap(true, SeqCst))
                        .cloned()
                })
                .flatten()
        };
        if let Some(writer) = oldest.as_ref().and_then(|log| log.writer.get()) {
            writer.schedule();
        }
    }

    fn remove(&self, log: &Arc<OpenFiles>) {
        self.open().retain(|l| !Arc::ptr_eq(l, log));
    }
}

impl OpenFiles {
    /// Of a log that is being opened.
    pub(crate) fn new(among: &Arc<OpenLogs>) -> Arc<OpenFiles> {
        Arc::new(OpenFiles {
            among: among.clone(),
            writer: OnceLock::new(),
            are_closed: AtomicBool::new(true),
            must_close: AtomicBool::new(false),
        })
    }

    /// The log has a writer from now on.
    pub(crate) fn set_writer(self: &Arc<Self>, task: Arc<Task>) {
        let _ = self.writer.set(task);
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
