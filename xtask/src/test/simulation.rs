//! Stages `simulation` (random runs) and `planted` (known bugs that the suites must find).

use super::counts::Counts;
use super::stage::{Stage, StageOutcome};
use super::{Setting, Tier, child, host, transcript};
use crate::flagged::{KNOWN_BUGS, cargo_with};
use crate::sim;
use anyhow::Result;
use std::process::Command;

/// Number of random runs for every change; with the listed seeds they find all known bugs.
const EVERY_CHANGE: &str = "300";
/// Number of random runs of a deep run.
const DEEP: &str = "10000";

/// Runs random tests with the program that was built with the tests.
pub fn run(setting: &Setting) -> Result<StageOutcome> {
    let mut build = host::cargo_command(setting);
    build.args(["build", "--bin", "logforce-sim"]);
    build.args(host::AS_FOR_TESTS);
    build.args(host::parts(setting.tier));
    let built = host::one_command(setting, Stage::Simulation, &mut build)?;
    if built.counts.failed > 0 {
        return Ok(built);
    }
    let count = match setting.tier {
        Tier::Change => EVERY_CHANGE,
        Tier::Deep { .. } => DEEP,
    };
    let mut all = StageOutcome::default();
    for subject in sim::SUBJECTS {
        let mut runs = Command::new(host::built(setting, "logforce-sim"));
        runs.current_dir(&setting.workspace.root);
        runs.args(subject.words);
        runs.args(["--listed", subject.listed]);
        runs.args(["--seeds", count]);
        runs.args(["--from", &setting.tier.from().to_string()]);
        all += one_test(setting, &format!("simulation-{}", subject.name), &mut runs)?;
    }
    Ok(all)
}

/// Searches for each known bug.
pub fn planted(setting: &Setting) -> Result<StageOutcome> {
    let mut build = cargo_with(KNOWN_BUGS, &setting.workspace)?;
    build.args(["build", "--locked", "-p", "logforce-sim"]);
    build.args(["--bin", "logforce-sim"]);
    let mut all = host::step(setting, "planted-build", &mut build)?;
    if all.counts.failed > 0 {
        return Ok(all);
    }
    let mut runs = cargo_with(KNOWN_BUGS, &setting.workspace)?;
    runs.args(sim::RUN).args(["--", "planted"]);
    let mut exhaustive = cargo_with(KNOWN_BUGS, &setting.workspace)?;
    exhaustive.args(["test", "--quiet", "--locked", "-p", "logforce-sim"]);
    exhaustive.args(["--test", "exhaustive", "--", "planted", "--nocapture"]);
    let mut pages = cargo_with(KNOWN_BUGS, &setting.workspace)?;
    pages.args(["test", "--quiet", "--locked", "-p", "logforce-pages"]);
    pages.args(["--test", "all", "--", "planted", "--nocapture"]);
    let mut sqlite = cargo_with(KNOWN_BUGS, &setting.workspace)?;
    sqlite.args(["test", "--quiet", "--locked", "-p", "logforce-sqlite"]);
    sqlite.args(["--lib", "--test", "all", "--", "planted", "--nocapture"]);
    let mut archive = cargo_with(KNOWN_BUGS, &setting.workspace)?;
    archive.args(["test", "--quiet", "--locked", "-p", "logforce-archive"]);
    archive.args(["--features", "s3", "--test", "chaos", "--", "planted"]);
    archive.arg("--nocapture");
    let mut commands = vec![
        ("planted-archive", archive),
        ("planted", runs),
        ("planted-exhaustive", exhaustive),
        ("planted-pages", pages),
        ("planted-sqlite", sqlite),
    ];
    // These two print what this machine lacks.
    for (log, words) in [
        ("planted-fuzz", ["fuzz", "--planted"]),
        ("planted-powercut", ["powercut", "planted"]),
    ] {
        let mut own = Command::new(std::env::current_exe()?);
        own.current_dir(&setting.workspace.root).args(words);
        commands.push((log, own));
    }
    for (log, command) in &mut commands {
        all += one_test(setting, log, command)?;
    }
    Ok(all)
}

/// Runs a command that counts as one test, and shows its output. Its transcript is named `name`.
fn one_test(setting: &Setting, name: &str, command: &mut Command) -> Result<StageOutcome> {
    let log = setting.logs.join(format!("{name}.log"));
    let ended = child::run(command, &log, setting.clock.limit())?;
    let mut lines = transcript::without_progress(&ended.text());
    if !ended.ok {
        lines.push(ended.how);
    }
    let counts = if ended.ok {
        Counts::PASSED
    } else {
        Counts::FAILED
    };
    Ok(StageOutcome::of(counts, lines))
}
