//! The Windows code, compiled on a Debian, looked over by clippy, and its tests run under Wine.
//!
//! rustup's toolchain has no library for that target unless it downloads it; Debian's packages
//! bring the compiler, the sources of its library, and the linker. They stand beside rustup's and
//! share nothing with it, the target folder included.

mod wine;

use super::counts::Counts;
use super::stage::{Outcome, Stage};
use super::{Setting, child, excuses, host, transcript};
use anyhow::Result;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use wine::Wine;

const TARGET: &str = "x86_64-pc-windows-gnu";

/// The crates that have to compile there without a warning, tests included.
const CRATES: [&str; 10] = [
    "logforce-format",
    "logforce-device",
    "logforce-device-os",
    "logforce-core",
    "logforce-calibrate",
    "logforce-testkit",
    "logforce-sim",
    "logforce",
    "logforce-measure",
    "logforce-cli",
];

/// Those whose tests are run. Not the simulation: it makes no call of the system but to its threads,
/// and under Wine its exhaustive suites take several times as long as everything else here.
const TESTED: [&str; 9] = [
    "logforce-format",
    "logforce-device",
    "logforce-device-os",
    "logforce-core",
    "logforce-calibrate",
    "logforce-testkit",
    "logforce",
    "logforce-measure",
    "logforce-cli",
];

/// What has to be there, and the package that brings it.
const NEEDED: [(&str, &str); 6] = [
    ("/usr/bin/rustc", "rustc-web"),
    ("/usr/bin/cargo", "cargo-web"),
    ("/usr/bin/cargo-clippy", "rust-web-clippy"),
    (
        "/usr/lib/rustlib/src/rust/library/std/Cargo.toml",
        "rust-web-src",
    ),
    (
        "/usr/bin/x86_64-w64-mingw32-gcc",
        "gcc-mingw-w64-x86-64-posix",
    ),
    ("/usr/lib/wine/wine64", "wine64"),
];

/// The packages that are one compiler: of one version, or the library does not compile.
const ONE_VERSION: [&str; 4] = ["rustc-web", "cargo-web", "rust-web-clippy", "rust-web-src"];

/// Variables that would bring rustup's toolchain in.
const NOT_FOR_DEBIAN: [&str; 9] = [
    "RUSTUP_TOOLCHAIN",
    "CARGO",
    "RUSTC_WRAPPER",
    "RUSTC_WORKSPACE_WRAPPER",
    "RUSTFLAGS",
    "CARGO_ENCODED_RUSTFLAGS",
    "CARGO_BUILD_TARGET",
    "LD_LIBRARY_PATH",
    "CARGO_TARGET_DIR",
];

/// A test program under Wine may hang; all of them together take a fraction of this.
const TESTS: Duration = Duration::from_secs(20 * 60);

/// Clippy, then the tests.
pub fn run(setting: &Setting) -> Result<Outcome> {
    let missing: Vec<&str> = NEEDED
        .iter()
        .filter(|(path, _)| !Path::new(path).exists())
        .map(|(_, package)| *package)
        .collect();
    if !missing.is_empty() {
        return Ok(Outcome::skipped(format!(
            "the Windows code needs {}",
            missing.join(" ")
        )));
    }
    if let Some(differ) = versions_differ() {
        return Ok(Outcome::of(Counts::FAILED, vec![differ]));
    }
    let mut clippy = debian(setting, "/usr/bin/cargo-clippy");
    clippy.arg("clippy");
    with_crates(setting, &mut clippy, &CRATES);
    clippy.args(["--all-targets", "--", "-D", "warnings"]);
    // On this target it does not see that the value is one already.
    clippy.args(["-A", "clippy::missing-const-for-thread-local"]);
    let mut all = host::one_command(setting, Stage::Windows, &mut clippy)?;
    if all.counts.failed > 0 {
        return Ok(all);
    }
    let tested = tests(setting)?;
    all.counts += tested.counts;
    all.lines.extend(tested.lines);
    all.excused += tested.excused;
    Ok(all)
}

fn tests(setting: &Setting) -> Result<Outcome> {
    let wine = Wine::start(setting)?;
    let mut tests = debian(setting, "/usr/bin/cargo");
    wine.lend(&mut tests);
    tests.arg("test");
    with_crates(setting, &mut tests, &TESTED);
    // No documentation's tests: their programs would be run by this system.
    tests.args(["--lib", "--bins", "--tests", "--no-fail-fast"]);
    tests.args(["--", "--show-output"]);
    let log = setting.logs.join("windows-tests.log");
    let ended = child::run(&mut tests, &log, TESTS.min(setting.clock.limit()))?;
    let read = transcript::read(&ended.text());
    let mut outcome = Outcome {
        counts: read.counts(ended.ok),
        lines: read.lines(ended.ok),
        excused: read.excused(excuses::EXCUSES),
    };
    if !ended.ok {
        outcome.lines.push(ended.how);
    }
    Ok(outcome)
}

/// A program of Debian's toolchain, in the workspace.
fn debian(setting: &Setting, program: &str) -> Command {
    let mut command = Command::new(program);
    command.current_dir(&setting.workspace.root);
    for variable in NOT_FOR_DEBIAN {
        command.env_remove(variable);
    }
    command
        .env("RUSTC", "/usr/bin/rustc")
        .env("RUSTDOC", "/usr/bin/rustdoc")
        // Clippy starts the cargo that this names.
        .env("CARGO", "/usr/bin/cargo")
        // The flag that builds the library is for nightly compilers only.
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_INCREMENTAL", "0")
        .env("CARGO_TERM_COLOR", "never")
        .env("CARGO_TERM_PROGRESS_WHEN", "never");
    command
}

fn with_crates(setting: &Setting, command: &mut Command, crates: &[&str]) {
    command
        .args(["-Zbuild-std", "--target", TARGET])
        .args(crates.iter().flat_map(|c| ["-p", c]))
        .args(["--locked", "--target-dir"])
        .arg(setting.workspace.target.join("windows"));
}

/// Says so if compiler and sources are not of one version.
fn versions_differ() -> Option<String> {
    let out = Command::new("dpkg-query")
        .args(["-W", "-f", "${Package} ${Version}\n"])
        .args(ONE_VERSION)
        .output()
        .ok()?;
    not_one(&String::from_utf8_lossy(&out.stdout))
}

fn not_one(listed: &str) -> Option<String> {
    let mut versions: Vec<&str> = listed.lines().filter_map(|l| l.split(' ').nth(1)).collect();
    versions.dedup();
    (versions.len() > 1).then(|| {
        let list = listed.lines().collect::<Vec<_>>().join(", ");
        format!("these packages have to be of one version: {list}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared() {
        assert_eq!(not_one("rustc-web 1.96.0\nrust-web-src 1.96.0\n"), None);
        let differ = not_one("rustc-web 1.96.0\nrust-web-src 1.97.0\n").unwrap();
        assert!(differ.contains("rust-web-src 1.97.0"), "{differ}");
    }
}
