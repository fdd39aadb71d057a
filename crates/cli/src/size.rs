//! Sizes on the command line: `16KiB`, `64k`, `1GiB`, `4096`.

use std::fmt::Display;
use std::str::FromStr;

/// Parses a size in bytes. Units are binary, in any case: `k`, `kb` and `KiB` are all 1024 bytes.
pub fn parse(text: &str) -> Result<u64, String> {
    let trimmed = text.trim();
    let digits = trimmed
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(digits);
    if number.is_empty() {
        return Err(format!(
            "'{text}' is no size: it must start with a whole number, as in 16KiB"
        ));
    }
    let shift = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        other => {
            return Err(format!(
                "'{other}' is no unit of size: use B, KiB, MiB, GiB or TiB"
            ));
        }
    };
    let number: u64 = number
        .parse()
        .map_err(|_| format!("'{text}' is too large"))?;
    let size = number
        .checked_mul(1 << shift)
        .ok_or_else(|| format!("'{text}' is too large"))?;
    if size == 0 {
        return Err("a size of zero measures nothing".to_owned());
    }
    if size > 1 << 50 {
        return Err(format!(
            "'{text}' is more than any disk here can hold (1024 TiB)"
        ));
    }
    Ok(size)
}

/// Parses how many of something are wanted.
pub fn parse_count(text: &str) -> Result<u64, String> {
    within(0, u64::MAX)(text)
}

/// Parses a whole number from `least` to `most`.
pub fn within<T>(least: T, most: T) -> impl Fn(&str) -> Result<T, String> + Clone
where
    T: FromStr + PartialOrd + Display + Copy,
{
    move |text| {
        let number = text.parse().ok();
        let number = number.filter(|n| (least..=most).contains(n));
        number.ok_or_else(|| {
            format!("'{text}' is no number from {least} to {most}: give a whole one")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{parse, parse_count, within};

    #[test]
    fn counts() {
        assert_eq!(parse_count("0"), Ok(0));
        assert_eq!(parse_count("18446744073709551615"), Ok(u64::MAX));
        for bad in ["", "x", "-1", "1.5", "1k", "18446744073709551616"] {
            let message = parse_count(bad).unwrap_err();
            assert!(message.contains("whole"), "{message}");
        }
        assert_eq!(within(1_u16, 64)("64"), Ok(64));
        for bad in ["0", "65", "99999", "x"] {
            let message = within(1_u16, 64)(bad).unwrap_err();
            assert!(message.contains("from 1 to 64"), "{message}");
        }
    }

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("1", 1),
            ("4096", 4096),
            ("512B", 512),
            ("16KiB", 16 << 10),
            ("64k", 64 << 10),
            ("1 GiB", 1 << 30),
            ("3mb", 3 << 20),
            ("2T", 2 << 40),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_told() {
        for (text, why) in [
            ("", "whole number"),
            ("-5", "whole number"),
            ("KiB", "whole number"),
            ("1.5GiB", "no unit"),
            ("16 parsecs", "'parsecs' is no unit"),
            ("0", "zero"),
            ("0KiB", "zero"),
            ("99999999999999999999", "too large"),
            ("18446744073709551615k", "too large"),
            ("9999999T", "more than any disk"),
        ] {
            let message = parse(text).unwrap_err();
            assert!(message.contains(why), "'{text}': {message}");
        }
    }
}
