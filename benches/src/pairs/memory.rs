//! Peak memory of a process whose log has large records.

use super::Bench;
use super::child::Task;
use super::report::{Bound, Line};
use logforce::Guarantee;
use logforce_measure::MeasureError;
use logforce_measure::library::LONGEST_SEGMENT;
use logforce_measure::workplace::remove;
use logforce_terminal::numbers::{bytes, count};

const RECORD: u64 = 1 << 20;
const THREADS: u32 = 4;
/// Largest accepted peak of resident memory, MiB.
const TARGET: f64 = 64.0;

/// Runs the measurement.
pub(super) fn run(bench: &Bench<'_>, lines: &mut Vec<Line>) -> Result<(), MeasureError> {
    bench
        .setup
        .progress
        .doing("memory: records of 1 MiB by four threads");
    let records = (bench.options.memory / RECORD).max(1);
    let task = task(bench, "log-memory", LONGEST_SEGMENT, RECORD, records);
    let task = Task {
        threads: THREADS,
        force_every: 1,
        read: true,
        ..task
    };
    let answer = bench.setup.child.crash_after(&task)?;
    remove(&task.path)?;
    let Some(peak) = answer.peak_kib else {
        return Err(MeasureError::NotOffered(
            "the system does not report how much memory a process had".to_owned(),
        ));
    };
    let what = format!(
        "Resident memory of a process in which {THREADS} threads commit {} of {}, read again afterwards",
        count(records, "record"),
        bytes(RECORD)
    );
    let line = Line::of_runs("memory", what, "MiB", &[peak as f64 / 1024.0]);
    lines.push(line.aim(Bound::AtMost, TARGET));
    Ok(())
}

/// Returns the task of a child whose single thread fills a log and forces after every 16 records.
pub(super) fn task(
    bench: &Bench<'_>,
    name: &str,
    segment_size: u64,
    record: u64,
    records: u64,
) -> Task {
    Task {
        path: bench.path(name),
        method: bench.method.to_string(),
        require: Guarantee::ALL
            .iter()
            .position(|g| *g == bench.assessment.guarantee)
            .unwrap_or(0),
        segment_size,
        record: usize::try_from(record).unwrap_or(0),
        records,
        threads: 1,
        force_every: 16,
        read: false,
    }
}
