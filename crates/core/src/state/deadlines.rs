//! By when something must be done that no committer waits for.

use crate::sync::wake::Wake;
use logforce_format::Lsn;
use std::time::Duration;

/// How many usual forces before the deadline one is begun, so that it is done in time.
const LEAD: u32 = 4;

/// A force that is due some time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    /// When it is to be begun, by the log's clock.
    pub(crate) begin: Duration,
    /// How far it must reach.
    upto: Lsn,
}

/// What is due when, by the log's clock.
pub(crate) struct Deadlines {
    /// The force for commits that did not wait for one.
    next: Option<Deadline>,
    /// How long a force usually takes, after the first.
    usual_force: Option<Duration>,
    /// When the writer thread will look again by itself; zero while it is at work.
    pub(crate) writer_wakes: Duration,
    /// When the oldest submission was accepted that no job was handed.
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

    /// When the next force is to be begun.
    pub(crate) fn next(&self) -> Option<Duration> {
        self.next.map(|d| d.begin)
    }

    /// Takes note of how long a force took.
    pub(crate) fn note_force(&mut self, took: Duration) {
        // Follows the last few, so that one that was slow counts for a while.
        let usual = self.usual_force.unwrap_or(took);
        self.usual_force = Some((usual * 3 + took) / 4);
    }

    /// Notes that everything below `upto` is to be durable `within` of `now`. Answers whether the
    /// writer thread must be woken, because it would sleep longer.
    pub(crate) fn set(&mut self, now: Duration, within: Duration, upto: Lsn) -> bool {
        // Before the first force nobody knows how long one takes.
        let usual = self.usual_force.unwrap_or(within);
        let lead = usual.saturating_mul(LEAD).min(within / 2);
        let begin = now.saturating_add(within - lead);
        let deadline = self.next.get_or_insert(Deadline { begin, upto });
        deadline.begin = deadline.begin.min(begin);
        deadline.upto = deadline.upto.max(upto);
        begin < self.writer_wakes && !Wake::WriterForDeadline.is_forgotten()
    }

    /// Takes out the force that is to be begun by now. One that somebody else has done meanwhile,
    /// since all below `durable` is, is forgotten.
    pub(crate) fn take_due(&mut self, now: Duration, durable: Lsn) -> Option<Lsn> {
        let deadline = self.next?;
        if durable >= deadline.upto {
            self.next = None;
            return None;
        }
        if deadline.begin > now {
            return None;
        }
        // What is asked for from now on is another force's.
        self.next = None;
        Some(deadline.upto)
    }
}
