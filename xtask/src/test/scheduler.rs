//! Order of the stages, and their output.

use super::counts::Counts;
use super::stage::{Stage, StageOutcome, StageReport};
use super::{
    Setting, aarch64, archive, benches, clock, compiling, engines, fuzzing, host, interleavings,
    macos, miri, packages, powercut, publish, simulation, sqlite, sqlite_suite, suites, windows,
};
use crate::check;
use anyhow::Result;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Stages that compile in the host's own target folder. One worker runs them in turn: two would wait for each
/// other at cargo's lock.
const HOST: [Stage; 9] = [
    Stage::Fmt,
    Stage::Check,
    Stage::Clippy,
    Stage::Docs,
    Stage::Publish,
    Stage::Build,
    Stage::Examples,
    Stage::Tests,
    Stage::Sqlite,
];

/// Stages with separate target folders, or that use what the stage `build` compiled. Power cuts wait for the
/// disk most of the time, so a stage that keeps the processors busy comes after them. The packages have their
/// own worker, because they wait for the network and the disk.
const BESIDE: [Stage; 18] = [
    Stage::Windows,
    Stage::Macos,
    Stage::Aarch64,
    Stage::Powercut,
    Stage::Exhaustive,
    Stage::Simulation,
    Stage::Interleavings,
    Stage::Planted,
    Stage::Fuzz,
    Stage::Benches,
    Stage::Engines,
    Stage::Dist,
    Stage::Miri,
    Stage::ArchiveModel,
    Stage::ArchiveChaos,
    Stage::ArchiveServers,
    Stage::OpenraftKills,
    Stage::SqliteSuite,
];

/// Returns the stages that a stage waits for.
fn needs(stage: Stage) -> &'static [Stage] {
    match stage {
        Stage::Tests | Stage::Sqlite => &[Stage::Packages],
        // These three use Debian's cargo, which is one of the packages, so they run one after another.
        Stage::Windows => &[Stage::Packages],
        Stage::Macos => &[Stage::Packages, Stage::Windows],
        Stage::Aarch64 => &[Stage::Packages, Stage::Macos],
        Stage::Fuzz | Stage::Benches => &[Stage::Packages],
        Stage::Exhaustive | Stage::Simulation => &[Stage::Build],
        Stage::ArchiveModel
        | Stage::ArchiveChaos
        | Stage::ArchiveServers
        | Stage::OpenraftKills => &[Stage::Build],
        // The stage `build` compiles it. It can run in parallel with the tests: its disks are in memory
        // and its mounts in a separate namespace, so the tests' leak check does not see them.
        Stage::Powercut => &[Stage::Packages, Stage::Build],
        Stage::Engines => &[Stage::Packages, Stage::Build],
        // The tests check that nothing appears in the directories for temporary files.
        Stage::SqliteSuite => &[Stage::Packages, Stage::Build, Stage::Tests],
        _ => &[],
    }
}

/// Threads that run stages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Worker {
    Packages,
    Host,
    Beside,
}

const WORKERS: [Worker; 3] = [Worker::Packages, Worker::Host, Worker::Beside];

/// Stages that are done, running, and still to be run.
#[derive(Debug)]
struct Progress {
    packages: Option<Stage>,
    /// Stages of the host's target folder, in order; only the host's worker takes them.
    host: VecDeque<Stage>,
    /// Other stages; any free worker takes them.
    beside: VecDeque<Stage>,
    reports: Vec<StageReport>,
}

/// Next step of a worker.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Run(Stage),
    /// Wait: the remaining stages depend on another worker's stage.
    Wait,
    End,
}

impl Progress {
    fn new(selected: impl Fn(&Stage) -> bool) -> Progress {
        Progress {
            packages: Some(Stage::Packages).filter(&selected),
            host: HOST.into_iter().filter(&selected).collect(),
            beside: BESIDE.into_iter().filter(&selected).collect(),
            reports: Vec::new(),
        }
    }

    /// Returns the next step of a worker. The host's worker prefers the host's stages, in their order.
    fn take(&mut self, worker: Worker, selected: impl Fn(&Stage) -> bool) -> Next {
        if worker == Worker::Packages {
            return self.packages.take().map_or(Next::End, Next::Run);
        }
        let is_hosts = worker == Worker::Host;
        let done = |s: &Stage| self.reports.iter().any(|r| r.stage == *s);
        let is_ready = |s: &Stage| needs(*s).iter().all(|n| !selected(n) || done(n));
        if is_hosts && self.host.front().is_some_and(is_ready) {
            return self.host.pop_front().map_or(Next::Wait, Next::Run);
        }
        let ready = self.beside.iter().position(is_ready);
        match ready.and_then(|at| self.beside.remove(at)) {
            Some(stage) => Next::Run(stage),
            None if self.beside.is_empty() && (!is_hosts || self.host.is_empty()) => Next::End,
            None => Next::Wait,
        }
    }

    fn something_failed(&self) -> bool {
        self.reports.iter().any(|r| r.counts.failed > 0)
    }
}

/// Runs the selected stages.
pub fn run(
    setting: &Setting,
    selected: impl Fn(&Stage) -> bool + Sync,
    keep_going: bool,
) -> Vec<StageReport> {
    let progress = Mutex::new(Progress::new(&selected));
    let changed = Condvar::new();
    let locked = || progress.lock().unwrap_or_else(PoisonError::into_inner);
    let run = |worker: Worker| {
        loop {
            let mut now = locked();
            let stage = loop {
                match now.take(worker, &selected) {
                    Next::Run(stage) => break stage,
                    Next::Wait => now = changed.wait(now).unwrap_or_else(PoisonError::into_inner),
                    Next::End => return,
                }
            };
            let give_up = now.something_failed() && !keep_going;
            drop(now);
            let report = if give_up {
                StageReport {
                    stage,
                    took: None,
                    compiling: Duration::ZERO,
                    counts: Counts::SKIPPED,
                }
            } else {
                one(setting, stage)
            };
            locked().reports.push(report);
            changed.notify_all();
        }
    };
    std::thread::scope(|scope| {
        for worker in WORKERS {
            let run = &run;
            scope.spawn(move || run(worker));
        }
    });
    let progress = progress.into_inner();
    let mut reports = progress.unwrap_or_else(PoisonError::into_inner).reports;
    reports.sort_by_key(|r| Stage::ALL.iter().position(|s| *s == r.stage));
    reports
}

/// Runs one stage and prints its result.
fn one(setting: &Setting, stage: Stage) -> StageReport {
    let at = |what: String| {
        let since = setting.clock.elapsed().as_secs();
        format!("[{:3}:{:02}] {what}\n", since / 60, since % 60)
    };
    print!("{}", at(format!("{} …", stage.name())));
    let started = Instant::now();
    compiling::taken();
    let run = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run_stage(stage, setting)));
    let mut outcome = match run {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(e)) => could_not(format!("{e:#}")),
        Err(_) => could_not("xtask itself panicked".to_owned()),
    };
    let took = started.elapsed();
    let mut counts = outcome.counts;
    if setting.ci {
        counts = counts.strict(outcome.ignored);
    }
    if counts != outcome.counts {
        let line =
            "on a CI machine a skipped test counts as failed, unless it is ignored with a reason";
        outcome.lines.push(line.to_owned());
    }
    let verdict = verdict(counts);
    // One call, so that another worker's output does not come in between.
    let mut text = String::new();
    for line in &outcome.lines {
        text += &format!("    {line}\n");
    }
    text += &at(format!(
        "{}: {verdict} ({})",
        stage.name(),
        clock::shown(took)
    ));
    print!("{text}");
    StageReport {
        stage,
        took: Some(took),
        compiling: compiling::taken(),
        counts,
    }
}

fn could_not(why: String) -> StageOutcome {
    StageOutcome::of(Counts::FAILED, vec![why])
}

fn verdict(counts: Counts) -> &'static str {
    match counts {
        Counts { failed: 1.., .. } => "FAILED",
        Counts { passed: 0, .. } => "skipped",
        _ => "ok",
    }
}

/// Prints each stage's time, and the sum as the last line. Returns true if nothing failed.
pub fn summary(setting: &Setting, reports: &[StageReport]) -> bool {
    let mut all = Counts::default();
    println!();
    for report in reports {
        let (verdict, took) = match report.took {
            Some(took) => (verdict(report.counts), clock::shown(took)),
            None => ("not run", String::new()),
        };
        let line = format!(
            "{:<15} {verdict:<8} {took:>12}   {}",
            report.stage.name(),
            compiling::shown(report.compiling)
        );
        println!("{}", line.trim_end());
        all += report.counts;
    }
    println!(
        "in all {}; transcripts in {}",
        clock::shown(setting.clock.elapsed()),
        setting.logs.display()
    );
    println!("{all}");
    all.failed == 0
}

/// Runs a stage. An error is a failure too: the stage could not do its work.
fn run_stage(stage: Stage, setting: &Setting) -> Result<StageOutcome> {
    if stage.needs_linux() && !cfg!(target_os = "linux") {
        return Ok(StageOutcome::skipped("needs Linux"));
    }
    match stage {
        Stage::Packages => packages::run(setting),
        Stage::Check => {
            let found = check::all(&setting.workspace)?;
            let counts = match found.as_slice() {
                [] => Counts::PASSED,
                _ => Counts::FAILED,
            };
            let lines = found.iter().map(ToString::to_string).collect();
            Ok(StageOutcome::of(counts, lines))
        }
        Stage::Fmt => host::fmt(setting),
        Stage::Clippy | Stage::Docs | Stage::Build => host::run(stage, setting),
        Stage::Examples => host::examples(setting),
        Stage::Tests => suites::run(setting),
        Stage::Sqlite => sqlite::run(setting),
        Stage::Exhaustive => suites::exhaustive(setting),
        Stage::Simulation => simulation::run(setting),
        Stage::Windows => windows::run(setting),
        Stage::Macos => macos::run(setting),
        Stage::Aarch64 => aarch64::run(setting),
        Stage::Planted => simulation::planted(setting),
        Stage::Fuzz => fuzzing::run(setting),
        Stage::Benches => benches::run(setting),
        Stage::Engines => engines::run(setting),
        Stage::Interleavings => interleavings::run(setting),
        Stage::Publish => publish::run(setting),
        Stage::Dist => publish::dist(setting),
        Stage::Miri => miri::run(setting),
        Stage::Powercut => powercut::run(setting),
        Stage::ArchiveModel
        | Stage::ArchiveChaos
        | Stage::ArchiveServers
        | Stage::OpenraftKills => archive::run(stage, setting),
        Stage::SqliteSuite => sqlite_suite::run(setting),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(stage: Stage) -> StageReport {
        StageReport {
            stage,
            took: None,
            compiling: Duration::ZERO,
            counts: Counts::PASSED,
        }
    }

    #[test]
    fn every_stage_is_run_once_and_after_what_it_needs() {
        // Tests several selections, and either worker being faster.
        for (omitted, hosts_worker_first) in [
            (None, true),
            (None, false),
            (Some(Stage::Packages), true),
            (Some(Stage::Build), false),
        ] {
            let selected = |s: &Stage| Some(*s) != omitted;
            let mut progress = Progress::new(selected);
            let mut order = Vec::new();
            loop {
                let mut workers = WORKERS;
                if !hosts_worker_first {
                    workers.reverse();
                }
                let next = workers.map(|l| {
                    let next = progress.take(l, selected);
                    if let Next::Run(stage) = next {
                        progress.reports.push(report(stage));
                        order.push(stage);
                    }
                    next
                });
                if next.iter().all(|n| *n == Next::End) {
                    break;
                }
                let runs = next.iter().any(|n| matches!(n, Next::Run(_)));
                assert!(runs, "all workers wait after {order:?}");
            }
            let place = |s: &Stage| order.iter().position(|o| o == s);
            for stage in Stage::ALL.iter().filter(|s| selected(s)) {
                assert_eq!(order.iter().filter(|o| *o == stage).count(), 1, "{stage:?}");
                for before in needs(*stage).iter().filter(|s| selected(s)) {
                    assert!(place(before) < place(stage), "{order:?}");
                }
            }
            assert_eq!(progress.reports.len(), order.len());
        }
    }

    #[test]
    fn the_hosts_worker_goes_on_beside_and_waits_for_what_is_not_ready() {
        let all = |_: &Stage| true;
        let mut progress = Progress::new(all);
        let take = |progress: &mut Progress, worker| progress.take(worker, all);
        assert_eq!(
            take(&mut progress, Worker::Packages),
            Next::Run(Stage::Packages)
        );
        assert_eq!(take(&mut progress, Worker::Packages), Next::End);
        // All but four of the other stages need the packages.
        let beside = |progress: &mut Progress| take(progress, Worker::Beside);
        assert_eq!(beside(&mut progress), Next::Run(Stage::Interleavings));
        assert_eq!(beside(&mut progress), Next::Run(Stage::Planted));
        assert_eq!(beside(&mut progress), Next::Run(Stage::Dist));
        assert_eq!(beside(&mut progress), Next::Run(Stage::Miri));
        assert_eq!(beside(&mut progress), Next::Wait);
        assert_eq!(take(&mut progress, Worker::Host), Next::Run(Stage::Fmt));
        progress.host.clear();
        assert_eq!(take(&mut progress, Worker::Host), Next::Wait);
        progress.reports.push(report(Stage::Packages));
        assert_eq!(take(&mut progress, Worker::Host), Next::Run(Stage::Windows));
        progress.beside.clear();
        assert_eq!(take(&mut progress, Worker::Host), Next::End);
    }

    #[test]
    fn verdicts() {
        assert_eq!(verdict(Counts::of(5, 1, 2)), "FAILED");
        assert_eq!(verdict(Counts::of(5, 0, 2)), "ok");
        assert_eq!(verdict(Counts::SKIPPED), "skipped");
    }
}
