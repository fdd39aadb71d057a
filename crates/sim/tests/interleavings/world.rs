//! Disk, runtime and log of one schedule, and the checks at each acknowledgement.

use crate::medium::{Layer, Medium};
use logforce_core::{
    Acknowledged, Environment, EnvironmentOptions, Error, Guarantee, Log, Lsn, Method, OpenMode,
    Options, Record,
};
use logforce_device::sync::AtomicU32;
use logforce_device::{Runtime, System};
use logforce_testkit::{Points, ShuttleRuntime, SimDisk, SimOptions};
use shuttle::rand::{RngCore, thread_rng};
use shuttle::thread::{self, JoinHandle};
use std::collections::BTreeMap;
use std::path::Path;
use std::pin::pin;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake};
use std::time::Duration;

pub const DIR: &str = "/log";

/// Methods whose guarantee covers a power cut here.
pub const METHODS: [Method; 4] = [
    Method::DirectDsync,
    Method::DirectFdatasync,
    Method::Dsync,
    Method::Fdatasync,
];

/// Returns a number below `n` from the schedule's own random bits.
pub fn below(n: u64) -> u64 {
    thread_rng().next_u64() % n
}

pub fn one_in(n: u64) -> bool {
    below(n) == 0
}

pub fn pick<T: Copy>(from: &[T]) -> T {
    from[below(from.len() as u64) as usize]
}

/// Returns a unique record, which its first eight bytes distinguish from all others.
pub fn record(number: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![number as u8; len.max(8)];
    bytes[..8].copy_from_slice(&(0x10f0_0000 + number).to_le_bytes());
    bytes
}

/// Returns options with small segments and batches, without timed stamps and statistics, so that every wait
/// needs a wake.
pub fn options() -> Options {
    Options::new()
        .segment_size(128 << 10)
        .max_batch_size(8 << 10)
        .buffer_size(16 << 10)
        .large_write_size(1)
        .max_in_flight_writes(3)
        .in_flight_at_first(3)
        .idle_stamp(Duration::MAX)
        .live_stats(false)
        .method(Method::DirectDsync)
}

/// The environment of one schedule.
#[derive(Clone)]
pub struct World {
    pub disk: SimDisk,
    pub rt: ShuttleRuntime,
    /// True if operations of the disk fail.
    pub failing: bool,
    /// Records that were reported as durable: start and first bytes.
    promised: Arc<Mutex<BTreeMap<Lsn, [u8; 8]>>>,
}

impl World {
    pub fn new() -> World {
        let options = SimOptions {
            sector: 4096,
            blocking: one_in(4),
            log_lines: 0,
            ..SimOptions::default()
        };
        World {
            disk: SimDisk::new(options, below(1 << 20)),
            rt: ShuttleRuntime::default(),
            failing: false,
            promised: Arc::default(),
        }
    }

    /// Opens the log; one log in four gets a separate environment.
    pub fn open(&self, options: Options) -> Log {
        if !one_in(4) {
            return self.open_alone(options);
        }
        let memory = pick(&[0, 64 << 20]);
        let shared = EnvironmentOptions::new().threads(2).memory_size(memory);
        let environment = Environment::start(Arc::new(self.rt.clone()), &shared);
        let environment = environment.expect("threads start");
        // The environment lives as long as the log.
        let options = options
            .first_segment_size(128 << 10)
            .environment(&environment);
        self.open_alone(options)
    }

    /// Opens the log without an environment, so that it starts its threads itself.
    pub fn open_alone(&self, options: Options) -> Log {
        self.open_in(DIR, options)
    }

    /// Opens a log in this directory with these options.
    pub fn open_in(&self, dir: &str, options: Options) -> Log {
        let system = self.disk.system(&self.rt);
        let system: &dyn System = &*system;
        Log::open(system, dir, OpenMode::OpenOrCreate, options).expect("nothing fails in opening")
    }

    /// Lets time pass until no thread has work, so that the next segment is prepared.
    pub fn rest(&self) {
        let clock = self.rt.with_clock();
        let word = AtomicU32::new(0);
        self.rt.wait(&word, 0, Some(Duration::from_secs(3_600)));
        drop(clock);
    }

    /// Starts a thread; a panic in it fails the schedule.
    pub fn spawn(&self, body: impl FnOnce(&World) + Send + 'static) -> JoinHandle<()> {
        let world = self.clone();
        thread::spawn(move || body(&world))
    }

    /// Notes a record that was reported as durable: a power cut must not lose it.
    pub fn durable(&self, start: Lsn, end: Lsn, data: &[u8]) {
        let medium = Medium::of(&self.disk, DIR, Layer::Stable);
        assert!(
            medium.end >= end,
            "acknowledged up to {end}, but a power cut now leaves {}",
            medium.end
        );
        assert!(medium.holds(start, &data[..8]), "another record at {start}");
        let tag = data[..8].try_into().expect("eight bytes");
        let mut promised = self.promised.lock().expect("no panic");
        promised.insert(start, tag);
    }

    /// Checks that everything ever reported as durable is on the medium.
    pub fn all_there(&self) {
        let medium = Medium::of(&self.disk, DIR, Layer::Stable);
        let promised = self.promised.lock().expect("no panic");
        for (start, tag) in &*promised {
            assert!(
                *start < medium.end && medium.holds(*start, tag),
                "acknowledged at {start} but gone"
            );
        }
    }

    /// Returns true if the log's lock is held.
    pub fn is_locked(&self) -> bool {
        let directory = self.disk.system(&self.rt).directory(Path::new(DIR));
        let directory = directory.expect("the directory is there");
        directory.is_locked("lock").expect("the disk answers")
    }

    /// Checks the result of a commit.
    pub fn acknowledged(&self, done: &Acknowledged, data: &[u8]) {
        match done.guarantee.guarantee {
            Guarantee::PowerLoss => self.durable(done.start, done.end, data),
            Guarantee::Nothing => {}
            // A failed barrier may lose what was written before it.
            _ if self.failing => {}
            _ => {
                let medium = Medium::of(&self.disk, DIR, Layer::Visible);
                assert!(
                    medium.end >= done.end,
                    "written up to {}, but the system sees {}",
                    done.end,
                    medium.end
                );
                assert!(medium.holds(done.start, &data[..8]), "another record");
            }
        }
    }

    /// Notes that a follower has shown a record.
    pub fn shown(&self, record: &Record) {
        self.durable(record.start, record.end, &record.data);
    }

    /// Returns the log's durable LSN, which must not be ahead of the medium.
    pub fn watermark(&self, log: &Log) -> Lsn {
        let said = log.durable_lsn();
        let medium = Medium::of(&self.disk, DIR, Layer::Stable);
        assert!(
            medium.end >= said,
            "durable up to {said}, but a power cut now leaves {}",
            medium.end
        );
        said
    }

    /// Closes, and checks that no write of the log is left in flight.
    pub fn close(&self, log: Log) -> Result<(), Error> {
        let closed = log.close();
        assert_eq!(
            self.disk.max_in_flight_writes(),
            0,
            "in flight after closing"
        );
        closed
    }

    /// Polls a future in this thread.
    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        let word = Word::new(self);
        let waker = word.clone().into();
        let mut future = pin!(future);
        loop {
            let seen = word.count();
            if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                return value;
            }
            word.wait(seen);
        }
    }
}

/// A counter that threads can wait for.
pub struct Word {
    count: AtomicU32,
    rt: ShuttleRuntime,
}

impl Word {
    pub fn new(world: &World) -> Arc<Word> {
        Arc::new(Word {
            count: AtomicU32::new(0),
            rt: world.rt.clone(),
        })
    }

    pub fn count(&self) -> u32 {
        self.count.load(SeqCst)
    }

    pub fn add(&self) {
        self.count.fetch_add(1, SeqCst);
        self.rt.wake_all(&self.count);
    }

    fn wait(&self, seen: u32) {
        self.rt.wait(&self.count, seen, None);
    }

    /// Waits until the counter has reached this number.
    pub fn reaches(&self, wanted: u32) {
        loop {
            let seen = self.count();
            if seen >= wanted {
                return;
            }
            self.wait(seen);
        }
    }
}

impl Wake for Word {
    fn wake(self: Arc<Self>) {
        self.add();
    }
}

/// Follows until the log ends. Checks that every shown record is on the medium.
pub fn follow(world: &World, log: &Log, from: Lsn, tasks: bool) -> Vec<Record> {
    let Ok(mut follower) = log.follow_lsn(from) else {
        return Vec::new();
    };
    let mut seen: Vec<Record> = Vec::new();
    loop {
        let next = match tasks {
            false => follower.next_blocking(),
            true => world.block_on(follower.next()),
        };
        match next {
            None => return seen,
            Some(Ok(record)) => {
                assert!(seen.last().is_none_or(|last| last.end <= record.start));
                world.shown(&record);
                seen.push(record);
            }
            // The range was voided, or the log has failed; after a failure the follower ends.
            Some(Err(_)) => {}
        }
    }
}

/// Makes a scheduling point.
pub fn point(world: &World) {
    world.rt.point();
}
