//! The log's interleavings, by shuttle, and its memory orderings, by loom.
//!
//! Both need the workspace compiled with a special flag.

use super::debian::NOT_OPTIMISED;
use super::stage::StageOutcome;
use super::{Setting, Tier, child, counts::Counts, transcript};
use crate::flagged::cargo_with;
use anyhow::Result;

/// A checker and its tests.
struct Checker {
    name: &'static str,
    flags: &'static str,
    tests: &'static [&'static str],
    profile: &'static [&'static str],
}

/// Checkers. Known bugs are compiled in, and off unless a test turns one on.
const CHECKERS: [Checker; 2] = [
    Checker {
        name: "interleavings",
        flags: "--cfg shuttle --cfg planted",
        tests: &["-p", "logforce-sim", "--test", "interleavings"],
        // The tests take millions of steps, so they are optimised.
        profile: &[],
    },
    Checker {
        name: "orderings",
        flags: "--cfg loom --cfg planted",
        tests: &["-p", "logforce-commit", "--lib", "loom_tests"],
        // Optimising them would take longer than they run.
        profile: &NOT_OPTIMISED,
    },
];

/// Runs the checkers of the tier.
pub fn run(setting: &Setting) -> Result<StageOutcome> {
    let mut outcome = StageOutcome::of(Counts::default(), Vec::new());
    // The code under loom is small and hardly changes. Compiling it takes a tenth of the time of all
    // tests of a change.
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
            // Tests some of the known bugs; the next commit tests others.
            command.env("LOGFORCE_TURN", setting.turn.to_string());
        }
        let log = setting.logs.join(format!("{}.log", checker.name));
        let ended = child::run(&mut command, &log, setting.clock.limit())?;
        let read = transcript::read(&ended.text());
        outcome.counts += read.counts(ended.ok);
        outcome.lines.extend(read.lines(ended.ok));
        if !ended.ok {
            // A failing schedule ends the program; its last lines are the message.
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
