//! Counts, never timings.

use super::baseline::Baseline;
use super::*;
use crate::counters::NoCounters;
use crate::crew::{first_number, stamp};
use crate::progress::Silent;
use logforce_device::{AlignedBuf, Barrier, OpenFile};
use logforce_device_os::OsSystem;
use std::collections::HashSet;

fn place() -> tempfile::TempDir {
    let target = std::env::current_exe().unwrap();
    tempfile::tempdir_in(target.parent().unwrap()).unwrap()
}

fn setup(dir: &tempfile::TempDir, progress: Rc<dyn Progress>, interrupt: Interrupt) -> Setup {
    Setup {
        system: Arc::new(OsSystem::new()),
        path: dir.path().to_owned(),
        space: Space::at(dir.path()).unwrap(),
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

/// Unless the disk is too full for it.
fn measured(options: &Options, setup: &Setup) -> Option<Outcome> {
    match run(options, setup) {
        Err(MeasureError::NoSpace(_)) => None,
        other => Some(other.unwrap()),
    }
}

#[test]
fn every_subject_of_every_case_has_a_row_that_adds_up() {
    let dir = place();
    let setup = setup(&dir, Rc::new(Silent), Interrupt::new());
    let Some(outcome) = measured(&tiny(), &setup) else {
        return;
    };
    assert!(!outcome.interrupted);
    let rows: Vec<_> = outcome
        .rows
        .iter()
        .map(|r| (r.subject.unwrap(), r.threads, r.outstanding, r.record_bytes))
        .collect();
    use report::Subject::*;
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
    let unit = outcome_unit(&setup);
    for row in &outcome.rows {
        assert_eq!((row.slices, &row.error), (3, &None), "{row:?}");
        assert!(row.commits >= 3 * u64::from(row.threads), "{row:?}");
        assert!(row.commits_per_s_p10 <= row.commits_per_s, "{row:?}");
        assert!(row.p50_us <= row.p99_us && row.p999_us <= row.max_us);
        let carried = row.records_per_write.unwrap();
        match row.subject.unwrap() {
            Raw => {
                assert_eq!((carried, row.forces_per_commit), (1.0, Some(1.0)));
                assert_eq!(row.bytes_per_write, row.written_bytes.map(|b| b as f64));
                assert!(row.written_bytes.unwrap().is_multiple_of(unit));
            }
            Baseline => {
                assert!(
                    carried >= 1.0 && carried <= f64::from(row.threads),
                    "{row:?}"
                );
            }
            Log | Handles | Callbacks | Prepared | Preparing => {
                assert!(carried <= f64::from(row.outstanding), "{row:?}");
                assert!(row.bytes_per_write.unwrap() >= unit as f64, "{row:?}");
            }
        }
        let was_reopened = matches!(row.subject, Some(Handles | Callbacks));
        assert_eq!(row.reopened_records, was_reopened.then_some(row.commits));
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
    // The target for submissions is for another case.
    assert!(outcome.targets[0].met.is_some() && outcome.targets[1].met.is_none());
    // What is done is gone.
    assert!(std::fs::read_dir(dir.path()).unwrap().count() <= 1);
}

fn outcome_unit(setup: &Setup) -> u64 {
    let directory = setup.system.directory(&setup.path).unwrap();
    u64::from(directory.facts().unwrap().write_unit())
}

/// Raises the flag when a pair is begun.
struct Impatient {
    at: u32,
    begun: std::cell::Cell<u32>,
    interrupt: Interrupt,
}

impl Progress for Impatient {
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
        let impatient = Impatient {
            at,
            begun: Default::default(),
            interrupt: interrupt.clone(),
        };
        let setup = setup(&dir, Rc::new(impatient), interrupt);
        match (run(&tiny(), &setup), slices) {
            (Err(MeasureError::NoSpace(_)), _) => return,
            (Err(MeasureError::Interrupted), None) => {}
            (Ok(outcome), Some(slices)) => {
                assert!(outcome.interrupted);
                let got: Vec<u64> = outcome.rows.iter().map(|r| r.slices).collect();
                assert_eq!(got, slices);
            }
            (other, _) => panic!("{:?}", other.map(|o| o.rows)),
        }
    }
}

#[test]
fn every_record_of_the_baseline_is_there_and_whole() {
    const LEN: u64 = 8 << 20;
    const EACH: u64 = 100;
    let dir = place();
    let system = OsSystem::new();
    let directory = system.directory(dir.path()).unwrap();
    let file = directory.open("journal", OpenFile::CREATE).unwrap();
    let zeroes = AlignedBuf::zeroed(LEN as usize, 4096);
    crate::prepare::write(&*file, zeroes, 0, LEN as usize, false).unwrap();
    file.barrier(Barrier::Full).unwrap();
    // Not past the cache: the filesystem may not offer it.
    let baseline = Baseline::new(file, Method::Fdatasync, 4096, LEN);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let baseline = &baseline;
            scope.spawn(move || {
                // Of all lengths, so that some end at a unit's end or close to it.
                let long = record(5000);
                for n in 0..EACH {
                    let number = first_number(thread) + n;
                    let mut record = long[..8 + (number * 61 % 4900) as usize].to_vec();
                    stamp(&mut record, number);
                    baseline.commit(&record).unwrap();
                }
            });
        }
    });
    let bytes = std::fs::read(dir.path().join("journal")).unwrap();
    let (mut at, mut found) = (0, HashSet::new());
    while at + 8 <= bytes.len() {
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        let len = word(at) as usize;
        if len == 0 || !at.is_multiple_of(4096) && at % 4096 > 4088 {
            // The next write begins with a unit.
            at = (at + 1).next_multiple_of(4096);
            continue;
        }
        let record = &bytes[at + 8..at + 8 + len];
        assert_eq!(word(at + 4), crc32c::crc32c(record));
        let number = u64::from_le_bytes(record[..8].try_into().unwrap());
        assert!(found.insert(number), "{number} is there twice");
        at += 8 + len;
    }
    let all = (0..8).flat_map(|t| (0..EACH).map(move |n| first_number(t) + n));
    assert_eq!(found, all.collect());
    let too_long = vec![0; 5 << 20];
    assert!(baseline.commit(&too_long).is_err());
}

#[test]
fn a_baseline_that_fails_tells_everybody() {
    let dir = crate::testing::MemDirectory::new();
    dir.shared
        .bad_through
        .store(true, std::sync::atomic::Ordering::Relaxed);
    let directory: Arc<dyn Directory> = dir;
    let file = directory.open("journal", OpenFile::CREATE).unwrap();
    let baseline = Baseline::new(file, Method::DirectDsync, 4096, 1 << 20);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..2 {
                    let error = baseline.commit(&[1; 100]).unwrap_err();
                    assert!(error.to_string().contains("planted"), "{error}");
                }
            });
        }
    });
}
