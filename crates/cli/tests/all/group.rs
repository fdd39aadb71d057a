//! `logforce bench group`, with so little to do that it takes no time. Nothing here depends on how
//! fast the disk is.

use crate::common::{place, text};
use crate::runs::{assert_empty, command};
use logforce_testkit::process::Start;
use serde_json::Value;

const TINY: [&str; 10] = [
    "--threads",
    "1,4",
    "--pairs",
    "2",
    "--seconds",
    "0.005",
    "--outstanding",
    "16",
    "--segment",
    "64KiB",
];

#[test]
fn compares_everything() {
    let (dir, results) = (place(), place());
    let csv = results.path().join("rows.csv");
    let files = ["group", "--json", "-", "--csv", csv.to_str().unwrap()];
    let arguments = [&files[..], &TINY[..]].concat();
    let out = command(dir.path(), &arguments).to_end().unwrap();
    let told = text(&out.stderr);
    if told.contains("not enough free space") {
        return;
    }
    assert!(out.status.success(), "{told}");
    let report: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(report["schema"], "logforce-group");
    let rows = report["rows"].as_array().unwrap();
    let subjects: Vec<&str> = rows
        .iter()
        .map(|r| r["subject"].as_str().unwrap())
        .collect();
    let mut expected = ["log", "baseline", "raw"].repeat(4);
    expected.extend(["handles", "callbacks"]);
    expected.extend(["preparing", "prepared"].repeat(2));
    assert_eq!(subjects, expected);
    for row in rows {
        assert!(row["error"].is_null() && row["slices"] == 2, "{row}");
        for name in ["commits_per_s", "p99_us", "records_per_write"] {
            assert!(row[name].is_number(), "{name} in {row}");
        }
    }
    let targets = report["targets"].as_array().unwrap();
    assert!(targets.iter().any(|t| t["name"] == "p50-1x16KiB"));
    assert!(told.contains("target ≤ 1.05: "), "{told}");
    assert!(told.contains("4 threads of 16 KiB:"), "{told}");
    assert!(told.lines().all(|l| l.chars().count() <= 120), "{told}");
    assert_eq!(
        std::fs::read_to_string(csv).unwrap().lines().count(),
        rows.len() + 1
    );
    assert_empty(dir.path());
    let document = include_str!("../../../../docs/cli-json.md");
    let (_, document) = document.split_once("## `logforce bench group`").unwrap();
    let names = [&report, &rows[0], &targets[0]]
        .into_iter()
        .flat_map(|o| o.as_object().unwrap().keys());
    for name in names.filter(|n| !["schema", "version"].contains(&n.as_str())) {
        assert!(
            document.contains(&format!("`{name}`")),
            "{name} is not documented"
        );
    }
}

#[test]
fn parts_are_chosen() {
    let dir = place();
    let arguments = [&["group", "--parts", "submit", "--csv", "-"], &TINY[..]].concat();
    let out = command(dir.path(), &arguments).to_end().unwrap();
    if text(&out.stderr).contains("not enough free space") {
        return;
    }
    assert!(out.status.success(), "{}", text(&out.stderr));
    let csv = text(&out.stdout);
    assert_eq!(csv.lines().count(), 3, "{csv}");
    assert!(csv.contains("submit,handles,2,16,128,"), "{csv}");
}

#[cfg(unix)]
#[test]
fn ctrl_c_leaves_nothing_and_is_told() {
    use std::process::Stdio;
    let dir = place();
    let arguments = [
        "group",
        "--parts",
        "commits",
        "--threads",
        "2",
        "--seconds",
        "0.01",
        "--pairs",
        "1000000",
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
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    std::thread::sleep(std::time::Duration::from_millis(600));
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

#[test]
fn unusable_arguments_are_told() {
    let dir = place();
    for (arguments, why) in [
        (
            &["group", "--parts", "speed"][..],
            "known: commits submit preparing",
        ),
        (
            &["group", "--threads", "0"],
            "'0' is no number from 1 to 1024",
        ),
        (
            &["group", "--threads", "4,5000"],
            "'5000' is no number from 1 to 1024",
        ),
        (&["group", "--records", "2MiB"], "at most 1 MiB"),
        (&["group", "--segment", "100k"], "not a multiple of 64 KiB"),
        (&["group", "--outstanding", "1"], "less than one for each"),
        (&["group", "--seconds", "-1"], "unexpected argument"),
        (&["group", "--dir", "nosuch"], "does not exist"),
    ] {
        let out = command(dir.path(), arguments).to_end().unwrap();
        assert_eq!(out.status.code(), Some(2), "{}", text(&out.stderr));
        assert!(text(&out.stderr).contains(why), "{}", text(&out.stderr));
    }
    let out = command(dir.path(), &["group", "--seconds", "100000"])
        .to_end()
        .unwrap();
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out.stderr).contains("not enough free space"));
    assert_empty(dir.path());
}
