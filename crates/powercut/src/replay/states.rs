//! Crash states of a recording.

use super::Run;
use crate::check::Promises;
use crate::live::survivor;
use crate::report::{Cell, Coverage, Cycle, Sink};
use anyhow::Result;
use logforce_crashtest::disk::Event;
use logforce_crashtest::replay::{ReplayedDisk, places, survival};
use logforce_crashtest::testbed::Image;
use logforce_testkit::Rng;
use std::path::Path;

/// Goes through a recording once, and builds states on the way.
pub(super) struct States<'a> {
    cell: Cell,
    run: &'a Run,
    home: &'a Path,
    disk: ReplayedDisk,
    /// A state in the midst, as it was before anybody looked at it.
    middle: Option<(Image, Promises)>,
}

impl<'a> States<'a> {
    pub(super) fn new(cell: Cell, run: &'a Run, home: &'a Path) -> Result<Self> {
        Ok(States {
            cell,
            run,
            home,
            disk: ReplayedDisk::new(&run.start)?,
            middle: None,
        })
    }

    /// Builds and looks at about so many states. Answers how many counted.
    pub(super) fn some(&mut self, wanted: u64, rng: &mut Rng, sink: &Sink) -> Result<u64> {
        let events = &self.run.recorded.recording.events;
        let at = places(events, wanted, rng.bits());
        let middle = at.get(at.len() * 2 / 3).copied();
        let mut at = at.into_iter().peekable();
        let mut counted = 0;
        for (number, event) in events.iter().enumerate() {
            while at.next_if_eq(&number).is_some() {
                if sink.is_over() {
                    return Ok(counted);
                }
                // From the middle on, until one can be kept.
                let keep = middle.is_some_and(|at| at <= number) && self.middle.is_none();
                // What cannot count is looked at now and then only; where the log is made and
                // nothing was acknowledged yet, more often than where nothing can be lost.
                let chance = match self.run.has_begun(&event.counters) {
                    _ if self.disk.is_flushed() => 4,
                    false => 2,
                    true => 1,
                };
                if !keep && !rng.one_in(chance) {
                    continue;
                }
                let cycle = self.state(event, keep, rng, sink)?;
                counted += u64::from(cycle.counts());
                sink.cycle(self.cell, cycle);
            }
            self.disk.apply(event)?;
        }
        Ok(counted)
    }

    /// The power goes when `event` comes: in its midst, if it is a write.
    fn state(&mut self, event: &Event, keep: bool, rng: &mut Rng, sink: &Sink) -> Result<Cycle> {
        let survival = survival(self.cell.filesystem, rng.bits());
        let left = self.disk.cut(event, survival)?;
        let met = self.disk.met();
        let mut promises = self.run.promised(&event.counters);
        if let Some(session) = promises.sessions.last() {
            sink.session(Coverage::of(session, met.in_flight, survival.grain));
        }
        if keep && survival.grain >= 4096 {
            let image = Image::new(left.len())?;
            image.copy_from(left)?;
            self.middle = Some((image, promises.clone()));
        }
        let filesystem = self.cell.filesystem;
        let outcome = survivor(
            filesystem,
            left,
            self.home,
            self.cell.opening(),
            &mut promises,
        )?;
        sink.session(Coverage::of_repair(&outcome));
        Ok(Cycle::of(outcome, met, survival.grain))
    }

    /// A crash state, and what had been promised in it: where a second run can start.
    pub(super) fn last(&mut self) -> Option<(Image, Promises)> {
        self.middle.take()
    }
}
