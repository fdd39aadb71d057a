//! The order of the stages, and what is printed about them.

use super::counts::Counts;
use super::stage::{Outcome, Report, Stage};
use super::{Setting, clock};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// What runs beside each other. The machine's lane waits for the network and the disk at first; the
/// others there have target folders of their own, so that cargo's lock keeps nobody waiting.
const LANES: [&[Stage]; 2] = [
    &[
        Stage::Fmt,
        Stage::Check,
        Stage::Clippy,
        Stage::Docs,
        Stage::Build,
        Stage::Examples,
        Stage::Tests,
        Stage::Lives,
    ],
    &[
        Stage::Packages,
        Stage::Windows,
        Stage::Macos,
        Stage::Aarch64,
        Stage::Interleavings,
        Stage::Planted,
        Stage::Fuzz,
        Stage::Powercut,
    ],
];

/// What a stage waits for in the other lane.
fn needs(stage: Stage) -> Option<Stage> {
    match stage {
        Stage::Tests => Some(Stage::Packages),
        // It is compiled with the tests; cargo would keep one lane waiting for the other.
        Stage::Powercut => Some(Stage::Build),
        _ => None,
    }
}

/// What the lanes know of each other.
#[derive(Debug, Default)]
struct Progress {
    reports: Mutex<Vec<Report>>,
    changed: Condvar,
}

impl Progress {
    fn reports(&self) -> MutexGuard<'_, Vec<Report>> {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_for(&self, stage: Stage) {
        let mut reports = self.reports();
        while !reports.iter().any(|r| r.stage == stage) {
            reports = self
                .changed
                .wait(reports)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn something_failed(&self) -> bool {
        self.reports().iter().any(|r| r.counts.failed > 0)
    }

    fn add(&self, report: Report) {
        self.reports().push(report);
        self.changed.notify_all();
    }
}

/// Runs the selected stages.
pub fn run(
    setting: &Setting,
    selected: impl Fn(&Stage) -> bool + Sync,
    keep_going: bool,
) -> Vec<Report> {
    let progress = Progress::default();
    let lane = |stages: &[Stage]| {
        for &stage in stages.iter().filter(|s| selected(s)) {
            if let Some(other) = needs(stage).filter(&selected) {
                progress.wait_for(other);
            }
            let report = if progress.something_failed() && !keep_going {
                Report {
                    stage,
                    took: None,
                    counts: Counts::SKIPPED,
                }
            } else {
                one(setting, stage)
            };
            progress.add(report);
        }
    };
    let lane = &lane;
    std::thread::scope(|scope| {
        for stages in LANES {
            scope.spawn(move || lane(stages));
        }
    });
    let mut reports = progress
        .reports
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    reports.sort_by_key(|r| Stage::ALL.iter().position(|s| *s == r.stage));
    reports
}

/// Runs one stage and prints how it went.
fn one(setting: &Setting, stage: Stage) -> Report {
    let at = |what: String| {
        let since = setting.clock.elapsed().as_secs();
        format!("[{:3}:{:02}] {what}\n", since / 60, since % 60)
    };
    print!("{}", at(format!("{} …", stage.name())));
    let started = Instant::now();
    let run = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| stage.run(setting)));
    let mut outcome = match run {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(e)) => could_not(format!("{e:#}")),
        Err(_) => could_not("xtask itself panicked".to_owned()),
    };
    let took = started.elapsed();
    let mut counts = outcome.counts;
    if setting.ci {
        counts = counts.strict(outcome.excused);
    }
    if counts != outcome.counts {
        let line = "on a CI machine what is skipped has failed, unless it is excused";
        outcome.lines.push(line.to_owned());
    }
    let verdict = verdict(counts);
    // One call, so that the other lane prints nothing in between.
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
    Report {
        stage,
        took: Some(took),
        counts,
    }
}

fn could_not(why: String) -> Outcome {
    Outcome::of(Counts::FAILED, vec![why])
}

fn verdict(counts: Counts) -> &'static str {
    match counts {
        Counts { failed: 1.., .. } => "FAILED",
        Counts { passed: 0, .. } => "skipped",
        _ => "ok",
    }
}

/// Prints each stage's time, and the sum as the last line. True if nothing failed.
pub fn summary(setting: &Setting, reports: &[Report]) -> bool {
    let mut all = Counts::default();
    println!();
    for report in reports {
        let (verdict, took) = match report.took {
            Some(took) => (verdict(report.counts), clock::shown(took)),
            None => ("not run", String::new()),
        };
        println!("{:<13} {verdict:<8} {took:>12}", report.stage.name());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stage_is_in_one_lane_and_none_waits_for_its_own() {
        for stage in Stage::ALL {
            let lanes = LANES.iter().filter(|l| l.contains(&stage)).count();
            assert_eq!(lanes, 1, "{stage:?}");
            for lane in LANES.iter().filter(|l| l.contains(&stage)) {
                assert!(needs(stage).is_none_or(|other| !lane.contains(&other)));
            }
        }
    }

    #[test]
    fn verdicts() {
        assert_eq!(verdict(Counts::of(5, 1, 2)), "FAILED");
        assert_eq!(verdict(Counts::of(5, 0, 2)), "ok");
        assert_eq!(verdict(Counts::SKIPPED), "skipped");
    }
}
