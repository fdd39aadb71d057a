//! When the writer thread checks that the log is still where it was opened.

use crate::engine::location::Location;
use crate::state::pipeline::WritePipeline;
use logforce_device::NamedFiles;
use logforce_format::Lsn;
use std::time::Duration;

/// The writer thread's last check.
pub(crate) struct LastCheck {
    /// How far the log was written and durable.
    outcome: (Lsn, Lsn),
    at: Option<Duration>,
}

/// When to check next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    /// Not before the next write is done.
    No,
    At(Duration),
    Now,
}

impl LastCheck {
    /// Counts the opening as the last check.
    pub(crate) fn new(location: &Location) -> Self {
        LastCheck {
            outcome: (location.opened_at, location.opened_at),
            at: None,
        }
    }

    /// When to check. If it is due now, this counts it as done.
    pub(crate) fn due(&mut self, pipeline: &WritePipeline, now: Duration) -> Due {
        let outcome = (pipeline.written(), pipeline.durable());
        match self.at.map(|at| at.saturating_add(NamedFiles::CHECK_EVERY)) {
            // Also if nothing was written since: the thread wakes by itself, and the next committer
            // need not wake it.
            Some(next) if next > now => Due::At(next),
            _ if outcome == self.outcome => Due::No,
            _ => {
                self.outcome = outcome;
                self.at = Some(now);
                Due::Now
            }
        }
    }
}
