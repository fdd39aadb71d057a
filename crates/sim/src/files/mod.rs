//! Random runs of a durable file, each determined by a seed: disks, options, threads, failures, power cuts,
//! and names that are made durable.
//!
//! Each thread writes slots of the file, each in increasing versions. The model ([`model`]) knows only the
//! results of the calls. After a failure each slot must have a version that is not older than the last
//! acknowledged one. It may be torn only if a newer write was not acknowledged.

mod coverage;
pub mod model;
mod names;
mod setup;
mod tasks;
mod workload;

pub use coverage::Coverage;

use crate::workload::{FailureReport, forget_reports, is_quiet};
use logforce_commit::file::{ErrorKind, File};
use logforce_device::{FilesystemKind, OpenFile, Runtime, System};
use logforce_testkit::{
    Call, FailingCalls, Failure, Fault, Refusal, Rng, SimDisk, SimOptions, SimRuntime,
};
use model::{Found, Layout, Model};
use names::Names;
use setup::{DIR, NAME, Setup};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use workload::{Reasons, Work};

/// Least number of calls of the library in a run.
pub const CALLS: u64 = 60;

/// A run in progress.
struct Run {
    name: String,
    disk: SimDisk,
    aligned: bool,
    rng: Rng,
    coverage: Coverage,
    model: Option<Model>,
    names: Names,
    /// True if the system's cache may show what the medium lacks.
    cache_lies: bool,
}

/// Makes the run of a seed, and returns its coverage.
///
/// # Panics
/// If the file does not have what it must. The message names what was found.
pub fn run(seed: u64) -> Coverage {
    let mut rng = Rng::new(seed ^ 0xf11e_5eed);
    let options = SimOptions {
        log_lines: if is_quiet() { 0 } else { 400 },
        reserves: !rng.one_in(4),
        allocates_late: rng.one_in(2),
        ..SimOptions::random(seed)
    };
    let aligned = rng.one_in(2);
    let unit = match aligned {
        true => u64::from(options.facts().write_unit()),
        false => 1,
    };
    let layout = Layout::random(&mut rng, unit, options.sector.into());
    let mut run = Run {
        name: format!("seed {seed}"),
        disk: SimDisk::new(options, seed),
        aligned,
        rng,
        coverage: Coverage::default(),
        model: Some(Model::new(layout)),
        names: Names::default(),
        cache_lies: false,
    };
    run.make_directory();
    let boots = 2 + run.rng.below(3);
    let mut boot = 0;
    while boot < boots || run.coverage.calls < CALLS {
        run.boot(boot);
        run.crash();
        // All panics so far were intended.
        forget_reports();
        boot += 1;
    }
    run.last_look();
    run.coverage.runs = 1;
    run.coverage.aligned = u64::from(aligned);
    run.coverage.note_faults(&run.disk.faults());
    run.coverage
}

impl Run {
    /// Makes the directory. Checks in some runs that a file is not created where the directory's own entry
    /// cannot be made durable.
    fn make_directory(&mut self) {
        // Draws from a separate generator, so that the other choices of a seed stay the same.
        let mut aside = Rng::new(self.rng.clone().bits() ^ 0xd1_4ec7);
        let fails = aside.one_in(3);
        let setup = Setup {
            method: None,
            ..Setup::random(&mut aside, self.aligned)
        };
        SimRuntime::run(1, |rt| {
            let system = self.disk.system(rt);
            let dir = system.make_directory(Path::new(DIR));
            dir.expect("nothing fails yet");
            if fails {
                self.disk.fail_calls(FailingCalls {
                    calls: vec![Call::MakeDirectory],
                    how: Refusal::Medium,
                    after: 0,
                    failing: u64::MAX,
                });
                let opened = setup.open(&*system, true);
                let error = opened.expect_err("its directory may not be durable");
                assert_eq!(error.kind(), ErrorKind::Io, "{error}");
                names::are_refused(&*system);
                // A file that was there would pass for one in a durable directory.
                let left = self.disk.names(DIR);
                assert!(left.is_empty(), "{left:?}");
                self.disk.stop_failing_calls();
                self.coverage.failed_openings += 1;
            }
        });
    }

    fn report(&self, what: &str) -> FailureReport {
        FailureReport::new(self.disk.clone(), format!("{}, {what}", self.name))
    }

    /// Plans the faults of a boot.
    fn plan_faults(&mut self) -> Reasons {
        let (disk, rng) = (&self.disk, &mut self.rng);
        let (mut may_fail, mut may_be_full) = (false, false);
        if rng.one_in(4) {
            let fault = rng.pick(&[Fault::Io, Fault::Io, Fault::NoSpace]);
            disk.fail_at(rng.below(200), fault);
            may_be_full = fault == Fault::NoSpace;
            may_fail = true;
        }
        if rng.one_in(8) {
            disk.change(|o| o.capacity = Some(8_192 + rng.below(40) * 1024));
            may_be_full = true;
        }
        if rng.one_in(5) {
            disk.fail_calls(failing_calls(rng));
            may_fail = true;
        }
        if !rng.one_in(3) {
            let within = rng.pick(&[20, 100, 300]);
            disk.cut_at(rng.below(within));
        }
        Reasons {
            disk: disk.clone(),
            may_fail,
            may_be_full,
        }
    }

    /// Performs a boot: one opening or two, each with the work of some threads.
    fn boot(&mut self, boot: u64) {
        let mut reasons = self.plan_faults();
        let loses = self.rng.one_in(3);
        reasons.may_fail |= loses;
        let openings = self.rng.pick(&[1, 1, 2]);
        let schedule = self.rng.bits();
        let _report = self.report(&format!("boot {boot}"));
        SimRuntime::run(schedule, |rt| {
            for _ in 0..openings {
                self.opening(rt, &reasons, loses);
                self.cache_lies |= loses || self.disk.barrier_failed();
            }
        });
        self.disk.change(|o| o.capacity = None);
    }

    /// Opens the file, compares it with the model, and works on it.
    fn opening(&mut self, rt: &SimRuntime, reasons: &Reasons, loses: bool) {
        let setup = Setup::random(&mut self.rng, self.aligned);
        let system = self.disk.system(rt);
        let Some(file) = self.open(&*system, &setup, reasons) else {
            return;
        };
        // Another open file, from before or after a report. It makes durable what the file's own syncs may
        // miss, so most runs have none.
        let has_bystander = loses || self.rng.one_in(8);
        let bystander = has_bystander.then(|| {
            let dir = system.directory(Path::new(DIR));
            dir.and_then(|dir| dir.open(NAME, OpenFile::WRITE)).ok()
        });
        if setup.lock {
            self.try_lock(&*system, &setup, reasons);
        }
        let Some(model) = self.model.take() else {
            return;
        };
        let in_place = self.disk.options().facts().kind == FilesystemKind::InPlace;
        let work = Arc::new(Work {
            file,
            model: Mutex::new(model),
            coverage: Mutex::default(),
            reasons: reasons.clone(),
            rt: rt.clone(),
            bystander: bystander.flatten(),
            loses,
            in_place,
            has_failed: false.into(),
            late: Mutex::default(),
        });
        let threads = self.rng.pick(&[1, 2, 3, 4]);
        let joiners: Vec<_> = (0..threads)
            .map(|region| {
                let (work, seed) = (work.clone(), self.rng.bits());
                let count = 5 + self.rng.below(30);
                let body = move || work.run(region, seed, count);
                let joiner = rt.spawn("worker", Box::new(body));
                joiner.expect("simulated threads start")
            })
            .collect();
        if self.rng.one_in(2) {
            let (mut rng, count) = (Rng::new(self.rng.bits()), 1 + self.rng.below(8));
            let coverage = &mut self.coverage;
            self.names
                .work(&*system, &mut rng, count, reasons, coverage);
        }
        for joiner in joiners {
            joiner.join().expect("the run fails with its panic");
        }
        let work = Arc::into_inner(work).expect("all threads have ended");
        self.end(work);
    }

    /// Opens the file and compares it with the model. Returns `None` if that was not possible.
    fn open(&mut self, system: &dyn System, setup: &Setup, reasons: &Reasons) -> Option<File> {
        let model = self.model.as_mut()?;
        let is_there = self.disk.names(DIR).contains_key(NAME);
        assert!(is_there || !model.is_created, "the file has lost its name");
        let is_new = !is_there && self.rng.one_in(2);
        self.coverage.calls += 1;
        let file = match setup.open(system, is_new) {
            Ok(file) => file,
            Err(e) if e.kind() == ErrorKind::Unavailable && setup.method.is_some() => {
                self.coverage.unavailable += 1;
                return None;
            }
            Err(e) => {
                // The opening's own sync may report a write-back that failed before.
                if !self.cache_lies || e.kind() != ErrorKind::Io {
                    reasons.expect(&e);
                }
                self.coverage.failed_openings += 1;
                return None;
            }
        };
        model.is_created = true;
        let disk = self.disk.clone();
        let compared = disk.without_failing_calls(|| self.compare(&file));
        if compared.is_none() {
            assert!(self.disk.is_cut(), "the file cannot be read");
            self.coverage.failed_openings += 1;
            return None;
        }
        self.coverage.openings += 1;
        Some(file)
    }

    /// Compares the file with the model. Returns `None` if it cannot be read.
    fn compare(&mut self, file: &File) -> Option<()> {
        let len = file.len().ok()?;
        let model = self.model.as_mut()?;
        assert!(len >= model.len, "{len} bytes of {} are left", model.len);
        let options = self.disk.options();
        let from_medium = options.direct && options.medium_reads;
        // The opening has synced what the cache shows, unless a sync or a write-back had failed before.
        let is_durable = from_medium || !self.cache_lies;
        let mut all = Vec::new();
        for slot in &model.layout.slots {
            let mut bytes = vec![0; slot.len];
            let read = match from_medium {
                true => file.read_medium_at(&mut bytes, slot.offset),
                false => file.read_at(&mut bytes, slot.offset),
            };
            // The file may end before the slot, or in it.
            read.ok()?;
            all.push(bytes);
        }
        for (slot, bytes) in all.iter().enumerate() {
            match model.found(slot, bytes, is_durable) {
                Found::Newest => self.coverage.newest += 1,
                Found::Older => self.coverage.older += 1,
                Found::Torn => self.coverage.torn += 1,
            }
        }
        Some(())
    }

    /// Checks that the lock keeps a second opening out, also after the lock file was deleted.
    fn try_lock(&mut self, system: &dyn System, setup: &Setup, reasons: &Reasons) {
        for deletes in [false, true] {
            if deletes {
                self.disk.remove_file(DIR, &format!("{NAME}.lock"));
            }
            match self
                .disk
                .without_failing_calls(|| setup.open(system, false))
            {
                Ok(_) => panic!("two openings have the lock; the lock file was deleted: {deletes}"),
                Err(e) if e.kind() == ErrorKind::Locked => self.coverage.locked += 1,
                Err(e) => reasons.expect(&e),
            }
        }
    }

    /// Ends an opening: closes or drops the file, or cuts the power before that.
    fn end(&mut self, work: Work) {
        let how = self.rng.below(4);
        if how == 0 {
            // A kill: the file is not closed, and its thread must end.
            self.disk.cut();
        }
        let stats = work.file.stats();
        let counters = &stats.counters;
        work.count(|c| {
            c.through_writes += counters.through_writes;
            let alone = counters.idle_commits + counters.through_writes + counters.syncs;
            c.shared += counters.commits.saturating_sub(alone);
        });
        let Work {
            file,
            model,
            coverage,
            reasons,
            has_failed,
            late,
            ..
        } = work;
        let mut model = model.into_inner().unwrap_or_else(PoisonError::into_inner);
        let completed = model.all_completed();
        match how {
            1 => match file.close() {
                Ok(()) => {
                    assert!(
                        !has_failed.into_inner(),
                        "a failed file closes without an error"
                    );
                    model.acknowledge_all(&completed);
                }
                Err(e) => reasons.expect(&e),
            },
            _ => drop(file),
        }
        let late = late.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut coverage = coverage
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        for held in late {
            coverage.late += 1;
            held.resolve(&mut model, &reasons);
        }
        coverage.poisoned += u64::from(coverage.refused > 0);
        self.coverage.add(&coverage);
        self.model = Some(model);
    }

    /// Ends the boot by a failure.
    fn crash(&mut self) {
        let failure = self.rng.pick(&[
            Failure::Power,
            Failure::Power,
            Failure::Power,
            Failure::Os,
            Failure::Process,
        ]);
        self.disk.crash(failure, None, self.rng.bits());
        self.coverage.note_crash(failure);
        let keeps_cache = failure == Failure::Process;
        self.cache_lies &= keeps_cache;
        let _report = self.report(&format!("names after {failure:?}"));
        self.names.check(&self.disk, keeps_cache);
    }

    /// Opens the file after the last crash, and compares it with the model.
    fn last_look(&mut self) {
        let _report = self.report("after the last crash");
        let reasons = Reasons {
            disk: self.disk.clone(),
            may_fail: false,
            may_be_full: false,
        };
        let setup = Setup {
            method: None,
            ..Setup::random(&mut self.rng, self.aligned)
        };
        let schedule = self.rng.bits();
        SimRuntime::run(schedule, |rt| {
            let system = self.disk.system(rt);
            // The first opening may report a write-back that failed before.
            let attempts = 1 + u32::from(self.cache_lies);
            let file = (0..attempts).find_map(|_| self.open(&*system, &setup, &reasons));
            file.expect("nothing fails").close().expect("nothing fails");
        });
    }
}

/// Draws calls that fail for a while, none of which is a short answer.
fn failing_calls(rng: &mut Rng) -> FailingCalls {
    let calls = match rng.below(4) {
        0 => Vec::new(),
        1 => vec![Call::Barrier],
        2 => vec![Call::Write, Call::Complete],
        _ => vec![rng.pick(&Call::ALL)],
    };
    let medium = calls != [Call::Read];
    FailingCalls {
        calls,
        how: match medium && rng.one_in(3) {
            true => Refusal::Medium,
            false => rng.pick(&Refusal::OF_THE_PROCESS),
        },
        after: rng.pick(&[0, 20, 100]) + rng.below(30),
        failing: rng.pick(&[1, 1, 2, u64::MAX]),
    }
}
