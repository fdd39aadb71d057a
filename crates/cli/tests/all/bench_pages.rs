//! `logforce bench pages`, with so little to do that it takes no time. Nothing here depends on how
//! fast the disk is.

use crate::common::{place, text};
use crate::runs::{assert_documented, assert_empty, command};
use logforce_testkit::process::Start;
use serde_json::Value;

const TINY: [&str; 9] = [
    "pages",
    "--pages",
    "1,3",
    "--size",
    "256KiB",
    "--rounds",
    "2",
    "--seconds",
    "0.001",
];

#[test]
fn every_case_has_a_row_and_the_conclusion_follows() {
    let (dir, results) = (place(), place());
    let csv = results.path().join("rows.csv");
    let files = ["--json", "-", "--csv", csv.to_str().unwrap()];
    for more in [&[][..], &["--cached"]] {
        let arguments = [&TINY[..], &files, more].concat();
        let out = command(dir.path(), &arguments).to_end().unwrap();
        let told = text(&out.stderr);
        if told.contains("not enough free space") {
            return;
        }
        assert!(out.status.success(), "{told}");
        let report: Value = serde_json::from_slice(&out.stdout).unwrap();
        assert_eq!(report["schema"], "logforce-bench-pages");
        let rows = report["rows"].as_array().unwrap();
        assert_eq!(rows.len(), 2 * 2 * 3);
        for row in rows.iter().filter(|r| r["error"].is_null()) {
            assert!(
                row["slices"] == 2 && row["commits"].as_u64() >= Some(2),
                "{row}"
            );
            let is_barrier = row["way"] == "barrier";
            assert_eq!(row["barriers_per_commit"] == 2.0, is_barrier, "{row}");
            assert_eq!(row["through_per_commit"] == 0.0, is_barrier, "{row}");
        }
        assert!(
            rows.iter()
                .any(|r| r["way"] == "barrier" && r["error"].is_null())
        );
        let conclusion = report["conclusion"].as_str().unwrap();
        assert!(
            conclusion.contains("between 40 and 80 pages"),
            "{conclusion}"
        );
        assert!(told.lines().all(|l| l.chars().count() <= 120), "{told}");
        let lines = std::fs::read_to_string(&csv).unwrap().lines().count();
        assert_eq!(lines, rows.len() + 1);
        assert_documented("## `logforce bench pages`", &report);
        assert_empty(dir.path());
    }
}

#[test]
fn unusable_arguments_are_told() {
    let dir = place();
    for (arguments, why) in [
        (
            &["pages", "--pages", "0"][..],
            "'0' is no number from 1 to 4096",
        ),
        (&["pages", "--pages", "5000"], "'5000' is no number from 1"),
        (&["pages", "--size", "64KiB"], "at least 2.5 MiB"),
        (&["pages", "nosuch"], "does not exist"),
        (&["pages", ".", "--dir", "."], "cannot be used with"),
    ] {
        let out = command(dir.path(), arguments).to_end().unwrap();
        let told = text(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{arguments:?}: {told}");
        assert!(told.contains(why), "{arguments:?}: {told}");
    }
    assert_empty(dir.path());
}
