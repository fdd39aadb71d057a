//! Work of threads on a durable file: every call, in random order, and the notes of what was acknowledged.

use super::coverage::Coverage;
use super::model::{Model, Slot};
use super::setup::{DIR, NAME};
use super::tasks::{Word, block_on};
use logforce_commit::file::{
    Acknowledged, CommitHandle, Error, ErrorKind, File, Prepare, Prepared, Result,
};
use logforce_device::{Barrier, File as DeviceFile, Guarantee};
use logforce_testkit::{Rng, SimDisk, SimRuntime};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Context;

/// Number of further calls of a failed file by each thread.
const AFTER_FAILURE: u64 = 6;

/// Causes that errors of a boot may have.
#[derive(Clone)]
pub struct Reasons {
    /// Disk below the file.
    pub disk: SimDisk,
    /// True if calls of the disk may fail.
    pub may_fail: bool,
    /// True if the disk may be full.
    pub may_be_full: bool,
}

impl Reasons {
    /// Checks that an error has a cause in this boot.
    ///
    /// # Panics
    /// If it has none.
    pub fn expect(&self, error: &Error) {
        let has_reason = self.may_fail || self.may_be_full || self.disk.is_cut();
        let fits = match error.kind() {
            ErrorKind::Io | ErrorKind::Poisoned => true,
            ErrorKind::NoSpace => self.may_be_full,
            _ => false,
        };
        assert!(has_reason && fits, "{:?}: {error}", error.kind());
    }
}

/// Submission that is not resolved yet, with the versions that it makes durable.
pub struct Held {
    handle: CommitHandle,
    covers: Vec<u64>,
}

impl Held {
    /// Resolves the submission after the file was dropped.
    pub fn resolve(mut self, model: &mut Model, reasons: &Reasons) {
        assert!(self.handle.is_done(), "a submission outlives its file");
        match self.handle.try_result().expect("it is done") {
            Ok(_) => model.acknowledge_all(&self.covers),
            Err(error) => reasons.expect(&error),
        }
    }
}

/// Work of one opening, shared by its threads.
pub struct Work {
    /// The file.
    pub file: File,
    /// Expected contents.
    pub model: Mutex<Model>,
    /// Counts.
    pub coverage: Mutex<Coverage>,
    /// Causes that errors may have.
    pub reasons: Reasons,
    /// Runtime of the boot.
    pub rt: SimRuntime,
    /// Another open file, by which a program beside this one syncs.
    pub bystander: Option<Arc<dyn DeviceFile>>,
    /// True if write-backs fail.
    pub loses: bool,
    /// True if the filesystem overwrites in place.
    pub in_place: bool,
    /// True once a call has failed for good: all later calls must fail.
    pub has_failed: AtomicBool,
    /// Submissions whose handles outlive the file.
    pub late: Mutex<Vec<Held>>,
}

/// End of a thread: the file has failed.
struct Failed;

/// Thread that works on its own region of the file.
struct Worker<'a> {
    work: &'a Work,
    /// Numbers of the thread's slots.
    slots: Vec<usize>,
    /// Version that the thread has written to each of its slots since the opening.
    written: Vec<Option<u64>>,
    region: u64,
    rng: Rng,
    held: Vec<Held>,
}

impl Work {
    /// Returns the model.
    pub fn model(&self) -> MutexGuard<'_, Model> {
        self.model.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the counts.
    pub fn count(&self, change: impl FnOnce(&mut Coverage)) {
        change(&mut self.coverage.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Performs the work of the thread of a region.
    pub fn run(&self, region: u64, seed: u64, count: u64) {
        let model = self.model();
        let slots = model.layout.slots.iter().enumerate();
        let slots = slots.filter(|(_, slot)| slot.region == region);
        let slots: Vec<usize> = slots.map(|(n, _)| n).collect();
        drop(model);
        let mut worker = Worker {
            work: self,
            written: vec![None; slots.len()],
            slots,
            region,
            rng: Rng::new(seed),
            held: Vec::new(),
        };
        let mut steps = 0..count;
        let ended = steps.try_for_each(|_| worker.step());
        if ended.is_err() {
            let refused = (0..AFTER_FAILURE).all(|_| worker.step().is_err());
            assert!(refused, "a failed file took a call");
        }
        let mut late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
        late.append(&mut worker.held);
    }

    /// Notes an acknowledgement of these versions.
    fn acknowledged(&self, done: Acknowledged, covers: &[u64]) {
        let guarantee = done.guarantee.guarantee;
        assert_eq!(guarantee, Guarantee::PowerLoss, "nothing less was accepted");
        self.model().acknowledge_all(covers);
    }
}

impl Worker<'_> {
    fn slot(&self, nth: usize) -> Slot {
        self.work.model().layout.slots[self.slots[nth]].clone()
    }

    /// Makes one call. If the file had failed before, checks that the call fails.
    fn step(&mut self) -> std::result::Result<(), Failed> {
        let had_failed = self.work.has_failed.load(SeqCst);
        self.work.count(|c| {
            c.calls += 1;
            c.refused += u64::from(had_failed);
        });
        match self.call(had_failed) {
            Ok(()) => Ok(()),
            Err(error) => {
                self.work.reasons.expect(&error);
                // `prepare` may fail without harm.
                let is_fatal = error.kind() == ErrorKind::Poisoned;
                assert!(is_fatal || !had_failed, "a failed file says {error}");
                if !is_fatal {
                    return Ok(());
                }
                self.work.has_failed.store(true, SeqCst);
                Err(Failed)
            }
        }
    }

    fn call(&mut self, had_failed: bool) -> Result<()> {
        // After a failure only calls that must be refused.
        let kinds = match had_failed {
            true => 16,
            false => 21,
        };
        match self.rng.below(kinds) {
            0..=4 => self.write().map(|_| ()),
            5..=8 => self.commit(),
            9 | 10 => self.write_commit(),
            11 | 12 => self.submit(),
            13 | 14 => self.commit_async(),
            15 => self.prepare(),
            16 => self.read(),
            17 | 18 => self.resolve(),
            _ => {
                self.disturb();
                Ok(())
            }
        }
    }

    /// Begins a write of one of the thread's slots. Returns its index, its offset and its bytes.
    fn begin(&mut self) -> (usize, u64, Vec<u8>) {
        let nth = self.rng.below(self.slots.len() as u64) as usize;
        let bytes = self.work.model().begin(self.slots[nth]);
        self.written[nth] = None;
        (nth, self.slot(nth).offset, bytes)
    }

    /// Notes a completed write. Returns its version.
    fn completed(&mut self, nth: usize) -> u64 {
        let slot = self.slots[nth];
        let mut model = self.work.model();
        model.completed(slot);
        self.written[nth] = Some(model.versions[slot].completed);
        model.versions[slot].completed
    }

    fn write(&mut self) -> Result<()> {
        let (nth, offset, bytes) = self.begin();
        let file = &self.work.file;
        match self.rng.below(2) {
            0 => file.write_at(&bytes, offset)?,
            _ => {
                let middle = self.rng.below(bytes.len() as u64) as usize;
                let (a, b) = bytes.split_at(middle);
                file.writev_at(&[a, &[], b], offset)?;
            }
        }
        self.completed(nth);
        Ok(())
    }

    fn commit(&mut self) -> Result<()> {
        let covers = self.work.model().all_completed();
        let done = self.work.file.commit()?;
        self.work.acknowledged(done, &covers);
        self.work.count(|c| c.commits += 1);
        Ok(())
    }

    fn write_commit(&mut self) -> Result<()> {
        let (nth, offset, bytes) = self.begin();
        let middle = self.rng.below(bytes.len() as u64) as usize;
        let (a, b) = bytes.split_at(middle);
        let done = match self.rng.below(2) {
            0 => self.work.file.write_commit(&bytes, offset)?,
            _ => self.work.file.writev_commit(&[a, b], offset)?,
        };
        let version = self.completed(nth);
        assert_eq!(done.guarantee.guarantee, Guarantee::PowerLoss);
        self.work.model().acknowledge(self.slots[nth], version);
        self.work.count(|c| c.write_commits += 1);
        Ok(())
    }

    fn submit(&mut self) -> Result<()> {
        let (nth, offset, bytes) = self.begin();
        let mut covers = self.work.model().all_completed();
        let handle = self.work.file.submit(&bytes, offset)?;
        covers[self.slots[nth]] = self.completed(nth);
        let held = Held { handle, covers };
        match self.rng.below(4) {
            0 => self.wait(held),
            1 => self.block_on(held),
            2 => {
                self.drop_handle(held);
                Ok(())
            }
            _ => {
                self.held.push(held);
                Ok(())
            }
        }
    }

    fn wait(&mut self, held: Held) -> Result<()> {
        let done = held.handle.wait()?;
        self.work.acknowledged(done, &held.covers);
        self.work.count(|c| c.waited += 1);
        Ok(())
    }

    fn block_on(&mut self, held: Held) -> Result<()> {
        let done = block_on(&self.work.rt, held.handle)?;
        self.work.acknowledged(done, &held.covers);
        self.work.count(|c| c.awaited += 1);
        Ok(())
    }

    fn drop_handle(&mut self, mut held: Held) {
        if self.rng.one_in(2) {
            let waker = Word::new(&self.work.rt).into();
            let _ = pin!(&mut held.handle).poll(&mut Context::from_waker(&waker));
        }
        self.work.count(|c| c.dropped += 1);
    }

    fn commit_async(&mut self) -> Result<()> {
        let future = self.work.file.commit_async();
        // Writes count that complete before the first poll.
        if self.rng.one_in(2) {
            self.work.rt.point();
        }
        let covers = self.work.model().all_completed();
        let done = block_on(&self.work.rt, future)?;
        self.work.acknowledged(done, &covers);
        self.work.count(|c| c.awaited += 1);
        Ok(())
    }

    /// Prepares a part of the thread's region.
    fn prepare(&mut self) -> Result<()> {
        let size = self.work.model().layout.region;
        let unit = u64::from(self.work.file.write_unit());
        let first = self.region * size;
        let from = first + self.rng.below(size) / unit * unit;
        let to = from + (1 + self.rng.below(first + size - from)).next_multiple_of(unit);
        let how = self.rng.pick(&[Prepare::Written, Prepare::Reserved]);
        let prepared = match self.work.file.prepare(from..to, how) {
            Err(e) if e.kind() == ErrorKind::NoSpace => {
                self.work.count(|c| c.no_space += 1);
                return Err(e);
            }
            prepared => prepared?,
        };
        let options = self.work.reasons.disk.options();
        let expected = match how {
            _ if !self.work.in_place => Prepared::Sized,
            Prepare::Written => Prepared::Written,
            _ if prepared == Prepared::Written => prepared,
            _ if options.reserves => Prepared::Reserved,
            _ => Prepared::Sized,
        };
        // Blocks that a failed write-back has left in the cache do not count as written.
        if !self.work.reasons.may_fail && !self.work.reasons.disk.is_cut() {
            assert_eq!(prepared, expected, "{how:?} of {from}..{to}");
        }
        let mut model = self.work.model();
        model.len = model.len.max(to);
        drop(model);
        self.work.count(|c| c.prepared += 1);
        Ok(())
    }

    /// Reads one of the thread's slots and compares it with the last write.
    fn read(&mut self) -> Result<()> {
        let nth = self.rng.below(self.slots.len() as u64) as usize;
        let Some(version) = self.written[nth] else {
            return Ok(());
        };
        let slot = self.slot(nth);
        let mut bytes = vec![0; slot.len];
        let read = self.work.file.read_at(&mut bytes, slot.offset)?;
        assert_eq!(read, slot.len);
        let versions = self.work.model().versions[self.slots[nth]];
        let is_acknowledged = versions.acknowledged == version;
        if !is_acknowledged && self.work.reasons.disk.barrier_failed() {
            // The device may have dropped the write. The next sync of the file reports it.
            return Ok(());
        }
        assert_eq!(slot.version_in(&bytes), Some(version), "slot {slot:?}");
        if is_acknowledged {
            let read = self.work.file.read_medium_at(&mut bytes, slot.offset);
            match read {
                Ok(read) => assert_eq!(read, slot.len),
                Err(e) if is_unsupported(&e) => return Ok(()),
                Err(e) => return Err(e),
            }
            assert_eq!(slot.version_in(&bytes), Some(version), "slot {slot:?}");
        }
        self.work.count(|c| c.reads += 1);
        Ok(())
    }

    /// Resolves a submission of earlier.
    fn resolve(&mut self) -> Result<()> {
        if self.held.is_empty() {
            return Ok(());
        }
        let nth = self.rng.below(self.held.len() as u64) as usize;
        let mut held = self.held.swap_remove(nth);
        match self.rng.below(3) {
            0 => self.wait(held),
            1 => self.block_on(held),
            _ => {
                let is_done = held.handle.is_done();
                let Some(result) = held.handle.try_result() else {
                    assert!(!is_done, "it was done, and has no result");
                    return Ok(());
                };
                self.work.acknowledged(result?, &held.covers);
                self.work.count(|c| c.waited += 1);
                Ok(())
            }
        }
    }

    /// Makes a write-back fail, or syncs the file as another program does.
    fn disturb(&mut self) {
        let Some(other) = &self.work.bystander else {
            return;
        };
        let disk = &self.work.reasons.disk;
        if self.work.loses && self.rng.one_in(3) {
            let end = self.work.model().layout.region * super::model::REGIONS;
            let from = self.rng.below(end);
            let to = from + self.rng.pick(&[1, 4_096, end]);
            let lost = disk.fail_write_back(DIR, NAME, from..to);
            self.work.count(|c| c.lost_sectors += lost as u64);
        } else if other.barrier(Barrier::Data).is_err() {
            self.work.count(|c| c.reported_elsewhere += 1);
        }
    }
}

fn is_unsupported(error: &Error) -> bool {
    matches!(error, Error::Io { source, .. } if source.kind() == std::io::ErrorKind::Unsupported)
}
