//! Parsers of command-line arguments: sizes (`16KiB`, `64k`, `4096`), seconds, counts, names.

use logforce_device::{Method, Platform};
use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

/// Parses a size in bytes. Units are binary, in any case: `k`, `kb` and `KiB` are all 1024 bytes.
pub fn size(text: &str) -> Result<u64, String> {
    let trimmed = text.trim();
    let digits = trimmed
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(digits);
    if number.is_empty() {
        return Err(format!(
            "'{text}' is not a size: it must start with a whole number, as in 16KiB"
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
                "'{other}' is not a unit of size: use B, KiB, MiB, GiB or TiB"
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

/// Parses a count.
pub fn count(text: &str) -> Result<u64, String> {
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
            format!("'{text}' is not a number from {least} to {most}: give a whole one")
        })
    }
}

/// Parses a number of seconds, at most 1,000,000.
pub fn seconds(text: &str) -> Result<Duration, String> {
    seconds_to(Duration::from_secs(1_000_000))(text)
}

/// Parses a number of seconds, at most `most`.
pub fn seconds_to(most: Duration) -> impl Fn(&str) -> Result<Duration, String> + Clone {
    move |text| {
        let seconds: f64 = text
            .parse()
            .map_err(|_| format!("'{text}' is not a number of seconds"))?;
        let most = most.as_secs();
        if !(seconds > 0.0 && seconds <= most as f64) {
            return Err(format!("seconds must be above 0 and at most {most}"));
        }
        Ok(Duration::from_secs_f64(seconds))
    }
}

/// Parses the name of a method.
pub fn method(text: &str) -> Result<Method, String> {
    let names = Platform::HERE.methods().iter().map(|m| m.name());
    let unknown = || {
        let told = logforce_device::UnknownMethod(text.to_owned()).to_string();
        format!("{told}{}", perhaps(text, names))
    };
    // A method of another platform has a name too, but cannot be measured here.
    text.parse()
        .ok()
        .filter(|m: &Method| m.is_of(Platform::HERE))
        .ok_or_else(unknown)
}

/// Returns the value of `all` that has this name; `what` is the kind of value, for the message.
pub fn named<T: Copy>(
    text: &str,
    what: &str,
    all: &[T],
    name: fn(T) -> &'static str,
) -> Result<T, String> {
    all.iter()
        .copied()
        .find(|&x| name(x) == text)
        .ok_or_else(|| {
            let names: Vec<&str> = all.iter().map(|&x| name(x)).collect();
            let guess = perhaps(text, names.iter().copied());
            format!("unknown {what} '{text}'; known: {}{guess}", names.join(" "))
        })
}

/// Returns the end of a message that suggests the most similar name, if any is similar.
fn perhaps<'a>(text: &str, names: impl Iterator<Item = &'a str>) -> String {
    let alike = |name: &&str| strsim::jaro_winkler(&text.to_lowercase(), name);
    let best = names.max_by(|a, b| alike(a).total_cmp(&alike(b)));
    match best.filter(|name| alike(name) > 0.75) {
        Some(name) => format!("; did you mean '{name}'?"),
        None => String::new(),
    }
}

/// Returns the chosen values, each once and in the order of `all`; all if none was chosen.
pub fn chosen<T: Copy + PartialEq>(asked: &[T], all: &[T]) -> Vec<T> {
    all.iter()
        .copied()
        .filter(|x| asked.is_empty() || asked.contains(x))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{count, named, size, within};

    #[test]
    fn counts() {
        assert_eq!(count("0"), Ok(0));
        assert_eq!(count("18446744073709551615"), Ok(u64::MAX));
        for bad in ["", "x", "-1", "1.5", "1k", "18446744073709551616"] {
            let message = count(bad).unwrap_err();
            assert!(message.contains("whole"), "{message}");
        }
        assert_eq!(within(1_u16, 64)("64"), Ok(64));
        for bad in ["0", "65", "99999", "x"] {
            let message = within(1_u16, 64)(bad).unwrap_err();
            assert!(message.contains("from 1 to 64"), "{message}");
        }
    }

    #[test]
    fn an_unknown_name_is_guessed_if_it_is_like_a_known_one() {
        let known = [1, 2];
        let name = |n| if n == 1 { "fallocated" } else { "zeroed" };
        let told = |text| named(text, "file state", &known, name).unwrap_err();
        assert!(told("falocated").ends_with("; did you mean 'fallocated'?"));
        assert!(told("Zeroes").ends_with("; did you mean 'zeroed'?"));
        let far = told("banana");
        assert!(
            !far.contains("mean") && far.contains("known: fallocated zeroed"),
            "{far}"
        );
        let method = super::Platform::HERE.methods()[1].name();
        let wrong = format!("{method}x");
        let told = super::method(&wrong).unwrap_err();
        assert!(
            told.contains(&format!("did you mean '{method}'?")),
            "{told}"
        );
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
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_told() {
        for (text, why) in [
            ("", "whole number"),
            ("-5", "whole number"),
            ("KiB", "whole number"),
            ("1.5GiB", "not a unit"),
            ("16 parsecs", "'parsecs' is not a unit"),
            ("0", "zero"),
            ("0KiB", "zero"),
            ("99999999999999999999", "too large"),
            ("18446744073709551615k", "too large"),
            ("9999999T", "more than any disk"),
        ] {
            let message = size(text).unwrap_err();
            assert!(message.contains(why), "'{text}': {message}");
        }
    }
}
