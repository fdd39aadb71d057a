//! Formatting of amounts for people, including very small ones.

use logforce_terminal::numbers::short;

/// Formats a value with `digits` significant digits, but never rounds before the decimal point: `0.000362`,
/// `5.33`, `12000`.
pub fn significant(value: f64, digits: usize) -> String {
    let before = digits.saturating_sub(1);
    if value == 0.0 || value.abs() >= 1.0 || !value.is_finite() {
        return short(value, before);
    }
    // Zeros between the point and the first digit; at most 15, so that tiny values stay short.
    let zeroes = (-value.abs().log10().floor()).min(15.0) as usize;
    format!("{value:.*}", before + zeroes)
}

/// Formats a figure of a comparison; a dash if it was not measured.
pub fn amount(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |v| significant(v, 5))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_ones_keep_their_digits() {
        let texts =
            [0.000_361_8, 0.0705, 0.5, 5.331_6, 123.456, 0.0, 1e-300].map(|v| significant(v, 3));
        let expected = [
            "0.000362",
            "0.0705",
            "0.500",
            "5.33",
            "123",
            "0.00",
            "0.00000000000000000",
        ];
        assert_eq!(texts, expected);
        assert_eq!(amount(Some(0.000_516_46)), "0.00051646");
        assert_eq!(amount(None), "-");
    }
}
