//! A follower in another process shows no record that a power cut takes away, none twice and none out of
//! order, and in the end all records. This holds across segment changes, truncation at both ends, failures
//! and openings of the writer, crashes, and restarts of the follower.

use crate::common::open;
use logforce_core::{
    Batch, Error, ErrorKind, Guarantee, Log, Lsn, Method, Options, Policy, Position, ReadOnly,
    ReadOnlyFollower,
};
use logforce_device::{Runtime, System, WriteCache};
use logforce_sim::model::{PATH, small};
use logforce_sim::seeds;
use logforce_testkit::{Failure, Fault, Rng, SimDisk, SimOptions, SimRuntime, Survival};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A replica: the records below its position that were not voided or truncated.
#[derive(Debug, Default)]
struct Replica {
    records: BTreeMap<Lsn, Vec<u8>>,
    /// Exclusive end of the records that it has.
    end: Lsn,
    /// Stored position, if it has begun before.
    position: Option<Position>,
    /// LSN below which records were truncated before it saw them, or may have been.
    base: Lsn,
    shown: u64,
    voided: u64,
    truncated: u64,
    restarted: u64,
}

impl Replica {
    fn undo(&mut self, from: Lsn) {
        self.records.split_off(&from);
        self.end = from;
        self.position = self.position.take().map(|p| p.back_to(from));
    }

    fn skip_to(&mut self, front: Lsn) {
        self.records.clear();
        self.end = front;
        self.position = None;
        self.base = front;
        self.truncated += 1;
    }

    fn begin(&self, log: &ReadOnly) -> Result<ReadOnlyFollower, Error> {
        match &self.position {
            Some(stored) => log.follow(&stored.to_string().parse()?),
            None => log.follow_lsn(self.end),
        }
    }

    /// Returns a follower that continues at the replica's position, unless the power is cut.
    fn restart(&mut self, disk: &SimDisk, system: &dyn System) -> Option<ReadOnlyFollower> {
        loop {
            let follower = ReadOnly::open(system, PATH).and_then(|log| self.begin(&log));
            self.restarted += 1;
            match follower {
                Ok(f) => return Some(f.poll_interval(Duration::from_millis(1))),
                Err(Error::Truncated { front, .. }) => self.skip_to(front),
                Err(Error::Voided { from, .. }) => {
                    self.undo(from);
                    self.voided += 1;
                }
                Err(_) if disk.is_cut() => return None,
                // The fault was meant for the writer but has hit this follower.
                Err(e) if e.kind() == ErrorKind::Io => {}
                Err(e) => panic!("at {}: {e}", self.end),
            }
        }
    }

    /// Follows until `stop` is set and no record is left, or the power is cut.
    fn follow(&mut self, disk: &SimDisk, rt: &SimRuntime, rng: &mut Rng, stop: &AtomicBool) {
        let system = disk.system(rt);
        let Some(mut follower) = self.restart(disk, &*system) else {
            return;
        };
        let cut_after = rng.one_in(4).then(|| self.shown + rng.below(60));
        let mut last = Lsn::ORIGIN;
        loop {
            let stopping = stop.load(SeqCst);
            match follower.next_timeout(Duration::from_millis(5)) {
                Ok(Some(record)) => {
                    assert!(record.start >= self.end, "{} again", record.start);
                    assert!(record.start >= last, "LSNs are not used twice");
                    last = record.end;
                    self.records.insert(record.start, record.data);
                    self.end = record.end;
                    // Either position may be stored for a restart.
                    let position = follower.position();
                    self.position = Some(match rng.one_in(2) {
                        true => position.back_to(record.end),
                        false => position,
                    });
                    self.shown += 1;
                    if cut_after == Some(self.shown) {
                        disk.cut();
                    }
                    if rng.one_in(50) {
                        match self.restart(disk, &*system) {
                            Some(f) => follower = f,
                            None => return,
                        }
                    }
                }
                Ok(None) if stopping => return,
                Ok(None) => {}
                Err(Error::Voided { from, .. }) => {
                    self.undo(from);
                    self.voided += 1;
                }
                Err(Error::Truncated { front, .. }) => {
                    self.skip_to(front);
                    match self.restart(disk, &*system) {
                        Some(f) => follower = f,
                        None => return,
                    }
                }
                Err(_) if disk.is_cut() => return,
                Err(e) if e.kind() == ErrorKind::Io => match self.restart(disk, &*system) {
                    Some(f) => follower = f,
                    None => return,
                },
                Err(e) => panic!("at {}: {e}", self.end),
            }
            // While a part of an append is read, the position may move back over padding, but never over
            // a record.
            let at = follower.position().lsn();
            let again = self.records.range(at..).next();
            assert!(again.is_none(), "at {at} it would show {again:?} again");
        }
    }

    /// Checks that every record of the replica is in the log, or was voided, or truncated.
    fn check(&mut self, log: &Log, complete: bool) {
        let mut there = BTreeMap::new();
        for record in log.read_from(log.front_lsn()).expect("the front is there") {
            let record = record.expect("what was recovered is whole");
            there.insert(record.start, record.data);
        }
        for (lsn, data) in self.records.range(log.front_lsn()..) {
            match there.get(lsn) {
                Some(found) => assert!(found == data, "other bytes at {lsn}"),
                None => match log.read_at(*lsn) {
                    Err(Error::Voided { .. }) if !complete => {}
                    other => panic!("{lsn} was shown, but is missing: {other:?}"),
                },
            }
        }
        if complete {
            let missing = there
                .range(self.base..)
                .find(|(l, _)| !self.records.contains_key(l));
            assert!(missing.is_none(), "never shown: {:?}", missing.map(|m| m.0));
        }
    }
}

/// Writes for a while, alone or as one of several writers. Only one of them `truncates`.
fn write(log: &Log, rt: &SimRuntime, rng: &mut Rng, truncates: bool) -> Result<(), Error> {
    let mut acked: Vec<Lsn> = Vec::new();
    for _ in 0..5 + rng.below(40) {
        let longest = rng.pick(&[40, 300, 3_000, 20_000]);
        let data = vec![rng.bits() as u8; 1 + rng.below(longest) as usize];
        match rng.below(if truncates { 14 } else { 11 }) {
            0..5 => acked.push(log.commit(&data)?.start),
            5 => {
                log.append(&data)?;
            }
            6 => {
                let group = log.commit(Batch::of(&[&data, b"joined", &data]))?;
                acked.push(group.start);
            }
            7 => {
                let within = Duration::from_millis(1 + rng.below(9));
                drop(log.submit(&data, Policy::Interval { within })?);
            }
            8..11 => rt.sleep(Duration::from_micros(rng.below(12_000))),
            11..13 if !acked.is_empty() => {
                let at = acked[rng.below(acked.len() as u64) as usize];
                match log.truncate_front(at) {
                    Err(Error::Truncated { .. } | Error::Voided { .. }) => {}
                    other => other?,
                }
            }
            13 => {
                let near = acked.len() as u64;
                let Some(at) = near.checked_sub(1 + rng.below(4)) else {
                    continue;
                };
                match log.truncate_back(acked[at as usize]) {
                    Err(Error::Truncated { .. } | Error::Voided { .. }) => {}
                    other => other?,
                }
                acked.truncate(at as usize);
            }
            _ => {}
        }
    }
    Ok(())
}

fn options(rng: &mut Rng, disk: &SimOptions) -> Options {
    let durable = [
        Method::DirectDsync,
        Method::Dsync,
        Method::Fdatasync,
        Method::DirectFdatasync,
    ];
    let mut method = rng.pick(&durable);
    if rng.one_in(4) {
        method = rng.pick(&[Method::Buffered, Method::Direct]);
    }
    if !disk.direct && method.plan().direct {
        method = Method::Fdatasync;
    }
    let options = small().method(method).require(Guarantee::Nothing);
    let options = options.max_batch_size(16 << 10);
    options
        .in_flight_at_first(4)
        .max_in_flight_writes(1 + rng.below(4) as usize)
}

/// Makes one boot: opens the log a few times, writes, closes it or lets it fail, while replicas follow.
/// Returns whether the last opening was closed cleanly.
fn boot(seed: u64, disk: &SimDisk, options: &Options, replicas: &[Arc<Mutex<Replica>>]) -> bool {
    let mut rng = Rng::new(seed ^ 0xb007);
    if rng.one_in(3) {
        disk.cut_at(disk.ops() + rng.below(400));
    }
    SimRuntime::run(seed, |rt| {
        rt.tolerate_panics();
        let stop: Arc<AtomicBool> = Arc::default();
        let mut joiners = Vec::new();
        let spawn = |name: &str, body: Box<dyn FnOnce() + Send>| {
            rt.spawn(name, body).expect("simulated threads start")
        };
        let mut followers = Vec::new();
        let mut in_order = false;
        // The follower begins before the log was opened after the crash, or before it exists.
        let early = rng.one_in(2) && ReadOnly::open(&*disk.system(rt), PATH).is_ok();
        for opening in 0..1 + rng.below(3) {
            let start_followers = |followers: &mut Vec<_>| {
                for (n, replica) in replicas.iter().enumerate() {
                    let (replica, disk, rt) = (replica.clone(), disk.clone(), rt.clone());
                    let (stop, mut rng) = (stop.clone(), Rng::new(seed ^ (n as u64) << 40));
                    let body = move || {
                        let mut replica = replica.lock().unwrap();
                        replica.follow(&disk, &rt, &mut rng, &stop);
                    };
                    followers.push(spawn(&format!("follower-{n}"), Box::new(body)));
                }
            };
            if early && followers.is_empty() {
                start_followers(&mut followers);
                rt.sleep(Duration::from_millis(rng.below(30)));
            }
            // With a larger write unit than before, the log continues in a new segment.
            let unit = rng.pick(&[4096, 4096, 8192]);
            let log = match open(disk, rt, &options.clone().write_unit_size(unit)) {
                Ok(log) => log,
                Err(_) if disk.is_cut() => break,
                // A planned fault caused this.
                Err(e) => {
                    assert_ne!(e.kind(), ErrorKind::Damaged, "{e}");
                    in_order = false;
                    continue;
                }
            };
            if followers.is_empty() {
                start_followers(&mut followers);
            }
            if rng.one_in(3) {
                disk.fail_at(disk.ops() + rng.below(200), Fault::Io);
            }
            for n in 0..1 + rng.below(3) {
                let (log, rt) = (log.clone(), rt.clone());
                let mut rng = Rng::new(seed ^ (n << 32) ^ (opening << 48));
                let body = move || drop(write(&log, &rt, &mut rng, n == 0));
                joiners.push(spawn(&format!("writer-{n}"), Box::new(body)));
            }
            for joiner in joiners.drain(..) {
                joiner.join().expect("no writer panics");
            }
            in_order = log.close().is_ok();
            rt.sleep(Duration::from_millis(rng.below(20)));
        }
        stop.store(true, SeqCst);
        for joiner in followers {
            joiner.join().expect("no follower panics");
        }
        in_order && !disk.is_cut()
    })
}

fn run(seed: u64) -> [u64; 4] {
    let mut rng = Rng::new(seed);
    let kind = SimOptions {
        write_cache: rng.pick(&[WriteCache::Back, WriteCache::Back, WriteCache::Through]),
        direct: !rng.one_in(4),
        ..SimOptions::default()
    };
    let disk = SimDisk::new(kind.clone(), seed);
    let options = options(&mut rng, &kind);
    let replicas: Vec<Arc<Mutex<Replica>>> =
        (0..1 + rng.below(2)).map(|_| Arc::default()).collect();
    for round in 0..1 + rng.below(3) {
        let in_order = boot(seed ^ (round << 56), &disk, &options, &replicas);
        let failure = rng.pick(&[
            Failure::Power,
            Failure::Power,
            Failure::Os,
            Failure::Process,
        ]);
        let kept = rng.pick(&[Survival::Kept, Survival::Lost]);
        disk.crash(failure, rng.one_in(2).then_some(kept), seed ^ round);
        // This check must not change the state for the next boot.
        let image = disk.snapshot();
        SimRuntime::run(seed, |rt| {
            let log = match open(&disk, rt, &options) {
                Ok(log) => log,
                Err(e) => panic!("a log that was not damaged opens: {e}"),
            };
            for replica in &replicas {
                replica.lock().unwrap().check(&log, in_order);
            }
        });
        disk.restore(&image);
    }
    let mut sums = [0; 4];
    for replica in &replicas {
        let r = replica.lock().unwrap();
        for (sum, n) in sums
            .iter_mut()
            .zip([r.shown, r.voided, r.truncated, r.restarted])
        {
            *sum += n;
        }
    }
    sums
}

#[test]
fn what_a_follower_shows_stays() {
    let seeds = seeds(120, 600);
    let alone = seeds.end - seeds.start == 1;
    let mut sums = [0; 4];
    for seed in seeds {
        eprintln!("LOGFORCE_SEED={seed}");
        for (sum, n) in sums.iter_mut().zip(run(seed)) {
            *sum += n;
        }
    }
    println!("shown, voided, truncated, restarted: {sums:?}");
    assert!(alone || sums.iter().all(|n| *n > 100), "{sums:?}");
}
