//! Errors of page files, and what to do about each kind.

use logforce_core::advice::{self, Bytes, Subject};
use logforce_core::{Error as LogError, Guarantee, Verdict};
use logforce_device::failure::what_to_free;
pub(crate) use logforce_device::failure::{cannot_grow, is_no_space};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Error of a page file. Its message says what happened, where, and what to do.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A call of the operating system failed.
    #[error("{}", advice::describe(Subject::PageFile, doing, path, source))]
    Io {
        /// Operation that failed.
        doing: &'static str,
        /// File or directory.
        path: PathBuf,
        /// Error of the operating system.
        source: Arc<io::Error>,
    },
    /// The log of a logged page file failed, or refused a call.
    #[error("the log of the page file: {0}")]
    Log(LogError),
    /// The directory holds no page file, or does not exist.
    #[error("{} holds no page file: {why}", path.display())]
    NoPageFile {
        /// The directory.
        path: PathBuf,
        /// Description of what is missing.
        why: String,
    },
    /// `CreateNew` found a page file.
    #[error("{} holds a page file already: open it with OpenExisting or OpenOrCreate", path.display())]
    AlreadyExists {
        /// The directory.
        path: PathBuf,
    },
    /// The destination of a backup is not an empty directory.
    #[error("{} exists and is not an empty directory: give the backup a new or empty directory", path.display())]
    DestinationExists {
        /// Destination of the backup.
        path: PathBuf,
    },
    /// The directory or the file holds something else.
    #[error("{} is not a page file: {why}", path.display())]
    NotAPageFile {
        /// The file or directory.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// The file was written by a newer version of Logforce.
    #[error("{} has format version {version}, this program reads version {}: use a newer one", path.display(), logforce_format::PAGE_FORMAT_VERSION)]
    NewerFormat {
        /// The file.
        path: PathBuf,
        /// Format version of the file.
        version: u16,
    },
    /// The file differs from the options in page size, commit mode or checksums.
    #[error("{} was created with {option} {is}, and {wanted} was asked for: {option} is fixed when a page file is created", path.display())]
    OtherOption {
        /// The directory.
        path: PathBuf,
        /// The option.
        option: &'static str,
        /// Its value in the file.
        is: String,
        /// The value that was asked for.
        wanted: String,
    },
    /// The page file is open already, in this process or another.
    #[error("{} is open already, in this process or in another: only one opening at a time is possible", path.display())]
    Locked {
        /// The directory.
        path: PathBuf,
    },
    /// The data file and the log beside it do not belong together.
    #[error("the page file in {} and its log do not belong together: {why}. Restore both from the same backup", path.display())]
    ForeignLog {
        /// The directory.
        path: PathBuf,
        /// Description of the mismatch.
        why: String,
    },
    /// The required guarantee is not available in this directory.
    #[error("{}: a barrier guarantees {got} here, {wanted} is required: {evidence}. To accept less, open with Options::require(Guarantee::{got:?})", path.display())]
    Guarantee {
        /// The directory.
        path: PathBuf,
        /// The required guarantee.
        wanted: Guarantee,
        /// Guarantee of a barrier in this directory.
        got: Guarantee,
        /// Evidence for that guarantee.
        evidence: String,
    },
    /// The verdict on the guarantee is below the required one.
    #[error("{}: a barrier guarantees {got} here, but that is only {verdict}, and {wanted} is required: {evidence}. To accept it, open with Options::require_verdict(Verdict::{verdict:?})", path.display())]
    Verdict {
        /// The directory.
        path: PathBuf,
        /// Guarantee of a barrier in this directory.
        got: Guarantee,
        /// Verdict on that guarantee.
        verdict: Verdict,
        /// The required verdict.
        wanted: Verdict,
        /// Evidence for the verdict.
        evidence: String,
    },
    /// There is no space for the commit. The commit was not accepted. What is durable stays, and the page
    /// file continues once there is space.
    ///
    /// A copy-on-write file looks for space when commits are forced. With
    /// [`Policy::Write`](logforce_core::Policy::Write) and
    /// [`Policy::Interval`](logforce_core::Policy::Interval) a commit that has returned may then be rolled
    /// back. The next checkpoint or close returns this error. So does the commit of a transaction that was
    /// built on a rolled-back one.
    #[error("no space in {} for {}: {} ({})", path.display(), Bytes(*need), what_to_free(source), advice::cause(path, source))]
    NoSpace {
        /// The file.
        path: PathBuf,
        /// Maximum number of bytes that the commit, the checkpoint or the backup still has to write.
        need: u64,
        /// The system's error.
        source: Arc<io::Error>,
    },
    /// A page, or a node of the page table, does not hold what was written.
    #[error("{}: damaged {what} at byte {offset}: {found}. Restore it from a backup; `logforce verify` lists all damage", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Damaged part, with the page's number if it is a page.
        what: String,
        /// Offset of the damage in the file in bytes.
        offset: u64,
        /// Description of what was found there.
        found: String,
    },
    /// A write or a barrier failed, and the page file accepts nothing more. For commits that were not
    /// acknowledged, only opening it again tells if they are durable.
    #[error(
        "the page file stopped after a failure: {}. Indeterminate: commits in flight may or may not be there after reopening",
        poison_message(.0)
    )]
    Poisoned(Arc<Error>),
    /// The directory or one of the files was deleted, moved away or replaced while the page file was open.
    /// This error is the cause of an [`Error::Poisoned`].
    #[error(
        "{} is not what was opened: {found}. Commits since then, half a second of commits at most, may be missing there: restore what was removed before you open the page file again", path.display()
    )]
    Displaced {
        /// The path by which the directory was opened.
        path: PathBuf,
        /// Description of the displacement.
        found: String,
    },
    /// Another transaction committed a change of the page after this one began.
    #[error(
        "page {page} was changed by another transaction since this one began: begin again, read it again, and retry"
    )]
    Conflict {
        /// The page.
        page: u64,
    },
    /// The bytes given for a page do not have the size of a page.
    #[error("wrong size for page {page}: {len} bytes, the page size is {page_size} bytes")]
    PageSize {
        /// The page.
        page: u64,
        /// Number of bytes that were given.
        len: usize,
        /// Page size in bytes.
        page_size: u32,
    },
    /// The transaction has written or discarded the page before.
    #[error(
        "page {page} was written or discarded before in this transaction: to change it again, use page_mut"
    )]
    PageTwice {
        /// The page.
        page: u64,
    },
    /// There is no page with this number.
    #[error("page {page} is out of range: pages have numbers below {page_count}")]
    OutOfRange {
        /// The page.
        page: u64,
        /// Exclusive end of the valid page numbers.
        page_count: u64,
    },
    /// The logged transaction does not fit into one record of the log.
    #[error(
        "transaction too large: {len} bytes, maximum {max} bytes in one record of the log. Commit fewer pages at once, or use copy-on-write"
    )]
    TooLarge {
        /// Size of the transaction in bytes.
        len: u64,
        /// Maximum size in bytes.
        max: u64,
    },
    /// An option has an invalid value.
    #[error("option {option}: {why}")]
    Option {
        /// Name of the option.
        option: &'static str,
        /// Reason.
        why: String,
    },
    /// The page file was closed.
    #[error("the page file is closed")]
    Closed,
    /// The waker of a task made a call that may wait, in a thread of the page file or of another caller. The
    /// call could wait for itself.
    #[error(
        "a waker must not make calls that wait: have it schedule the task, and make the call there"
    )]
    InWaker,
    /// This process is a fork of the one that opened the page file.
    #[error("the page file was opened before this process was forked: only the parent may use it")]
    Forked,
}

/// Converts an error of the log. A failure or displacement of the log becomes one of its page file.
impl From<LogError> for Error {
    fn from(error: LogError) -> Error {
        match error {
            LogError::InWaker => Error::InWaker,
            LogError::Displaced { path, found } => Error::Displaced { path, found },
            LogError::Poisoned { cause, .. } => {
                let cause = match (*cause).clone() {
                    LogError::Io {
                        doing,
                        path,
                        source,
                    } => Error::Io {
                        doing,
                        path,
                        source,
                    },
                    cause => Error::from(cause),
                };
                Error::Poisoned(Arc::new(cause))
            }
            error => Error::Log(error),
        }
    }
}

/// Returns the reason of a page file's failure, and the remedy. Repeating a call cannot succeed, but opening
/// the file again can.
fn poison_message(cause: &Error) -> String {
    match cause {
        Error::Io {
            doing,
            path,
            source,
        } => advice::to_continue_after(Subject::PageFile, doing, path, source),
        other => format!("{other}. To continue, {}", Subject::PageFile.reopen()),
    }
}

/// Prints the message, as it appears in the output of `main() -> Result<(), Error>`, `unwrap` and `expect`.
impl std::fmt::Debug for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// Kind of an [`Error`], for the program to decide what to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A call of the operating system failed, or the log did. Nothing was committed. Fix the cause, and
    /// begin the transaction again.
    Io,
    /// There is no page file. Check the path and the mount.
    NoPageFile,
    /// There is a page file already, or the destination of a backup is not empty.
    AlreadyExists,
    /// The directory holds other files, or the page file has another format, other options or another log, or
    /// the guarantee is too weak. The message says which.
    Unsuitable,
    /// The page file is open in another process or in this one. Close it there, or wait for it
    /// ([`Options::wait_for_lock`](logforce_core::Options::wait_for_lock) in
    /// [`Options::log`](crate::Options::log)).
    Locked,
    /// There is no space. What is durable stays. In a copy-on-write file, commits that had returned under
    /// [`Policy::Write`](logforce_core::Policy::Write) or
    /// [`Policy::Interval`](logforce_core::Policy::Interval) may be gone: see [`Error::NoSpace`].
    NoSpace,
    /// Stored data is damaged. The message says which page and where. Damaged data is never returned. List
    /// all damage with `logforce verify`, and restore a backup.
    Damaged,
    /// A write or a sync has failed, or the page file was [displaced](ErrorKind::Displaced). The page file
    /// has stopped. Commits that were acknowledged as durable are there. Opening the file again tells if a
    /// commit in flight is there as well.
    Poisoned,
    /// Files of the page file were deleted, moved away or replaced while it was open. The cause of an
    /// [`Error::Poisoned`] has this kind, while that error itself has [`ErrorKind::Poisoned`]. Put the files
    /// back before opening it.
    Displaced,
    /// Another transaction committed a change of the same page first. Begin again, and retry.
    Conflict,
    /// An argument is wrong: a page's size or number, or an option. Also the kind for a waker that makes a
    /// call that waits. Fix the program.
    InvalidInput,
    /// The page file was closed, or was opened before a fork.
    Closed,
}

impl Error {
    /// Returns the kind, to decide what to do.
    pub fn kind(&self) -> ErrorKind {
        use logforce_core::ErrorKind as LogKind;
        match self {
            Error::Io { source, .. } if is_no_space(source) => ErrorKind::NoSpace,
            Error::Io { .. } => ErrorKind::Io,
            Error::Log(e) => match e.kind() {
                LogKind::NoSpace | LogKind::Full => ErrorKind::NoSpace,
                LogKind::Poisoned => ErrorKind::Poisoned,
                LogKind::Displaced => ErrorKind::Displaced,
                LogKind::Damaged => ErrorKind::Damaged,
                LogKind::Locked => ErrorKind::Locked,
                LogKind::Closed | LogKind::Forked => ErrorKind::Closed,
                LogKind::InvalidInput => ErrorKind::InvalidInput,
                _ => ErrorKind::Io,
            },
            Error::NoPageFile { .. } => ErrorKind::NoPageFile,
            Error::AlreadyExists { .. } | Error::DestinationExists { .. } => {
                ErrorKind::AlreadyExists
            }
            Error::NotAPageFile { .. }
            | Error::NewerFormat { .. }
            | Error::OtherOption { .. }
            | Error::Guarantee { .. }
            | Error::Verdict { .. }
            | Error::ForeignLog { .. } => ErrorKind::Unsuitable,
            Error::Locked { .. } => ErrorKind::Locked,
            Error::NoSpace { .. } => ErrorKind::NoSpace,
            Error::Damaged { .. } => ErrorKind::Damaged,
            Error::Poisoned(_) => ErrorKind::Poisoned,
            Error::Displaced { .. } => ErrorKind::Displaced,
            Error::Conflict { .. } => ErrorKind::Conflict,
            Error::PageSize { .. }
            | Error::PageTwice { .. }
            | Error::OutOfRange { .. }
            | Error::TooLarge { .. }
            | Error::Option { .. }
            | Error::InWaker => ErrorKind::InvalidInput,
            Error::Closed | Error::Forked => ErrorKind::Closed,
        }
    }

    /// Makes the error of a call that needs `need` more bytes in the file `path`.
    pub(crate) fn no_space(
        doing: &'static str,
        path: PathBuf,
        need: u64,
        source: io::Error,
    ) -> Error {
        let source = Arc::new(source);
        match is_no_space(&source) {
            true => Error::NoSpace { path, need, source },
            false => Error::Io {
                doing,
                path,
                source,
            },
        }
    }

    pub(crate) fn io<'a>(
        doing: &'static str,
        path: impl AsRef<Path> + 'a,
    ) -> impl FnOnce(io::Error) -> Error + 'a {
        move |source| Error::Io {
            doing,
            path: path.as_ref().to_owned(),
            source: Arc::new(source),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A full disk is `NoSpace` in every call. The program then waits for space, and does not look for
    /// missing rights or descriptors.
    #[test]
    fn a_full_disk_is_no_space() {
        let kind = |kind: io::ErrorKind| Error::io("create", "/x")(kind.into()).kind();
        assert_eq!(kind(io::ErrorKind::StorageFull), ErrorKind::NoSpace);
        assert_eq!(kind(io::ErrorKind::QuotaExceeded), ErrorKind::NoSpace);
        assert_eq!(kind(io::ErrorKind::PermissionDenied), ErrorKind::Io);
    }
}
