//! The examples for pytest and Go, in deep runs.

use super::is_deep;
use crate::common::text;
use std::path::Path;
use std::process::Command;

/// Runs the tests of an example; returns their output, or `None` if they are skipped or not for this run.
fn run(example: &str, version: &[&str], tests: &[&str]) -> Option<String> {
    if !is_deep() {
        return None;
    }
    let known = Command::new(version[0]).args(&version[1..]).output();
    if !known.is_ok_and(|out| out.status.success()) {
        logforce_testkit::skip!("`{}` does not run here", version.join(" "));
        return None;
    }
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crashtest/examples");
    let temp = tempfile::tempdir().unwrap();
    let out = Command::new(tests[0])
        .args(&tests[1..])
        .current_dir(dir.join(example))
        .env("LOGFORCE", env!("CARGO_BIN_EXE_logforce"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("GOCACHE", temp.path())
        .output()
        .unwrap();
    let shown = text(&out.stdout) + &text(&out.stderr);
    assert!(out.status.success(), "{shown}");
    if shown.contains("2 skipped") || shown.contains("--- SKIP") {
        logforce_testkit::skip!("{}", shown.replace('\n', " "));
        return None;
    }
    Some(shown)
}

#[test]
fn the_example_for_pytest_runs() {
    let version = ["python3", "-m", "pytest", "--version"];
    let tests = ["python3", "-m", "pytest", "-p", "no:cacheprovider"];
    if let Some(shown) = run("pytest", &version, &tests) {
        assert!(shown.contains("2 passed"), "{shown}");
    }
}

#[test]
fn the_example_for_go_runs() {
    if let Some(shown) = run("go", &["go", "version"], &["go", "test", "-count=1", "-v"]) {
        assert_eq!(shown.matches("--- PASS").count(), 2, "{shown}");
    }
}
