//! `cargo xtask powercut`: the program of crates/powercut, built and run.

use crate::workspace::{Workspace, cargo};
use anyhow::{Context, Result};
use std::process::Command;

/// Builds it and passes the words on.
pub fn command(words: &[&str]) -> Result<bool> {
    let workspace = Workspace::find()?;
    let mut command = Command::new(cargo());
    command
        .current_dir(&workspace.root)
        .args([
            "run",
            "--quiet",
            "--locked",
            "-p",
            "logforce-powercut",
            "--",
        ])
        .args(if words.is_empty() { &["suite"] } else { words });
    let status = command.status().context("cargo")?;
    Ok(status.success())
}
