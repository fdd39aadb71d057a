//! Tests of the bench `group` on the real system, with so little work that it takes almost no time. They
//! check counts, never timings.

use logforce_benches::group::report::Subject;
use logforce_benches::group::{GroupOutcome, Options, run};
use logforce_device::System;
use logforce_device_os::OsSystem;
use logforce_measure::counters::NoCounters;
use logforce_measure::space::Space;
use logforce_measure::{Interrupt, MeasureError, Setup};
use logforce_terminal::progress::{Progress, Silent};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

fn place() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn setup(dir: &tempfile::TempDir, progress: Rc<dyn Progress>, interrupt: Interrupt) -> Setup {
    Setup {
        system: Arc::new(OsSystem::new()),
        path: dir.path().to_owned(),
        space: Space::of(&*OsSystem::new().directory(dir.path()).unwrap()).unwrap(),
        counters: Rc::new(NoCounters),
        interrupt,
        progress,
    }
}

fn tiny() -> Options {
    Options {
        threads: vec![1, 5],
        records: vec![128, 5000],
        pairs: 3,
        slice: Duration::from_millis(4),
        outstanding: 33,
        segment: 64 << 10,
        ..Options::default()
    }
}

/// Runs the bench; returns `None` if the disk has too little space.
fn measured(options: &Options, setup: Setup) -> Option<GroupOutcome> {
    match run(options, setup) {
        Err(MeasureError::NoSpace(_)) => None,
        other => Some(other.unwrap()),
    }
}

#[test]
fn every_subject_of_every_case_has_a_row_that_adds_up() {
    let dir = place();
    let setup = setup(&dir, Rc::new(Silent), Interrupt::new());
    let unit = unit_of(&setup);
    let Some(outcome) = measured(&tiny(), setup) else {
        return;
    };
    assert!(!outcome.interrupted);
    let rows: Vec<_> = outcome
        .rows
        .iter()
        .map(|r| {
            let subject = r.subject.unwrap_or_else(|| panic!("{r:?}"));
            (
                subject,
                r.measured.threads as u32,
                r.outstanding,
                r.measured.record_bytes,
            )
        })
        .collect();
    use Subject::*;
    let mut expected = Vec::new();
    for bytes in [128, 5000] {
        for threads in [1, 5] {
            expected.extend([Log, Baseline, Raw].map(|s| (s, threads, threads, bytes)));
        }
    }
    expected.extend([Handles, Callbacks].map(|s| (s, 2, 33, 128)));
    for bytes in [128, 16 << 10] {
        expected.extend([Preparing, Prepared].map(|s| (s, 1, 1, bytes)));
    }
    assert_eq!(rows, expected);
    for row in &outcome.rows {
        assert_eq!(
            (row.measured.slices, &row.measured.error),
            (Some(3), &None),
            "{row:?}"
        );
        assert!(
            row.measured.commits >= Some(3 * row.measured.threads),
            "{row:?}"
        );
        assert!(
            row.measured.commits_per_s_p10 <= row.measured.commits_per_s,
            "{row:?}"
        );
        assert!(
            row.measured.p50_us <= row.measured.p99_us
                && row.measured.p999_us <= row.measured.max_us
        );
        let carried = row.measured.records_per_write.unwrap();
        match row.subject.unwrap() {
            Raw => {
                assert_eq!((carried, row.measured.forces_per_commit), (1.0, Some(1.0)));
                assert_eq!(
                    row.measured.bytes_per_write,
                    row.written_bytes.map(|b| b as f64)
                );
                assert!(row.written_bytes.unwrap().is_multiple_of(unit));
            }
            Baseline => {
                assert!(
                    carried >= 1.0 && carried <= row.measured.threads as f64,
                    "{row:?}"
                );
            }
            Log | Handles | Callbacks | Prepared | Preparing => {
                assert!(carried <= f64::from(row.outstanding), "{row:?}");
                assert!(
                    row.measured.bytes_per_write.unwrap() >= unit as f64,
                    "{row:?}"
                );
            }
        }
        let was_reopened = matches!(row.subject, Some(Handles | Callbacks));
        assert_eq!(
            row.reopened_records,
            row.measured.commits.filter(|_| was_reopened)
        );
        assert_eq!(row.to_baseline.is_some(), row.subject == Some(Log));
    }
    let names: Vec<&str> = outcome.targets.iter().map(|t| t.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "p50-1x128B",
            "submit-2x33",
            "preparing-loss-128B",
            "preparing-p999-128B",
            "preparing-loss-16KiB",
            "preparing-p999-16KiB"
        ]
    );
    // The target of `submit` is for another case.
    assert!(outcome.targets[0].met.is_some() && outcome.targets[1].met.is_none());
    // Finished logs are removed.
    assert!(std::fs::read_dir(dir.path()).unwrap().count() <= 1);
}

fn unit_of(setup: &Setup) -> u64 {
    let directory = setup.system.directory(&setup.path).unwrap();
    u64::from(directory.facts().unwrap().write_unit())
}

/// Raises the interrupt when pair number `at` starts.
struct RaiseAt {
    at: u32,
    begun: std::cell::Cell<u32>,
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
fn an_interrupt_leaves_whole_pairs() {
    for (at, slices) in [(1, None), (3, Some(vec![2, 2, 2])), (4, Some(vec![3; 3]))] {
        let (dir, interrupt) = (place(), Interrupt::new());
        let progress = RaiseAt {
            at,
            begun: Default::default(),
            interrupt: interrupt.clone(),
        };
        let setup = setup(&dir, Rc::new(progress), interrupt);
        match (run(&tiny(), setup), slices) {
            (Err(MeasureError::NoSpace(_)), _) => return,
            (Err(MeasureError::Interrupted), None) => {}
            (Ok(outcome), Some(slices)) => {
                assert!(outcome.interrupted);
                let got: Vec<_> = outcome.rows.iter().map(|r| r.measured.slices).collect();
                assert_eq!(got, slices.into_iter().map(Some).collect::<Vec<_>>());
            }
            (other, _) => panic!("{:?}", other.map(|o| o.rows)),
        }
    }
}
