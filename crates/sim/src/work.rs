//! Workloads on a simulated disk: what threads do with a log, and every way to end it.

use crate::model::{Model, Shared, lock, open};
use logforce_core::{Error, ErrorKind, Log, Lsn, Method, Options};
use logforce_device::{Runtime, System};
use logforce_testkit::{Failure, Rng, SimDisk, SimOptions, SimRuntime, Snapshot};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What a thread does with a log.
#[derive(Debug, Clone)]
pub enum Step {
    /// Append a record of so many bytes.
    Append(usize),
    /// Append so many records atomically.
    Group(usize, usize),
    /// Append and force.
    Commit(usize),
    /// Append atomically and force.
    CommitGroup(usize, usize),
    /// Force everything that this thread appended.
    Force,
    /// Truncate at the front, so that so many percent of the appends are gone.
    Front(u64),
    /// Take back so many of the last appends.
    Back(usize),
    /// Replace the metadata by so many bytes.
    Meta(usize),
    /// Let the log be idle for so many milliseconds.
    Idle(u64),
    /// Read everything and compare. For one thread only.
    Read,
    /// Close and open again. For one thread only.
    Reopen,
    /// As `Reopen`, by another method.
    Switch(Method),
    /// Lose power.
    Cut,
    /// Drop the log without asking what its closing says, and open it again.
    Drop,
}

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
        }
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
        let worker = |log: &Log| Worker {
            log: Some(log.clone()),
            rt: rt.clone(),
            system: system.clone(),
            disk: self.disk.clone(),
            model: self.model.clone(),
            options: self.options.clone(),
            appended: Lsn::ORIGIN,
        };
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
            let mut worker = Worker {
                log: Some(log),
                rt: rt.clone(),
                system,
                disk: self.disk.clone(),
                model: self.model.clone(),
                options: self.options.clone(),
                appended: Lsn::ORIGIN,
            };
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
        let log = self.disk.log();
        let line = log.lines().rev().find(|l| l.contains("FAILS"));
        line.unwrap_or_default().to_owned()
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

/// Prints the disk's last operations if the test fails.
pub struct Report {
    disk: SimDisk,
    what: String,
}

impl Drop for Report {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.disk.log();
            let lines: Vec<&str> = log.lines().collect();
            let tail = lines[lines.len().saturating_sub(70)..].join("\n");
            println!("--- {}\n{tail}", self.what);
        }
    }
}

/// Closes, and takes an answer for an acknowledgement of everything.
fn close(model: &Shared, log: Log) -> Result<(), Error> {
    // Clones of the workers may be left.
    let clone = log.clone();
    log.close()?;
    // Full barriers, whatever the method.
    lock(model).acked(clone.durable_lsn(), logforce_core::Guarantee::PowerLoss);
    Ok(())
}

/// Does a check, which fails for another reason once the power is cut: nothing can be read then.
fn unless_cut(disk: &SimDisk, check: impl FnOnce()) -> Result<(), Error> {
    match catch_unwind(AssertUnwindSafe(check)) {
        Ok(()) => Ok(()),
        Err(_) if disk.is_cut() => Err(Error::Closed),
        Err(panic) => resume_unwind(panic),
    }
}

struct Worker {
    log: Option<Log>,
    rt: SimRuntime,
    system: Arc<dyn System>,
    disk: SimDisk,
    model: Shared,
    options: Options,
    appended: Lsn,
}

impl Worker {
    fn run(&mut self, steps: &[Step]) -> Result<(), Error> {
        steps.iter().try_for_each(|step| self.step(step))
    }

    fn log(&self) -> &Log {
        self.log.as_ref().expect("open between steps")
    }

    /// A log that failed: nothing more is accepted or made durable, what was goes on being read.
    fn check_poisoned(&self) {
        let log = self.log();
        // What was in the air when it failed may still land, a stamp for example.
        self.rt.sleep(Duration::from_millis(1));
        let durable = log.durable_lsn();
        let kinds = [
            log.append(b"late").map(drop).map_err(|e| e.kind()),
            log.commit_all(&[b"a", b"b"])
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
        // What the log calls durable is as good as an acknowledgement.
        let guarantee = log.guarantee();
        lock(&self.model).acked(durable, guarantee);
        let model = lock(&self.model).clone();
        model.check_prefix_readable(log);
    }

    fn step(&mut self, step: &Step) -> Result<(), Error> {
        match *step {
            Step::Append(len) => self.append(1, len),
            Step::Group(n, len) => self.append(n, len),
            Step::Commit(len) => self.append(1, len).and_then(|()| self.force()),
            Step::CommitGroup(n, len) => self.append(n, len).and_then(|()| self.force()),
            Step::Force => self.force(),
            Step::Front(percent) => self.front(percent),
            Step::Back(n) => self.back(n),
            Step::Meta(len) => self.meta(len),
            Step::Idle(ms) => {
                self.rt.sleep(Duration::from_millis(ms));
                Ok(())
            }
            Step::Read => {
                // What becomes durable in the middle would show in one answer and not in another.
                self.force()?;
                let model = lock(&self.model).clone();
                unless_cut(&self.disk, || model.check_readable(self.log()))
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

    fn append(&mut self, n: usize, len: usize) -> Result<(), Error> {
        let data: Vec<Vec<u8>> = {
            let mut model = lock(&self.model);
            // Not all of one length: what does not fill its frame is padded.
            let sizes = (0..n).map(|i| len - (len.min(9)).min(i * 3));
            sizes.map(|len| model.bytes(len)).collect()
        };
        let slices: Vec<&[u8]> = data.iter().map(|d| &d[..]).collect();
        let log = self.log();
        let all = match &slices[..] {
            [one] => vec![log.append_parts(&[&one[..len / 2], &one[len / 2..]])?],
            all => log.append_all(all)?,
        };
        self.appended = all.last().map_or(self.appended, |a| a.end);
        lock(&self.model).appended(&all, data);
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
            // Others took it back meanwhile, and nothing was done.
            Err(e) if e.kind() == ErrorKind::Voided => {
                lock(&self.model).fronts_in_flight.retain(|f| *f != to);
                Ok(())
            }
            // Done for good, and only the tidying failed.
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
        // Not under the model's lock: it reads.
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

    fn meta(&mut self, len: usize) -> Result<(), Error> {
        let bytes = {
            let mut model = lock(&self.model);
            let bytes = model.bytes(len);
            model.metas_in_flight.push(bytes.clone());
            bytes
        };
        self.log().set_meta(&bytes)?;
        let mut model = lock(&self.model);
        model.metas_in_flight.retain(|m| *m != bytes);
        model.meta = Some(bytes);
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
        let log = open(&*self.system, true, self.options.clone())?;
        let mut model = lock(&self.model).clone();
        unless_cut(&self.disk, || {
            model.verify(&*self.system, &log, Failure::Process);
        })?;
        *lock(&self.model) = model;
        self.appended = log.durable_lsn();
        self.log = Some(log);
        Ok(())
    }
}

/// Steps that follow from a seed.
pub fn random_steps(rng: &mut Rng, count: u64, alone: bool) -> Vec<Step> {
    (0..count)
        .map(|_| {
            let len = match rng.below(8) {
                0..=3 => rng.below(300),
                4 | 5 => rng.below(5_000),
                6 => rng.below(12_000),
                _ => rng.below(40_000),
            } as usize;
            let few = 1 + rng.below(4) as usize;
            match rng.below(if alone { 27 } else { 22 }) {
                0..=4 => Step::Append(len),
                5 => Step::Group(few, len / few),
                6..=11 => Step::Commit(len),
                12 => Step::CommitGroup(few, len / few),
                13..=15 => Step::Force,
                16 | 17 => Step::Front(rng.below(101)),
                18 => Step::Back(few),
                19..=21 => Step::Idle(rng.below(6)),
                22 | 23 => Step::Read,
                24 => Step::Reopen,
                25 => Step::Drop,
                _ => Step::Switch(rng.pick(&Method::LINUX)),
            }
        })
        .collect()
}
