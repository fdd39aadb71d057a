//! What is to be done next, and by what kind of write. Decided under the log's mutex, from what is
//! staged, what is in the air and what somebody waits for.

use super::line::{Durability, How, Kind, Launch};
use crate::Options;
use crate::stage::{Building, Stage};
use logforce_device::{Barrier, Plan};
use logforce_format::planted;
use std::time::Duration;

/// More batches than this are cheaper written plainly with one barrier after them than written
/// through one by one.
const THROUGH_AT_MOST: usize = 2;

/// How many writes may be in the air together, and when.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flying {
    /// At most so many.
    pub(crate) most: usize,
    /// A further one only for so many bytes: whoever sends off every record at once halves the
    /// records per write, and the device's writes are what limits small ones.
    pub(crate) from: usize,
}

impl Flying {
    /// What the options ask for, as far as the method allows it.
    ///
    /// Past the system's cache each write is told its own failure. Through it, Linux tells a failed
    /// write-back to whoever asks first of the file description, and each failure once: of two
    /// writes through in flight one would be told the other's, and the one that failed be told
    /// success, and acknowledged. Seen in real errors of a disk: an acknowledged record was gone.
    pub(crate) fn of(plan: Plan, options: &Options) -> Flying {
        let most = match plan.direct {
            true => options.max_in_flight_writes,
            false => 1,
        };
        Flying {
            most,
            from: options.pipeline_threshold,
        }
    }
}

/// A claimed job: nobody else writes these batches, and whoever has it must carry it out.
#[must_use]
pub(crate) struct Job {
    pub(crate) kind: Kind,
    pub(crate) batches: Vec<Building>,
    pub(crate) launch: Launch,
    /// When the oldest submission was accepted that becomes durable with it, by the log's clock.
    pub(crate) oldest_submission: Option<Duration>,
}

impl Stage {
    /// The job that somebody waits for, if it can be begun now.
    fn wanted(&self) -> Option<Kind> {
        let line = &self.line;
        let staged = self.has_staged();
        let barrier = staged && line.wants_staged(How::Barrier);
        let force = staged && line.wants_staged(How::Force);
        let write = staged && line.wants_staged(How::Write) && !line.writes_plainly();
        if barrier || force {
            let kind = self.forcing(barrier);
            // Who only wants it written does not wait for a barrier that others want.
            return kind.or((write && line.has_fence()).then_some(Kind::Plain { forces: false }));
        }
        if write {
            return Some(Kind::Plain { forces: false });
        }
        let alone = line.flights() == 0 && !line.has_fence();
        (alone && line.wants_fence()).then(|| Kind::Barrier(self.barrier()))
    }

    fn forcing(&self, barrier: bool) -> Option<Kind> {
        let line = &self.line;
        match self.durability {
            Durability::Each { through } if self.may_write_through(through || !barrier) => {
                self.may_fly().then_some(Kind::Each { through })
            }
            Durability::Weak if !barrier => self.may_fly().then_some(Kind::Plain { forces: true }),
            _ => (line.flights() == 0 && !line.has_fence()).then(|| Kind::Barrier(self.barrier())),
        }
    }

    /// A write that is durable by itself makes a force only where nothing before it is unforced.
    fn may_write_through(&self, suffices: bool) -> bool {
        let line = &self.line;
        suffices
            && (!line.has_unforced() || planted!("unforced-neighbour"))
            && !line.has_fence()
            && !line.writes_plainly()
            && self.staged_batches() <= THROUGH_AT_MOST
    }

    fn may_fly(&self) -> bool {
        match self.line.flights() {
            0 => true,
            n => n < self.flying.most && self.staged() >= self.flying.from,
        }
    }

    fn barrier(&self) -> Barrier {
        match self.durability {
            Durability::Barrier(kind) => kind,
            _ => Barrier::Data,
        }
    }

    /// Whether a full batch that nobody forces should be written, to make room.
    fn overflows(&self) -> bool {
        self.has_full() && !self.line.writes_plainly() && !self.line.wants_staged(How::Force)
    }

    /// Whether [`Stage::take`] would find a job.
    pub(crate) fn has_job(&self) -> bool {
        self.wanted().is_some()
    }

    /// Whether [`Stage::take_overflow`] would find a job.
    pub(crate) fn has_overflow(&self) -> bool {
        self.overflows()
    }

    /// Claims the job that somebody waits for.
    pub(crate) fn take(&mut self) -> Option<Job> {
        let kind = self.wanted()?;
        let batches = self.take_all();
        Some(self.launch(kind, batches, false))
    }

    /// Claims the oldest full batch, written without a force.
    pub(crate) fn take_overflow(&mut self) -> Option<Job> {
        if !self.overflows() {
            return None;
        }
        let batches = self.take_full().into_iter().collect();
        Some(self.launch(Kind::Plain { forces: false }, batches, false))
    }

    /// Claims a stamp, and what is staged before it: if nothing is in the air and there is room for
    /// one. What goes along becomes durable, and is not said to be: nobody asked.
    pub(crate) fn take_stamp(&mut self) -> Option<Job> {
        if self.line.flights() > 0 || self.line.has_fence() || !self.has_space_for_mark() {
            return None;
        }
        let quiet = self.has_staged() || self.line.written() > self.line.durable();
        self.place_mark(logforce_format::BatchKind::Stamp, None);
        let kind = self.forcing(false)?;
        let batches = self.take_all();
        Some(self.launch(kind, batches, quiet))
    }

    fn launch(&mut self, kind: Kind, mut batches: Vec<Building>, quiet: bool) -> Job {
        let launch = self.line.launch(kind, quiet, &mut batches);
        let oldest_submission = match kind {
            // Another job will force it.
            Kind::Plain { forces: false } => None,
            _ => self.oldest_submission.take(),
        };
        Job {
            kind,
            batches,
            launch,
            oldest_submission,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use logforce_device::Method;

    #[test]
    fn through_the_cache_one_write_is_in_flight() {
        let options = Options::new().max_in_flight_writes(4);
        let most = |method: Method| Flying::of(method.plan(), &options).most;
        assert_eq!(most(Method::DirectDsync), 4);
        assert_eq!(most(Method::Dsync), 1);
    }
}
