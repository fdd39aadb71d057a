//! Positions and times on the command line, and clocks that make times doubtful.

use crate::log_args::parse_lsn;
use logforce_archive::{Contents, RestoreTo};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Difference between two clocks that is accepted.
const SKEW: Duration = Duration::from_secs(300);
/// 2020-01-01: a clock that is earlier was never set.
const UNSET: u64 = 1_577_836_800_000_000_000;

/// Parses the end of a restore: an LSN, a time, or a mark.
pub fn parse_end(text: &str) -> Result<RestoreTo, String> {
    if let Some(name) = text.strip_prefix("mark:") {
        return Ok(RestoreTo::Mark(name.to_owned()));
    }
    if let Ok(lsn) = parse_lsn(text) {
        return Ok(RestoreTo::Lsn(lsn));
    }
    let now = SystemTime::now();
    let time = match text.strip_suffix(" ago").map(humantime::parse_duration) {
        Some(Ok(age)) => now.checked_sub(age),
        Some(Err(_)) => None,
        None => humantime::parse_rfc3339_weak(text).ok(),
    };
    match time.map(nanoseconds) {
        None | Some(None) => Err(format!(
            "'{text}' is not the end of a restore: give an LSN such as 8192 or 0x2000, a time such as \
             2026-11-28T10:00:00Z or '2 hours ago', or mark:NAME"
        )),
        Some(Some(time)) if time > now_nanoseconds() => Err(format!(
            "'{text}' is in the future, the clock of this machine says {}: leave out --to to restore everything",
            humantime::format_rfc3339_seconds(now)
        )),
        Some(Some(time)) => Ok(RestoreTo::Time(time)),
    }
}

/// Parses a duration such as `30d` or `1h 30m`.
pub fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .map_err(|e| format!("'{text}' is not a duration ({e}): give one such as 500ms, 2h or 30d"))
}

/// Formats a time of an archive: Unix time in ns.
pub fn date(time: u64) -> String {
    humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_nanos(time)).to_string()
}

/// Formats the age of a time of an archive, to the second.
pub fn age(time: u64) -> String {
    let age = Duration::from_nanos(now_nanoseconds().saturating_sub(time));
    humantime::format_duration(Duration::from_secs(age.as_secs())).to_string()
}

/// Returns the time of this machine's clock: Unix time in ns. A clock before 1970 counts as 1970.
pub fn now_nanoseconds() -> u64 {
    nanoseconds(SystemTime::now()).unwrap_or_default()
}

fn nanoseconds(time: SystemTime) -> Option<u64> {
    let since = time.duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(since.as_nanos()).ok()
}

/// Returns the reason why the clock of the machine that writes the archive is wrong now, as far as its newest
/// chunk says.
pub fn wrong_clock(contents: &Contents) -> Option<String> {
    let newest = contents.newest?;
    let now = now_nanoseconds();
    if newest < UNSET {
        return Some(format!(
            "the newest chunk says {}: the clock of the machine that writes the archive is not set",
            date(newest)
        ));
    }
    if newest > now.saturating_add(SKEW.as_nanos() as u64) {
        return Some(format!(
            "the newest chunk says {}, and it is {} here: one of the two clocks is wrong",
            date(newest),
            date(now)
        ));
    }
    contents
        .oldest
        .filter(|oldest| *oldest > newest)
        .map(|oldest| {
            format!(
                "the newest chunk says {}, and the oldest {}: the clock of the machine that writes the archive \
                 went back",
                date(newest),
                date(oldest)
            )
        })
}

/// Returns the reason why a restore to a time may end elsewhere.
pub fn doubtful_times(contents: &Contents) -> Option<String> {
    let oldest = contents.oldest.filter(|oldest| *oldest < UNSET);
    let unset = oldest.map(|oldest| {
        format!(
            "the oldest part says {}: the clock of the machine that wrote it was not set",
            date(oldest)
        )
    });
    let reason = wrong_clock(contents).or(unset)?;
    Some(format!(
        "{reason}. A restore to a time may end elsewhere: restore to an LSN or a mark"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use logforce::Lsn;

    #[test]
    fn ends_of_a_restore() {
        assert_eq!(parse_end("8192"), Ok(RestoreTo::Lsn(Lsn(8192))));
        assert_eq!(parse_end("0x2000"), Ok(RestoreTo::Lsn(Lsn(8192))));
        assert_eq!(parse_end("mark:a"), Ok(RestoreTo::Mark("a".to_owned())));
        let time = Ok(RestoreTo::Time(1_762_340_645_000_000_000));
        assert_eq!(parse_end("2025-11-05T11:04:05Z"), time);
        assert_eq!(parse_end("2025-11-05 11:04:05"), time);
        let Ok(RestoreTo::Time(ago)) = parse_end("2 hours ago") else {
            panic!("not a time");
        };
        let expected = now_nanoseconds() - 7_200_000_000_000;
        assert!(expected.abs_diff(ago) < 60_000_000_000);
    }

    #[test]
    fn an_end_with_a_typo_is_refused_with_the_forms() {
        for text in [
            "",
            "yesterday",
            "marks:a",
            "2 hours",
            "two hours ago",
            "2025-11-05",
            "81g2",
            "-1",
            "99999999999999 years ago",
            "60 years ago",
        ] {
            let refused = parse_end(text).unwrap_err();
            assert!(refused.contains("mark:NAME"), "{text}: {refused}");
        }
        let refused = parse_end("2096-01-01T00:00:00Z").unwrap_err();
        assert!(refused.contains("is in the future"), "{refused}");
    }
}
