//! Running `logforce bench`.

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// `logforce bench` with `arguments`, run in `dir`.
pub fn command(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_logforce"));
    command
        .arg("bench")
        .args(arguments)
        .current_dir(dir)
        .stdin(Stdio::null());
    command
}

/// Nothing is left in `dir`.
pub fn assert_empty(dir: &Path) {
    let left: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}

/// The section of docs/bench-json.md names every field of the report and of its first row.
pub fn assert_documented(section: &str, report: &Value) {
    let document = include_str!("../../../../../docs/bench-json.md");
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
