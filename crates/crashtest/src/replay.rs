//! Replay of a recorded disk, event by event, and the images that a power cut would leave.

use crate::disk::{Cache, Event, EventKind, Met, Piece, SECTOR, Survival};
use crate::testbed::{Filesystem, Image};
use anyhow::Result;
use std::collections::HashMap;

/// Disk after the events applied so far.
pub(crate) struct ReplayedDisk {
    stable: Image,
    cache: Cache,
    /// Numbers of writes in `cache`, by their numbers in the recording.
    numbers: HashMap<u64, u64>,
    /// Image that the latest power cut left.
    left: Image,
}

impl ReplayedDisk {
    /// Creates the disk before the first event, as a copy of `start`.
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

    /// Returns true if a power cut now would lose nothing.
    pub(crate) fn is_flushed(&self) -> bool {
        self.cache.is_empty()
    }

    /// Returns the amount of unflushed data that a power cut would meet now.
    pub(crate) fn met(&self) -> Met {
        self.cache.met()
    }

    /// Applies an event.
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

    /// Returns the image that a power cut leaves when `event` comes: during the event if it is a write, otherwise
    /// before it. The next call overwrites the image.
    pub(crate) fn cut(&self, event: &Event, survival: Survival) -> Result<&Image> {
        self.cut_keeping(event, survival.grain, &mut survival.choice())
    }

    /// Returns the image of [`cut`](Self::cut) in which the pieces of `grain` bytes survive for which `keep` returns
    /// true. A piece names its write by the number of writes before it in the recording.
    pub(crate) fn cut_keeping(
        &self,
        event: &Event,
        grain: u64,
        keep: &mut dyn FnMut(Piece) -> bool,
    ) -> Result<&Image> {
        self.left.copy_from(&self.stable)?;
        let mut torn = self.cache.following();
        if matches!(event.kind, EventKind::Write | EventKind::WriteHeld) {
            torn.write(event.offset, &event.data, true);
        }
        self.cache.survive_if(grain, self.left.file(), keep)?;
        torn.survive_if(grain, self.left.file(), keep)?;
        Ok(&self.left)
    }
}

/// Chooses `wanted` indexes of events at which to cut the power, sorted. An index may occur more than once.
pub(crate) fn places(events: &[Event], wanted: u64, seed: u64) -> Vec<usize> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut places: Vec<usize> = (0..wanted).map(|_| rng.usize(..events.len())).collect();
    places.sort_unstable();
    places
}

/// Chooses the part of the unflushed data that survives a power cut of a recorded run.
pub(crate) fn survival(filesystem: Filesystem, seed: u64) -> Survival {
    let mut rng = fastrand::Rng::with_seed(seed);
    Survival {
        seed: rng.u64(..),
        grain: rng.choice(filesystem.grains()).copied().unwrap_or(SECTOR),
        keep: rng.choice([0, 10, 50, 90]).unwrap_or(0),
    }
}
