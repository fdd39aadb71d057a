//! The owner's checkpoint callback, which frees space in a log that is at its cap.

use crate::options::CheckpointCallback;
use logforce_device::JoinHandle;
use logforce_device::sync::{Mutex, MutexGuard};
use logforce_format::Lsn;
use std::sync::PoisonError;

/// The callback and its state.
#[derive(Default)]
pub(crate) struct CallbackState {
    /// `None` once the log is closed.
    pub(crate) callback: Option<CheckpointCallback>,
    pub(crate) running: bool,
    pub(crate) thread: Option<Box<dyn JoinHandle>>,
    /// The last early call: for which prepared end, and whether the last segment was in use then.
    pub(crate) notified: Option<(Lsn, bool)>,
    /// The callback was called for the appends that wait now.
    pub(crate) called: bool,
}

/// The owner's checkpoint callback.
pub(crate) struct OwnerCallback(Mutex<CallbackState>);

impl OwnerCallback {
    pub(crate) fn new(callback: Option<CheckpointCallback>) -> OwnerCallback {
        OwnerCallback(Mutex::new(CallbackState {
            callback,
            ..CallbackState::default()
        }))
    }

    pub(crate) fn calls(&self) -> MutexGuard<'_, CallbackState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
