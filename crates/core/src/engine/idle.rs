//! Closing the files of a log that is idle.

use crate::engine::Engine;
use crate::engine::membership::Membership;

impl Engine {
    /// Closes the files that no write needs now, except the lock: the log is idle, or other logs of its
    /// environment need the descriptors. Returns whether it did.
    pub(crate) fn close_files(&self, membership: &Membership) -> bool {
        let segments = self.view.segments().all();
        let closed: Vec<_> = {
            let mut state = self.state();
            // A barrier must use the handle that wrote: through another one it would not report that
            // the write-back failed.
            if !state.pipeline.is_idle() {
                return false;
            }
            // Memory too.
            state.buffer.shrink();
            // Before they are closed: who opens one meanwhile wakes the writer.
            membership.files.note_closing();
            segments.iter().filter_map(|s| s.take_handle()).collect()
        };
        // Without the mutex: closing may take its time.
        drop(closed);
        true
    }
}
