//! Decision: which method to use, given samples.
//!
//! The commits of one turn are close in time, so slow changes (a busy neighbour, a hot device) cancel out in
//! their *ratio*. The median of the ratios ignores outliers. Two estimates of its uncertainty are made: order
//! statistics give the range of the median by chance, and the quarters of the run give its change over time.
//! The wider range is the noise.

use crate::Samples;
use logforce_device::Method;
use std::time::Duration;

/// Minimum number of pairs for a decision. With fewer, the interval is the whole range of the samples.
pub(crate) const LEAST_PAIRS: usize = 12;

/// Width of the interval of a median, in standard deviations of its rank. With 3 the interval is wrong once
/// in 370 times, and a wrong decision requires an error of a tenth in addition.
const Z: f64 = 3.0;

/// Minimum number of pairs in a part of the run: the median of fewer pairs is meaningless.
const LEAST_QUARTER: usize = 8;

/// Ratio of times below which a method replaces another one.
pub(crate) const CLEARLY_FASTER: f64 = 0.9;

/// Ratio of one method's time to another's in the same turn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Median of the ratios.
    pub mid: f64,
    /// Lower bound of the median, given the noise.
    pub low: f64,
    /// Upper bound of the median, given the noise.
    pub high: f64,
}

/// Results of one method.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Figure {
    /// The method.
    pub method: Method,
    /// Median time of commits of the smallest size.
    pub median: Duration,
    /// Median time of commits of the largest size; equal to `median` if there was only one size.
    pub median_large: Duration,
    /// Time divided by that of the default method; `None` for the default method.
    pub to_default: Option<Interval>,
}

/// The chosen method, with the reason.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Decision {
    /// Method to use.
    pub method: Method,
    /// True if measurements decided: another method is clearly faster than the default, or none can be. False
    /// if the default is used because there is not enough evidence.
    pub decided: bool,
    /// Reason, in words.
    pub why: String,
    /// Results of the methods, the default first; empty if nothing was measured.
    pub figures: Vec<Figure>,
}

impl Decision {
    /// Returns the default method as the decision, because nothing could be measured.
    pub fn undecided(default: Method, why: impl Into<String>) -> Self {
        Decision {
            method: default,
            decided: false,
            why: why.into(),
            figures: Vec::new(),
        }
    }
}

/// Decides for the default method (the first of the samples) unless another takes less than 90 % of its time,
/// beyond the noise. By the same rule a method replaces another that is preferred to it. So the choice
/// between two methods of about the same speed is always the same.
///
/// Without samples the decision is `default`.
pub fn decide(samples: &Samples, default: Method) -> Decision {
    let methods = &samples.methods;
    let (Some((small, large)), Some(&first)) = (samples.sizes(), methods.first()) else {
        return Decision::undecided(default, "nothing was measured");
    };
    let mut decision = Decision::undecided(first, "");
    decision.figures = (0..methods.len())
        .map(|i| Figure {
            method: methods[i],
            median: median(samples.times(i, small)),
            median_large: median(samples.times(i, large)),
            to_default: (i > 0).then(|| compare(samples, i, 0)).flatten(),
        })
        .collect();
    let pairs = samples.turns.len();
    if pairs < LEAST_PAIRS {
        decision.why = format!(
            "only {pairs} commits of each method could be made in the time: too few to tell them \
             apart"
        );
        return decision;
    }
    let faster = |i, than| compare(samples, i, than).is_some_and(|r| r.high < CLEARLY_FASTER);
    let best = (1..methods.len()).fold(0, |best, i| {
        // A method that replaces a winner must also have won against the default.
        if faster(i, best) && (best == 0 || faster(i, 0)) {
            i
        } else {
            best
        }
    });
    let ratios: Vec<Interval> = decision
        .figures
        .iter()
        .filter_map(|f| f.to_default)
        .collect();
    if let (true, Some(r)) = (best > 0, decision.figures[best].to_default) {
        decision.method = methods[best];
        decision.decided = true;
        decision.why = format!(
            "a commit takes {:.0} % of the time that it takes by {first} ({:.0} to {:.0} % by the \
             noise, {pairs} pairs)",
            r.mid * 100.0,
            r.low * 100.0,
            r.high * 100.0
        );
    } else if ratios.iter().all(|r| r.low >= CLEARLY_FASTER) {
        decision.decided = true;
        decision.why =
            format!("no other method is faster by more than a tenth ({pairs} pairs of each)");
    } else {
        decision.why = format!(
            "another method may be faster, but not by more than a tenth beyond the noise ({pairs} \
             pairs of each)"
        );
    }
    decision
}

/// Returns the time of the method at `i`, divided by that of the method at `than`. Returns `None` without
/// samples.
fn compare(samples: &Samples, i: usize, than: usize) -> Option<Interval> {
    let logs: Vec<f64> = samples
        .turns
        .iter()
        .filter_map(|t| {
            let time = |at: usize| t.times.get(at).copied();
            Some(ratio(time(i)?, time(than)?))
        })
        .collect();
    interval(&logs)
}

/// Returns the logarithm of a time divided by another.
pub(crate) fn ratio(time: Duration, by: Duration) -> f64 {
    let nanos = |d: Duration| d.as_nanos().max(1) as f64;
    (nanos(time) / nanos(by)).ln()
}

/// Returns the median of ratios with its bounds. The ratios are given as logarithms, in the order of
/// measurement. Returns `None` without ratios.
pub(crate) fn interval(logs: &[f64]) -> Option<Interval> {
    let mut sorted = logs.to_vec();
    sorted.sort_by(f64::total_cmp);
    let mid = middle(&sorted)?;
    let n = sorted.len() as f64;
    let spread = Z * n.sqrt() / 2.0;
    let last = sorted.len() - 1;
    let mut low = sorted[((n / 2.0 - spread).floor().max(0.0) as usize).min(last)];
    let mut high = sorted[((n / 2.0 + spread).ceil().max(0.0) as usize).min(last)];
    for quarter in logs.chunks_exact((sorted.len() / 4).max(LEAST_QUARTER)) {
        let mut quarter = quarter.to_vec();
        quarter.sort_by(f64::total_cmp);
        if let Some(m) = middle(&quarter) {
            (low, high) = (low.min(m), high.max(m));
        }
    }
    Some(Interval {
        mid: mid.exp(),
        low: low.exp(),
        high: high.exp(),
    })
}

fn middle(sorted: &[f64]) -> Option<f64> {
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = sorted[(sorted.len() - 1) / 2];
    Some((lower + upper) / 2.0)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests;
