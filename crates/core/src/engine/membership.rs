//! Membership of a log in an environment.

use crate::environment::Shared;
use crate::environment::fd_budget::OpenFiles;
use crate::environment::members::Member;
use std::sync::{Arc, Weak};

/// A log's share of its environment.
pub(crate) struct Membership {
    pub(crate) shared: Arc<Shared>,
    pub(crate) files: Arc<OpenFiles>,
    /// Number of the log in its environment.
    number: u64,
}

impl Membership {
    pub(crate) fn new(shared: Arc<Shared>, files: Arc<OpenFiles>) -> Membership {
        let number = shared.members.add();
        Membership {
            shared,
            files,
            number,
        }
    }

    /// Records that the log is open and that `log` can close it.
    pub(crate) fn opened(&self, log: Weak<dyn Member>) {
        self.shared.members.opened(self.number, log);
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.files.note_closing();
        self.shared.members.remove(self.number);
    }
}
