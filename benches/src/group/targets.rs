//! Targets for group commit. Each applies only to the case in its name.

use crate::target::{Bound, Target};
use logforce_measure::group::{Series, SeriesPoint};
use logforce_terminal::numbers::{bytes, count};

fn rate(point: &SeriesPoint) -> f64 {
    point.rate
}

/// Returns the targets for threads that wait for each commit.
pub(super) fn of_commits(
    threads: u32,
    size: u64,
    log: &Series,
    baseline: &Series,
    raw: &Series,
) -> Vec<Target> {
    const SMALL: u64 = 128;
    const LARGE: u64 = 16 << 10;
    let pairs = log.points.len();
    let short = bytes(size).replace(' ', "");
    let whom = format!("{} of {}", count(threads, "thread"), bytes(size));
    let faster = |target| {
        let name = format!("commits-{threads}x{short}");
        let what = format!("{whom}: commits/s to the baseline's");
        Target::of(name, what, log.ratio(baseline, rate), "ratio", pairs)
            .aim(Bound::AtLeast, target)
    };
    match (threads, size) {
        (1, SMALL | LARGE) => {
            let what = format!("One thread of {}: p50 to the raw loop's", bytes(size));
            let value = log.ratio(raw, |p| p.p50);
            let target = Target::of(format!("p50-1x{short}"), what, value, "ratio", pairs);
            vec![target.aim(Bound::AtMost, 1.05)]
        }
        (16, SMALL) => vec![faster(1.15)],
        (64, SMALL) => {
            let what = format!("{whom}: p99 to the baseline's");
            let value = log.ratio(baseline, |p| p.p99);
            let p99 = Target::of(format!("p99-64x{short}"), what, value, "ratio", pairs);
            vec![faster(2.2), p99.aim(Bound::Below, 1.0)]
        }
        (16, LARGE) => vec![faster(1.5).or_as_raw(log.ratio(raw, rate))],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(rate: f64, p50: f64, p99: f64) -> Series {
        Series {
            points: vec![SeriesPoint { rate, p50, p99 }; 3],
            ..Series::default()
        }
    }

    #[test]
    fn each_case_has_its_own() {
        let (log, baseline, raw) = (
            series(120.0, 10.4, 20.0),
            series(100.0, 10.0, 19.0),
            series(119.0, 10.0, 10.0),
        );
        let of = |threads, size| of_commits(threads, size, &log, &baseline, &raw);
        let met = |threads, size| -> Vec<_> {
            of(threads, size).iter().map(|t| t.met.unwrap()).collect()
        };
        assert_eq!(met(1, 128), [true]);
        assert_eq!(met(16, 128), [true]);
        assert_eq!(met(64, 128), [false, false]);
        // Below 1.5 times the baseline, but at the raw loop's rate.
        assert_eq!(met(16, 16384), [true]);
        assert!(of(4, 128).is_empty() && of(64, 16384).is_empty());
        let text = of(64, 128)[1].text();
        assert!(
            text.contains("× 1.053 [") && text.contains("target < 1: MISS"),
            "{text}"
        );
        let text = of(16, 16384)[0].text();
        assert!(
            text.contains("target ≥ 1.5: PASS (or the raw loop's rate)"),
            "{text}"
        );
    }
}
