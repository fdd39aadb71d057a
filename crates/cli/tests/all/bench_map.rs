//! `logforce bench map`, with so little to do that it takes no time. Nothing here depends on how fast
//! the disk is.

use crate::common::{place, text};
use crate::runs::{assert_documented, assert_empty, command};
use logforce_testkit::process::Start;
use serde_json::Value;

const TINY: [&str; 7] = [
    "map",
    "--size",
    "16MiB",
    "--rounds",
    "1",
    "--seconds",
    "0.001",
];

#[test]
fn every_method_has_a_row_for_each_size() {
    let (dir, results) = (place(), place());
    let csv = results.path().join("rows.csv");
    let files = ["--json", "-", "--csv", csv.to_str().unwrap()];
    let out = command(dir.path(), &[&TINY[..], &files].concat())
        .to_end()
        .unwrap();
    let told = text(&out.stderr);
    if told.contains("not enough free space") {
        return;
    }
    assert!(out.status.success(), "{told}");
    let report: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(report["schema"], "logforce-bench-map");
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 3 * 7);
    for row in rows {
        let is_macos = cfg!(target_os = "macos") && row["method"] == "in-flight+write-through";
        assert_eq!(row["error"].is_null(), !is_macos, "{row}");
        if is_macos {
            continue;
        }
        assert!(row["commits"].as_u64() >= Some(1), "{row}");
        assert!(row["ms_per_commit"].is_f64() && row["system_us_per_commit"].is_f64());
        assert!(row["guarantee"].is_string(), "{row}");
    }
    let of = |method: &str| rows.iter().find(|r| r["method"] == method).unwrap();
    assert_eq!(of("msync-all")["msyncs_per_commit"], 2.0);
    assert_eq!(of("gathered+barrier")["barriers_per_commit"], 2.0);
    assert!(of("logged")["barriers_per_commit"].is_null());
    let conclusion = report["conclusion"].as_str().unwrap();
    assert!(
        conclusion.contains("published: 5 times faster"),
        "{conclusion}"
    );
    assert!(told.lines().all(|l| l.chars().count() <= 120), "{told}");
    assert_eq!(
        std::fs::read_to_string(&csv).unwrap().lines().count(),
        rows.len() + 1
    );
    assert_documented("## `logforce bench map`", &report);
    assert_empty(dir.path());
}

#[test]
fn unusable_arguments_are_told() {
    let dir = place();
    for (arguments, why) in [
        (&["map", "--size", "1MiB"][..], "at least 16 MiB"),
        (&["map", "--pages", "0"], "'0' is no number from 1 to 1024"),
        (&["map", "--quick", "--rounds", "2"], "cannot be used with"),
        (&["map", "nosuch"], "does not exist"),
    ] {
        let out = command(dir.path(), arguments).to_end().unwrap();
        let told = text(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{arguments:?}: {told}");
        assert!(told.contains(why), "{arguments:?}: {told}");
    }
    let huge = command(dir.path(), &["map", "--size", "900TiB"])
        .to_end()
        .unwrap();
    assert_eq!(huge.status.code(), Some(1));
    assert!(text(&huge.stderr).contains("not enough free space"));
    assert_empty(dir.path());
}

#[cfg(unix)]
#[test]
fn ctrl_c_leaves_nothing() {
    use std::process::Stdio;
    use std::time::Duration;
    let dir = place();
    let arguments = [
        "map",
        "--size",
        "64MiB",
        "--rounds",
        "1000000",
        "--seconds",
        "0.01",
    ];
    let mut child = command(dir.path(), &arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .start()
        .unwrap();
    // Where there is no space for it, it ends and makes none.
    while std::fs::read_dir(dir.path()).unwrap().next().is_none()
        && child.try_wait().unwrap().is_none()
    {
        std::thread::sleep(Duration::from_millis(5));
    }
    if child.try_wait().unwrap().is_none() {
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    }
    let out = child.wait_with_output().unwrap();
    let told = text(&out.stdout) + &text(&out.stderr);
    if !told.contains("not enough free space") {
        assert_eq!(out.status.code(), Some(130), "{told}");
        assert!(told.to_lowercase().contains("interrupted"), "{told}");
    }
    assert_empty(dir.path());
}
