//! The packages that a registry gets.

use super::stage::StageOutcome;
use super::{Setting, host};
use anyhow::Result;

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
