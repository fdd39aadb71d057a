//! One thread of a workload.

use super::failing_calls::{check_not_damage, random_failing_reads, read_through};
use super::{Step, World, amounts_to};
use crate::model::{Shared, lock, open, read};
use logforce_core::Options;
use logforce_core::{
    Acknowledged, Batch, CommitHandle, EnvironmentOptions, Error, ErrorKind, Guarantee, Log, Lsn,
    Policy, RecordRange,
};
use logforce_device::System;
use logforce_testkit::{Failure, Rng, SimDisk, SimRuntime};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Closes the log. Success acknowledges everything.
pub(super) fn close(model: &Shared, log: Log) -> Result<(), Error> {
    // Workers may still hold clones.
    let clone = log.clone();
    log.close()?;
    // Closing ends with full barriers with any method.
    lock(model).acked(clone.durable_lsn(), Guarantee::PowerLoss);
    Ok(())
}

/// Makes a check during which no call fails. An error after a power cut does not fail the check, because
/// nothing can be read then.
pub(super) fn unless_cut(disk: &SimDisk, check: impl FnOnce()) -> Result<(), Error> {
    or_cut(disk, || disk.without_failing_calls(check))
}

/// Does the same as [`unless_cut`] for a check during which calls may fail.
fn or_cut(disk: &SimDisk, check: impl FnOnce()) -> Result<(), Error> {
    match catch_unwind(AssertUnwindSafe(check)) {
        Ok(()) => Ok(()),
        Err(_) if disk.is_cut() => Err(Error::Closed),
        Err(panic) => resume_unwind(panic),
    }
}

pub(super) struct Worker {
    pub log: Option<Log>,
    rt: SimRuntime,
    system: Arc<dyn System>,
    disk: SimDisk,
    model: Shared,
    options: Options,
    environment: Option<EnvironmentOptions>,
    calls: Arc<AtomicU64>,
    appended: Lsn,
    handles: Vec<CommitHandle>,
}

impl Worker {
    pub fn new(world: &World, rt: &SimRuntime, system: &Arc<dyn System>, log: Log) -> Self {
        Worker {
            log: Some(log),
            rt: rt.clone(),
            system: system.clone(),
            disk: world.disk.clone(),
            model: world.model.clone(),
            options: world.options.clone(),
            environment: world.environment.clone(),
            calls: world.calls.clone(),
            appended: Lsn::ORIGIN,
            handles: Vec::new(),
        }
    }

    pub fn run(&mut self, steps: &[Step]) -> Result<(), Error> {
        steps.iter().try_for_each(|step| self.step(step))
    }

    fn log(&self) -> &Log {
        self.log.as_ref().expect("open between steps")
    }

    /// Checks a poisoned log: it accepts and forces nothing more, and durable records can be read.
    pub fn check_poisoned(&self) {
        let log = self.log();
        // A write that was in flight at the failure may still complete, a stamp for example.
        self.rt.sleep(Duration::from_millis(1));
        let durable = log.durable_lsn();
        let kinds = [
            log.append(b"late").map(drop).map_err(|e| e.kind()),
            log.commit(Batch::of(&[b"a", b"b"]))
                .map(drop)
                .map_err(|e| e.kind()),
            log.force(durable.plus(1)).map(drop).map_err(|e| e.kind()),
            log.truncate_front(durable).map_err(|e| e.kind()),
            log.truncate_back(durable).map_err(|e| e.kind()),
        ];
        assert_eq!(kinds, [Err(ErrorKind::Poisoned); 5]);
        let Err(e) = log.append(b"late") else {
            panic!("accepted")
        };
        assert_eq!(e.lsn(), Some(durable));
        assert!(e.to_string().contains("ndeterminate"), "{e}");
        assert_eq!(log.durable_lsn(), durable);
        // The durable LSN is an acknowledgement too.
        let guarantee = log.guarantee();
        lock(&self.model).acked(durable, guarantee);
        let model = lock(&self.model).clone();
        model.check_prefix_readable(log);
    }

    pub fn step(&mut self, step: &Step) -> Result<(), Error> {
        let is_call = !matches!(
            step,
            Step::Idle(_) | Step::DropHandles | Step::WaitAll | Step::Cut
        );
        let calls = u64::from(is_call && !self.disk.is_cut());
        self.calls.fetch_add(calls, Relaxed);
        match *step {
            Step::Append(len) => self.append(1, len),
            Step::Group(n, len) => self.append(n, len),
            Step::Commit(len) => self.commit(len),
            Step::CommitGroup(n, len) => self.append(n, len).and_then(|()| self.force()),
            Step::Force => self.force(),
            Step::Front(percent) => self.front(percent),
            Step::Back(n) => self.back(n),
            Step::Idle(ms) => {
                self.rt.sleep(Duration::from_millis(ms));
                Ok(())
            }
            Step::Read => {
                // Force first: a record that becomes durable meanwhile would show in one read and not
                // in another.
                self.force()?;
                let model = lock(&self.model).clone();
                self.unless_lost(|| {
                    let check = || model.check_readable(self.log());
                    self.disk.without_failing_calls(check);
                })?;
                self.unless_lost(|| self.read_amid_failing_calls())
            }
            Step::Reopen => self.reopen(),
            Step::Switch(method) => {
                let before = self.options.clone();
                self.options = before.clone().method(method);
                match self.reopen() {
                    Err(e) if e.kind() == ErrorKind::Unavailable => {
                        self.options = before;
                        self.open()
                    }
                    other => other,
                }
            }
            Step::Submit(len, policy) => {
                let submitted = self.submit(len, policy)?;
                self.handles.push(submitted);
                Ok(())
            }
            Step::WaitAll => {
                let handles = std::mem::take(&mut self.handles);
                handles.into_iter().try_for_each(|h| self.wait_for(h))
            }
            Step::DropHandles => {
                self.handles.clear();
                Ok(())
            }
            Step::CommitWith(len, policy) => self.commit_with(len, policy),
            Step::Meta(len) => self.set_meta(len),
            Step::Follow => {
                self.force()?;
                let model = lock(&self.model).clone();
                self.unless_lost(|| {
                    let check = || model.check_followed(self.log());
                    self.disk.without_failing_calls(check);
                })
            }
            Step::Cut => {
                self.disk.cut();
                Ok(())
            }
            Step::Drop => {
                self.log = None;
                self.open()
            }
        }
    }

    /// Makes a check of readable records. A disk whose barrier fails may lose records that a weaker method
    /// has forced, and another thread's barrier may fail at any time.
    fn unless_lost(&self, check: impl FnOnce()) -> Result<(), Error> {
        let forces_less = self.log().guarantee() < Guarantee::PowerLoss;
        match catch_unwind(AssertUnwindSafe(|| or_cut(&self.disk, check))) {
            Ok(checked) => checked,
            Err(_) if forces_less && self.disk.barrier_failed() => Err(Error::Closed),
            Err(panic) => resume_unwind(panic),
        }
    }

    /// Reads while reads fail. Each read shows the same, or an error after which the reader continues.
    fn read_amid_failing_calls(&self) {
        let (log, mut rng) = (self.log(), Rng::new(self.calls.load(Relaxed)));
        let front = log.front_lsn();
        let undisturbed = self.disk.without_failing_calls(|| read(log, front));
        let failing = random_failing_reads(&mut rng);
        let what = format!("{failing:?}");
        self.disk.stop_failing_calls();
        self.disk.fail_calls(failing);
        let reader = log.read_from(front);
        match reader {
            Err(e) => check_not_damage(&e, &what),
            Ok(mut reader) => {
                let seen = read_through(&self.disk, &what, || reader.next());
                assert!(seen == undisturbed, "amid {what}: other records");
            }
        }
        for record in undisturbed.iter().filter(|_| rng.one_in(4)) {
            match log.read_at(record.start) {
                Ok(seen) => assert!(seen == *record, "amid {what}: another record"),
                Err(e) => check_not_damage(&e, &what),
            }
        }
        self.disk.stop_failing_calls();
    }

    fn append(&mut self, n: usize, len: usize) -> Result<(), Error> {
        let data: Vec<Vec<u8>> = {
            let mut model = lock(&self.model);
            // Different lengths, so that some frames need padding.
            let sizes = (0..n).map(|i| len - (len.min(9)).min(i * 3));
            sizes.map(|len| model.bytes(len)).collect()
        };
        let slices: Vec<&[u8]> = data.iter().map(|d| &d[..]).collect();
        let log = self.log();
        let mut batch = match &slices[..] {
            [one] => {
                let mut batch = Batch::new();
                batch.push_parts(&[&one[..len / 2], &one[len / 2..]]);
                batch
            }
            all => Batch::of(all),
        };
        log.append(&mut batch)?;
        let all = batch.ranges().to_vec();
        self.appended = all.last().map_or(self.appended, |a| a.end);
        lock(&self.model).appended(&all, data);
        Ok(())
    }

    /// Commits: odd lengths by `commit`, even ones by `append` and `force`.
    fn commit(&mut self, len: usize) -> Result<(), Error> {
        if len.is_multiple_of(2) {
            return self.append(1, len).and_then(|()| self.force());
        }
        let data = lock(&self.model).bytes(len);
        // If the commit fails, its LSN is unknown, but the record may be in the log.
        lock(&self.model).began(data.clone());
        let committed = self.log().commit(&data)?;
        assert_eq!(committed.guarantee, self.log().guarantee());
        self.committed(committed, data);
        Ok(())
    }

    /// Commits: odd lengths by `commit_with`, even ones by `submit_with` and waiting.
    fn commit_with(&mut self, len: usize, policy: Policy) -> Result<(), Error> {
        if len.is_multiple_of(2) {
            let submitted = self.submit(len, policy)?;
            return self.wait_for(submitted);
        }
        let data = lock(&self.model).bytes(len);
        lock(&self.model).began(data.clone());
        let committed = self.log().commit_with(&data, policy)?;
        self.committed(committed, data);
        Ok(())
    }

    fn committed(&mut self, committed: Acknowledged, data: Vec<u8>) {
        let at = RecordRange {
            start: committed.start,
            end: committed.end,
        };
        self.appended = at.end;
        let mut model = lock(&self.model);
        model.ended(&data);
        model.appended(&[at], vec![data]);
        model.acked(at.end, committed.guarantee);
    }

    fn submit(&mut self, len: usize, policy: Policy) -> Result<CommitHandle, Error> {
        let data = lock(&self.model).bytes(len);
        let submitted = self.log().submit(&data, policy)?;
        let at = RecordRange {
            start: submitted.start(),
            end: submitted.end(),
        };
        self.appended = at.end;
        lock(&self.model).appended(&[at], vec![data]);
        Ok(submitted)
    }

    fn wait_for(&mut self, submitted: CommitHandle) -> Result<(), Error> {
        let (start, end) = (submitted.start(), submitted.end());
        let committed = submitted.wait()?;
        assert_eq!((committed.start, committed.end), (start, end));
        lock(&self.model).acked(end, committed.guarantee);
        Ok(())
    }

    fn set_meta(&mut self, len: usize) -> Result<(), Error> {
        let bytes = lock(&self.model).meta_requested(len);
        self.log().set_meta(&bytes)?;
        assert_eq!(self.log().meta().as_ref(), Some(&bytes));
        lock(&self.model).meta_acknowledged(bytes);
        Ok(())
    }

    fn force(&mut self) -> Result<(), Error> {
        let guarantee = self.log().force(self.appended)?;
        assert_eq!(guarantee, self.log().guarantee());
        assert!(self.log().durable_lsn() >= self.appended);
        lock(&self.model).acked(self.appended, guarantee);
        Ok(())
    }

    fn front(&mut self, percent: u64) -> Result<(), Error> {
        let log = self.log();
        let durable = log.durable_lsn();
        let to = {
            let boundaries = lock(&self.model).boundaries(durable);
            let at = boundaries.len() as u64 * percent / 100;
            match boundaries.get(at as usize) {
                Some(to) => *to,
                None => durable,
            }
        };
        lock(&self.model).fronts_in_flight.push(to);
        match log.truncate_front(to) {
            // Another thread voided that LSN meanwhile, and the call did nothing.
            Err(e) if e.kind() == ErrorKind::Voided => {
                lock(&self.model).fronts_in_flight.retain(|f| *f != to);
                Ok(())
            }
            // The front has moved for good, and only the removal of segments failed.
            Err(e) if log.front_lsn() == to => {
                let mut model = lock(&self.model);
                model.fronted(to);
                model.fronts_in_flight.clear();
                Err(e)
            }
            Err(e) => Err(e),
            Ok(()) => {
                assert_eq!(log.front_lsn(), to);
                let mut model = lock(&self.model);
                model.fronted(to);
                model.fronts_in_flight.clear();
                Ok(())
            }
        }
    }

    fn back(&mut self, n: usize) -> Result<(), Error> {
        let log = self.log();
        let from = {
            let boundaries = lock(&self.model).boundaries(Lsn(u64::MAX));
            boundaries[boundaries.len().saturating_sub(n)..]
                .first()
                .copied()
        };
        let Some(from) = from else { return Ok(()) };
        lock(&self.model).voids_in_flight.push(from);
        log.truncate_back(from)?;
        // The model's lock is not held during the check, because the check reads.
        let mut model = lock(&self.model).clone();
        unless_cut(&self.disk, || model.voided(log, from))?;
        let known = model;
        let mut model = lock(&self.model);
        model.take_voids(known);
        model.voids_in_flight.retain(|f| *f != from);
        drop(model);
        self.appended = self.log().durable_lsn();
        Ok(())
    }

    fn reopen(&mut self) -> Result<(), Error> {
        let Some(log) = self.log.take() else {
            return Ok(());
        };
        close(&self.model, log)?;
        self.open()
    }

    fn open(&mut self) -> Result<(), Error> {
        let log = open(
            &*self.system,
            true,
            self.options.clone(),
            self.environment.as_ref(),
        )?;
        let mut model = lock(&self.model).clone();
        // Something may have failed in the background, unnoticed by any call.
        let failure = amounts_to(&self.disk, Failure::Process);
        unless_cut(&self.disk, || {
            model.verify(&*self.system, &log, failure);
        })?;
        *lock(&self.model) = model;
        self.appended = log.durable_lsn();
        self.log = Some(log);
        Ok(())
    }
}
