//! The trial that measures commit methods.

use crate::scratch::{Scratch, remove_stale_files};
use crate::{Samples, Turn};
use logforce_device::{AlignedBuf, Directory, Facts, File, ForceBy, Method, Plan, Runtime, Write};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Limits of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum duration from the first call to the last. At most one operation of the device may exceed it.
    pub budget: Duration,
    /// Maximum number of turns.
    pub turns: usize,
}

impl Limits {
    /// Limits for the first opening of a log: 300 ms.
    pub const AT_OPENING: Limits = Limits {
        budget: Duration::from_millis(300),
        turns: 1000,
    };
}

/// Result of a trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trial {
    /// Samples; none after a failure.
    pub samples: Samples,
    /// Duration of the trial.
    pub spent: Duration,
    /// Reason why there are no samples, in words. A failure does not concern the log, which has other files.
    pub failure: Option<String>,
}

/// Number of first turns that are not counted, while caches warm up and the device wakes.
const WARM_UP: usize = 2;

/// Every Nth turn uses commits of [`LARGE`] write units.
const LARGE_EVERY: usize = 4;
const LARGE: u32 = 4;

/// Measures `methods` (the default first) in `dir`. Each turn makes one commit by each method, in random
/// order. A commit overwrites `unit` bytes, in some turns four times as many, of a file in the state of a
/// log's segments.
///
/// Always removes the file in the end. Also removes the files of crashed trials.
pub fn measure(
    dir: &Arc<dyn Directory>,
    runtime: &dyn Runtime,
    facts: &Facts,
    unit: u32,
    methods: &[Method],
    limits: Limits,
) -> Trial {
    let began = runtime.now();
    let result = run(dir, runtime, facts, unit, methods, limits, began);
    let spent = runtime.now().saturating_sub(began);
    match result {
        Ok(turns) => Trial {
            samples: Samples {
                methods: methods.to_vec(),
                turns,
            },
            spent,
            failure: None,
        },
        Err(e) => Trial {
            samples: Samples::default(),
            spent,
            failure: Some(e.to_string()),
        },
    }
}

fn run(
    dir: &Arc<dyn Directory>,
    runtime: &dyn Runtime,
    facts: &Facts,
    unit: u32,
    methods: &[Method],
    limits: Limits,
    began: Duration,
) -> io::Result<Vec<Turn>> {
    // Preparing the file should take at most a fifth of the budget.
    let prepared_by = began + limits.budget / 5;
    // Reserves time to remove the file.
    let end = began + limits.budget - limits.budget / 16;
    remove_stale_files(dir);
    let direct = |m: &&Method| m.plan().direct;
    let parts = (
        methods.iter().any(|m| !direct(&m)),
        methods.iter().any(|m| direct(&m)),
    );
    let scratch = Scratch::make(dir, runtime, facts.kind, unit, parts, prepared_by)?;
    let mut commits = Commits {
        scratch,
        buf: Some(AlignedBuf::zeroed(
            (LARGE * unit) as usize,
            (unit as usize).max(4096),
        )),
        random: runtime.random(),
        number: 0,
    };
    let mut turns = Vec::new();
    let mut order: Vec<usize> = (0..methods.len()).collect();
    let mut clock = Clock::default();
    let mut number = 0;
    'all: while turns.len() < limits.turns {
        let bytes = if number % LARGE_EVERY == LARGE_EVERY - 1 {
            LARGE * unit
        } else {
            unit
        };
        let mut times = vec![Duration::ZERO; methods.len()];
        commits.shuffle(&mut order);
        for &i in &order {
            let start = runtime.now();
            if start + clock.needed() > end {
                break 'all;
            }
            commits.make(methods[i].plan(), bytes)?;
            times[i] = runtime.now().saturating_sub(start);
            clock.count(times[i]);
        }
        number += 1;
        if number > WARM_UP {
            turns.push(Turn { bytes, times });
        }
    }
    commits.scratch.remove().map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => io::Error::other(
            "another program removed the trial's file: the measurements may be wrong",
        ),
        _ => e,
    })?;
    Ok(turns)
}

/// Estimates the time of the next operations.
#[derive(Default)]
struct Clock {
    commits: u32,
    all: Duration,
}

impl Clock {
    fn count(&mut self, time: Duration) {
        self.commits += 1;
        self.all += time;
    }

    /// Returns the time for the next commit, and twice as much for storing the results with a sync.
    fn needed(&self) -> Duration {
        3 * self.all.checked_div(self.commits).unwrap_or_default()
    }
}

/// State for making one commit after another.
struct Commits<'a> {
    scratch: Scratch<'a>,
    /// Buffer that is handed to each write and returned with its completion.
    buf: Option<AlignedBuf>,
    random: u64,
    number: u64,
}

impl Commits<'_> {
    /// Writes and forces `bytes` bytes by the plan.
    fn make(&mut self, plan: Plan, bytes: u32) -> io::Result<()> {
        let place = self.scratch.next(plan.direct, u64::from(bytes));
        let (Some((file, offset)), Some(mut buf)) = (place, self.buf.take()) else {
            return Err(io::Error::other(
                "internal error: the trial's file was not prepared",
            ));
        };
        self.number += 1;
        // Makes every block differ from the one before, so that no device can deduplicate or skip it.
        for block in buf.chunks_mut(512) {
            let stamp = (self.random ^ self.number).to_le_bytes();
            let n = block.len().min(stamp.len());
            block[..n].copy_from_slice(&stamp[..n]);
        }
        let (buf, result) = commit(&*file, plan, offset, buf, bytes);
        self.buf = Some(buf);
        result
    }

    /// Shuffles the order of a turn (Fisher–Yates over a generator by Steele, Lea and Flood).
    fn shuffle(&mut self, order: &mut [usize]) {
        for i in (1..order.len()).rev() {
            self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut x = self.random;
            x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            order.swap(i, ((x ^ (x >> 31)) % (i as u64 + 1)) as usize);
        }
    }
}

fn commit(
    file: &dyn File,
    plan: Plan,
    offset: u64,
    buf: AlignedBuf,
    bytes: u32,
) -> (AlignedBuf, io::Result<()>) {
    let done = file.complete(file.submit(Write {
        offset,
        buf,
        range: 0..bytes as usize,
        through: plan.force == ForceBy::Through,
    }));
    let result = match (done.result, plan.force) {
        (Ok(()), ForceBy::Barrier(barrier)) => file.barrier(barrier),
        (result, _) => result,
    };
    (done.buf, result)
}
