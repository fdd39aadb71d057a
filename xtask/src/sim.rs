//! `cargo xtask sim` and `cargo xtask planted`: the program of crates/sim, built and run.

use crate::flagged::{KNOWN_BUGS, cargo_with};
use crate::workspace::{Workspace, cargo};
use anyhow::{Context, Result};
use std::process::Command;

/// Subject of random runs.
pub struct Subject {
    /// Name, used for transcripts.
    pub name: &'static str,
    /// Arguments of the program that select it.
    pub words: &'static [&'static str],
    /// File with the seeds that once found a bug; every change runs them again.
    pub listed: &'static str,
}

/// Subjects: the log, the page file and durable files.
pub const SUBJECTS: [Subject; 3] = [
    Subject {
        name: "runs",
        words: &[],
        listed: "crates/sim/seeds.txt",
    },
    Subject {
        name: "page-runs",
        words: &["--pages"],
        listed: "crates/sim/page-seeds.txt",
    },
    Subject {
        name: "file-runs",
        words: &["--files"],
        listed: "crates/sim/file-seeds.txt",
    },
];

/// Arguments of cargo that run the program; its own arguments follow a `--`.
pub const RUN: [&str; 5] = ["run", "--quiet", "--locked", "-p", "logforce-sim"];

/// `cargo xtask sim`: random runs.
pub fn runs(words: &[String]) -> Result<bool> {
    let workspace = Workspace::find()?;
    let mut command = Command::new(cargo());
    command.current_dir(&workspace.root);
    command.args(RUN).arg("--").args(words);
    ended_well(command)
}

/// `cargo xtask planted`: random runs search for known bugs.
pub fn planted(words: &[String]) -> Result<bool> {
    let workspace = Workspace::find()?;
    let mut command = cargo_with(KNOWN_BUGS, &workspace)?;
    command.args(RUN).args(["--", "planted"]).args(words);
    ended_well(command)
}

fn ended_well(mut command: Command) -> Result<bool> {
    let status = command.status().context("cargo")?;
    Ok(status.success())
}
