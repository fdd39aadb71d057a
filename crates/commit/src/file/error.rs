//! Errors of durable files.

use crate::method::Refused;
use logforce_device::failure::{FailedCall, is_no_space, is_of_medium, os_number, what_to_free};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Result of a call on a durable file.
pub type Result<T> = std::result::Result<T, Error>;

/// Error of a durable file. Its message contains the failure, the path, and the remedy.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A call of the operating system failed. Nothing that was written before has changed.
    #[error("{}{}", answer(doing, path, source), advice(doing, source))]
    Io {
        /// The operation.
        doing: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: Arc<io::Error>,
    },
    /// The path does not name a file.
    #[error("'{}' cannot be the path of a durable file: {why}", path.display())]
    Path {
        /// The path.
        path: PathBuf,
        /// Reason.
        why: &'static str,
    },
    /// Another opening holds the lock, in this process or in another.
    #[error("{} is locked by another opening, in this process or in another: only one at a time may write it. End the other one first", path.display())]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// The required guarantee, or the method, is not available here.
    #[error(transparent)]
    Refused(Refused),
    /// A write to an aligned file does not begin or end at a multiple of its unit. Nothing was written.
    #[error("{len} bytes at offset {offset} of {} are not aligned: both must be multiples of {unit}, File::write_unit. Pad the write, or open without Options::aligned", path.display())]
    Misaligned {
        /// The file.
        path: PathBuf,
        /// Offset of the write, bytes.
        offset: u64,
        /// Length of the write, bytes.
        len: usize,
        /// The unit, bytes.
        unit: u32,
    },
    /// A range ends beyond the largest offset that a file can have, or ends before it begins. Nothing was
    /// written.
    #[error("bytes {start} to {end} are not a range of {}", path.display())]
    Range {
        /// The file.
        path: PathBuf,
        /// Start of the range.
        start: u64,
        /// End of the range.
        end: u64,
    },
    /// The filesystem has no journal, and may lose blocks in a power cut that a sync has just added to a file.
    /// Nothing was written.
    #[error("bytes {start} to {end} of {} have no written blocks yet, and without a journal the filesystem may lose new ones in a power cut although they were synced. Prepare the range first (File::prepare with Prepare::Written), or accept the risk: open with Options::require_verdict(Verdict::Unknown)", path.display())]
    Unprepared {
        /// The file.
        path: PathBuf,
        /// Start of the range.
        start: u64,
        /// End of the range.
        end: u64,
    },
    /// A write or a sync has failed, and the file accepts nothing more. What was acknowledged is durable.
    /// Other writes may be there in full, in part, or not at all.
    #[error(
        "the file stopped after a failure: {cause}. Writes that were not acknowledged may or may not be there. Fix the cause, open the file again, and check it from the medium (File::read_medium_at)"
    )]
    Poisoned {
        /// The file.
        path: PathBuf,
        /// The first failure.
        #[source]
        cause: Arc<Error>,
    },
    /// A thread panicked in a write or a sync. The cause of an [`Error::Poisoned`].
    #[error("the thread that was to {doing} {} panicked", path.display())]
    Panicked {
        /// The operation.
        doing: &'static str,
        /// The file.
        path: PathBuf,
    },
    /// A waker made a call that waits. The thread that calls a waker may be the one that the call waits for.
    #[error("a waker must not make a call that waits: make it in the task that was woken")]
    InWaker,
    /// A forked child uses its parent's file.
    #[error("{} was opened by the parent of this process: open it again in the child", path.display())]
    Forked {
        /// The file.
        path: PathBuf,
    },
}

/// Kind of an [`Error`], by which programs decide what to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A call of the operating system failed. Nothing has changed.
    Io,
    /// There is no such file or directory.
    NotFound,
    /// The file exists already.
    AlreadyExists,
    /// There is no space, or quota, for what was to be prepared or created. Free some, and call again.
    NoSpace,
    /// Another opening holds the lock.
    Locked,
    /// The guarantee or the method is not available here, or not for blocks that were never written. Use
    /// another filesystem, [prepare](crate::file::File::prepare) the range, or accept less.
    Unavailable,
    /// A write or a sync failed, and the file has stopped. Acknowledged writes are durable. Open the file
    /// again, and find out about the others.
    Poisoned,
    /// An argument is wrong, or a waker makes a call that waits. Fix the program.
    InvalidInput,
    /// A forked child uses its parent's file.
    Forked,
}

impl Error {
    /// Returns the kind.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Io { source, .. } if is_no_space(source) => ErrorKind::NoSpace,
            Error::Io { source, .. } => match source.kind() {
                io::ErrorKind::NotFound => ErrorKind::NotFound,
                io::ErrorKind::AlreadyExists => ErrorKind::AlreadyExists,
                io::ErrorKind::InvalidInput => ErrorKind::InvalidInput,
                _ => ErrorKind::Io,
            },
            Error::Locked { .. } => ErrorKind::Locked,
            Error::Refused(_) | Error::Unprepared { .. } => ErrorKind::Unavailable,
            Error::Poisoned { .. } | Error::Panicked { .. } => ErrorKind::Poisoned,
            Error::Path { .. }
            | Error::Misaligned { .. }
            | Error::Range { .. }
            | Error::InWaker => ErrorKind::InvalidInput,
            Error::Forked { .. } => ErrorKind::Forked,
        }
    }

    /// Returns a function that makes the error of a failed call on `path`.
    pub(crate) fn io<'p>(
        doing: &'static str,
        path: &'p Path,
    ) -> impl Fn(io::Error) -> Error + use<'p> {
        move |source| Error::Io {
            doing,
            path: path.to_owned(),
            source: Arc::new(source),
        }
    }
}

/// Prints the message, because `main() -> Result<(), Error>` prints errors by `Debug`.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Allows `?` in functions that return an [`io::Result`].
impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        let kind = match &error {
            Error::Io { source, .. } => source.kind(),
            Error::Locked { .. } => io::ErrorKind::WouldBlock,
            Error::Refused(_) | Error::Unprepared { .. } => io::ErrorKind::Unsupported,
            Error::Poisoned { .. } | Error::Panicked { .. } => io::ErrorKind::Other,
            Error::Path { .. }
            | Error::Misaligned { .. }
            | Error::Range { .. }
            | Error::InWaker
            | Error::Forked { .. } => io::ErrorKind::InvalidInput,
        };
        io::Error::new(kind, error)
    }
}

/// Describes a failed call. The system's error names the path and the operation itself if a backend made it.
fn answer(doing: &str, path: &Path, source: &io::Error) -> String {
    match FailedCall::of(source) {
        Some(call) if call.path.file_name() == path.file_name() => call.to_string(),
        _ => format!("cannot {doing} {}: {source}", path.display()),
    }
}

/// Returns the remedy for an error of the system, or nothing.
fn advice(doing: &str, source: &io::Error) -> String {
    let advice = match source.kind() {
        _ if is_of_medium(source) => {
            "the device reports that it failed: see the system's log (dmesg on Linux)"
        }
        _ if is_no_space(source) => what_to_free(source),
        io::ErrorKind::NotFound if doing == "open" => {
            "check the path, or set Options::create to create the file"
        }
        io::ErrorKind::NotFound => "check the path: its directory must exist",
        io::ErrorKind::PermissionDenied => {
            "the user of this process must be allowed to write the file and its directory"
        }
        io::ErrorKind::ReadOnlyFilesystem => "remount the filesystem for writing",
        io::ErrorKind::FileTooLarge => {
            "the file may not become so large here: see the limit of the filesystem, and of the process \
             (ulimit -f)"
        }
        // Too many open files, in the process or in the system.
        _ if cfg!(unix) && matches!(os_number(source), Some(23 | 24)) => {
            "raise the limit of open files (ulimit -n), or close some"
        }
        _ => return String::new(),
    };
    format!("; {advice}")
}
