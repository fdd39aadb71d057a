//! Failed calls, and what they say about the data.
//!
//! Only an error of the medium means that bytes are lost. A process without descriptors, memory or rights
//! learns nothing about them. Taking such an error for damage could discard acknowledged records that are
//! intact on the medium.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Failed call, as a backend reports it. Unlike a text it keeps the system's error number, and a caller can
/// ask for the operation and the path.
#[derive(Debug)]
pub struct FailedCall {
    /// Operation, with its numbers: `write 4096 bytes at 8192 to`.
    pub doing: String,
    /// File or directory, by the name that it had when it was opened.
    pub path: PathBuf,
    /// Answer of the system.
    pub answer: String,
    number: Option<i32>,
    of_medium: bool,
    of_inodes: bool,
}

impl fmt::Display for FailedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FailedCall { doing, answer, .. } = self;
        write!(f, "cannot {doing} {}: {answer}", self.path.display())
    }
}

impl Error for FailedCall {}

impl FailedCall {
    /// Returns the failed call behind `error`, if a backend recorded it by [`at`].
    pub fn of(error: &io::Error) -> Option<&FailedCall> {
        error.get_ref()?.downcast_ref()
    }
}

/// Makes an error of `kind` from `error` that names the operation and the path, and keeps the error number.
pub fn at(error: &io::Error, kind: io::ErrorKind, doing: &str, path: &Path) -> io::Error {
    let failed = FailedCall {
        doing: doing.to_owned(),
        path: path.to_owned(),
        answer: error.to_string(),
        number: os_number(error),
        of_medium: is_of_medium(error),
        of_inodes: lacks_inodes(error),
    };
    io::Error::new(kind, failed)
}

/// Error of the medium without a number of the system: of a simulated disk.
#[derive(Debug)]
struct Medium(String);

impl fmt::Display for Medium {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Medium {}

/// Makes an error of the medium with the text `words`.
pub fn medium(words: impl Into<String>) -> io::Error {
    io::Error::other(Medium(words.into()))
}

/// Error of a filesystem that has free bytes, but no inode for another file.
#[derive(Debug)]
struct NoInodes(u64);

impl fmt::Display for NoInodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NoInodes(free) = self;
        write!(
            f,
            "the filesystem has no inodes left ({free} bytes are free)"
        )
    }
}

impl Error for NoInodes {}

/// Makes the error of a call that creates a file on a filesystem with `free` bytes and no inode.
pub fn no_inodes(free: u64) -> io::Error {
    io::Error::new(io::ErrorKind::StorageFull, NoInodes(free))
}

/// Returns true if `error`, of kind `StorageFull`, reports missing inodes. Freeing bytes does not help then.
pub fn lacks_inodes(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|e| e.is::<NoInodes>())
        || FailedCall::of(error).is_some_and(|call| call.of_inodes)
}

/// Returns true if the error says that there is no space, and nothing about the medium.
pub fn is_no_space(error: &io::Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded)
}

/// Returns true if the error says that the file cannot grow, and nothing about the medium. Freed space helps
/// only if [`is_no_space`] holds too: a limit of the process stays.
pub fn cannot_grow(error: &io::Error) -> bool {
    is_no_space(error) || error.kind() == io::ErrorKind::FileTooLarge
}

/// Returns the advice for an `error` of kind `StorageFull` or `QuotaExceeded`.
pub fn what_to_free(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::QuotaExceeded => "free some or raise the quota",
        _ if lacks_inodes(error) => "remove files",
        _ => "free some",
    }
}

/// Returns the system's error number, also if `error` was wrapped by [`at`].
pub fn os_number(error: &io::Error) -> Option<i32> {
    let recorded = || FailedCall::of(error)?.number;
    error.raw_os_error().or_else(recorded)
}

/// Returns true if `error`, the answer to a read, says that the medium cannot return the data it holds.
///
/// Everything else (no descriptors, no memory, no rights, a signal, a busy or vanished device, a
/// file that is not shared) says nothing about the bytes, and neither does an unknown error.
pub fn is_of_medium(error: &io::Error) -> bool {
    match error.raw_os_error() {
        Some(number) => NUMBERS.contains(&number),
        None => {
            error.get_ref().is_some_and(|e| e.is::<Medium>())
                || FailedCall::of(error).is_some_and(|call| call.of_medium)
        }
    }
}

/// Linux: `EIO`; `EBADMSG` and `EUCLEAN` (a filesystem's checksum or structure is wrong: ext4, xfs, btrfs);
/// `ENODATA`, `EREMOTEIO` and `EILSEQ`. The block layer turns a medium error, a target error and a protection
/// error into the last three (`blk_errors` in the kernel's `block/blk-core.c`).
#[cfg(any(target_os = "linux", target_os = "android"))]
const NUMBERS: &[i32] = &[5, 61, 74, 84, 117, 121];

/// `EIO`, `EILSEQ`, `EBADMSG` (`sys/errno.h`).
#[cfg(target_vendor = "apple")]
const NUMBERS: &[i32] = &[5, 92, 94];

/// `ERROR_CRC`, `ERROR_SECTOR_NOT_FOUND`, `ERROR_READ_FAULT`, `ERROR_DATA_CHECKSUM_ERROR`,
/// `ERROR_IO_DEVICE`, `ERROR_FILE_CORRUPT`, `ERROR_DISK_CORRUPT` (`winerror.h`).
#[cfg(windows)]
const NUMBERS: &[i32] = &[23, 27, 30, 323, 1117, 1392, 1393];

/// `EIO` has this number on every other system that has it.
#[cfg(not(any(
    target_os = "linux",
    target_os = "android",
    target_vendor = "apple",
    windows
)))]
const NUMBERS: &[i32] = &[5];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_call_was_about_is_kept_with_number_and_meaning() {
        let number = NUMBERS[0];
        let raw = io::Error::from_raw_os_error(number);
        let kind = raw.kind();
        assert!(is_of_medium(&raw));
        let once = at(&raw, kind, "read from", Path::new("b"));
        let twice = at(&once, kind, "open", Path::new("a"));
        assert_eq!(os_number(&twice), Some(number));
        assert!(is_of_medium(&twice));
        assert_eq!(twice.kind(), kind);
        let expected = format!("cannot open a: cannot read from b: {raw}");
        assert_eq!(twice.to_string(), expected);
        let call = FailedCall::of(&once).unwrap();
        assert_eq!(
            (call.doing.as_str(), &*call.path),
            ("read from", Path::new("b"))
        );
        assert_eq!(call.answer, raw.to_string());
        assert!(FailedCall::of(&raw).is_none());
        let gone = medium("gone");
        assert!(is_of_medium(&gone));
        assert!(is_of_medium(&at(
            &gone,
            gone.kind(),
            "read",
            Path::new("a")
        )));
    }

    #[test]
    fn a_lack_of_inodes_is_kept_apart_from_one_of_bytes() {
        let bare = no_inodes(4096);
        let told = at(&bare, bare.kind(), "make", Path::new("a"));
        for e in [bare, told] {
            assert!(lacks_inodes(&e) && !is_of_medium(&e), "{e}");
            assert_eq!(e.kind(), io::ErrorKind::StorageFull);
            assert!(e.to_string().contains("no inodes left (4096 bytes"), "{e}");
        }
        assert!(!lacks_inodes(&io::ErrorKind::StorageFull.into()));
    }

    #[test]
    fn what_the_process_lacks_is_not_the_mediums_word() {
        // EPERM, ENOENT, EINTR, ENXIO, EAGAIN, ENOMEM, EACCES, EBUSY, ENODEV, EINVAL, ENFILE, EMFILE.
        #[cfg(unix)]
        for number in [1, 2, 4, 6, 11, 12, 13, 16, 19, 22, 23, 24] {
            let e = io::Error::from_raw_os_error(number);
            assert!(!is_of_medium(&e), "{e}");
            assert!(!is_of_medium(&at(&e, e.kind(), "", Path::new(""))), "{e}");
        }
        // Access denied, too many open files, not enough memory, not ready, sharing violation.
        #[cfg(windows)]
        for number in [4, 5, 8, 21, 32, 33] {
            let e = io::Error::from_raw_os_error(number);
            assert!(!is_of_medium(&e), "{e}");
        }
        assert!(!is_of_medium(&io::Error::other("who knows")));
        assert!(!is_of_medium(&io::ErrorKind::UnexpectedEof.into()));
    }
}
