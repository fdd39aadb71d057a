//! Stage `windows`, on Debian: the Windows code is compiled and checked by clippy, and its tests run
//! under Wine.

mod wine;

use super::debian::{self, Needed};
use super::stage::StageOutcome;
use super::{Setting, host};
use anyhow::Result;
use std::process::Command;
use wine::Wine;

const TARGET: &str = "x86_64-pc-windows-gnu";

/// Files needed in addition to the toolchain.
const NEEDED: [Needed; 2] = [
    (
        "/usr/bin/x86_64-w64-mingw32-gcc",
        "gcc-mingw-w64-x86-64-posix",
    ),
    ("/usr/lib/wine/wine64", "wine64"),
];

/// Tests for a change: the suite that every backend must pass.
const CONFORMANCE: &[&str] = &["conformance::"];

/// Runs clippy (deep runs only), then the tests.
pub fn run(setting: &Setting) -> Result<StageOutcome> {
    if let Some(refused) = debian::refused("Windows", &NEEDED) {
        return Ok(refused);
    }
    let everything = [
        ("windows", debian::LINTED, &["--lib", "--bins"][..]),
        ("windows-backend", debian::BACKENDS, &["--all-targets"]),
    ];
    // For a change, only the crate whose code differs there is compiled, with the conformance suite.
    let linted = match setting.tier.is_deep() {
        true => &everything[..],
        false => &[],
    };
    let mut all = StageOutcome::default();
    for (name, crates, which) in linted {
        let mut clippy = debian::clippy(setting, TARGET, crates, which)?;
        all += host::step(setting, name, &mut clippy)?;
        if all.counts.failed > 0 {
            return Ok(all);
        }
    }
    all += tests(setting)?;
    Ok(all)
}

fn tests(setting: &Setting) -> Result<StageOutcome> {
    if !setting.tier.is_deep() {
        let wine = Wine::start(setting)?;
        let (name, which) = ("windows-conformance", ["--test", "all"]);
        return tested(setting, &wine, name, debian::BACKENDS, &which, CONFORMANCE);
    }
    // Builds everything, including the examples, which tests start and kill. `cargo build` is not used,
    // because it would compile everything again.
    let mut build = debian::cargo(setting)?;
    build.args(["test", "--no-run"]);
    compiled(setting, &mut build, debian::TESTED);
    let built = host::step(setting, "windows-build", &mut build)?;
    if built.counts.failed > 0 {
        return Ok(built);
    }
    let wine = Wine::start(setting)?;
    // Without doctests, whose programs would run on this system.
    let all = ["--lib", "--bins", "--tests", "--no-fail-fast"];
    let mut outcome = built;
    outcome += tested(setting, &wine, "windows-tests", debian::TESTED, &all, &[])?;
    outcome += tested(
        setting,
        &wine,
        "windows-simulation",
        debian::SIMULATED,
        &["--test", "simulated"],
        &RANDOM_RUNS,
    )?;
    Ok(outcome)
}

/// Tests of the simulation that are run: only the random runs. None of its tests makes a system call
/// except for threads, and the others take several times as long as everything else here.
const RANDOM_RUNS: [&str; 1] = ["runs::"];

/// Adds the arguments for programs that Wine runs.
fn compiled(setting: &Setting, cargo: &mut Command, crates: &[&str]) {
    debian::for_target(setting, cargo, TARGET, crates);
    cargo.args(debian::NOT_OPTIMISED);
    // These crates are slightly optimised: those in which a random run spends its time, and `calibrate`,
    // whose tests make thousands of decisions.
    for (krate, level) in [
        ("format", 1),
        ("device", 1),
        ("commit", 1),
        ("core", 1),
        ("testkit", 1),
        ("calibrate", 3),
    ] {
        let option = format!("profile.cross.package.logforce-{krate}.opt-level={level}");
        cargo.args(["--config", &option]);
    }
}

/// Builds these tests and runs them with Wine.
fn tested(
    setting: &Setting,
    wine: &Wine<'_>,
    name: &str,
    crates: &[&str],
    which: &[&str],
    filter: &[&str],
) -> Result<StageOutcome> {
    let mut tests = debian::cargo(setting)?;
    wine.lend(&mut tests);
    tests.arg("test");
    compiled(setting, &mut tests, crates);
    tests.args(which).arg("--").args(filter);
    host::tests(setting, name, &mut tests)
}
