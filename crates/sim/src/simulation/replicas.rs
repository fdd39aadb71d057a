//! Random runs with a replica that keeps chunks in memory. The log crashes, is repaired, truncated at both
//! ends and opened with other sizes; the replica goes on, or is refused with the truth. After each opening a
//! log is restored from the confirmed chunks.

use super::random_options;
use crate::memory::FileImage;
use crate::mending::{OnDamage, batches};
use crate::model::{PATH, open, read, small};
use crate::workload::amounts_to;
use logforce_core::{
    Batch, Error, ErrorKind, Guarantee, Import, ImportOptions, Log, LogChunk, Lsn, OpenMode,
    Options, Policy, Record, RecordRange, ReplicaOptions, ReplicaWait, Replication,
};
use logforce_device::{Runtime, System};
use logforce_testkit::{Failure, Fault, Rng, SimDisk, SimOptions, SimRuntime, Survival};
use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const COPY: &str = "/copy";

/// Counts of one run.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Replicas {
    /// Replicas that a reopened log has continued.
    pub(super) continued: u64,
    /// Replicas that a reopened log has refused.
    pub(super) refused: u64,
    /// Records that the replica had confirmed, and that were found in a restored log.
    pub(super) restored: u64,
}

/// The replica, and what the run knows about the log.
#[derive(Default)]
struct Known {
    chunks: Vec<LogChunk>,
    /// Number of chunks that were confirmed, or are about to be.
    confirmed: usize,
    /// Bytes of all records that any commit has begun.
    begun: HashSet<Vec<u8>>,
    /// Records of the log by their starts. Voided ones stay.
    records: BTreeMap<Lsn, (Lsn, Vec<u8>)>,
    /// Records that were acknowledged with the replica's guarantee.
    acked: BTreeMap<Lsn, Vec<u8>>,
    /// Ranges in which a truncation may have voided records.
    voids: Vec<(Lsn, Lsn)>,
    /// Highest front that was requested.
    front: Lsn,
    next: u64,
}

impl Known {
    fn bytes(&mut self, len: usize) -> Vec<u8> {
        self.next += 1;
        let mut rng = Rng::new(self.next);
        let word = || rng.bits().to_le_bytes();
        let bytes: Vec<u8> = std::iter::repeat_with(word)
            .flatten()
            .take(8 + len)
            .collect();
        self.begun.insert(bytes.clone());
        bytes
    }

    fn confirmed_to(&self) -> Lsn {
        self.chunks[..self.confirmed]
            .last()
            .map_or(Lsn::ORIGIN, |c| c.to)
    }

    fn may_be_voided(&self, lsn: Lsn) -> bool {
        self.voids
            .iter()
            .any(|(from, to)| (*from..*to).contains(&lsn))
    }

    /// Learns what an opened log contains.
    fn adopt(&mut self, log: &Log) {
        let end = log.tail_lsn();
        for void in &mut self.voids {
            void.1 = void.1.min(end);
        }
        let voids = self.voids.clone();
        let is_void = |lsn: &Lsn| voids.iter().any(|(from, to)| (*from..*to).contains(lsn));
        self.records.retain(|lsn, _| is_void(lsn));
        for Record { start, end, data } in read(log, log.front_lsn()) {
            assert!(self.begun.contains(&data), "never appended: {start}");
            self.records.insert(start, (end, data));
        }
    }

    /// Checks a log that was restored from the confirmed chunks up to some position.
    fn check(&self, log: &Log, what: &str) -> u64 {
        let (front, end) = (log.front_lsn(), log.recovered().end);
        assert!(front <= self.front, "{what}: the front is at {front}");
        let found: BTreeMap<Lsn, Vec<u8>> = read(log, front)
            .into_iter()
            .map(|r| (r.start, r.data))
            .collect();
        for (lsn, data) in &found {
            assert!(self.begun.contains(data), "{what}: never appended: {lsn}");
        }
        let kept = self.acked.range(front..end);
        let mut count = 0;
        for (lsn, data) in kept.filter(|(lsn, _)| !self.may_be_voided(**lsn)) {
            assert!(
                found.get(lsn) == Some(data),
                "{what}: lacks {lsn}, which was confirmed"
            );
            count += 1;
        }
        let known = self.records.range(front..);
        for (lsn, (to, data)) in known.filter(|(lsn, _)| !self.may_be_voided(**lsn)) {
            let is_found = found.get(lsn) == Some(data);
            assert!(
                *to > end || is_found,
                "{what}: ends at {end} and lacks {lsn}"
            );
        }
        count
    }
}

type Shared = Arc<Mutex<Known>>;

/// Checks that a call may fail like this: after a failure of the device, or of the replica.
fn check_error(e: &Error, what: &str) {
    let kinds = [
        ErrorKind::Io,
        ErrorKind::NoSpace,
        ErrorKind::Poisoned,
        ErrorKind::Closed,
        ErrorKind::ReplicaLost,
        ErrorKind::NoReplica,
    ];
    assert!(kinds.contains(&e.kind()), "{what}: {:?}: {e}", e.kind());
}

/// Work of one thread: commits, and in the first thread truncations.
fn work(log: &Log, known: &Shared, mut rng: Rng, is_first: bool) -> Result<(), Error> {
    for _ in 0..3 + rng.below(12) {
        if is_first && rng.one_in(6) {
            truncate(log, known, &mut rng)?;
            continue;
        }
        let lens: Vec<u64> = match rng.below(6) {
            0 => (0..3).map(|_| rng.below(3_000)).collect(),
            1 => vec![rng.below(30_000)],
            _ => vec![rng.below(2_000)],
        };
        let data: Vec<Vec<u8>> = {
            let mut known = lock(known);
            lens.iter().map(|len| known.bytes(*len as usize)).collect()
        };
        let policy = match rng.below(4) {
            0 => Policy::Force,
            1 => Policy::Interval {
                within: Duration::from_millis(2),
            },
            _ => Policy::Replicated,
        };
        let mut batch = Batch::new();
        batch.extend(&data);
        let done = log.commit_with(&mut batch, policy)?;
        let mut known = lock(known);
        for (RecordRange { start, end }, data) in batch.ranges().iter().zip(&data) {
            known.records.insert(*start, (*end, data.clone()));
            if policy == Policy::Replicated {
                known.acked.insert(*start, data.clone());
            }
        }
        if policy == Policy::Replicated {
            assert_eq!(done.guarantee.guarantee, Guarantee::MachineLoss);
            assert!(
                done.end <= known.confirmed_to(),
                "acknowledged, not confirmed"
            );
        }
    }
    Ok(())
}

fn truncate(log: &Log, known: &Shared, rng: &mut Rng) -> Result<(), Error> {
    let (durable, front) = (log.durable_lsn(), log.front_lsn());
    let starts = log.read_from(front).and_then(|reader| {
        let starts = reader.map(|record| Ok(record?.start));
        starts.collect::<Result<Vec<Lsn>, Error>>()
    });
    let mut starts = match starts {
        // The front has followed the replica meanwhile, to where an earlier call wanted it.
        Err(Error::Truncated { .. }) => return Ok(()),
        starts => starts?,
    };
    starts.retain(|lsn| *lsn < durable);
    let back = rng.one_in(2);
    let count = starts.len() as u64;
    let at = match back {
        true => count.saturating_sub(1 + rng.below(3)),
        false => rng.below(count.max(1)),
    };
    let Some(lsn) = starts.get(at as usize).copied() else {
        return Ok(());
    };
    let result = if back {
        lock(known).voids.push((lsn, Lsn(u64::MAX)));
        log.truncate_back(lsn).inspect(|()| {
            let end = log.durable_lsn();
            if let Some(void) = lock(known).voids.last_mut() {
                void.1 = end;
            }
        })
    } else {
        let mut known = lock(known);
        known.front = known.front.max(lsn);
        drop(known);
        log.truncate_front(lsn)
    };
    match result {
        // The record lies within an atomic append, or was truncated meanwhile.
        Err(e) if [ErrorKind::InvalidInput, ErrorKind::Truncated].contains(&e.kind()) => {
            if back {
                lock(known).voids.pop();
            }
            Ok(())
        }
        result => result,
    }
}

/// Reads and confirms until all workers are done and everything was read, or a call fails.
fn replicate(
    replica: &mut Replication,
    known: &Shared,
    rng: &mut Rng,
    is_done: impl Fn() -> bool,
) -> Result<(), Error> {
    let max = rng.pick(&[1, 5_000, 1 << 20]);
    let lag = rng.below(4) as usize;
    let mut idle = 0;
    loop {
        let done = is_done();
        match replica.wait(Some(Duration::from_micros(500)))? {
            ReplicaWait::Ready => {}
            ReplicaWait::TimedOut if done => {
                confirm(replica, known, 0)?;
                return Ok(());
            }
            ReplicaWait::TimedOut => {
                confirm(replica, known, 0)?;
                idle += 1;
                assert!(idle < 20_000, "the workers hang: {replica:?}");
            }
            ReplicaWait::Failed(e) => return Err(e),
            _ => return Err(Error::Closed),
        }
        if let Some(chunk) = replica.read(max)? {
            lock(known).chunks.push(chunk);
            confirm(replica, known, lag)?;
        }
    }
}

/// Confirms all chunks but the last ones.
fn confirm(replica: &mut Replication, known: &Shared, lag: usize) -> Result<(), Error> {
    let to = {
        let mut known = lock(known);
        known.confirmed = known.confirmed.max(known.chunks.len().saturating_sub(lag));
        known.confirmed_to()
    };
    replica.confirm(to)
}

/// A run in progress.
struct Run {
    disk: SimDisk,
    known: Shared,
    rng: Rng,
    options: Options,
    created: bool,
    counts: Replicas,
    /// True if the last crash may have lost what the log had called durable.
    may_lack: bool,
    /// Position at which a repair has ended the log since it was last open.
    cut: Option<Lsn>,
}

/// Makes the run of a seed.
pub(super) fn run(seed: u64) -> Replicas {
    let rng = Rng::new(seed ^ 0x5ec0_4d1e);
    let disk = SimOptions {
        log_lines: 0,
        ..SimOptions::random(seed)
    };
    let mut run = Run {
        disk: SimDisk::new(disk, seed),
        known: Arc::default(),
        rng,
        options: Options::new(),
        created: false,
        counts: Replicas::default(),
        may_lack: false,
        cut: None,
    };
    for boot in 0..3 + run.rng.below(3) {
        if boot == 0 || run.rng.one_in(3) {
            let physical = run.rng.pick(&[4096, 4096, 8192]);
            run.disk.change(|o| o.physical_sector = physical);
            run.options = random_options(&mut run.rng, &run.disk.options()).0;
        }
        let guarantee = run.boot(seed ^ boot << 32);
        run.crash(guarantee);
        run.check_restored(boot);
    }
    run.counts
}

impl Run {
    /// Opens the log, attaches the replica, works, and perhaps closes. Returns what a force guaranteed.
    fn boot(&mut self, seed: u64) -> Guarantee {
        let disk = self.disk.clone();
        SimRuntime::run(seed, |rt| {
            let system = disk.system(rt);
            let log = open(&*system, self.created, self.options.clone(), None);
            let log = log.unwrap_or_else(|e| panic!("opening: {e}"));
            self.created = true;
            lock(&self.known).adopt(&log);
            let mut replica = self.attach(&log);
            if self.rng.one_in(2) {
                disk.cut_at(self.rng.below(200));
            } else if self.rng.one_in(3) {
                disk.fail_at(
                    self.rng.below(200),
                    self.rng.pick(&[Fault::Io, Fault::NoSpace]),
                );
            }
            let count = 1 + self.rng.below(3);
            let left = Arc::new(Mutex::new(count));
            let workers: Vec<_> = (0..count)
                .map(|n| {
                    let (log, known, left) = (log.clone(), self.known.clone(), left.clone());
                    let rng = Rng::new(self.rng.bits());
                    let body = move || {
                        // Counts it as done after a panic, too.
                        let _done = Done(left);
                        if let Err(e) = work(&log, &known, rng, n == 0) {
                            check_error(&e, "working");
                        }
                    };
                    let worker = rt.spawn(&format!("worker-{n}"), Box::new(body));
                    worker.expect("simulated threads start")
                })
                .collect();
            let is_done = || *lock(&left) == 0;
            let ended = replicate(&mut replica, &self.known, &mut self.rng, is_done);
            match &ended {
                Ok(()) => drop(replica),
                Err(e) => {
                    check_error(e, "replicating");
                    replica.fail("the test ends it");
                }
            }
            for worker in workers {
                worker.join().expect("the run fails with its panic");
            }
            let guarantee = log.guarantee().guarantee;
            if ended.is_ok() && !disk.is_cut() {
                self.check_caught_up(&log);
            }
            if self.rng.one_in(3) {
                let _ = log.close();
            } else {
                disk.cut();
            }
            guarantee
        })
    }

    /// Attaches the replica: it goes on, or is refused with the truth and begins again.
    fn attach(&mut self, log: &Log) -> Replication {
        let last = lock(&self.known).chunks.last().cloned();
        if let Some(last) = last.filter(|_| !self.rng.one_in(6)) {
            match log.replicate(ReplicaOptions::new().after(&last.control)) {
                Ok(replica) => {
                    assert_eq!(replica.position(), last.to);
                    assert!(
                        self.cut.is_none_or(|cut| cut >= last.to),
                        "goes on after a repair"
                    );
                    let mut known = lock(&self.known);
                    known.confirmed = known.chunks.len();
                    self.counts.continued += 1;
                    return replica;
                }
                Err(Error::Diverged { .. }) => {
                    let was_cut = self.cut.is_some_and(|cut| cut < last.to);
                    assert!(
                        self.may_lack || was_cut,
                        "it has lost nothing since {}",
                        last.to
                    );
                }
                Err(Error::Truncated { .. }) => assert!(log.front_lsn() > last.to),
                Err(e) => panic!("attaching: {e}"),
            }
            self.counts.refused += 1;
        }
        let mut known = lock(&self.known);
        known.chunks.clear();
        known.confirmed = 0;
        known.acked.clear();
        drop(known);
        log.replicate(ReplicaOptions::new())
            .unwrap_or_else(|e| panic!("attaching: {e}"))
    }

    /// Checks that a log restored from all chunks is the log.
    fn check_caught_up(&mut self, log: &Log) {
        let (front, meta) = (log.front_lsn(), log.meta());
        let Ok(mut reader) = log.read_from(front) else {
            return;
        };
        let Ok(expected) = reader.by_ref().collect::<Result<Vec<Record>, Error>>() else {
            return;
        };
        // Asked last: a commit that may wait becomes durable at any time, also while the log is read.
        let last = lock(&self.known).chunks.last().map(|chunk| chunk.to);
        if last != Some(log.durable_lsn()) {
            return;
        }
        let copy = self.restored(None, "caught up");
        let found: Vec<Record> = read(&copy, copy.front_lsn());
        let found: Vec<Record> = found.into_iter().filter(|r| r.start >= front).collect();
        assert!(
            found == expected,
            "{} records, not {}",
            found.len(),
            expected.len()
        );
        assert_eq!(copy.meta(), meta);
        forget(copy);
    }

    /// Ends the boot by a failure, and perhaps repairs the log.
    fn crash(&mut self, guarantee: Guarantee) {
        let failure = self
            .rng
            .pick(&[Failure::Power, Failure::Os, Failure::Process]);
        let amounts_to = amounts_to(&self.disk, failure);
        self.disk.crash(failure, None, self.rng.bits());
        self.may_lack = guarantee < crate::model::covering(amounts_to);
        self.cut = None;
        if !self.created || !self.rng.one_in(3) {
            return;
        }
        let seed = self.rng.bits();
        let (_, all, damages) = batches(&self.disk, seed);
        assert_eq!(damages, 0);
        let data: Vec<_> = all.iter().filter(|b| b.frames > 0).collect();
        if data.is_empty() {
            return;
        }
        let bad = data[self.rng.below(data.len() as u64) as usize];
        match self.rng.one_in(2) {
            true => self.disk.make_unreadable(PATH, &bad.file, bad.offset),
            false => self.disk.flip_bit(PATH, &bad.file, bad.offset + 9, 0),
        };
        let report = SimRuntime::run(seed, |rt| OnDamage::Repair.mend(&*self.disk.system(rt)));
        if let Ok(Some(report)) = report {
            self.cut = report.cut.map(|cut| cut.from);
        }
        self.disk.lift_faults();
        if let Some(cut) = self.cut {
            lock(&self.known).records.split_off(&cut);
            self.disk.crash(Failure::Power, Some(Survival::Kept), seed);
        }
    }

    /// Restores the confirmed chunks, or up to an LSN, into memory.
    fn restored(&self, until: Option<Lsn>, what: &str) -> Log {
        let known = lock(&self.known);
        let system = FileImage::default().system(COPY);
        let chunks = &known.chunks[..known.confirmed];
        import(&system, chunks, until).unwrap_or_else(|e| panic!("{what}: {e}"));
        let log = Log::open(&system, COPY, OpenMode::OpenExisting, small());
        log.unwrap_or_else(|e| panic!("{what}: {e}"))
    }

    /// Restores from the confirmed chunks: as a whole, up to some LSN, and while an operation fails.
    fn check_restored(&mut self, boot: u64) {
        let known = self.known.clone();
        let (first, end) = {
            let known = lock(&known);
            let chunks = &known.chunks[..known.confirmed];
            match (chunks.first(), chunks.last()) {
                (Some(first), Some(last)) => (first.to, last.to),
                _ => return,
            }
        };
        let copy = self.restored(None, "restoring");
        self.counts.restored += lock(&known).check(&copy, &format!("boot {boot}"));
        assert_eq!(copy.recovered().end, end);
        forget(copy);
        let until = Lsn(first.0 + self.rng.below(1 + end.since(first)));
        let copy = self.restored(Some(until), "restoring a part");
        assert!(copy.recovered().end >= until);
        lock(&known).check(&copy, &format!("boot {boot}, until {until}"));
        forget(copy);
        self.restore_and_fail(end);
    }

    /// Restores on a disk while an operation fails or the power is cut: the copy is whole, or does not open.
    fn restore_and_fail(&mut self, end: Lsn) {
        let disk = SimDisk::new(SimOptions::default(), self.rng.bits());
        match self.rng.below(3) {
            0 => disk.cut_at(self.rng.below(80)),
            1 => disk.fail_at(self.rng.below(80), Fault::Io),
            _ => disk.fail_at(self.rng.below(80), Fault::NoSpace),
        }
        let seed = self.rng.bits();
        let made = SimRuntime::run(seed, |rt| {
            let known = lock(&self.known);
            import(&*disk.system(rt), &known.chunks[..known.confirmed], None)
        });
        disk.crash(Failure::Power, None, seed);
        SimRuntime::run(seed, |rt| {
            let opened = Log::open(&*disk.system(rt), COPY, OpenMode::OpenExisting, small());
            match opened {
                Ok(log) => {
                    assert_eq!(log.recovered().end, end, "{made:?}");
                    lock(&self.known).check(&log, "restored and cut");
                }
                Err(e) => {
                    assert!(made.is_err(), "{e}");
                    assert_eq!(e.kind(), ErrorKind::NoLog, "{made:?}: {e}");
                }
            }
        });
    }
}

/// Counts a worker as done when it is dropped.
struct Done(Arc<Mutex<u64>>);

impl Drop for Done {
    fn drop(&mut self) {
        *lock(&self.0) -= 1;
    }
}

/// Locks, also after a panic of another thread. Never held across a call of the log.
fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

fn import(system: &dyn System, chunks: &[LogChunk], until: Option<Lsn>) -> Result<(), Error> {
    let options = until.map_or(ImportOptions::new(), |lsn| ImportOptions::new().until(lsn));
    let mut import = Import::new(system, Path::new(COPY), options)?;
    for chunk in chunks {
        let meta = chunk.meta.as_deref();
        import.chunk(chunk.from, &chunk.bytes, &chunk.control, meta)?;
    }
    import.finish().map(drop)
}

/// Forgets a log in memory: its drop would wait for threads that do not run there.
fn forget(log: Log) {
    std::mem::forget(log);
}
