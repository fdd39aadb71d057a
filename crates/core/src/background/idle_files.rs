//! Closing the files of a log in an environment that is idle.

use crate::engine::Engine;
use crate::engine::membership::Membership;
use logforce_format::Lsn;
use std::time::Duration;

/// The files of a log stay open this long after its last write.
const AFTER: Duration = Duration::from_secs(1);

/// What the writer remembers of its log's files.
#[derive(Default)]
pub(crate) struct IdleFiles {
    /// What was written when it looked last, and since when.
    seen: Option<(Lsn, Duration)>,
}

impl IdleFiles {
    /// Closes the files if it is time to. Returns when to look again, unless woken.
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
        // A write is in progress, or none was forced since: the next one wakes the writer.
        Some(now + AFTER)
    }
}

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
