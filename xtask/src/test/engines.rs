//! Stage `engines`: crash tests of storage engines. Sound ones survive; of weak ones the loss is found, and its cause.

use super::counts::Counts;
use super::stage::{Stage, StageOutcome};
use super::{Setting, child, host, leaks};
use crate::workspace::BENCHES;
use anyhow::{Context, Result};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Result that a crash test of a mode must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    /// Nothing is lost, at the default volume on the default filesystems.
    Survives,
    Loses,
    /// It loses, and the sync of this object stops the losses.
    LosesWithout(&'static str),
}

use Expected::{Loses, LosesWithout, Survives};

/// Modes of the program `engines`. The weak ones are documented as such, except sled's, which is a known bug.
const MODES: [(&str, Expected); 11] = [
    ("sqlite-wal-full", Survives),
    ("sqlite-delete-extra", Survives),
    ("lmdb-default", Survives),
    ("redb-immediate", Survives),
    ("raft-engine-sync", Survives),
    ("sqlite-delete-full", LosesWithout(".")),
    ("sqlite-wal-off", Loses),
    ("redb-none", Loses),
    ("lmdb-nosync", Loses),
    ("raft-engine-nosync", Loses),
    ("sled-flush", LosesWithout("db")),
];

/// Volume for weak modes. Each lost in at least half of such cuts when it was measured.
const SMALL: [&str; 6] = ["--filesystem", "ext4", "--cuts", "8", "--states", "40"];

/// Exit status of the command if this machine lacks something.
const MISSING: i32 = 77;

/// Builds both programs and tests all modes.
pub fn run(setting: &Setting) -> Result<StageOutcome> {
    let mut command = host::cargo_command(setting);
    command.args(["build", "--bin", "logforce"]);
    command.args(host::AS_FOR_TESTS);
    command.args(host::parts(setting.tier));
    let mut outcome = host::one_command(setting, Stage::Engines, &mut command)?;
    // Beside the other builds of the benchmarks: its lock file is theirs.
    let target = setting.workspace.target.join("benches");
    let mut engines = host::cargo_command(setting);
    engines
        .args(["build", "--release", "--locked", "--manifest-path", BENCHES])
        .args(["--features", "engines", "--bin", "engines", "--target-dir"])
        .arg(&target);
    outcome += host::step(setting, "engines-build", &mut engines)?;
    if outcome.counts.failed > 0 {
        return Ok(outcome);
    }
    for (mode, expected) in MODES {
        let tested = one(setting, &target.join("release/engines"), mode, expected)?;
        let is_missing = tested.counts == Counts::SKIPPED;
        outcome += tested;
        if is_missing {
            break;
        }
    }
    Ok(outcome)
}

/// Tests one mode.
fn one(setting: &Setting, engines: &Path, mode: &str, expected: Expected) -> Result<StageOutcome> {
    let mark = leaks::fresh_mark();
    let json = setting.logs.join(format!("engines-{mode}.json"));
    let engine = format!("'{}' {mode}", engines.display());
    let seed = setting.tier.from().max(1).to_string();
    let mut test = Command::new(host::built(setting, "logforce"));
    test.args(["crashtest", "--seed", &seed]).arg("--json");
    test.arg(&json).env(leaks::MARK, &mark);
    match expected {
        Survives => {}
        Loses => {
            test.args(SMALL).arg("--no-explain");
        }
        LosesWithout(_) => {
            test.args(SMALL);
        }
    }
    test.args(["--setup", &format!("{engine} create {{}}")]);
    test.args(["--check", &format!("{engine} check {{}} {{acked}}"), "--"]);
    test.arg(engines).args([mode, "work", "{}"]);
    let log = setting.logs.join(format!("engines-{mode}.log"));
    let ended = child::run(&mut test, &log, setting.clock.limit())?;
    let mut outcome = match ended.code {
        Some(MISSING) => StageOutcome::skipped(ended.text().trim().replace('\n', " ")),
        Some(0 | 1) => {
            let text = std::fs::read(&json).with_context(|| json.display().to_string())?;
            judged(mode, expected, &serde_json::from_slice(&text)?)
        }
        _ => {
            let mut lines: Vec<String> = ended.text().lines().map(str::to_owned).collect();
            lines.push(ended.how);
            StageOutcome::of(Counts::FAILED, lines)
        }
    };
    let left = leaks::of_powercut(&mark);
    if !left.is_empty() {
        outcome.counts += Counts::FAILED;
        let lines = left.into_iter().map(|l| format!("left behind: {l}"));
        outcome.lines.extend(lines);
    }
    Ok(outcome)
}

/// Compares a report with what is expected.
fn judged(mode: &str, expected: Expected, report: &Value) -> StageOutcome {
    let experiments = report["explanation"]["experiments"].as_array();
    let mends = |object: &str| {
        let stopped = |e: &Value| e["object"]["name"] == object && e["failed"] == 0;
        experiments.is_some_and(|all| all.iter().any(stopped))
    };
    let is_right = match expected {
        Survives => report["verdict"] == "survived",
        Loses => report["verdict"] == "lost",
        LosesWithout(object) => report["verdict"] == "lost" && mends(object),
    };
    let counts = match is_right {
        true => Counts::PASSED,
        false => Counts::FAILED,
    };
    let text = |of: &Value| of.as_str().unwrap_or_default().to_owned();
    let mut line = format!("{mode}: {}", text(&report["sentence"]));
    if let LosesWithout(object) = expected {
        let conclusion = text(&report["explanation"]["conclusion"]);
        line += &format!(" Expected: a sync of {object} stops it. {conclusion}");
    } else if !is_right {
        line += &format!(" Expected: {expected:?}.");
    }
    StageOutcome::of(counts, vec![line])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_report_is_compared_with_what_is_expected() {
        let experiment =
            |name: &str, failed: u64| json!({"object": {"name": name}, "failed": failed});
        let lost = json!({
            "verdict": "lost",
            "explanation": {"experiments": [experiment("db", 3), experiment(".", 0)]},
        });
        let survived = json!({"verdict": "survived", "explanation": null});
        for (expected, report, is_right) in [
            (Survives, &survived, true),
            (Survives, &lost, false),
            (Loses, &lost, true),
            (Loses, &survived, false),
            (LosesWithout("."), &lost, true),
            (LosesWithout("db"), &lost, false),
            (LosesWithout("."), &survived, false),
        ] {
            let counts = judged("m", expected, report).counts;
            assert_eq!(counts == Counts::PASSED, is_right, "{expected:?} {report}");
        }
    }
}
