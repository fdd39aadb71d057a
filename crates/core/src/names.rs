//! File names in a log's directory. They are hints for people; a file's header determines its type.

use logforce_format::Lsn;

pub(crate) const CONTROL: &str = "control";
pub(crate) const CONTROL_NEW: &str = "control.tmp";
/// The log's control file, in the copies that a repair has made.
pub(crate) const CONTROL_COPY: &str = "control.cut";
pub(crate) const LOCK: &str = "lock";
/// The file of a backup that is renamed to its control file when all other files are durable.
pub(crate) const BACKUP: &str = "control.backup";
/// Message for a directory that has that file and no control file.
pub(crate) const UNFINISHED_BACKUP: &str =
    "it contains a backup that was cut short: remove the directory, or repeat the backup into it";
/// Results of calibration. Its temporary files are `calibration-<16 digits>.tmp`.
const CALIBRATION: &str = "calibration";
/// Results of power cuts. Its temporary files are `verdicts-<16 digits>.tmp`.
const VERDICTS: &str = "verdicts";
/// The page of statistics. The log does not depend on it.
pub(crate) const LIVE: &str = "live";
/// Position from which a replica in another process needs the log.
pub(crate) const HOLD: &str = "hold";
pub(crate) const HOLD_NEW: &str = "hold.tmp";
const SEGMENT: &str = ".seg";
const PREPARING: &str = ".tmp";
const SPARE: &str = ".spare";

/// Type of a file, according to its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameKind {
    Control,
    ControlNew,
    Backup,
    Lock,
    Live,
    Segment,
    Preparing,
    Spare,
    /// A file that occupied the name of a segment and was renamed.
    SetAside,
    /// Results of calibration or power cuts, or a replica's hold: not part of the log's contents.
    Beside,
    /// Belongs to the filesystem: a log may live in a mount's root.
    System,
    Foreign,
}

pub(crate) fn segment(start: Lsn) -> String {
    format!("{:016x}{SEGMENT}", start.0)
}

pub(crate) fn preparing(start: Lsn) -> String {
    format!("{:016x}{PREPARING}", start.0)
}

pub(crate) fn spare(start: Lsn) -> String {
    format!("{:016x}{SPARE}", start.0)
}

/// Ending of the name of a file that was set aside.
const DAMAGED: &str = ".seg.damaged";

/// Returns the `n`th name, from 0, for a file that is set aside.
pub(crate) fn set_aside(name: &str, n: u32) -> String {
    match n {
        0 => format!("{name}.damaged"),
        n => format!("{name}.damaged.{n}"),
    }
}

pub(crate) fn is_set_aside(name: &str) -> bool {
    set_aside_digits(name).is_some_and(is_number)
}

/// Returns the digits before `.seg.damaged` or `.seg.damaged.N`.
fn set_aside_digits(name: &str) -> Option<&str> {
    let is_count = |n: &str| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit());
    let first = match name.rsplit_once('.') {
        Some((first, n)) if is_count(n) => first,
        _ => name,
    };
    first.strip_suffix(DAMAGED)
}

/// Returns true for the name of a temporary file of a calibration.
pub(crate) fn is_trial(name: &str) -> bool {
    name.starts_with(CALIBRATION) && is_evidence_under_way(name)
}

/// Returns the start LSN in a segment's name.
pub(crate) fn claimed_start(name: &str) -> Option<Lsn> {
    let digits = name.strip_suffix(SEGMENT)?;
    (digits.len() == 16).then(|| u64::from_str_radix(digits, 16).ok().map(Lsn))?
}

pub(crate) fn kind(name: &str) -> NameKind {
    let hex = |suffix: &str| name.strip_suffix(suffix).is_some_and(is_number);
    match name {
        CONTROL => NameKind::Control,
        CONTROL_NEW => NameKind::ControlNew,
        BACKUP => NameKind::Backup,
        LOCK => NameKind::Lock,
        CALIBRATION | VERDICTS | HOLD | HOLD_NEW => NameKind::Beside,
        LIVE => NameKind::Live,
        "lost+found" => NameKind::System,
        _ if hex(SEGMENT) => NameKind::Segment,
        _ if hex(PREPARING) => NameKind::Preparing,
        _ if hex(SPARE) => NameKind::Spare,
        _ if is_set_aside(name) => NameKind::SetAside,
        _ if is_evidence_under_way(name) => NameKind::Beside,
        _ => NameKind::Foreign,
    }
}

fn is_number(digits: &str) -> bool {
    digits.len() == 16 && digits.bytes().all(|b| b.is_ascii_hexdigit())
}

fn is_evidence_under_way(name: &str) -> bool {
    [CALIBRATION, VERDICTS].into_iter().any(|kept| {
        name.strip_prefix(kept)
            .and_then(|rest| rest.strip_prefix('-')?.strip_suffix(PREPARING))
            .is_some_and(is_number)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_set_aside_is_known_by_all_its_names() {
        let name = segment(Lsn(0xf0000));
        for n in [0, 1, 17] {
            let aside = set_aside(&name, n);
            assert_eq!(kind(&aside), NameKind::SetAside, "{aside}");
        }
        for name in [
            "notes.seg.damaged",
            "00000000000f0000.seg.damaged.",
            "00000000000f0000.seg.damaged.x",
            "00000000000f0000.seg.damaged.1.1",
        ] {
            assert_eq!(kind(name), NameKind::Foreign, "{name}");
        }
    }

    #[test]
    fn what_is_kept_as_evidence_is_known() {
        for name in [
            "calibration",
            "calibration-0123456789abcdef.tmp",
            "verdicts",
            "verdicts-0123456789abcdef.tmp",
        ] {
            assert_eq!(kind(name), NameKind::Beside, "{name}");
        }
        for name in ["calibration-", "verdicts-0123.tmp", "calibration.tmp"] {
            assert_eq!(kind(name), NameKind::Foreign, "{name}");
        }
        assert_eq!(kind("0123456789abcdef.tmp"), NameKind::Preparing);
    }
}
