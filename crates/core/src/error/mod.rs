mod advice;
mod damage;

pub(crate) use advice::Bytes;
pub use damage::Damage;

use logforce_device::{Guarantee, Method};
use logforce_format::Lsn;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong. Each says what happened, where, and what can be done.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A call of the operating system failed.
    #[error("{}", advice::describe(doing, path, source))]
    Io {
        /// What was being done.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's answer.
        source: Arc<io::Error>,
    },
    /// There is no log in the directory (or no directory).
    #[error("{} holds no log: {why}", path.display())]
    NoLog {
        /// The directory.
        path: PathBuf,
        /// What is missing.
        why: String,
    },
    /// `create_new` found a log.
    #[error("{} holds a log already: open it with open_existing or open_or_create", path.display())]
    AlreadyExists {
        /// The directory.
        path: PathBuf,
    },
    /// The directory holds something that is not ours.
    #[error("{} is no log directory: {why}", path.display())]
    NotALog {
        /// The directory.
        path: PathBuf,
        /// What speaks against it.
        why: String,
    },
    /// Written by a newer version of Logforce.
    #[error("{} has format version {version}, this program reads version {}: use a newer one", path.display(), logforce_format::FORMAT_VERSION)]
    NewerFormat {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u16,
    },
    /// Somebody else has the log open for writing.
    #[error("{} is open for writing already, in this process or in another: only one writer at a time. To look at it meanwhile: logforce::read_only, or `logforce stat`", path.display())]
    Locked {
        /// The directory.
        path: PathBuf,
    },
    /// No room for another segment. Nothing was accepted; what was acknowledged stays, and the log
    /// goes on once there is space.
    #[error("no space to prepare a segment of {} in {}: free some, or truncate_front the log ({source})", Bytes(*need), path.display())]
    NoSpace {
        /// The directory.
        path: PathBuf,
        /// Bytes wanted.
        need: u64,
        /// The system's answer.
        source: Arc<io::Error>,
    },
    /// The log is as long as [`Options::max_log_size`](crate::Options::max_log_size) allows. Nothing
    /// was accepted; the log goes on once its front was moved.
    #[error("the log in {} is full: its segment files take up {}, and with {} more they would exceed the cap of {}. truncate_front the log or raise Options::max_log_size", path.display(), Bytes(*used), Bytes(*need), Bytes(*limit))]
    Full {
        /// The directory.
        path: PathBuf,
        /// Bytes of all segment files.
        used: u64,
        /// Bytes wanted.
        need: u64,
        /// The cap, bytes.
        limit: u64,
    },
    /// The guarantee that was asked for cannot be had here.
    #[error("{}: method {method} guarantees {got} here, {wanted} was asked for: {evidence}. To accept less, open with Options::require(Guarantee::{got:?})", path.display())]
    Guarantee {
        /// The directory.
        path: PathBuf,
        /// The method.
        method: Method,
        /// What was asked for.
        wanted: Guarantee,
        /// What can be had.
        got: Guarantee,
        /// Why.
        evidence: String,
    },
    /// The method is not offered here.
    #[error("{}: method {method} is not offered here ({why}); choose another with Options::method", path.display())]
    Method {
        /// The directory.
        path: PathBuf,
        /// The method.
        method: Method,
        /// Why.
        why: String,
    },
    /// Acknowledged data is damaged. Nothing was cut.
    #[error(
        "damaged log: {0}. Nothing was cut. Look with `logforce verify {dir}`, and save all records that can still be read with `logforce salvage {dir} NEW`, before anything else: {advice}", dir = .0.path.display(), advice = .0.advice()
    )]
    Damaged(Box<Damage>),
    /// A write or a barrier failed earlier; nothing more is accepted. Whether the records that were
    /// not acknowledged are there will be known after reopening.
    #[error(
        "the log stopped at LSN {durable} after a failure: {}. Indeterminate: records above may or may not be there after reopening",
        of_poison(cause)
    )]
    Poisoned {
        /// Durable up to here.
        durable: Lsn,
        /// The failure.
        cause: Arc<Error>,
    },
    /// The log is not where it was opened any more, though it is still open: its directory or a
    /// file of it was deleted, moved away or replaced. The cause of an [`Error::Poisoned`].
    #[error(
        "{} is not what was opened: {found}. What was acknowledged since then, half a second of commits at most, may not be found there: put back what was taken away before the log is opened again", path.display()
    )]
    Displaced {
        /// The path by which the log was opened.
        path: PathBuf,
        /// What was found there.
        found: String,
    },
    /// A record, the sum of an atomic append, or metadata is too large.
    #[error("too large: {} for one record, one atomic append or the metadata, where at most {} are possible", Bytes(*len), Bytes(*max))]
    TooLarge {
        /// Its size; that of records with frame headers.
        len: u64,
        /// The limit.
        max: u64,
    },
    /// The LSN is not where a record begins or ends.
    #[error(
        "LSN {lsn} is not where a record begins or ends: give one that an append, a record or front_lsn returned"
    )]
    NotABoundary {
        /// The LSN.
        lsn: Lsn,
    },
    /// The LSN lies below the front.
    #[error("LSN {lsn} was truncated: the log begins at LSN {front}")]
    Truncated {
        /// The LSN.
        lsn: Lsn,
        /// The front.
        front: Lsn,
    },
    /// The LSN lies in a range that was taken back.
    #[error("LSN {lsn} was voided by truncate_back, with all from LSN {from} up to LSN {to}")]
    Voided {
        /// The LSN.
        lsn: Lsn,
        /// Start of the range.
        from: Lsn,
        /// Exclusive end of the range.
        to: Lsn,
    },
    /// The LSN lies beyond what there is (to read: what is durable).
    #[error("LSN {lsn} lies beyond the end at LSN {end}")]
    BeyondEnd {
        /// The LSN.
        lsn: Lsn,
        /// The end.
        end: Lsn,
    },
    /// No log can have this path.
    #[error("'{}' cannot be the path of a log: {why}", path.display())]
    Path {
        /// The path.
        path: PathBuf,
        /// Why.
        why: &'static str,
    },
    /// An option cannot be.
    #[error("option {option}: {why}")]
    Option {
        /// Which.
        option: &'static str,
        /// Why.
        why: String,
    },
    /// There is no room to stage the record now; nothing was accepted.
    #[error("no room to state the record now: wait for commits under way, or submit_async")]
    WouldBlock,
    /// The log was closed.
    #[error("the log is closed")]
    Closed,
    /// This process is a fork of the one that opened the log.
    #[error(
        "the log was opened before this process was forked: only the parent may use it, open it anew"
    )]
    Forked,
}

/// The message: what ends a `main() -> Result<(), Error>`, an `unwrap` or an `expect` prints this.
impl std::fmt::Debug for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// What kind of thing went wrong, to decide by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The operating system refused.
    Io,
    /// There is no log.
    NoLog,
    /// There is one already.
    AlreadyExists,
    /// The directory is something else.
    NotALog,
    /// A newer format.
    NewerFormat,
    /// Another writer.
    Locked,
    /// No space; clean.
    NoSpace,
    /// At the cap on the log's size; clean.
    Full,
    /// The guarantee or the method cannot be had.
    Unavailable,
    /// Acknowledged data is damaged.
    Damaged,
    /// Stopped after a failure, which is the error's cause; indeterminate. Also where the failure is
    /// that the log was [displaced](ErrorKind::Displaced).
    Poisoned,
    /// Deleted, moved away or replaced while it was open. Only ever the kind of the cause in an
    /// [`Error::Poisoned`], whose own kind is [`ErrorKind::Poisoned`].
    Displaced,
    /// The caller's argument is wrong.
    InvalidInput,
    /// Below the front.
    Truncated,
    /// Taken back.
    Voided,
    /// Beyond the end.
    BeyondEnd,
    /// No room now; try again.
    WouldBlock,
    /// Closed.
    Closed,
    /// In a forked child.
    Forked,
}

impl Error {
    /// The kind.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Io { .. } if self.is_full() => ErrorKind::NoSpace,
            Error::Io { .. } => ErrorKind::Io,
            Error::NoLog { .. } => ErrorKind::NoLog,
            Error::AlreadyExists { .. } => ErrorKind::AlreadyExists,
            Error::NotALog { .. } => ErrorKind::NotALog,
            Error::NewerFormat { .. } => ErrorKind::NewerFormat,
            Error::Locked { .. } => ErrorKind::Locked,
            Error::NoSpace { .. } => ErrorKind::NoSpace,
            Error::Full { .. } => ErrorKind::Full,
            Error::Guarantee { .. } | Error::Method { .. } => ErrorKind::Unavailable,
            Error::Damaged(_) => ErrorKind::Damaged,
            Error::Poisoned { .. } => ErrorKind::Poisoned,
            Error::Displaced { .. } => ErrorKind::Displaced,
            Error::TooLarge { .. }
            | Error::NotABoundary { .. }
            | Error::Option { .. }
            | Error::Path { .. } => ErrorKind::InvalidInput,
            Error::Truncated { .. } => ErrorKind::Truncated,
            Error::Voided { .. } => ErrorKind::Voided,
            Error::BeyondEnd { .. } => ErrorKind::BeyondEnd,
            Error::WouldBlock => ErrorKind::WouldBlock,
            Error::Closed => ErrorKind::Closed,
            Error::Forked => ErrorKind::Forked,
        }
    }

    /// The position it is about.
    pub fn lsn(&self) -> Option<Lsn> {
        match self {
            Error::Damaged(d) => Some(d.lsn),
            Error::Poisoned { durable, .. } => Some(*durable),
            Error::NotABoundary { lsn }
            | Error::Truncated { lsn, .. }
            | Error::Voided { lsn, .. }
            | Error::BeyondEnd { lsn, .. } => Some(*lsn),
            _ => None,
        }
    }

    /// The file or directory it is about.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Error::Io { path, .. }
            | Error::NoLog { path, .. }
            | Error::AlreadyExists { path }
            | Error::NotALog { path, .. }
            | Error::Path { path, .. }
            | Error::NewerFormat { path, .. }
            | Error::Locked { path }
            | Error::NoSpace { path, .. }
            | Error::Full { path, .. }
            | Error::Displaced { path, .. }
            | Error::Guarantee { path, .. }
            | Error::Method { path, .. } => Some(path),
            Error::Damaged(d) => Some(&d.path),
            Error::Poisoned { cause, .. } => cause.path(),
            _ => None,
        }
    }

    pub(crate) fn io(
        doing: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Error {
        let path = path.into();
        move |source| Error::Io {
            doing,
            path,
            source: Arc::new(source),
        }
    }

    /// Whether the system says that there is no such file.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Error::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// Whether the system says that it has no such call for this file.
    pub(crate) fn is_unsupported(&self) -> bool {
        matches!(self, Error::Io { source, .. } if source.kind() == io::ErrorKind::Unsupported)
    }

    /// Whether this is the system's way to say that there is no room.
    pub(crate) fn is_full(&self) -> bool {
        match self {
            Error::NoSpace { .. } => true,
            Error::Io { source, .. } => {
                matches!(
                    source.kind(),
                    io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
                )
            }
            _ => false,
        }
    }
}

/// Why a log stopped, and what to do: nothing that is tried again on it can succeed, but whoever
/// opens it can.
fn of_poison(cause: &Error) -> String {
    match cause {
        Error::Io {
            doing,
            path,
            source,
        } => advice::to_go_on_after(doing, path, source),
        other => format!("{other}. To go on, {}", advice::ANEW),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use logforce_format::RecoveryCase;

    /// Who copies what the message advises must not lose what could still be read.
    #[test]
    fn damage_is_looked_at_and_saved_before_it_is_cut() {
        let damage = Damage {
            lsn: Lsn(8192),
            case: RecoveryCase::ReadError,
            path: "/data/log".into(),
            file: Some("0000000000000000.seg".to_owned()),
            offset: 12288,
            found: "cannot read at 12288: Input/output error (os error 5)".to_owned(),
            durable_to: Lsn(9000),
            in_reading: false,
            truncatable: true,
        };
        let read = Damage {
            in_reading: true,
            ..damage.clone()
        };
        let refused = Damage {
            truncatable: false,
            ..damage.clone()
        };
        let file = Path::new("/data/log").join("0000000000000000.seg");
        let place = format!("{} offset 12288", file.display());
        let told = Error::Damaged(Box::new(damage)).to_string();
        let mut from = 0;
        for part in [
            "LSN 8192",
            &place,
            "os error 5",
            "durable up to LSN 9000",
            "Nothing was cut",
            "logforce verify /data/log",
            "logforce salvage /data/log NEW",
            "OnDamage::Truncate",
        ] {
            let at = told.get(from..).and_then(|t| t.find(part));
            from += at.unwrap_or_else(|| panic!("no '{part}' in order in: {told}"));
        }
        // An opening would not even come to it.
        let told = Error::Damaged(Box::new(read)).to_string();
        for part in ["logforce salvage /data/log NEW", "truncate_front", "a copy"] {
            assert!(told.contains(part), "{told}");
        }
        assert!(!told.contains("to open with Options::on_damage"), "{told}");
        assert!(!told.contains("  "), "{told}");
        // Nor does that opening itself advise to open so.
        let told = Error::Damaged(Box::new(refused)).to_string();
        for part in [
            "logforce salvage /data/log NEW",
            "refuses this too",
            "a copy",
        ] {
            assert!(told.contains(part), "{told}");
        }
        assert!(!told.contains("to open with Options::on_damage"), "{told}");
    }

    /// Nothing that is tried on a log that has stopped can succeed.
    #[test]
    fn a_log_that_stopped_is_to_be_opened_anew() {
        for kind in [
            io::ErrorKind::StorageFull,
            io::ErrorKind::Interrupted,
            io::ErrorKind::TimedOut,
            io::ErrorKind::OutOfMemory,
            io::ErrorKind::Other,
        ] {
            let cause = Error::io("write", "/data/log/0000000000000000.seg")(kind.into());
            let told = Error::Poisoned {
                durable: Lsn(9000),
                cause: Arc::new(cause),
            };
            let told = told.to_string();
            assert!(!told.contains("try again"), "{told}");
            assert_eq!(told.matches("open the log anew").count(), 1, "{told}");
        }
    }
}
