//! Numbers for people.

/// Formats bytes with a binary unit, exact where possible: `64 MiB`, `1.5 GiB`, `100 B`.
pub fn bytes(n: u64) -> String {
    const UNITS: [(&str, u64); 4] = [
        ("TiB", 1 << 40),
        ("GiB", 1 << 30),
        ("MiB", 1 << 20),
        ("KiB", 1 << 10),
    ];
    for (unit, size) in UNITS {
        // A chunk of 6000 bytes is shown as that, not as 5.9 KiB.
        let exact = n.is_multiple_of(size) || size > 1 << 10;
        if n >= size && exact {
            let value = n as f64 / size as f64;
            return if n.is_multiple_of(size) {
                format!("{value:.0} {unit}")
            } else {
                format!("{value:.1} {unit}")
            };
        }
    }
    format!("{n} B")
}

/// Formats a number of things: `1 batch`, `2 batches`.
pub fn count(n: impl Into<u64>, one: &str) -> String {
    let n = n.into();
    let (stem, ending) = match one {
        _ if n == 1 => (one, ""),
        _ if one.ends_with(['s', 'x']) || one.ends_with("ch") => (one, "es"),
        _ => match one.strip_suffix('y') {
            Some(stem) if !stem.ends_with(['a', 'e', 'o']) => (stem, "ies"),
            _ => (one, "s"),
        },
    };
    format!("{n} {stem}{ending}")
}

/// Formats a number with `decimals` digits after the point below 10, and one fewer for each further digit
/// before it.
pub fn short(value: f64, decimals: usize) -> String {
    let magnitude = if value.abs() < 1.0 {
        0
    } else {
        value.abs().log10().floor() as usize
    };
    format!("{value:.*}", decimals.saturating_sub(magnitude))
}

/// Formats an amount to three digits: `74,700`, `852`, `3.1`.
pub fn rounded(value: f64) -> String {
    if value < 100.0 {
        return short(value, 1);
    }
    let unit = 10_f64.powf(value.log10().floor() - 2.0);
    let digits = format!("{:.0}", (value / unit).round() * unit);
    let mut text = String::new();
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Works as [`short`]; returns a dash for a value that was not measured.
pub fn number(value: Option<f64>, decimals: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |v| short(v, decimals))
}

/// Formats a range from one [`number`] to another.
pub fn range(low: Option<f64>, high: Option<f64>, decimals: usize) -> String {
    format!("{}–{}", number(low, decimals), number(high, decimals))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_well() {
        assert_eq!(bytes(64 << 20), "64 MiB");
        assert_eq!(bytes(3 << 29), "1.5 GiB");
        assert_eq!(bytes(100), "100 B");
        assert_eq!(bytes(6000), "6000 B");
        assert_eq!(count(1_u64, "segment"), "1 segment");
        assert_eq!(count(0_u64, "segment"), "0 segments");
        assert_eq!(count(2_u64, "batch"), "2 batches");
        assert_eq!(count(2_u64, "loss"), "2 losses");
        assert_eq!(count(2_u64, "entry"), "2 entries");
        assert_eq!(count(2_u64, "day"), "2 days");
        let rates = [0.04, 3.12, 84.2, 852.4, 999.9, 74_671.0, 1_234_567.0].map(rounded);
        assert_eq!(
            rates,
            ["0.0", "3.1", "84", "852", "1,000", "74,700", "1,230,000"]
        );
        let shorts: Vec<_> = [0.0, 0.00312, 0.99, 1.0, 12.3456, 123.456, 99999.9]
            .iter()
            .map(|&v| short(v, 4))
            .collect();
        assert_eq!(
            shorts,
            [
                "0.0000", "0.0031", "0.9900", "1.0000", "12.346", "123.46", "100000"
            ]
        );
    }
}
