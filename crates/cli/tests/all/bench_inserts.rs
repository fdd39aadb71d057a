//! `logforce bench inserts` on the log, with short runs. Nothing here depends on the speed of the disk.

use crate::common::{place, text};
#[cfg(unix)]
use crate::logs::logforce;
use crate::runs::{Measured, assert_empty, assert_unusable, command, measured};
use logforce_testkit::process::Start;
use serde_json::Value;
#[cfg(unix)]
use std::time::Duration;

#[test]
fn every_policy_has_a_row_and_policy_1_is_one_force_for_each_commit() {
    let document = include_str!("../../../../docs/bench-json.md");
    let arguments = [
        "inserts",
        "--rounds",
        "2",
        "--clients",
        "1,4",
        "--seconds",
        "0.01",
    ];
    let found = measured(&arguments, document, "## `logforce bench inserts`");
    let Some(Measured { text, report, rows }) = found else {
        return;
    };
    assert_eq!(report["schema"], "logforce-inserts");
    // A build with databases has SQLite's rows as well.
    let has_others = rows.iter().any(|r| r["system"] != "Logforce");
    assert_eq!(has_others, cfg!(feature = "databases"));
    let mut rows = rows;
    rows.retain(|r| r["system"] == "Logforce");
    let cases: Vec<_> = rows
        .iter()
        .map(|r| {
            (
                r["second_log"] == true,
                r["policy"].as_u64().unwrap(),
                r["clients"].as_u64().unwrap(),
            )
        })
        .collect();
    let mut expected = Vec::new();
    for second_log in [false, true] {
        for policy in [1, 2, 0] {
            expected.extend([1, 4].map(|clients| (second_log, policy, clients)));
        }
    }
    assert_eq!(cases, expected);
    for row in &rows {
        assert!(row["error"].is_null(), "{row}");
        let (one, two) = (row["clients"] == 1, row["second_log"] == true);
        assert_eq!(row["pairs_s"].is_f64(), one, "{row}");
        // The second round is left out if the first took long enough.
        let rounds = row["rounds"].as_u64();
        let slow = row["pairs_s"].as_f64().is_some_and(|s| s > 4.0);
        let wanted = if slow {
            [Some(1), Some(2)]
        } else {
            [Some(2); 2]
        };
        assert!(!one || wanted.contains(&rounds), "{row}");
        // Each client makes 5 inserts before the clock starts.
        let before = rounds.map_or(4 * 5, |rounds| rounds * (500 + 5) + 5);
        let least = row["commits"].as_u64().unwrap() + before;
        assert_eq!(row["rows_checked"].as_u64(), Some(least), "{row}");
        let redone = if two { Value::from(0) } else { Value::Null };
        assert_eq!(row["redone"], redone, "{row}");
        let logs = if two { 2.0 } else { 1.0 };
        let forces = row["forces_per_commit"].as_f64().unwrap();
        match row["policy"].as_u64() {
            Some(1) if one => assert_eq!(forces, logs, "{row}"),
            Some(1) => assert!(forces > 0.0 && forces <= logs, "{row}"),
            // One force within a second, for all commits meanwhile.
            _ => assert!(forces < logs / 2.0, "{row}"),
        }
    }
    let guarantee = |policy: u64| {
        let is_it = |r: &&Value| r["policy"] == policy;
        rows.iter().find(is_it).unwrap()["guarantee"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!(guarantee(0), "nothing");
    assert_ne!(guarantee(1), guarantee(2));
    let conclusion = report["conclusion"].as_str().unwrap();
    for part in [
        "500 inserts that are each forced",
        "The binary log was a second forced write",
    ] {
        assert!(conclusion.contains(part), "{conclusion}");
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    let words = words.join(" ");
    assert!(
        words.contains("two logs : one, policy 1 2.29 1.75"),
        "{text}"
    );
    let notes = report["notes"].to_string();
    let tells_how = notes.contains("--features databases -- bench inserts --servers");
    assert_eq!(tells_how, !cfg!(feature = "databases"), "{notes}");
}

/// Clients that are stopped between the two logs leave transactions that only the first log has.
#[cfg(unix)]
#[test]
fn two_logs_are_in_step_after_a_run_that_was_cut_short() {
    for _ in 0..3 {
        let Some(report) = cut_short() else {
            return;
        };
        let rows = report["rows"].as_array().unwrap();
        let (cut, whole): (Vec<_>, Vec<_>) = rows.iter().partition(|r| r["error"] == "interrupted");
        assert!(whole.iter().all(|r| r["error"].is_null()), "{report}");
        if let [cut] = &cut[..]
            && cut["second_log"] == true
            && cut["rows_checked"].as_u64() >= Some(1)
        {
            assert_eq!(report["interrupted"], true);
            // The logs are read back as after a complete run. An error would say what is missing.
            assert!(cut["redone"].as_u64() <= Some(4), "{cut}");
            return;
        }
    }
    logforce_testkit::skip!("this machine is so slow that no run was cut short at the second log");
}

/// More records than a round of one pair leaves, and far fewer than four clients write in a second.
#[cfg(unix)]
const AMID: usize = 40;

/// Returns the number of records in the second log of the run in `dir`, up to a limit; 0 if there is none.
#[cfg(unix)]
fn records_of_second(dir: &std::path::Path) -> usize {
    let mut inside = std::fs::read_dir(dir).unwrap().flatten();
    let second = inside.find_map(|e| Some(e.path().join("second-log")).filter(|p| p.is_dir()));
    second.map_or(0, |second| {
        let flags = ["--records", "--limit", "60", "--csv", "-"];
        let out = logforce(&second, "dump", &flags);
        // The first line names the columns.
        text(&out.stdout).lines().count().saturating_sub(1)
    })
}

/// Returns the report of a run that is interrupted while clients write two logs, or `None` if the disk
/// has no space for it.
#[cfg(unix)]
fn cut_short() -> Option<Value> {
    let (dir, results) = (place(), place());
    let json = results.path().join("report.json");
    let arguments = [
        "inserts",
        "--pairs",
        "1",
        "--rounds",
        "1",
        "--seconds",
        "1",
        "--clients",
        "4",
        "--json",
        json.to_str().unwrap(),
    ];
    let mut child = command(dir.path(), &arguments)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .start()
        .unwrap();
    while records_of_second(dir.path()) < AMID && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(5));
    }
    if child.try_wait().unwrap().is_none() {
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    }
    let out = child.wait_with_output().unwrap();
    let words = text(&out.stdout) + &text(&out.stderr);
    assert_empty(dir.path());
    if words.contains("not enough free space") {
        return None;
    }
    if out.status.code() != Some(0) {
        assert_eq!(out.status.code(), Some(130), "{words}");
        assert!(words.contains("until then, in whole rows"), "{words}");
    }
    Some(serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap())
}

#[test]
fn unusable_arguments_are_refused() {
    assert_unusable(
        place().path(),
        &[
            (
                &["inserts", "--pairs", "0"],
                "'0' is not a number from 1 to 100000",
            ),
            (
                &["inserts", "--clients", "300"],
                "'300' is not a number from 1 to 256",
            ),
            (&["inserts", "--seconds", "0"], "seconds must be above 0"),
            (&["inserts", ".", "--dir", "."], "cannot be used with"),
        ],
    );
}

#[cfg(not(feature = "databases"))]
#[test]
fn databases_take_another_build() {
    assert_unusable(
        place().path(),
        &[
            (&["inserts", "--servers"], "--features databases -- bench"),
            (
                &["inserts", "--postgres", "postgres://h"],
                "this build does not support databases",
            ),
        ],
    );
}
