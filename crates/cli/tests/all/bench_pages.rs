//! `logforce bench pages`, with short runs. Nothing here depends on the speed of the disk.

use crate::common::place;
use crate::runs::{Measured, assert_unusable, measured};

const TINY: [&str; 9] = [
    "pages", "--pages", "1,3", "--size", "256KiB", "--rounds", "2", "--slice", "0.001",
];

#[test]
fn every_case_has_a_row_and_the_conclusion_follows() {
    let document = include_str!("../../../../docs/bench-json.md");
    for more in [&[][..], &["--cached"]] {
        let arguments = [&TINY[..], more].concat();
        let measured = measured(&arguments, document, "## `logforce bench pages`");
        let Some(Measured { report, rows, .. }) = measured else {
            return;
        };
        assert_eq!(report["schema"], "logforce-bench-pages");
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
    }
}

#[test]
fn unusable_arguments_are_refused() {
    assert_unusable(
        place().path(),
        &[
            (
                &["pages", "--pages", "0"],
                "'0' is not a number from 1 to 4096",
            ),
            (&["pages", "--pages", "5000"], "'5000' is not a number"),
            (&["pages", "--size", "64KiB"], "at least 2.5 MiB"),
            (&["pages", ".", "--dir", "."], "cannot be used with"),
        ],
    );
}
