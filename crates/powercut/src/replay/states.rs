//! Crash states of a recording.

use super::Run;
use crate::check::{Opening, Promises};
use crate::disk::{Cache, Event, EventKind, Survival};
use crate::live::{Cell, survivor};
use crate::report::{Coverage, Cycle, Sink};
use crate::testbed::Image;
use anyhow::Result;
use logforce::Guarantee;
use logforce_testkit::Rng;
use std::collections::HashMap;
use std::path::Path;

/// Goes through a recording once, and builds states on the way.
pub(super) struct States<'a> {
    cell: Cell,
    run: &'a Run,
    home: &'a Path,
    /// What is stable after the events so far.
    stable: Image,
    cache: Cache,
    /// The cache's numbers of the disk's writes.
    numbers: HashMap<u64, u64>,
    scratch: Image,
    /// A state in the midst, as it was before anybody looked at it.
    middle: Option<(Image, Promises)>,
}

impl<'a> States<'a> {
    pub(super) fn new(cell: Cell, run: &'a Run, home: &'a Path) -> Result<Self> {
        let stable = Image::new(run.start.len())?;
        stable.copy_from(&run.start)?;
        Ok(States {
            cell,
            run,
            home,
            scratch: Image::new(stable.len())?,
            stable,
            cache: Cache::default(),
            numbers: HashMap::new(),
            middle: None,
        })
    }

    /// Builds and looks at about so many states. Answers how many counted.
    pub(super) fn some(&mut self, wanted: u64, rng: &mut Rng, sink: &Sink) -> Result<u64> {
        let events = &self.run.recording.events;
        let mut at: Vec<usize> = (0..wanted)
            .map(|_| rng.below(events.len() as u64) as usize)
            .collect();
        at.sort_unstable();
        let middle = at.get(at.len() * 2 / 3).copied();
        let mut at = at.into_iter().peekable();
        let mut counted = 0;
        for (number, event) in events.iter().enumerate() {
            while at.next_if_eq(&number).is_some() {
                if sink.is_over() {
                    return Ok(counted);
                }
                let keep = middle == Some(number) && self.middle.is_none();
                // What cannot count is looked at now and then only; where the log is made and
                // nothing was acknowledged yet, more often than where nothing can be lost.
                let chance = match self.run.has_begun(&event.counters) {
                    _ if self.cache.is_empty() => 4,
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
            self.apply(event)?;
        }
        Ok(counted)
    }

    /// The disk after an event.
    fn apply(&mut self, event: &Event) -> Result<()> {
        match event.kind {
            EventKind::Write | EventKind::WriteHeld => {
                let held = event.kind == EventKind::WriteHeld;
                let number = self.cache.write(event.offset, &event.data, held);
                self.numbers.insert(event.id, number);
            }
            EventKind::Complete => {
                if let Some(number) = self.numbers.remove(&event.id) {
                    self.cache.complete(number);
                }
            }
            EventKind::Flush => self.cache.flush(self.stable.file())?,
        }
        Ok(())
    }

    /// The power goes when `event` comes: in its midst, if it is a write.
    fn state(&mut self, event: &Event, keep: bool, rng: &mut Rng, sink: &Sink) -> Result<Cycle> {
        let survival = Survival {
            seed: rng.bits(),
            grain: rng.pick(self.cell.filesystem.grains()),
            keep: rng.pick(&[0, 10, 50, 90]),
        };
        self.scratch.copy_from(&self.stable)?;
        let mut torn = Cache::default();
        if matches!(event.kind, EventKind::Write | EventKind::WriteHeld) {
            torn.write(event.offset, &event.data, true);
        }
        self.cache.survive(survival, self.scratch.file())?;
        torn.survive(survival, self.scratch.file())?;
        let met = self.cache.met();
        let mut promises = self.run.promised(&event.counters);
        if let Some(session) = promises.sessions.last() {
            sink.session(Coverage::of(session, met.in_flight, survival.grain));
        }
        if keep && survival.grain >= 4096 {
            let image = Image::new(self.scratch.len())?;
            image.copy_from(&self.scratch)?;
            self.middle = Some((image, promises.clone()));
        }
        let opening = Opening {
            method: self.cell.method(),
            claims: Guarantee::PowerLoss,
        };
        let filesystem = self.cell.filesystem;
        let outcome = survivor(filesystem, &self.scratch, self.home, opening, &mut promises)?;
        Ok(Cycle::of(outcome, met, survival.grain))
    }

    /// A crash state, and what had been promised in it: where a second run can start.
    pub(super) fn last(&mut self) -> Option<(Image, Promises)> {
        self.middle.take()
    }
}
