//! Formatting of times for people.

use logforce_terminal::numbers::short;

/// Formats a time in microseconds with a suitable unit: `61 µs`, `2.35 ms`.
pub fn time(us: f64) -> String {
    // A large number of milliseconds in a file may overflow in microseconds.
    if !us.is_finite() {
        return "-".to_owned();
    }
    let (value, decimals, unit) = match us {
        us if us >= 1e6 => (us / 1e6, 2, "s"),
        us if us >= 1e3 => (us / 1e3, 2, "ms"),
        us => (us, 1, "µs"),
    };
    format!("{} {unit}", short(value, decimals))
}

/// Formats a round time for an axis: `3 ms`.
pub fn tick(us: f64) -> String {
    let text = time(us);
    let (number, unit) = text.split_once(' ').unwrap_or((&text, ""));
    let number = match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.'),
        false => number,
    };
    format!("{number} {unit}")
}

#[cfg(test)]
mod tests {
    use super::{tick, time};

    #[test]
    fn a_time_has_the_unit_that_suits_it() {
        let texts = [0.4, 6.24, 61.24, 1000.0, 2345.0, 12_345.0, 2.5e6].map(time);
        let expected = [
            "0.4 µs", "6.2 µs", "61 µs", "1.00 ms", "2.35 ms", "12.3 ms", "2.50 s",
        ];
        assert_eq!(texts, expected);
        let texts = [0.5, 100.0, 1000.0, 20_000.0, 2.5e6].map(tick);
        assert_eq!(texts, ["0.5 µs", "100 µs", "1 ms", "20 ms", "2.5 s"]);
    }
}
