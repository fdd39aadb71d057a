//! What the system's answers mean for whoever meets them, and what to do.

use super::{Damage, Error};
use crate::names::{self, NameKind};
use logforce_device::failure::{is_of_medium, os_number};
use std::fmt;
use std::io;
use std::path::Path;

/// What is done where nothing is to be written: the user need not be allowed to write then. The
/// crate `logforce` uses some of these as well.
const LOOKING: [&str; 5] = ["look at", "read", "list", "open the directory", "ask"];

/// A backend's errors mostly say what was done to which path already; some say only what the
/// system answered.
pub(super) fn describe(doing: &str, path: &Path, source: &io::Error) -> String {
    with_advice(&answer(doing, path, source), advice(doing, source))
}

/// Why a log stopped, and what to do: nothing that is tried again on it can succeed.
pub(super) fn of_poison(cause: &Error) -> String {
    const ANEW: &str = "open the log anew";
    match cause {
        Error::Io {
            doing,
            path,
            source,
        } => {
            let advice = advice(doing, source);
            let anew = match advice {
                "" => format!("to go on, {ANEW}"),
                // Who opens it can succeed, who repeats the call cannot.
                retry if retry.contains(AGAIN) => retry.replace(AGAIN, ANEW),
                other => format!("{other}. To go on, {ANEW}"),
            };
            with_advice(&answer(doing, path, source), &anew)
        }
        other => format!("{other}. To go on, {ANEW}"),
    }
}

/// How an advice ends that fits where nothing has stopped.
const AGAIN: &str = "try again";

fn with_advice(answer: &str, advice: &str) -> String {
    match advice {
        "" => answer.to_owned(),
        some => format!("{answer}; {some}"),
    }
}

/// What was done to which path, and what the system answered.
fn answer(doing: &str, path: &Path, source: &io::Error) -> String {
    let answer = source.to_string();
    let answer = by_its_name(&answer, path).unwrap_or(answer);
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    if !file.is_empty() && answer.contains(&*file) {
        answer
    } else {
        format!("cannot {doing} {}: {answer}", path.display())
    }
}

/// The answer with the name that the segment has now: a backend knows the one by which it was
/// opened, when it was being prepared or kept for reuse.
fn by_its_name(answer: &str, path: &Path) -> Option<String> {
    let is = |name: &str, kinds: &[NameKind]| kinds.contains(&names::kind(name));
    if !is(path.file_name()?.to_str()?, &[NameKind::Segment]) {
        return None;
    }
    let dir = path.parent()?.join("").display().to_string();
    let (_, rest) = answer.split_once(&dir)?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '.';
    let old = rest.split(|c| !is_name(c)).next()?;
    is(old, &[NameKind::Preparing, NameKind::Spare])
        .then(|| answer.replacen(&format!("{dir}{old}"), &path.display().to_string(), 1))
}

/// What to do about damage, behind what saves the rest. An opening reads only the log's end: to
/// truncate there does nothing for what a reader has met further down.
pub(super) fn of_damage(damage: &Damage) -> &'static str {
    match (damage.in_reading, damage.truncatable) {
        (false, true) => {
            "to open with Options::on_damage(OnDamage::Truncate) is to give up what follows this place"
        }
        (false, false) => {
            "an opening with OnDamage::Truncate refuses this too. Put right what is named here, put the \
             log back from a copy, or go on with what was saved"
        }
        (true, _) => {
            "openings read only the end of a log, so OnDamage::Truncate need not help here. Put the log \
             back from a copy, or go on with what was saved; or, if what lies up to this place is no \
             longer needed, truncate_front to a record behind it"
        }
    }
}

fn is_looking(doing: &str) -> bool {
    doing == "open" || LOOKING.iter().any(|l| doing.starts_with(l))
}

/// What to do, or nothing where the answer says it.
fn advice(doing: &str, source: &io::Error) -> &'static str {
    if is_of_medium(source) {
        return "the device reports that it failed: look into the system's log (dmesg on Linux)";
    }
    if let Some(advice) = os_number(source).and_then(by_number) {
        return advice;
    }
    match source.kind() {
        io::ErrorKind::PermissionDenied if is_looking(doing) => {
            "the user of this process must be allowed to read it; the files of a log are their \
             owner's alone unless that was changed"
        }
        io::ErrorKind::PermissionDenied => {
            "the directory and its files must be readable and writable for the user of this process"
        }
        io::ErrorKind::ReadOnlyFilesystem => {
            "to open a log is to write to it: remount the filesystem for writing, or look with \
             `logforce dump` or logforce::read_only"
        }
        io::ErrorKind::StorageFull => "free some space and try again",
        io::ErrorKind::QuotaExceeded => "free some space or have the quota raised, and try again",
        io::ErrorKind::FileTooLarge => {
            "neither the filesystem nor the limit of this process (ulimit -f) may forbid files as \
             large as a segment: see Options::segment_size"
        }
        io::ErrorKind::OutOfMemory => {
            "the system has too little memory for it: free some and try again"
        }
        io::ErrorKind::ResourceBusy => "something else is using it: try again when that is done",
        io::ErrorKind::TimedOut => {
            "the device or the server did not answer: try again when it does"
        }
        io::ErrorKind::StaleNetworkFileHandle => {
            "what was there was unmounted, removed or replaced: find out by whom, and open it anew"
        }
        io::ErrorKind::WouldBlock if doing.contains("thread") => {
            "no more threads are allowed (ulimit -u) or there is too little memory: change that and \
             try again"
        }
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => "try again",
        _ => "",
    }
}

#[cfg(unix)]
fn by_number(number: i32) -> Option<&'static str> {
    // The same on every Unix.
    const ENXIO: i32 = 6;
    const ENODEV: i32 = 19;
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    Some(match number {
        EMFILE => {
            "this process has as many files open as it may, which says nothing of the log: raise \
             the limit (ulimit -n) or close some, and try again"
        }
        ENFILE => {
            "the system has as many files open as it may, which says nothing of the log: raise \
             that limit (fs.file-max on Linux) or close some, and try again"
        }
        ENXIO | ENODEV => "the device is gone: look into the system's log (dmesg on Linux)",
        _ => return None,
    })
}

#[cfg(not(unix))]
fn by_number(number: i32) -> Option<&'static str> {
    const ERROR_TOO_MANY_OPEN_FILES: i32 = 4;
    const ERROR_SHARING_VIOLATION: i32 = 32;
    const ERROR_LOCK_VIOLATION: i32 = 33;
    Some(match number {
        ERROR_TOO_MANY_OPEN_FILES => {
            "this process has as many files open as it may, which says nothing of the log: close \
             some and try again"
        }
        ERROR_SHARING_VIOLATION | ERROR_LOCK_VIOLATION => {
            "another program has it open, perhaps a virus scanner or a backup: try again when it is \
             done"
        }
        _ => return None,
    })
}

/// A number of bytes, for people and for whoever compares: `64 MiB (67108864 bytes)`.
pub(crate) struct Bytes(pub(crate) u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u32, &str); 3] = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
        let bytes = self.0;
        let Some((shift, unit)) = UNITS.iter().find(|(shift, _)| bytes >> shift > 0) else {
            return match bytes {
                1 => f.write_str("1 byte"),
                n => write!(f, "{n} bytes"),
            };
        };
        if bytes.trailing_zeros() >= *shift {
            write!(f, "{} {unit} ({bytes} bytes)", bytes >> shift)
        } else {
            let rounded = bytes as f64 / (1_u64 << shift) as f64;
            write!(f, "{rounded:.1} {unit} ({bytes} bytes)")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_bytes_have_units() {
        for (bytes, text) in [
            (0, "0 bytes"),
            (1, "1 byte"),
            (1023, "1023 bytes"),
            (1024, "1 KiB (1024 bytes)"),
            (64 << 20, "64 MiB (67108864 bytes)"),
            ((64 << 20) + 24, "64.0 MiB (67108888 bytes)"),
            (4 << 30, "4 GiB (4294967296 bytes)"),
            (u64::MAX, "17179869184.0 GiB (18446744073709551615 bytes)"),
        ] {
            assert_eq!(Bytes(bytes).to_string(), text);
        }
    }

    #[test]
    fn what_is_not_about_the_log_says_what_to_do() {
        let at = Path::new("/data/log");
        let told = |doing, source| describe(doing, at, &source);
        let denied = || io::ErrorKind::PermissionDenied.into();
        // Whoever only looks is not told to ask for the right to write.
        for doing in [
            "open the directory",
            "open",
            "list",
            "read",
            "look at the place",
        ] {
            let told = told(doing, denied());
            assert!(told.contains("read") && !told.contains("writ"), "{told}");
        }
        for doing in ["lock", "open for writing", "make the directory", "write"] {
            assert!(told(doing, denied()).contains("writable"), "{doing}");
        }
        for (kind, part) in [
            (io::ErrorKind::OutOfMemory, "memory"),
            (io::ErrorKind::StorageFull, "free some space"),
            (io::ErrorKind::QuotaExceeded, "quota"),
            (io::ErrorKind::FileTooLarge, "ulimit -f"),
            (io::ErrorKind::TimedOut, "try again"),
            (io::ErrorKind::ReadOnlyFilesystem, "remount"),
        ] {
            let told = told("write", kind.into());
            assert!(told.contains(part), "{told}");
            assert!(told.contains("/data/log"), "{told}");
        }
        let thread = told("start a thread for", io::ErrorKind::WouldBlock.into());
        assert!(thread.contains("ulimit -u"), "{thread}");
    }

    /// A segment is opened under one name and used under another; who reads of a failure is told the
    /// one that is there, and once what could not be done.
    #[test]
    fn a_file_that_was_renamed_is_named_as_it_is_now() {
        let dir = Path::new("some").join("log");
        let now = dir.join("0000000000004000.seg");
        for old in ["0000000000004000.tmp", "0000000000001000.spare"] {
            let old = dir.join(old).display().to_string();
            let answer = format!("cannot write 4096 bytes at 8192 to {old}: no room");
            let told = describe("write", &now, &io::Error::other(answer));
            let now = now.display();
            assert_eq!(
                told,
                format!("cannot write 4096 bytes at 8192 to {now}: no room")
            );
        }
        // What is about another file stays.
        let told = describe("write", &now, &io::Error::other("cannot read /proc/x: no"));
        assert!(
            told.ends_with("4000.seg: cannot read /proc/x: no"),
            "{told}"
        );
    }

    #[cfg(unix)]
    #[test]
    fn limits_are_named_by_the_systems_number() {
        let told = |n| describe("open", Path::new("/x"), &io::Error::from_raw_os_error(n));
        for (number, part) in [
            (24, "ulimit -n"),
            (23, "fs.file-max"),
            (5, "dmesg"),
            (19, "gone"),
        ] {
            assert!(told(number).contains(part), "{}", told(number));
        }
    }
}
