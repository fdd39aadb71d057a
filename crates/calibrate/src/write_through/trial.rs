//! The trial that measures write-through against barriers.

use super::decide::Pairs;
use crate::scratch::{Scratch, remove_stale_files};
use logforce_device::write_out::{Run, Writers};
use logforce_device::{Barrier, Directory, Facts, File, Runtime};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Measured commits: one run with each of these numbers of units, then each of these numbers of runs with one
/// unit.
const UNITS_OF_ONE_RUN: [u64; 4] = [1, 16, 64, 256];
const RUNS: [u32; 5] = [2, 4, 8, 16, 32];

/// Number of first turns that are not counted, while caches warm up and the device wakes.
const WARM_UP: usize = 2;

/// Number of threads if the system has no queue for writes: the default of a page file.
const THREADS: usize = 8;

/// Maximum number of turns.
const MOST: usize = 400;

/// Measures in `dir` within `budget`, in units of `unit` bytes, with the writers of a page file. Each turn
/// makes two commits of each shape: one by write-through, one by a barrier.
///
/// Always removes the file in the end.
pub(super) fn measure(
    dir: &Arc<dyn Directory>,
    runtime: &Arc<dyn Runtime>,
    facts: &Facts,
    unit: u32,
    budget: Duration,
) -> io::Result<Vec<Pairs>> {
    let began = runtime.now();
    // Reserves time to remove the file.
    let end = began + budget - budget / 16;
    remove_stale_files(dir);
    let direct = facts
        .direct
        .is_some_and(|d| unit.is_multiple_of(d.offset.max(1)));
    let prepared_by = began + budget / 5;
    let mut scratch = Scratch::make(
        dir,
        &**runtime,
        facts.kind,
        unit,
        (!direct, direct),
        prepared_by,
    )?;
    let file = scratch.next(direct, u64::from(unit)).map(|(file, _)| file);
    let file = file.ok_or_else(not_prepared)?;
    let mut commits = Commits {
        scratch,
        writers: Writers::start(runtime, &file, THREADS, (unit as usize).max(4096))?,
        file,
        direct,
        unit: u64::from(unit),
        random: runtime.random(),
        number: 0,
    };
    let mut shapes: Vec<Pairs> = shapes(unit);
    let mut longest = vec![Duration::ZERO; shapes.len()];
    'all: for turn in 0..MOST {
        for (shape, longest) in shapes.iter_mut().zip(&mut longest) {
            let mut times = [Duration::ZERO; 2];
            commits.random ^= commits.random << 13;
            commits.random ^= commits.random >> 7;
            commits.random ^= commits.random << 17;
            let first = (commits.random & 1) as usize;
            for way in [first, 1 - first] {
                if runtime.now() + 2 * *longest > end {
                    break 'all;
                }
                let runs = commits.runs(shape)?;
                let start = runtime.now();
                commits.commit(runs, way == 0)?;
                times[way] = runtime.now().saturating_sub(start);
                *longest = times[way].max(*longest / 2);
            }
            if turn >= WARM_UP {
                shape.times.push((times[0], times[1]));
            }
        }
    }
    drop((commits.writers, commits.file));
    commits.scratch.remove()?;
    Ok(shapes)
}

fn not_prepared() -> io::Error {
    io::Error::other("internal error: the trial's file was not prepared")
}

fn shapes(unit: u32) -> Vec<Pairs> {
    let unit = u64::from(unit);
    let one = UNITS_OF_ONE_RUN.map(|units| (1, units * unit));
    let many = RUNS.map(|runs| (runs, u64::from(runs) * unit));
    one.into_iter()
        .chain(many)
        .map(|(runs, bytes)| Pairs {
            runs,
            bytes,
            times: Vec::new(),
        })
        .collect()
}

struct Commits<'a> {
    scratch: Scratch<'a>,
    file: Arc<dyn File>,
    writers: Writers,
    direct: bool,
    unit: u64,
    random: u64,
    number: u64,
}

impl Commits<'_> {
    /// Returns the runs that a commit of that shape writes.
    fn runs(&mut self, shape: &Pairs) -> io::Result<Vec<Run>> {
        let length = shape.bytes / u64::from(shape.runs.max(1));
        let mut runs = Vec::new();
        for _ in 0..shape.runs {
            let place = self.scratch.next(self.direct, length);
            let Some((_, offset)) = place else {
                return Err(not_prepared());
            };
            // Leaves out a unit, so that two runs never touch.
            if shape.runs > 1 {
                let _ = self.scratch.next(self.direct, self.unit);
            }
            let mut bytes = vec![0; length as usize];
            // Makes every block differ from the one before, so that no device can deduplicate or skip it.
            for block in bytes.chunks_mut(512) {
                self.number += 1;
                let stamp = (self.random ^ self.number).to_le_bytes();
                let n = block.len().min(stamp.len());
                block[..n].copy_from_slice(&stamp[..n]);
            }
            let pieces = vec![bytes.into()];
            runs.push(Run { offset, pieces });
        }
        Ok(runs)
    }

    fn commit(&self, runs: Vec<Run>, through: bool) -> io::Result<()> {
        self.writers.write(runs, through)?;
        match through {
            true => Ok(()),
            false => self.file.barrier(Barrier::Data),
        }
    }
}
