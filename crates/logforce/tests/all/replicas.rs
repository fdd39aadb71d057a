//! Replicas: the second watermark, and logs restored from chunks.

use crate::common::options;
use logforce::replica::{
    AtHoldLimit, Hold, Import, ImportOptions, LogChunk, ReplicaOptions, ReplicaWait, Replication,
    import, read_only,
};
use logforce::{Error, ErrorKind, Guarantee, Log, Lsn, Options, Policy};
use std::path::Path;
use std::time::Duration;

const NOW: Option<Duration> = Some(Duration::ZERO);

fn read_all(replica: &mut Replication, max: u64) -> Vec<LogChunk> {
    let mut chunks = Vec::new();
    while let Some(chunk) = replica.read(max).expect("read") {
        chunks.push(chunk);
    }
    chunks
}

fn begin(to: &Path) -> Import<'static> {
    import(to, ImportOptions::new().require(Guarantee::ProcessCrash)).expect("begin")
}

fn add(import: &mut Import<'_>, chunk: &LogChunk) -> logforce::Result<()> {
    import.chunk(
        chunk.from,
        &chunk.bytes,
        &chunk.control,
        chunk.meta.as_deref(),
    )
}

fn restore(to: &Path, chunks: &[LogChunk]) -> Log {
    let mut import = begin(to);
    for chunk in chunks {
        add(&mut import, chunk).expect("a chunk");
    }
    import.finish().expect("finish");
    logforce::open_existing(to, options()).expect("open the restored log")
}

/// Waits until the front has reached `at`, which it does in the background.
fn wait_for_front(log: &Log, at: Lsn) {
    for _ in 0..1000 {
        if log.front_lsn() >= at {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("the front stays at {}, below {at}", log.front_lsn());
}

/// Returns position and bytes of all records.
fn records(log: &Log) -> Vec<(Lsn, Vec<u8>)> {
    let reader = log.read_from(log.front_lsn()).expect("read");
    reader
        .map(|r| r.map(|r| (r.start, r.data)).expect("a record"))
        .collect()
}

fn small() -> Options {
    options().segment_size(64 << 10)
}

#[test]
fn a_commit_waits_for_the_confirmation() {
    let dir = tempfile::tempdir_in(".").unwrap();
    let log = logforce::create_new(dir.path().join("log"), options()).unwrap();
    let before = log.tail_lsn();
    let refused = log.commit_with(b"alone", Policy::Replicated).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NoReplica);
    assert_eq!(log.tail_lsn(), before, "nothing was accepted");

    let mut replica = log.replicate(ReplicaOptions::new()).unwrap();
    let again = log.replicate(ReplicaOptions::new()).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::ReplicaAttached);
    let handle = log.submit(b"one", Policy::Replicated).unwrap();
    let forced = log.commit(b"two").unwrap();
    assert!(!handle.is_done(), "it is durable here only");
    assert!(log.replicated_lsn() < handle.end());
    let chunks = read_all(&mut replica, 1 << 20);
    let end = chunks.last().unwrap().to;
    assert!(end >= forced.end);
    let beyond = replica.confirm(end.plus(1)).unwrap_err();
    assert_eq!(beyond.kind(), ErrorKind::BeyondEnd);
    replica.confirm(end).unwrap();
    replica.confirm(Lsn(0)).unwrap();
    assert_eq!(log.replicated_lsn(), end, "it only rises");
    assert_eq!(handle.wait().unwrap().guarantee, Guarantee::MachineLoss);
    assert!(matches!(replica.wait(NOW), Ok(ReplicaWait::TimedOut)));
    let stats = log.stats();
    assert_eq!(stats.replicated_to, end);
}

#[test]
fn blocked_commits_return_when_confirmed_and_fail_with_the_replica() {
    let dir = tempfile::tempdir_in(".").unwrap();
    let log = logforce::create_new(dir.path().join("log"), options()).unwrap();
    let mut replica = log.replicate(ReplicaOptions::new()).unwrap();
    let (confirmed, lost) = std::thread::scope(|scope| {
        let first = scope.spawn(|| log.commit_with(b"first", Policy::Replicated));
        while read_all(&mut replica, 1).iter().all(|c| c.frames == 0) {
            replica.wait(None).unwrap();
        }
        replica.confirm(replica.position()).unwrap();
        let first = first.join().unwrap();
        let second = scope.spawn(|| log.commit_with(b"second", Policy::Replicated));
        while read_all(&mut replica, 1).iter().all(|c| c.frames == 0) {
            replica.wait(None).unwrap();
        }
        replica.fail("the bucket is gone");
        (first, second.join().unwrap())
    });
    assert_eq!(confirmed.unwrap().guarantee, Guarantee::MachineLoss);
    let lost = lost.unwrap_err();
    assert_eq!(lost.kind(), ErrorKind::ReplicaLost);
    assert!(lost.to_string().contains("the bucket is gone"), "{lost}");
    assert_eq!(log.last().unwrap().unwrap().data, b"second", "durable here");
    let refused = log.commit_with(b"third", Policy::Replicated).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NoReplica);
    assert_eq!(log.last().unwrap().unwrap().data, b"second");
    log.commit(b"without a replica").unwrap();
    assert_eq!(log.stats().counters.commits_replicated, 2);
}

#[test]
fn callbacks_and_tasks_are_called_when_confirmed() {
    let dir = tempfile::tempdir_in(".").unwrap();
    let log = logforce::create_new(dir.path().join("log"), options()).unwrap();
    let mut replica = log.replicate(ReplicaOptions::new()).unwrap();
    let (sender, results) = std::sync::mpsc::channel();
    let send = move |result| sender.send(result).unwrap();
    let at = log
        .submit_then(b"called back", Policy::Replicated, send.clone())
        .unwrap();
    log.force(at.end).unwrap();
    let patience = Duration::from_millis(50);
    assert!(results.recv_timeout(patience).is_err(), "not confirmed yet");
    let task = std::thread::spawn({
        let handle = log.submit(b"awaited", Policy::Replicated).unwrap();
        move || smol::block_on(handle)
    });
    while replica.position() < at.end || replica.pending() > 0 {
        replica.wait(NOW).unwrap();
        read_all(&mut replica, 1 << 20);
    }
    replica.confirm(replica.position()).unwrap();
    let called = results.recv().unwrap().unwrap();
    assert_eq!(called.guarantee, Guarantee::MachineLoss);
    while !task.is_finished() {
        read_all(&mut replica, 1 << 20);
        replica.confirm(replica.position()).unwrap();
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(
        task.join().unwrap().unwrap().guarantee,
        Guarantee::MachineLoss
    );
    log.submit_then(b"lost", Policy::Replicated, send).unwrap();
    drop(replica);
    let lost = results.recv().unwrap().unwrap_err();
    assert_eq!(lost.kind(), ErrorKind::ReplicaLost);
}

#[test]
fn a_deposed_log_accepts_nothing() {
    let dir = tempfile::tempdir_in(".").unwrap();
    let log = logforce::create_new(dir.path().join("log"), options()).unwrap();
    let replica = log.replicate(ReplicaOptions::new()).unwrap();
    log.commit(b"mine").unwrap();
    let waiting = log.submit(b"too late", Policy::Replicated).unwrap();
    let error = replica.deposed("machine b");
    assert_eq!(error.kind(), ErrorKind::Deposed);
    assert!(error.to_string().contains("machine b"), "{error}");
    assert!(waiting.wait().is_err());
    for policy in [Policy::Force, Policy::Replicated] {
        let refused = log.commit_with(b"split brain", policy).unwrap_err();
        let Error::Poisoned { cause, .. } = refused else {
            panic!("{policy:?}: {refused}");
        };
        assert_eq!(cause.kind(), ErrorKind::Deposed);
    }
    let again = log.replicate(ReplicaOptions::new()).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::Poisoned);
}

#[test]
fn a_replicated_follower_is_bounded() {
    let dir = tempfile::tempdir_in(".").unwrap();
    let log = logforce::create_new(dir.path().join("log"), options()).unwrap();
    let mut replica = log.replicate(ReplicaOptions::new()).unwrap();
    let mut follower = log.follow_lsn(log.front_lsn()).unwrap().replicated();
    log.commit(b"one").unwrap();
    assert!(follower.try_next().unwrap().is_none());
    let end = read_all(&mut replica, 1 << 20).last().unwrap().to;
    log.commit(b"two").unwrap();
    replica.confirm(end).unwrap();
    assert_eq!(follower.next_blocking().unwrap().unwrap().data, b"one");
    let none = follower.next_timeout(Duration::from_millis(1)).unwrap();
    assert!(none.is_none(), "the second is not confirmed");
}

#[test]
fn a_restored_log_is_the_log() {
    let dir = tempfile::tempdir_in(".").unwrap();
    let log = logforce::create_new(dir.path().join("log"), small()).unwrap();
    log.set_meta(b"a vote").unwrap();
    let mut replica = log.replicate(ReplicaOptions::new()).unwrap();
    let mut chunks = Vec::new();
    for n in 0..400_u32 {
        let len = (n as usize * 37) % 3000;
        let record = vec![n as u8; len];
        let at = log.commit(&record[..]).unwrap();
        if n % 50 == 49 {
            log.truncate_back(at.start).unwrap();
        }
        if n % 7 == 0 {
            chunks.extend(read_all(&mut replica, 20_000));
        }
    }
    // Larger than a segment.
    log.commit(&vec![7; 300_000][..]).unwrap();
    chunks.extend(read_all(&mut replica, 20_000));
    assert!(chunks.len() > 10, "{}", chunks.len());
    for pair in chunks.windows(2) {
        assert_eq!(pair[0].to, pair[1].from);
    }
    assert_eq!(chunks.last().unwrap().to, log.durable_lsn());
    let copy = restore(&dir.path().join("copy"), &chunks);
    assert_eq!(records(&copy), records(&log));
    assert_eq!(copy.meta().as_deref(), Some(&b"a vote"[..]));
    assert_eq!(copy.id(), log.id());
    let inspector = logforce::inspect::open(dir.path().join("copy")).unwrap();
    assert_eq!(inspector.walk(&mut |_| true).unwrap().damages, 0);
    // It goes on like any log, and the replica goes on with it.
    copy.commit(b"afterwards").unwrap();
    let mut next = copy
        .replicate(ReplicaOptions::new().after(&chunks.last().unwrap().control))
        .unwrap();
    let more = read_all(&mut next, 1 << 20);
    let third = restore(&dir.path().join("third"), &[&chunks[..], &more].concat());
    assert_eq!(records(&third), records(&copy));
    // The source did not have that record.
    drop(replica);
    log.commit(b"another history").unwrap();
    let other = log.replicate(ReplicaOptions::new().after(&more.last().unwrap().control));
    assert_eq!(other.unwrap_err().kind(), ErrorKind::Diverged);
}

/// A repair ends the log before the damage, and the next opening goes on in a later segment.
#[test]
fn a_repaired_log_is_restored_over_its_gap() {
    let dir = tempfile::tempdir_in(".").unwrap();
    let path = dir.path().join("log");
    let log = logforce::create_new(&path, small()).unwrap();
    for n in 0..40_u8 {
        log.commit(&[n; 4000][..]).unwrap();
    }
    log.close().unwrap();
    std::fs::remove_file(path.join(format!("{:016x}.seg", 64 << 10))).unwrap();
    logforce::inspect::repair(&path, &logforce::inspect::RepairOptions::new()).unwrap();
    let log = logforce::open_existing(&path, small()).unwrap();
    log.commit(b"after the repair").unwrap();
    log.close().unwrap();
    let log = logforce::open_existing(&path, small()).unwrap();
    log.commit(b"in a third opening").unwrap();
    let mut replica = log.replicate(ReplicaOptions::new()).unwrap();
    let chunks = read_all(&mut replica, 1);
    let copy = restore(&dir.path().join("copy"), &chunks);
    assert_eq!(records(&copy), records(&log));
    let last = records(&copy).pop().unwrap();
    assert_eq!(last.1, b"in a third opening");
    copy.commit(b"goes on").unwrap();
}

/// Records that fill batches to the last byte, and are forced only at the end.
#[test]
fn a_bulk_load_is_read_in_parts() {
    const RECORD: usize = 100_000;
    let home = tempfile::tempdir().unwrap();
    // With batches of the usual size: small ones end between appends by chance.
    let large = Options::new()
        .require(Guarantee::ProcessCrash)
        .calibrate(false);
    let log = logforce::create_new(home.path().join("log"), large).unwrap();
    for _ in 0..240 {
        log.append([3; RECORD]).unwrap();
    }
    log.force(log.tail_lsn()).unwrap();
    let mut replica = log.replicate(ReplicaOptions::new()).unwrap();
    let chunks = read_all(&mut replica, 1 << 20);
    // A part ends at most 4 MiB, and a record, behind its size.
    let longest = chunks.iter().map(|c| c.bytes.len()).max().unwrap();
    assert!(longest <= (5 << 20) + 2 * RECORD, "{longest}");
    let copy = restore(&home.path().join("copy"), &chunks);
    assert_eq!(records(&copy), records(&log));
}

#[test]
fn a_restore_ends_where_it_is_told_to() {
    let dir = tempfile::tempdir_in(".").unwrap();
    let log = logforce::create_new(dir.path().join("log"), small()).unwrap();
    let mut replica = log.replicate(ReplicaOptions::new()).unwrap();
    let ends: Vec<Lsn> = (0..60_u8)
        .map(|n| log.commit(&[n; 2000][..]).unwrap().end)
        .collect();
    let chunks = read_all(&mut replica, 50_000);
    for count in [1, 7, 23, 60] {
        let until = ends[count - 1];
        let to = dir.path().join(format!("copy-{count}"));
        let options = ImportOptions::new().require(Guarantee::ProcessCrash);
        let mut import = import(&to, options.until(until)).unwrap();
        for chunk in &chunks {
            add(&mut import, chunk).unwrap();
        }
        assert!(import.is_complete());
        import.finish().unwrap();
        let copy = logforce::open_existing(&to, small()).unwrap();
        assert_eq!(records(&copy), records(&log)[..count]);
        copy.commit(b"goes on").unwrap();
    }
    let options = ImportOptions::new().require(Guarantee::ProcessCrash);
    let to = dir.path().join("beyond");
    let mut beyond = import(&to, options.until(log.durable_lsn().plus(1))).unwrap();
    for chunk in &chunks {
        add(&mut beyond, chunk).unwrap();
    }
    let error = beyond.finish().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BeyondEnd, "{error}");
    assert!(logforce::open_existing(&to, small()).is_err());
}

#[test]
fn the_front_stays_at_what_is_not_confirmed() {
    let dir = tempfile::tempdir_in(".").unwrap();
    let log = logforce::create_new(dir.path().join("log"), small()).unwrap();
    log.commit(&[1; 40_000][..]).unwrap();
    let first = log.front_lsn();
    let mut replica = log.replicate(ReplicaOptions::new()).unwrap();
    let ends: Vec<Lsn> = (0..100_u8)
        .map(|n| log.commit(&[n; 20_000][..]).unwrap().end)
        .collect();
    log.truncate_front(ends[90]).unwrap();
    assert_eq!(log.front_lsn(), first, "nothing is confirmed");
    let chunks = read_all(&mut replica, 100_000);
    replica.confirm(chunks[chunks.len() - 2].to).unwrap();
    wait_for_front(&log, ends[90]);
    // A new replica begins with the first segment that is left, and its copy with the front.
    let control = chunks.last().unwrap().control.clone();
    drop(replica);
    let mut replica = log.replicate(ReplicaOptions::new()).unwrap();
    let again = read_all(&mut replica, 100_000);
    assert!(again[0].from > Lsn(0));
    let copy = restore(&dir.path().join("copy"), &again);
    assert_eq!(records(&copy), records(&log));
    assert_eq!(copy.front_lsn(), ends[90]);
    drop(replica);
    log.replicate(ReplicaOptions::new().after(&control))
        .unwrap();
    log.truncate_front(log.tail_lsn()).unwrap();
    let gone = log
        .replicate(ReplicaOptions::new().after(&chunks[0].control))
        .unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::Truncated);
}

#[test]
fn damaged_missing_and_foreign_chunks_are_refused() {
    let dir = tempfile::tempdir_in(".").unwrap();
    let log = logforce::create_new(dir.path().join("log"), small()).unwrap();
    let other = logforce::create_new(dir.path().join("other"), small()).unwrap();
    let chunks = |log: &Log| {
        let mut replica = log.replicate(ReplicaOptions::new()).unwrap();
        (0..50_u8).for_each(|n| _ = log.commit(&[n; 1500][..]).unwrap());
        read_all(&mut replica, 30_000)
    };
    let (mine, foreign) = (chunks(&log), chunks(&other));
    let to = dir.path().join("copy");
    let refused = |list: &[&LogChunk]| {
        let mut import = begin(&to);
        let mut results = list.iter().map(|chunk| add(&mut import, chunk));
        let error = results.find_map(Result::err).expect("a refusal");
        assert!(matches!(error, Error::Chunk { .. }), "{error}");
        error.to_string()
    };
    assert!(refused(&[&mine[1]]).contains("segment should begin here"));
    assert!(refused(&[&mine[0], &mine[2]]).contains("ends at LSN"));
    assert!(refused(&[&mine[0], &foreign[1]]).contains("belongs to log"));
    // A byte of a batch, of its header, of the segment's header.
    for at in [9000, 4100, 20] {
        let mut damaged = mine[0].clone();
        damaged.bytes[at] ^= 1;
        refused(&[&damaged]);
    }
    let mut short = mine[0].clone();
    short.bytes.truncate(short.bytes.len() - 1);
    refused(&[&short]);
    let mut control = mine[0].clone();
    control.control[100] ^= 1;
    assert!(refused(&[&control]).contains("control slot"));
    // Nothing is left behind, and the directory can be used again.
    let left: Vec<_> = std::fs::read_dir(&to).map_or(Vec::new(), |d| d.collect());
    assert!(left.is_empty(), "{left:?}");
    restore(&to, &mine);
    let full = import(&to, ImportOptions::new().require(Guarantee::ProcessCrash));
    assert!(full.unwrap_err().to_string().contains("not empty"));
    let unfinished = begin(&dir.path().join("none")).finish().unwrap_err();
    assert!(
        unfinished.to_string().contains("there is none"),
        "{unfinished}"
    );
}

#[test]
fn no_force_guarantees_the_loss_of_the_machine() {
    let dir = tempfile::tempdir_in(".").unwrap();
    let options = Options::new().require(Guarantee::MachineLoss);
    let error = logforce::create_new(dir.path().join("log"), options).unwrap_err();
    assert!(error.to_string().contains("Policy::Replicated"), "{error}");
}

#[test]
fn an_import_goes_on_at_its_checkpoint() {
    let dir = tempfile::tempdir_in(".").unwrap();
    let log = logforce::create_new(dir.path().join("log"), small()).unwrap();
    log.set_meta(b"a vote").unwrap();
    let mut replica = log.replicate(ReplicaOptions::new()).unwrap();
    for n in 0..80_u8 {
        log.commit(&[n; 2500][..]).unwrap();
    }
    let chunks = read_all(&mut replica, 15_000);
    let to = dir.path().join("copy");
    let options = || {
        ImportOptions::new()
            .require(Guarantee::ProcessCrash)
            .resume(true)
    };
    let mut done = 0;
    for ahead in [1, 5, 2, 9] {
        let mut import = import(&to, options()).unwrap();
        let reached = chunks[..done].last().map(|c| c.to);
        assert_eq!(import.position(), reached);
        for chunk in &chunks[done..done + ahead - 1] {
            add(&mut import, chunk).unwrap();
        }
        import.checkpoint().unwrap();
        done += ahead - 1;
        // Lost again, because no checkpoint follows.
        add(&mut import, &chunks[done]).unwrap();
        assert!(logforce::open_existing(&to, small()).is_err());
    }
    let last = import(&to, options().opening(4711)).unwrap();
    let end = last.position().unwrap();
    last.finish().unwrap();
    let mut copy = logforce::open_existing(&to, small()).unwrap();
    assert_eq!(copy.meta().as_deref(), Some(&b"a vote"[..]));
    let expected = records(&log);
    let below: Vec<_> = expected.into_iter().filter(|r| r.0 < end).collect();
    assert_eq!(records(&copy), below);
    let state = copy.replicate(ReplicaOptions::new()).unwrap().state();
    assert!(state.openings.contains(&4711), "{state:?}");
    copy.commit(b"goes on").unwrap();
    copy.close().unwrap();
    copy = logforce::open_existing(&to, small()).unwrap();
    assert_eq!(copy.last().unwrap().unwrap().data, b"goes on");
}

/// A standby has the size of the log, however long it follows.
#[test]
fn a_checkpoint_drops_what_the_log_has_truncated() {
    let dir = tempfile::tempdir_in(".").unwrap();
    let log = logforce::create_new(dir.path().join("log"), small()).unwrap();
    let mut replica = log.replicate(ReplicaOptions::new()).unwrap();
    let to = dir.path().join("copy");
    let options = ImportOptions::new().require(Guarantee::ProcessCrash);
    let resumed = || import(&to, options.clone().resume(true)).unwrap();
    let segments = |dir: &Path| {
        let entries = std::fs::read_dir(dir).unwrap();
        let names = entries.map(|e| e.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.ends_with(".seg")).count()
    };
    let mut standby = resumed();
    let mut most = 0;
    for n in 0..200_u8 {
        let at = log.commit(&[n; 2500][..]).unwrap();
        for chunk in read_all(&mut replica, 15_000) {
            add(&mut standby, &chunk).unwrap();
            replica.confirm(chunk.to).unwrap();
        }
        log.truncate_front(at.start).unwrap();
        wait_for_front(&log, at.start);
        standby.checkpoint().unwrap();
        most = most.max(segments(&to));
        if n % 50 == 49 {
            drop(standby);
            standby = resumed();
        }
    }
    assert!((1..=3).contains(&most), "{most} segments");
    standby.finish().unwrap();
    let copy = logforce::open_existing(&to, small()).unwrap();
    assert!(records(&copy).ends_with(&records(&log)));
    copy.commit(b"goes on").unwrap();
}

#[test]
fn a_replica_at_its_limit_is_dropped_or_refuses_appends() {
    let dir = tempfile::tempdir_in(".").unwrap();
    for at_limit in [AtHoldLimit::DropReplica, AtHoldLimit::RefuseAppends] {
        let log = logforce::create_new(dir.path().join(format!("{at_limit:?}")), small()).unwrap();
        let front = log.front_lsn();
        let options = ReplicaOptions::new().limit(200_000, at_limit);
        let mut replica = log.replicate(options).unwrap();
        let mut refused = None;
        let mut alarms_before_limit = 0;
        for n in 0..60_u8 {
            match log.commit(&[n; 10_000][..]) {
                Ok(at) => log.truncate_front(at.start).unwrap(),
                Err(e) => {
                    refused = Some(e);
                    break;
                }
            }
            if log.durable_lsn().0 < 190_000 {
                alarms_before_limit = log.stats().counters.replica_alarms;
                assert_eq!(log.front_lsn(), front);
            }
        }
        assert!(alarms_before_limit > 0, "{at_limit:?}");
        match at_limit {
            AtHoldLimit::DropReplica => {
                assert!(refused.is_none());
                assert!(log.front_lsn() > front);
                let lost = replica.read(1 << 20).unwrap_err();
                assert_eq!(lost.kind(), ErrorKind::ReplicaLost, "{lost}");
            }
            _ => {
                let refused = refused.expect("a refusal");
                assert_eq!(refused.kind(), ErrorKind::ReplicaBehind, "{refused}");
                assert_eq!(log.front_lsn(), front);
                read_all(&mut replica, 1 << 20);
                replica.confirm(replica.position()).unwrap();
                log.commit(b"goes on").unwrap();
                wait_for_front(&log, front.plus(1));
            }
        }
    }
}

#[test]
fn another_process_copies_and_holds_the_log() {
    let dir = tempfile::tempdir_in(".").unwrap();
    let path = dir.path().join("log");
    let log = logforce::create_new(&path, small()).unwrap();
    let mut other = read_only(&path, None).unwrap();
    let hold = |at| Hold::new(at, 1 << 20, AtHoldLimit::RefuseAppends).of([7; 16]);
    other.hold(&hold(log.front_lsn())).unwrap();
    assert_eq!(other.held().unwrap(), Some(hold(log.front_lsn())));
    let front = log.front_lsn();
    let mut chunks = Vec::new();
    for n in 0..100_u8 {
        let at = log.commit(&[n; 3000][..]).unwrap();
        log.truncate_front(at.start).unwrap();
        assert_eq!(log.front_lsn(), front);
        if n % 10 == 0 {
            while let Some(chunk) = other.read(40_000).unwrap() {
                chunks.push(chunk);
            }
        }
    }
    let end = chunks.last().unwrap().to;
    assert!(end < log.durable_lsn());
    // A restart of the copying process.
    let control = chunks.last().unwrap().control.clone();
    let mut other = read_only(&path, Some(&control)).unwrap();
    log.close().unwrap();
    while let Some(chunk) = other.read(40_000).unwrap() {
        chunks.push(chunk);
    }
    let log = logforce::open_existing(&path, small()).unwrap();
    let copy = restore(&dir.path().join("copy"), &chunks);
    assert_eq!(records(&copy), records(&log));
    assert_eq!(records(&copy).len(), 100);
    other.hold(&hold(other.position().unwrap())).unwrap();
    log.truncate_front(log.tail_lsn()).unwrap();
    assert_eq!(log.front_lsn(), other.position().unwrap());
    other.release().unwrap();
    log.truncate_front(log.tail_lsn()).unwrap();
    assert_eq!(log.front_lsn(), log.tail_lsn());
    std::fs::write(path.join("hold"), "not a hold").unwrap();
    log.commit(b"more").unwrap();
    let refused = log.truncate_front(log.tail_lsn()).unwrap_err();
    assert!(refused.to_string().contains("not a hold"), "{refused}");
}
