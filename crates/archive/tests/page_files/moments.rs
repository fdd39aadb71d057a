//! Restores to any moment: each commit up to it is there, and none after.

use crate::model::{Model, commit, pages};
use crate::{archive, attach_options, base, open, options, restore, temp};
use logforce::{Guarantee, Lsn, Policy};
use logforce_archive::{Archive, ArchiveOptions, AttachOptions, RestoreTo};
use std::cell::Cell;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const COMMITTERS: u64 = 3;

/// Checks a restored page file against the model. `end` is the end of its log.
fn check(model: &Model, copy: &Path, end: Lsn) {
    let inspector = logforce::pages::inspect::open(copy).unwrap();
    let report = inspector.walk(&mut |_| true).unwrap();
    assert_eq!(report.damages, 0, "{report:?}");
    let file = open(copy);
    let (last, state) = pages(&file);
    let ends = model.ends.lock().unwrap();
    let above = ends.iter().find(|(_, at)| **at > end);
    let below = ends.iter().rev().find(|(_, at)| **at <= end);
    assert!(above.is_none_or(|(n, _)| *n > last), "{last}: {above:?}");
    assert!(below.is_none_or(|(n, _)| *n <= last), "{last}: {below:?}");
    assert!(state == model.state(last), "the pages after commit {last}");
    // It goes on as a page file does.
    let mut txn = file.begin().unwrap();
    txn.write(0, &[9; 512]).unwrap();
    assert_eq!(txn.commit().unwrap().commit, last + 1);
    file.close().unwrap();
}

#[test]
fn a_copy_made_under_concurrent_commits_restores_to_each_later_moment() {
    rounds(0..3);
}

/// Many rounds, by `cargo test -p logforce-archive --test page_files -- --ignored`.
#[test]
#[ignore = "takes minutes"]
fn many_copies_made_under_concurrent_commits() {
    rounds(3..100);
}

fn rounds(seeds: Range<u64>) {
    let (mut restored, least) = (0, seeds.end - seeds.start);
    for seed in seeds {
        let home = temp();
        let archive = archive(home.path());
        let path = home.path().join("file");
        let file = logforce::pages::create_new(&path, options()).unwrap();
        let attached = archive.attach_page_file(&file, attach_options()).unwrap();
        let model = Model::default();
        let ends = AtomicBool::new(false);
        let bases = thread::scope(|scope| {
            for committer in 0..COMMITTERS {
                let (file, model, ends, path) = (&file, &model, &ends, &path);
                let mut random = fastrand::Rng::with_seed(seed * 100 + committer);
                scope.spawn(move || {
                    while !ends.load(Relaxed) {
                        model.note(commit(file, committer, &mut random));
                        if random.u8(..50) == 0 {
                            file.checkpoint().unwrap();
                        }
                        if random.u8(..20) == 0 {
                            model.note_ends(path);
                        }
                    }
                });
            }
            let bases: Vec<_> = (0..2).map(|_| base(&archive, &path)).collect();
            ends.store(true, Relaxed);
            bases
        });
        let bases: Vec<_> = bases.into_iter().map(Result::unwrap).collect();
        for _ in 0..20 {
            let mut random = fastrand::Rng::with_seed(seed);
            model.note(commit(&file, 0, &mut random));
        }
        model.note_ends(&path);
        let (last, state) = pages(&file);
        file.close().unwrap();
        attached.close().unwrap();

        let copy = home.path().join("end");
        let end = restore(&archive, &copy, RestoreTo::End).unwrap();
        assert_eq!(pages(&open(&copy)), (last, state));
        check(&model, &copy, end);
        let later: Vec<Lsn> = {
            let ends = model.ends.lock().unwrap();
            ends.values()
                .copied()
                .filter(|end| *end >= bases[0].end)
                .collect()
        };
        let mut random = fastrand::Rng::with_seed(seed);
        for n in 0..4 {
            let Some(lsn) = random.choice(&later) else {
                continue;
            };
            let copy = home.path().join(format!("copy-{n}"));
            let end = restore(&archive, &copy, RestoreTo::Lsn(*lsn)).unwrap();
            assert!(end >= *lsn);
            check(&model, &copy, end);
            restored += 1;
        }
        // Nothing below the first copy.
        let early = restore(
            &archive,
            &home.path().join("early"),
            RestoreTo::Lsn(Lsn(bases[0].end.0 - 1)),
        );
        assert!(
            early
                .unwrap_err()
                .to_string()
                .contains("choose a later end")
        );
        assert!(!home.path().join("early").exists());
    }
    assert!(restored > least, "{restored}");
}

#[test]
fn marks_times_and_synchronous_commits() {
    let home = temp();
    let archive = archive(home.path());
    let path = home.path().join("file");
    let file = logforce::pages::create_new(&path, options()).unwrap();
    let attached = archive
        .attach_page_file(&file, AttachOptions::new().synchronous())
        .unwrap();
    let write = |n: u8| {
        let mut txn = file.begin().unwrap();
        txn.write(n.into(), &[n; 512]).unwrap();
        txn.commit_with(Policy::Replicated).unwrap()
    };
    assert_eq!(write(1).guarantee, Guarantee::MachineLoss);
    let first = base(&archive, &path).unwrap();
    write(2);
    archive.mark("two", None).unwrap();
    thread::sleep(Duration::from_millis(30));
    let time = SystemTime::now();
    let time = time.duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    thread::sleep(Duration::from_millis(30));
    write(3);
    base(&archive, &path).unwrap();
    write(4);
    for (name, to, pages) in [
        ("mark", RestoreTo::Mark("two".to_owned()), 2),
        ("time", RestoreTo::Time(time), 2),
        ("first", RestoreTo::Lsn(first.end), 1),
        ("end", RestoreTo::End, 4),
    ] {
        let copy = home.path().join(name);
        restore(&archive, &copy, to).unwrap();
        let found = crate::model::pages(&open(&copy));
        assert_eq!(found.0, pages, "{name}");
        assert!(
            found
                .1
                .iter()
                .all(|(n, bytes)| bytes[..] == [*n as u8; 512])
        );
    }
    let early = restore(
        &archive,
        &home.path().join("x"),
        RestoreTo::Time(first.time - 1),
    );
    assert!(
        early
            .unwrap_err()
            .to_string()
            .contains("choose a later end")
    );
    file.close().unwrap();
    attached.close().unwrap();
}

/// A machine takes a page file over: it continues the same archive, and the old one can confirm nothing.
#[test]
fn a_takeover_restores_the_page_file_and_continues_its_archive() {
    let home = temp();
    let archive = archive(home.path());
    let path = home.path().join("file");
    let file = logforce::pages::create_new(&path, options()).unwrap();
    let attached = archive.attach_page_file(&file, attach_options()).unwrap();
    let mut random = fastrand::Rng::with_seed(1);
    let model = Model::default();
    for _ in 0..100 {
        model.note(commit(&file, 0, &mut random));
    }
    base(&archive, &path).unwrap();
    for _ in 0..100 {
        model.note(commit(&file, 0, &mut random));
    }
    let (last, state) = pages(&file);
    let goal = attached.status().durable;
    while attached.status().archived < goal.max(attached.status().durable) {
        thread::sleep(Duration::from_millis(10));
    }
    let copy = home.path().join("copy");
    let require = Guarantee::ProcessCrash;
    let (_, report) = archive.takeover(&copy, "b", require, &mut |_| {}).unwrap();
    // The old machine goes on, and confirms nothing more.
    commit(&file, 0, &mut random);
    let deposed = attached.close().unwrap_err();
    assert!(deposed.is_deposed(), "{deposed}");
    let taken = open(&copy);
    assert_eq!(pages(&taken), (last, state));
    let attached = archive.attach_page_file(&taken, attach_options()).unwrap();
    for _ in 0..50 {
        model.note(commit(&taken, 0, &mut random));
    }
    // A copy of the page file that was deposed does not get into the archive.
    let stale = base(&archive, &path);
    assert!(stale.is_err(), "{stale:?}");
    base(&archive, &copy).unwrap();
    let (last, state) = pages(&taken);
    assert!(state == model.state(last));
    taken.close().unwrap();
    attached.close().unwrap();
    let again = home.path().join("again");
    let end = restore(&archive, &again, RestoreTo::End).unwrap();
    assert!(end > report.end);
    assert_eq!(pages(&open(&again)), (last, state));
}

/// Commits that were made while it was copied are in a copy. So a restore to a time before them begins with an
/// older one.
#[test]
fn a_copy_stands_for_the_time_of_its_end() {
    let home = temp();
    let archive = archive(home.path());
    let path = home.path().join("file");
    let file = logforce::pages::create_new(&path, options()).unwrap();
    let attached = archive.attach_page_file(&file, attach_options()).unwrap();
    let write = |n: u8| {
        let mut txn = file.begin().unwrap();
        txn.write(0, &[n; 512]).unwrap();
        txn.commit().unwrap();
    };
    write(1);
    file.checkpoint().unwrap();
    base(&archive, &path).unwrap();
    let time = Cell::new(None);
    let pause = || thread::sleep(Duration::from_millis(30));
    let stop = || {
        if time.get().is_none() {
            pause();
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
            time.set(Some(now.as_nanos() as u64));
            pause();
            write(2);
        }
        false
    };
    archive.base(&path, &stop, &mut |_| {}).unwrap();
    assert_eq!(archive.list().unwrap().bases.len(), 2);
    file.close().unwrap();
    attached.close().unwrap();
    let copy = home.path().join("copy");
    restore(&archive, &copy, RestoreTo::Time(time.get().unwrap())).unwrap();
    assert_eq!(pages(&open(&copy)).1[&0], [1; 512]);
}

/// Seconds since 1970 on the clock of the archive below.
static SECONDS: AtomicU64 = AtomicU64::new(0);

fn clock() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(SECONDS.load(Relaxed))
}

/// After the clock went back, a copy may say an earlier time than the log that it needs.
#[test]
fn a_copy_without_the_log_that_it_needs_is_not_restored() {
    let home = temp();
    std::fs::create_dir(home.path().join("bucket")).unwrap();
    let options_with_clock = ArchiveOptions {
        clock,
        ..ArchiveOptions::default()
    };
    let bucket = home.path().join("bucket");
    let archive = Archive::open(bucket.to_str().unwrap(), options_with_clock).unwrap();
    let path = home.path().join("file");
    let file = logforce::pages::create_new(&path, options()).unwrap();
    let mut random = fastrand::Rng::with_seed(1);
    for seconds in [2_000_000_000, 2_000_000_100] {
        SECONDS.store(seconds, Relaxed);
        let attached = archive.attach_page_file(&file, attach_options()).unwrap();
        commit(&file, 0, &mut random);
        attached.close().unwrap();
    }
    SECONDS.store(2_000_000_010, Relaxed);
    base(&archive, &path).unwrap();
    file.close().unwrap();
    let copy = home.path().join("copy");
    let time = RestoreTo::Time(2_000_000_050_000_000_000);
    let refused = restore(&archive, &copy, time).unwrap_err();
    assert!(
        refused.to_string().contains("choose a later end"),
        "{refused}"
    );
    assert!(!copy.exists());
    restore(&archive, &copy, RestoreTo::End).unwrap();
}
