//! The stages that are one call of cargo each, for the machine that runs them.

use super::counts::Counts;
use super::stage::{Stage, StageOutcome};
use super::{Setting, Tier, child, transcript};
use crate::workspace::{BENCHES, cargo};
use anyhow::Result;
use std::path::PathBuf;
use std::process::Command;

/// Cargo in the workspace, without colours: its output is read.
pub fn cargo_command(setting: &Setting) -> Command {
    let mut command = Command::new(cargo());
    command
        .current_dir(&setting.workspace.root)
        .env("CARGO_TERM_COLOR", "never")
        .env("CARGO_TERM_PROGRESS_WHEN", "never");
    command
}

/// A program that cargo built for this machine.
pub fn built(setting: &Setting, name: &str) -> PathBuf {
    let name = format!("{name}{}", std::env::consts::EXE_SUFFIX);
    setting.workspace.target.join("debug").join(name)
}

/// What is compiled of the workspace, and with which features: the same in all stages of a run, since
/// with others cargo compiles what everything depends on once more. The command is built with its
/// databases; the other systems' stages build it without.
///
/// A change leaves out the one example that is a crate of its own: what that depends on takes a
/// fifth of all compiling.
pub fn parts(tier: Tier) -> &'static [&'static str] {
    match tier {
        Tier::Change => &[
            "--workspace",
            "--exclude",
            "logforce-openraft",
            "--features",
            "logforce/tracing,logforce-databases/clients,logforce-cli/databases",
            "--locked",
        ],
        Tier::Deep { .. } => &[
            "--workspace",
            "--features",
            "logforce/tracing,logforce-databases/clients,logforce-cli/databases",
            "--locked",
        ],
    }
}

/// What is linted and documented: a change leaves out the databases, whose clients are a hundred crates
/// to look at before.
fn looked_at(tier: Tier) -> &'static [&'static str] {
    match tier {
        Tier::Change => &[
            "--workspace",
            "--exclude",
            "logforce-openraft",
            "--features",
            "logforce/tracing",
            "--locked",
        ],
        Tier::Deep { .. } => parts(tier),
    }
}

/// With these a program is built of the libraries that the tests were built with: without a test among
/// what is built, cargo leaves out the features that only tests ask for, and compiles all of them
/// again.
pub const AS_FOR_TESTS: [&str; 2] = ["--test", "exhaustive"];

/// Looks at the format of both workspaces.
pub fn fmt(setting: &Setting) -> Result<StageOutcome> {
    let mut outcome = StageOutcome::default();
    for (name, which) in [
        ("fmt", &["--all"][..]),
        ("fmt-benches", &["--manifest-path", BENCHES]),
    ] {
        let mut command = cargo_command(setting);
        command.arg("fmt").args(which);
        outcome += step(
            setting,
            name,
            command.args(["--check", "--", "--color", "never"]),
        )?;
    }
    Ok(outcome)
}

/// Runs the stage's command. Its output is shown if it failed.
pub fn run(stage: Stage, setting: &Setting) -> Result<StageOutcome> {
    let mut command = cargo_command(setting);
    let parts = parts(setting.tier);
    match stage {
        Stage::Clippy => command
            .args(["clippy", "--all-targets", "--keep-going"])
            .args(looked_at(setting.tier))
            .args(["--", "-D", "warnings"]),
        Stage::Docs => command
            .args(["doc", "--no-deps"])
            .args(looked_at(setting.tier))
            .env("RUSTDOCFLAGS", "-D warnings"),
        // As users do: without the features that are off.
        Stage::Examples => command.args(["build", "--workspace", "--examples", "--locked"]),
        _ => command.args(["test", "--no-run"]).args(parts),
    };
    one_command(setting, stage, &mut command)
}

/// A stage that is one command.
pub fn one_command(setting: &Setting, stage: Stage, command: &mut Command) -> Result<StageOutcome> {
    step(setting, &stage.name(), command)
}

/// A command that counts as one test; its output goes into the transcript of that name.
pub fn step(setting: &Setting, name: &str, command: &mut Command) -> Result<StageOutcome> {
    let log = setting.logs.join(format!("{name}.log"));
    let ended = child::run(command, &log, setting.clock.limit())?;
    if ended.ok {
        return Ok(StageOutcome::of(Counts::PASSED, Vec::new()));
    }
    let mut lines = transcript::without_progress(&ended.text());
    lines.push(ended.how);
    Ok(StageOutcome::of(Counts::FAILED, lines))
}

/// Tests that have to be there: a filter that fits nothing is content.
pub fn tests(setting: &Setting, name: &str, command: &mut Command) -> Result<StageOutcome> {
    let log = setting.logs.join(format!("{name}.log"));
    let ended = child::run(command, &log, setting.clock.limit())?;
    let read = transcript::read(&ended.text());
    let mut outcome = StageOutcome {
        counts: read.counts(ended.ok),
        lines: read.lines(ended.ok),
        ignored: read.ignored(),
    };
    if outcome.counts.passed == 0 {
        outcome.counts += Counts::FAILED;
        outcome.lines.push(format!("no test ran: {}", ended.how));
    }
    if !ended.ok {
        outcome.lines.push(ended.how);
    }
    Ok(outcome)
}
