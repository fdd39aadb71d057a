//! Random lives, and the known bugs that they and the exhaustive suites have to find.

use super::counts::Counts;
use super::stage::{Outcome, Stage};
use super::{Setting, child, host, transcript};
use crate::sim;
use anyhow::Result;
use std::process::Command;

/// Lives many lives. The program is the one that was built with the tests.
pub fn run(setting: &Setting) -> Result<Outcome> {
    let mut build = host::cargo_command(setting);
    build.args(["build", "--workspace", "--bin", "logforce-sim"]);
    build.args(["--features", host::FEATURES, "--locked"]);
    let built = host::one_command(setting, Stage::Lives, &mut build)?;
    if built.counts.failed > 0 {
        return Ok(built);
    }
    let mut lives = Command::new(host::built(setting, "logforce-sim"));
    lives.current_dir(&setting.workspace.root);
    said(setting, Stage::Lives, &mut lives)
}

/// Looks for each known bug.
pub fn planted(setting: &Setting) -> Result<Outcome> {
    let mut all = Outcome::default();
    let mut lives = sim::with_bugs(&setting.workspace);
    lives.args(sim::RUN).arg("planted");
    let mut exhaustive = sim::with_bugs(&setting.workspace);
    exhaustive.args(["test", "--quiet", "--locked", "-p", "logforce-sim"]);
    exhaustive.args(["--test", "exhaustive", "--", "planted", "--nocapture"]);
    for command in [&mut lives, &mut exhaustive] {
        let one = said(setting, Stage::Planted, command)?;
        all.counts += one.counts;
        all.lines.extend(one.lines);
    }
    Ok(all)
}

/// Runs a command that counts as one test, and shows what it says.
fn said(setting: &Setting, stage: Stage, command: &mut Command) -> Result<Outcome> {
    let log = setting.logs.join(format!("{}.log", stage.name()));
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
