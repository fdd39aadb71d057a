//! Decision: the write-through limit, given pairs of times.

use super::WriteThroughLimit;
use crate::Interval;
use crate::decide::{CLEARLY_FASTER, LEAST_PAIRS, interval, ratio};
use crate::store::rounded;
use std::time::Duration;

/// Results of commits with `runs` runs and `bytes` bytes.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct WriteThroughFigure {
    /// Number of contiguous runs.
    pub runs: u32,
    /// Bytes of all runs together.
    pub bytes: u64,
    /// Median time of commits by write-through.
    pub through: Duration,
    /// Median time of commits by writes and a barrier.
    pub barrier: Duration,
    /// Ratio of `through` to `barrier`; `None` if there are too few pairs.
    pub ratio: Option<Interval>,
}

/// The write-through limit with its evidence.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Decided {
    /// Largest commit that a page file writes through.
    pub limit: WriteThroughLimit,
    /// Reason, in words.
    pub why: String,
    /// Results: one run with ascending bytes, then ascending numbers of runs.
    pub figures: Vec<WriteThroughFigure>,
}

/// Times of commits with the same runs and bytes, in pairs that are close in time.
#[derive(Debug, Clone, Default)]
pub(super) struct Pairs {
    pub(super) runs: u32,
    pub(super) bytes: u64,
    /// Times by write-through and by barrier.
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
                // Rounded as in the file, so that measuring and reading give the same values.
                .map(|r| Interval {
                    mid: rounded(r.mid),
                    low: rounded(r.low),
                    high: rounded(r.high),
                }),
        }
    }
}

/// Decides the limit. Several runs are written through only if that takes less than 90 % of a barrier's time,
/// beyond the noise. One run is written through unless a barrier takes less than 90 % of its time.
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
            "fewer than {LEAST_PAIRS} commits of each kind could be made in the time: the default \
             without a measurement is used"
        );
        return limit(WriteThroughLimit::UNMEASURED, why);
    };
    let percent = |f: &WriteThroughFigure| f.ratio.map_or(0.0, |r| r.mid * 100.0);
    if slower(first) {
        let why = format!(
            "one write-through of {} bytes takes {:.0} % of the time of a write and a barrier: \
             page files always use a barrier",
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
