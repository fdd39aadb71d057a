//! A log's part in an environment.

use crate::environment::Shared;
use crate::environment::open_logs::OpenFiles;
use std::sync::Arc;
use std::sync::atomic::Ordering::*;

/// What a log in an environment has of it.
pub(crate) struct Membership {
    pub(crate) shared: Arc<Shared>,
    pub(crate) files: Arc<OpenFiles>,
}

impl Membership {
    pub(crate) fn new(shared: Arc<Shared>, files: Arc<OpenFiles>) -> Membership {
        shared.logs.fetch_add(1, Relaxed);
        Membership { shared, files }
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.files.note_closing();
        self.shared.logs.fetch_sub(1, Relaxed);
    }
}
