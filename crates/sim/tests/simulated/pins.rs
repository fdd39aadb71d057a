//! Pins: readers that hold the front, and pins that break because they hold too much.

use crate::common::open;
use logforce_core::{Batch, Error, ErrorKind, Log, Lsn, Pin, Record};
use logforce_device::Runtime;
use logforce_sim::model::{PATH, small};
use logforce_sim::seeds;
use logforce_testkit::{Failure, Rng, SimDisk, SimOptions, SimRuntime};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Commits records. Returns the start of each, and the end of the last.
fn fill(log: &Log, count: usize) -> Vec<Lsn> {
    let commits = (0..count).map(|n| log.commit(&vec![n as u8; 5_000]).expect("nothing fails"));
    let places: Vec<_> = commits.collect();
    let mut starts: Vec<Lsn> = places.iter().map(|c| c.start).collect();
    starts.extend(places.last().map(|c| c.end));
    starts
}

/// Waits for an effect of background work, which must come soon.
fn soon(rt: &SimRuntime, what: &str, mut is: impl FnMut() -> bool) {
    for _ in 0..100 {
        if is() {
            return;
        }
        rt.sleep(Duration::from_millis(1));
    }
    panic!("never: {what}");
}

fn kind<T>(result: Result<T, Error>) -> ErrorKind {
    match result {
        Ok(_) => panic!("this should have failed"),
        Err(e) => e.kind(),
    }
}

fn segments(disk: &SimDisk) -> usize {
    let names = disk.stable_names(PATH);
    names.iter().filter(|n| n.ends_with(".seg")).count()
}

#[test]
fn a_pin_holds_the_front() {
    for seed in 0..40 {
        let disk = SimDisk::new(SimOptions::default(), 1);
        SimRuntime::run(seed, |rt| {
            let log = open(&disk, rt, &small()).expect("a fresh log");
            let at = fill(&log, 20);
            let many = segments(&disk);
            let (early, late) = (log.pin(at[3]).unwrap(), log.pin(at[9]).unwrap());
            assert_eq!((early.lsn(), early.is_broken()), (at[3], false));
            log.truncate_front(at[2]).unwrap();
            assert_eq!(log.front_lsn(), at[2], "not held");
            log.truncate_front(at[15]).unwrap();
            assert_eq!(log.front_lsn(), at[3], "held by the oldest");
            log.truncate_front(at[12]).unwrap();
            assert_eq!(log.front_lsn(), at[3], "wanted already");
            assert_eq!(log.read_at(at[3]).unwrap().start, at[3]);
            assert_eq!(kind(log.pin(at[2])), ErrorKind::Truncated);
            // For the writer, the records that the pin holds are already truncated.
            assert_eq!(kind(log.truncate_back(at[14])), ErrorKind::Truncated);
            // A new pin below the wanted front is accepted, because other pins hold the front there.
            let middle = log.pin(at[5]).unwrap();
            early.advance(at[3]).unwrap();
            early.advance(at[6]).unwrap();
            soon(rt, "to the new one", || log.front_lsn() == at[5]);
            drop(middle);
            soon(rt, "to the first", || log.front_lsn() == at[6]);
            // A pin does not move backwards.
            early.advance(at[4]).unwrap();
            assert_eq!(early.lsn(), at[6]);
            drop(early);
            soon(rt, "to the second", || log.front_lsn() == at[9]);
            late.advance(at[18]).unwrap();
            soon(rt, "to what was wanted", || log.front_lsn() == at[15]);
            soon(rt, "space", || segments(&disk) < many);
            log.truncate_front(at[20]).unwrap();
            assert_eq!(log.front_lsn(), at[18]);
            // A pin needs no end: closing does not wait for it.
            log.close().unwrap();
            assert_eq!(late.lsn(), at[18]);
            drop(late);
            let log = open(&disk, rt, &small()).expect("reopened");
            assert_eq!(log.front_lsn(), at[18]);
            log.truncate_front(at[20]).unwrap();
            assert_eq!(log.front_lsn(), at[20]);
            log.close().unwrap();
        });
    }
}

#[test]
fn where_a_pin_can_be() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    SimRuntime::run(1, |rt| {
        let log = open(&disk, rt, &small()).expect("a fresh log");
        let at = fill(&log, 4);
        let mut batch = Batch::of(&[b"a", b"b", b"c"]);
        log.commit(&mut batch).unwrap();
        let group = batch.ranges();
        let staged = log.append(b"not durable").unwrap();
        assert_eq!(kind(log.pin(staged.end)), ErrorKind::BeyondEnd);
        assert_eq!(kind(log.pin(at[2].plus(8))), ErrorKind::InvalidInput);
        log.force(staged.end).unwrap();
        let within = log.pin(group[1].start).unwrap();
        assert_eq!(within.lsn(), group[0].start, "an append is kept as a whole");
        drop(within);
        // A refused pin holds nothing.
        log.truncate_front(at[3]).unwrap();
        assert_eq!(log.front_lsn(), at[3]);
        let pin = log.pin(log.front_lsn()).unwrap();
        assert_eq!(
            kind(pin.advance(staged.end.plus(1 << 20))),
            ErrorKind::BeyondEnd
        );
        assert_eq!(kind(pin.advance(at[3].plus(8))), ErrorKind::InvalidInput);
        assert_eq!(pin.lsn(), at[3]);
        // A pin moves record by record through an atomic append, and the front stays at the append's start.
        log.truncate_front(group[2].end).unwrap();
        pin.advance(group[1].start).unwrap();
        assert_eq!(pin.lsn(), group[1].start);
        rt.sleep(Duration::from_millis(5));
        assert_eq!(log.front_lsn(), at[3]);
        pin.advance(group[0].start).unwrap();
        pin.advance(group[2].end).unwrap();
        soon(rt, "past the append", || log.front_lsn() == group[2].end);
        // The records at the pin are voided.
        let at = fill(&log, 6);
        let held = log.pin(at[4]).unwrap();
        log.truncate_back(at[2]).unwrap();
        let end = log.commit(b"behind").unwrap().end;
        drop(pin);
        log.truncate_front(end).unwrap();
        assert!(log.front_lsn() <= at[4]);
        drop(held);
        soon(rt, "past the range", || log.front_lsn() == end);
        log.close().unwrap();
    });
}

#[test]
fn a_dead_reader_is_cut_off() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    SimRuntime::run(1, |rt| {
        let options = small().max_pinned_size(120_000);
        let log = open(&disk, rt, &options).expect("a fresh log");
        let at = fill(&log, 30);
        let (dead, alive) = (log.pin(at[1]).unwrap(), log.pin(at[12]).unwrap());
        let mut reader = log.read_from(at[1]).unwrap();
        assert_eq!(reader.next().unwrap().unwrap().start, at[1]);
        log.truncate_front(at[8]).unwrap();
        assert_eq!((log.front_lsn(), dead.is_broken()), (at[1], false));
        // The reader shows what it has read ahead, and then the front has passed it.
        log.truncate_front(at[13]).unwrap();
        assert!(dead.is_broken() && !alive.is_broken());
        assert_eq!(log.front_lsn(), at[12]);
        assert_eq!(kind(dead.advance(at[20])), ErrorKind::Truncated);
        let e = reader.find_map(Result::err).expect("it was cut off");
        assert_eq!(e.kind(), ErrorKind::Truncated, "{e}");
        // A new pin is too far back as soon as the next segment is prepared.
        log.truncate_front(at[20]).unwrap();
        let late = log.pin(at[12]).unwrap();
        assert!(!late.is_broken());
        drop((dead, alive, late));
        soon(rt, "all is gone", || log.front_lsn() == at[20]);
        log.close().unwrap();
    });
}

/// Tests a writer that truncates and readers that follow it with pins, under a schedule.
fn run(seed: u64) {
    let mut rng = Rng::new(seed);
    let disk = SimDisk::new(SimOptions::random(seed), seed);
    let mut options = small()
        .segment_size(48 << 10)
        .max_batch_size(16 << 10)
        .buffer_size(48 << 10);
    options = options.require(logforce_core::Guarantee::ProcessCrash);
    options = options.max_spare_segments(rng.below(3) as usize);
    let tight = rng.one_in(3);
    if tight {
        options = options.max_pinned_size(20_000 + rng.below(60_000));
    }
    let cut = rng.one_in(3).then(|| rng.below(400));
    let written: Arc<Mutex<Vec<Record>>> = Arc::default();
    let done = Arc::new(AtomicU64::new(0));
    let wanted = SimRuntime::run(seed, |rt| {
        rt.tolerate_panics();
        let log = open(&disk, rt, &options).expect("a fresh log");
        if let Some(cut) = cut {
            disk.cut_at(disk.ops() + cut);
        }
        let mut joiners = Vec::new();
        let readers = 1 + rng.below(3);
        for n in 0..readers {
            let (log, written, done) = (log.clone(), written.clone(), done.clone());
            let (rt2, disk, mut rng) = (rt.clone(), disk.clone(), Rng::new(seed ^ n << 40));
            let body = move || follow(&log, &rt2, &disk, &written, &done, &mut rng);
            joiners.push(
                rt.spawn(&format!("reader-{n}"), Box::new(body))
                    .expect("starts"),
            );
        }
        let mut places = Vec::new();
        let mut wanted = Lsn::ORIGIN;
        for n in 0..40 {
            let data = vec![n as u8; rng.below(9_000) as usize];
            let Ok(c) = log.commit(&data) else { break };
            places.push(c.end);
            let (start, end) = (c.start, c.end);
            written.lock().unwrap().push(Record { start, end, data });
            if rng.one_in(3) {
                let to = places[rng.below(places.len() as u64) as usize];
                if to > wanted && log.truncate_front(to).is_ok() {
                    wanted = to;
                    assert!(log.front_lsn() <= wanted, "{seed}");
                }
            }
        }
        done.store(1, SeqCst);
        joiners
            .into_iter()
            .for_each(|j| j.join().expect("no reader panics"));
        if !disk.is_cut() {
            let what = format!("{seed}: no pin is left, {wanted}, {}", log.front_lsn());
            soon(rt, &what, || log.front_lsn() == wanted || disk.is_cut());
        }
        let _ = log.close();
        wanted
    });
    disk.crash(Failure::Power, None, seed);
    SimRuntime::run(seed, |rt| {
        let log = open(&disk, rt, &options).unwrap_or_else(|e| panic!("{seed}: {e}"));
        assert!(log.front_lsn() <= wanted || cut.is_some(), "{seed}");
        let found = log.read_from(log.front_lsn()).unwrap().map(|e| e.unwrap());
        let written = written.lock().unwrap();
        let live: Vec<_> = written
            .iter()
            .filter(|e| e.start >= log.front_lsn())
            .collect();
        assert!(
            found.take(live.len()).eq(live.into_iter().cloned()),
            "{seed}: records"
        );
    });
}

/// Reads with a pin: every record comes in order, and the front does not pass the pin.
fn follow(
    log: &Log,
    rt: &SimRuntime,
    disk: &SimDisk,
    written: &Mutex<Vec<Record>>,
    done: &AtomicU64,
    rng: &mut Rng,
) {
    let Some((pin, mut at)) = pinned(log, rt, disk) else {
        return;
    };
    let mut reader = match log.read_from(at) {
        Ok(reader) => reader,
        Err(e) => return assert!(pin.is_broken() || disk.is_cut(), "{e}"),
    };
    loop {
        let over = done.load(SeqCst) == 1;
        match reader.next() {
            Some(Ok(record)) => {
                assert!(record.start >= at && pin.lsn() <= record.start);
                let expected = written
                    .lock()
                    .unwrap()
                    .iter()
                    .find(|e| e.start >= at)
                    .cloned();
                assert!(
                    expected.is_none_or(|e| e == record),
                    "at {at}: {}",
                    record.start
                );
                at = record.end;
                if rng.one_in(3)
                    && let Err(e) = pin.advance(at)
                {
                    assert!(pin.is_broken() || disk.is_cut(), "{e}");
                    return;
                }
                if !pin.is_broken() {
                    let front = log.front_lsn();
                    // The pin may break in between.
                    assert!(front <= at || pin.is_broken(), "{front} is past {at}");
                }
            }
            Some(Err(e)) => {
                let cut_off = pin.is_broken() && e.kind() == ErrorKind::Truncated;
                assert!(cut_off || disk.is_cut(), "{e}");
                return;
            }
            None if over || disk.is_cut() => return,
            None => rt.sleep(Duration::from_micros(100)),
        }
    }
}

fn pinned(log: &Log, rt: &SimRuntime, disk: &SimDisk) -> Option<(Pin, Lsn)> {
    if rt.random().is_multiple_of(2) {
        // This holds for any number of truncations in progress.
        let pin = log.pin(None).expect("it waits for truncations");
        let at = pin.lsn();
        assert!(log.front_lsn() <= at || pin.is_broken(), "passed");
        return Some((pin, at));
    }
    loop {
        let at = log.front_lsn();
        match log.pin(at) {
            Ok(pin) => {
                assert!(log.front_lsn() <= at || pin.is_broken(), "passed");
                return Some((pin, at));
            }
            Err(e) if e.kind() == ErrorKind::Truncated => rt.point(),
            Err(e) => {
                assert!(disk.is_cut(), "{e}");
                return None;
            }
        }
    }
}

#[test]
fn readers_with_pins_lose_nothing() {
    seeds(60, 300).for_each(run);
}

/// A pin of the front waits for truncations while another thread moves the front all the time.
#[test]
fn a_pin_of_the_front_waits_for_truncations() {
    for seed in 0..30 {
        let disk = SimDisk::new(SimOptions::default(), seed);
        SimRuntime::run(seed, |rt| {
            let log = open(&disk, rt, &small()).expect("a fresh log");
            fill(&log, 3);
            let mover = log.clone();
            let body = move || {
                for n in 0..40u8 {
                    let at = mover.commit([n; 2_000]).expect("nothing fails");
                    mover
                        .truncate_front(at.start)
                        .expect("it moves, or is held");
                }
            };
            let mover = rt.spawn("mover", Box::new(body)).unwrap();
            for _ in 0..20 {
                let pin = log.pin(None).expect("it waits");
                rt.sleep(Duration::from_micros(300));
                let first = log.read_from(pin.lsn()).expect("it is held").next();
                first.expect("there is one").expect("it is whole");
                assert!(log.front_lsn() <= pin.lsn(), "{seed}: passed");
            }
            mover.join().unwrap();
            log.close().expect("nothing fails");
        });
    }
}
