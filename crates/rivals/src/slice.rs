//! One rival, once: open, commit for a while, close, read everything back.

use crate::place::Place;
use crate::records::{Records, Tally};
use crate::rival::{Opened, Rival, Shape};
use anyhow::{Context, Result, anyhow};
use hdrhistogram::Histogram;
use logforce_device_os::{Counter, DeviceCounters};
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Commits of each thread before the clock starts: the first ones make files and caches.
const WARM_UP: u64 = 10;
/// Up to what a commit's time is told apart: longer ones count as this long.
const LONGEST: Duration = Duration::from_secs(60);

/// What was seen.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Commits in the timed part.
    pub commits: u64,
    /// How long that was.
    pub took: Duration,
    /// Of a commit's duration.
    pub p50: Duration,
    /// Of a commit's duration.
    pub p99: Duration,
    /// Flushes of the device in the timed part.
    pub flushes: Option<u64>,
    /// Writes of the device in the timed part.
    pub writes: Option<u64>,
    /// What was there afterwards; `None` of what keeps no records.
    pub kept: Option<Kept>,
}

impl Seen {
    /// Commits per second.
    pub fn rate(&self) -> f64 {
        self.commits as f64 / self.took.as_secs_f64()
    }
}

/// What a rival showed after it was opened again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Kept {
    /// Acknowledged records, those of the warm-up included.
    pub acknowledged: u64,
    /// How many of them were not there.
    pub missing: u64,
    /// Records that nobody wrote, or changed.
    pub foreign: u64,
}

/// How long to commit.
#[derive(Debug, Clone, Copy)]
pub enum Until {
    /// So long, after a warm-up.
    Time(Duration),
    /// So many by each thread, without a warm-up.
    Count(u64),
}

/// Runs a rival in a directory of its own, which is gone afterwards. A panic in the rival is an
/// error.
///
/// # Errors
/// What the rival says.
pub fn run(
    rival: &dyn Rival,
    place: &Place,
    shape: Shape,
    until: Until,
    stop: &AtomicBool,
) -> Result<Seen> {
    let dir = place.fresh(rival.name())?;
    let run = AssertUnwindSafe(|| in_directory(rival, place, dir.path(), shape, until, stop));
    catch_unwind(run).unwrap_or_else(|_| Err(anyhow!("it panicked")))
}

fn in_directory(
    rival: &dyn Rival,
    place: &Place,
    dir: &Path,
    shape: Shape,
    until: Until,
    stop: &AtomicBool,
) -> Result<Seen> {
    let opened = rival.open(dir, shape).context("open")?;
    // What was prepared ahead goes to the device now, and not at somebody's first commit.
    let whole = File::open(dir)?;
    rustix::fs::syncfs(&whole)?;
    let (mut seen, acknowledged) = commit(&*opened, place.counter(), shape, until, stop)?;
    opened.close().context("close")?;
    let mut tally = Tally::new(shape.threads, shape.record)?;
    if rival
        .read_back(dir, shape, &mut tally)
        .context("read back")?
    {
        seen.kept = Some(Kept {
            acknowledged: acknowledged.iter().sum(),
            missing: tally.missing(&acknowledged),
            foreign: tally.foreign,
        });
    }
    Ok(seen)
}

/// What one thread did.
struct Done {
    acknowledged: u64,
    commits: u64,
    times: Histogram<u64>,
    end: Instant,
}

/// The threads' common gates: warm-up over, clock read.
struct Gates<'a> {
    barrier: Barrier,
    stop: &'a AtomicBool,
    /// Somebody failed: the others need not go on.
    failed: AtomicBool,
}

fn commit(
    opened: &dyn Opened,
    counter: Option<&Counter>,
    shape: Shape,
    until: Until,
    stop: &AtomicBool,
) -> Result<(Seen, Vec<u64>)> {
    let gates = Gates {
        barrier: Barrier::new(shape.threads + 1),
        stop,
        failed: AtomicBool::new(false),
    };
    let (done, start, before) = thread::scope(|scope| {
        let spawn = |writer| {
            let gates = &gates;
            scope.spawn(move || one_thread(opened, writer, shape, until, gates))
        };
        let threads: Vec<_> = (0..shape.threads).map(spawn).collect();
        gates.barrier.wait();
        let before = counter.and_then(|c| c.sample().ok());
        let start = Instant::now();
        gates.barrier.wait();
        let done: Vec<Result<Done>> = threads
            .into_iter()
            .map(|t| t.join().unwrap_or_else(|_| Err(anyhow!("it panicked"))))
            .collect();
        (done, start, before)
    });
    let after = counter.and_then(|c| c.sample().ok());
    let done = done.into_iter().collect::<Result<Vec<Done>>>()?;
    let mut times = histogram()?;
    for one in &done {
        times.add(&one.times)?;
    }
    let (flushes, writes) = between(before, after);
    let end = done.iter().map(|d| d.end).max().unwrap_or(start);
    let at = |quantile| Duration::from_nanos(times.value_at_quantile(quantile));
    let seen = Seen {
        commits: done.iter().map(|d| d.commits).sum(),
        took: end.saturating_duration_since(start),
        p50: at(0.5),
        p99: at(0.99),
        flushes,
        writes,
        kept: None,
    };
    Ok((seen, done.iter().map(|d| d.acknowledged).collect()))
}

fn one_thread(
    opened: &dyn Opened,
    writer: usize,
    shape: Shape,
    until: Until,
    gates: &Gates<'_>,
) -> Result<Done> {
    let mut records = Records::new(writer, shape.record)?;
    let mut times = histogram()?;
    let one = |records: &mut Records| -> Result<Duration> {
        let (number, record) = records.following();
        let start = Instant::now();
        opened.commit(writer, number, record)?;
        Ok(start.elapsed())
    };
    let warm_up = match until {
        Until::Time(_) => WARM_UP,
        Until::Count(_) => 0,
    };
    let first = || (0..warm_up).try_for_each(|_| one(&mut records).map(|_| ()));
    let first = catch_unwind(AssertUnwindSafe(first));
    let mut result = first.unwrap_or_else(|_| Err(anyhow!("it panicked")));
    // Also after an error or a panic: the others wait there.
    gates.barrier.wait();
    gates.barrier.wait();
    let start = Instant::now();
    let mut commits = 0;
    let more = |commits| match until {
        Until::Time(limit) => start.elapsed() < limit,
        Until::Count(count) => commits < count,
    };
    while result.is_ok()
        && more(commits)
        && !gates.stop.load(Ordering::Relaxed)
        && !gates.failed.load(Ordering::Relaxed)
    {
        result = one(&mut records).map(|took| {
            commits += 1;
            times.saturating_record(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        });
    }
    if result.is_err() {
        gates.failed.store(true, Ordering::Relaxed);
    }
    result.context("commit")?;
    Ok(Done {
        acknowledged: warm_up + commits,
        commits,
        times,
        end: Instant::now(),
    })
}

fn histogram() -> Result<Histogram<u64>> {
    let longest = u64::try_from(LONGEST.as_nanos())?;
    Ok(Histogram::new_with_bounds(100, longest, 3)?)
}

fn between(
    before: Option<DeviceCounters>,
    after: Option<DeviceCounters>,
) -> (Option<u64>, Option<u64>) {
    let (Some(before), Some(after)) = (before, after) else {
        return (None, None);
    };
    let flushes = after.flushes.zip(before.flushes);
    (
        flushes.map(|(a, b)| a.saturating_sub(b)),
        Some(after.writes.saturating_sub(before.writes)),
    )
}
