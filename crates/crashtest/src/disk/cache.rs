//! Volatile cache of a disk: the writes that are not stable yet, which a power cut may lose.

use std::collections::{BTreeSet, VecDeque};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Bytes of a sector, the unit of counting. Offsets and lengths of all writes are multiples of it.
pub const SECTOR: u64 = 512;

/// A piece of a write, which a power cut keeps or loses as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Piece {
    /// Number of the write.
    pub write: u64,
    /// Offset on the disk, bytes.
    pub offset: u64,
    /// Length, bytes.
    pub len: u64,
}

/// A write that is not stable yet.
#[derive(Debug)]
struct Pending {
    id: u64,
    offset: u64,
    data: Vec<u8>,
    /// True until its completion is reported. Until then no flush covers it.
    in_flight: bool,
    /// Sectors that a later write made stable before this one.
    overtaken: BTreeSet<u64>,
}

impl Pending {
    fn end(&self) -> u64 {
        self.offset + self.data.len() as u64
    }

    fn sectors(&self) -> std::ops::Range<u64> {
        self.offset / SECTOR..self.end().div_ceil(SECTOR)
    }

    /// Writes the pieces of `grain` bytes for which `keep` returns true, without overtaken sectors.
    fn apply(&self, grain: u64, to: &File, mut keep: impl FnMut(Piece) -> bool) -> io::Result<()> {
        let mut at = self.offset;
        while at < self.end() {
            let piece_end = ((at / grain + 1) * grain).min(self.end());
            let piece = Piece {
                write: self.id,
                offset: at,
                len: piece_end - at,
            };
            if keep(piece) {
                self.apply_piece(at, piece_end, to)?;
            }
            at = piece_end;
        }
        Ok(())
    }

    fn apply_piece(&self, start: u64, end: u64, to: &File) -> io::Result<()> {
        let bytes =
            |a: u64, b: u64| &self.data[(a - self.offset) as usize..(b - self.offset) as usize];
        if self.overtaken.is_empty() {
            return to.write_all_at(bytes(start, end), start);
        }
        let mut at = start;
        while at < end {
            let next = ((at / SECTOR + 1) * SECTOR).min(end);
            if !self.overtaken.contains(&(at / SECTOR)) {
                to.write_all_at(bytes(at, next), at)?;
            }
            at = next;
        }
        Ok(())
    }
}

/// Part of the unflushed data that survives a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Survival {
    /// Seed of the random choice.
    pub seed: u64,
    /// Bytes that survive or vanish together, at least [`SECTOR`]. A smaller grain tears more writes.
    pub grain: u64,
    /// Percentage of the grains that survive.
    pub keep: u64,
}

impl Survival {
    /// Returns the random choice of the pieces that survive.
    pub fn choice(self) -> impl FnMut(Piece) -> bool {
        let mut rng = fastrand::Rng::with_seed(self.seed);
        move |_| rng.u64(..100) < self.keep
    }
}

/// Amount of unflushed data at a power cut. A write during which the power is cut does not count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Met {
    /// Sectors that were written and not flushed, including those in flight.
    pub unflushed_sectors: u64,
    /// Writes whose completion had not been reported.
    pub in_flight: u64,
}

/// Writes that are not stable, in order of arrival.
#[derive(Debug, Default)]
pub struct Cache {
    pending: VecDeque<Pending>,
    next: u64,
}

impl Cache {
    /// Adds a write and returns its number. If `in_flight`, it is in flight until [`complete`](Self::complete).
    pub fn write(&mut self, offset: u64, data: &[u8], in_flight: bool) -> u64 {
        let id = self.next;
        self.next += 1;
        self.pending.push_back(Pending {
            id,
            offset,
            data: data.to_vec(),
            in_flight,
            overtaken: BTreeSet::new(),
        });
        id
    }

    /// Marks a write as completed: the next flush covers it.
    pub fn complete(&mut self, id: u64) {
        if let Some(p) = self.pending.iter_mut().find(|p| p.id == id) {
            p.in_flight = false;
        }
    }

    /// Makes every completed write stable.
    ///
    /// # Errors
    /// If `stable` cannot be written.
    pub fn flush(&mut self, stable: &File) -> io::Result<()> {
        let mut left: VecDeque<Pending> = VecDeque::new();
        for write in std::mem::take(&mut self.pending) {
            if write.in_flight {
                left.push_back(write);
                continue;
            }
            write.apply(u64::MAX, stable, |_| true)?;
            // An earlier write that is still in flight must not overwrite these newer bytes later.
            let sectors = write.sectors();
            for earlier in &mut left {
                let (a, b) = (earlier.sectors(), &sectors);
                let both = a.start.max(b.start)..a.end.min(b.end);
                earlier.overtaken.extend(both);
            }
        }
        self.pending = left;
        Ok(())
    }

    /// Writes the surviving part of the unflushed data to `to`, which holds the stable data.
    ///
    /// # Errors
    /// If `to` cannot be written.
    pub fn survive(&self, survival: Survival, to: &File) -> io::Result<()> {
        self.survive_if(survival.grain, to, &mut survival.choice())
    }

    /// Writes the pieces of `grain` bytes for which `keep` returns true to `to`, which holds the stable data.
    ///
    /// # Errors
    /// If `to` cannot be written.
    pub fn survive_if(
        &self,
        grain: u64,
        to: &File,
        keep: &mut dyn FnMut(Piece) -> bool,
    ) -> io::Result<()> {
        for write in &self.pending {
            write.apply(grain.max(SECTOR), to, &mut *keep)?;
        }
        Ok(())
    }

    /// Creates a cache whose writes are numbered after those of this one.
    pub fn following(&self) -> Cache {
        Cache {
            pending: VecDeque::new(),
            next: self.next,
        }
    }

    /// Returns true if everything that was written is stable.
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Returns the amount of unflushed data that a power cut would meet now.
    pub fn met(&self) -> Met {
        let sectors: BTreeSet<u64> = self.pending.iter().flat_map(Pending::sectors).collect();
        Met {
            unflushed_sectors: sectors.len() as u64,
            in_flight: self.pending.iter().filter(|p| p.in_flight).count() as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testbed::Image;

    const ALL: Survival = Survival {
        seed: 1,
        grain: 512,
        keep: 100,
    };
    const NONE: Survival = Survival { keep: 0, ..ALL };

    fn at(image: &Image, sector: u64) -> u8 {
        let mut byte = [0];
        image
            .file()
            .read_exact_at(&mut byte, sector * SECTOR)
            .unwrap();
        byte[0]
    }

    #[test]
    fn only_what_was_completed_and_flushed_is_sure() {
        let stable = Image::new(1 << 20).unwrap();
        let mut cache = Cache::default();
        cache.write(0, &[1; 512], false);
        let held = cache.write(512, &[2; 512], true);
        cache.flush(stable.file()).unwrap();
        cache.write(1024, &[3; 1024], false);
        let met = cache.met();
        assert_eq!((met.unflushed_sectors, met.in_flight), (3, 1));
        cache.survive(NONE, stable.file()).unwrap();
        assert_eq!([0, 1, 2, 3].map(|s| at(&stable, s)), [1, 0, 0, 0]);
        cache.complete(held);
        cache.flush(stable.file()).unwrap();
        assert_eq!([0, 1, 2, 3].map(|s| at(&stable, s)), [1, 2, 3, 3]);
        assert_eq!(cache.met(), Met::default());
    }

    #[test]
    fn writes_tear_at_the_grain() {
        let torn = |grain| {
            let stable = Image::new(1 << 20).unwrap();
            let mut cache = Cache::default();
            cache.write(0, &[1; 64 << 10], false);
            let half = Survival {
                seed: 5,
                grain,
                keep: 50,
            };
            cache.survive(half, stable.file()).unwrap();
            (0..128).map(|s| at(&stable, s)).collect::<Vec<_>>()
        };
        let fine = torn(512);
        assert!(fine.chunks(8).any(|c| c.contains(&0) && c.contains(&1)));
        let coarse = torn(4096);
        assert!(coarse.chunks(8).all(|c| c.iter().all(|b| *b == c[0])));
        assert!(coarse.contains(&0) && coarse.contains(&1));
    }

    #[test]
    fn an_old_write_that_ends_late_does_not_undo_a_new_one() {
        let stable = Image::new(1 << 20).unwrap();
        let mut cache = Cache::default();
        cache.write(0, &[1; 1024], true);
        cache.write(512, &[2; 512], false);
        cache.flush(stable.file()).unwrap();
        cache.survive(ALL, stable.file()).unwrap();
        assert_eq!([at(&stable, 0), at(&stable, 1)], [1, 2]);
    }
}
