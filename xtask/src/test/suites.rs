//! Stages `tests` and `exhaustive`. The first runs all tests and doctests and checks that they leave
//! nothing behind.

use super::counts::Counts;
use super::stage::StageOutcome;
use super::{Setting, child, host, leaks, temporary, transcript};
use anyhow::Result;
use std::num::NonZero;
use std::path::Path;

/// Prefix of the names of the exhaustive tests. They touch no real file and take a third of the time of
/// all tests, so they are a separate stage.
const EXHAUSTIVE: &str = "exhaustive::";

/// Runs all tests except the exhaustive ones.
pub fn run(setting: &Setting) -> Result<StageOutcome> {
    let temp = temporary::path(&setting.workspace);
    temporary::make(&temp)?;
    let watch = leaks::Watch::start(setting, &temp);
    let mut tests = host::cargo_command(setting);
    setting.tier.set_env(&mut tests);
    // Tests on separate filesystems wait for the disk half of the time, so twice as many threads run.
    let threads = 2 * std::thread::available_parallelism().map_or(1, NonZero::get);
    let ended = child::run(
        tests
            .args(["test", "--no-fail-fast"])
            .args(host::parts(setting.tier))
            .args(["--", "--skip", EXHAUSTIVE])
            .env("TMPDIR", &temp)
            .env("RUST_TEST_THREADS", threads.to_string())
            .env(leaks::MARK, watch.mark()),
        &setting.logs.join("tests.log"),
        setting.clock.limit(),
    )?;
    let read = transcript::read(&ended.text());
    let mut outcome = StageOutcome {
        counts: read.counts(ended.ok),
        lines: read.lines(ended.ok),
        ignored: read.ignored(),
    };
    if !ended.ok {
        outcome.lines.push(ended.how);
    }
    let found = watch.end();
    for leak in &found.failures {
        outcome.lines.push(format!("leaked: {leak}"));
    }
    outcome.lines.extend(found.notes);
    outcome.counts += match found.failures.as_slice() {
        [] => Counts::PASSED,
        _ => Counts::FAILED,
    };
    tidy(&temp, &mut outcome);
    Ok(outcome)
}

/// Runs the exhaustive tests.
pub fn exhaustive(setting: &Setting) -> Result<StageOutcome> {
    let mut tests = host::cargo_command(setting);
    setting.tier.set_env(&mut tests);
    tests
        .args(["test", "--test", "exhaustive"])
        .args(host::parts(setting.tier))
        .args(["--", EXHAUSTIVE]);
    host::tests(setting, "exhaustive", &mut tests)
}

/// Removes leaked files, so that the next run does not fail because of them.
fn tidy(temp: &Path, outcome: &mut StageOutcome) {
    if let Err(e) = temporary::clean(temp) {
        outcome.lines.push(format!("cannot be removed: {e:#}"));
        outcome.counts += Counts::FAILED;
    }
}
