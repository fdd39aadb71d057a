//! A cap on the log's size: refused cleanly, told in time, never waited for in a circle (the
//! scheduler reports a deadlock).

use crate::common::open;
use logforce_core::{Batch, CheckpointDue, Error, ErrorKind, Log, Lsn, Options};
use logforce_device::Runtime;
use logforce_sim::model::{PATH, small};
use logforce_sim::seeds;
use logforce_testkit::{Failure, Fault, Rng, SimDisk, SimOptions, SimRuntime};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const SEGMENT: u64 = 128 << 10;

fn capped(segments: u64) -> Options {
    sized().max_log_size(segments * SEGMENT)
}

fn sized() -> Options {
    let options = small().segment_size(SEGMENT).max_batch_size(32 << 10);
    // No batch but those of the test's appends.
    options.buffer_size(64 << 10).idle_stamp(Duration::MAX)
}

/// Bytes of all segment files that are there.
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

/// Truncates as far as it is asked to, as an owner would whose checkpoint covers that.
fn make_room(log: &Log, due: CheckpointDue) -> Result<(), Error> {
    if due.truncate_to < due.durable {
        return log.truncate_front(due.truncate_to);
    }
    log.truncate_front(log.durable_lsn())
}

/// Where the system fails while files are renamed or removed, they still take up space: the next
/// truncation goes on with them, or a log with a cap would be full until it is opened again.
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
            // By then the front has moved, and only files are left to do.
            if truncated.is_err() && log.front_lsn() == to {
                failed += 1;
                assert_eq!(fill_up(&log).1.kind(), ErrorKind::Full);
                log.truncate_front(to).unwrap_or_else(|e| panic!("{e}"));
                let (more, e) = fill_up(&log);
                assert_eq!(e.kind(), ErrorKind::Full, "{e}");
                assert!(more.len() > 8, "only {} found room", more.len());
                assert!(used(&disk) <= 4 * SEGMENT, "{}", used(&disk));
                log.close().unwrap();
                let log = open(&disk, rt, &capped(4)).expect("opened");
                assert_eq!(log.front_lsn(), to);
            }
        });
    }
    // Two segments leave, and the directory is synced.
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
                // Full, and still closed, opened, truncated at both ends.
                log.close().unwrap();
                let log = open(&disk, rt, &options).expect("opened while full");
                assert_eq!(fill_up(&log).1.kind(), ErrorKind::Full);
                log.truncate_back(log.front_lsn()).unwrap();
                log.truncate_front(log.durable_lsn()).unwrap();
                assert!(!fill_up(&log).0.is_empty());
                log.close().unwrap();
                // A lower one than what is there; and none.
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

#[test]
fn a_callback_keeps_it_from_being_full() {
    for seed in 0..60 {
        let disk = SimDisk::new(SimOptions::default(), 1);
        let (calls, at_once) = (
            Arc::new(AtomicU64::new(0)),
            Arc::new(AtomicBool::new(false)),
        );
        let (counted, inside) = (calls.clone(), at_once.clone());
        let options = capped(3 + seed % 4).on_checkpoint_due(move |log, due| {
            assert!(!inside.swap(true, SeqCst), "two at once");
            counted.fetch_add(1, SeqCst);
            assert!(due.used <= due.limit && due.truncate_to <= due.durable);
            assert_eq!((due.log_id, &due.path), (log.id(), &log.path().to_owned()));
            // A checkpoint is a record, too.
            let made = log.commit(b"checkpoint").and_then(|_| make_room(log, due));
            // A close in between is no failure.
            let closed = |e: &Error| e.kind() == ErrorKind::Closed;
            assert!(made.as_ref().err().is_none_or(closed), "{made:?}");
            inside.store(false, SeqCst);
        });
        SimRuntime::run(seed, |rt| {
            let log = open(&disk, rt, &options).unwrap_or_else(|e| panic!("{e}"));
            let mut joiners = Vec::new();
            for n in 0..2 {
                let (log, disk) = (log.clone(), disk.clone());
                let body = move || {
                    for i in 0..30 {
                        let at = log.commit(&[n; 15_000]);
                        at.unwrap_or_else(|e| panic!("{seed}, {i}: {e}"));
                        assert!(used(&disk) <= (3 + seed % 4) * SEGMENT);
                    }
                };
                joiners.push(rt.spawn(&format!("writer-{n}"), Box::new(body)).unwrap());
            }
            joiners.into_iter().for_each(|j| j.join().unwrap());
            assert!(calls.load(SeqCst) >= 2, "{}", calls.load(SeqCst));
            log.close().unwrap();
            assert!(!at_once.load(SeqCst), "close has waited for it");
        });
    }
}

/// The callback comes while there is space: an append never waits for one that is quick enough.
#[test]
fn the_callback_comes_a_segment_ahead() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    let dues: Arc<Mutex<Vec<CheckpointDue>>> = Arc::default();
    let noted = dues.clone();
    let options = capped(4).on_checkpoint_due(move |_, due| {
        noted.lock().unwrap().push(due.clone());
    });
    SimRuntime::run(1, |rt| {
        let log = open(&disk, rt, &options).unwrap_or_else(|e| panic!("{e}"));
        while dues.lock().unwrap().is_empty() {
            log.commit(&[1; 8_000]).unwrap();
            rt.sleep(Duration::from_millis(1));
        }
        let due = dues.lock().unwrap()[0].clone();
        assert_eq!((due.used, due.limit), (4 * SEGMENT, 4 * SEGMENT));
        assert_eq!(due.truncate_to, Lsn(SEGMENT));
        // Filling the last segment takes as long as half of the one in use.
        assert!(due.durable <= Lsn(2 * SEGMENT + SEGMENT * 3 / 4), "{due:?}");
        // It did nothing, and is asked again before it is too late; then appends are refused.
        let (_, e) = fill_up(&log);
        assert_eq!(e.kind(), ErrorKind::Full);
        let reported = dues.lock().unwrap().len();
        assert!((2..=4).contains(&reported), "{reported}");
        assert_eq!(fill_up(&log).1.kind(), ErrorKind::Full);
        log.close().unwrap();
    });
}

#[test]
fn a_callback_in_its_own_way() {
    for seed in 0..80 {
        let disk = SimDisk::new(SimOptions::default(), 1);
        let (refusals, panics) = (Arc::new(AtomicU64::new(0)), seed % 2 == 0);
        let refused = refusals.clone();
        let options = capped(3).on_checkpoint_due(move |log, due| {
            // However full it is, there is room for a record that says what it did.
            log.commit(&[7; 1_000]).expect("it is kept for this");
            // It fills what is left by itself, and is refused: nobody else will make room.
            while let Ok(at) = log.append(&[9; 20_000]) {
                log.force(at.end).expect("nothing fails");
            }
            refused.fetch_add(1, SeqCst);
            assert!(!panics, "the callback panics");
            make_room(log, due).expect("nothing fails");
            // What it has freed it may use at once.
            log.commit(&[8; 100]).expect("there is room");
        });
        SimRuntime::run(seed, |rt| {
            rt.tolerate_panics();
            let log = open(&disk, rt, &options).unwrap_or_else(|e| panic!("{e}"));
            let mut full = 0;
            for _ in 0..30 {
                match log.commit(&[1; 20_000]) {
                    Ok(_) => {}
                    Err(e) => {
                        assert_eq!(e.kind(), ErrorKind::Full, "{seed}: {e}");
                        full += 1;
                    }
                }
            }
            assert!(refusals.load(SeqCst) > 0);
            assert_eq!(panics, full > 0 && panics, "{seed}: {full} refused");
            log.truncate_front(log.durable_lsn()).expect("it goes on");
            if panics {
                log.commit(&[1; 100]).expect("it goes on");
            }
            log.close().unwrap();
        });
    }
}

/// Closed while the callback runs, by another thread, by the callback, by both.
#[test]
fn closing_around_a_callback() {
    for seed in 0..200 {
        let disk = SimDisk::new(SimOptions::default(), 1);
        let (began, ended) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicBool::new(false)),
        );
        let (in_it, out_of_it) = (began.clone(), ended.clone());
        let options = capped(3).on_checkpoint_due(move |log, due| {
            in_it.store(true, SeqCst);
            let _ = log.commit(b"one more");
            if seed % 3 > 0 {
                let _ = log.clone().close();
                assert_eq!(log.append(b"x").unwrap_err().kind(), ErrorKind::Closed);
            }
            let _ = make_room(log, due);
            out_of_it.store(true, SeqCst);
        });
        SimRuntime::run(seed, |rt| {
            let log = open(&disk, rt, &options).unwrap_or_else(|e| panic!("{e}"));
            let clone = log.clone();
            let body = move || while clone.commit(&[1; 9_000]).is_ok() {};
            let writer = rt.spawn("writer", Box::new(body)).unwrap();
            while !began.load(SeqCst) {
                rt.sleep(Duration::from_micros(50));
            }
            if seed % 3 < 2 {
                log.close().unwrap_or_else(|e| panic!("{seed}: {e}"));
                assert!(ended.load(SeqCst) || seed % 3 > 0, "it was waited for");
                let again = open(&disk, rt, &sized()).expect("the lock is free");
                again.close().unwrap();
            }
            writer.join().unwrap();
        });
    }
}

/// A pin does not make a log refuse what its owner has made room for.
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
        // One that holds nothing back that was to go is none of it.
        assert_eq!(fill_up(&log).1.kind(), ErrorKind::Full);
        assert!(!new.is_broken());
        log.close().unwrap();
    });
}

/// Writers, a callback of any kind, pins, a cut: no deadlock, nothing lost, never above the cap.
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
    let manners = rng.below(6);
    let chance = Mutex::new(Rng::new(seed ^ 77));
    let callback = options.clone().on_checkpoint_due(move |log, due| {
        let dice = |n| chance.lock().unwrap().one_in(n);
        if manners > 1 && dice(2) {
            let _ = log.append(&[3; 700]);
        }
        if manners > 2 && dice(3) {
            let _ = log.commit(&[3; 15_000]);
        }
        assert!(manners != 4 || !dice(3), "the callback panics");
        if manners > 0 && !dice(4) {
            let _ = make_room(log, due);
        }
        if manners == 5 && dice(6) {
            let _ = log.clone().close();
        }
    });
    let options = if rng.one_in(5) { options } else { callback };
    let cut = rng.one_in(2).then(|| rng.below(300));
    let acked: Arc<Mutex<Vec<Lsn>>> = Arc::default();
    SimRuntime::run(seed, |rt| {
        rt.tolerate_panics();
        let log = open(&disk, rt, &options).unwrap_or_else(|e| panic!("{e}"));
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
