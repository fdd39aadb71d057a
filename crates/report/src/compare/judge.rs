//! Verdict on a row: its figure in both runs, as a time, against the noise.

use super::control::Control;
use super::metric::{Metric, Spread, times};
use super::{Pair, Verdict};
use logforce_measure::Row;
use logforce_measure::run::{Ratio, Relation};

/// Noise of rows whose slices are unknown: smaller differences do not count.
pub const UNKNOWN_NOISE: f64 = 0.25;
/// Smallest difference that counts, however small the noise is.
const LEAST: f64 = 0.02;
/// Time of a row in one run.
#[derive(Debug, Clone, Copy)]
struct Time {
    figure: f64,
    spread: Spread,
    /// Part of the time in which nothing waited for a processor.
    running: f64,
}

/// Compares one figure of a row in both runs.
pub(super) fn pair(metric: &Metric, row: String, a: &Row, b: &Row, control: &Control) -> Pair {
    let time = |row: &Row, run: usize| {
        let (figure, spread) = times(metric, row)?;
        let running = control.running(row, run);
        Some(Time {
            figure,
            spread,
            running,
        })
    };
    let (of_a, of_b) = (time(a, 0), time(b, 1));
    let figure = |r: &Row| r.triple(metric.of)[0].filter(|_| r.error.is_none());
    let ratio = of_a.zip(of_b).map(|(a, b)| ratio(&a, &b));
    Pair {
        row,
        field: metric.of.field(),
        unit: metric.unit,
        a: figure(a),
        b: figure(b),
        time_ratio: ratio.map(|r| r.figure),
        time_ratio_at_least: ratio.map(|r| r.low),
        time_ratio_at_most: ratio.map(|r| r.high),
        noise: of_a.zip(of_b).map(|(a, b)| noise(&a, &b, control.movement)),
        verdict: match (of_a, of_b) {
            (Some(a), Some(b)) => judge(&a, &b, control.movement),
            (Some(_), None) => Verdict::Failed,
            (None, Some(_)) => Verdict::Recovered,
            (None, None) => Verdict::Unmeasured,
        },
        error: b.error.clone(),
        is_known_noise: of_a
            .zip(of_b)
            .is_some_and(|(a, b)| a.spread.is_some() && b.spread.is_some()),
    }
}

/// Returns B's time as a multiple of A's, from the slow edge of A to the fast edge of B and the other way round.
fn ratio(a: &Time, b: &Time) -> Ratio {
    let figure = b.figure / a.figure;
    let (low, high) = match a.spread.zip(b.spread) {
        Some(((a_low, a_high), (b_low, b_high))) => (b_low / a_high, b_high / a_low),
        None => (
            figure / (1.0 + UNKNOWN_NOISE),
            figure * (1.0 + UNKNOWN_NOISE),
        ),
    };
    Ratio { figure, low, high }
}

/// Returns the verdict. `movement` is the factor by which the machine may have moved.
fn judge(a: &Time, b: &Time, movement: f64) -> Verdict {
    let ratio = ratio(a, b);
    // The time that remains without the waits for a processor of the run that took longer.
    let (loss, gain) = (ratio.low * b.running, a.running / ratio.high);
    match () {
        () if ratio.low > 1.0 && ratio.figure > 1.0 + LEAST => match loss > movement {
            true => Verdict::Slower,
            false => Verdict::Machine,
        },
        () if ratio.high < 1.0 && ratio.figure < 1.0 / (1.0 + LEAST) => match gain > movement {
            true => Verdict::Faster,
            false => Verdict::Machine,
        },
        () if ratio.relation() == Relation::Same => Verdict::Same,
        () => Verdict::Noisy,
    }
}

/// Returns the share by which the median of B must exceed that of A to be called slower: B's slices lie beyond
/// A's by more than the machine moved. Both runs keep their spread and their waits.
fn noise(a: &Time, b: &Time, movement: f64) -> f64 {
    let ratio = ratio(a, b);
    (movement * ratio.figure / ratio.low / b.running - 1.0).max(LEAST)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(low: f64, figure: f64, high: f64) -> Time {
        Time {
            figure,
            spread: Some((low, high)),
            running: 1.0,
        }
    }

    fn alone(figure: f64) -> Time {
        Time {
            spread: None,
            ..time(0.0, figure, 0.0)
        }
    }

    #[test]
    fn what_overlaps_is_noise_and_not_the_same() {
        let of = |a: (f64, f64, f64), b: (f64, f64, f64)| {
            judge(&time(a.0, a.1, a.2), &time(b.0, b.1, b.2), 1.0)
        };
        assert_eq!(of((0.9, 1.0, 1.1), (1.05, 1.2, 1.3)), Verdict::Noisy);
        assert_eq!(of((0.97, 1.0, 1.05), (1.0, 1.1, 1.2)), Verdict::Same);
        assert_eq!(of((0.9, 1.0, 1.1), (1.15, 1.2, 1.3)), Verdict::Slower);
        assert_eq!(of((1.15, 1.2, 1.3), (0.9, 1.0, 1.1)), Verdict::Faster);
        // Beyond the noise, but too small to count.
        assert_eq!(of((1.0, 1.0, 1.0), (1.01, 1.01, 1.01)), Verdict::Same);
    }

    #[test]
    fn a_loss_counts_beyond_the_movement_of_the_machine() {
        let (a, b) = (time(0.9, 1.0, 1.1), time(1.65, 1.8, 2.0));
        assert_eq!(judge(&a, &b, 1.4), Verdict::Slower);
        assert_eq!(judge(&a, &b, 1.6), Verdict::Machine);
        assert_eq!(judge(&b, &a, 1.4), Verdict::Faster);
        assert_eq!(judge(&b, &a, 1.6), Verdict::Machine);
        // Nine tenths of B's time were waits for a processor.
        let waited = Time {
            running: 0.1,
            ..time(9.0, 10.0, 11.0)
        };
        assert_eq!(judge(&a, &waited, 1.02), Verdict::Machine);
        assert_eq!(judge(&waited, &a, 1.02), Verdict::Machine);
        // The waits of the faster run excuse nothing.
        let waited = Time { running: 0.1, ..a };
        assert_eq!(judge(&waited, &b, 1.4), Verdict::Slower);
    }

    #[test]
    fn noise_is_the_smallest_loss_that_counts() {
        let of = |a, b| {
            let time = |figure, spread| Time {
                figure,
                spread,
                running: 1.0,
            };
            noise(&time(1.0, a), &time(1.3, b), 1.0)
        };
        assert!((of(None, None) - 0.25).abs() < 1e-9);
        assert!((of(Some((0.9, 1.1)), None) - 0.25).abs() < 1e-9);
        // A's slow edge is a tenth above its median, B's fast edge is 0.8 of its median.
        let both = of(Some((0.9, 1.1)), Some((1.04, 1.6)));
        assert!((both - (1.1 / 0.8 - 1.0)).abs() < 1e-9, "{both}");
        let none = of(Some((0.999, 1.001)), Some((1.299, 1.301)));
        assert!((none - LEAST).abs() < 1e-9, "{none}");
        let moved = noise(
            &alone(1.0),
            &Time {
                running: 0.5,
                ..alone(1.3)
            },
            1.2,
        );
        assert!((moved - (1.25 * 1.2 / 0.5 - 1.0)).abs() < 1e-9, "{moved}");
    }

    #[test]
    fn without_slices_a_quarter_counts_and_less_is_unknown() {
        assert_eq!(judge(&alone(1.0), &alone(1.2), 1.0), Verdict::Noisy);
        assert_eq!(judge(&alone(1.0), &alone(1.0), 1.0), Verdict::Same);
        assert_eq!(
            judge(&alone(1.0), &time(1.2, 1.3, 1.4), 1.0),
            Verdict::Slower
        );
        assert_eq!(judge(&alone(1.3), &alone(1.0), 1.0), Verdict::Faster);
    }
}
