//! The log's interleavings, by shuttle, and its memory orderings, by loom.
//!
//! Both want the workspace compiled with a flag of their own.

use super::debian::NOT_OPTIMISED;
use super::stage::StageOutcome;
use super::{Setting, Tier, child, counts::Counts, transcript};
use crate::flagged::cargo_with;
use anyhow::Result;

/// A checker, and the tests that it runs.
struct Checker {
    name: &'static str,
    flags: &'static str,
    tests: &'static [&'static str],
    profile: &'static [&'static str],
}

/// Known bugs are compiled in, and off unless a test turns one on.
const CHECKERS: [Checker; 2] = [
    Checker {
        name: "interleavings",
        flags: "--cfg shuttle --cfg planted",
        tests: &["-p", "logforce-sim", "--test", "interleavings"],
        // Millions of steps.
        profile: &[],
    },
    Checker {
        name: "orderings",
        flags: "--cfg loom --cfg planted",
        tests: &["-p", "logforce-core", "--lib", "loom_tests"],
        // To optimise them takes longer than they run.
        profile: &NOT_OPTIMISED,
    },
];

/// Runs them.
pub fn run(setting: &Setting) -> Result<StageOutcome> {
    let mut outcome = StageOutcome::of(Counts::default(), Vec::new());
    // The second one's parts are small and hardly change; to compile it takes a tenth of what all
    // tests of a change take.
    let checkers = match setting.tier {
        Tier::Change => &CHECKERS[..1],
        Tier::Deep { .. } => &CHECKERS[..],
    };
    for checker in checkers {
        let mut command = cargo_with(checker.flags, &setting.workspace)?;
        command
            .env("CARGO_TERM_COLOR", "never")
            .env("CARGO_TERM_PROGRESS_WHEN", "never")
            .args(["test", "--locked"])
            .args(checker.profile)
            .args(checker.tests);
        setting.tier.set_env(&mut command);
        if !setting.tier.is_deep() {
            // Some of the known bugs, others at the next commit.
            let turn = Tier::deep(&setting.workspace, None).map_or(0, Tier::from) / 1000;
            command.env("LOGFORCE_TURN", turn.to_string());
        }
        let log = setting.logs.join(format!("{}.log", checker.name));
        let ended = child::run(&mut command, &log, setting.clock.limit())?;
        let read = transcript::read(&ended.text());
        outcome.counts += read.counts(ended.ok);
        outcome.lines.extend(read.lines(ended.ok));
        if !ended.ok {
            // A schedule that fails ends the program: its last lines are the message.
            let text = ended.text();
            let from = text.find("\nFAILED ").unwrap_or(text.len());
            outcome
                .lines
                .extend(text[from..].lines().take(12).map(str::to_owned));
            outcome.lines.push(ended.how);
        }
    }
    Ok(outcome)
}
