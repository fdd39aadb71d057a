//! Dates for people, in UTC.

/// Formats the day, as in `2026-11-21`, of a time in milliseconds since 1970. Returns `None` if it is unknown
/// (0) or its year has more than four digits.
pub fn day(unix_millis: u64) -> Option<String> {
    const LAST: u64 = 253_402_300_799_999;
    if unix_millis == 0 || unix_millis > LAST {
        return None;
    }
    // Computes the civil date in eras of 400 years that begin on 1 March.
    let days = unix_millis / 86_400_000 + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    Some(format!(
        "{:04}-{month:02}-{day:02}",
        era * 400 + year + next
    ))
}

/// Formats day and minute, as in `2026-11-21 06:12`, of a time in seconds since 1970.
pub fn minute(unix_secs: u64) -> String {
    let day = day(unix_secs.saturating_mul(1000)).unwrap_or_else(|| "an unknown day".to_owned());
    let (hour, minute) = (unix_secs / 3600 % 24, unix_secs / 60 % 60);
    format!("{day} {hour:02}:{minute:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_minutes() {
        assert_eq!(minute(1_795_846_325), "2026-11-28 06:12");
        assert_eq!(day(951_782_400_000).as_deref(), Some("2000-02-29"));
        assert_eq!((day(0), day(u64::MAX)), (None, None));
        assert!(minute(u64::MAX).starts_with("an unknown day"));
    }
}
