//! Closing the files of an idle log in an environment.

use crate::engine::Engine;
use crate::engine::membership::Membership;
use logforce_format::Lsn;
use std::time::Duration;

/// The files of a log stay open this long after its last write.
const AFTER: Duration = Duration::from_secs(1);

/// The writer's record of its log's activity, which tells it when the files are idle.
#[derive(Default)]
pub(crate) struct IdleFiles {
    /// The written LSN at the last check, and the time since when it has not changed.
    seen: Option<(Lsn, Duration)>,
}

impl IdleFiles {
    /// Closes the files if the log is idle or other logs need the descriptors. Returns the time of the next
    /// check, or `None` if none is needed until the writer is woken.
    pub(crate) fn look_after(&mut self, engine: &Engine, now: Duration) -> Option<Duration> {
        let membership = engine.membership.as_ref()?;
        if !membership.files.are_open() {
            self.seen = None;
            return None;
        }
        let written = engine.written();
        let since = match self.seen {
            Some((before, since)) if before == written => since,
            _ => now,
        };
        self.seen = Some((written, since));
        let due = since + AFTER;
        if due > now && !membership.files.must_close() {
            return Some(due);
        }
        if engine.close_files(membership) {
            self.seen = None;
            return None;
        }
        // A job is in progress, or written records are not forced yet: checks again later.
        Some(now + AFTER)
    }
}

impl Engine {
    /// Closes the log's files, except the lock. Closes nothing and returns false if a job is in progress
    /// or written records are not forced yet.
    pub(crate) fn close_files(&self, membership: &Membership) -> bool {
        let segments = self.view.segments().all();
        let closed: Vec<_> = {
            let mut state = self.state();
            // A barrier must use the handle that wrote. Another handle would not report that the
            // write-back failed.
            if !state.pipeline.is_idle() {
                return false;
            }
            state.buffer.shrink();
            // Before the files are closed, so that a thread that opens one meanwhile wakes the writer.
            membership.files.note_closing();
            segments.iter().filter_map(|s| s.take_handle()).collect()
        };
        // Closing a file may take long: not with the mutex held.
        drop(closed);
        true
    }
}
