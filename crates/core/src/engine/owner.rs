//! The owner's callback, which is to make room in a log that is at its cap, and what runs of it.

use crate::options::CheckpointCallback;
use logforce_device::JoinHandle;
use logforce_device::sync::{Mutex, MutexGuard};
use logforce_format::Lsn;
use std::sync::PoisonError;

/// What runs of the callback.
#[derive(Default)]
pub(crate) struct Calls {
    /// Taken out when the log is closed.
    pub(crate) callback: Option<CheckpointCallback>,
    pub(crate) running: bool,
    pub(crate) thread: Option<Box<dyn JoinHandle>>,
    /// For which prepared end, and whether all of it was in use, the callback was called in time.
    pub(crate) notified: Option<(Lsn, bool)>,
    /// The callback was called for the appends that are waiting.
    pub(crate) called: bool,
}

/// The owner's callback.
pub(crate) struct OwnerCallback(Mutex<Calls>);

impl OwnerCallback {
    pub(crate) fn new(callback: Option<CheckpointCallback>) -> OwnerCallback {
        OwnerCallback(Mutex::new(Calls {
            callback,
            ..Calls::default()
        }))
    }

    pub(crate) fn calls(&self) -> MutexGuard<'_, Calls> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
