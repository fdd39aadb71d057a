//! Followers on real files: in the process that writes, and in another.

use crate::common::*;
use logforce::{
    BackupOptions, Batch, Error, ErrorKind, Guarantee, Log, Lsn, Options, Policy, Position,
    ReadOnlyFollower, Record, Result, Tuning,
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
const LONG: Duration = Duration::from_secs(60);
const COUNT: u64 = 3000;

/// Stamps, by which a follower in another process sees, are for `PowerLoss` only.
fn has_stamps(log: &Log) -> bool {
    let strong = log.guarantee() == Guarantee::PowerLoss;
    if !strong {
        logforce_testkit::skip!("{} in {}", log.guarantee(), log.path().display());
    }
    strong
}

fn remote(dir: &Path, from: Lsn) -> Result<ReadOnlyFollower> {
    let follower = logforce::read_only(dir)?.follow_lsn(from)?;
    Ok(follower.poll_interval(Duration::from_millis(1)))
}

/// Opens a follower at a stored position, as after a restart.
fn remote_at(dir: &Path, stored: &Position) -> Result<ReadOnlyFollower> {
    let stored = stored.to_string().parse()?;
    let follower = logforce::read_only(dir)?.follow(&stored)?;
    Ok(follower.poll_interval(Duration::from_millis(1)))
}

#[track_caller]
fn next(follower: &mut ReadOnlyFollower) -> Record {
    let next = follower.next_timeout(LONG).unwrap();
    next.expect("a durable record is seen within a minute")
}

/// Commits up to [`COUNT`] numbered records, in every way there is.
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

/// A crash of the writer never removes what a follower has shown: whatever the writer does not
/// find it writes again, and the follower would see that twice.
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
                // A follower may die as well.
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
    // It waits for another writer, and gives up when it is told to.
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
    // Truncated at the back twice, further down the second time; then it goes on.
    for from in [6, 3] {
        log.truncate_back(placed[from].start).unwrap();
        let e = follower.next_timeout(LONG).unwrap_err();
        let Error::Voided { from: at, to, .. } = e else {
            panic!("{e}")
        };
        assert!(at == placed[from].start && to <= log.tail_lsn(), "{e}");
        assert_eq!(follower.position().lsn(), at);
    }
    // A follower that starts there again goes on behind the range; above it has to be undone first.
    let mut second = remote_at(dir.path(), &follower.position()).unwrap();
    let voided = remote(dir.path(), placed[8].start).map(drop);
    assert_error(voided, ErrorKind::Voided, &[]);
    log.commit(b"behind").unwrap();
    assert_eq!(next(&mut follower).data, b"behind");
    assert_eq!(next(&mut second).data, b"behind");

    // The front passes it while the writer goes on and reuses the segments.
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
    // It stays ended.
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

/// A method without barriers gives no proof but at closing and where a segment comes into use.
#[test]
fn under_a_weak_method_a_close_proves() {
    let dir = temp();
    let weak = options().method(logforce::Method::Buffered);
    let log = logforce::create_new(dir.path(), weak.clone()).unwrap();
    // Before the next segment is prepared, what was written is forced: these records do not use up half
    // of the first.
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
    // Several segments were begun: most of it is proven.
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
    // It had shown one record, which is gone; of the others it says nothing.
    assert_error(behind.try_next(), ErrorKind::Voided, &[]);
    assert_eq!(behind.try_next().unwrap(), None);
    log.commit(b"behind").unwrap();
    for f in [&mut follower, &mut behind] {
        assert_eq!(f.next_blocking().unwrap().unwrap().data, b"behind");
    }
    // A thread that waits, and one that is passed by the front.
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
    // Only what the waiting one has seen may go.
    until(51);
    log.truncate_front(last.start).unwrap();
    assert_error(behind.next_blocking().unwrap(), ErrorKind::Truncated, &[]);
    assert!(behind.next_blocking().is_none() || behind.try_next().unwrap().is_none());
    log.close().unwrap();
    waiting.join().unwrap();
    assert_eq!(seen.load(SeqCst), 51);
}

/// Both followers alike: awaited, as streams, with timeouts; and their lag is zero once they have
/// caught up, also where the last batch is padded.
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
    // Stamps of the pause count as well: the position goes on with them.
    assert_eq!(here.position().lsn(), log.durable_lsn());
    assert!(there.position().lsn() <= log.durable_lsn());
    // To start from there skips nothing and repeats nothing.
    let mut again = log.follow(&there.position()).unwrap();
    let mut elsewhere = remote_at(dir.path(), &here.position()).unwrap();
    let data = record(50, 70_000);
    log.commit(&data).unwrap();
    assert_eq!(here.next_timeout(LONG).unwrap().unwrap().data, data);
    assert_eq!(again.next_blocking().unwrap().unwrap().data, data);
    assert_eq!(elsewhere.next_blocking().unwrap().unwrap().data, data);
    // In tasks of a runtime with threads, one of which is cancelled often.
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

/// Returns the next error of a follower, and ignores the records before it.
#[track_caller]
fn error_of(follower: &mut ReadOnlyFollower) -> Error {
    loop {
        match follower.next_timeout(LONG) {
            Ok(Some(_)) => {}
            Ok(None) => panic!("nothing came for a minute, at {:?}", follower.position()),
            Err(e) => return e,
        }
    }
}

#[track_caller]
fn diverged(error: Error) -> Lsn {
    match error {
        Error::Diverged { from, .. } => from,
        e => panic!("{e}"),
    }
}

/// Restored backups, another log and a missing directory below a follower, in another process than the
/// writer; also by stored positions.
#[test]
#[cfg_attr(windows, ignore = "a directory with open files cannot be renamed")]
fn another_history_in_the_place_of_the_one_that_was_followed() {
    let name = "another_history_in_the_place_of_the_one_that_was_followed";
    if let Some(dir) = in_second_process(DIR) {
        let log = logforce::open_or_create(dir, options()).unwrap();
        for _ in 0..50 {
            let n = read_all(&log).len() as u64;
            // Each process writes different records.
            let n = (n << 32) + u64::from(std::process::id());
            log.commit(&record(n, 100)).unwrap();
        }
        return log.close().unwrap();
    }
    let home = temp();
    let (dir, backup, old) = (
        home.path().join("log"),
        home.path().join("backup"),
        home.path().join("old"),
    );
    let copy = |from: &Path, to: &Path| {
        let copied = logforce::backup(from, to, BackupOptions::new().require(Guarantee::PowerLoss));
        copied.map(drop).unwrap();
    };
    let write = |dir: &Path| assert_passed(&again(name, DIR, dir).output().unwrap());
    write(&dir);
    let log = logforce::open_existing(&dir, options()).unwrap();
    if !has_stamps(&log) {
        return;
    }
    log.close().unwrap();
    let end = logforce::read_only(&dir).unwrap().durable_lsn();
    let restore = || {
        let _ = std::fs::remove_dir_all(&old);
        std::fs::rename(&dir, &old).unwrap();
        copy(&backup, &dir);
    };
    copy(&dir, &backup);
    write(&dir);
    write(&dir);
    let mut follower = remote(&dir, Lsn::ORIGIN).unwrap();
    let records: Vec<Record> = (0..150).map(|_| next(&mut follower)).collect();
    assert!(follower.next_timeout(Duration::ZERO).unwrap().is_none());
    let stored = follower.position();

    // An older copy is restored, and nothing is written since: below a follower, and before one that begins
    // at a stored position.
    restore();
    let from = diverged(error_of(&mut follower));
    assert!(
        from >= records[49].end && from <= records[50].start,
        "{from}"
    );
    assert!(follower.is_ended());
    assert_eq!(
        diverged(remote_at(&dir, &stored).map(drop).unwrap_err()),
        from
    );
    assert!(from <= end);
    // From there on the follower returns the restored log's records, which other openings append.
    let mut follower = remote_at(&dir, &stored.back_to(from)).unwrap();
    write(&dir);
    write(&dir);
    let other: Vec<Record> = (50..150).map(|_| next(&mut follower)).collect();
    assert!(other[0].data != records[50].data);
    assert_eq!(
        diverged(remote_at(&dir, &stored).map(drop).unwrap_err()),
        from
    );
    let log = logforce::open_existing(&dir, options()).unwrap();
    let here = log.follow(&stored).map(drop);
    assert_eq!(diverged(here.unwrap_err()), from);
    assert!(log.follow(&follower.position()).is_ok());
    log.close().unwrap();

    // A copy of the same history is moved to the directory: the follower continues in it.
    let moved = home.path().join("moved");
    copy(&dir, &moved);
    std::fs::rename(&dir, home.path().join("first")).unwrap();
    std::fs::rename(&moved, &dir).unwrap();
    write(&dir);
    for _ in 0..50 {
        next(&mut follower);
    }

    // The directory contains another log, then none.
    let stored = follower.position();
    std::fs::remove_dir_all(&dir).unwrap();
    write(&dir);
    assert_eq!(error_of(&mut follower).kind(), ErrorKind::OtherLog);
    let refused = remote_at(&dir, &stored).map(drop);
    assert_error(
        refused,
        ErrorKind::OtherLog,
        &[&stored.log_id().to_string()],
    );
    let mut follower = remote(&dir, Lsn::ORIGIN).unwrap();
    next(&mut follower);
    std::fs::remove_dir_all(&dir).unwrap();
    assert_eq!(error_of(&mut follower).kind(), ErrorKind::NoLog);
}

/// Two copies of a log that truncate at the back: the second voids a range that holds the position of the
/// first one's replica.
#[test]
#[cfg_attr(windows, ignore = "a directory with open files cannot be renamed")]
fn two_copies_that_truncate_at_the_back() {
    let home = temp();
    let (dir, other, old) = (
        home.path().join("log"),
        home.path().join("other"),
        home.path().join("old"),
    );
    let open = |dir: &Path| logforce::open_or_create(dir, options()).unwrap();
    let log = open(&dir);
    if !has_stamps(&log) {
        return;
    }
    let commit = |log: &Log, data: &str| log.commit(data.as_bytes()).unwrap();
    commit(&log, "r0");
    let r1 = commit(&log, "r1");
    log.close().unwrap();
    logforce::backup(
        &dir,
        &other,
        BackupOptions::new().require(Guarantee::PowerLoss),
    )
    .unwrap();

    let log = open(&dir);
    log.truncate_back(r1.start).unwrap();
    commit(&log, "a0");
    commit(&log, "a1");
    let mut replica: Vec<Record> = Vec::new();
    let mut follower = remote(&dir, Lsn::ORIGIN).unwrap();
    let follow = |follower: &mut ReadOnlyFollower, replica: &mut Vec<Record>, last: &str| loop {
        match follower.next_timeout(LONG) {
            Ok(Some(record)) => replica.push(record),
            Ok(None) => panic!("nothing came for a minute, at {:?}", follower.position()),
            Err(Error::Voided { from, .. }) => replica.retain(|r| r.start < from),
            Err(Error::Diverged { from, .. }) => {
                let back = follower.position().back_to(from);
                replica.retain(|r| r.start < back.lsn());
                *follower = remote_at(&dir, &back).unwrap();
            }
            Err(e) => panic!("{e}"),
        }
        if replica.last().is_some_and(|r| r.data == last.as_bytes()) {
            return;
        }
    };
    follow(&mut follower, &mut replica, "a1");
    let stored = follower.position();
    log.close().unwrap();

    let log = open(&other);
    for n in 0..10 {
        commit(&log, &format!("b{n}"));
    }
    log.truncate_back(r1.end).unwrap();
    commit(&log, "bx");
    log.close().unwrap();
    std::fs::rename(&dir, &old).unwrap();
    std::fs::rename(&other, &dir).unwrap();

    // The follower that runs, and one that begins at what was stored.
    let mut later = replica.clone();
    follow(&mut follower, &mut replica, "bx");
    let voided = remote_at(&dir, &stored).map(drop).unwrap_err();
    let Error::Voided { from, .. } = voided else {
        panic!("{voided}");
    };
    // The copy has voided what lies behind r1, and this history r1 itself.
    assert_eq!(from, r1.start);
    let back = stored.back_to(from);
    assert_eq!(back.lsn(), r1.start);
    later.retain(|r| r.start < from);
    let mut follower = remote_at(&dir, &back).unwrap();
    follow(&mut follower, &mut later, "bx");
    for replica in [replica, later] {
        let data: Vec<_> = replica.iter().map(|r| r.data.as_slice()).collect();
        assert_eq!(data, [&b"r0"[..], b"r1", b"bx"]);
    }
}

/// More truncations than a position has steps, and then two that go far back: what the follower returns
/// again, the replica has dropped.
#[test]
fn a_replica_of_many_truncations() {
    let home = temp();
    let dir = home.path().join("log");
    let mut log = logforce::open_or_create(&dir, options()).unwrap();
    if !has_stamps(&log) {
        return;
    }
    let commit = |log: &Log, data: &str| log.commit(data.as_bytes()).unwrap();
    let mut replica: Vec<Record> = Vec::new();
    let mut follower = remote(&dir, Lsn::ORIGIN).unwrap();
    let catch_up = |follower: &mut ReadOnlyFollower, replica: &mut Vec<Record>, last: &str| loop {
        match follower.next_timeout(LONG) {
            Ok(Some(record)) => {
                assert!(
                    replica.last().is_none_or(|r| r.end <= record.start),
                    "twice"
                );
                replica.push(record);
            }
            Ok(None) => panic!("nothing came for a minute, at {:?}", follower.position()),
            Err(Error::Voided { from, .. }) => replica.retain(|r| r.start < from),
            Err(e) => panic!("{e}"),
        }
        if replica.last().is_some_and(|r| r.data == last.as_bytes()) {
            return;
        }
    };
    let mut kept = Vec::new();
    for n in 0..20 {
        for m in 0..4 {
            kept.push(commit(&log, &format!("kept {n} {m}")));
        }
        let gone = commit(&log, "gone");
        catch_up(&mut follower, &mut replica, "gone");
        log.truncate_back(gone.start).unwrap();
    }
    for (back_to, last) in [(9, "first"), (7, "second")] {
        log.truncate_back(kept[back_to].start).unwrap();
        log.close().unwrap();
        log = logforce::open_existing(&dir, options()).unwrap();
        commit(&log, last);
        catch_up(&mut follower, &mut replica, last);
        let there = read_all(&log);
        let has: Vec<_> = replica.iter().map(|r| r.data.clone()).collect();
        assert_eq!(has, there, "{last}");
    }
    // A position that a follower has given is no reason to answer the same for ever.
    let voided = commit(&log, "voided");
    catch_up(&mut follower, &mut replica, "voided");
    log.truncate_back(voided.start).unwrap();
    let stored = follower.position().back_to(voided.start);
    assert!(log.follow(&stored).is_ok(), "{stored}");
    log.close().unwrap();
}

/// Nobody opens the log again, so only the follower's own checks can notice.
#[test]
fn a_closed_log_that_changes_under_a_follower() {
    let home = temp();
    let dir = home.path().join("log");
    let log = logforce::open_or_create(&dir, options()).unwrap();
    if !has_stamps(&log) {
        return;
    }
    log.commit(b"both").unwrap();
    log.close().unwrap();
    let files = || std::fs::read_dir(&dir).unwrap().map(|e| e.unwrap().path());
    let copy: Vec<_> = files()
        .map(|path| (std::fs::read(&path).unwrap(), path))
        .collect();
    let log = logforce::open_existing(&dir, options()).unwrap();
    log.commit(b"one").unwrap();
    log.close().unwrap();

    // Begun, and nothing read yet: an older copy is written over the bytes.
    let mut follower = remote(&dir, logforce::read_only(&dir).unwrap().durable_lsn()).unwrap();
    assert!(follower.next_timeout(Duration::ZERO).unwrap().is_none());
    for (bytes, path) in &copy {
        std::fs::write(path, bytes).unwrap();
    }
    diverged(error_of(&mut follower));

    // Windows keeps the names of open files.
    if cfg!(windows) {
        return;
    }
    // A segment is gone.
    let mut follower = remote(&dir, Lsn::ORIGIN).unwrap();
    assert_eq!(next(&mut follower).data, b"both");
    let is_segment = |path: &std::path::PathBuf| path.extension().is_some_and(|x| x == "seg");
    for path in files().filter(is_segment) {
        std::fs::remove_file(path).unwrap();
    }
    assert_eq!(error_of(&mut follower).kind(), ErrorKind::Damaged);
}

/// Two copies go on at a segment's start, with different header areas. A replica of one, which restarts there,
/// then follows the other.
#[test]
fn copies_that_part_at_a_segments_start() {
    let with = |unit| {
        let options = Options::new().create(true).calibrate(false);
        let options = options
            .require(Guarantee::ProcessCrash)
            .segment_size(32 << 10);
        let options = options.max_batch_size(128 << 10);
        options.tuning(Tuning::new().write_unit_size(unit))
    };
    for (first, second, local) in [
        (4096, 16384, false),
        (16384, 4096, false),
        (4096, 16384, true),
        (16384, 4096, true),
    ] {
        let what = format!("{first}, {second}, {local}");
        let home = temp();
        let (a, b) = (home.path().join("a"), home.path().join("b"));
        let log = with(first).open(&a).unwrap();
        if !has_stamps(&log) {
            return;
        }
        for n in 0.. {
            log.commit(format!("common {n}").as_bytes()).unwrap();
            if log.tail_lsn().0.is_multiple_of(32 << 10) {
                break;
            }
        }
        log.backup(&b, BackupOptions::new()).unwrap();
        for n in 0..6 {
            log.commit(format!("a {n}").as_bytes()).unwrap();
        }
        log.close().unwrap();
        let log = with(second).open(&b).unwrap();
        for n in 0..2 {
            log.commit(format!("b {n}").as_bytes()).unwrap();
        }
        let mut replica: Vec<Record> = Vec::new();
        let mut position = match local {
            true => log.follow_lsn(Lsn::ORIGIN).unwrap().position(),
            false => remote(&b, Lsn::ORIGIN).unwrap().position(),
        };
        while replica.last().is_none_or(|r| r.data != b"b 1") {
            // As after a restart, with each record.
            let record = match local {
                true => {
                    let mut follower = log.follow(&position).unwrap();
                    let record = follower.next_timeout(LONG);
                    position = follower.position();
                    record
                }
                false => {
                    let mut follower = logforce::read_only(&b).unwrap().follow(&position).unwrap();
                    let record = follower.next_timeout(LONG);
                    position = follower.position();
                    record
                }
            };
            replica.push(record.unwrap().expect("more records"));
        }
        log.close().unwrap();
        let other = logforce::read_only(&a).unwrap();
        let mut follower = loop {
            match other.follow(&position) {
                Err(Error::Diverged { from, .. }) => {
                    replica.retain(|r| r.start < from);
                    position = position.back_to(from);
                }
                begun => break begun.unwrap_or_else(|e| panic!("{what}: {e}")),
            }
        };
        while let Some(record) = follower.try_next().unwrap() {
            replica.push(record);
        }
        let there: Vec<Record> = other
            .read_from(Lsn::ORIGIN)
            .unwrap()
            .map(|r| r.unwrap())
            .collect();
        assert!(
            replica == there,
            "{what}: {} of {}",
            replica.len(),
            there.len()
        );
    }
}

/// A directory that was opened is being removed, and another one stands at its path.
#[cfg(unix)]
#[test]
fn a_directory_that_is_replaced_before_a_follower_begins() {
    let home = temp();
    let (dir, copy) = (home.path().join("log"), home.path().join("copy"));
    let log = logforce::open_or_create(&dir, options()).unwrap();
    if !has_stamps(&log) {
        return;
    }
    for n in 0..400 {
        log.commit(&record(n, 2000)).unwrap();
    }
    log.backup(&copy, BackupOptions::new()).unwrap();
    log.close().unwrap();
    let seen = logforce::read_only(&dir).unwrap();
    let position = seen.follow_lsn(seen.front_lsn()).unwrap().position();
    let old = home.path().join("old");
    std::fs::rename(&dir, &old).unwrap();
    std::fs::rename(&copy, &dir).unwrap();
    std::fs::remove_file(segments(&old).first().unwrap()).unwrap();
    let mut follower = seen.follow(&position).unwrap();
    let first = follower.next_timeout(LONG).unwrap().unwrap();
    assert!(first.data == record(0, 2000));
    std::fs::remove_dir_all(&old).unwrap();
    std::fs::rename(&dir, &old).unwrap();
    let gone = seen.follow(&position).err().map(|e| e.kind());
    assert_eq!(gone, Some(ErrorKind::NoLog));
}
