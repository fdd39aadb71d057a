//! The threads that commit.

use super::{ACCOUNTS, Job, PAGE, THREADS, page_of, stamp_pages, value_of};
use crate::ledger::{Entry, Kind, LedgerWriter};
use crate::subject::seam::Faulty;
use anyhow::{Context, Result, bail};
use logforce::pages::{CommitMode, ErrorKind, Options, PageFile};
use logforce::{Guarantee, Method, Policy, Verdict};
use logforce_testkit::Rng;
use std::path::Path;
use std::time::Duration;

/// Opens the page file of a job, or what is left of it.
pub(super) fn open(
    dir: &Path,
    copy_on_write: bool,
    seed: u64,
    system: &Faulty,
    create: bool,
) -> logforce::pages::Result<PageFile> {
    let mut rng = Rng::new(seed);
    let methods = [Method::Fdatasync, Method::Dsync];
    let log = logforce::Options::new()
        .method(rng.pick(&methods))
        .calibrate(false)
        // A program serves the disk, and its flushes are the subject of the test.
        .require_verdict(Verdict::Unknown)
        .segment_size(256 << 10);
    let mode = match copy_on_write {
        true => CommitMode::CopyOnWrite,
        false => CommitMode::Logged,
    };
    let options = Options::new()
        .mode(mode)
        .page_size(PAGE as u32)
        .require_verdict(Verdict::Unknown)
        .cache_size(rng.pick(&[64 << 10, 4 << 20]))
        .checkpoint_distance(rng.pick(&[64 << 10, 256 << 10]))
        .writers(rng.pick(&[1, 4]))
        .log(log);
    logforce::internal::open_pages(system, dir, options.create(create))
}

/// Runs until the page file fails or the process is killed.
///
/// # Errors
/// If it cannot be opened. That is how it ends where the cut came before or while opening.
pub fn run(job: &Job) -> Result<()> {
    let ledgers = (0..THREADS)
        .map(|n| LedgerWriter::open(&job.ledger, n))
        .collect::<std::io::Result<Vec<_>>>()
        .context("the ledger")?;
    let system = Faulty::new(job.fault);
    let file = open(&job.dir, job.copy_on_write, job.seed, &system, true)?;
    system.opened();
    std::thread::scope(|scope| {
        for (thread, ledger) in ledgers.into_iter().enumerate() {
            let (file, seed) = (&file, job.seed ^ (thread as u64 + 1) << 40);
            scope.spawn(move || work(file, thread, ledger, seed));
        }
    });
    // One that failed says so; what matters is in the ledger.
    let _ = file.close();
    Ok(())
}

/// Commits until the first failure.
fn work(file: &PageFile, thread: usize, mut ledger: LedgerWriter, seed: u64) {
    let mut rng = Rng::new(seed);
    let Ok(mut last) = last_stamp(file, thread) else {
        return;
    };
    let mut held = Vec::new();
    while !ledger.is_nearly_full() {
        let stamp = last + 1;
        ledger.put(Entry {
            sequence: stamp,
            ..Entry::of(Kind::RecordRange)
        });
        match commit(file, thread, stamp, &mut rng) {
            Ok(guarantee) => {
                last = stamp;
                if guarantee == Guarantee::PowerLoss {
                    ledger.put(Entry {
                        sequence: stamp,
                        ..Entry::of(Kind::Acked)
                    });
                }
            }
            Err(e) if matches!(e.downcast_ref(), Some(Refused::Conflict)) => {}
            Err(e) if matches!(e.downcast_ref(), Some(Refused::NoSpace)) => {
                std::thread::sleep(Duration::from_millis(2));
            }
            Err(_) => {
                ledger.put(Entry::of(Kind::Failed));
                return;
            }
        }
        match rng.below(40) {
            0 => held.extend(file.snapshot()),
            1 => held.clear(),
            2 => drop(file.checkpoint()),
            _ => {}
        }
    }
}

fn last_stamp(file: &PageFile, thread: usize) -> Result<u64> {
    let snapshot = file.snapshot()?;
    let [page, _] = stamp_pages(thread);
    if page >= snapshot.page_count() {
        return Ok(0);
    }
    let mut buf = vec![0; PAGE];
    snapshot.read(page, &mut buf)?;
    value_of(&buf).context("a stamp that is not whole")
}

/// Reason for which a commit may be tried again.
#[derive(Debug)]
enum Refused {
    Conflict,
    NoSpace,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(self, f)
    }
}

impl std::error::Error for Refused {}

/// Moves an amount between two accounts, and stamps.
fn commit(file: &PageFile, thread: usize, stamp: u64, rng: &mut Rng) -> Result<Guarantee> {
    let mut txn = file.begin()?;
    let from = rng.below(ACCOUNTS);
    let to = (from + 1 + rng.below(ACCOUNTS - 1)) % ACCOUNTS;
    let amount = rng.bits();
    for (page, change) in [(from, amount.wrapping_neg()), (to, amount)] {
        let bytes = txn.page_mut(page)?;
        let Some(value) = value_of(bytes) else {
            bail!("account {page} is not whole");
        };
        bytes.copy_from_slice(&page_of(value.wrapping_add(change)));
    }
    for page in stamp_pages(thread) {
        txn.write(page, &page_of(stamp))?;
    }
    let policy = match rng.below(8) {
        0 => Policy::Interval {
            within: Duration::from_millis(1 + rng.below(10)),
        },
        _ => Policy::Force,
    };
    let done = match rng.one_in(3) {
        true => txn.submit_with(policy).and_then(|handle| handle.wait()),
        false => txn.commit_with(policy),
    };
    match done {
        Ok(done) => Ok(done.guarantee.into()),
        Err(e) => Err(match e.kind() {
            ErrorKind::Conflict => Refused::Conflict.into(),
            ErrorKind::NoSpace => Refused::NoSpace.into(),
            _ => e.into(),
        }),
    }
}
