//! Preflight for another system: makes that system's own commits in a directory, and compares their
//! latencies with the threshold that the system publishes.

mod fitness;

pub use fitness::{BEYOND, Finding, Fitness, REPETITIONS};

use crate::MeasureError;
use crate::result::plausible::Claim;
use crate::run::Setup;
use crate::run::counters::{Delta, Neighbours, watch_neighbours};
use crate::run::cpu;
use crate::run::prepare::PreparedFile;
use crate::run::raw::RawJournal;
use crate::run::recorder::Recorder;
use crate::run::schedule::{self, Budget, Context, Planned, TIMED_SHARE};
use crate::run::space::remedies;
use logforce_device::{Assessment, Directory, Facts, FileState, Method, Verdict};
use logforce_systems::System;
use logforce_systems::commit::{Commit, Force, Threshold};
use logforce_terminal::numbers::bytes;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Name of the scenario in errors and progress.
const NAME: &str = "preflight";
/// Number of commits of a repetition, unless the user chooses another. Ten of them lie beyond p99.9.
pub const COMMITS: u64 = 10_000;
/// Time of the commits of a repetition. A slow disk makes fewer commits in it.
pub const TIME: Duration = Duration::from_secs(30);
/// Time for which the device is watched before it is used.
const WATCH: Duration = Duration::from_millis(500);

/// Options of a preflight.
#[derive(Debug, Clone)]
pub struct Options {
    /// System whose commits are made.
    pub system: System,
    /// Number of commits of a repetition.
    pub commits: u64,
    /// Limit in place of the one that the system publishes.
    pub limit: Option<Duration>,
    /// True if a load runs meanwhile. It may keep the processors busy as well as the disk.
    pub is_loaded: bool,
}

/// One write of each commit, as it is measured.
#[derive(Debug, Clone, Copy)]
pub struct MeasuredForce {
    /// Write that the system makes.
    pub force: &'static Force,
    /// Method of this platform and filesystem.
    pub method: Method,
    /// State of the file.
    pub state: FileState,
}

/// Figures of one repetition. Latencies are in microseconds.
#[derive(Debug, Clone, Copy, Default)]
pub struct Repetition {
    /// Number of commits.
    pub commits: u64,
    /// Time that they took.
    pub time: Duration,
    /// Median.
    pub p50_us: f64,
    /// 99th percentile; `None` if fewer than [`BEYOND`] commits lie beyond it.
    pub p99_us: Option<f64>,
    /// 99.9th percentile; `None` if fewer than [`BEYOND`] commits lie beyond it.
    pub p999_us: Option<f64>,
    /// Longest.
    pub max_us: f64,
    /// Number of commits above the limit; `None` without a threshold.
    pub above: Option<u64>,
    /// Comparison with the threshold; `None` without one.
    pub finding: Option<Finding>,
    /// Work of the device, for other programs too; `None` without counters.
    pub device: Option<Delta>,
    /// Part of the time for which the committing thread waited for a processor, in percent; `None` where the
    /// system does not tell.
    pub cpu_wait_percent: Option<f64>,
}

/// Result of a preflight.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Answer.
    pub fitness: Fitness,
    /// Reason for the answer, as the end of a sentence.
    pub why: String,
    /// Guarantee of a commit: the weakest of its writes.
    pub durability: Assessment,
    /// True if the user stopped it.
    pub interrupted: bool,
}

/// A preflight that is under way.
pub struct Preflight<'a> {
    setup: &'a Setup,
    facts: &'a Facts,
    system: System,
    commits: u64,
    is_loaded: bool,
    threshold: Option<Threshold>,
    forces: Vec<MeasuredForce>,
    files: Vec<Rc<RefCell<PreparedFile>>>,
    repetitions: Vec<Repetition>,
    neighbours: Option<Neighbours>,
    notes: Vec<String>,
}

impl<'a> Preflight<'a> {
    /// Prepares the files. `facts` are those of the directory, with the results of power cuts.
    ///
    /// # Errors
    /// The commits of this system are not known, or there is not enough free space.
    pub fn prepare(
        options: &Options,
        setup: &'a Setup,
        facts: &'a Facts,
    ) -> Result<Preflight<'a>, MeasureError> {
        let system = options.system;
        let Some(commit) = system.commit() else {
            let why = format!("the commits of {} are not known", system.title());
            return Err(MeasureError::NotOffered(why));
        };
        let directory = setup.system.directory(&setup.path);
        let directory = directory.map_err(MeasureError::io("asking about the filesystem"))?;
        let size = |force: &Force| {
            force
                .file_bytes
                .min(force.bytes.saturating_mul(options.commits))
        };
        let all = commit.forces.iter().map(size).sum();
        setup.space.check(all, remedies(false))?;
        let mut preflight = Preflight {
            setup,
            facts,
            system,
            commits: options.commits,
            is_loaded: options.is_loaded,
            threshold: threshold(commit, options.limit),
            forces: Vec::new(),
            files: Vec::new(),
            repetitions: Vec::new(),
            neighbours: watch_neighbours(&*setup.counters, WATCH),
            notes: Vec::new(),
        };
        for force in commit.forces {
            preflight.add(force, size(force), &directory)?;
        }
        Ok(preflight)
    }

    /// Adds a write to each commit. Where the filesystem lacks what the system asks for, the write is made
    /// as systems do it then: without direct I/O, and to a growing file.
    fn add(
        &mut self,
        force: &'static Force,
        size: u64,
        directory: &Arc<dyn Directory>,
    ) -> Result<(), MeasureError> {
        let file = |state: FileState| {
            let directory = Arc::clone(directory);
            let (interrupt, progress) = (self.setup.interrupt.clone(), &self.setup.progress);
            let unit = self.facts.write_unit() as usize;
            PreparedFile::new(directory, state, size, unit, interrupt, Rc::clone(progress))
        };
        let mut made = file(force.state);
        let mut state = force.state;
        match made.begin(force.bytes) {
            Err(MeasureError::NotOffered(why)) if state == FileState::Fallocated => {
                state = FileState::Growing;
                made = file(state);
                made.begin(force.bytes)?;
                self.notes
                    .push(format!("The {} grows, because {why}.", force.file));
            }
            begun => begun?,
        }
        let mut method = force.method(self.facts.platform);
        if method.plan().direct {
            let is_aligned = force
                .bytes
                .is_multiple_of(u64::from(self.facts.write_unit()));
            let refusal = match self.facts.assess(method, state) {
                None => Some(self.facts.why_not_offered(method)),
                Some(_) if !is_aligned => Some(format!(
                    "direct I/O needs multiples of {} here",
                    bytes(self.facts.write_unit().into())
                )),
                Some(_) => match made.open(true) {
                    Err(MeasureError::NotOffered(why)) => Some(why),
                    opened => opened.map(|_| None)?,
                },
            };
            if let Some(why) = refusal {
                method = force.buffered(self.facts.platform);
                self.notes.push(format!(
                    "The {} is written through the cache: {why}.",
                    force.file
                ));
            }
        }
        self.forces.push(MeasuredForce {
            force,
            method,
            state,
        });
        self.files.push(Rc::new(RefCell::new(made)));
        Ok(())
    }

    /// Makes one repetition.
    ///
    /// # Errors
    /// A write or a force failed, or the user interrupted before the first commit.
    pub fn repeat(&mut self) -> Result<(), MeasureError> {
        let unit = self.facts.write_unit() as usize;
        let durability = self.declared();
        let mut parts = self.forces.iter().zip(&self.files);
        let Some((first, file)) = parts.next() else {
            return Ok(());
        };
        let chunk = |f: &MeasuredForce| f.force.bytes as usize;
        let first = RawJournal::new(
            NAME,
            first.method,
            chunk(first),
            unit,
            durability,
            file.clone(),
        );
        let subject = parts.fold(first, |row, (force, file)| {
            row.then(force.method, chunk(force), file.clone())
        });
        let budget = Budget {
            rounds: 1,
            commits: self.commits,
            deadline: Some(Instant::now() + TIME.div_f64(TIMED_SHARE)),
            each_once: true,
            write_back: None,
        };
        let planned = vec![Planned::Run(Box::new(subject))];
        let (measured, _) = schedule::run(planned, budget, &Context::of(self.setup));
        for row in measured {
            match row.error {
                Some(_) if row.recorder.commits() == 0 && self.setup.interrupt.is_raised() => {
                    return Err(MeasureError::Interrupted);
                }
                Some(error) => return Err(MeasureError::NotOffered(error)),
                None => self
                    .repetitions
                    .push(repetition(&row.recorder, self.threshold.as_ref())),
            }
        }
        Ok(())
    }

    /// Returns whether another repetition is needed.
    pub fn needs_more(&self) -> bool {
        let findings: Vec<Finding> = self.repetitions.iter().filter_map(|r| r.finding).collect();
        fitness::needs_more(&findings)
            && !self.setup.interrupt.is_raised()
            && fitness::is_durable(&self.durability())
    }

    /// Returns the writes of a commit as they are measured.
    pub fn forces(&self) -> &[MeasuredForce] {
        &self.forces
    }

    /// Returns the threshold, with the limit that the user chose, if any.
    pub fn threshold(&self) -> Option<&Threshold> {
        self.threshold.as_ref()
    }

    /// Returns the repetitions so far.
    pub fn repetitions(&self) -> &[Repetition] {
        &self.repetitions
    }

    /// Returns remarks on the measurement, in sentences.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Returns the result of the repetitions so far.
    pub fn outcome(&self) -> Outcome {
        let durability = self.durability();
        let threshold = self.threshold.as_ref();
        let repetitions = &self.repetitions;
        let title = self.system.title();
        let (mut fitness, mut why) = fitness::judge(title, threshold, repetitions, &durability);
        if fitness == Fitness::Unfit
            && !self.is_loaded
            && fitness::is_durable(&durability)
            && let Some(starved) = fitness::starved(repetitions)
        {
            fitness = Fitness::Unclear;
            why.push_str(&starved);
        }
        if fitness != Fitness::Fit
            && fitness::is_durable(&durability)
            && let Some(others) = self.others()
        {
            why.push_str(&others);
        }
        Outcome {
            fitness,
            why,
            durability,
            interrupted: self.setup.interrupt.is_raised(),
        }
    }

    /// Describes the work of other programs on the device before the measurement, as the end of a sentence.
    fn others(&self) -> Option<String> {
        let Neighbours { watched, did } = self.neighbours?;
        let per_second = did.writes as f64 / watched.as_secs_f64();
        (did.writes > 0).then(|| {
            format!(
                "; other programs made {per_second:.0} writes a second to this disk just before"
            )
        })
    }

    /// Returns the guarantee as it is declared: the weakest of all writes of a commit.
    fn declared(&self) -> Assessment {
        let assessed = self
            .forces
            .iter()
            .map(|f| match self.facts.assess(f.method, f.state) {
                Some(assessment) => assessment,
                // The method is not one of this platform, which `Force::method` excludes.
                None => self.facts.write_through(),
            });
        let rank = |a: &Assessment| (a.guarantee, a.verdict, a.source);
        let weakest = assessed.min_by(|a, b| rank(a).cmp(&rank(b)));
        weakest.unwrap_or_else(|| self.facts.write_through())
    }

    /// Returns the guarantee, doubted if the measurement contradicts it.
    fn durability(&self) -> Assessment {
        let declared = self.declared();
        let doubt = self.repetitions.iter().find_map(|r| {
            let forces = r.commits * self.forces.len() as u64;
            let claim = Claim {
                guarantee: Some(declared.guarantee),
                p50_us: Some(r.p50_us),
                threads: 1,
                commits: Some(r.commits),
                flushes_per_commit: r
                    .device
                    .and_then(|d| d.flushes)
                    .map(|n| n as f64 / forces as f64),
                by_fua: false,
            };
            claim.doubt(self.facts)
        });
        match doubt {
            Some(evidence) if declared.verdict < Verdict::Proven => {
                let verdict = declared.verdict.min(Verdict::Implausible);
                Assessment::new(declared.guarantee, verdict, declared.source, evidence)
            }
            _ => declared,
        }
    }
}

fn threshold(commit: &Commit, limit: Option<Duration>) -> Option<Threshold> {
    let threshold = commit.threshold?;
    Some(Threshold {
        limit: limit.unwrap_or(threshold.limit),
        ..threshold
    })
}

fn repetition(recorder: &Recorder, threshold: Option<&Threshold>) -> Repetition {
    let latencies = recorder.latencies();
    let commits = latencies.count();
    // Allows for rounding: 99.9 % of 10,000 commits leave exactly ten.
    let beyond = |quantile: f64| (1.0 - quantile) * commits as f64 > BEYOND as f64 - 1e-6;
    let tail = |quantile| beyond(quantile).then(|| latencies.quantile_us(quantile));
    let above = threshold.map(|t| latencies.count_above(t.limit));
    Repetition {
        commits,
        time: recorder.time(),
        p50_us: latencies.quantile_us(0.5),
        p99_us: tail(0.99),
        p999_us: tail(0.999),
        max_us: latencies.max_us(),
        above,
        finding: threshold
            .zip(above)
            .map(|(t, above)| Finding::of(t.of, commits, above)),
        device: recorder.device(),
        cpu_wait_percent: recorder
            .cpu_wait()
            .and_then(|wait| cpu::percent(wait, recorder.time())),
    }
}

#[cfg(test)]
mod tests;
