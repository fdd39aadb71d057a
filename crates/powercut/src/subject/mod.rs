//! The subject on the disk whose power is cut: the library, worked hard by many threads in another process. It writes
//! into the ledger what it was promised.

mod committers;
mod controller;
pub mod raw;
mod record;
pub mod seam;

pub use controller::{metadata, read_metadata};
pub use record::Identity;

use crate::ledger::{Entry, Kind, LedgerWriter};
use anyhow::{Context, Result};
use logforce::inspect::RepairOptions;
use logforce::{ErrorKind, Guarantee, Log, Method, Options, Tuning, Verdict, internal};
use logforce_testkit::Rng;
use seam::{Fault, Faulty};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

/// Threads that block in each commit.
pub const BLOCKING: usize = 6;
/// Threads that submit and wait later.
pub const SUBMITTING: usize = 3;
/// The number of the thread that truncates and sets the metadata.
pub const CONTROL: usize = BLOCKING + SUBMITTING;

/// What a subject is to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// The log's directory.
    pub dir: PathBuf,
    /// Empty ledger for what it was promised.
    pub ledger: PathBuf,
    /// By its name.
    pub method: String,
    /// Its number; no two on one disk have the same.
    pub session: u64,
    /// Of everything random.
    pub seed: u64,
    /// Demand the guarantee of a method that survives a power cut.
    pub demanding: bool,
    /// What is wrong with the system below it.
    pub fault: Fault,
    /// End, in order, when so many commits were acknowledged; 0 is never.
    pub commits: u64,
    /// Repair the log before it is opened.
    pub repairs: bool,
}

/// What a subject does about the space that its log takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Space {
    /// Keeps a few segments.
    Little,
    /// Gives nothing back: the disk fills up.
    All,
    /// Gives half of it back whenever the disk is full.
    UntilFull,
}

/// What the threads of a subject share.
#[derive(Debug)]
struct Work<'a> {
    job: &'a Job,
    space: Space,
    /// Refusals for lack of space since some was given back.
    refused: std::sync::atomic::AtomicU64,
    log: &'a Log,
    /// Starts of durable records, those of atomic groups by their first: where one may truncate.
    starts: Mutex<VecDeque<u64>>,
    /// Locked for writing by the thread that voids records.
    appending: RwLock<()>,
    stop: AtomicBool,
    acknowledged: std::sync::atomic::AtomicU64,
}

/// Starts that are remembered.
const STARTS: usize = 4000;

impl Work<'_> {
    fn starts(&self) -> MutexGuard<'_, VecDeque<u64>> {
        self.starts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn goes_on(&self, ledger: &LedgerWriter) -> bool {
        // Room for what one step writes.
        !self.stop.load(Ordering::Relaxed) && !ledger.is_nearly_full()
    }

    /// A durable record or group is there.
    fn durable(&self, start: u64) {
        let mut starts = self.starts();
        starts.push_back(start);
        if starts.len() > STARTS {
            starts.pop_front();
        }
    }

    fn count_commit(&self) {
        let count = self.acknowledged.fetch_add(1, Ordering::Relaxed) + 1;
        if self.job.commits > 0 && count >= self.job.commits {
            self.stop.store(true, Ordering::Relaxed);
        }
    }

    /// Whether the thread goes on after an error. After one of the device it does not.
    fn survives(&self, error: &logforce::Error, ledger: &mut LedgerWriter) -> bool {
        match error.kind() {
            // No room on the disk just now.
            ErrorKind::NoSpace => {
                ledger.put(Entry::of(Kind::Refused));
                self.refused.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(2));
                true
            }
            // Voided by the thread that truncates.
            ErrorKind::Voided | ErrorKind::Truncated => {
                std::thread::sleep(Duration::from_millis(1));
                true
            }
            _ => {
                ledger.put(Entry::of(Kind::Failed));
                self.stop.store(true, Ordering::Relaxed);
                false
            }
        }
    }
}

/// The guarantee as a number, weakest first.
pub fn rank(guarantee: impl Into<Guarantee>) -> u64 {
    let guarantee = guarantee.into();
    let all = Guarantee::ALL.iter().position(|g| *g == guarantee);
    all.unwrap_or(0) as u64
}

/// Options of a session: they change from one to the next, as they may.
fn options(job: &Job, method: Method) -> Options {
    let mut rng = Rng::new(job.seed ^ 0x0971_0115);
    let require = if job.demanding {
        Guarantee::PowerLoss
    } else {
        Guarantee::Nothing
    };
    let options = Options::new()
        .method(method)
        .require(require)
        // A program serves the disk, and its flushes are the subject of the test.
        .require_verdict(Verdict::Unknown)
        .calibrate(false)
        .segment_size(rng.pick(&[64 << 10, 128 << 10, 256 << 10]))
        .tuning(
            Tuning::new()
                .max_spare_segments(rng.pick(&[0, 1, 2, 4]))
                .large_write_size(rng.pick(&[4096, 16 << 10, 64 << 10]))
                .max_in_flight_writes(rng.pick(&[1, 2, 4])),
        );
    let options = internal::in_flight_at_first(options, rng.pick(&[0, 4]));
    let idle_stamp = Duration::from_millis(rng.pick(&[1, 5, 100]));
    let options = options.tuning(Tuning::new().idle_stamp(idle_stamp));
    // With the first, all segments are only reserved, where that is safe and nobody relies on writes.
    internal::force_of_bulk(options, rng.pick(&[1, 16 << 10, 1 << 20]))
}

/// Runs until the log fails, the job is done, or the process is killed.
///
/// # Errors
/// If the log cannot be opened. That is how it ends where the cut came before or while opening.
pub fn run(job: &Job, space: Space) -> Result<()> {
    let method: Method = job.method.parse()?;
    let mut ledgers = (0..=CONTROL)
        .map(|n| LedgerWriter::open(&job.ledger, n))
        .collect::<std::io::Result<Vec<_>>>()
        .context("the ledger")?;
    let options = options(job, method);
    let system = Faulty::new(job.fault);
    if job.repairs {
        logforce::inspect::repair(&job.dir, &RepairOptions::new())?;
    }
    let log = internal::open(&system, &job.dir, options.create(true))?;
    system.opened();
    let mut control = ledgers.pop().context("no ledger")?;
    control.put(Entry {
        guarantee: rank(log.guarantee()),
        ..Entry::range(Kind::Opened, log.front_lsn().0, log.recovered().end.0)
    });
    let work = Work {
        job,
        space,
        refused: 0.into(),
        log: &log,
        starts: Mutex::default(),
        appending: RwLock::default(),
        stop: AtomicBool::new(false),
        acknowledged: 0.into(),
    };
    std::thread::scope(|scope| {
        let work = &work;
        for (number, ledger) in ledgers.into_iter().enumerate() {
            scope.spawn(move || {
                if number < BLOCKING {
                    committers::blocking(work, number, ledger);
                } else {
                    committers::submitting(work, number, ledger);
                }
            });
        }
        controller::control(work, control);
    });
    drop(work);
    // A log that failed says so; what matters is in the ledger.
    let _ = log.close();
    Ok(())
}
