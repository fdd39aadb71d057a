//! Stages of the archive and of the log store for openraft that take minutes: larger bounds of the model, chaos on
//! many rounds, chaos on real servers, and kills.

use super::counts::Counts;
use super::stage::{Stage, StageOutcome};
use super::{Setting, host, packages};
use anyhow::Result;
use std::process::Command;

/// Real servers of the S3 protocol: module and version for Go, and the program.
const SERVERS: [(&str, &str); 2] = [
    (
        "github.com/versity/versitygw/cmd/versitygw@v1.8.0",
        "versitygw",
    ),
    (
        "github.com/minio/minio@v0.0.0-20260212201848-7aac2a2c5b7c",
        "minio",
    ),
];

/// Runs a stage whose tests are ignored in every change.
pub fn run(stage: Stage, setting: &Setting) -> Result<StageOutcome> {
    match stage {
        Stage::ArchiveModel => {
            // The search takes a quarter of the time, and every change would compile longer than it searches.
            let optimised = "profile.dev.package.logforce-archive.opt-level=3";
            let programs = ["--lib", "--config", optimised];
            ignored(setting, stage, &programs, &["model::"], &[])
        }
        Stage::ArchiveChaos => ignored(setting, stage, &["--test", "chaos"], &["rounds"], &[]),
        Stage::OpenraftKills => {
            let programs = ["--test", "kills", "--test", "cluster"];
            ignored(setting, stage, &programs, &["lose_nothing"], &[])
        }
        _ => servers(setting, stage),
    }
}

/// Runs chaos on real servers. Builds those for which Go is here.
fn servers(setting: &Setting, stage: Stage) -> Result<StageOutcome> {
    if !packages::is_there("go") {
        return Ok(StageOutcome::skipped("the servers need Go"));
    }
    let bin = setting.workspace.target.join("go");
    let mut outcome = StageOutcome::default();
    let mut tests = Vec::new();
    let mut variables = Vec::new();
    for (module, name) in SERVERS {
        let mut install = Command::new("go");
        install.args(["install", module]).env("GOBIN", &bin);
        outcome += host::step(setting, &format!("{}-{name}", stage.name()), &mut install)?;
        tests.push(format!("on_{name}"));
        variables.push((name.to_uppercase(), bin.join(name)));
    }
    if outcome.counts.failed > 0 {
        return Ok(outcome);
    }
    // A build is not a test.
    outcome.counts = Counts::default();
    let tests: Vec<&str> = tests.iter().map(String::as_str).collect();
    outcome += ignored(setting, stage, &["--test", "chaos"], &tests, &variables)?;
    Ok(outcome)
}

/// Runs ignored tests, one after the other: each uses all processors.
fn ignored(
    setting: &Setting,
    stage: Stage,
    programs: &[&str],
    names: &[&str],
    variables: &[(String, std::path::PathBuf)],
) -> Result<StageOutcome> {
    let mut tests = host::cargo_command(setting);
    tests
        .arg("test")
        .args(host::parts(setting.tier))
        .args(programs)
        .args(["--", "--ignored", "--nocapture", "--test-threads", "1"])
        .args(names)
        .envs(variables.iter().cloned());
    host::tests(setting, &stage.name(), &mut tests)
}
