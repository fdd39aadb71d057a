//! `cargo xtask sim` and `cargo xtask planted`: the program of crates/sim, built and run.

use crate::workspace::{Workspace, cargo};
use anyhow::{Context, Result};
use std::process::Command;

/// Where builds with known bugs in them go, below the target folder: cargo would else compile
/// everything anew at each change of its flags.
pub const PLANTED: &str = "planted";

/// Cargo, with the known bugs compiled in.
pub fn with_bugs(workspace: &Workspace) -> Command {
    let mut command = Command::new(cargo());
    command
        .current_dir(&workspace.root)
        .env("RUSTFLAGS", "--cfg planted")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env("CARGO_TARGET_DIR", workspace.target.join(PLANTED));
    command
}

/// The seeds that found something once: lived at every change.
pub const LISTED: &str = "crates/sim/seeds.txt";

/// What cargo is to run.
pub const RUN: [&str; 6] = ["run", "--quiet", "--locked", "-p", "logforce-sim", "--"];

/// `cargo xtask sim`: random lives.
pub fn lives(words: &[String]) -> Result<bool> {
    let workspace = Workspace::find()?;
    let mut command = Command::new(cargo());
    command.current_dir(&workspace.root).args(RUN).args(words);
    ended_well(command)
}

/// `cargo xtask planted`: known bugs, looked for by random lives.
pub fn planted(words: &[String]) -> Result<bool> {
    let workspace = Workspace::find()?;
    let mut command = with_bugs(&workspace);
    command.args(RUN).arg("planted").args(words);
    ended_well(command)
}

fn ended_well(mut command: Command) -> Result<bool> {
    let status = command.status().context("cargo")?;
    Ok(status.success())
}
