//! Followers where another copy of the log, or another log, takes its place, and where much is truncated.

use crate::common::*;
use crate::following::{LONG, has_stamps, next, remote, remote_at};
use logforce::{
    BackupOptions, Error, ErrorKind, Guarantee, Log, Lsn, Options, ReadOnlyFollower, Record, Tuning,
};
use std::path::Path;
use std::time::Duration;

const DIR: &str = "LOGFORCE_TEST_DIR";

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
    // The copy has voided everything behind r1, and this history r1 itself.
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
    // After resuming from a follower's position, the error must not repeat for ever.
    let voided = commit(&log, "voided");
    catch_up(&mut follower, &mut replica, "voided");
    log.truncate_back(voided.start).unwrap();
    let stored = follower.position().back_to(voided.start);
    assert!(log.follow(&stored).is_ok(), "{stored}");
    log.close().unwrap();
}

/// No writer opens the log again, so only the follower's checks can notice the change.
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

    // The follower starts at the log's end. It has read no record when an older copy overwrites the files in
    // place.
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

/// Two copies go on at a segment's start, with different header areas. A replica of one, which restarts
/// there, then follows the other.
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
            // Resumes after each record, as after a restart.
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
