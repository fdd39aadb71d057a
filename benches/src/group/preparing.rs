//! One committing thread, with and without segments being prepared in the background. With: small
//! segments that are never recycled, so that each is filled with zeroes. Without: one segment that is
//! long enough for a whole slice.

use super::records::record;
use super::report::{GroupRow, Subject};
use super::{Bench, Options, Part, Results};
use crate::target::{Bound, Target};
use logforce::Lsn;
use logforce_measure::MeasureError;
use logforce_measure::group::{MeasuredSlice, Series};
use logforce_measure::library::SharedLog;
use logforce_measure::run::stats::Spread;
use logforce_terminal::numbers::{bytes, count};

/// Size of a record, bytes.
pub(super) const RECORDS: [u64; 2] = [128, 16 << 10];
/// Upper limit for p99.9, as a multiple of the p99.9 without preparation.
const TARGET: f64 = 3.0;
/// Minimum number of commits for a meaningful p99.9: at least ten must lie beyond it.
const ENOUGH: u64 = 10_000;
/// Upper bound for the bytes that one thread commits in a second.
const MOST_PER_SECOND: f64 = (1_u64 << 30) as f64;
/// Size of the records that fill up the rest of a segment, bytes.
const FILLER: usize = 1 << 20;

/// Returns the size of a segment that holds a whole slice, bytes.
fn long(options: &Options) -> u64 {
    let slice = (options.slice.as_secs_f64() * MOST_PER_SECOND / 2.0) as u64;
    slice.next_power_of_two().clamp(16 << 20, 1 << 30)
}

/// Returns the largest disk usage of this part, bytes.
pub(super) fn space(options: &Options) -> u64 {
    let slice = (options.slice.as_secs_f64() * MOST_PER_SECOND) as u64;
    slice + 4 * options.segment + 5 * long(options)
}

/// Measures all cases.
pub(super) fn run(bench: &Bench<'_>, results: &mut Results) -> Result<(), MeasureError> {
    let small = bench.options.segment;
    let mut busy = bench
        .slices
        .log("log-preparing", small)
        .max_spare_segments(0);
    let long = long(bench.options);
    let mut quiet = bench.slices.log("log-prepared", long);
    for size in RECORDS {
        let (mut with, mut without) = (Series::default(), Series::default());
        let doing = format!("segments prepared beside {}", bytes(size));
        let result = bench.each_pair(&doing, |nth| {
            let mut taken = [None, None];
            for turn in 0..2 {
                let which = (nth as usize + turn) % 2;
                taken[which] = Some(match which {
                    0 => bench.slices.of_log(&mut busy, size, 1, u64::MAX >> 1)?,
                    _ => undisturbed(bench, &mut quiet, size, long)?,
                });
            }
            let [a, b] = &taken;
            a.iter().for_each(|t| with.push(t));
            b.iter().for_each(|t| without.push(t));
            Ok(())
        });
        if !with.points.is_empty() {
            report(size, small, &with, &without, results);
        }
        result?;
    }
    for log in [busy, quiet] {
        let path = log.path().to_owned();
        drop(log);
        logforce_measure::workplace::remove(&path)?;
    }
    Ok(())
}

/// Measures a slice within one segment. The next segment exists already.
fn undisturbed(
    bench: &Bench<'_>,
    shared: &mut SharedLog,
    bytes: u64,
    long: u64,
) -> Result<MeasuredSlice, MeasureError> {
    bench.slices.slice(|limit, recorder, counts| {
        let mut log = shared.ready()?;
        let left = |tail: Lsn| long - tail.0 % long;
        if left(log.tail_lsn()) < long / 2 {
            // Fills up the current segment, so that the slice has a segment to itself.
            let filler = record(FILLER as u64);
            let segment = log.tail_lsn().0 / long;
            let mut end = log.tail_lsn();
            while end.0 / long == segment {
                bench.slices.interrupt().check()?;
                end = log.append(&filler)?.end;
            }
            log.force(end)?;
            shared.used_to(end);
            log = shared.ready()?;
        }
        let job = logforce_measure::library::Job {
            log: &log,
            record: usize::try_from(bytes).unwrap_or(0),
            threads: 1,
            // Stops before the end: the next record might start another segment.
            until: log.tail_lsn().plus(left(log.tail_lsn()) - long / 64),
        };
        let last = bench
            .slices
            .counted(counts, || job.together(limit, recorder))?;
        shared.used_to(last);
        Ok(())
    })
}

fn report(size: u64, small: u64, with: &Series, without: &Series, results: &mut Results) {
    let row = |subject, series| GroupRow::measured(Part::Preparing, subject, series).of(1, 1, size);
    let ns = with.counts.other_ns as f64;
    let share = ns / with.time.as_nanos().max(1) as f64;
    results.rows.push(GroupRow {
        segment_bytes: Some(small),
        preparing_share: Some(share),
        prepared_bytes_per_s: Some(
            with.counts.other_bytes as f64 / with.time.as_secs_f64().max(f64::MIN_POSITIVE),
        ),
        ..row(Subject::Preparing, with)
    });
    results.rows.push(row(Subject::Prepared, without));
    let pairs = with.points.len();
    let short = bytes(size).replace(' ', "");
    let kept = with.ratio(without, |p| p.rate);
    let loss = kept.map(|s| Spread {
        median: 1.0 - s.median,
        p10: 1.0 - s.p90,
        p90: 1.0 - s.p10,
    });
    let what = format!(
        "One thread of {} while segments of {} are prepared, {:.0} % of the time: commits/s lost",
        bytes(size),
        bytes(small),
        share * 100.0
    );
    results.targets.push(Target::of(
        format!("preparing-loss-{short}"),
        what,
        loss,
        "share",
        pairs,
    ));
    let told_apart = with.commits().min(without.commits()) >= ENOUGH && share > 0.0;
    let what = format!(
        "One thread of {} while segments of {} are prepared: p99.9 to that without, of {} and {}{}",
        bytes(size),
        bytes(small),
        with.commits(),
        count(without.commits(), "commit"),
        if told_apart {
            ""
        } else {
            " (too few to judge)"
        }
    );
    let ratio = with.latencies.quantile_us(0.999) / without.latencies.quantile_us(0.999);
    let all = Spread {
        median: ratio,
        p10: ratio,
        p90: ratio,
    };
    let target = Target {
        // The quantile covers all commits together, because a single slice has too few.
        value_p10: None,
        value_p90: None,
        ..Target::of(
            format!("preparing-p999-{short}"),
            what,
            Some(all),
            "ratio",
            pairs,
        )
    };
    results.targets.push(if told_apart {
        target.aim(Bound::Below, TARGET)
    } else {
        target
    });
}
