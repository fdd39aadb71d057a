//! Functions that run `logforce bench`.

use crate::common::{place, text};
use logforce_testkit::process::Start;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Returns the command `logforce bench` with `arguments`, to be run in `dir`.
pub fn command(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_logforce"));
    bench_in(&mut command, dir, arguments);
    command
}

/// Makes `command`, which starts the program, run `bench` with `arguments` in `dir`.
pub fn bench_in<'c>(command: &'c mut Command, dir: &Path, arguments: &[&str]) -> &'c mut Command {
    command
        .arg("bench")
        .args(arguments)
        .current_dir(dir)
        .stdin(Stdio::null())
}

/// Checks that nothing is left in `dir`.
pub fn assert_empty(dir: &Path) {
    let left: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}

/// Output of a scenario.
pub struct Measured {
    /// Text for people.
    pub text: String,
    /// Report as JSON.
    pub report: Value,
    /// Rows of the report.
    pub rows: Vec<Value>,
}

/// Runs a scenario, and checks that `section` of docs/NAME.md names every field of the report and of
/// its first row, that the text fits a terminal, that the CSV has every row, and that no file is left.
/// Returns `None` if the disk has no space for it.
pub fn measured(arguments: &[&str], document: &str, section: &str) -> Option<Measured> {
    measured_in(&place(), arguments, document, section)
}

/// Does the same in an empty directory of the caller.
pub fn measured_in(
    dir: &tempfile::TempDir,
    arguments: &[&str],
    document: &str,
    section: &str,
) -> Option<Measured> {
    let results = place();
    let csv = results.path().join("rows.csv");
    let files = [
        "--all",
        "--published",
        "--json",
        "-",
        "--csv",
        csv.to_str().unwrap(),
    ];
    let out = command(dir.path(), &[arguments, &files].concat())
        .to_end()
        .unwrap();
    let text = text(&out.stderr);
    if text.contains("not enough free space") {
        return None;
    }
    assert!(out.status.success(), "{text}");
    assert!(text.lines().all(|l| l.chars().count() <= 120), "{text}");
    let report: Value = serde_json::from_slice(&out.stdout).unwrap();
    let rows = report["rows"].as_array().unwrap().clone();
    let lines = fs::read_to_string(csv).unwrap().lines().count();
    assert_eq!(lines, rows.len() + 1);
    assert_documented(document, section, &report);
    assert_empty(dir.path());
    Some(Measured { text, report, rows })
}

fn assert_documented(document: &str, section: &str, report: &Value) {
    let (_, document) = document.split_once(section).unwrap();
    let document = document.split("\n## ").next().unwrap_or_default();
    let names = [report, &report["rows"][0]]
        .into_iter()
        .flat_map(|o| o.as_object().unwrap().keys());
    for name in names {
        assert!(
            document.contains(&format!("`{name}`")),
            "{name} is not documented in {section}"
        );
    }
}

/// Checks that each of these arguments is refused as unusable, for a reason that contains these words,
/// and that nothing is left.
pub fn assert_unusable(dir: &Path, cases: &[(&[&str], &str)]) {
    let before = fs::read_dir(dir).unwrap().count();
    for (arguments, why) in cases {
        let out = command(dir, arguments).to_end().unwrap();
        let text = text(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{arguments:?}: {text}");
        assert!(text.contains(why), "{arguments:?}: {text}");
    }
    assert_eq!(fs::read_dir(dir).unwrap().count(), before);
}

/// Checks that an interrupt, `after` the first file was created, ends the command, that the command
/// reports it, and that nothing is left.
#[cfg(unix)]
pub fn assert_ends_by_ctrl_c(arguments: &[&str], after: std::time::Duration) {
    let dir = place();
    let mut child = command(dir.path(), arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .start()
        .unwrap();
    // Without enough space the command ends and creates no file.
    while fs::read_dir(dir.path()).unwrap().next().is_none() && child.try_wait().unwrap().is_none()
    {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    std::thread::sleep(after);
    if child.try_wait().unwrap().is_none() {
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    }
    let out = child.wait_with_output().unwrap();
    let text = text(&out.stdout) + &text(&out.stderr);
    if !text.contains("not enough free space") {
        assert_eq!(out.status.code(), Some(130), "{text}");
        assert!(text.to_lowercase().contains("interrupted"), "{text}");
    }
    assert_empty(dir.path());
}
