//! Workloads on a simulated disk: the work of threads on a log, every way to end it, and the check of the
//! next opening.

mod failing_calls;
mod report;
mod steps;
mod worker;

pub use failing_calls::{check_not_damage, random_failing_calls};
pub use report::{FailureReport, be_quiet, forget_reports, held_reports, hold_reports, is_quiet};
pub use steps::{Step, random_steps};

use crate::model::{Model, Shared, lock, open};
use logforce_core::{EnvironmentOptions, Error, ErrorKind, Log, Options, RecoveryCase};
use logforce_device::{Runtime, System};
use logforce_testkit::{Failure, SimDisk, SimOptions, SimRuntime, Snapshot};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use worker::{Worker, close, unless_cut};

/// A disk with a log, and the model of that log.
pub struct World {
    /// Disk with the log.
    pub disk: SimDisk,
    /// Options with which the log is opened.
    pub options: Options,
    /// Separate environment in which the log is opened, if the log does not start threads itself.
    pub environment: Option<EnvironmentOptions>,
    /// Model of the log.
    pub model: Shared,
    /// Name, for messages.
    pub name: String,
    /// Number of calls of the log that workloads have made.
    pub calls: Arc<AtomicU64>,
    /// Totals of the checked openings.
    pub found: Arc<Mutex<RecoveryTotals>>,
}

/// Totals of all recoveries.
#[derive(Debug, Clone, Default)]
pub struct RecoveryTotals {
    /// Number of openings that returned.
    pub openings: u64,
    /// Row of the decision table at which each recovery ended.
    pub ends: Vec<RecoveryCase>,
    /// Number of batches that were accepted.
    pub batches: u64,
    /// Number of places that an earlier opening had given up and that recovery passed.
    pub resumed: u64,
}

/// A disk between two boots, and the model at that moment.
#[derive(Clone)]
pub struct Image {
    disk: Snapshot,
    model: Model,
}

impl World {
    /// Returns a world with an empty disk and no log.
    pub fn new(name: impl Into<String>, disk: SimOptions, options: Options, seed: u64) -> World {
        World {
            disk: SimDisk::new(disk, seed),
            options,
            environment: None,
            model: Arc::new(Mutex::new(Model::default())),
            name: name.into(),
            calls: Arc::default(),
            found: Arc::default(),
        }
    }

    fn note(&self, log: &Log) {
        let recovered = log.recovered();
        let mut found = self.found.lock().expect("never panics");
        found.openings += 1;
        found.ends.push(recovered.case);
        found.batches += recovered.batches;
        found.resumed += recovered.resumed;
    }

    /// Runs one thread for each list of steps, from the opening to the first error or the end. Closes the
    /// log at the end, which may fail.
    pub fn work(&self, seed: u64, threads: &[Vec<Step>]) -> Result<(), Error> {
        self.work_after(Failure::Process, seed, threads)
    }

    /// Does the same as [`work`](Self::work) after a failure: it begins with recovery.
    pub fn work_after(
        &self,
        failure: Failure,
        seed: u64,
        threads: &[Vec<Step>],
    ) -> Result<(), Error> {
        let _report = self.report(format!("working, schedule {seed}"));
        SimRuntime::run(seed, |rt| self.work_in(rt, failure, threads))
    }

    fn work_in(
        &self,
        rt: &SimRuntime,
        failure: Failure,
        threads: &[Vec<Step>],
    ) -> Result<(), Error> {
        let system = self.disk.system(rt);
        let created = lock(&self.model).created;
        let environment = self.environment.as_ref();
        let log = open(&*system, created, self.options.clone(), environment)?;
        let mut model = lock(&self.model).clone();
        unless_cut(&self.disk, || model.verify(&*system, &log, failure))?;
        model.alone = threads.len() == 1;
        *lock(&self.model) = model;
        self.note(&log);
        let worker = |log: &Log| Worker::new(self, rt, &system, log.clone());
        let [steps] = threads else {
            let results: Arc<Mutex<Vec<Result<(), Error>>>> = Arc::default();
            let mut joiners = Vec::new();
            for (n, steps) in threads.iter().enumerate() {
                let (mut worker, steps) = (worker(&log), steps.clone());
                let results = results.clone();
                let body = move || {
                    let result = worker.run(&steps);
                    results.lock().expect("never panics").push(result);
                };
                let joiner = rt.spawn(&format!("worker-{n}"), Box::new(body));
                joiners.push(joiner.expect("simulated threads start"));
            }
            for joiner in joiners {
                joiner.join().expect("the run fails with its panic");
            }
            let results = std::mem::take(&mut *results.lock().expect("never panics"));
            let closed = close(&self.model, log);
            return results.into_iter().chain([closed]).collect();
        };
        let mut worker = worker(&log);
        drop(log);
        worker.run(steps)?;
        match worker.log.take() {
            Some(log) => close(&self.model, log),
            None => Ok(()),
        }
    }

    /// Opens the log after `failure` and checks it; then performs `steps`, closes, and checks again.
    pub fn recover(&self, seed: u64, failure: Failure, steps: &[Step]) -> Result<(), Error> {
        let _report = self.report(format!("recovering, schedule {seed}"));
        SimRuntime::run(seed, |rt| {
            let system = self.disk.system(rt);
            lock(&self.model).clone().check_crashed(&*system, failure);
            self.open_and_verify(&system, failure).map(drop)
        })?;
        if steps.is_empty() {
            return Ok(());
        }
        self.work(seed, std::slice::from_ref(&steps.to_vec()))?;
        self.recover(seed, Failure::Process, &[])
    }

    /// Opens the log and checks it against the model.
    pub fn open_and_verify(
        &self,
        system: &Arc<dyn System>,
        failure: Failure,
    ) -> Result<Log, Error> {
        let created = lock(&self.model).created;
        let log = open(
            &**system,
            created,
            self.options.clone(),
            self.environment.as_ref(),
        )?;
        let mut model = lock(&self.model).clone();
        model.verify(&**system, &log, failure);
        *lock(&self.model) = model;
        self.note(&log);
        Ok(log)
    }

    /// Does the same as `work` for one thread, on a device with failing operations. Continues after an
    /// error that leaves the log usable, and checks the records of a poisoned log.
    pub fn work_through(&self, seed: u64, steps: &[Step]) -> WorkloadOutcome {
        let _report = self.report(format!("working through faults, schedule {seed}"));
        SimRuntime::run(seed, |rt| {
            let system = self.disk.system(rt);
            let mut opened = Err(Error::Closed);
            let cut = unless_cut(&self.disk, || {
                opened = self.open_and_verify(&system, Failure::Process);
            });
            let log = match cut.and(opened) {
                Ok(log) => log,
                Err(e) => return WorkloadOutcome::NotOpened(e),
            };
            let mut worker = Worker::new(self, rt, &system, log);
            let mut outcome = WorkloadOutcome::Fine;
            for step in steps {
                let Err(e) = worker.step(step) else { continue };
                if worker.log.is_none() {
                    return WorkloadOutcome::NotOpened(e);
                }
                if e.kind() == ErrorKind::Poisoned {
                    let _ = unless_cut(&self.disk, || worker.check_poisoned());
                    return WorkloadOutcome::Poisoned;
                }
                outcome = WorkloadOutcome::Refused(e);
            }
            let log = worker.log.take().expect("looked at above");
            match close(&self.model, log) {
                Ok(()) => outcome,
                Err(e) if e.kind() == ErrorKind::Poisoned => WorkloadOutcome::Poisoned,
                Err(e) => WorkloadOutcome::Refused(e),
            }
        })
    }

    /// Opens the log, and stops at the first error; for crashes inside recovery. Returns whether the
    /// opening returned. If so, the log is checked against the model.
    pub fn try_open(&self, seed: u64, failure: Failure) -> bool {
        let _report = self.report(format!("opening, schedule {seed}"));
        SimRuntime::run(seed, |rt| {
            let system = self.disk.system(rt);
            let created = lock(&self.model).created;
            let environment = self.environment.as_ref();
            let Ok(log) = open(&*system, created, self.options.clone(), environment) else {
                return false;
            };
            // The checks only read. A power cut planned for a later operation must not hit them.
            self.disk.cut_at(u64::MAX);
            if !self.disk.is_cut() {
                let mut model = lock(&self.model).clone();
                model.verify(&*system, &log, failure);
                *lock(&self.model) = model;
                self.note(&log);
            }
            self.disk.cut();
            true
        })
    }

    /// Returns the disk and the model as they are.
    pub fn image(&self) -> Image {
        Image {
            disk: self.disk.snapshot(),
            model: lock(&self.model).clone(),
        }
    }

    /// Goes back to an image.
    pub fn restore(&self, image: &Image) {
        self.disk.restore(&image.disk);
        *lock(&self.model) = image.model.clone();
    }

    /// Returns the last operation that was made to fail, as the disk logged it.
    pub fn failed_operation(&self) -> String {
        self.disk.failed_operation()
    }

    /// Returns a guard that reports at a panic what the world was doing.
    pub fn report(&self, what: String) -> FailureReport {
        FailureReport::new(self.disk.clone(), format!("{}: {what}", self.name))
    }
}

/// Outcome of a workload on a failing device.
#[derive(Debug)]
pub enum WorkloadOutcome {
    /// Nothing failed.
    Fine,
    /// A call was refused, and the log went on.
    Refused(Error),
    /// The log failed.
    Poisoned,
    /// Opening failed.
    NotOpened(Error),
}

/// Returns the kind that a failure amounts to. After a failed barrier bytes may be missing as after a power
/// cut, because the next opening trusts only the medium.
pub(crate) fn amounts_to(disk: &SimDisk, failure: Failure) -> Failure {
    if disk.barrier_failed() {
        Failure::Power
    } else {
        failure
    }
}
