//! Opening after a crash and after a close, and the rate at which a log is scanned.

use super::Bench;
use super::memory::task;
use super::report::{Bound, Line};
use logforce::{Options, inspect::Visit};
use logforce_measure::MeasureError;
use logforce_measure::library::LONGEST_SEGMENT;
use logforce_measure::workplace::remove;
use logforce_terminal::numbers::{bytes, count};
use std::time::Instant;

const RECORD: u64 = 64 << 10;
/// Number of scans from the page cache.
const SCANS: usize = 5;
/// Minimum scan rate, GB/s.
const RATE: f64 = 3.0;
/// Minimum number of segments of the log. Opening may scan one segment and the data behind it, so a
/// shorter log would be scanned almost whole.
const SEGMENTS: u64 = 16;

/// Runs the measurement.
pub(super) fn run(bench: &Bench<'_>, lines: &mut Vec<Line>) -> Result<(), MeasureError> {
    let setup = bench.setup;
    setup.progress.doing("recovery: filling a log");
    let size = bench.options.log;
    let segment_size = (size / SEGMENTS)
        .next_multiple_of(1 << 20)
        .clamp(1 << 20, LONGEST_SEGMENT);
    // The log ends in the middle of a segment: at the start of one the anchor would be fresh.
    let records = (size + segment_size / 2).div_ceil(RECORD);
    let task = task(bench, "log-recovery", segment_size, RECORD, records);
    setup.child.crash_after(&task)?;
    setup.interrupt.check()?;

    setup.progress.doing("recovery: opening after a crash");
    let options = || {
        Options::new()
            .method(bench.method)
            .require(bench.assessment.guarantee)
            .require_verdict(logforce::Verdict::Contradicted)
            .segment_size(segment_size)
    };
    for (name, how) in [
        ("open-after-kill", "whose process was killed"),
        ("open-after-close", "that was closed in order"),
    ] {
        let start = Instant::now();
        let log = logforce::open_existing(&task.path, options())?;
        let took = start.elapsed().as_secs_f64() * 1e3;
        let scanned = log.recovered().scanned;
        let whole = log.recovered().end.since(log.front_lsn()).max(1);
        let what = format!(
            "Opening a log of {} {how}: scans {}; share of the log that is scanned",
            bytes(whole),
            bytes(scanned)
        );
        let share = scanned as f64 / whole as f64;
        // The anchor is written when a segment is prepared; the scan covers everything after it.
        let target = if log.recovered().clean {
            0.0
        } else {
            3.0 * segment_size as f64 / whole as f64
        };
        let line = Line::of_runs(name, what, "share", &[share]).took(took, "ms");
        lines.push(line.aim(Bound::AtMost, (target * 1e3).ceil() / 1e3));
        log.close()?;
        setup.interrupt.check()?;
    }

    setup.progress.doing("recovery: scanning");
    let mut rates = Vec::new();
    let mut scanned = 0;
    // The first scan loads the log into the page cache.
    for scan in 0..=SCANS {
        setup.interrupt.check()?;
        let inspector = logforce::inspect::open(&task.path)?;
        scanned = 0;
        let start = Instant::now();
        let found = inspector.walk(&mut |visit| {
            if let Visit::Batch(batch) = visit {
                scanned += batch.end.since(batch.lsn);
            }
            !setup.interrupt.is_raised()
        })?;
        let took = start.elapsed().as_secs_f64();
        if found.damages > 0 {
            return Err(MeasureError::NotOffered(format!(
                "the log is damaged in {}",
                count(found.damages, "spot")
            )));
        }
        if scan > 0 {
            rates.push(scanned as f64 / 1e9 / took);
        }
    }
    let what = format!(
        "Scanning {} from the page cache, every checksum checked",
        bytes(scanned)
    );
    lines.push(Line::of_runs("scan", what, "GB/s", &rates).aim(Bound::AtLeast, RATE));
    remove(&task.path)
}
