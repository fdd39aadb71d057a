//! Medians and spreads.

/// Median and edges of a sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// Value below which half of the sample lies.
    pub median: f64,
    /// Value below which a tenth of the sample lies.
    pub p10: f64,
    /// Value above which a tenth of the sample lies.
    pub p90: f64,
}

/// Returns the spread of the values; `None` without values.
pub fn spread(values: &[f64]) -> Option<Spread> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    // Interpolates linearly between neighbours.
    let at = |q: f64| {
        let place = q * last as f64;
        let below = sorted[place.floor() as usize];
        below + (sorted[place.ceil() as usize] - below) * place.fract()
    };
    Some(Spread {
        median: at(0.5),
        p10: at(0.1),
        p90: at(0.9),
    })
}

/// Returns the median; 0 without values.
pub fn median(values: &[f64]) -> f64 {
    spread(values).map_or(0.0, |s| s.median)
}

/// Returns the standard error of the mean. It is infinite for fewer than three values, because they may
/// lie close together by chance.
pub fn standard_error(values: &[f64]) -> f64 {
    if values.len() < 3 {
        return f64::INFINITY;
    }
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0);
    (variance / n).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn between_neighbours() {
        assert_eq!(spread(&[]), None);
        let of = spread(&[3.0, 1.0, 2.0]).unwrap();
        assert_eq!(of.median, 2.0);
        assert!((of.p10 - 1.2).abs() < 1e-9 && (of.p90 - 2.8).abs() < 1e-9);
        assert_eq!(median(&[1.0, 2.0]), 1.5);
    }

    #[test]
    fn few_values_have_no_known_error() {
        assert_eq!(standard_error(&[1.0, 2.0]), f64::INFINITY);
        assert_eq!(standard_error(&[5.0; 4]), 0.0);
        let error = standard_error(&[98.0, 99.0, 100.0, 101.0, 102.0]);
        assert!((error - (2.5_f64 / 5.0).sqrt()).abs() < 1e-9, "{error}");
    }
}
