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

/// Modules of the exhaustive tests in four parts, of about 70 s of processor time each. A change runs one of them, by
/// its commit, and a deep run all.
const PARTS: [&[&str]; 4] = [
    &[
        "bits",
        "failing_calls",
        "limit",
        "repairs",
        "page_file::bits",
    ],
    &["backups", "bounds", "lengths"],
    &["pairs"],
    &[
        "imports",
        "names",
        "page_file::crashes",
        "page_file::failures",
        "standbys",
    ],
];

/// Runs the exhaustive tests.
pub fn exhaustive(setting: &Setting) -> Result<StageOutcome> {
    let mut tests = host::cargo_command(setting);
    setting.tier.set_env(&mut tests);
    tests
        .args(["test", "--test", "exhaustive"])
        .args(host::parts(setting.tier))
        .arg("--");
    match setting.tier.is_deep() {
        true => drop(tests.arg(EXHAUSTIVE)),
        false => {
            let part = PARTS[setting.turn as usize % PARTS.len()];
            tests.args(part.iter().map(|module| format!("{EXHAUSTIVE}{module}")));
        }
    }
    host::tests(setting, "exhaustive", &mut tests)
}

/// Removes leaked files, so that the next run does not fail because of them.
fn tidy(temp: &Path, outcome: &mut StageOutcome) {
    if let Err(e) = temporary::clean(temp) {
        outcome.lines.push(format!("cannot be removed: {e:#}"));
        outcome.counts += Counts::FAILED;
    }
}

#[cfg(test)]
mod tests {
    use super::PARTS;

    /// A module that is in no part would run in deep runs only.
    #[test]
    fn every_exhaustive_test_is_in_a_part() {
        let root = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../crates/sim/tests/exhaustive"
        );
        let mut files = 0;
        for entry in walk(root.as_ref()) {
            let text = std::fs::read_to_string(&entry).unwrap();
            if !text.contains("#[test]") || entry.ends_with("known_bugs.rs") {
                continue;
            }
            let module = entry.strip_prefix(root).unwrap().with_extension("");
            let module = module.to_str().unwrap().replace('/', "::");
            let module = module.strip_suffix("::mod").unwrap_or(&module);
            assert!(PARTS.concat().contains(&module), "{module}");
            files += 1;
        }
        assert_eq!(files, PARTS.concat().len());
    }

    fn walk(dir: &std::path::Path) -> Vec<std::path::PathBuf> {
        let entries = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path());
        let below = entries.map(|path| match path.is_dir() {
            true => walk(&path),
            false => vec![path],
        });
        below.collect::<Vec<_>>().concat()
    }
}
