//! Scales: the conversion of values to positions in a drawing.

use crate::amount::significant;

/// A scale that maps values from `low` to `high` to positions from `from` to `to`.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    is_log: bool,
}

impl Scale {
    /// Creates a linear scale from zero, as bars need it.
    pub fn from_zero(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Scale {
        let high = values.fold(0.0, f64::max);
        Scale {
            low: 0.0,
            high: if high > 0.0 { high } else { 1.0 },
            from,
            to,
            is_log: false,
        }
    }

    /// Creates a logarithmic scale. Values of zero or less have no position on it.
    pub fn log(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Scale {
        let (mut low, mut high) = (f64::INFINITY, 0.0_f64);
        for value in values.filter(|v| *v > 0.0 && v.is_finite()) {
            (low, high) = (low.min(value), high.max(value));
        }
        if high <= 0.0 {
            (low, high) = (1.0, 10.0);
        }
        // A margin on both sides; it also keeps a single value from making an empty scale.
        let room = (high / low).powf(0.06).max(1.15);
        Scale {
            low: low / room,
            high: high * room,
            from,
            to,
            is_log: true,
        }
    }

    /// Returns the position of a value; `None` if it has none.
    pub fn at(&self, value: f64) -> Option<f64> {
        if !value.is_finite() || self.is_log && value <= 0.0 {
            return None;
        }
        let part = if self.is_log {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        Some(self.from + part.clamp(0.0, 1.0) * (self.to - self.from))
    }

    /// Returns the values to label, at most about `most`.
    pub fn ticks(&self, most: usize) -> Vec<f64> {
        if self.is_log {
            self.log_ticks(most)
        } else {
            self.linear_ticks(most)
        }
    }

    fn log_ticks(&self, most: usize) -> Vec<f64> {
        if self.high / self.low < 6.0 {
            // The range is too small for labels at powers of ten.
            return self.linear_ticks(most.min(6));
        }
        let decades = (self.low.log10().floor() as i32)..=(self.high.log10().ceil() as i32);
        for steps in [&[1.0, 2.0, 5.0][..], &[1.0, 3.0], &[1.0]] {
            let all = decades
                .clone()
                .flat_map(|d| steps.iter().map(move |s| s * 10_f64.powi(d)));
            let ticks: Vec<f64> = all.filter(|t| (self.low..=self.high).contains(t)).collect();
            if ticks.len() <= most.max(2) || steps.len() == 1 {
                // For many decades in a narrow drawing, labels only every nth one.
                let each = ticks.len().div_ceil(most.max(2)).max(1);
                return ticks.into_iter().step_by(each).collect();
            }
        }
        Vec::new()
    }

    fn linear_ticks(&self, most: usize) -> Vec<f64> {
        let raw = (self.high - self.low) / most.max(2) as f64;
        let magnitude = 10_f64.powf(raw.log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|s| s * magnitude);
        let step = steps.into_iter().find(|s| *s >= raw).unwrap_or(steps[3]);
        let first = (self.low / step).ceil() as u64;
        let last = (self.high / step).floor() as u64;
        (first..=last).map(|n| n as f64 * step).collect()
    }
}

/// Formats a number for an axis: `250`, `1.5k`, `2M`.
pub fn axis(value: f64) -> String {
    let (value, unit) = match value.abs() {
        v if v >= 1e6 => (value / 1e6, "M"),
        v if v >= 1e3 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let text = match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 0.1 => format!("{value:.2}"),
        v if v >= 0.001 => format!("{value:.4}"),
        _ => significant(value, 2),
    };
    let text = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => &text,
    };
    format!("{text}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_keep_their_order_and_stay_inside() {
        let values = [3.0, 40.0, 1100.0];
        let scale = Scale::log(values.into_iter(), 10.0, 110.0);
        let at: Vec<f64> = values.iter().filter_map(|v| scale.at(*v)).collect();
        assert!(at.is_sorted() && at[0] > 10.0 && at[2] < 110.0, "{at:?}");
        assert_eq!(scale.at(0.0), None);
        assert_eq!(scale.at(f64::NAN), None);
        let scale = Scale::from_zero([5.0].into_iter(), 100.0, 0.0);
        assert_eq!((scale.at(0.0), scale.at(5.0)), (Some(100.0), Some(0.0)));
    }

    #[test]
    fn ticks_are_few_and_round() {
        let scale = Scale::log([3.0, 1100.0].into_iter(), 0.0, 1.0);
        assert_eq!(scale.ticks(6), [3.0, 10.0, 30.0, 100.0, 300.0, 1000.0]);
        assert_eq!(scale.ticks(3), [10.0, 100.0, 1000.0]);
        let scale = Scale::log([1e-3, 1e9].into_iter(), 0.0, 1.0);
        assert!(scale.ticks(4).len() <= 5, "{:?}", scale.ticks(4));
        let scale = Scale::from_zero([7.3].into_iter(), 0.0, 1.0);
        assert_eq!(scale.ticks(4), [0.0, 2.0, 4.0, 6.0]);
        for strange in [&[][..], &[0.0], &[f64::NAN], &[f64::INFINITY]] {
            let values = || strange.iter().copied();
            assert!(!Scale::log(values(), 0.0, 1.0).ticks(5).is_empty());
        }
        let narrow = Scale::log([0.76, 1.4].into_iter(), 0.0, 1.0);
        let ticks = narrow.ticks(6);
        assert!(
            (3..=6).contains(&ticks.len()) && ticks.contains(&1.0),
            "{ticks:?}"
        );
        let one = Scale::log([70.0].into_iter(), 0.0, 1.0);
        assert!(one.at(70.0).is_some_and(|at| (0.2..0.8).contains(&at)));
    }

    #[test]
    fn numbers_on_an_axis_are_short() {
        let texts = [
            0.0, 0.000_03, 0.005, 0.5, 1.0, 12.5, 250.0, 1500.0, 20_000.0, 3e6,
        ]
        .map(axis);
        assert_eq!(
            texts,
            [
                "0", "0.00003", "0.005", "0.5", "1", "12.5", "250", "1.5k", "20k", "3M"
            ]
        );
    }
}
