//! Stage `benches`: the developers' benchmarks compile, and their tests pass.

use super::stage::StageOutcome;
use super::{Setting, host};
use crate::workspace::BENCHES;
use anyhow::Result;
use std::process::Command;

/// Features of the rivals. RocksDB is left out: it compiles longer than all the others together, and
/// needs libclang. Without Go, the tests of the Go programs report that they were skipped.
const RIVALS: [&str; 2] = ["--features", "rivals-without-rocksdb,engines,go"];

/// Lints and tests the benchmarks.
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

/// Returns a cargo command in the benchmarks' workspace. It has a separate target folder, because its
/// lock file differs.
fn cargo(setting: &Setting, what: &str) -> Command {
    let mut cargo = host::cargo_command(setting);
    cargo
        .args([what, "--locked", "--manifest-path", BENCHES])
        .args(RIVALS)
        .arg("--target-dir")
        .arg(setting.workspace.target.join("benches"));
    cargo
}
