//! Commits by one thread, one after another.

use super::Bench;
use super::report::{Bound, Line, Triple};
use logforce_device::FileState;
use logforce_measure::Limit;
use logforce_measure::counters::NoCounters;
use logforce_measure::library::{LONGEST_SEGMENT, LogJournal, SharedLog};
use logforce_measure::prepare::PreparedFile;
use logforce_measure::raw::RawJournal;
use logforce_measure::subject::{RowKey, Subject, SubjectKind};
use logforce_measure::workplace::remove;
use logforce_measure::{MeasureError, Recorder};
use logforce_terminal::numbers::bytes;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

const NAME: &str = "pairs";
/// Size of a record, bytes.
const RECORDS: [u64; 2] = [16 << 10, 128];
/// Upper limit for the p50 of a commit, as a multiple of the raw loop's.
const TARGET: f64 = 1.05;

/// Runs the comparison.
pub(super) fn run(bench: &Bench<'_>, lines: &mut Vec<Line>) -> Result<(), MeasureError> {
    let log = bench.log("log-commits", LONGEST_SEGMENT);
    let path = log.path().to_owned();
    let log = Rc::new(RefCell::new(log));
    for (nth, record) in RECORDS.into_iter().enumerate() {
        let padded = log.borrow_mut().padded(record)?;
        let line = compare(bench, &log, record, padded, nth)?;
        lines.push(line);
    }
    drop(log);
    remove(&path)
}

fn compare(
    bench: &Bench<'_>,
    log: &Rc<RefCell<SharedLog>>,
    record: u64,
    padded: u64,
    nth: usize,
) -> Result<Line, MeasureError> {
    let setup = bench.setup;
    let file = PreparedFile::new(
        Arc::clone(&setup.directory),
        FileState::Zeroed,
        LONGEST_SEGMENT,
        bench.unit,
        setup.interrupt.clone(),
        Rc::clone(&setup.progress),
    );
    let file = Rc::new(RefCell::new(file));
    let size = usize::try_from(padded).unwrap_or(0);
    let assessment = bench.assessment.clone();
    let mut raw = RawJournal::new(NAME, bench.method, size, bench.unit, assessment, file);
    let key = RowKey {
        scenario: NAME,
        subject: SubjectKind::Logforce,
        method: bench.method,
        file_state: None,
        threads: 1,
        bytes: record,
    };
    let mut lib = LogJournal::new(key, bench.assessment.clone(), None, Rc::clone(log));
    let (mut triples, pairs) = (Vec::new(), bench.options.pairs);
    for pair in 0..pairs {
        let doing = format!("commits of {}: pair {}", bytes(record), pair + 1);
        setup.progress.doing(&doing);
        let done = (nth as f64 + f64::from(pair) / f64::from(pairs)) / RECORDS.len() as f64;
        setup.progress.fraction(done);
        let triple = Triple {
            before: slice(bench, &mut raw)?,
            log: slice(bench, &mut lib)?,
            after: slice(bench, &mut raw)?,
        };
        if setup.interrupt.is_raised() {
            break;
        }
        triples.push(triple);
    }
    let name = format!("commit-{}", bytes(record).replace(' ', ""));
    let what = format!(
        "One thread commits {}: p50, {} written each time",
        bytes(record),
        bytes(padded)
    );
    Ok(Line::of_pairs(&name, what, "µs", &triples).aim(Bound::AtMost, TARGET))
}

/// Returns the median latency of a slice, microseconds.
fn slice(bench: &Bench<'_>, subject: &mut dyn Subject) -> Result<f64, MeasureError> {
    let mut recorder = Recorder::new(Rc::new(NoCounters), bench.setup.interrupt.clone());
    let limit = Limit {
        commits: bench.options.slice,
        time: None,
    };
    subject.prepare()?;
    recorder.begin_slice();
    subject.run(&limit, &mut recorder)?;
    subject.finish()?;
    Ok(recorder.latencies().quantile_us(0.5))
}
