//! `logforce bench map`, with short runs. Nothing here depends on the speed of the disk.

use crate::common::{place, text};
#[cfg(unix)]
use crate::runs::assert_ends_by_ctrl_c;
use crate::runs::{Measured, assert_empty, assert_unusable, command, measured};
use logforce_testkit::process::Start;

const TINY: [&str; 7] = [
    "map", "--size", "16MiB", "--rounds", "1", "--slice", "0.001",
];

#[test]
fn every_method_has_a_row_for_each_size() {
    let document = include_str!("../../../../docs/bench-json.md");
    let Some(Measured { report, rows, .. }) = measured(&TINY, document, "## `logforce bench map`")
    else {
        return;
    };
    assert_eq!(report["schema"], "logforce-bench-map");
    assert_eq!(rows.len(), 3 * 7);
    for row in &rows {
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
}

#[test]
fn unusable_arguments_are_refused() {
    let dir = place();
    assert_unusable(
        dir.path(),
        &[
            (&["map", "--size", "1MiB"], "at least 16 MiB"),
            (&["map", "--pages", "0"], "'0' is not a number from 1 to"),
            (&["map", "--quick", "--rounds", "2"], "cannot be used with"),
        ],
    );
    let huge = command(dir.path(), &["map", "--size", "900TiB"])
        .to_end()
        .unwrap();
    assert_eq!(huge.status.code(), Some(4));
    assert!(text(&huge.stderr).contains("not enough free space"));
    assert_empty(dir.path());
}

#[cfg(unix)]
#[test]
fn ctrl_c_leaves_nothing() {
    let arguments = [
        "map", "--size", "64MiB", "--rounds", "1000000", "--slice", "0.01",
    ];
    // Interrupts while files are filled.
    assert_ends_by_ctrl_c(&arguments, std::time::Duration::ZERO);
}
