//! The disk of a recorded run, event by event, and what a cut would leave of it.

use crate::disk::{Cache, Event, EventKind, Met, Survival};
use crate::testbed::{Filesystem, Image};
use anyhow::Result;
use logforce_testkit::Rng;
use std::collections::HashMap;

/// The disk after the events so far.
pub(crate) struct ReplayedDisk {
    stable: Image,
    cache: Cache,
    /// The cache's numbers of the disk's writes.
    numbers: HashMap<u64, u64>,
    /// What a cut left.
    left: Image,
}

impl ReplayedDisk {
    /// Before the first event.
    ///
    /// # Errors
    /// Where there is no memory.
    pub(crate) fn new(start: &Image) -> Result<ReplayedDisk> {
        let stable = Image::new(start.len())?;
        stable.copy_from(start)?;
        Ok(ReplayedDisk {
            left: Image::new(start.len())?,
            stable,
            cache: Cache::default(),
            numbers: HashMap::new(),
        })
    }

    /// Whether a cut could take nothing.
    pub(crate) fn is_flushed(&self) -> bool {
        self.cache.is_empty()
    }

    /// What a cut would meet now.
    pub(crate) fn met(&self) -> Met {
        self.cache.met()
    }

    /// Goes on behind an event.
    ///
    /// # Errors
    /// Of the images.
    pub(crate) fn apply(&mut self, event: &Event) -> Result<()> {
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

    /// What is left if the power goes when `event` comes: in its midst, if it is a write.
    ///
    /// # Errors
    /// Of the images.
    pub(crate) fn cut(&self, event: &Event, survival: Survival) -> Result<&Image> {
        self.left.copy_from(&self.stable)?;
        let mut torn = Cache::default();
        if matches!(event.kind, EventKind::Write | EventKind::WriteHeld) {
            torn.write(event.offset, &event.data, true);
        }
        self.cache.survive(survival, self.left.file())?;
        torn.survive(survival, self.left.file())?;
        Ok(&self.left)
    }
}

/// At which events of a recording the power goes, in order: about `wanted` of them.
pub(crate) fn places(events: &[Event], wanted: u64, rng: &mut Rng) -> Vec<usize> {
    let mut places: Vec<usize> = (0..wanted)
        .map(|_| rng.below(events.len() as u64) as usize)
        .collect();
    places.sort_unstable();
    places
}

/// How much a cut of a recorded run leaves.
pub(crate) fn survival(filesystem: Filesystem, rng: &mut Rng) -> Survival {
    Survival {
        seed: rng.bits(),
        grain: rng.pick(filesystem.grains()),
        keep: rng.pick(&[0, 10, 50, 90]),
    }
}
