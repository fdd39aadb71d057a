//! The disk of a recorded run, event by event, and what a cut would leave of it.

use crate::disk::{Cache, Event, EventKind, Met, SECTOR, Survival};
use crate::testbed::{Filesystem, Image};
use anyhow::Result;
use std::collections::HashMap;

/// The disk after the events so far.
pub struct ReplayedDisk {
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
    pub fn new(start: &Image) -> Result<ReplayedDisk> {
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
    pub fn is_flushed(&self) -> bool {
        self.cache.is_empty()
    }

    /// What a cut would meet now.
    pub fn met(&self) -> Met {
        self.cache.met()
    }

    /// Goes on behind an event.
    ///
    /// # Errors
    /// Of the images.
    pub fn apply(&mut self, event: &Event) -> Result<()> {
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
    pub fn cut(&self, event: &Event, survival: Survival) -> Result<&Image> {
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
pub fn places(events: &[Event], wanted: u64, seed: u64) -> Vec<usize> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut places: Vec<usize> = (0..wanted).map(|_| rng.usize(..events.len())).collect();
    places.sort_unstable();
    places
}

/// How much a cut of a recorded run leaves.
pub fn survival(filesystem: Filesystem, seed: u64) -> Survival {
    let mut rng = fastrand::Rng::with_seed(seed);
    Survival {
        seed: rng.u64(..),
        grain: rng.choice(filesystem.grains()).copied().unwrap_or(SECTOR),
        keep: rng.choice([0, 10, 50, 90]).unwrap_or(0),
    }
}
