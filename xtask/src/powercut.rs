//! `cargo xtask powercut`: the program of crates/powercut, built and run.

use crate::sim;
use crate::workspace::{Workspace, cargo};
use anyhow::{Context, Result};
use std::process::Command;

const RUN: [&str; 6] = [
    "run",
    "--quiet",
    "--locked",
    "-p",
    "logforce-powercut",
    "--",
];

/// Builds it and passes the words on. With `planted` the known bugs are compiled in.
pub fn command(words: &[&str]) -> Result<bool> {
    let workspace = Workspace::find()?;
    let mut command = match words.first() {
        Some(&"planted") => sim::with_bugs(&workspace),
        _ => Command::new(cargo()),
    };
    command.current_dir(&workspace.root).args(RUN);
    command.args(if words.is_empty() { &["suite"] } else { words });
    let status = command.status().context("cargo")?;
    Ok(status.success())
}
