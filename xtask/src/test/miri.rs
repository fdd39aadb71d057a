//! Miri: unit tests under an interpreter that finds undefined behaviour.

use super::stage::StageOutcome;
use super::{Setting, host};
use anyhow::Result;
use std::process::{Command, Stdio};

/// Runs the unit tests of the format, and those of the log that only compute.
pub fn run(setting: &Setting) -> Result<StageOutcome> {
    let mut asked = nightly(setting);
    asked.args(["miri", "--version"]);
    let asked = asked.stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !asked.is_ok_and(|status| status.success()) {
        let install = "rustup component add miri rust-src --toolchain nightly";
        return Ok(StageOutcome::skipped(format!("Miri is missing: {install}")));
    }
    let mut tests = nightly(setting);
    tests
        .args(["miri", "test", "--locked", "--lib"])
        .args(["--package", "logforce-format"])
        .args(["--package", "logforce-commit", "--package", "logforce-core"])
        .arg("--target-dir")
        .arg(setting.workspace.target.join("miri"))
        // The tests of `format` read golden files.
        .env("MIRIFLAGS", "-Zmiri-disable-isolation")
        // Millions of samples, which take hours when interpreted.
        .args(["--", "--skip", "metrics::histogram"]);
    host::tests(setting, "miri", &mut tests)
}

/// Nightly cargo, whichever toolchain runs this program.
fn nightly(setting: &Setting) -> Command {
    let mut cargo = Command::new("rustup");
    cargo
        .args(["run", "nightly", "cargo"])
        .current_dir(&setting.workspace.root)
        .env_remove("RUSTUP_TOOLCHAIN")
        .env_remove("RUSTC")
        .env("CARGO_TERM_COLOR", "never");
    cargo
}
