//! The packages that a registry gets, and the release of the command.

use super::stage::StageOutcome;
use super::{Setting, host};
use anyhow::{Context, Result};
use std::process::Command;

/// Packs the published crates. Deep: compiles each package by itself, against the others' packages.
pub fn run(setting: &Setting) -> Result<StageOutcome> {
    let mut cargo = host::cargo_command(setting);
    cargo.args(["package", "--allow-dirty", "--locked"]);
    if !setting.tier.is_deep() {
        cargo.arg("--no-verify");
    }
    for c in setting.workspace.crates.iter().filter(|c| c.is_published) {
        cargo.args(["--package", &c.name]);
    }
    host::step(setting, "publish", &mut cargo)
}

/// Makes a release of the command from the present sources. It checks the file itself.
pub fn dist(setting: &Setting) -> Result<StageOutcome> {
    let own = std::env::current_exe().context("the path of this program")?;
    let mut command = Command::new(own);
    command
        .current_dir(&setting.workspace.root)
        .args(["dist", "--trial"]);
    host::step(setting, "dist", &mut command)
}
