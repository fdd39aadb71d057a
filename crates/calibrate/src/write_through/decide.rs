//! From pairs of times to a crossover.

use super::WriteThroughLimit;
use crate::Interval;
use crate::decide::{CLEARLY_FASTER, LEAST_PAIRS, interval, ratio};
use crate::store::rounded;
use std::time::Duration;

/// What was measured of commits of so many runs and bytes.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct WriteThroughFigure {
    /// Contiguous runs.
    pub runs: u32,
    /// Bytes of all of them together.
    pub bytes: u64,
    /// The median of commits that were written through.
    pub through: Duration,
    /// The median of those that were written and then forced by a barrier.
    pub barrier: Duration,
    /// The first as a multiple of the second; `None` from too few pairs.
    pub ratio: Option<Interval>,
}

/// The crossover, and what it stands on.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Decided {
    /// Up to here a page file writes through.
    pub limit: WriteThroughLimit,
    /// Why, in words.
    pub why: String,
    /// What was measured: one run of ascending bytes, then ascending runs.
    pub figures: Vec<WriteThroughFigure>,
}

/// Times of one shape of commit, in pairs that are neighbours in time.
#[derive(Debug, Clone, Default)]
pub(super) struct Pairs {
    pub(super) runs: u32,
    pub(super) bytes: u64,
    /// Through, barrier.
    pub(super) times: Vec<(Duration, Duration)>,
}

impl Pairs {
    fn figure(&self) -> WriteThroughFigure {
        let median = |of: fn(&(Duration, Duration)) -> Duration| {
            let mut times: Vec<Duration> = self.times.iter().map(of).collect();
            times.sort();
            times.get(times.len() / 2).copied().unwrap_or_default()
        };
        let ratios = self.times.iter();
        let ratios: Vec<f64> = ratios.map(|(a, b)| ratio(*a, *b)).collect();
        WriteThroughFigure {
            runs: self.runs,
            bytes: self.bytes,
            through: median(|t| t.0),
            barrier: median(|t| t.1),
            ratio: (self.times.len() >= LEAST_PAIRS)
                .then(|| interval(&ratios))
                .flatten()
                // As it is stored, so that who measures and who reads say the same.
                .map(|r| Interval {
                    mid: rounded(r.mid),
                    low: rounded(r.low),
                    high: rounded(r.high),
                }),
        }
    }
}

/// Several runs are written through only where that takes less than 90 % of a barrier's time, beyond
/// the noise; one run, or few bytes, unless the barrier takes less than 90 % of theirs.
pub(super) fn decide(pairs: &[Pairs]) -> Decided {
    let figures: Vec<WriteThroughFigure> = pairs.iter().map(Pairs::figure).collect();
    let faster = |f: &WriteThroughFigure| f.ratio.is_some_and(|r| r.high < CLEARLY_FASTER);
    let slower = |f: &WriteThroughFigure| f.ratio.is_some_and(|r| r.low > 1.0 / CLEARLY_FASTER);
    let limit = |limit: WriteThroughLimit, why: String| Decided {
        limit,
        why,
        figures: figures.clone(),
    };
    let one_run = || figures.iter().filter(|f| f.runs == 1);
    let Some(first) = one_run().next().filter(|f| f.ratio.is_some()) else {
        let why = format!(
            "fewer than {LEAST_PAIRS} commits of each kind could be made in the time: what is so \
             without a measurement"
        );
        return limit(WriteThroughLimit::UNMEASURED, why);
    };
    let percent = |f: &WriteThroughFigure| f.ratio.map_or(0.0, |r| r.mid * 100.0);
    if slower(first) {
        let why = format!(
            "one write through of {} bytes takes {:.0} % of the time of a write and a barrier: a \
             barrier always",
            first.bytes,
            percent(first)
        );
        return limit(WriteThroughLimit { runs: 0, bytes: 0 }, why);
    }
    let bytes = one_run().take_while(|f| !slower(f)).last();
    let bytes = bytes.map_or(0, |f| f.bytes);
    let more = figures.iter().filter(|f| f.runs > 1);
    let last = more.clone().take_while(|f| faster(f)).last();
    let next = more.clone().find(|f| !faster(f));
    let runs = last.map_or(1, |f| f.runs);
    let why = match (last, next) {
        (Some(last), Some(next)) if next.ratio.is_some() => format!(
            "{} runs written through take {:.0} % of the time of a barrier after them, {} runs {:.0} %",
            last.runs,
            percent(last),
            next.runs,
            percent(next)
        ),
        (Some(last), _) => format!(
            "{} runs written through take {:.0} % of the time of a barrier after them; more were not \
             measured",
            last.runs,
            percent(last)
        ),
        (None, Some(next)) if next.ratio.is_some() => format!(
            "one run takes {:.0} % of the time of a write and a barrier, {} runs {:.0} %",
            percent(first),
            next.runs,
            percent(next)
        ),
        _ => format!(
            "one run takes {:.0} % of the time of a write and a barrier; more were not measured",
            percent(first)
        ),
    };
    limit(WriteThroughLimit { runs, bytes }, why)
}
