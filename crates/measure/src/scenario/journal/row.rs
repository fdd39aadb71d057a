//! The row of a subject, and the reference rows of the ratios.

use crate::result::{Kind, Quantity, Row};
use crate::run::SubjectKind;
use crate::run::schedule::Measured;
use crate::run::stats::spread;
use logforce_device::{FileState, Method};

/// Returns the row of a measured subject.
pub fn row(measured: &Measured) -> Row {
    let key = &measured.key;
    let mut row = Row {
        scenario: key.scenario.into(),
        subject: key.subject.into(),
        method: key.method.into(),
        file_state: key.file_state.into(),
        threads: key.threads.into(),
        bytes: key.bytes,
        error: measured.error.clone(),
        ..Row::of(Kind::Journal)
    };
    let recorder = &measured.recorder;
    let commits = recorder.commits();
    if row.error.is_some() || commits == 0 {
        row.error
            .get_or_insert_with(|| "nothing measured".to_owned());
        return row;
    }
    let Some(assessment) = &measured.assessment else {
        row.error = Some("its guarantee is unknown".to_owned());
        return row;
    };
    let total_ms = recorder.time().as_secs_f64() * 1e3;
    let slices = recorder.slices().iter().filter(|s| s.commits > 0);
    row.each = slices
        .map(|s| s.time.as_secs_f64() * 1e3 / s.commits as f64)
        .collect();
    // The edges come from the slices; the figure is the mean over all commits.
    row.set(Quantity::MsPerCommit, spread(&row.each));
    row.ms_per_commit = Some(total_ms / commits as f64);
    row.commits = Some(commits);
    row.total_ms = Some(total_ms);
    row.commits_per_s = Some(1e3 * commits as f64 / total_ms);
    row.set_latencies(recorder.latencies());
    row.set_device(recorder.device(), commits);
    row.set_cpu_wait(recorder.cpu_wait(), recorder.time());
    row.file_bytes_per_commit = Some(recorder.log_bytes() as f64 / commits as f64);
    row.set_worth(Some(assessment));
    row
}

/// Returns the method of a row.
pub fn method(row: &Row) -> Option<Method> {
    row.method.known()
}

/// Returns the state of the file before the commits; `None` for the log.
pub fn file_state(row: &Row) -> Option<FileState> {
    row.file_state.known()
}

/// Returns whether the file was filled beforehand.
pub fn is_written(row: &Row) -> bool {
    file_state(row).is_some_and(FileState::is_written)
}

/// Returns the milliseconds per commit of the fastest safe raw row with commits of `bytes` bytes. Ratios
/// refer to this value.
pub fn fastest_safe(rows: &[Row], bytes: u64) -> Option<f64> {
    let comparable = |r: &&Row| r.is_safe() && r.subject == SubjectKind::Raw && r.bytes == bytes;
    rows.iter()
        .filter(comparable)
        .filter_map(|r| r.ms_per_commit)
        .min_by(f64::total_cmp)
}

/// Returns the milliseconds per commit to which the ratio of `row` refers: those of the fastest safe raw
/// row of the same size. For the log with one thread, a raw row of the same method is preferred. It must
/// write the same bytes, headers and padding included, to a file filled beforehand.
pub fn reference(rows: &[Row], row: &Row) -> Option<f64> {
    let same = || {
        let writes = row.file_bytes_per_commit?;
        rows.iter()
            .filter(|r| {
                r.subject == SubjectKind::Raw
                    && r.method == row.method
                    // The tolerance is for the headers of segments.
                    && (writes / r.bytes as f64 - 1.0).abs() < 0.01
                    && is_written(r)
            })
            .filter_map(|r| r.ms_per_commit)
            .min_by(f64::total_cmp)
    };
    (row.subject == SubjectKind::Logforce && row.threads == 1)
        .then(same)
        .flatten()
        .or_else(|| fastest_safe(rows, row.bytes))
}
