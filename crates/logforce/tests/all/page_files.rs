//! Page files on the real operating system: both commit modes, and killed processes.

use crate::common::*;
use logforce::pages::{CommitMode, ErrorKind, Options, PageFile, Snapshot};
use logforce::{Guarantee, Policy};
use logforce_testkit::Rng;
use logforce_testkit::process::Start;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

const MODES: [CommitMode; 2] = [CommitMode::Logged, CommitMode::CopyOnWrite];

/// Options with a guarantee that any test machine offers, and frequent checkpoints.
fn page_options(mode: CommitMode) -> Options {
    Options::new()
        .mode(mode)
        .require(Guarantee::ProcessCrash)
        .cache_size(1 << 20)
        .checkpoint_distance(1 << 20)
        .log(options())
}

fn open(dir: &Path, mode: CommitMode) -> PageFile {
    logforce::pages::open_existing(dir, page_options(mode)).unwrap()
}

fn number_at(snapshot: &Snapshot, page: u64) -> u64 {
    let page = snapshot.page(page).unwrap();
    u64::from_le_bytes(page[..8].try_into().unwrap())
}

/// Checks that the inspector finds no damage.
#[track_caller]
fn assert_sound(dir: &Path) {
    let inspector = logforce::pages::inspect::open(dir).unwrap();
    let report = inspector.walk(&mut |_| true).unwrap();
    assert_eq!((report.damages, report.in_use), (0, 0), "{report:?}");
}

#[test]
fn what_is_committed_is_there_again() {
    for mode in MODES {
        for size in [512, 4096, 65536] {
            let home = temp();
            let dir = home.path().join("file");
            let with = page_options(mode).page_size(size);
            let mut file = logforce::pages::create_new(&dir, with).unwrap();
            let mut rng = Rng::new(u64::from(size));
            let mut expected: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
            for round in 0..120 {
                let mut transaction = file.begin().unwrap();
                let pages: BTreeSet<u64> = (0..=rng.below(6)).map(|_| rng.below(300)).collect();
                for page in pages {
                    match rng.below(10) {
                        0 if page < transaction.page_count() => {
                            transaction.discard(page).unwrap();
                            expected.remove(&page);
                        }
                        1..5 => {
                            let bytes = transaction.page_mut(page).unwrap();
                            let at = rng.below(u64::from(size) - 8) as usize;
                            bytes[at..at + 8].copy_from_slice(&rng.bits().to_le_bytes());
                            expected.insert(page, bytes.to_vec());
                        }
                        _ => {
                            let bytes = vec![rng.bits() as u8 | 1; size as usize];
                            transaction.write(page, &bytes).unwrap();
                            expected.insert(page, bytes);
                        }
                    }
                }
                transaction.commit().unwrap();
                match round % 40 {
                    13 => file.checkpoint().unwrap(),
                    39 => {
                        file.close().unwrap();
                        assert_sound(&dir);
                        file = open(&dir, mode);
                        assert_eq!((file.page_size(), file.mode()), (size, mode));
                    }
                    _ => {}
                }
            }
            let snapshot = file.snapshot().unwrap();
            for page in 0..snapshot.page_count() {
                let zeroes = vec![0; size as usize];
                let expected = expected.get(&page).unwrap_or(&zeroes);
                assert!(*snapshot.page(page).unwrap() == expected[..], "page {page}");
            }
        }
    }
}

/// Threads move amounts between accounts, one on each page. Readers always see the same sum.
#[test]
fn threads_commit_and_readers_see_whole_commits() {
    const ACCOUNTS: u64 = 40;
    for mode in MODES {
        let home = temp();
        let dir = home.path().join("file");
        let file = logforce::pages::create_new(&dir, page_options(mode)).unwrap();
        let mut begin = file.begin().unwrap();
        for page in 0..ACCOUNTS {
            begin.page_mut(page).unwrap()[..8].copy_from_slice(&1000u64.to_le_bytes());
        }
        begin.commit().unwrap();
        let sum = |snapshot: &Snapshot| (0..ACCOUNTS).map(|p| number_at(snapshot, p)).sum::<u64>();
        let ended = AtomicBool::new(false);
        let mut looked = 0;
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..4)
                .map(|thread| {
                    let file = file.clone();
                    scope.spawn(move || {
                        let mut rng = Rng::new(thread);
                        for _ in 0..60 {
                            let (from, to) = (rng.below(ACCOUNTS), rng.below(ACCOUNTS));
                            let transferred = file.transact(|transfer| {
                                for (page, change) in [(from, -1i64), (to, 1)] {
                                    let bytes = transfer.page_mut(page)?;
                                    let now = u64::from_le_bytes(bytes[..8].try_into().unwrap());
                                    let then = now.checked_add_signed(change).unwrap();
                                    bytes[..8].copy_from_slice(&then.to_le_bytes());
                                }
                                Ok(())
                            });
                            transferred.unwrap();
                        }
                    })
                })
                .collect();
            let reader = scope.spawn(|| {
                let mut looked = 0;
                while !ended.load(Relaxed) {
                    for snapshot in [file.snapshot().unwrap(), file.latest().unwrap()] {
                        assert_eq!(sum(&snapshot), ACCOUNTS * 1000);
                    }
                    looked += 1;
                }
                looked
            });
            writers.into_iter().for_each(|w| w.join().unwrap());
            ended.store(true, Relaxed);
            looked = reader.join().unwrap();
        });
        assert!(looked > 0);
        assert_eq!(sum(&file.snapshot().unwrap()), ACCOUNTS * 1000);
        file.close().unwrap();
        assert_sound(&dir);
    }
}

#[test]
fn a_second_opener_is_refused() {
    for mode in MODES {
        let home = temp();
        let dir = home.path().join("file");
        let file = logforce::pages::create_new(&dir, page_options(mode)).unwrap();
        let again = logforce::pages::open_existing(&dir, page_options(mode));
        assert_eq!(again.unwrap_err().kind(), ErrorKind::Locked);
        let exists = logforce::pages::create_new(&dir, page_options(mode));
        let kind = exists.unwrap_err().kind();
        assert!(matches!(kind, ErrorKind::Locked | ErrorKind::AlreadyExists));
        file.close().unwrap();
        open(&dir, mode).close().unwrap();
    }
}

/// Not for Windows, which fills a file with zeroes when it grows far at once.
#[cfg(unix)]
#[test]
fn pages_beyond_4_gib() {
    use std::os::unix::fs::MetadataExt;
    const FAR: u64 = (5 << 30) / 4096;
    for mode in MODES {
        let home = temp();
        let dir = home.path().join("file");
        let file = logforce::pages::create_new(&dir, page_options(mode)).unwrap();
        for page in [FAR, 3, FAR + 1] {
            let mut transaction = file.begin().unwrap();
            transaction
                .write(page, &vec![page as u8 | 1; 4096])
                .unwrap();
            transaction.commit().unwrap();
        }
        file.close().unwrap();
        assert_sound(&dir);
        let file = open(&dir, mode);
        let snapshot = file.snapshot().unwrap();
        assert_eq!(snapshot.page_count(), FAR + 2);
        for page in [FAR, 3, FAR + 1] {
            assert!(*snapshot.page(page).unwrap() == vec![page as u8 | 1; 4096]);
        }
        assert!(*snapshot.page(FAR - 1).unwrap() == [0; 4096]);
        let data = std::fs::metadata(dir.join("pages")).unwrap();
        assert!(data.blocks() * 512 < 64 << 20, "{} blocks", data.blocks());
        drop(snapshot);
        // After shrinking and growing again, the old contents are gone.
        let mut transaction = file.begin().unwrap();
        transaction.set_page_count(10).unwrap();
        transaction.commit().unwrap();
        let mut transaction = file.begin().unwrap();
        transaction.set_page_count(FAR + 2).unwrap();
        transaction.commit().unwrap();
        file.close().unwrap();
        let file = open(&dir, mode);
        let snapshot = file.snapshot().unwrap();
        assert!(*snapshot.page(FAR).unwrap() == [0; 4096]);
        assert!(*snapshot.page(3).unwrap() == vec![3; 4096]);
    }
}

const CHILD: &str = "LOGFORCE_TEST_PAGE_FILE";

/// Commits until it is killed. Each commit writes the number of the round to two pages, and to the page with
/// that number.
fn commit_for_ever(dir: &Path) {
    let mode = match dir.ends_with("logged") {
        true => CommitMode::Logged,
        false => CommitMode::CopyOnWrite,
    };
    let file = logforce::pages::open_or_create(dir, page_options(mode)).unwrap();
    let first = match file.latest().unwrap() {
        latest if latest.page_count() > 0 => number_at(&latest, 0) + 1,
        _ => 1,
    };
    for n in first.. {
        let mut transaction = file.begin().unwrap();
        for page in [0, 1, 2 + n % 500] {
            transaction.page_mut(page).unwrap()[..8].copy_from_slice(&n.to_le_bytes());
        }
        // Does not wait for some commits, which may be lost.
        match n % 5 {
            0 => transaction.commit_with(Policy::Interval {
                within: Duration::from_millis(20),
            }),
            _ => transaction.commit(),
        }
        .unwrap();
        if n % 5 != 0 {
            tell(&format!("committed {n}"));
        }
    }
}

#[test]
fn a_kill_loses_nothing_that_was_acknowledged() {
    if let Some(dir) = in_second_process(CHILD) {
        commit_for_ever(&dir);
    }
    for (mode, name) in MODES.into_iter().zip(["logged", "copy-on-write"]) {
        let home = temp();
        let dir = home.path().join(name);
        let mut acknowledged = 0;
        for kill in 1..=3 {
            let mut child = again("a_kill_loses_nothing_that_was_acknowledged", CHILD, &dir);
            let mut child = Killed(child.stdout(Stdio::piped()).start().unwrap());
            let out = BufReader::new(child.0.stdout.take().unwrap());
            let mut seen = 0;
            for line in out.lines() {
                let Ok(line) = line else { break };
                let Some((_, number)) = line.split_once("committed ") else {
                    continue;
                };
                acknowledged = number.parse().unwrap();
                seen += 1;
                if seen == 100 * kill {
                    child.kill();
                    break;
                }
            }
            assert_eq!(seen, 100 * kill, "the second process ended by itself");
            assert_sound(&dir);
            let file = open(&dir, mode);
            let snapshot = file.snapshot().unwrap();
            let last = number_at(&snapshot, 0);
            assert!(last >= acknowledged, "{last} of {acknowledged}");
            assert_eq!(number_at(&snapshot, 1), last, "a part of a commit");
            for n in last.saturating_sub(499).max(1)..=last {
                assert_eq!(number_at(&snapshot, 2 + n % 500), n);
            }
            drop(snapshot);
            file.close().unwrap();
        }
    }
}
