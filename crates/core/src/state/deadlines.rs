//! Deadlines of forces that no committer waits for.

use crate::sync::wake::Wake;
use logforce_format::Lsn;
use std::time::Duration;

/// A force starts this many typical force times before its deadline, so that it is done in time.
const LEAD: u32 = 4;

/// A force with a deadline.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    /// Time at which the force must start, by the log's clock.
    pub(crate) begin: Duration,
    /// LSN below which it must make everything durable.
    upto: Lsn,
}

/// Deadlines, by the log's clock.
pub(crate) struct Deadlines {
    /// Next force for commits that did not wait for one.
    next: Option<Deadline>,
    /// Moving average of the duration of a force; `None` before the first.
    usual_force: Option<Duration>,
    /// Time at which the sleeping writer thread wakes up by itself; zero while it runs.
    pub(crate) writer_wakes: Duration,
    /// Time at which the oldest submission was accepted that no job has taken yet.
    pub(crate) oldest_submission: Option<Duration>,
}

impl Deadlines {
    pub(crate) fn new() -> Self {
        Deadlines {
            next: None,
            usual_force: None,
            writer_wakes: Duration::ZERO,
            oldest_submission: None,
        }
    }

    /// Returns the time at which the next force must start.
    pub(crate) fn next(&self) -> Option<Duration> {
        self.next.map(|d| d.begin)
    }

    /// Adds the duration of a force to the average.
    pub(crate) fn note_force(&mut self, took: Duration) {
        // The average has a short memory, in which a slow force counts for a while.
        let usual = self.usual_force.unwrap_or(took);
        self.usual_force = Some((usual * 3 + took) / 4);
    }

    /// Requests that everything below `upto` becomes durable `within` this time from `now` on. Returns true
    /// if the writer thread must be woken because it would sleep longer.
    pub(crate) fn set(&mut self, now: Duration, within: Duration, upto: Lsn) -> bool {
        // Before the first force its duration is unknown.
        let usual = self.usual_force.unwrap_or(within);
        let lead = usual.saturating_mul(LEAD).min(within / 2);
        let begin = now.saturating_add(within - lead);
        let deadline = self.next.get_or_insert(Deadline { begin, upto });
        deadline.begin = deadline.begin.min(begin);
        deadline.upto = deadline.upto.max(upto);
        Wake::WriterForDeadline.if_needed(begin < self.writer_wakes)
    }

    /// Takes the force that must start by `now`. Drops it if everything up to its LSN is already `durable`.
    pub(crate) fn take_due(&mut self, now: Duration, durable: Lsn) -> Option<Lsn> {
        let deadline = self.next?;
        if durable >= deadline.upto {
            self.next = None;
            return None;
        }
        if deadline.begin > now {
            return None;
        }
        // Later requests count for the next force.
        self.next = None;
        Some(deadline.upto)
    }
}
