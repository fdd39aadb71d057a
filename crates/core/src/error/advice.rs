//! Explanation of the system's errors, with advice on what to do.

use crate::names::{self, NameKind};
use logforce_device::failure::{FailedCall, is_of_medium, lacks_inodes, os_number};
use std::fmt;
use std::io;
use std::path::Path;

/// Operations that only read, so that they need no permission to write. The crate `logforce` uses some of
/// them as well.
const READING: [&str; 6] = [
    "check",
    "look at",
    "read",
    "list",
    "open the directory",
    "ask",
];

/// Object of a failed call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// A log.
    Log,
    /// A page file.
    PageFile,
}

impl Subject {
    /// Returns the advice for a subject that has failed.
    pub fn reopen(self) -> &'static str {
        self.choose("open the log again", "open the page file again")
    }

    fn choose(self, log: &'static str, page_file: &'static str) -> &'static str {
        match self {
            Subject::Log => log,
            Subject::PageFile => page_file,
        }
    }
}

/// Advice for a failed call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Advice {
    /// None: the system's error is sufficient.
    Nothing,
    /// Fix the cause. Repeating the call may fail even then.
    PutRight(&'static str),
    /// Try again, with text before and after these words.
    Again(&'static str, &'static str),
}

/// Describes a failed call: the operation, the path, the system's error, and the advice.
pub fn describe(subject: Subject, doing: &str, path: &Path, source: &io::Error) -> String {
    let answer = answer(doing, path, source);
    match advice(subject, doing, source) {
        Advice::Nothing => answer,
        Advice::PutRight(what) => format!("{answer}; {what}"),
        Advice::Again(before, behind) => format!("{answer}; {before}try again{behind}"),
    }
}

/// Describes a failed call like [`describe`], and advises opening the subject again, because the call has
/// poisoned it.
pub fn to_continue_after(subject: Subject, doing: &str, path: &Path, source: &io::Error) -> String {
    let (answer, reopen) = (answer(doing, path, source), subject.reopen());
    match advice(subject, doing, source) {
        Advice::Nothing => format!("{answer}; to continue, {reopen}"),
        Advice::PutRight(what) => format!("{answer}; {what}. To continue, {reopen}"),
        Advice::Again(before, behind) => format!("{answer}; {before}{reopen}{behind}"),
    }
}

/// Returns the system's error without the path, for a message that names the file already. An error of a
/// backend contains the path too.
pub fn cause(path: &Path, source: &io::Error) -> String {
    match FailedCall::of(source) {
        Some(call) if call.path == path => call.answer.clone(),
        _ => source.to_string(),
    }
}

/// Describes a failed call without advice: the operation, the path and the system's error. Uses the
/// backend's error if it is about the same file or a file in the directory, because it is more precise.
fn answer(doing: &str, path: &Path, source: &io::Error) -> String {
    match FailedCall::of(source) {
        Some(call) if call.path.starts_with(path) => call.to_string(),
        Some(call) if is_former_name(&call.path, path) => {
            format!("cannot {} {}: {}", call.doing, path.display(), call.answer)
        }
        _ => format!("cannot {doing} {}: {source}", path.display()),
    }
}

/// Returns true if the segment `now` may have been opened under the name `then`. A backend knows a file by
/// the name under which it was opened, which may be that of a temporary file or a spare.
fn is_former_name(then: &Path, now: &Path) -> bool {
    let kind = |path: &Path| Some(names::kind(path.file_name()?.to_str()?));
    then.parent() == now.parent()
        && kind(now) == Some(NameKind::Segment)
        && matches!(kind(then), Some(NameKind::Preparing | NameKind::Spare))
}

fn is_reading(doing: &str) -> bool {
    doing == "open" || READING.iter().any(|l| doing.starts_with(l))
}

fn advice(subject: Subject, doing: &str, source: &io::Error) -> Advice {
    use Advice::{Again, Nothing, PutRight};
    if is_of_medium(source) {
        return PutRight(
            "the device reports that it failed: see the system's log (dmesg on Linux)",
        );
    }
    if let Some(advice) = os_number(source).and_then(by_number) {
        return advice;
    }
    match source.kind() {
        io::ErrorKind::PermissionDenied if is_reading(doing) => PutRight(
            "the user of this process must be allowed to read it; by default only the owner of the files \
             is",
        ),
        io::ErrorKind::PermissionDenied => PutRight(
            "the directory and its files must be readable and writable for the user of this process",
        ),
        io::ErrorKind::ReadOnlyFilesystem if doing.contains("backup") => {
            PutRight("name a directory on a filesystem that is mounted for writing")
        }
        io::ErrorKind::ReadOnlyFilesystem => PutRight(subject.choose(
            "opening a log writes to it: remount the filesystem for writing, or read it with \
             `logforce dump` or logforce::read_only",
            "opening a page file writes to it: remount the filesystem for writing, or read it with \
             `logforce dump` or logforce::pages::read_only",
        )),
        io::ErrorKind::StorageFull if lacks_inodes(source) => Again("remove files and ", ""),
        io::ErrorKind::StorageFull => Again("free some space and ", ""),
        io::ErrorKind::QuotaExceeded => Again("free some space or raise the quota, and ", ""),
        io::ErrorKind::FileTooLarge => PutRight(subject.choose(
            "the file is larger than the filesystem or the limit of this process (ulimit -f) allows: \
             raise the limit, or lower Options::segment_size",
            "the file is larger than the filesystem or the limit of this process (ulimit -f) allows: \
             raise the limit, or move the page file to a filesystem with larger files",
        )),
        io::ErrorKind::OutOfMemory => Again(
            "the system has too little memory for this call: free some and ",
            "",
        ),
        io::ErrorKind::ResourceBusy => Again("something else is using it: ", " when it is free"),
        io::ErrorKind::TimedOut => {
            Again("the device or the server did not answer: ", " when it does")
        }
        io::ErrorKind::StaleNetworkFileHandle => PutRight(
            subject.choose(
                "the file was unmounted, removed or replaced: find out why, and open the log again",
                "the file was unmounted, removed or replaced: find out why, and open the page file \
                 again",
            ),
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
    // These numbers are the same on every Unix.
    const ENXIO: i32 = 6;
    const ENODEV: i32 = 19;
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    Some(match number {
        EMFILE => Again(
            "this process has reached its limit of open files, which is unrelated to the data: raise \
             the limit (ulimit -n) or close some, and ",
            "",
        ),
        ENFILE => Again(
            "the system has reached its limit of open files, which is unrelated to the data: raise \
             the limit (fs.file-max on Linux) or close some, and ",
            "",
        ),
        ENXIO | ENODEV => PutRight("the device is gone: see the system's log (dmesg on Linux)"),
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
            "this process has reached its limit of open files, which is unrelated to the data: close \
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

/// A number of bytes, rounded and exact: `64 MiB (67108864 bytes)`.
pub struct Bytes(pub u64);

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
        let message = |doing, source| describe(Subject::Log, doing, at, &source);
        let denied = || io::ErrorKind::PermissionDenied.into();
        // The advice for an operation that only reads does not mention permission to write.
        for doing in [
            "open the directory",
            "open",
            "list",
            "read",
            "look at the place",
        ] {
            let message = message(doing, denied());
            assert!(
                message.contains("read") && !message.contains("writ"),
                "{message}"
            );
        }
        for doing in ["lock", "open for writing", "make the directory", "write"] {
            assert!(message(doing, denied()).contains("writable"), "{doing}");
        }
        for (kind, part) in [
            (io::ErrorKind::OutOfMemory, "memory"),
            (io::ErrorKind::StorageFull, "free some space"),
            (io::ErrorKind::QuotaExceeded, "quota"),
            (io::ErrorKind::FileTooLarge, "ulimit -f"),
            (io::ErrorKind::TimedOut, "try again"),
            (io::ErrorKind::ReadOnlyFilesystem, "remount"),
        ] {
            let message = message("write", kind.into());
            assert!(message.contains(part), "{message}");
            assert!(message.contains("/data/log"), "{message}");
            // A page file has no segments and is not read like a log.
            let of_pages = describe(Subject::PageFile, "write", at, &kind.into());
            assert!(of_pages.contains(part), "{of_pages}");
            for word in ["segment", "logforce::read_only", " log "] {
                assert!(!of_pages.contains(word), "{of_pages}");
            }
        }
        let inodes = message("make", failure::no_inodes(1 << 30));
        assert!(
            inodes.contains("inodes") && inodes.ends_with("remove files and try again"),
            "{inodes}"
        );
        let thread = message("start a thread for", io::ErrorKind::WouldBlock.into());
        assert!(thread.contains("ulimit -u"), "{thread}");
    }

    /// A segment is opened under one name and used under another. The error contains the current name, and
    /// the failed operation once.
    #[test]
    fn a_file_that_was_renamed_is_named_as_it_is_now() {
        let dir = Path::new("some").join("log");
        let now = dir.join("0000000000004000.seg");
        let full = || io::Error::new(io::ErrorKind::StorageFull, "no space");
        let write = "write 4096 bytes at 8192 to";
        let message = |call: &Path, path: &Path| {
            let source = failure::at(&full(), io::ErrorKind::Other, write, call);
            describe(Subject::Log, "write", path, &source)
        };
        let expected = format!("cannot {write} {}: no space", now.display());
        for then in [
            "0000000000004000.tmp",
            "0000000000001000.spare",
            "0000000000004000.seg",
        ] {
            assert_eq!(message(&dir.join(then), &now), expected);
        }
        // The error of a file in the directory is more precise than the directory's.
        assert_eq!(message(&now, &dir), expected);
        // An error about another file stays in the text.
        let other = message(Path::new("/proc/x"), &now);
        let both = format!(
            "cannot write {}: cannot {write} /proc/x: no space",
            now.display()
        );
        assert_eq!(other, both);
        // A text that happens to contain the file's name does not replace the operation and the path.
        let text = io::Error::other("0000000000004000.seg is odd");
        let message = describe(Subject::Log, "write", &now, &text);
        let expected = format!("cannot write {}: {text}", now.display());
        assert_eq!(message, expected);
    }

    /// Opening a failed log again can succeed; repeating the call cannot.
    #[test]
    fn a_failed_log_is_to_be_opened_again_where_others_try_again() {
        let message = |kind: io::ErrorKind| {
            let source = io::Error::new(kind, "no");
            let again = describe(Subject::Log, "write", Path::new("x"), &source);
            let reopen = to_continue_after(Subject::Log, "write", Path::new("x"), &source);
            (again, reopen)
        };
        for (kind, again, reopen) in [
            (
                io::ErrorKind::StorageFull,
                "; free some space and try again",
                "; free some space and open the log again",
            ),
            (
                io::ErrorKind::TimedOut,
                "; the device or the server did not answer: try again when it does",
                "; the device or the server did not answer: open the log again when it does",
            ),
            (
                io::ErrorKind::Interrupted,
                "; try again",
                "; open the log again",
            ),
            (
                io::ErrorKind::Other,
                "",
                "; to continue, open the log again",
            ),
        ] {
            let expected = |advice: &str| format!("cannot write x: no{advice}");
            assert_eq!(message(kind), (expected(again), expected(reopen)));
        }
        let (_, reopen) = message(io::ErrorKind::PermissionDenied);
        assert!(
            reopen.ends_with("of this process. To continue, open the log again"),
            "{reopen}"
        );
    }

    #[cfg(unix)]
    #[test]
    fn limits_are_named_by_the_systems_number() {
        let message = |n| {
            let source = io::Error::from_raw_os_error(n);
            describe(Subject::Log, "open", Path::new("/x"), &source)
        };
        for (number, part) in [
            (24, "ulimit -n"),
            (23, "fs.file-max"),
            (5, "dmesg"),
            (19, "gone"),
        ] {
            assert!(message(number).contains(part), "{}", message(number));
        }
    }
}
