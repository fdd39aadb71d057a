//! Durable files: the public calls, on the disk of the machine that runs the tests.

#[cfg(target_os = "linux")]
mod failures;
mod locks;
mod names;
mod openings;
mod simulated;

use crate::common::{methods, temp};
use logforce::file::{Acknowledged, CommitHandle, Error, ErrorKind, File, Options, Prepare};
use logforce::{Guarantee, Method};
use logforce_device::ForceBy;
use std::sync::Barrier;
use std::time::Duration;

/// Options that work on any disk.
fn options() -> Options {
    File::options()
        .require(Guarantee::ProcessCrash)
        .calibrate(false)
        .create(true)
}

#[track_caller]
fn assert_error<T>(result: Result<T, Error>, kind: ErrorKind, words: &[&str]) -> Error {
    let Err(e) = result else {
        panic!("this should have failed: {kind:?} {words:?}");
    };
    let message = e.to_string();
    println!("{kind:?}: {message}");
    assert_eq!(e.kind(), kind, "{message}");
    for word in words {
        assert!(message.contains(word), "'{word}' is not in: {message}");
    }
    e
}

fn contents(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; file.len().unwrap() as usize];
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), bytes.len());
    bytes
}

#[test]
fn the_types_can_be_shared_and_reported() {
    fn shared<T: Send + Sync + 'static>() {}
    fn error<T: std::error::Error + Send + Sync + 'static>() {}
    shared::<File>();
    shared::<Options>();
    shared::<CommitHandle>();
    shared::<Acknowledged>();
    error::<Error>();
}

#[test]
fn every_method_does_everything() {
    let home = temp();
    let mut tried = 0;
    for (method, aligned) in methods(home.path())
        .into_iter()
        .flat_map(|m| [(m, false), (m, true)])
    {
        let path = home.path().join(format!("{method}-{aligned}"));
        let options = options().method(method).aligned(aligned);
        if method.plan().direct && !aligned {
            assert_error(options.open(&path), ErrorKind::Unavailable, &["direct I/O"]);
            assert!(!path.exists());
            continue;
        }
        let file = options.open(&path).unwrap();
        println!("{file:?}");
        let unit = match aligned {
            true => file.write_unit() as usize,
            false => 100,
        };
        let block = |n: u8| vec![n; unit];
        let at = |n: u64| n * unit as u64;
        file.write_at(&block(0), at(0)).unwrap();
        let granted = file.commit().unwrap().guarantee;
        assert_eq!(granted, file.guarantee());
        assert_eq!(
            file.write_commit(&block(1), at(1)).unwrap().guarantee,
            granted
        );
        file.writev_commit(&[&block(2), &[], &block(3)], at(2))
            .unwrap();
        file.writev_at(&[&block(4), &block(5)], at(4)).unwrap();
        assert_eq!(
            smol::block_on(file.commit_async()).unwrap().guarantee,
            granted
        );
        let waited = file.submit(&block(6), at(6)).unwrap();
        let awaited = file.submit(&block(7), at(7)).unwrap();
        let _dropped = file.submit(&block(8), at(8)).unwrap();
        assert_eq!(waited.wait().unwrap().guarantee, granted);
        assert_eq!(smol::block_on(awaited).unwrap().guarantee, granted);
        let expected: Vec<u8> = (0..9).flat_map(block).collect();
        assert!(contents(&file) == expected, "{method}");
        file.close().unwrap();
        let file = File::options()
            .require(Guarantee::ProcessCrash)
            .calibrate(false)
            .open(&path)
            .unwrap();
        assert!(contents(&file) == expected, "{method}");
        let mut medium = vec![0; unit + 1];
        // Not every filesystem can read past its cache.
        if let Ok(read) = file.read_medium_at(&mut medium, at(3) - 1) {
            assert_eq!((read, &medium[..2]), (unit + 1, &[2, 3][..]));
            assert_eq!(file.read_medium_at(&mut medium, at(9) - 1).unwrap(), 1);
            assert_eq!(file.read_medium_at(&mut medium, at(12)).unwrap(), 0);
        }
        tried += 1;
    }
    assert!(tried >= 4);
}

#[test]
fn many_threads_share_syncs_and_lose_nothing() {
    const THREADS: u64 = 8;
    const COMMITS: u64 = 40;
    let home = temp();
    let file = options().open(home.path().join("slots")).unwrap();
    let begin = Barrier::new(THREADS as usize);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (file, begin) = (&file, &begin);
            scope.spawn(move || {
                begin.wait();
                for n in 0..COMMITS {
                    let (at, slot) = (8 * (thread * COMMITS + n), (thread << 32 | n).to_le_bytes());
                    match n % 4 {
                        0 => file.write_commit(&slot, at).map(drop).unwrap(),
                        1 => file.submit(&slot, at).unwrap().wait().map(drop).unwrap(),
                        2 => file.submit(&slot, at).map(drop).unwrap(),
                        _ => {
                            file.write_at(&slot, at).unwrap();
                            file.commit().map(drop).unwrap();
                        }
                    }
                }
            });
        }
    });
    let slots = (0..THREADS).flat_map(|t| (0..COMMITS).map(move |n| (t << 32 | n).to_le_bytes()));
    assert!(contents(&file) == slots.flatten().collect::<Vec<u8>>());
    let counters = file.stats().counters;
    println!("{counters:?}");
    assert_eq!(counters.writes, THREADS * COMMITS);
    assert_eq!(counters.write_bytes, 8 * THREADS * COMMITS);
    assert!(counters.syncs + counters.through_writes <= counters.commits + 1);
    file.close().unwrap();
}

#[test]
fn what_is_prepared_keeps_its_bytes() {
    let home = temp();
    for aligned in [false, true] {
        for how in [Prepare::Written, Prepare::Reserved] {
            let path = home.path().join(format!("{aligned}-{how:?}"));
            let file = options().aligned(aligned).open(&path).unwrap();
            let unit = u64::from(file.write_unit().max(4096));
            file.write_at(&vec![1; unit as usize], 0).unwrap();
            // A hole, and bytes that only the system's cache holds.
            file.write_at(&vec![2; unit as usize], 9 * unit).unwrap();
            let before = contents(&file);
            let state = file.prepare(0..(3 << 20) + 1, how).unwrap();
            println!("{aligned} {how:?}: {state:?}");
            let len = file.len().unwrap();
            let whole = ((3 << 20) + 1_u64).next_multiple_of(file.write_unit().into());
            assert_eq!(len, whole);
            let after = contents(&file);
            assert!(after[..before.len()] == before[..]);
            assert!(after[before.len()..].iter().all(|b| *b == 0));
            // Again, in the middle and not at all.
            assert_eq!(file.prepare(0..(3 << 20) + 1, how).unwrap(), state);
            file.prepare(unit + 1..2 * unit - 1, how).unwrap();
            file.prepare(5..5, how).unwrap();
            assert!(contents(&file) == after && file.len().unwrap() == whole);
        }
    }
}

#[test]
fn bad_arguments_change_nothing() {
    let home = temp();
    let path = home.path().join("aligned");
    let file = options().aligned(true).open(&path).unwrap();
    let unit = u64::from(file.write_unit());
    assert!(unit >= 4096);
    let block = vec![1; unit as usize];
    for (bytes, offset) in [(&block[1..], 0), (&block[..], 1), (&block[..], unit + 512)] {
        let words = ["not aligned", "File::write_unit"];
        assert_error(
            file.write_at(bytes, offset),
            ErrorKind::InvalidInput,
            &words,
        );
        assert_error(
            file.write_commit(bytes, offset),
            ErrorKind::InvalidInput,
            &words,
        );
        assert_error(file.submit(bytes, offset), ErrorKind::InvalidInput, &words);
    }
    let last = u64::MAX / unit * unit;
    for offset in [last, 1 << 63, (1 << 63) - unit] {
        assert_error(
            file.write_at(&block, offset),
            ErrorKind::InvalidInput,
            &["range"],
        );
    }
    for range in [0..u64::MAX, u64::MAX - 1..u64::MAX, 0..1 << 63] {
        let refused = file.prepare(range, Prepare::Reserved);
        assert_error(refused, ErrorKind::InvalidInput, &["range"]);
    }
    #[allow(clippy::reversed_empty_ranges)]
    for range in [9 * unit..unit, unit + 2..unit + 1] {
        let refused = file.prepare(range, Prepare::Written);
        assert_error(refused, ErrorKind::InvalidInput, &["range"]);
    }
    for offset in [u64::MAX, u64::MAX - 3, 1 << 63] {
        let read = file.read_at(&mut [0; 9], offset);
        assert_error(read, ErrorKind::InvalidInput, &[]);
        let read = file.read_medium_at(&mut [0; 9], offset);
        assert_error(read, ErrorKind::InvalidInput, &[]);
    }
    assert_eq!(file.len().unwrap(), 0);
    // Writes of nothing.
    file.write_at(&[], 0).unwrap();
    file.write_commit(&[], unit).unwrap();
    file.writev_at(&[], 0).unwrap();
    file.writev_commit(&[&[], &[]], 0).unwrap();
    file.submit(&[], 0).unwrap().wait().unwrap();
    assert_eq!(file.stats().counters.writes, 0);
    // A write that is longer than one of the system's.
    let long = vec![7; (5 << 20) + unit as usize];
    file.writev_commit(&[&long[..9], &long[9..]], unit).unwrap();
    assert!(contents(&file)[unit as usize..] == long);
}

/// Commits that have met once are not expected for ever.
#[test]
fn a_commit_that_is_alone_again_is_one_durable_write() {
    let home = temp();
    let through = Method::here().iter().find(|m| is_through(**m));
    let Some(through) = through else {
        return logforce_testkit::skip!("no write-through on this system");
    };
    let file = options().method(*through);
    let file = file.open(home.path().join("f")).unwrap();
    if !is_through(file.method()) {
        return logforce_testkit::skip!("a write-through guarantees less here than a flush");
    }
    for _ in 0..20 {
        let begin = Barrier::new(2);
        std::thread::scope(|scope| {
            for n in 0..2 {
                let (file, begin) = (&file, &begin);
                scope.spawn(move || {
                    file.write_at(&[n; 9], 9 * u64::from(n)).unwrap();
                    begin.wait();
                    file.commit().unwrap();
                });
            }
        });
        file.submit(b"x", 99).unwrap().wait().unwrap();
        let through_writes = || file.stats().counters.through_writes;
        let before = through_writes();
        // On a busy machine a commit that met another one took long, and the next ones expect others for half
        // that time.
        let is_alone = (0..10_000).any(|n| {
            file.write_commit(&[1; 9], 9 * n).unwrap();
            through_writes() > before
        });
        assert!(is_alone, "{:?}", file.stats().counters);
    }
    assert!(file.stats().commits_per_force().unwrap() > 0.5);
}

fn is_through(method: Method) -> bool {
    let plan = method.plan();
    plan.force == ForceBy::Through && !plan.direct
}

/// A thread of the file would show among those of this process.
#[cfg(target_os = "linux")]
#[test]
fn a_bound_may_be_longer_than_the_clock() {
    let home = temp();
    let path = home.path().join("file");
    let file = options().open(&path).unwrap();
    file.write_at(b"in time", 0).unwrap();
    file.commit_within(Duration::MAX).unwrap();
    assert_eq!(file.stats().counters.syncs, 0);
    file.close().unwrap();
    assert_eq!(std::fs::read(path).unwrap(), b"in time");
}

#[test]
fn no_thread_without_a_submission() {
    const NAME: &str = "files::no_thread_without_a_submission";
    const DIR: &str = "LOGFORCE_TEST_DIR";
    let Some(dir) = crate::common::in_second_process(DIR) else {
        let home = temp();
        let output = crate::common::again(NAME, DIR, home.path()).output();
        return crate::common::assert_passed(&output.unwrap());
    };
    let threads = || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        let names = tasks.map(|t| std::fs::read_to_string(t.unwrap().path().join("comm")));
        let own = names.filter(|n| n.as_ref().is_ok_and(|n| n.starts_with("logforce")));
        own.count()
    };
    let file = options().open(dir.join("f")).unwrap();
    file.write_commit(b"x", 0).unwrap();
    file.write_at(b"y", 1).unwrap();
    file.commit().unwrap();
    file.prepare(0..1 << 20, Prepare::Written).unwrap();
    // Nothing to wait for needs no thread either.
    smol::block_on(file.commit_async()).unwrap();
    assert_eq!(threads(), 0);
    let submitted = file.submit(b"z", 2).unwrap();
    // A thread gives itself its name after it has begun.
    while threads() == 0 {
        std::thread::yield_now();
    }
    assert_eq!(threads(), 1);
    file.submit(b"z", 2).unwrap().wait().unwrap();
    submitted.wait().unwrap();
    drop(file);
    assert_eq!(threads(), 0);
}
