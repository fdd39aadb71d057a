//! Followers of a log that goes back: an older copy of its directory is restored and written to. A replica
//! that follows the log, or begins at a stored position, must end with the log's records.

use crate::model::{PATH, small};
use logforce_core::{
    Batch, Error, ErrorKind, Log, Lsn, OpenMode, Position, ReadOnly, ReadOnlyFollower, Record,
};
use logforce_device::System;
use logforce_testkit::{Rng, SimDisk, SimOptions, SimRuntime};
use std::collections::BTreeMap;
use std::time::Duration;

/// A copy of the log's directory.
#[derive(Default)]
struct Copy {
    files: BTreeMap<String, Vec<u8>>,
    /// Starts of the records in the copy, except those within an atomic append.
    placed: Vec<Lsn>,
}

/// A replica: all records of the log from its base up to its position.
#[derive(Clone, Default)]
struct Replica {
    records: BTreeMap<Lsn, Vec<u8>>,
    stored: Option<String>,
    /// Front at which the replica began. It never had the records below.
    base: Lsn,
    diverged: u64,
}

impl Replica {
    fn note(&mut self, record: Record, position: &Position) {
        self.records.insert(record.start, record.data);
        self.stored = Some(position.to_string());
    }

    fn undo(&mut self, from: Lsn) {
        self.records.split_off(&from);
        let stored = self.stored.take().map(|text| text.parse::<Position>());
        let stored = stored.map(|stored| stored.expect("it was printed"));
        self.stored = stored.map(|stored| stored.back_to(from).to_string());
    }

    /// Follows the advice of an error before a new follower begins.
    fn heed(&mut self, error: Error) {
        match error {
            Error::Diverged { from, lsn, .. } => {
                assert!(from <= lsn, "{from} {lsn}");
                if let Some(stored) = &self.stored {
                    let stored: Position = stored.parse().expect("it was printed");
                    let lowest = stored.back_to(from).lsn();
                    assert_eq!(lowest, from.min(stored.lsn()), "not the lowest: {stored}");
                }
                self.undo(from);
                self.diverged += 1;
            }
            Error::Voided { from, .. } => self.undo(from),
            Error::Truncated { .. } | Error::OtherLog { .. } => {
                self.records.clear();
                self.stored = None;
            }
            e => panic!("at {:?}: {e}", self.stored),
        }
    }

    fn begin(&mut self, system: &dyn System) -> ReadOnlyFollower {
        let mut last = String::new();
        loop {
            let at = self.stored.clone();
            let begun = ReadOnly::open(system, PATH).and_then(|log| match &self.stored {
                Some(stored) => log.follow(&stored.parse()?),
                None => {
                    self.base = log.front_lsn();
                    log.follow_lsn(self.base)
                }
            });
            match begun {
                Ok(follower) => return follower,
                Err(e) => {
                    // Each error says how to continue.
                    let this = format!("{at:?}: {e}");
                    assert_ne!(this, last, "twice");
                    last = this;
                    self.heed(e);
                }
            }
        }
    }

    /// Follows until no record arrives for two seconds, or `most` records have arrived.
    fn catch_up(&mut self, follower: &mut ReadOnlyFollower, system: &dyn System, most: u64) {
        for _ in 0..most {
            match follower.next_timeout(Duration::from_secs(2)) {
                Ok(Some(record)) => self.note(record, &follower.position()),
                Ok(None) => {
                    self.stored = Some(follower.position().to_string());
                    break;
                }
                Err(Error::Voided { from, .. }) => self.undo(from),
                Err(e) => {
                    self.heed(e);
                    *follower = self.begin(system);
                }
            }
        }
    }

    fn check(&self, log: &Log, what: &str) {
        let front = log.front_lsn().max(self.base);
        let there = log.read_from(log.front_lsn()).expect("the front is there");
        let there: BTreeMap<Lsn, Vec<u8>> = there
            .map(|record| record.expect("nothing is damaged"))
            .map(|record| (record.start, record.data))
            .filter(|(lsn, _)| *lsn >= front)
            .collect();
        let has: BTreeMap<_, _> = self.records.range(front..).collect();
        if !has.iter().map(|(lsn, data)| (*lsn, *data)).eq(&there) {
            let wrong: Vec<_> = has
                .iter()
                .filter(|(lsn, data)| there.get(lsn) != Some(data))
                .map(|(lsn, _)| lsn)
                .collect();
            let lacks: Vec<_> = there.keys().filter(|lsn| !has.contains_key(lsn)).collect();
            panic!(
                "{what} is at {:?}, has {wrong:?} that the log lacks, and lacks {lacks:?}",
                self.stored
            );
        }
    }
}

/// Opens the log. In every fifth run the write unit changes, and with it the header area of segments.
fn open(system: &dyn System, units: &mut Option<Rng>) -> Log {
    let mut options = small();
    if let Some(rng) = units {
        let unit = rng.pick(&[4096, 8192]);
        options = options
            .write_unit_size(unit)
            .max_batch_size(2 * unit)
            .segment_size(6 * unit);
    }
    let log = Log::open(system, PATH, OpenMode::OpenOrCreate, options);
    log.expect("nothing fails")
}

/// Commits, and truncates at both ends, also at records that an earlier call has `placed`. A copy may hold
/// records that the history of a position has voided.
fn write(log: &Log, rt: &SimRuntime, rng: &mut Rng, placed: &mut Vec<Lsn>) {
    for _ in 0..1 + rng.below(15) {
        let longest = rng.pick(&[40, 300, 3_000, 20_000]);
        let data = vec![rng.bits() as u8; 1 + rng.below(longest) as usize];
        let at = match rng.below(10) {
            0 => log.commit(Batch::of(&[&data, b"joined"])),
            _ => log.commit(&data),
        };
        placed.push(at.expect("nothing fails").start);
        let near = placed.len() - 1 - rng.below(placed.len().min(4) as u64) as usize;
        match rng.below(12) {
            0 if placed[near] >= log.front_lsn() => {
                log.truncate_back(placed[near])
                    .expect("a record begins there");
                placed.truncate(near);
            }
            1 if rng.one_in(3) && placed[near] > log.front_lsn() => log
                .truncate_front(placed[near])
                .expect("it does there, too"),
            2 => rt.sleep(Duration::from_millis(rng.below(120))),
            _ => {}
        }
        if placed.is_empty() {
            placed.push(log.commit(b"again").expect("nothing fails").start);
        }
    }
}

fn copy(disk: &SimDisk, placed: &[Lsn]) -> Copy {
    let names = disk.names(PATH).into_keys().filter(|name| name != "lock");
    let bytes = |name: &String| disk.visible_bytes(PATH, name).expect("it is there");
    Copy {
        files: names.map(|name| (name.clone(), bytes(&name))).collect(),
        placed: placed.to_vec(),
    }
}

/// Restores a copy: in new files, or over the bytes of the existing ones.
fn restore(disk: &SimDisk, copy: &Copy, in_files_of_its_own: bool) {
    for name in disk.names(PATH).into_keys().filter(|name| name != "lock") {
        if !copy.files.contains_key(&name) {
            disk.remove_file(PATH, &name);
        }
    }
    for (name, bytes) in &copy.files {
        if in_files_of_its_own || !disk.overwrite_file(PATH, name, bytes) {
            disk.put_file(PATH, name, bytes);
        }
    }
}

/// Makes the run of a seed. Returns how often a follower was refused because of another history.
pub(super) fn run(seed: u64) -> u64 {
    let mut rng = Rng::new(seed ^ 0x4157_0213);
    let mut units = Some(Rng::new(seed ^ 0x4157_0214)).filter(|_| seed % 5 == 3);
    let disk = SimDisk::new(SimOptions::default(), seed);
    let mut diverged = 0;
    SimRuntime::run(seed, |rt| {
        let system = disk.system(rt);
        let (mut copies, mut stored) = (Vec::new(), Vec::new());
        let mut placed = Vec::new();
        let mut replica = Replica::default();
        let mut follower = None;
        for round in 0..2 + rng.below(3) {
            for _ in 0..1 + rng.below(3) {
                let log = open(&*system, &mut units);
                let follower = follower.get_or_insert_with(|| replica.begin(&*system));
                for _ in 0..1 + rng.below(2) {
                    write(&log, rt, &mut rng, &mut placed);
                    if rng.one_in(2) {
                        copies.push(copy(&disk, &placed));
                    }
                    let most = rng.pick(&[3, 20, 1000]);
                    replica.catch_up(follower, &*system, most);
                    stored.push(replica.clone());
                }
                log.close().expect("nothing fails");
                if rng.one_in(2) {
                    copies.push(copy(&disk, &placed));
                }
            }
            if round == 0 || copies.is_empty() {
                continue;
            }
            if rng.one_in(8) {
                // Replaces the log by another one.
                restore(&disk, &Copy::default(), true);
                open(&*system, &mut units).close().expect("nothing fails");
                if let Some(stored) = &replica.stored {
                    let log = ReadOnly::open(&*system, PATH).expect("it was closed");
                    let stored = stored.parse().expect("it was printed");
                    let refused = log.follow(&stored).map(drop).map_err(|e| e.kind());
                    assert_eq!(refused, Err(ErrorKind::OtherLog));
                }
                copies.clear();
                placed.clear();
            } else {
                let chosen = rng.below(copies.len() as u64) as usize;
                restore(&disk, &copies[chosen], rng.one_in(2));
                placed.clone_from(&copies[chosen].placed);
                if rng.one_in(2) {
                    rt.sleep(Duration::from_millis(rng.below(1_000)));
                    let follower = follower.get_or_insert_with(|| replica.begin(&*system));
                    replica.catch_up(follower, &*system, 3);
                }
            }
        }
        let log = open(&*system, &mut units);
        write(&log, rt, &mut rng, &mut placed);
        let mut follower = follower.expect("it has begun");
        replica.catch_up(&mut follower, &*system, u64::MAX);
        replica.check(&log, "the follower");
        diverged += replica.diverged;
        for (n, mut stored) in stored.into_iter().enumerate() {
            stored.diverged = 0;
            let mut follower = stored.begin(&*system);
            stored.catch_up(&mut follower, &*system, u64::MAX);
            stored.check(&log, &format!("stored position {n}"));
            diverged += stored.diverged;
        }
        log.close().expect("nothing fails");
    });
    diverged
}
