use crate::log::Shared;
use crate::stage::Stage;
use logforce_device::Guarantee;
use logforce_format::{Lsn, planted};
use std::time::Duration;

/// What a commit waits for, and by when what it did not wait for is forced.
///
/// What is returned says the guarantee that was reached, which may be more: a record that goes
/// along with somebody else's force is durable with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Policy {
    /// Each commit returns when its record is durable.
    #[default]
    Force,
    /// Each commit returns when its record is written: handed to the operating system, or past its
    /// cache to the device, as the method has it. It survives a crash of the process. A force
    /// follows within the interval, if none comes sooner.
    Write {
        /// How long a record may stay unforced.
        force_within: Duration,
    },
    /// Each commit returns when its record is staged: it survives nothing. It is written and forced
    /// within the interval, if that does not happen sooner.
    Interval {
        /// How long a record may stay in memory.
        within: Duration,
    },
}

/// A force that is owed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Owed {
    /// When it is to be begun, by the log's clock.
    pub(crate) begin: Duration,
    /// How far it must reach.
    pub(crate) upto: Lsn,
}

/// How many usual forces before the deadline one is begun, so that it is done in time.
const LEAD: u32 = 4;

impl Stage {
    /// Takes note of how long a force took.
    pub(crate) fn note_force(&mut self, took: Duration) {
        // Follows the last few, so that one that was slow counts for a while.
        let usual = self.usual_force.unwrap_or(took);
        self.usual_force = Some((usual * 3 + took) / 4);
    }

    /// Notes that everything below `upto` is to be durable `within` of `now`. Answers whether the
    /// writing thread must be told, because it would sleep longer.
    pub(crate) fn owe(&mut self, now: Duration, within: Duration, upto: Lsn) -> bool {
        // Before the first force nobody knows how long one takes.
        let usual = self.usual_force.unwrap_or(within);
        let lead = usual.saturating_mul(LEAD).min(within / 2);
        let begin = now.saturating_add(within - lead);
        let owed = self.owed.get_or_insert(Owed { begin, upto });
        owed.begin = owed.begin.min(begin);
        owed.upto = owed.upto.max(upto);
        begin < self.service_wakes && !planted!("wake-work-for-deadline")
    }

    /// Takes out the force that is owed, if it is to be begun by now. One that somebody else has
    /// done meanwhile is forgotten.
    pub(crate) fn take_due(&mut self, now: Duration) -> Option<Lsn> {
        let owed = self.owed?;
        if self.line.durable() >= owed.upto {
            self.owed = None;
            return None;
        }
        if owed.begin > now {
            return None;
        }
        // What is owed from now on is another force's.
        self.owed = None;
        Some(owed.upto)
    }
}

impl Shared {
    /// What the records below `end` survive now.
    pub(crate) fn guarantee_at(&self, end: Lsn) -> Guarantee {
        if self.durable() >= end {
            self.guarantee
        } else if self.written() >= end {
            if planted!("guarantee-overstated") {
                return Guarantee::PowerLoss;
            }
            self.written_guarantee
        } else {
            Guarantee::Nothing
        }
    }
}
