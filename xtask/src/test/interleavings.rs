//! The log's interleavings, by shuttle, and its memory orderings, by loom.
//!
//! Both want the workspace compiled with a flag of their own, so each has a target folder of its
//! own: it neither waits for another worker's cargo nor makes that compile again.

use super::stage::Outcome;
use super::{Setting, Tier, child, counts::Counts, host, transcript};
use anyhow::Result;

/// A checker, and the tests that it runs.
struct Checker {
    name: &'static str,
    flags: &'static str,
    tests: &'static [&'static str],
}

/// Known bugs are compiled in, and off unless a test turns one on.
const CHECKERS: [Checker; 2] = [
    Checker {
        name: "interleavings",
        flags: "--cfg shuttle --cfg planted",
        tests: &["-p", "logforce-sim", "--test", "interleavings"],
    },
    Checker {
        name: "orderings",
        flags: "--cfg loom --cfg planted",
        tests: &["-p", "logforce-core", "--lib", "loom_tests"],
    },
];

/// Runs both.
pub fn run(setting: &Setting) -> Result<Outcome> {
    let mut outcome = Outcome::of(Counts::default(), Vec::new());
    for checker in &CHECKERS {
        let mut command = host::cargo_command(setting);
        command
            .arg("test")
            .args(checker.tests)
            .args(["--locked", "--target-dir"])
            .arg(setting.workspace.target.join(checker.name))
            .env("RUSTFLAGS", checker.flags)
            .env_remove("CARGO_ENCODED_RUSTFLAGS");
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
