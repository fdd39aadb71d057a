//! `logforce bench group`, with short runs. Nothing here depends on the speed of the disk.

use crate::common::place;
#[cfg(unix)]
use crate::runs::assert_ends_by_ctrl_c;
use crate::runs::{Measured, assert_unusable, measured};
use logforce_device::System;
use logforce_device_os::OsSystem;
use logforce_measure::counters::NoCounters;
use logforce_measure::group::Options;
use logforce_measure::space::Space;
use logforce_measure::{Interrupt, MeasureError, Scenario, Setup};
use logforce_terminal::progress::Progress;
use serde_json::Value;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

const TINY: [&str; 9] = [
    "group",
    "--threads",
    "1,4",
    "--records",
    "128,5000",
    "--rounds",
    "2",
    "--slice",
    "0.005",
];

#[test]
fn every_case_has_a_row_that_adds_up() {
    let document = include_str!("../../../../docs/cli-json.md");
    let Some(Measured { text, report, rows }) =
        measured(&TINY, document, "## `logforce bench group`")
    else {
        return;
    };
    assert_eq!(report["schema"], "logforce-group");
    let number = |row: &Value, name: &str| {
        row[name]
            .as_f64()
            .unwrap_or_else(|| panic!("{name} in {row}"))
    };
    let cases: Vec<(u64, u64)> = rows
        .iter()
        .map(|r| {
            (
                number(r, "threads") as u64,
                number(r, "record_bytes") as u64,
            )
        })
        .collect();
    assert_eq!(cases, [(1, 128), (4, 128), (1, 5000), (4, 5000)]);
    for row in &rows {
        let is = |name| number(row, name);
        assert!(row["error"].is_null() && row["slices"] == 2, "{row}");
        assert!(is("commits") >= 2.0 * is("threads"), "{row}");
        assert!(is("commits_per_s_p10") <= is("commits_per_s"), "{row}");
        assert!(is("p50_us") <= is("p99_us") && is("p999_us") <= is("max_us"));
        assert!(is("records_per_write") <= is("threads"), "{row}");
        assert!(is("bytes_per_write") >= 512.0, "{row}");
        assert!(is("forces_per_commit") > 0.0, "{row}");
    }
    assert!(text.contains("records of 5000 B:"), "{text}");
}

/// Raises the flag when a slice begins.
struct RaiseAt {
    at: u32,
    begun: Cell<u32>,
    interrupt: Interrupt,
}

impl Progress for RaiseAt {
    fn doing(&self, _: &str) {}
    fn fraction(&self, _: f64) {
        self.begun.set(self.begun.get() + 1);
        if self.begun.get() == self.at {
            self.interrupt.raise();
        }
    }
}

#[test]
fn an_interrupt_leaves_whole_rounds() {
    let options = Options {
        threads: vec![1, 3],
        records: vec![128],
        rounds: 3,
        slice: Duration::from_millis(4),
        method: None,
    };
    for (at, slices) in [(2, None), (4, Some([1, 1])), (5, Some([2, 2]))] {
        let (dir, interrupt) = (place(), Interrupt::new());
        let progress = RaiseAt {
            at,
            begun: Cell::default(),
            interrupt: interrupt.clone(),
        };
        let setup = Setup {
            system: Arc::new(OsSystem::new()),
            path: dir.path().to_owned(),
            space: Space::of(&*OsSystem::new().directory(dir.path()).unwrap()).unwrap(),
            counters: Rc::new(NoCounters),
            interrupt,
            progress: Rc::new(progress),
        };
        match (options.run(&setup), slices) {
            (Err(MeasureError::NoSpace(_)), _) => return,
            (Err(MeasureError::Interrupted), None) => {}
            (Ok(outcome), Some(slices)) => {
                assert!(outcome.interrupted);
                let got: Vec<_> = outcome.rows.iter().map(|r| r.slices).collect();
                assert_eq!(got, slices.map(Some));
            }
            (other, _) => panic!("{:?}", other.map(|o| o.rows)),
        }
    }
}

#[cfg(unix)]
#[test]
fn ctrl_c_leaves_nothing() {
    let arguments = [
        "group",
        "--threads",
        "2",
        "--slice",
        "0.01",
        "--rounds",
        "1000000",
    ];
    assert_ends_by_ctrl_c(&arguments, Duration::from_millis(600));
}

#[test]
fn unusable_arguments_are_refused() {
    assert_unusable(
        place().path(),
        &[
            (
                &["group", "--threads", "0"],
                "'0' is not a number from 1 to 1024",
            ),
            (
                &["group", "--threads", "4,5000"],
                "'5000' is not a number from 1 to 1024",
            ),
            (&["group", "--records", "2MiB"], "at most 1 MiB"),
            (&["group", "--slice", "-1"], "above 0 and at most 1000000"),
        ],
    );
}
