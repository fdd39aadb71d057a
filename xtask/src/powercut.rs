//! `cargo xtask powercut`: the program of crates/powercut, built and run.

use crate::flagged::{KNOWN_BUGS, cargo_with};
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

/// Builds the program and passes the words on. With `planted`, the known bugs are compiled in.
pub fn command(words: &[String]) -> Result<bool> {
    let workspace = Workspace::find()?;
    let cargo = || match words.first().map(String::as_str) {
        Some("planted") => cargo_with(KNOWN_BUGS, &workspace),
        _ => Ok(Command::new(cargo())),
    };
    // The program's test of the `logforce` command needs that command in the same directory.
    let mut build = cargo()?;
    build
        .current_dir(&workspace.root)
        .args(["build", "--quiet", "--locked", "-p", "logforce-cli"]);
    if !build.status().context("cargo")?.success() {
        return Ok(false);
    }
    let mut command = cargo()?;
    command.current_dir(&workspace.root).args(RUN);
    if words.is_empty() {
        command.arg("suite");
    }
    command.args(words);
    let status = command.status().context("cargo")?;
    Ok(status.success())
}
