//! What the system's answers mean for whoever meets them, and what to do.

use crate::names::{self, NameKind};
use logforce_device::failure::{FailedCall, is_of_medium, os_number};
use std::fmt;
use std::io;
use std::path::Path;

/// What is done where nothing is to be written: the user need not be allowed to write then. The
/// crate `logforce` uses some of these as well.
const LOOKING: [&str; 5] = ["look at", "read", "list", "open the directory", "ask"];

/// What to do about a log that has stopped.
pub(super) const ANEW: &str = "open the log anew";

/// What to do about a failed call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Advice {
    /// The answer says it.
    Nothing,
    /// Put something right. To repeat the call may be of no use even then.
    PutRight(&'static str),
    /// Try again, with what comes before these words and behind them.
    Again(&'static str, &'static str),
}

/// What was done to which path, what the system answered, and what to do.
pub(super) fn describe(doing: &str, path: &Path, source: &io::Error) -> String {
    let answer = answer(doing, path, source);
    match advice(doing, source) {
        Advice::Nothing => answer,
        Advice::PutRight(what) => format!("{answer}; {what}"),
        Advice::Again(before, behind) => format!("{answer}; {before}try again{behind}"),
    }
}

/// What a failed call says where it has ended a log, and what to do to go on.
pub(super) fn to_go_on_after(doing: &str, path: &Path, source: &io::Error) -> String {
    let answer = answer(doing, path, source);
    match advice(doing, source) {
        Advice::Nothing => format!("{answer}; to go on, {ANEW}"),
        Advice::PutRight(what) => format!("{answer}; {what}. To go on, {ANEW}"),
        Advice::Again(before, behind) => format!("{answer}; {before}{ANEW}{behind}"),
    }
}

/// What was done to which path, and what the system answered: in the backend's words where it told
/// of the same file or of something in the directory, for they say more.
fn answer(doing: &str, path: &Path, source: &io::Error) -> String {
    match FailedCall::of(source) {
        Some(call) if call.path.starts_with(path) => call.to_string(),
        Some(call) if is_former_name(&call.path, path) => {
            format!("cannot {} {}: {}", call.doing, path.display(), call.answer)
        }
        _ => format!("cannot {doing} {}: {source}", path.display()),
    }
}

/// Whether the segment `now` may have been opened as `then`: a backend knows a file by the name it
/// had, when it was being prepared or kept for reuse.
fn is_former_name(then: &Path, now: &Path) -> bool {
    let kind = |path: &Path| Some(names::kind(path.file_name()?.to_str()?));
    then.parent() == now.parent()
        && kind(now) == Some(NameKind::Segment)
        && matches!(kind(then), Some(NameKind::Preparing | NameKind::Spare))
}

fn is_looking(doing: &str) -> bool {
    doing == "open" || LOOKING.iter().any(|l| doing.starts_with(l))
}

fn advice(doing: &str, source: &io::Error) -> Advice {
    use Advice::{Again, Nothing, PutRight};
    if is_of_medium(source) {
        return PutRight(
            "the device reports that it failed: look into the system's log (dmesg on Linux)",
        );
    }
    if let Some(advice) = os_number(source).and_then(by_number) {
        return advice;
    }
    match source.kind() {
        io::ErrorKind::PermissionDenied if is_looking(doing) => PutRight(
            "the user of this process must be allowed to read it; the files of a log are their \
             owner's alone unless that was changed",
        ),
        io::ErrorKind::PermissionDenied => PutRight(
            "the directory and its files must be readable and writable for the user of this process",
        ),
        io::ErrorKind::ReadOnlyFilesystem => PutRight(
            "to open a log is to write to it: remount the filesystem for writing, or look with \
             `logforce dump` or logforce::read_only",
        ),
        io::ErrorKind::StorageFull => Again("free some space and ", ""),
        io::ErrorKind::QuotaExceeded => Again("free some space or have the quota raised, and ", ""),
        io::ErrorKind::FileTooLarge => PutRight(
            "neither the filesystem nor the limit of this process (ulimit -f) may forbid files as \
             large as a segment: see Options::segment_size",
        ),
        io::ErrorKind::OutOfMemory => Again(
            "the system has too little memory for it: free some and ",
            "",
        ),
        io::ErrorKind::ResourceBusy => Again("something else is using it: ", " when that is done"),
        io::ErrorKind::TimedOut => {
            Again("the device or the server did not answer: ", " when it does")
        }
        io::ErrorKind::StaleNetworkFileHandle => PutRight(
            "what was there was unmounted, removed or replaced: find out by whom, and open it anew",
        ),
        io::ErrorKind::WouldBlock if doing.contains("thread") => Again(
            "no more threads are allowed (ulimit -u) or there is too little memory: change that and ",
            "",
        ),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Again("", ""),
        _ => Nothing,
    }
}

#[cfg(unix)]
fn by_number(number: i32) -> Option<Advice> {
    use Advice::{Again, PutRight};
    // The same on every Unix.
    const ENXIO: i32 = 6;
    const ENODEV: i32 = 19;
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    Some(match number {
        EMFILE => Again(
            "this process has as many files open as it may, which says nothing of the log: raise \
             the limit (ulimit -n) or close some, and ",
            "",
        ),
        ENFILE => Again(
            "the system has as many files open as it may, which says nothing of the log: raise \
             that limit (fs.file-max on Linux) or close some, and ",
            "",
        ),
        ENXIO | ENODEV => {
            PutRight("the device is gone: look into the system's log (dmesg on Linux)")
        }
        _ => return None,
    })
}

#[cfg(not(unix))]
fn by_number(number: i32) -> Option<Advice> {
    use Advice::Again;
    const ERROR_TOO_MANY_OPEN_FILES: i32 = 4;
    const ERROR_SHARING_VIOLATION: i32 = 32;
    const ERROR_LOCK_VIOLATION: i32 = 33;
    Some(match number {
        ERROR_TOO_MANY_OPEN_FILES => Again(
            "this process has as many files open as it may, which says nothing of the log: close \
             some and ",
            "",
        ),
        ERROR_SHARING_VIOLATION | ERROR_LOCK_VIOLATION => Again(
            "another program has it open, perhaps a virus scanner or a backup: ",
            " when it is done",
        ),
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
    use logforce_device::failure;

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
        let full = || io::Error::new(io::ErrorKind::StorageFull, "no room");
        let write = "write 4096 bytes at 8192 to";
        let told = |call: &Path, path: &Path| {
            let source = failure::at(&full(), io::ErrorKind::Other, write, call);
            describe("write", path, &source)
        };
        let expected = format!("cannot {write} {}: no room", now.display());
        for then in [
            "0000000000004000.tmp",
            "0000000000001000.spare",
            "0000000000004000.seg",
        ] {
            assert_eq!(told(&dir.join(then), &now), expected);
        }
        // Of a file in the directory it says more than of the directory.
        assert_eq!(told(&now, &dir), expected);
        // What is about another file stays, and says why it was asked.
        let other = told(Path::new("/proc/x"), &now);
        let both = format!(
            "cannot write {}: cannot {write} /proc/x: no room",
            now.display()
        );
        assert_eq!(other, both);
        // A text that happens to name the file does not stand for what was done to which path.
        let text = io::Error::other("0000000000004000.seg is odd");
        let told = describe("write", &now, &text);
        let expected = format!("cannot write {}: {text}", now.display());
        assert_eq!(told, expected);
    }

    /// Who opens a log that stopped can succeed, who repeats the call cannot.
    #[test]
    fn a_log_that_stopped_is_to_be_opened_where_others_try_again() {
        let told = |kind: io::ErrorKind| {
            let source = io::Error::new(kind, "no");
            let again = describe("write", Path::new("x"), &source);
            (again, to_go_on_after("write", Path::new("x"), &source))
        };
        for (kind, again, anew) in [
            (
                io::ErrorKind::StorageFull,
                "; free some space and try again",
                "; free some space and open the log anew",
            ),
            (
                io::ErrorKind::TimedOut,
                "; the device or the server did not answer: try again when it does",
                "; the device or the server did not answer: open the log anew when it does",
            ),
            (
                io::ErrorKind::Interrupted,
                "; try again",
                "; open the log anew",
            ),
            (io::ErrorKind::Other, "", "; to go on, open the log anew"),
        ] {
            let expected = |advice: &str| format!("cannot write x: no{advice}");
            assert_eq!(told(kind), (expected(again), expected(anew)));
        }
        let (_, anew) = told(io::ErrorKind::PermissionDenied);
        assert!(
            anew.ends_with("of this process. To go on, open the log anew"),
            "{anew}"
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
