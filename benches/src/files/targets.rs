//! Targets of durable files.

use super::Workload;
use super::case::{Case, Subject, series};
use crate::target::{Bound, Target};
use logforce_measure::group::{Series, SeriesPoint};
use logforce_terminal::numbers::count;

/// Returns the targets of `File::write_commit`: the rate of one `fdatasync` per commit with one thread,
/// 8 times as much with 16 threads, and at least the rate of the group commit by hand with 64 threads.
pub(super) fn of(workload: Workload, cases: &[Case]) -> Vec<Target> {
    let own = |threads| series(cases, Subject::WriteCommit, threads);
    let target = |threads: u32, to: &str, other: Option<&Series>, least: f64| {
        let (own, other) = own(threads).zip(other)?;
        let rate: fn(&SeriesPoint) -> f64 = |p| p.rate;
        let name = format!("{}-{threads}", workload.name());
        let threads = count(u64::from(threads), "thread");
        let what = format!("{}, {threads}: commits/s to {to}", workload.name());
        let pairs = own.points.len();
        let result = Target::of(name, what, own.ratio(other, rate), "ratio", pairs);
        Some(result.aim(Bound::AtLeast, least))
    };
    let one = series(cases, Subject::SyncEach, 1);
    let by_hand = series(cases, Subject::ByHand, 64);
    let all = [
        target(1, "one fdatasync each", one, 0.97),
        target(16, "one thread's", own(1), 8.0),
        target(64, "the group commit by hand", by_hand, 1.0),
    ];
    all.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(threads: u32, subject: Subject, rate: f64) -> Case {
        let (p50, p99) = (1e6 / rate, 1e6 / rate);
        Case {
            threads,
            subject,
            series: Series {
                points: vec![SeriesPoint { rate, p50, p99 }; 3],
                ..Series::default()
            },
        }
    }

    #[test]
    fn each_number_of_threads_has_one() {
        let cases = [
            case(1, Subject::WriteCommit, 98.0),
            case(1, Subject::SyncEach, 100.0),
            case(16, Subject::WriteCommit, 700.0),
            case(64, Subject::WriteCommit, 2000.0),
            case(64, Subject::ByHand, 1000.0),
        ];
        let found = of(Workload::Append, &cases);
        let met: Vec<_> = found.iter().map(|t| (&t.name[..], t.met)).collect();
        let expected = [
            ("append-1", Some(true)),
            ("append-16", Some(false)),
            ("append-64", Some(true)),
        ];
        assert_eq!(met, expected);
        let text = found[1].text();
        assert!(text.contains("target ≥ 8: MISS"), "{text}");
        assert_eq!(of(Workload::Append, &cases[..1]).len(), 0);
    }
}
