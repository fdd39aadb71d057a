//! Tests of the bench `files` on the real system, with so little work that it takes almost no time. They
//! check counts, never timings.

use logforce_benches::files::{Options, Subject, run};
use logforce_device::System;
use logforce_device_os::OsSystem;
use logforce_measure::counters::NoCounters;
use logforce_measure::space::Space;
use logforce_measure::{Interrupt, MeasureError, Setup};
use logforce_terminal::progress::Silent;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

#[test]
fn every_subject_of_every_case_has_a_row_that_adds_up() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let setup = Setup {
        system: Arc::new(OsSystem::new()),
        path: dir.path().to_owned(),
        space: Space::of(&*OsSystem::new().directory(dir.path()).unwrap()).unwrap(),
        counters: Rc::new(NoCounters),
        interrupt: Interrupt::new(),
        progress: Rc::new(Silent),
    };
    let options = Options {
        threads: vec![1, 5],
        rounds: 2,
        slice: Duration::from_millis(4),
        ..Options::default()
    };
    let outcome = match run(&options, setup) {
        Err(MeasureError::NoSpace(_)) => return,
        other => other.unwrap(),
    };
    assert!(!outcome.interrupted);
    use Subject::*;
    let mut expected = Vec::new();
    for (workload, size) in [("slots", 4096), ("aligned", 4096), ("append", 128)] {
        for threads in [1, 5] {
            let subjects = [WriteCommit, Commit, SyncEach, ByHand];
            expected.extend(subjects.map(|s| (workload, size, threads, Some(s))));
            if workload == "append" {
                expected.push((workload, size, threads, Some(Baseline)));
            }
        }
    }
    let rows: Vec<_> = outcome
        .rows
        .iter()
        .map(|r| {
            let row = &r.measured;
            (r.workload, row.record_bytes, row.threads, r.subject)
        })
        .collect();
    assert_eq!(rows, expected);
    for row in &outcome.rows {
        let measured = &row.measured;
        assert_eq!((measured.slices, &measured.error), (Some(2), &None));
        assert!(measured.commits >= Some(2 * measured.threads), "{row:?}");
        let forces = measured.forces_per_commit.unwrap();
        match row.subject.unwrap() {
            SyncEach => assert_eq!(forces, 1.0, "{row:?}"),
            _ if measured.threads == 1 => assert_eq!(forces, 1.0, "{row:?}"),
            _ => assert!((0.2..=1.0).contains(&forces), "{row:?}"),
        }
        if row.subject != Some(Baseline) {
            assert_eq!(measured.records_per_write, Some(1.0), "{row:?}");
            let bytes = measured.record_bytes as f64;
            assert_eq!(measured.bytes_per_write, Some(bytes), "{row:?}");
        }
        assert_eq!(row.to_by_hand.is_some(), row.subject != Some(ByHand));
        assert_eq!(row.to_sync_each.is_some(), row.subject != Some(SyncEach));
    }
    let names: Vec<&str> = outcome.targets.iter().map(|t| t.name.as_str()).collect();
    assert_eq!(names, ["slots-1", "aligned-1", "append-1"]);
    // The files are removed.
    assert!(std::fs::read_dir(dir.path()).unwrap().count() == 0);
}
