//! Targets for group commit. Each applies only to the case in its name.

use crate::target::{Bound, between, number, verdict};
use logforce_measure::group::{Series, SeriesPoint};
use logforce_measure::run::stats::Spread;
use logforce_terminal::numbers::{bytes, count};
use serde::Serialize;

/// A target and its result.
#[derive(Debug, Clone, Serialize)]
pub struct Target {
    /// Name, such as `commits-16x128B`.
    pub name: String,
    /// Compared values, in words.
    pub what: String,
    /// Result, in `unit`: the median over all pairs where each pair has a value.
    pub value: Option<f64>,
    /// 10th percentile of the pairs.
    pub value_p10: Option<f64>,
    /// 90th percentile of the pairs.
    pub value_p90: Option<f64>,
    /// Unit of `value`: `ratio`, `commits/s` or `share`.
    pub unit: &'static str,
    /// Direction of the target; `None` for a value without a target.
    pub bound: Option<Bound>,
    /// Target value.
    pub target: Option<f64>,
    /// Ratio to the raw loop, if at least as many commits as the raw loop's also meet the target.
    pub or_to_raw: Option<f64>,
    /// True if the target was met.
    pub met: Option<bool>,
    /// Number of pairs.
    pub pairs: u64,
}

fn rate(point: &SeriesPoint) -> f64 {
    point.rate
}

impl Target {
    /// Returns the result of a case, without a target.
    pub(super) fn of(
        name: String,
        what: String,
        value: Option<Spread>,
        unit: &'static str,
        pairs: usize,
    ) -> Target {
        Target {
            name,
            what,
            value: value.map(|s| s.median),
            value_p10: value.map(|s| s.p10),
            value_p90: value.map(|s| s.p90),
            unit,
            bound: None,
            target: None,
            or_to_raw: None,
            met: None,
            pairs: pairs as u64,
        }
    }

    /// Adds the target value.
    pub(super) fn aim(self, bound: Bound, target: f64) -> Target {
        let met = self.value.map(|v| bound.is_met(v, target));
        Target {
            bound: Some(bound),
            target: Some(target),
            met,
            ..self
        }
    }

    fn or_as_raw(self, ratio: Option<Spread>) -> Target {
        let ratio = ratio.map(|s| s.median);
        Target {
            or_to_raw: ratio,
            met: self.met.map(|met| met || ratio.is_some_and(|r| r >= 1.0)),
            ..self
        }
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

    /// Returns the text for a terminal.
    pub(super) fn text(&self) -> String {
        let mut text = format!("{}: ", self.what);
        text.push_str(&match self.unit {
            "share" => format!("{} %", number(self.value.map(|v| v * 100.0))),
            "commits/s" => number(self.value),
            _ => format!("× {}", number(self.value)),
        });
        if self.value_p10.is_some() && self.pairs > 1 {
            let scale = if self.unit == "share" { 100.0 } else { 1.0 };
            let edge = |v: Option<f64>| v.map(|v| v * scale);
            text.push_str(&between(edge(self.value_p10), edge(self.value_p90)));
        }
        if let Some(raw) = self.or_to_raw {
            text.push_str(&format!(", × {} the raw loop's", number(Some(raw))));
        }
        if let (Some(bound), Some(target), Some(met)) = (self.bound, self.target, self.met) {
            text.push_str("   ");
            text.push_str(&verdict(bound, target, met));
            if self.or_to_raw.is_some() {
                text.push_str(" (or the raw loop's rate)");
            }
        }
        text.push('\n');
        text
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
        let of = |threads, size| Target::of_commits(threads, size, &log, &baseline, &raw);
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
