//! Tests of many threads that change one page. Each conflict is with a commit that a new transaction sees,
//! and no thread waits forever.

use crate::common::{MODES, disk, open, options};
use logforce_core::OpenMode;
use logforce_device::Runtime;
use logforce_pages::{CommitMode, Error, ErrorKind, PageFile, Result, Transaction};
use logforce_testkit::{Fault, SimRuntime};

const THREADS: u64 = 8;
const EACH: u64 = 6;

/// Adds one to the number in a page.
fn add_one(txn: &mut Transaction, page: u64) -> Result<u64> {
    let bytes = txn.page_mut(page)?;
    let number = u64::from_le_bytes(bytes[..8].try_into().unwrap()) + 1;
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    Ok(number)
}

fn number(file: &PageFile, page: u64) -> u64 {
    let page = file.snapshot().unwrap().page(page).unwrap();
    u64::from_le_bytes(page[..8].try_into().unwrap())
}

/// Runs `body` in each of the threads, with its number.
fn in_threads(rt: &SimRuntime, file: &PageFile, body: fn(&PageFile, u64)) {
    let spawn = |n: u64| {
        let file = file.clone();
        rt.spawn("worker", Box::new(move || body(&file, n)))
    };
    let threads: Vec<_> = (0..THREADS).map(|n| spawn(n).unwrap()).collect();
    threads.into_iter().for_each(|t| t.join().unwrap());
}

/// A commit waits if another one that is being appended has taken its pages. Otherwise a transaction that
/// begins again would meet that commit once more.
#[test]
fn a_conflict_is_with_a_commit_that_a_new_transaction_sees() {
    let mut conflicts = 0;
    for seed in 0..30 {
        let disk = disk(seed);
        SimRuntime::run(seed, |rt| {
            let file = open(rt, &disk, options(CommitMode::Logged)).unwrap();
            in_threads(rt, &file, |file, n| {
                for _ in 0..EACH {
                    let before = file.latest().unwrap().commit();
                    let mut txn = file.begin().unwrap();
                    add_one(&mut txn, 0).unwrap();
                    // Writes enough bytes to make appends wait for the log's buffer.
                    (0..24).for_each(|i| txn.page_mut(1 + 24 * n + i).unwrap().fill(n as u8 + 1));
                    match txn.commit() {
                        Ok(_) => {}
                        Err(e) => {
                            assert_eq!(e.kind(), ErrorKind::Conflict, "{e}");
                            assert!(file.latest().unwrap().commit() > before);
                        }
                    }
                }
            });
            conflicts += file.stats().conflicts;
            assert_eq!(number(&file, 0), file.stats().commits);
            file.close().unwrap();
        });
    }
    assert!(conflicts > 100, "{conflicts}");
}

#[test]
fn transact_loses_no_change_and_meets_each_commit_once() {
    for (mode, seed) in MODES
        .into_iter()
        .flat_map(|mode| (0..10).map(move |n| (mode, n)))
    {
        let disk = disk(seed);
        SimRuntime::run(seed, |rt| {
            let file = open(rt, &disk, options(mode)).unwrap();
            in_threads(rt, &file, |file, n| {
                for _ in 0..EACH {
                    let mut seen = 0;
                    let added = file.transact(|txn| {
                        seen = add_one(txn, 0)?;
                        add_one(txn, 1 + n)
                    });
                    assert!(seen > 0 && added.unwrap() <= EACH);
                }
            });
            let commits = THREADS * EACH;
            assert_eq!(number(&file, 0), commits, "{mode:?}, seed {seed}");
            (0..THREADS).for_each(|n| assert_eq!(number(&file, 1 + n), EACH));
            let stats = file.stats();
            assert_eq!(stats.commits, commits);
            assert!(stats.conflicts <= commits * (THREADS - 1), "{stats:?}");
            file.close().unwrap();
        });
    }
}

#[test]
fn transact_passes_other_errors_on_and_commits_nothing_then() {
    for mode in MODES {
        let disk = disk(1);
        SimRuntime::run(1, |rt| {
            let file = open(rt, &disk, options(mode)).unwrap();
            file.transact(|txn| add_one(txn, 3)).unwrap();
            let mut runs = 0;
            let error = file.transact(|txn| {
                runs += 1;
                add_one(txn, 3)?;
                txn.discard(100)
            });
            assert!(matches!(error, Err(Error::OutOfRange { .. })), "{error:?}");
            assert_eq!((runs, number(&file, 3)), (1, 1));
            // Without changes, nothing is committed.
            assert_eq!(file.transact(|txn| Ok(txn.page_count())).unwrap(), 4);
            assert_eq!(file.stats().commits, 1);
            // Runs a transaction within another one, on the same page. The outer one sees its change in the
            // second run.
            let mut is_first = true;
            let number_then = file.transact(|outer| {
                if std::mem::take(&mut is_first) {
                    file.transact(|inner| add_one(inner, 3))?;
                }
                add_one(outer, 3)
            });
            assert_eq!(number_then.unwrap(), 3);
            file.close().unwrap();
        });
    }
}

/// A commit that cannot be appended gives its pages back, and the commits that wait for them continue.
#[test]
fn who_waits_for_a_commit_that_fails_goes_on() {
    for seed in 0..40 {
        let disk = disk(seed);
        SimRuntime::run(seed, |rt| {
            let file = open(rt, &disk, options(CommitMode::Logged)).unwrap();
            file.transact(|txn| add_one(txn, 0)).unwrap();
            disk.fail_at(disk.ops() + seed / 2, Fault::Io);
            in_threads(rt, &file, |file, n| {
                for _ in 0..EACH {
                    let done = file.transact(|txn| {
                        (0..24).try_for_each(|i| txn.page_mut(1 + 24 * n + i).map(drop))?;
                        add_one(txn, 0).map(drop)
                    });
                    match done.map_err(|e| e.kind()) {
                        // `Io`: the file could not grow, which changes nothing.
                        Ok(()) | Err(ErrorKind::Io) => {}
                        Err(kind) => {
                            assert_eq!(kind, ErrorKind::Poisoned);
                            return;
                        }
                    }
                }
            });
            let _ = file.close();
        });
        assert!(!disk.is_cut());
        SimRuntime::run(seed, |rt| {
            let system = disk.system(rt);
            let options = options(CommitMode::Logged);
            let file = PageFile::open(
                &*system,
                crate::common::PATH,
                OpenMode::OpenExisting,
                options,
            );
            assert!(number(&file.unwrap(), 0) > 0);
        });
    }
}
