//! Many threads that commit, under schedules of every kind: nobody is left asleep (the scheduler
//! reports a deadlock), nothing is acknowledged that a cut takes away.

use logforce_core::{Appended, Creation, Log, Lsn, Method, Options};
use logforce_device::{System, WriteCache};
use logforce_testkit::{Failure, Rng, SimDisk, SimOptions, SimRuntime, Survival};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

const DIR: &str = "/log";
const SEEDS: u64 = 400;

type Acked = Arc<Mutex<BTreeMap<Lsn, Vec<u8>>>>;

fn open(disk: &SimDisk, rt: &SimRuntime, options: Options) -> Log {
    let system = disk.system(rt);
    let opened = Log::open(
        &*system as &dyn System,
        DIR,
        Creation::OpenOrCreate,
        options,
    );
    opened.expect("a log that was not damaged opens")
}

/// One thread's commits: by itself, or as an append that is forced later, perhaps by another.
fn commit_some(log: &Log, rng: &mut Rng, acked: &Acked, longest: u64) {
    let mut open: Vec<(Appended, Vec<u8>)> = Vec::new();
    for _ in 0..3 + rng.below(8) {
        let len = if rng.one_in(3) { longest } else { 200 };
        let data = vec![rng.bits() as u8; 1 + rng.below(len) as usize];
        let Ok(at) = log.append(&data) else { return };
        open.push((at, data));
        if rng.one_in(4) {
            continue;
        }
        if log.force(at.end).is_err() {
            return;
        }
        assert!(log.durable_lsn() >= at.end);
        let mut acked = acked.lock().unwrap();
        acked.extend(open.drain(..).map(|(at, data)| (at.start, data)));
    }
}

fn life(seed: u64) {
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
        .segment_len(512 << 10)
        .max_batch(128 << 10)
        .staging(256 << 10)
        .writes_in_flight(1 + rng.below(4) as usize)
        .method(rng.pick(&methods));
    let acked = Acked::default();
    let cut = rng.one_in(2);
    SimRuntime::run(seed, |rt| {
        rt.tolerate_panics();
        let log = open(&disk, rt, options.clone());
        if cut {
            disk.cut_at(rng.below(150));
        }
        let mut joiners = Vec::new();
        for n in 0..2 + rng.below(7) {
            let (log, acked, mut rng) = (log.clone(), acked.clone(), Rng::new(seed ^ (n << 32)));
            let body = move || commit_some(&log, &mut rng, &acked, longest);
            joiners.push(
                logforce_device::Runtime::spawn(rt, &format!("committer-{n}"), Box::new(body))
                    .expect("simulated threads start"),
            );
        }
        for joiner in joiners {
            joiner.join().expect("no committer panics");
        }
        let closed = log.close();
        assert!(cut || closed.is_ok(), "{closed:?}");
    });
    let kept = rng.pick(&[Survival::Kept, Survival::Lost]);
    disk.crash(Failure::Power, rng.one_in(2).then_some(kept), seed);
    SimRuntime::run(seed, |rt| {
        let log = open(&disk, rt, options);
        let mut there = BTreeMap::new();
        for entry in log.read_from(log.front_lsn()).expect("the front is there") {
            let entry = entry.expect("what was recovered is whole");
            there.insert(entry.start, entry.data);
        }
        for (lsn, data) in acked.lock().unwrap().iter() {
            assert_eq!(there.get(lsn), Some(data), "acknowledged at {lsn}");
        }
        log.close().expect("nothing fails now");
    });
}

#[test]
fn nobody_is_left_asleep_and_nothing_acknowledged_is_lost() {
    let seeds = match std::env::var("LOGFORCE_SEED") {
        Ok(seed) => {
            let seed = seed.parse().expect("a number");
            seed..seed + 1
        }
        Err(_) => 0..SEEDS,
    };
    for seed in seeds {
        eprintln!("LOGFORCE_SEED={seed}");
        life(seed);
    }
}
