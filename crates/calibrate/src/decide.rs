//! From samples to a decision.
//!
//! Commits of one turn are neighbours in time, so their *ratio* is free of what changes slowly (a
//! busy neighbour, a hot device). The median of the ratios ignores outliers. How far it can be
//! trusted is asked twice: by order statistics (what the median could be, by chance), and by the
//! quarters of the run (what it was, at different times). The wider answer is the noise.

use crate::Samples;
use logforce_device::Method;
use std::time::Duration;

/// Pairs below which nothing is decided: with fewer, the interval is the whole range of the
/// samples.
pub(crate) const LEAST_PAIRS: usize = 12;

/// Width of the interval of a median, in standard deviations of its rank: 3 is wrong once in 370
/// times, and a wrong decision would have to be wrong by a tenth besides.
const Z: f64 = 3.0;

/// The median of fewer pairs than these says nothing of its part of the run.
const LEAST_QUARTER: usize = 8;

/// A method has to take less than this part of the other's time to replace it.
pub(crate) const CLEARLY_FASTER: f64 = 0.9;

/// What a method's time was, divided by another's in the same turn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The median of the ratios.
    pub mid: f64,
    /// The least that it may be, by the noise.
    pub low: f64,
    /// The most that it may be.
    pub high: f64,
}

/// What was measured of a method.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Figure {
    /// Which.
    pub method: Method,
    /// The median of its commits of the smallest size.
    pub median: Duration,
    /// The median of its commits of the largest size; the same as `median` if there was one size.
    pub median_large: Duration,
    /// Its time divided by the default method's; `None` for the default.
    pub to_default: Option<Interval>,
}

/// Which method to use, and why.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Decision {
    /// The method to use.
    pub method: Method,
    /// Measuring decided it: another method is clearly faster than the default, or none can be.
    /// `false`: the default, for want of evidence.
    pub decided: bool,
    /// Why, in words.
    pub why: String,
    /// What was measured, the default first; empty if nothing was.
    pub figures: Vec<Figure>,
}

impl Decision {
    /// The default method, because nothing could be measured.
    pub fn undecided(default: Method, why: impl Into<String>) -> Self {
        Decision {
            method: default,
            decided: false,
            why: why.into(),
            figures: Vec::new(),
        }
    }
}

/// Decides for the default method (the first of the samples) unless another takes less than 90 %
/// of its time, beyond the noise. A method takes the place of another that is preferred to it by
/// the same rule, so that of two that are about as fast it is always the same one that is chosen.
///
/// `default` is the answer where there are no samples.
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
        // What takes the place of a winner has to have won against the default itself.
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

/// The time of the method at `i`, divided by that of the method at `than`. `None` without samples.
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

/// The logarithm of a time divided by another.
pub(crate) fn ratio(time: Duration, by: Duration) -> f64 {
    let nanos = |d: Duration| d.as_nanos().max(1) as f64;
    (nanos(time) / nanos(by)).ln()
}

/// The median of ratios, given as logarithms in the order in which they were measured, and how far it
/// can be trusted. `None` of none.
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
