//! Output of `logforce bench --for` as JSON. Field names are kept compatible; see `docs/cli-json.md`.

use super::load::Done;
use logforce_measure::beside::Written;
use logforce_measure::doctor::Worth;
use logforce_measure::machine::Machine;
use logforce_measure::preflight::{Fitness, MeasuredForce, Options, Preflight, Repetition};
use logforce_systems::commit::Threshold;
use serde::Serialize;
use std::path::Path;
use std::time::Duration;

/// One run of the command.
#[derive(Debug, Serialize)]
pub struct PreflightReport {
    schema: &'static str,
    version: u32,
    command: String,
    started: String,
    /// True if the user stopped the run.
    pub interrupted: bool,
    /// Directory, as it was given.
    pub directory: String,
    /// System, filesystem and device.
    pub machine: Machine,
    /// Name of the system.
    pub system: &'static str,
    /// The same in sentences.
    #[serde(skip)]
    pub title: &'static str,
    /// Answer.
    #[serde(skip)]
    pub answer: Fitness,
    /// Name of the answer.
    pub fit: &'static str,
    /// Reason for the answer, as the end of a sentence.
    pub why: String,
    /// Guarantee of a commit.
    pub survives: Worth,
    /// Threshold; null if the system publishes none.
    pub threshold: Option<ThresholdLine>,
    /// Settings under which the system commits so.
    pub settings: &'static str,
    /// Writes of each commit.
    pub forces: Vec<ForceLine>,
    /// Repetitions of the measurement.
    pub repetitions: Vec<RepetitionLine>,
    /// Load meanwhile; null if there was none.
    pub beside: Option<BesideLine>,
    /// Remarks on the system's commits, and on this measurement, in sentences.
    pub notes: Vec<String>,
    /// Addresses of what is known about the system's commits.
    pub sources: Vec<&'static str>,
}

/// Threshold of a system.
#[derive(Debug, Serialize)]
pub struct ThresholdLine {
    pub percentile: String,
    pub limit_us: f64,
    pub by: &'static str,
    pub address: &'static str,
    pub effect: &'static str,
}

/// One write of each commit.
#[derive(Debug, Serialize)]
pub struct ForceLine {
    pub file: &'static str,
    pub bytes: u64,
    pub state: &'static str,
    pub method: &'static str,
    /// Command that measures the same with `fio`.
    pub fio: String,
}

/// Figures of one repetition.
#[derive(Debug, Serialize)]
pub struct RepetitionLine {
    pub commits: u64,
    pub seconds: f64,
    pub p50_us: f64,
    pub p99_us: Option<f64>,
    pub p999_us: Option<f64>,
    pub max_us: f64,
    pub above_limit: Option<u64>,
    pub finding: Option<&'static str>,
    pub device_flushes_per_commit: Option<f64>,
    pub device_bytes_per_s: Option<f64>,
    pub cpu_wait_percent: Option<f64>,
}

/// Load beside the measurement.
#[derive(Debug, Serialize)]
pub struct BesideLine {
    pub command: Option<String>,
    pub starts: Option<u64>,
    pub asked_bytes_per_s: Option<u64>,
    pub written_bytes: Option<u64>,
    pub written_bytes_per_s: Option<f64>,
    pub syncs: Option<u64>,
}

impl PreflightReport {
    /// Builds the report of a preflight in `dir`. `run` is the command line and the time of its start.
    pub fn new(
        run: (String, String),
        dir: &Path,
        machine: Machine,
        (options, preflight, done): (&Options, &Preflight<'_>, &Done),
    ) -> PreflightReport {
        let outcome = preflight.outcome();
        let system = options.system;
        let commit = system.commit();
        let mut notes = preflight.notes().to_vec();
        notes.extend(
            commit
                .iter()
                .flat_map(|c| c.remarks)
                .map(|r| (*r).to_owned()),
        );
        PreflightReport {
            schema: "logforce-preflight",
            version: 1,
            command: run.0,
            started: run.1,
            interrupted: outcome.interrupted,
            directory: dir.display().to_string(),
            machine,
            system: system.name(),
            title: system.title(),
            answer: outcome.fitness,
            fit: outcome.fitness.name(),
            why: outcome.why,
            survives: outcome.durability.into(),
            threshold: preflight.threshold().map(ThresholdLine::new),
            settings: commit.map_or("", |c| c.settings),
            forces: preflight
                .forces()
                .iter()
                .map(|f| ForceLine::new(f, options))
                .collect(),
            repetitions: preflight
                .repetitions()
                .iter()
                .map(RepetitionLine::new)
                .collect(),
            beside: BesideLine::new(done),
            notes,
            sources: commit.map_or_else(Vec::new, |c| c.sources.to_vec()),
        }
    }
}

impl ThresholdLine {
    fn new(threshold: &Threshold) -> ThresholdLine {
        ThresholdLine {
            percentile: threshold.of.to_string(),
            limit_us: micros(threshold.limit),
            by: threshold.by,
            address: threshold.address,
            effect: threshold.effect,
        }
    }
}

impl ForceLine {
    fn new(force: &MeasuredForce, options: &Options) -> ForceLine {
        ForceLine {
            file: force.force.file,
            bytes: force.force.bytes,
            state: force.state.name(),
            method: force.method.name(),
            fio: force.force.fio(options.system, options.commits),
        }
    }
}

impl RepetitionLine {
    fn new(repetition: &Repetition) -> RepetitionLine {
        let device = repetition.device;
        let seconds = repetition.time.as_secs_f64();
        let commits = repetition.commits;
        let by_commit = |n: u64| (commits > 0).then(|| n as f64 / commits as f64);
        RepetitionLine {
            commits,
            seconds,
            p50_us: repetition.p50_us,
            p99_us: repetition.p99_us,
            p999_us: repetition.p999_us,
            max_us: repetition.max_us,
            above_limit: repetition.above,
            finding: repetition.finding.map(|f| f.name()),
            device_flushes_per_commit: device.and_then(|d| d.flushes).and_then(by_commit),
            device_bytes_per_s: device
                .filter(|_| seconds > 0.0)
                .map(|d| d.bytes as f64 / seconds),
            cpu_wait_percent: repetition.cpu_wait_percent,
        }
    }
}

impl BesideLine {
    fn new(done: &Done) -> Option<BesideLine> {
        let Done { command, written } = done;
        let (command, starts) = command.clone().unzip();
        let of = |field: fn(&Written) -> u64| written.as_ref().map(field);
        (command.is_some() || written.is_some()).then(|| BesideLine {
            command,
            starts,
            asked_bytes_per_s: of(|w| w.asked),
            written_bytes: of(|w| w.bytes),
            written_bytes_per_s: written.as_ref().map(Written::rate),
            syncs: of(|w| w.syncs),
        })
    }
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
