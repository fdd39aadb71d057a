use crate::{Decision, ValidFor};
use logforce_device::Method;
use std::time::Duration;

/// Evidence of the fastest method in a directory, with the conditions under which it is valid.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Calibration {
    /// Conditions under which the evidence is valid.
    pub valid_for: ValidFor,
    /// Results and decision.
    pub decision: Decision,
    /// Number of commits of each method that were compared.
    pub pairs: u32,
    /// Duration of the trial.
    pub spent: Duration,
    /// End of the trial in milliseconds since 1970 by the system's clock; 0 if unknown.
    pub measured_at: u64,
    /// Cost of commits in real use since the trial.
    pub live: Option<Live>,
    /// Number of consecutive trials that `live` has caused and that chose the same method.
    pub confirmed: u32,
}

/// Cost of forces of a single write unit in real use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Live {
    /// Method of the forces.
    pub method: Method,
    /// Number of forces.
    pub forces: u64,
    /// Median of their times; over several openings the mean of the medians.
    pub p50: Duration,
}

/// Minimum number of forces from which real use can contradict a calibration.
const ENOUGH: u64 = 1000;

/// Maximum weight of earlier openings, in forces. So new values stay visible.
const LONGEST_MEMORY: u64 = 10_000;

impl Calibration {
    /// Returns true if real use contradicts the calibration, so that a new trial is needed. This requires
    /// 1000 forces or more, whose median is worse than the calibrated one by more than a quarter, and worse
    /// than that of another candidate.
    ///
    /// The number of forces doubles each time that a new trial has chosen the same method. Otherwise a disk
    /// that is always busier than during a trial would cause one at every opening.
    pub fn is_stale(&self) -> bool {
        let Some(live) = self.live else {
            return false;
        };
        let of = |method: Method| {
            let figures = self.decision.figures.iter();
            figures
                .filter(move |f| f.method == method)
                .map(|f| f.median)
        };
        let Some(expected) = of(self.decision.method).next() else {
            return false;
        };
        let others = self.decision.figures.iter();
        let other_is_better = others
            .filter(|f| f.method != self.decision.method)
            .any(|f| f.median < live.p50);
        live.method == self.decision.method
            && live.forces >= ENOUGH << self.confirmed.min(16)
            && live.p50 > expected + expected / 4
            && other_is_better
    }

    /// Adds the observations of an opening. Ignores those of a method other than the chosen one.
    pub fn add(&mut self, seen: Live) {
        if seen.method != self.decision.method || seen.forces == 0 {
            return;
        }
        let before = self.live.filter(|l| l.method == seen.method);
        let Some(before) = before else {
            self.live = Some(seen);
            return;
        };
        let weight = |forces: u64| forces.min(LONGEST_MEMORY) as f64;
        let (old, new) = (weight(before.forces), weight(seen.forces));
        let p50 = (before.p50.as_secs_f64() * old + seen.p50.as_secs_f64() * new) / (old + new);
        self.live = Some(Live {
            method: seen.method,
            forces: before.forces.saturating_add(seen.forces),
            p50: Duration::try_from_secs_f64(p50).unwrap_or(seen.p50),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Figure, ValidFor};
    use logforce_testkit::SimOptions;

    const CHOSEN: Method = Method::DirectDsync;

    fn calibration() -> Calibration {
        let figure = |method, micros| Figure {
            method,
            median: Duration::from_micros(micros),
            median_large: Duration::from_micros(micros),
            to_default: None,
        };
        let mut decision = Decision::undecided(CHOSEN, "test");
        decision.figures = vec![figure(CHOSEN, 100), figure(Method::Dsync, 140)];
        Calibration {
            valid_for: ValidFor::now(&SimOptions::default().facts(), 4096),
            decision,
            pairs: 100,
            spent: Duration::from_millis(300),
            measured_at: 0,
            live: None,
            confirmed: 0,
        }
    }

    fn live(forces: u64, micros: u64) -> Live {
        Live {
            method: CHOSEN,
            forces,
            p50: Duration::from_micros(micros),
        }
    }

    #[test]
    fn real_use_that_contradicts_calls_for_another_trial() {
        let stale = |forces, micros, confirmed| {
            let mut c = calibration();
            c.live = Some(live(forces, micros));
            c.confirmed = confirmed;
            c.is_stale()
        };
        assert!(!calibration().is_stale());
        assert!(stale(1000, 141, 0));
        assert!(!stale(999, 1000, 0), "too few");
        assert!(!stale(5000, 139, 0), "no other is better");
        assert!(!stale(5000, 125, 0), "a quarter more is not enough");
        assert!(
            !stale(1999, 500, 1) && stale(2000, 500, 1),
            "slower each time"
        );
        assert!(!stale(u64::MAX >> 20, 10, 60), "no overflow");
    }

    #[test]
    fn openings_add_up() {
        let mut c = calibration();
        c.add(live(0, 999));
        assert_eq!(c.live, None);
        c.add(live(600, 200));
        c.add(live(600, 300));
        assert_eq!(c.live, Some(live(1200, 250)));
        c.add(Live {
            method: Method::Dsync,
            ..live(1 << 40, 1)
        });
        assert_eq!(
            c.live,
            Some(live(1200, 250)),
            "observations of another method are ignored"
        );
        c.add(live(1 << 40, 100));
        c.add(live(10_000, 200));
        let now = c.live.unwrap();
        assert!(
            now.p50 > Duration::from_micros(140),
            "{now:?}: new values must show"
        );
    }
}
