//! Runs one rival once: open, commit for a while, close, read everything back.

use super::place::Ground;
use super::records::{FoundRecords, Records};
use super::rival::{InProcess, Kept, Opened, Rival, RivalRun, Shape, Turn, Until, WARM_UP, Way};
use anyhow::{Context, Result, anyhow};
use logforce_measure::workers::{Step, Work, together};
use logforce_measure::{Interrupt, Limit, MeasureError, Recorder};
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Instant;

/// Runs a rival in a new directory, which is removed afterwards. A panic in the rival becomes an error.
///
/// # Errors
/// Returns the rival's error.
pub fn run(
    rival: &dyn Rival,
    ground: &Ground,
    shape: Shape,
    until: Until,
    interrupt: &Interrupt,
) -> Result<RivalRun> {
    let dir = ground.fresh(rival.name())?;
    let here = match rival.way() {
        Way::Here(here) => here,
        Way::Apart(apart) => {
            return apart.turn(&Turn {
                dir: dir.path(),
                shape,
                until,
                counters: &*ground.counters(),
                interrupt,
            });
        }
    };
    let mut recorder = Recorder::new(ground.counters(), interrupt.clone());
    let run = AssertUnwindSafe(|| in_directory(here, dir.path(), shape, until, &mut recorder));
    catch_unwind(run).unwrap_or_else(|_| Err(anyhow!("it panicked")))
}

fn in_directory(
    rival: &dyn InProcess,
    dir: &Path,
    shape: Shape,
    until: Until,
    recorder: &mut Recorder,
) -> Result<RivalRun> {
    let opened = rival.open(dir, shape).context("open")?;
    // Writes prepared data to the device now, and not during the first commit.
    let whole = File::open(dir)?;
    rustix::fs::syncfs(&whole)?;
    let acknowledged = commit(&*opened, shape, until, recorder).context("commit")?;
    opened.close().context("close")?;
    let mut found = FoundRecords::new(shape.threads, shape.record)?;
    let keeps = rival
        .read_back(dir, shape, &mut found)
        .context("read back")?;
    let device = recorder.device();
    Ok(RivalRun {
        commits: recorder.commits(),
        took: recorder.time(),
        p50_us: recorder.latencies().quantile_us(0.5),
        p99_us: recorder.latencies().quantile_us(0.99),
        p999_us: recorder.latencies().quantile_us(0.999),
        flushes: device.and_then(|d| d.flushes),
        writes: device.map(|d| d.writes),
        kept: keeps.then(|| Kept {
            acknowledged: acknowledged.iter().sum(),
            missing: found.missing(&acknowledged),
            foreign: found.foreign,
        }),
    })
}

/// Commits by several threads. Returns each thread's number of acknowledged records, which are its first
/// ones.
fn commit(
    opened: &dyn Opened,
    shape: Shape,
    until: Until,
    recorder: &mut Recorder,
) -> Result<Vec<u64>> {
    let (warm_up, limit) = match until {
        Until::Time(time) => (
            WARM_UP,
            Limit {
                commits: u64::MAX,
                time: Some(time),
            },
        ),
        Until::Count(commits) => (
            0,
            Limit {
                commits,
                time: None,
            },
        ),
    };
    let work = Commits {
        opened,
        record: shape.record,
        warm_up,
    };
    recorder.begin_slice();
    let threads = u32::try_from(shape.threads)?;
    let writers = together(&work, threads, &limit, recorder)?;
    let mut acknowledged = vec![0; shape.threads];
    for writer in writers {
        acknowledged[writer.id] = writer.acknowledged;
    }
    Ok(acknowledged)
}

/// Work of the threads.
struct Commits<'a> {
    opened: &'a dyn Opened,
    record: usize,
    warm_up: u64,
}

/// One thread.
struct Writer {
    id: usize,
    records: Records,
    acknowledged: u64,
}

impl Commits<'_> {
    /// Commits the next record. Returns the time at which the commit started.
    fn one(&self, writer: &mut Writer) -> Result<Instant, MeasureError> {
        let (number, record) = writer.records.following();
        let began = Instant::now();
        let committed = self.opened.commit(writer.id, number, record);
        committed.map_err(|e| MeasureError::NotOffered(format!("{e:#}")))?;
        writer.acknowledged += 1;
        Ok(began)
    }
}

impl Work for Commits<'_> {
    type Worker = Writer;

    fn worker(&self, thread: u32) -> Result<Writer, MeasureError> {
        let id = thread as usize;
        let records =
            Records::new(id, self.record).map_err(|e| MeasureError::NotOffered(e.to_string()))?;
        let mut writer = Writer {
            id,
            records,
            acknowledged: 0,
        };
        // The other threads wait at the gate for this thread; a panic would keep it from arriving.
        let warm_up = || (0..self.warm_up).try_for_each(|_| self.one(&mut writer).map(drop));
        catch_unwind(AssertUnwindSafe(warm_up))
            .unwrap_or_else(|_| Err(MeasureError::NotOffered("it panicked".to_owned())))?;
        Ok(writer)
    }

    fn step(&self, writer: &mut Writer, _: Instant) -> Result<Step, MeasureError> {
        let began = self.one(writer)?;
        Ok(Step { began, more: true })
    }
}
