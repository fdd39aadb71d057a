//! The stages that are one call of cargo each, for the machine that runs them.

use super::counts::Counts;
use super::stage::{Outcome, Stage};
use super::{Setting, child, transcript};
use crate::workspace::cargo;
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

/// What is off by default and tested all the same; the examples are built without.
pub const FEATURES: &str = "logforce/tracing";

/// Runs the stage's command. Its output is shown if it failed.
pub fn run(stage: Stage, setting: &Setting) -> Result<Outcome> {
    let words: &[&str] = match stage {
        Stage::Fmt => &["fmt", "--all", "--check", "--", "--color", "never"],
        Stage::Clippy => &[
            "clippy",
            "--workspace",
            "--all-targets",
            "--features",
            FEATURES,
            "--locked",
            "--keep-going",
            "--",
            "-D",
            "warnings",
        ],
        Stage::Docs => &["doc", "--workspace", "--no-deps", "--locked"],
        Stage::Examples => &["build", "--workspace", "--examples", "--locked"],
        _ => &[
            "test",
            "--workspace",
            "--features",
            FEATURES,
            "--no-run",
            "--locked",
        ],
    };
    let mut command = cargo_command(setting);
    command.args(words);
    if stage == Stage::Docs {
        command.env("RUSTDOCFLAGS", "-D warnings");
    }
    one_command(setting, stage, &mut command)
}

/// A stage that is one command.
pub fn one_command(setting: &Setting, stage: Stage, command: &mut Command) -> Result<Outcome> {
    step(setting, stage.name(), command)
}

/// A command that counts as one test; its output goes into the transcript of that name.
pub fn step(setting: &Setting, name: &str, command: &mut Command) -> Result<Outcome> {
    let log = setting.logs.join(format!("{name}.log"));
    let ended = child::run(command, &log, setting.clock.limit())?;
    if ended.ok {
        return Ok(Outcome::of(Counts::PASSED, Vec::new()));
    }
    let mut lines = transcript::without_progress(&ended.text());
    lines.push(ended.how);
    Ok(Outcome::of(Counts::FAILED, lines))
}
