//! The measuring itself.

use crate::scratch::{Scratch, remove_stale_files};
use crate::{Samples, Turn};
use logforce_device::{AlignedBuf, Directory, Facts, File, ForceBy, Method, Plan, Runtime, Write};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// How long and how much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Time for everything, from the first call to the last. It is exceeded by one operation of
    /// the device at most.
    pub budget: Duration,
    /// Turns after which it ends in any case.
    pub turns: usize,
}

impl Limits {
    /// For the first opening of a log: 300 ms.
    pub const AT_OPENING: Limits = Limits {
        budget: Duration::from_millis(300),
        turns: 1000,
    };
}

/// What a trial brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trial {
    /// The samples; none after a failure.
    pub samples: Samples,
    /// How long it took.
    pub spent: Duration,
    /// Why there are no samples, in words. Nothing follows from a failure about the log: it has
    /// its own files.
    pub failure: Option<String>,
}

/// Turns that are not counted: caches warm up, the device wakes.
const WARM_UP: usize = 2;

/// A turn in so many is made with commits of [`LARGE`] write units.
const LARGE_EVERY: usize = 4;
const LARGE: u32 = 4;

/// Measures `methods` (the default first) in `dir`: in each turn one commit by each, in random
/// order, overwriting a file in the state of a log's segments, `unit` bytes and now and then four
/// times as many.
///
/// The file is removed in the end, whatever happens, and so are those that crashed trials left.
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
    // A fifth to prepare.
    let prepared_by = began + limits.budget / 5;
    // Something is left for removing the file.
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
            "the file of the trial was removed by another program: what was measured may be false",
        ),
        _ => e,
    })?;
    Ok(turns)
}

/// Foresees what is still to come.
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

    /// For the next commit, and as much again twice: what was found out is stored with a sync.
    fn needed(&self) -> Duration {
        3 * self.all.checked_div(self.commits).unwrap_or_default()
    }
}

/// One commit after the other.
struct Commits<'a> {
    scratch: Scratch<'a>,
    /// Goes with each write and comes back with its completion.
    buf: Option<AlignedBuf>,
    random: u64,
    number: u64,
}

impl Commits<'_> {
    /// Writes `bytes` bytes by the plan and forces them.
    fn make(&mut self, plan: Plan, bytes: u32) -> io::Result<()> {
        let place = self.scratch.next(plan.direct, u64::from(bytes));
        let (Some((file, offset)), Some(mut buf)) = (place, self.buf.take()) else {
            return Err(io::Error::other("a trial that was not prepared"));
        };
        self.number += 1;
        // Every block differs from the one before, so that no device can share or skip it.
        for block in buf.chunks_mut(512) {
            let stamp = (self.random ^ self.number).to_le_bytes();
            let n = block.len().min(stamp.len());
            block[..n].copy_from_slice(&stamp[..n]);
        }
        let (buf, result) = commit(&*file, plan, offset, buf, bytes);
        self.buf = Some(buf);
        result
    }

    /// Puts the order of a turn anew (Fisher–Yates over a generator by Steele, Lea and Flood).
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
