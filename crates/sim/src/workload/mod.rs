//! Workloads on a simulated disk: what threads do with a log, and every way to end it.

mod failing_calls;
mod steps;
mod worker;

pub use failing_calls::{is_blameless, random_failing_calls};
pub use steps::{Step, random_steps};

use crate::model::{Model, Shared, lock, open};
use logforce_core::{Error, ErrorKind, Log, Options, RecoveryCase};
use logforce_device::{Runtime, System};
use logforce_testkit::{Failure, SimDisk, SimOptions, SimRuntime, Snapshot};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use worker::{Worker, close, unless_cut};

/// A disk with a log, and the model of that.
pub struct World {
    /// The disk.
    pub disk: SimDisk,
    /// What the log is opened with.
    pub options: Options,
    /// What is known of the log.
    pub model: Shared,
    /// For messages.
    pub name: String,
    /// Calls that workloads have made.
    pub calls: Arc<AtomicU64>,
    /// What the openings that were checked had found.
    pub found: Arc<Mutex<Found>>,
}

/// What recoveries have found, in sum.
#[derive(Debug, Clone, Default)]
pub struct Found {
    /// Openings that returned.
    pub openings: u64,
    /// Rows of the decision table at which a log ended.
    pub ends: Vec<RecoveryCase>,
    /// Batches that were accepted.
    pub batches: u64,
    /// Positions that an earlier opening had given up, and that were passed.
    pub resumed: u64,
}

/// A disk between two boots, and what was known of its log then.
#[derive(Clone)]
pub struct Image {
    disk: Snapshot,
    model: Model,
}

impl World {
    /// A world with an empty disk and no log.
    pub fn new(name: impl Into<String>, disk: SimOptions, options: Options, seed: u64) -> World {
        World {
            disk: SimDisk::new(disk, seed),
            options,
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

    /// Runs one thread for each list of steps, from opening to the first error or the end. The log
    /// is closed at the end, which may fail.
    pub fn work(&self, seed: u64, threads: &[Vec<Step>]) -> Result<(), Error> {
        self.work_after(Failure::Process, seed, threads)
    }

    /// As [`work`](Self::work), on what a failure has left: the first thing it does is to recover.
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
        let log = open(&*system, created, self.options.clone())?;
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

    /// Opens the log after `failure` and checks it; then does `steps`, closes, and checks again.
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
        let log = open(&**system, created, self.options.clone())?;
        let mut model = lock(&self.model).clone();
        model.verify(&**system, &log, failure);
        *lock(&self.model) = model;
        self.note(&log);
        Ok(log)
    }

    /// As `work` for one thread, on a device where something fails: goes on after an error that
    /// leaves the log usable, and looks closely at one that does not.
    pub fn work_through(&self, seed: u64, steps: &[Step]) -> Outcome {
        let _report = self.report(format!("in trouble, schedule {seed}"));
        SimRuntime::run(seed, |rt| {
            let system = self.disk.system(rt);
            let mut opened = Err(Error::Closed);
            let cut = unless_cut(&self.disk, || {
                opened = self.open_and_verify(&system, Failure::Process);
            });
            let log = match cut.and(opened) {
                Ok(log) => log,
                Err(e) => return Outcome::NotOpened(e),
            };
            let mut worker = Worker::new(self, rt, &system, log);
            let mut outcome = Outcome::Fine;
            for step in steps {
                let Err(e) = worker.step(step) else { continue };
                if worker.log.is_none() {
                    return Outcome::NotOpened(e);
                }
                if e.kind() == ErrorKind::Poisoned {
                    let _ = unless_cut(&self.disk, || worker.check_poisoned());
                    return Outcome::Poisoned;
                }
                outcome = Outcome::Refused(e);
            }
            let log = worker.log.take().expect("looked at above");
            match close(&self.model, log) {
                Ok(()) => outcome,
                Err(e) if e.kind() == ErrorKind::Poisoned => Outcome::Poisoned,
                Err(e) => Outcome::Refused(e),
            }
        })
    }

    /// Opens and gives up at whatever fails; for crashes within recovery. Answers whether opening
    /// returned; if so, what it showed counts.
    pub fn try_open(&self, seed: u64, failure: Failure) -> bool {
        let _report = self.report(format!("opening, schedule {seed}"));
        SimRuntime::run(seed, |rt| {
            let system = self.disk.system(rt);
            let created = lock(&self.model).created;
            let Ok(log) = open(&*system, created, self.options.clone()) else {
                return false;
            };
            // The checks only read; a cut planned for later must not hit them.
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

    /// The disk and the model as they are.
    pub fn image(&self) -> Image {
        Image {
            disk: self.disk.snapshot(),
            model: lock(&self.model).clone(),
        }
    }

    /// Back to an image.
    pub fn restore(&self, image: &Image) {
        self.disk.restore(&image.disk);
        *lock(&self.model) = image.model.clone();
    }

    /// The last operation that was made to fail, as the disk wrote it down.
    pub fn failed_operation(&self) -> String {
        self.disk.failed_operation()
    }

    /// Says at a panic what the world was doing.
    pub fn report(&self, what: String) -> Report {
        Report {
            disk: self.disk.clone(),
            what: format!("{}: {what}", self.name),
        }
    }
}

/// How a workload on a failing device ended.
#[derive(Debug)]
pub enum Outcome {
    /// Nothing failed.
    Fine,
    /// Something was refused, and the log went on.
    Refused(Error),
    /// The log failed.
    Poisoned,
    /// Opening failed.
    NotOpened(Error),
}

/// What a failure amounts to. What a barrier that failed was to write may be lost as if power had
/// been: the next opening believes the medium.
pub(crate) fn amounts_to(disk: &SimDisk, failure: Failure) -> Failure {
    if disk.barrier_failed() {
        Failure::Power
    } else {
        failure
    }
}

static QUIET: AtomicBool = AtomicBool::new(false);

/// From now on no [`Report`] prints anything: where thousands of lives run, panics are part of
/// them.
pub fn be_quiet() {
    QUIET.store(true, Relaxed);
}

/// Whether [`be_quiet`] was called.
pub fn is_quiet() -> bool {
    QUIET.load(Relaxed)
}

/// Prints the disk's last operations if the test fails.
pub struct Report {
    disk: SimDisk,
    what: String,
}

impl Drop for Report {
    fn drop(&mut self) {
        if std::thread::panicking() && !is_quiet() {
            let log = self.disk.log();
            let lines: Vec<&str> = log.lines().collect();
            let tail = lines[lines.len().saturating_sub(70)..].join("\n");
            println!("--- {}\n{tail}", self.what);
        }
    }
}
