//! Followers on real files, in the writing process and in another one.

use crate::common::*;
use logforce::{
    Batch, Error, ErrorKind, Guarantee, Log, Lsn, Policy, Position, ReadOnlyFollower, Record,
    Result,
};
use logforce_testkit::Rng;
use logforce_testkit::process::Start;
use smol::stream::Stream;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::pin::Pin;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

const DIR: &str = "LOGFORCE_TEST_DIR";
pub const LONG: Duration = Duration::from_secs(60);
const COUNT: u64 = 3000;

/// Returns true if the log writes stamps: it does so only with `PowerLoss`. A follower in another process
/// needs them to see records.
pub fn has_stamps(log: &Log) -> bool {
    let strong = log.guarantee() == Guarantee::PowerLoss;
    if !strong {
        logforce_testkit::skip!("{} in {}", log.guarantee(), log.path().display());
    }
    strong
}

pub fn remote(dir: &Path, from: Lsn) -> Result<ReadOnlyFollower> {
    let follower = logforce::read_only(dir)?.follow_lsn(from)?;
    Ok(follower.poll_interval(Duration::from_millis(1)))
}

/// Opens a follower at a stored position, as after a restart.
pub fn remote_at(dir: &Path, stored: &Position) -> Result<ReadOnlyFollower> {
    let stored = stored.to_string().parse()?;
    let follower = logforce::read_only(dir)?.follow(&stored)?;
    Ok(follower.poll_interval(Duration::from_millis(1)))
}

#[track_caller]
pub fn next(follower: &mut ReadOnlyFollower) -> Record {
    let next = follower.next_timeout(LONG).unwrap();
    next.expect("a durable record is seen within a minute")
}

/// Commits up to [`COUNT`] numbered records, in all ways to commit.
fn write(dir: &Path) {
    let log = logforce::open_or_create(dir, options()).unwrap();
    let found = read_all(&log).len() as u64;
    tell(&format!("\nfound {found}"));
    let mut rng = Rng::new(found);
    let mut n = found;
    while n < COUNT {
        let len = 8 + rng.below(3000) as usize;
        match rng.below(4) {
            0 => drop(log.append(&record(n, len)).unwrap()),
            1 => drop(log.submit(&record(n, len), Policy::Force).unwrap()),
            2 if n + 2 <= COUNT => {
                let (a, b) = (record(n, len), record(n + 1, 40_000));
                log.commit(Batch::of(&[&a, &b])).unwrap();
                n += 1;
            }
            _ => drop(log.commit(&record(n, len)).unwrap()),
        }
        n += 1;
        if rng.one_in(200) {
            std::thread::sleep(Duration::from_millis(rng.below(80)));
        }
    }
    log.close().unwrap();
    tell("\ndone");
}

/// A crash of the writer never removes a record that a follower has returned. The writer writes every missing
/// record again, so the follower would see it twice.
#[test]
fn a_writer_in_another_process_is_killed_again_and_again() {
    let name = "a_writer_in_another_process_is_killed_again_and_again";
    if let Some(dir) = in_second_process(DIR) {
        return write(&dir);
    }
    let home = temp();
    let dir = home.path().join("log");
    let log = logforce::create_new(&dir, options()).unwrap();
    if !has_stamps(&log) {
        return;
    }
    log.close().unwrap();
    let mut follower = remote(&dir, Lsn::ORIGIN).unwrap();
    assert!(!follower.is_writer_running().unwrap());
    let followed = std::thread::spawn(move || {
        let mut seen = 0;
        let mut rng = Rng::new(1);
        while seen < COUNT {
            let found = next(&mut follower);
            let n = u64::from_le_bytes(found.data[..8].try_into().unwrap());
            assert_eq!(n, seen, "at {}", found.start);
            assert!(found.data == record(n, found.data.len()));
            assert!(follower.position().lsn() >= found.end);
            seen += 1;
            if rng.one_in(100) {
                // The follower restarts, too.
                follower = remote_at(Path::new(&dir), &follower.position()).unwrap();
            }
        }
        follower
    });
    let mut rng = Rng::new(2);
    let mut kills = 0;
    loop {
        let mut child = again(name, DIR, home.path().join("log"))
            .stdout(Stdio::piped())
            .start()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let mut child = Killed(child);
        if kills < 25 {
            std::thread::sleep(Duration::from_millis(20 + rng.below(60)));
            child.kill();
            kills += 1;
        }
        if out.lines().map_while(|l| l.ok()).any(|l| l == "done") {
            break;
        }
    }
    let mut follower = followed.join().unwrap();
    println!("{kills} kills");
    assert!(!follower.is_writer_running().unwrap());
    // The follower waits for another writer, and gives up after its timeout.
    let none = follower.next_timeout(Duration::from_millis(20));
    assert_eq!(none.unwrap(), None);
    let log = logforce::open_existing(home.path().join("log"), options()).unwrap();
    assert!(follower.is_writer_running().unwrap());
    log.commit(b"more").unwrap();
    let began = Instant::now();
    assert_eq!(next(&mut follower).data, b"more");
    println!("seen after {:?}", began.elapsed());
}

#[test]
fn a_remote_follower_and_truncation() {
    let dir = temp();
    let log = logforce::create_new(dir.path(), options()).unwrap();
    if !has_stamps(&log) {
        return;
    }
    let mut follower = remote(dir.path(), Lsn::ORIGIN).unwrap();
    let placed: Vec<_> = (0..10)
        .map(|n| log.commit(&record(n, 100)).unwrap())
        .collect();
    for n in 0..10 {
        assert!(next(&mut follower).data == record(n, 100));
    }
    // The log is truncated at the back twice, further down the second time. Then it continues.
    for from in [6, 3] {
        log.truncate_back(placed[from].start).unwrap();
        let e = follower.next_timeout(LONG).unwrap_err();
        let Error::Voided { from: at, to, .. } = e else {
            panic!("{e}")
        };
        assert!(at == placed[from].start && to <= log.tail_lsn(), "{e}");
        assert_eq!(follower.position().lsn(), at);
    }
    // A follower that resumes there continues behind the void range. Records above it must be undone first.
    let mut second = remote_at(dir.path(), &follower.position()).unwrap();
    let voided = remote(dir.path(), placed[8].start).map(drop);
    assert_error(voided, ErrorKind::Voided, &[]);
    log.commit(b"behind").unwrap();
    assert_eq!(next(&mut follower).data, b"behind");
    assert_eq!(next(&mut second).data, b"behind");

    // The front passes the follower while the writer reuses the segments.
    let mut last = log.commit(b"x").unwrap();
    for n in 0..200 {
        last = log.commit(&record(n, 10_000)).unwrap();
        if n % 20 == 19 {
            log.truncate_front(last.start).unwrap();
        }
    }
    let e = loop {
        match follower.try_next() {
            Ok(None) => std::thread::sleep(Duration::from_millis(1)),
            Ok(Some(found)) => assert!(found.data.len() < 10_000, "its segment is gone"),
            Err(e) => break e,
        }
    };
    let Error::Truncated { front, .. } = e else {
        panic!("{e}")
    };
    assert_eq!(front, log.front_lsn());
    // The follower stays ended.
    assert!(follower.try_next().unwrap().is_none());
    assert!(follower.is_ended() && follower.next_blocking().is_none());
    let mut anew = remote(dir.path(), front).unwrap();
    assert_eq!(next(&mut anew).start, last.start);
    assert_error(
        remote(dir.path(), log.tail_lsn().plus(1 << 20)).map(drop),
        ErrorKind::BeyondEnd,
        &[],
    );
}

/// A method without barriers proves records durable only at a close, and when a segment comes into use.
#[test]
fn under_a_weak_method_a_close_proves() {
    let dir = temp();
    let weak = options().method(logforce::Method::Buffered);
    let log = logforce::create_new(dir.path(), weak.clone()).unwrap();
    // Preparing the next segment forces all written records. These records use less than half of the first
    // segment, so no other one is prepared.
    let mut follower = remote(dir.path(), Lsn::ORIGIN).unwrap();
    for n in 0..10 {
        log.commit(&record(n, 100)).unwrap();
    }
    let none = follower.next_timeout(Duration::from_millis(100));
    assert_eq!(none.unwrap(), None);
    log.close().unwrap();
    for n in 0..10 {
        assert!(next(&mut follower).data == record(n, 100));
    }
    let log = logforce::open_existing(dir.path(), weak).unwrap();
    for n in 10..300 {
        log.commit(&record(n, 5000)).unwrap();
    }
    // Several segments came into use, so most records are proven durable.
    for n in 10..150 {
        assert!(next(&mut follower).data == record(n, 5000));
    }
}

#[test]
fn in_the_same_process() {
    let dir = temp();
    let log = logforce::create_new(dir.path(), options()).unwrap();
    let placed: Vec<_> = (0..10)
        .map(|n| log.commit(&record(n, 100)).unwrap())
        .collect();
    let mut follower = log.follow_lsn(log.front_lsn()).unwrap();
    let mut behind = log.follow_lsn(placed[2].start).unwrap();
    assert!(behind.try_next().unwrap().unwrap().data == record(2, 100));
    let mut seen = 0;
    while let Some(found) = follower.try_next().unwrap() {
        assert!(found.data == record(seen, 100));
        seen += 1;
    }
    assert_eq!(seen, 10);
    for from in [6, 1] {
        log.truncate_back(placed[from].start).unwrap();
        let e = follower.next_blocking().unwrap().unwrap_err();
        assert!(
            matches!(e, Error::Voided { from: at, .. } if at == placed[from].start),
            "{e}"
        );
    }
    assert_eq!(follower.try_next().unwrap(), None);
    // The follower had returned one record that is gone. It does not report the others.
    assert_error(behind.try_next(), ErrorKind::Voided, &[]);
    assert_eq!(behind.try_next().unwrap(), None);
    log.commit(b"behind").unwrap();
    for f in [&mut follower, &mut behind] {
        assert_eq!(f.next_blocking().unwrap().unwrap().data, b"behind");
    }
    // One thread waits for records; the front passes the other one.
    let seen: Arc<AtomicUsize> = Arc::default();
    let count = seen.clone();
    let waiting = std::thread::spawn(move || {
        while let Some(found) = follower.next_blocking() {
            found.unwrap();
            count.fetch_add(1, SeqCst);
        }
        assert!(follower.try_next().unwrap().is_none());
    });
    let until = |n| {
        let began = Instant::now();
        while seen.load(SeqCst) < n {
            assert!(began.elapsed() < LONG, "{} of {n}", seen.load(SeqCst));
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    for n in 0..50 {
        log.commit(&record(n, 10_000)).unwrap();
    }
    let last = log.commit(b"last").unwrap();
    // Only records that the waiting thread has seen may be truncated.
    until(51);
    log.truncate_front(last.start).unwrap();
    assert_error(behind.next_blocking().unwrap(), ErrorKind::Truncated, &[]);
    assert!(behind.next_blocking().is_none() || behind.try_next().unwrap().is_none());
    log.close().unwrap();
    waiting.join().unwrap();
    assert_eq!(seen.load(SeqCst), 51);
}

/// Both kinds of followers can be awaited, used as streams, and used with timeouts. Their lag is zero once
/// they have caught up, also if the last batch is padded.
#[test]
fn followers_are_streams_and_know_their_lag() {
    let dir = temp();
    let log = logforce::create_new(dir.path(), options()).unwrap();
    if !has_stamps(&log) {
        return;
    }
    let mut here = log.follow_lsn(log.front_lsn()).unwrap();
    let mut there = remote(dir.path(), log.front_lsn()).unwrap();
    for n in 0..50 {
        log.commit(&record(n, 100)).unwrap();
    }
    assert!(here.lag() > 50 * 100);
    smol::block_on(async {
        for n in 0..50 {
            assert_eq!(here.next().await.unwrap().unwrap().data, record(n, 100));
            let streamed = std::future::poll_fn(|cx| Stream::poll_next(Pin::new(&mut there), cx));
            assert_eq!(streamed.await.unwrap().unwrap().data, record(n, 100));
        }
    });
    let short = Duration::from_millis(20);
    assert!(here.next_timeout(short).unwrap().is_none());
    assert!(there.next_timeout(short).unwrap().is_none());
    assert_eq!((here.lag(), there.lag()), (0, 0));
    // The position also advances over idle stamps.
    assert_eq!(here.position().lsn(), log.durable_lsn());
    assert!(there.position().lsn() <= log.durable_lsn());
    // Resuming at that position skips no record and repeats none.
    let mut again = log.follow(&there.position()).unwrap();
    let mut elsewhere = remote_at(dir.path(), &here.position()).unwrap();
    let data = record(50, 70_000);
    log.commit(&data).unwrap();
    assert_eq!(here.next_timeout(LONG).unwrap().unwrap().data, data);
    assert_eq!(again.next_blocking().unwrap().unwrap().data, data);
    assert_eq!(elsewhere.next_blocking().unwrap().unwrap().data, data);
    // Runs followers in tasks of a multi-threaded runtime, and cancels one of them often.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .unwrap();
    let followed = runtime.spawn(async move {
        let (mut seen, mut cancelled) = (Vec::new(), 0);
        while seen.len() < 20 {
            match tokio::time::timeout(Duration::from_millis(3), elsewhere.next()).await {
                Ok(found) => seen.push(found.unwrap().unwrap().data),
                Err(_) => cancelled += 1,
            }
        }
        (seen, cancelled)
    });
    for n in 51..71 {
        std::thread::sleep(Duration::from_millis(5));
        log.commit(&record(n, 100)).unwrap();
    }
    let (seen, _) = runtime.block_on(followed).unwrap();
    let expected: Vec<_> = (51..71).map(|n| record(n, 100)).collect();
    assert_eq!(seen, expected);
    log.close().unwrap();
    while here.next_blocking().is_some() {}
    assert!(here.is_ended() && here.next_timeout(short).unwrap().is_none());
}
