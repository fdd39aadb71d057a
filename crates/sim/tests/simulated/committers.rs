//! Many committing threads, under schedules of every kind: no thread sleeps for ever (the scheduler reports
//! a deadlock), and a power cut loses no acknowledged record.

use crate::common::{block_on, opened};
use logforce_core::{
    Batch, Error, ErrorKind, Guarantee, Log, Lsn, Method, OpenMode, Options, Policy, Record,
    RecordRange,
};
use logforce_device::{Runtime, WriteCache};
use logforce_sim::model::PATH;
use logforce_sim::seeds;
use logforce_testkit::{Failure, Fault, Rng, SimDisk, SimOptions, SimRuntime, Survival};
use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake};
use std::time::Duration;

/// Acknowledged records, with their guarantees.
type Acked = Arc<Mutex<BTreeMap<Lsn, (Vec<u8>, Guarantee)>>>;

/// One thread of a run.
struct Committer {
    log: Log,
    rt: SimRuntime,
    rng: Rng,
    acked: Acked,
    /// Number of callbacks that were called, and number of expected ones.
    called: Arc<AtomicU64>,
    expected: Arc<AtomicU64>,
    longest: u64,
    /// Appended records that are not forced yet.
    open: Vec<(RecordRange, Vec<u8>)>,
}

impl Committer {
    fn ack(&self, start: Lsn, data: Vec<u8>, guarantee: impl Into<Guarantee>) {
        let guarantee = guarantee.into();
        self.acked.lock().unwrap().insert(start, (data, guarantee));
    }

    fn policy(&mut self) -> Policy {
        let within = Duration::from_millis(1 + self.rng.below(20));
        match self.rng.below(4) {
            0 | 1 => Policy::Force,
            2 => Policy::Write {
                force_within: within,
            },
            _ => Policy::Interval { within },
        }
    }

    /// Commits one record, a batch, asynchronously, or as an append that is forced later, perhaps by another
    /// thread.
    fn step(&mut self) -> Result<(), Error> {
        let len = if self.rng.one_in(3) {
            self.longest
        } else {
            200
        };
        let data = vec![self.rng.bits() as u8; 1 + self.rng.below(len) as usize];
        let policy = self.policy();
        match self.rng.below(10) {
            0..3 => {
                let at = self.log.append(&data)?;
                self.open.push((at, data));
                let forced = if self.rng.one_in(2) {
                    self.log.force(at.end)?
                } else {
                    self.log
                        .submit(Batch::new(), Policy::Force)?
                        .wait()?
                        .guarantee
                };
                assert!(self.log.durable_lsn() >= at.end);
                for (at, data) in std::mem::take(&mut self.open) {
                    self.ack(at.start, data, forced);
                }
            }
            3 => {
                let at = self.log.append(&data)?;
                self.open.push((at, data));
            }
            4..6 => {
                let done = self.log.commit_with(&data, policy)?;
                if policy == Policy::Force {
                    assert!(self.log.durable_lsn() >= done.end);
                }
                self.ack(done.start, data, done.guarantee);
            }
            6..8 => {
                let mut handles = Vec::new();
                for _ in 0..1 + self.rng.below(4) {
                    let handle = match self.rng.below(3) {
                        0 => self.log.submit(&data, policy)?,
                        1 => block_on(&self.rt, self.log.reserve(data.len()))?
                            .submit(&data, Policy::Force)?,
                        _ => match self
                            .log
                            .try_reserve(data.len())
                            .and_then(|permit| permit.submit(&data, Policy::Force))
                        {
                            Err(Error::WouldBlock) => continue,
                            other => other?,
                        },
                    };
                    handles.push(handle);
                }
                for handle in handles {
                    match self.rng.below(4) {
                        0 => drop(handle),
                        1 => {
                            let done = block_on(&self.rt, handle)?;
                            self.ack(done.start, data.clone(), done.guarantee);
                        }
                        2 => {
                            // No call polls the handle, so the result must come by itself.
                            while !handle.is_done() {
                                self.rt.sleep(Duration::from_millis(1));
                            }
                            if let Some(Ok(done)) = handle.try_result() {
                                self.ack(done.start, data.clone(), done.guarantee);
                            }
                        }
                        _ => {
                            let done = handle.wait()?;
                            self.ack(done.start, data.clone(), done.guarantee);
                        }
                    }
                }
            }
            8 => {
                let (acked, called) = (self.acked.clone(), self.called.clone());
                let bytes = data.clone();
                let end = self.log.submit_then(&data, Policy::Force, move |done| {
                    called.fetch_add(1, SeqCst);
                    if let Ok(done) = done {
                        let known = (bytes, done.guarantee.into());
                        acked.lock().unwrap().insert(done.start, known);
                    }
                });
                end?;
                self.expected.fetch_add(1, SeqCst);
            }
            _ => self.rt.sleep(Duration::from_millis(self.rng.below(80))),
        }
        Ok(())
    }

    fn run(&mut self) {
        for _ in 0..3 + self.rng.below(8) {
            if self.step().is_err() {
                return;
            }
        }
    }
}

/// Follows until the log is closed. Returns the records that it saw.
fn follow(log: &Log, rt: &SimRuntime, how: u64) -> Vec<Record> {
    // Only a power cut prevents reading the front.
    let Ok(mut follower) = log.follow_lsn(log.front_lsn()) else {
        return Vec::new();
    };
    let mut seen: Vec<Record> = Vec::new();
    loop {
        let next = match how % 2 {
            0 => follower.next_blocking(),
            _ => block_on(rt, follower.next()),
        };
        match next {
            Some(Ok(record)) => {
                assert!(seen.last().is_none_or(|last| last.end <= record.start));
                seen.push(record);
            }
            Some(Err(e)) => {
                // Errors that the disk causes after the power cut.
                let kind = e.kind();
                let expected = [ErrorKind::Poisoned, ErrorKind::Damaged, ErrorKind::Io];
                assert!(expected.contains(&kind), "{e}");
                return seen;
            }
            None => return seen,
        }
    }
}

fn run(seed: u64) {
    let mut rng = Rng::new(seed);
    let disk = SimDisk::new(
        SimOptions {
            write_cache: rng.pick(&[WriteCache::Back, WriteCache::Back, WriteCache::Through]),
            ..SimOptions::default()
        },
        seed,
    );
    let methods = [
        Method::DirectDsync,
        Method::DirectDsync,
        Method::Dsync,
        Method::Fdatasync,
        Method::DirectFdatasync,
    ];
    let longest = rng.pick(&[300, 5_000, 40_000]);
    let options = Options::new()
        .segment_size(512 << 10)
        .max_batch_size(128 << 10)
        .buffer_size(256 << 10)
        .max_in_flight_writes(1 + rng.below(4) as usize)
        .in_flight_at_first(4)
        // Mostly very small, so that writes are in flight together and complete in any order.
        .large_write_size(rng.pick(&[1, 1, 4096, 65_536]))
        .method(rng.pick(&methods))
        .live_stats(rng.one_in(2));
    let acked = Acked::default();
    let cut = rng.one_in(2);
    let (called, expected) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
    let followed: Arc<Mutex<Vec<Vec<Record>>>> = Arc::default();
    SimRuntime::run(seed, |rt| {
        rt.tolerate_panics();
        let log = opened(&disk, rt, options.clone());
        if cut {
            disk.cut_at(rng.below(150));
        }
        let spawn = |name: String, body: Box<dyn FnOnce() + Send>| {
            rt.spawn(&name, body).expect("simulated threads start")
        };
        let mut followers = Vec::new();
        for n in 0..rng.below(3) {
            let (log, rt, followed) = (log.clone(), rt.clone(), followed.clone());
            let body = move || {
                let seen = follow(&log, &rt, n);
                followed.lock().unwrap().push(seen);
            };
            followers.push(spawn(format!("follower-{n}"), Box::new(body)));
        }
        let mut committers = Vec::new();
        for n in 0..2 + rng.below(7) {
            let mut committer = Committer {
                log: log.clone(),
                rt: rt.clone(),
                rng: Rng::new(seed ^ (n << 32)),
                acked: acked.clone(),
                called: called.clone(),
                expected: expected.clone(),
                longest,
                open: Vec::new(),
            };
            let body = move || committer.run();
            committers.push(spawn(format!("committer-{n}"), Box::new(body)));
        }
        for joiner in committers {
            joiner.join().expect("no committer panics");
        }
        let closed = log.close();
        assert!(cut || closed.is_ok(), "{closed:?}");
        // Followers end with the log.
        for joiner in followers {
            joiner.join().expect("no follower panics");
        }
        assert_eq!(called.load(SeqCst), expected.load(SeqCst), "callbacks");
    });
    let failure = rng.pick(&[
        Failure::Power,
        Failure::Power,
        Failure::Os,
        Failure::Process,
    ]);
    let survives = match failure {
        Failure::Process => Guarantee::ProcessCrash,
        Failure::Os => Guarantee::OsCrash,
        _ => Guarantee::PowerLoss,
    };
    let kept = rng.pick(&[Survival::Kept, Survival::Lost]);
    disk.crash(failure, rng.one_in(2).then_some(kept), seed);
    SimRuntime::run(seed, |rt| {
        let log = opened(&disk, rt, options);
        let mut there = BTreeMap::new();
        for record in log.read_from(log.front_lsn()).expect("the front is there") {
            let record = record.expect("what was recovered is whole");
            there.insert(record.start, record.data);
        }
        let mut acked = acked.lock().unwrap().clone();
        // Records that a follower showed were durable.
        for record in followed.lock().unwrap().iter().flatten() {
            acked.insert(record.start, (record.data.clone(), Guarantee::PowerLoss));
        }
        for (lsn, (data, guarantee)) in &acked {
            if *guarantee >= survives {
                assert_eq!(
                    there.get(lsn),
                    Some(data),
                    "acknowledged at {lsn}: {guarantee}"
                );
            }
        }
        log.close().expect("nothing fails now");
    });
}

#[test]
fn no_thread_sleeps_for_ever_and_nothing_acknowledged_is_lost() {
    for seed in seeds(200, 1_500) {
        eprintln!("LOGFORCE_SEED={seed}");
        run(seed);
    }
}

/// A callback runs in the thread that makes space, so its appends must not wait for that thread.
#[test]
fn a_callback_appends_more_than_fits() {
    for seed in 0..50 {
        let disk = SimDisk::new(SimOptions::default(), seed);
        SimRuntime::run(seed, |rt| {
            let options = Options::new()
                .segment_size(512 << 10)
                .max_batch_size(64 << 10);
            let log = opened(&disk, rt, options.buffer_size(128 << 10));
            let inner = log.clone();
            let done = Arc::new(AtomicU64::new(0));
            let count = done.clone();
            let submitted = log.submit_then(b"first", Policy::Force, move |first| {
                first.expect("nothing fails");
                for _ in 0..20 {
                    inner.append(&[1; 30_000]).expect("there is space");
                    count.fetch_add(1, SeqCst);
                }
                let last = inner.commit(b"last").expect("nothing fails");
                assert!(inner.durable_lsn() >= last.end);
                count.fetch_add(1, SeqCst);
            });
            submitted.expect("there is space");
            while done.load(SeqCst) < 21 {
                rt.sleep(Duration::from_millis(1));
            }
            log.close().expect("nothing fails");
        });
    }
}

/// A callback drops the last clone of a log, or closes the log.
#[test]
fn a_callback_closes_the_log() {
    for seed in 0..100 {
        let disk = SimDisk::new(SimOptions::default(), seed);
        SimRuntime::run(seed, |rt| {
            let log = opened(&disk, rt, Options::new().segment_size(512 << 10));
            let called = Arc::new(AtomicU64::new(0));
            let mut accepted = 0;
            for n in 0..4u8 {
                let (inner, count) = (log.clone(), called.clone());
                let submitted = log.submit_then(&[n], Policy::Force, move |result| {
                    result.expect("nothing fails");
                    count.fetch_add(1, SeqCst);
                    if n == 2 && seed % 2 == 0 {
                        inner.close().expect("nothing fails");
                    }
                });
                match submitted {
                    // The callback of the third record came early.
                    Err(e) => assert_eq!(e.kind(), ErrorKind::Closed),
                    Ok(_) => accepted += 1,
                }
            }
            drop(log);
            while called.load(SeqCst) < accepted {
                rt.sleep(Duration::from_millis(1));
            }
            // The lock is released sooner or later.
            let system = disk.system(rt);
            let again = loop {
                let options = Options::new().segment_size(512 << 10);
                match Log::open(&*system, PATH, OpenMode::OpenExisting, options) {
                    Err(e) if e.kind() == ErrorKind::Locked => {
                        rt.sleep(Duration::from_millis(1));
                    }
                    other => break other.expect("it opens"),
                }
            };
            let records = again
                .read_from(again.front_lsn())
                .expect("the front is there");
            assert_eq!(records.count() as u64, accepted);
            again.close().expect("nothing fails");
        });
    }
}

/// The last clone of a log lies in a task that the log itself wakes.
#[test]
fn a_woken_task_holds_the_last_clone() {
    struct Holder(Mutex<Option<Log>>);
    impl Wake for Holder {
        fn wake(self: Arc<Self>) {
            drop(self.0.lock().unwrap().take());
        }
    }
    for seed in 0..100 {
        let disk = SimDisk::new(SimOptions::default(), seed);
        SimRuntime::run(seed, |rt| {
            let methods = [Method::DirectDsync, Method::Fdatasync];
            let options = || {
                let options = Options::new().segment_size(512 << 10);
                options.method(methods[seed as usize % 2])
            };
            let log = opened(&disk, rt, options());
            let mut follower = log.follow_lsn(log.front_lsn()).expect("the front is there");
            let submitted = log.submit(b"first", Policy::Force).expect("there is space");
            let waker = Arc::new(Holder(Mutex::new(Some(log)))).into();
            let mut submitted = pin!(submitted);
            let polled = submitted.as_mut().poll(&mut Context::from_waker(&waker));
            drop(waker);
            if let Poll::Ready(done) = polled {
                done.expect("nothing fails");
            }
            // Ends with the log, which is closed by the thread that drops the waker.
            while let Some(record) = follower.next_blocking() {
                assert_eq!(record.expect("nothing fails").data, b"first");
            }
            let system = disk.system(rt);
            loop {
                match Log::open(&*system, PATH, OpenMode::OpenExisting, options()) {
                    Err(e) if e.kind() == ErrorKind::Locked => {
                        rt.sleep(Duration::from_millis(1));
                    }
                    other => break other.expect("it opens").close().expect("nothing fails"),
                }
            }
        });
    }
}

/// The device's code panics in a committer's thread, in the writing thread, or in the preallocator: the log
/// fails, and all other threads get the error.
#[test]
fn a_panic_under_the_log_wakes_every_thread() {
    let (mut unwound, mut failed) = (0, 0);
    for (method, op) in [Method::DirectDsync, Method::Fdatasync]
        .into_iter()
        .flat_map(|method| (0..60).map(move |op| (method, op)))
    {
        let disk = SimDisk::new(SimOptions::default(), op);
        let options = || {
            let options = Options::new()
                .segment_size(64 << 10)
                .max_batch_size(16 << 10);
            options
                .buffer_size(64 << 10)
                .large_write_size(1)
                .method(method)
        };
        let results: Arc<Mutex<Vec<Option<Error>>>> = Arc::default();
        SimRuntime::run(op, |rt| {
            rt.tolerate_panics();
            let log = opened(&disk, rt, options());
            rt.sleep(Duration::from_secs(1));
            disk.fail_at(disk.ops() + op, Fault::Panic);
            let mut committers = Vec::new();
            for n in 0..5u8 {
                let (log, results) = (log.clone(), results.clone());
                let body = move || {
                    for _ in 0..4 {
                        let done = match n {
                            0 => log
                                .submit(&[n; 5_000], Policy::Force)
                                .and_then(|s| s.wait()),
                            _ => log.commit(&[n; 9_000]),
                        };
                        if let Err(e) = done {
                            results.lock().unwrap().push(Some(e));
                            return;
                        }
                    }
                    results.lock().unwrap().push(None);
                };
                let thread = rt.spawn(&format!("committer-{n}"), Box::new(body));
                committers.push(thread.expect("simulated threads start"));
            }
            for committer in committers {
                unwound += u32::from(committer.join().is_err());
            }
            let closed = log.close();
            for error in results.lock().unwrap().iter().flatten() {
                assert_eq!(error.kind(), ErrorKind::Poisoned, "{error}");
                assert!(closed.is_err(), "{method}, {op}");
                failed += 1;
            }
        });
        // A write whose completion panicked is still in flight, until the process ends.
        disk.crash(Failure::Process, None, op);
        SimRuntime::run(op, |rt| {
            opened(&disk, rt, options())
                .close()
                .expect("nothing fails now");
        });
    }
    assert!(unwound > 10 && failed > 10, "{unwound} {failed}");
}

/// A callback comes when its record is durable, whichever thread wrote it, without any timeout.
#[test]
fn a_callback_needs_no_clock() {
    for seed in 0..200 {
        let disk = SimDisk::new(SimOptions::default(), seed);
        SimRuntime::run(seed, |rt| {
            let never = Duration::from_secs(1 << 30);
            let options = Options::new().segment_size(512 << 10).idle_stamp(never);
            let log = opened(&disk, rt, options.live_stats(false));
            let mut committers = Vec::new();
            for _ in 0..3 {
                let log = log.clone();
                let body = move || {
                    for _ in 0..5 {
                        log.commit(b"beside").expect("nothing fails");
                    }
                };
                let thread = rt.spawn("committer", Box::new(body));
                committers.push(thread.expect("simulated threads start"));
            }
            let called = Arc::new(AtomicU32::new(0));
            for _ in 0..5 {
                let (called, rt) = (called.clone(), rt.clone());
                let submitted = log.submit_then(b"called", Policy::Force, move |done| {
                    done.expect("nothing fails");
                    called.fetch_add(1, SeqCst);
                    rt.wake_all(&called);
                });
                submitted.expect("there is space");
            }
            let began = rt.now();
            loop {
                let seen = called.load(SeqCst);
                if seen == 5 {
                    break;
                }
                rt.wait(&called, seen, None);
            }
            // Time jumps to the next timeout when no thread can run.
            assert!(rt.now() - began < Duration::from_secs(1), "seed {seed}");
            for committer in committers {
                committer.join().expect("no committer panics");
            }
            log.close().expect("nothing fails");
        });
    }
}
