//! A cap on the log's size: appends are refused cleanly, checkpoints requested in time, and there is no
//! deadlock (the scheduler would report it).

use crate::common::open;
use logforce_core::{Batch, CheckpointDue, Error, ErrorKind, Log, Lsn, Options, Policy};
use logforce_device::Runtime;
use logforce_sim::model::{PATH, small};
use logforce_sim::seeds;
use logforce_testkit::{Failure, Fault, Rng, SimDisk, SimOptions, SimRuntime};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const SEGMENT: u64 = 128 << 10;

fn capped(segments: u64) -> Options {
    sized().max_log_size(segments * SEGMENT)
}

fn sized() -> Options {
    let options = small().segment_size(SEGMENT).max_batch_size(32 << 10);
    // Only the test's appends write batches.
    options.buffer_size(64 << 10).idle_stamp(Duration::MAX)
}

/// Returns the number of bytes of all segment files.
fn used(disk: &SimDisk) -> u64 {
    let files = disk.stable_names(PATH).into_iter();
    let files = files.filter(|n| n.ends_with(".seg") || n.ends_with(".spare"));
    files
        .map(|n| disk.file_bytes(PATH, &n).map_or(0, |b| b.len() as u64))
        .sum()
}

fn fill_up(log: &Log) -> (Vec<Lsn>, Error) {
    let mut ends = Vec::new();
    loop {
        match log.commit(&[ends.len() as u8; 8_000]) {
            Ok(c) => ends.push(c.end),
            Err(e) => return (ends, e),
        }
    }
}

/// Truncates as far as requested, like an owner whose checkpoint covers that.
fn make_room(log: &Log, due: CheckpointDue) -> Result<(), Error> {
    if due.truncate_to < due.durable {
        return log.truncate_front(due.truncate_to);
    }
    log.truncate_front(log.durable_lsn())
}

/// If renaming or removing files fails, they still take up space. The next truncation goes on with them.
/// Otherwise a log with a cap would stay full until it is opened again.
#[test]
fn what_a_truncation_could_not_finish_the_next_one_does() {
    let mut failed = 0;
    for op in 0..40 {
        let disk = SimDisk::new(SimOptions::default(), op);
        SimRuntime::run(op, |rt| {
            let log = open(&disk, rt, &capped(4)).expect("a fresh log");
            let (ends, _) = fill_up(&log);
            let to = ends[ends.len() - 4];
            disk.fail_at(disk.ops() + op, Fault::Io);
            let truncated = log.truncate_front(to);
            // The front has moved already, and only files are left to be removed.
            if truncated.is_err() && log.front_lsn() == to {
                failed += 1;
                assert_eq!(fill_up(&log).1.kind(), ErrorKind::Full);
                log.truncate_front(to).unwrap_or_else(|e| panic!("{e}"));
                let (more, e) = fill_up(&log);
                assert_eq!(e.kind(), ErrorKind::Full, "{e}");
                assert!(more.len() > 8, "only {} found space", more.len());
                assert!(used(&disk) <= 4 * SEGMENT, "{}", used(&disk));
                log.close().unwrap();
                let log = open(&disk, rt, &capped(4)).expect("opened");
                assert_eq!(log.front_lsn(), to);
            }
        });
    }
    // Two segments are removed, and the directory is synced.
    assert!(failed >= 3, "{failed}");
}

#[test]
fn full_is_refused_and_goes_on() {
    for seed in 0..40 {
        for segments in [3, 5] {
            let disk = SimDisk::new(SimOptions::default(), 1);
            SimRuntime::run(seed, |rt| {
                let options = capped(segments);
                let log = open(&disk, rt, &options).expect("a fresh log");
                let (mut ends, e) = fill_up(&log);
                assert_eq!(e.kind(), ErrorKind::Full, "{e}");
                for words in ["max_log_size", "truncate_front", "/log"] {
                    assert!(e.to_string().contains(words), "{e}");
                }
                assert!(ends.len() as u64 > (segments - 1) * 8, "{}", ends.len());
                assert_eq!(used(&disk), segments * SEGMENT);
                assert_eq!(
                    log.append(&[1; 60_000]).unwrap_err().kind(),
                    ErrorKind::Full
                );
                assert_eq!(
                    log.append(Batch::of(&[&[1; 60_000]])).unwrap_err().kind(),
                    ErrorKind::Full
                );
                log.force(log.tail_lsn()).unwrap();
                let records = log.read_from(log.front_lsn()).unwrap().count();
                assert_eq!(records, ends.len(), "nothing was accepted");
                for _ in 0..6 {
                    log.truncate_front(ends[ends.len() - 4]).unwrap();
                    let (more, e) = fill_up(&log);
                    assert_eq!(e.kind(), ErrorKind::Full, "{e}");
                    assert!(!more.is_empty());
                    assert!(used(&disk) <= segments * SEGMENT, "{}", used(&disk));
                    ends.extend(more);
                }
                // A full log can be closed, opened, and truncated at both ends.
                log.close().unwrap();
                let log = open(&disk, rt, &options).expect("opened while full");
                assert_eq!(fill_up(&log).1.kind(), ErrorKind::Full);
                log.truncate_back(log.front_lsn()).unwrap();
                log.truncate_front(log.durable_lsn()).unwrap();
                assert!(!fill_up(&log).0.is_empty());
                log.close().unwrap();
                // A cap below the current size, then no cap.
                let log = open(&disk, rt, &capped(3)).expect("a lower cap");
                let end = log.commit(b"x").map(|c| c.end);
                if let Err(e) = end {
                    assert_eq!(e.kind(), ErrorKind::Full);
                }
                log.truncate_front(log.durable_lsn()).unwrap();
                assert!(!fill_up(&log).0.is_empty());
                assert!(used(&disk) <= 3 * SEGMENT, "{}", used(&disk));
                log.close().unwrap();
                let log = open(&disk, rt, &sized()).expect("no cap");
                (0..40).for_each(|_| assert!(log.commit(&[1; 8_000]).is_ok()));
                log.close().unwrap();
            });
        }
    }
    let disk = SimDisk::new(SimOptions::default(), 1);
    SimRuntime::run(1, |rt| {
        let refused = open(&disk, rt, &sized().max_log_size(3 * SEGMENT - 1)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidInput);
        assert!(refused.to_string().contains("max_log_size"), "{refused}");
    });
}

/// Commits, and tries again while the log is full, until its owner has truncated it.
fn commit_at_the_cap(rt: &SimRuntime, log: &Log, data: &[u8]) -> Result<u64, Error> {
    for refused in 0..10_000 {
        match log.commit(data) {
            Ok(_) => return Ok(refused),
            Err(e) if e.kind() == ErrorKind::Full => rt.sleep(Duration::from_micros(100)),
            Err(e) => return Err(e),
        }
    }
    panic!("the owner makes no space");
}

/// The owner's checkpoint is a record in the log, for which the owner has reserved space.
#[test]
fn a_checkpoint_thread_keeps_it_from_being_full() {
    let mut refused = 0;
    for seed in 0..60 {
        let disk = SimDisk::new(SimOptions::default(), 1);
        let requests = Arc::new(AtomicU64::new(0));
        let counted = requests.clone();
        SimRuntime::run(seed, |rt| {
            let log = open(&disk, rt, &capped(3 + seed % 4)).unwrap_or_else(|e| panic!("{e}"));
            let owned = log.clone();
            let body = move || {
                let mut requests = owned.checkpoint_requests();
                let mut kept = Some(owned.try_reserve(10).expect("an empty log"));
                while let Some(due) = requests.next_blocking() {
                    counted.fetch_add(1, SeqCst);
                    assert!(due.used <= due.limit && due.truncate_to <= due.durable);
                    assert!(due.front <= due.truncate_to, "{due:?}");
                    assert_eq!(
                        (due.log_id, &due.path),
                        (owned.id(), &owned.path().to_owned())
                    );
                    let noted = kept.take().map_or(Ok(()), |permit| {
                        let note = permit.submit(b"checkpoint", Policy::Force)?;
                        note.wait().map(drop)
                    });
                    match noted.and_then(|()| make_room(&owned, due)) {
                        Ok(()) => kept = owned.try_reserve(10).ok(),
                        // A close in between does not count as a failure.
                        Err(e) => assert_eq!(e.kind(), ErrorKind::Closed, "{e}"),
                    }
                }
            };
            let checkpoints = rt.spawn("checkpoints", Box::new(body)).unwrap();
            let refusals = Arc::new(AtomicU64::new(0));
            let mut joiners = Vec::new();
            for n in 0..2 {
                let (log, disk, clock) = (log.clone(), disk.clone(), rt.clone());
                let refusals = refusals.clone();
                let body = move || {
                    for i in 0..30 {
                        let waited = commit_at_the_cap(&clock, &log, &[n; 15_000]);
                        let waited = waited.unwrap_or_else(|e| panic!("{seed}, {i}: {e}"));
                        refusals.fetch_add(waited, SeqCst);
                        assert!(used(&disk) <= (3 + seed % 4) * SEGMENT);
                    }
                };
                joiners.push(rt.spawn(&format!("writer-{n}"), Box::new(body)).unwrap());
            }
            joiners.into_iter().for_each(|j| j.join().unwrap());
            assert!(requests.load(SeqCst) >= 2, "{}", requests.load(SeqCst));
            refused += refusals.load(SeqCst);
            log.close().unwrap();
            checkpoints.join().unwrap();
        });
    }
    println!("{refused} of 3,600 commits were refused at first");
}

/// A request comes while there is space, so that a fast owner sees no refused append.
#[test]
fn a_request_comes_a_segment_ahead() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    SimRuntime::run(1, |rt| {
        let log = open(&disk, rt, &capped(4)).unwrap_or_else(|e| panic!("{e}"));
        let mut requests = log.checkpoint_requests();
        let due = loop {
            log.commit(&[1; 8_000]).unwrap();
            rt.sleep(Duration::from_millis(1));
            if let Some(due) = requests.try_next() {
                break due;
            }
        };
        assert_eq!((due.used, due.limit), (4 * SEGMENT, 4 * SEGMENT));
        assert_eq!(due.truncate_to, Lsn(SEGMENT));
        // Preparing the last segment takes as long as filling half of the current one.
        assert!(due.durable <= Lsn(2 * SEGMENT + SEGMENT * 3 / 4), "{due:?}");
        // The owner does nothing, and gets another request before it is too late. After that appends are
        // refused, and each refusal makes one request.
        let mut asked = 0;
        let full = loop {
            match log.commit(&[1; 8_000]) {
                Ok(_) => rt.sleep(Duration::from_millis(1)),
                Err(e) => break e,
            }
            asked += u64::from(requests.try_next().is_some());
        };
        assert_eq!((full.kind(), asked), (ErrorKind::Full, 1));
        for _ in 0..2 {
            assert!(requests.try_next().is_some());
            assert!(requests.try_next().is_none());
            assert_eq!(fill_up(&log).1.kind(), ErrorKind::Full);
        }
        // A request that is met before it is taken is withdrawn.
        log.truncate_front(log.durable_lsn()).unwrap();
        assert!(requests.try_next().is_none());
        log.close().unwrap();
    });
}

/// A request that is taken late has the log's current positions.
#[test]
fn a_request_taken_late() {
    // The first run finds the number of commits before a request. The second makes one more before it takes
    // it.
    let mut wanted = u64::MAX;
    for late in [false, true] {
        let disk = SimDisk::new(SimOptions::default(), 1);
        SimRuntime::run(1, |rt| {
            let log = open(&disk, rt, &capped(4)).unwrap_or_else(|e| panic!("{e}"));
            let mut requests = log.checkpoint_requests();
            for commits in 1.. {
                let at = log.commit(&[1; 8_000]).unwrap();
                rt.sleep(Duration::from_millis(1));
                if commits <= 2 {
                    // This truncation does not meet the request.
                    log.truncate_front(at.end).unwrap();
                }
                if commits > wanted || !late {
                    let Some(due) = requests.try_next() else {
                        assert!(!late, "no request after {wanted}");
                        continue;
                    };
                    wanted = commits;
                    assert_eq!(due.durable, log.durable_lsn());
                    assert_eq!(
                        (due.front, due.truncate_to),
                        (log.front_lsn(), Lsn(SEGMENT))
                    );
                    break;
                }
            }
            log.close().unwrap();
        });
    }
}

/// A log full of unforced records also makes a request: the owner forces them, and truncates.
#[test]
fn a_log_full_of_appends_asks_too() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    SimRuntime::run(1, |rt| {
        let log = open(&disk, rt, &capped(3)).unwrap_or_else(|e| panic!("{e}"));
        let mut requests = log.checkpoint_requests();
        log.truncate_front(log.durable_lsn()).unwrap();
        let full = loop {
            match log.append(&[1; 8_000]) {
                Ok(_) => drop(requests.try_next()),
                Err(e) => break e,
            }
        };
        assert_eq!(full.kind(), ErrorKind::Full);
        let due = requests.try_next().expect("it is full");
        assert_eq!((due.truncate_to, due.durable), (due.front, log.front_lsn()));
        log.force(log.tail_lsn()).unwrap();
        log.truncate_front(log.durable_lsn()).unwrap();
        assert!(requests.try_next().is_none());
        log.commit(&[1; 8_000]).expect("there is space");
        log.close().unwrap();
    });
}

/// The log closes, or its last clone is dropped, while threads wait for a request.
#[test]
fn requests_end_with_the_log() {
    let taken = Arc::new(AtomicU64::new(0));
    for seed in 0..100 {
        let disk = SimDisk::new(SimOptions::default(), 1);
        SimRuntime::run(seed, |rt| {
            let log = open(&disk, rt, &capped(3)).unwrap_or_else(|e| panic!("{e}"));
            let mut waiting = Vec::new();
            for n in 0..2 {
                let (mut requests, counted) = (log.checkpoint_requests(), taken.clone());
                let body = move || {
                    while requests.next_blocking().is_some() {
                        counted.fetch_add(1, SeqCst);
                    }
                    assert!(requests.try_next().is_none() && requests.next_blocking().is_none());
                };
                waiting.push(rt.spawn(&format!("waits-{n}"), Box::new(body)).unwrap());
            }
            if seed % 3 > 0 {
                assert_eq!(fill_up(&log).1.kind(), ErrorKind::Full);
            }
            match seed % 2 == 0 {
                true => log.close().unwrap(),
                false => drop(log),
            }
            waiting.into_iter().for_each(|j| j.join().unwrap());
            let again = open(&disk, rt, &sized()).expect("the lock is free");
            again.close().unwrap();
        });
    }
    assert!(taken.load(SeqCst) > 20, "{}", taken.load(SeqCst));
}

/// A pin does not make the log refuse appends for which its owner has made space.
#[test]
fn pins_give_way_at_the_cap() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    SimRuntime::run(1, |rt| {
        let log = open(&disk, rt, &capped(4)).expect("a fresh log");
        let (ends, _) = fill_up(&log);
        let (old, new) = (
            log.pin(ends[0]).unwrap(),
            log.pin(ends[ends.len() - 1]).unwrap(),
        );
        log.truncate_front(ends[ends.len() - 1]).unwrap();
        assert_eq!(log.front_lsn(), ends[0]);
        log.commit(&[1; 8_000]).expect("the pin gives way");
        assert!(old.is_broken() && !new.is_broken());
        assert_eq!(log.front_lsn(), ends[ends.len() - 1]);
        // A pin that does not hold back the front stays unbroken.
        assert_eq!(fill_up(&log).1.kind(), ErrorKind::Full);
        assert!(!new.is_broken());
        log.close().unwrap();
    });
}

/// Writers, owners of all kinds, pins and a power cut: no deadlock, no loss, never above the cap.
fn run(seed: u64) {
    let mut rng = Rng::new(seed);
    let disk = SimDisk::new(SimOptions::random(seed), seed);
    let unit = u64::from(disk.options().facts().write_unit());
    let segment = unit * (32 + rng.below(8));
    let cap = segment * (3 + rng.below(4));
    let options = small()
        .require(logforce_core::Guarantee::ProcessCrash)
        .segment_size(segment)
        .max_batch_size(unit * 8)
        .buffer_size(unit * (8 + rng.below(16)))
        .max_spare_segments(rng.below(4) as usize)
        .max_log_size(cap);
    // No owner; an owner that does nothing; owners that append little or much before they truncate; an
    // owner that closes the log.
    let manners = rng.below(5);
    let cut = rng.one_in(2).then(|| rng.below(300));
    let acked: Arc<Mutex<Vec<Lsn>>> = Arc::default();
    SimRuntime::run(seed, |rt| {
        let log = open(&disk, rt, &options).unwrap_or_else(|e| panic!("{e}"));
        let (owned, mut chance) = (log.clone(), Rng::new(seed ^ 77));
        let owner = move || {
            let mut requests = owned.checkpoint_requests();
            while let Some(due) = requests.next_blocking() {
                if manners > 1 && chance.one_in(2) {
                    let _ = owned.append(&[3; 700]);
                }
                if manners > 2 && chance.one_in(3) {
                    let _ = owned.commit(&[3; 15_000]);
                }
                if manners > 1 && !chance.one_in(4) {
                    let _ = make_room(&owned, due);
                }
                if manners == 4 && chance.one_in(6) {
                    let _ = owned.clone().close();
                }
            }
        };
        let owner = (manners > 0).then(|| rt.spawn("owner", Box::new(owner)).unwrap());
        if let Some(cut) = cut {
            disk.cut_at(disk.ops() + cut);
        }
        let mut joiners = Vec::new();
        for n in 0..1 + rng.below(3) {
            let (log, acked, disk) = (log.clone(), acked.clone(), disk.clone());
            let mut rng = Rng::new(seed ^ n << 33);
            let body = move || {
                let mut pin = None;
                for _ in 0..15 {
                    let len = rng.pick(&[10, 3_000, 30_000, 90_000]) as usize;
                    match log.commit(&vec![1; rng.below(len as u64) as usize]) {
                        Ok(c) => acked.lock().unwrap().push(c.start),
                        Err(e) if e.kind() == ErrorKind::Full => {
                            if rng.one_in(2) {
                                let _ = log.truncate_front(log.durable_lsn());
                            }
                        }
                        Err(_) if disk.is_cut() => return,
                        Err(e) => {
                            let known = [ErrorKind::Closed, ErrorKind::Poisoned];
                            assert!(known.contains(&e.kind()), "{e}");
                            return;
                        }
                    }
                    assert!(disk.is_cut() || used(&disk) <= cap, "{}", used(&disk));
                    if rng.one_in(4) {
                        pin = log.pin(log.front_lsn()).ok();
                    }
                }
                drop(pin);
            };
            joiners.push(rt.spawn(&format!("writer-{n}"), Box::new(body)).unwrap());
        }
        joiners
            .into_iter()
            .for_each(|j| j.join().expect("no writer panics"));
        let _ = log.close();
        owner
            .into_iter()
            .for_each(|o| o.join().expect("it does not panic"));
    });
    disk.crash(Failure::Power, None, seed);
    SimRuntime::run(seed, |rt| {
        let log = open(&disk, rt, &sized().segment_size(segment));
        let log = log.unwrap_or_else(|e| panic!("{seed}: {e}"));
        for lsn in acked
            .lock()
            .unwrap()
            .iter()
            .filter(|l| **l >= log.front_lsn())
        {
            log.read_at(*lsn).unwrap_or_else(|e| panic!("{seed}: {e}"));
        }
    });
}

#[test]
fn no_call_waits_in_a_circle() {
    seeds(100, 500).for_each(run);
}
