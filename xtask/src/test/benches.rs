//! The developers' benchmarks: they compile, and what they compare adds up.

use super::stage::StageOutcome;
use super::{Setting, host};
use crate::workspace::BENCHES;
use anyhow::Result;
use std::process::Command;

/// RocksDB alone takes longer than all the others, and needs libclang. Where Go is missing, the tests
/// of what is written in it say so and pass.
const RIVALS: [&str; 2] = ["--features", "rivals-without-rocksdb,go"];

/// Lints and tests them.
pub fn run(setting: &Setting) -> Result<StageOutcome> {
    let mut clippy = cargo(setting, "clippy");
    clippy.args(["--all-targets", "--", "-D", "warnings"]);
    let linted = host::step(setting, "benches-clippy", &mut clippy)?;
    if linted.counts.failed > 0 {
        return Ok(linted);
    }
    let mut tests = cargo(setting, "test");
    let mut outcome = host::tests(setting, "benches", tests.arg("--no-fail-fast"))?;
    outcome += linted;
    Ok(outcome)
}

/// Cargo in their workspace, with a target folder of its own: their lock file is another.
fn cargo(setting: &Setting, what: &str) -> Command {
    let mut cargo = host::cargo_command(setting);
    cargo
        .args([what, "--locked", "--manifest-path", BENCHES])
        .args(RIVALS)
        .arg("--target-dir")
        .arg(setting.workspace.target.join("benches"));
    cargo
}
