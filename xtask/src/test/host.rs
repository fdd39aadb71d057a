//! Stages that are one call of cargo each, on this machine.

use super::counts::Counts;
use super::stage::{Stage, StageOutcome};
use super::{Setting, Tier, child, transcript};
use crate::workspace::{BENCHES, cargo};
use anyhow::Result;
use std::path::PathBuf;
use std::process::Command;

/// Returns a cargo command in the workspace. It prints no colours, because its output is parsed.
pub fn cargo_command(setting: &Setting) -> Command {
    let mut command = Command::new(cargo());
    command
        .current_dir(&setting.workspace.root)
        .env("CARGO_TERM_COLOR", "never")
        .env("CARGO_TERM_PROGRESS_WHEN", "never");
    command
}

/// Returns the path of a program that cargo built for this machine.
pub fn built(setting: &Setting, name: &str) -> PathBuf {
    let name = format!("{name}{}", std::env::consts::EXE_SUFFIX);
    setting.workspace.target.join("debug").join(name)
}

/// Returns the crates and features that are compiled. They are the same in all stages of a run: with
/// other features, cargo would compile the common dependencies again. The command is built with its
/// databases and archives; the stages of other systems build it without.
///
/// The tier `change` leaves out the log store for openraft: its dependencies take a fifth of the compile
/// time.
pub fn parts(tier: Tier) -> &'static [&'static str] {
    match tier {
        Tier::Change => &[
            "--workspace",
            "--exclude",
            "logforce-openraft",
            "--features",
            "logforce/tracing,logforce-databases/clients,logforce-cli/databases,logforce-cli/archive",
            "--locked",
        ],
        Tier::Deep { .. } => &[
            "--workspace",
            "--features",
            "logforce/tracing,logforce-databases/clients,logforce-cli/databases,logforce-cli/archive,\
             logforce-openraft/openraft-010",
            "--locked",
        ],
    }
}

/// Returns the crates that are linted and documented. The tier `change` leaves out the databases: their
/// clients have a hundred dependencies that would have to be checked first.
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

/// Arguments with which a program uses the same libraries as the tests. Without a test among the
/// targets, cargo leaves out the features that only tests need, and compiles all libraries again.
pub const AS_FOR_TESTS: [&str; 2] = ["--test", "exhaustive"];

/// Manifest of the example with SlateDB. It doubles the packages, so it is outside the workspace.
const SLATEDB: &str = "examples/slatedb/Cargo.toml";

/// Checks the formatting of all workspaces.
pub fn fmt(setting: &Setting) -> Result<StageOutcome> {
    let mut outcome = StageOutcome::default();
    for (name, which) in [
        ("fmt", &["--all"][..]),
        ("fmt-benches", &["--manifest-path", BENCHES]),
        ("fmt-slatedb", &["--manifest-path", SLATEDB]),
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
        // As users build them: with default features.
        Stage::Examples => command.args(["build", "--workspace", "--examples", "--locked"]),
        _ => command.args(["test", "--no-run"]).args(parts),
    };
    one_command(setting, stage, &mut command)
}

/// Compiles the examples, and tests the one outside the workspace.
pub fn examples(setting: &Setting) -> Result<StageOutcome> {
    let mut outcome = run(Stage::Examples, setting)?;
    let mut slatedb = cargo_command(setting);
    slatedb.args(["test", "--locked", "--manifest-path", SLATEDB]);
    outcome += tests(setting, "examples-slatedb", &mut slatedb)?;
    Ok(outcome)
}

/// Runs a stage that is one command.
pub fn one_command(setting: &Setting, stage: Stage, command: &mut Command) -> Result<StageOutcome> {
    step(setting, &stage.name(), command)
}

/// Runs a command that counts as one test. Its output goes to the transcript `name`.
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

/// Runs tests, and fails if no test ran, because cargo accepts a filter that matches nothing.
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
