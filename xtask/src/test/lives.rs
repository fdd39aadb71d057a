//! Random lives, and the known bugs that they and the exhaustive suites have to find.

use super::counts::Counts;
use super::stage::{Outcome, Stage};
use super::{Setting, Tier, child, host, transcript};
use crate::sim;
use anyhow::Result;
use std::process::Command;

/// How many random runs every change is tested with: nobody of the known bugs needs more.
const OF_A_CHANGE: &str = "300";
/// How many a deep run makes.
const DEEP: &str = "10000";

/// Lives many lives. The program is the one that was built with the tests.
pub fn run(setting: &Setting) -> Result<Outcome> {
    let mut build = host::cargo_command(setting);
    build.args(["build", "--bin", "logforce-sim"]);
    build.args(host::parts(setting.tier));
    let built = host::one_command(setting, Stage::Lives, &mut build)?;
    if built.counts.failed > 0 {
        return Ok(built);
    }
    let mut lives = Command::new(host::built(setting, "logforce-sim"));
    lives.current_dir(&setting.workspace.root);
    lives.args(["--listed", sim::LISTED]);
    let count = match setting.tier {
        Tier::Change => OF_A_CHANGE,
        Tier::Deep { .. } => DEEP,
    };
    lives.args(["--seeds", count]);
    lives.args(["--from", &setting.tier.from().to_string()]);
    said(setting, "lives", &mut lives)
}

/// Looks for each known bug.
pub fn planted(setting: &Setting) -> Result<Outcome> {
    let mut build = sim::with_bugs(&setting.workspace);
    build.args([
        "build",
        "--locked",
        "-p",
        "logforce-sim",
        "--bin",
        "logforce-sim",
    ]);
    let mut all = host::step(setting, "planted-build", &mut build)?;
    if all.counts.failed > 0 {
        return Ok(all);
    }
    let mut lives = sim::with_bugs(&setting.workspace);
    lives.args(sim::RUN).arg("planted");
    if !setting.tier.is_deep() {
        all += said(setting, "planted", &mut lives)?;
        return Ok(all);
    }
    let mut exhaustive = sim::with_bugs(&setting.workspace);
    exhaustive.args(["test", "--quiet", "--locked", "-p", "logforce-sim"]);
    exhaustive.args(["--test", "exhaustive", "--", "planted", "--nocapture"]);
    let mut commands = vec![("planted", lives), ("planted-exhaustive", exhaustive)];
    // What they lack here they say themselves.
    for (log, words) in [
        ("planted-fuzz", ["fuzz", "--planted"]),
        ("planted-powercut", ["powercut", "planted"]),
    ] {
        let mut own = Command::new(std::env::current_exe()?);
        own.current_dir(&setting.workspace.root).args(words);
        commands.push((log, own));
    }
    for (log, command) in &mut commands {
        all += said(setting, log, command)?;
    }
    Ok(all)
}

/// Runs a command that counts as one test, and shows what it says; its transcript is called `name`.
fn said(setting: &Setting, name: &str, command: &mut Command) -> Result<Outcome> {
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
    Ok(Outcome::of(counts, lines))
}
