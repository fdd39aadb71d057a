pub mod advice;
mod damage;

pub(crate) use advice::Bytes;
use advice::Subject;
pub use damage::Damage;
use logforce_device::failure::{is_no_space, what_to_free};

use logforce_commit::method::Refused;
use logforce_device::Displacement;
use logforce_format::{LogId, Lsn};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

/// Error of this crate. Its message contains the failure, the path or position, and the remedy.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A call of the operating system failed.
    #[error("{}", advice::describe(Subject::Log, doing, path, source))]
    Io {
        /// The operation.
        doing: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: Arc<io::Error>,
    },
    /// The directory contains no log, or does not exist.
    #[error("{} holds no log: {why}", path.display())]
    NoLog {
        /// The directory.
        path: PathBuf,
        /// Description of what is missing.
        why: String,
    },
    /// `create_new` found a log.
    #[error("{} holds a log already: open it with open_existing or open_or_create", path.display())]
    AlreadyExists {
        /// The directory.
        path: PathBuf,
    },
    /// A backup cannot be written to the directory.
    #[error("cannot write a copy of the log into {}: {why}", path.display())]
    BackupTarget {
        /// The directory.
        path: PathBuf,
        /// Reason.
        why: String,
    },
    /// Bytes that a replica has kept do not continue the log that is being restored from it.
    #[error("cannot restore into {}: the chunk at LSN {lsn} is not usable: {why}", path.display())]
    Chunk {
        /// The directory.
        path: PathBuf,
        /// Position in the log.
        lsn: Lsn,
        /// Reason.
        why: String,
    },
    /// The directory contains files that do not belong to a log.
    #[error("{} is not a log directory: {why}", path.display())]
    NotALog {
        /// The directory.
        path: PathBuf,
        /// Reason.
        why: String,
    },
    /// The log was written by a newer version of Logforce.
    #[error("{} has format version {version}, this program reads version {}: use a newer one", path.display(), logforce_format::FORMAT_VERSION)]
    NewerFormat {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u16,
    },
    /// The log is open for writing already, in this process or another.
    #[error("{} is open for writing already, in this process or in another: only one writer at a time. Wait for it by Options::wait_for_lock, or read it meanwhile by logforce::read_only or `logforce stat`", path.display())]
    Locked {
        /// The directory.
        path: PathBuf,
    },
    /// No space for another segment. The append was not accepted; acknowledged records stay, and
    /// the log continues once there is space.
    #[error("no space to prepare a segment of {} in {}: {}, or truncate_front the log ({})", Bytes(*need), path.display(), what_to_free(source), advice::cause(path, source))]
    NoSpace {
        /// The directory.
        path: PathBuf,
        /// Bytes needed.
        need: u64,
        /// The system's error.
        source: Arc<io::Error>,
    },
    /// The log is as large as [`Options::max_log_size`](crate::Options::max_log_size) allows. The
    /// append was not accepted; the log continues after
    /// [`Log::truncate_front`](crate::Log::truncate_front).
    #[error("the log in {} is full: its segment files take up {}, and with {} more they would exceed the cap of {}. truncate_front the log or raise Options::max_log_size", path.display(), Bytes(*used), Bytes(*need), Bytes(*limit))]
    Full {
        /// The directory.
        path: PathBuf,
        /// Bytes of all segment files.
        used: u64,
        /// Bytes needed.
        need: u64,
        /// The cap, bytes.
        limit: u64,
    },
    /// The required guarantee is not available here.
    #[error(transparent)]
    Refused(Refused),
    /// Acknowledged data is damaged. The log was not changed.
    #[error(
        "damaged log: {0}. Nothing was changed. Inspect it with `logforce verify {dir}{flag}`, and save all records that can still be read with `logforce salvage {dir} NEW`, before anything else: {advice}", dir = .0.path.display(), flag = .0.salvage_flag(), advice = .0.advice()
    )]
    Damaged(Box<Damage>),
    /// A write or a barrier has failed, and the log accepts no further records. Only opening the log again
    /// shows whether records that were not acknowledged are durable.
    #[error(
        "the log stopped at LSN {durable} after a failure: {}. Indeterminate: records above may or may not be there after reopening",
        poison_message(cause)
    )]
    Poisoned {
        /// LSN up to which the log is durable.
        durable: Lsn,
        /// The failure.
        cause: Arc<Error>,
    },
    /// The log's directory or one of its files was deleted, moved away or replaced while it was
    /// open. The cause of an [`Error::Poisoned`].
    #[error(
        "{} is not the log that was opened: {found}. Commits acknowledged since then, at most half a second of them, may be missing there: restore what was removed before you open the log again", path.display()
    )]
    Displaced {
        /// The path with which the log was opened.
        path: PathBuf,
        /// Description of what was found there.
        found: String,
    },
    /// A record, the sum of an atomic append, or metadata is too large; or it exceeds the space that a
    /// [`Permit`](crate::Permit) has reserved.
    #[error("too large: {}, at most {} are allowed for this record, batch, metadata or permit (Batch::reserved_bytes returns the size to reserve for a batch; a record or batch may have 128 times Options::segment_size, up to 64 MiB)", Bytes(*len), Bytes(*max))]
    TooLarge {
        /// Its size, bytes; for records including frame headers.
        len: u64,
        /// The limit, bytes; for records and permits including frame headers.
        max: u64,
    },
    /// The LSN is not the start or the end of a record.
    #[error(
        "LSN {lsn} is not where a record begins or ends: give one that an append, a record or front_lsn returned"
    )]
    NotABoundary {
        /// The LSN.
        lsn: Lsn,
    },
    /// The position for `truncate_back` lies within an atomic append.
    #[error(
        "LSN {lsn} lies within the atomic append that begins at LSN {start}, which can only be dropped as a whole: truncate_back to LSN {start}, or to the append's end"
    )]
    WithinAppend {
        /// The LSN.
        lsn: Lsn,
        /// Start of the append.
        start: Lsn,
    },
    /// The LSN lies below the front.
    #[error("LSN {lsn} was truncated: the log begins at LSN {front}")]
    Truncated {
        /// The LSN.
        lsn: Lsn,
        /// The front.
        front: Lsn,
    },
    /// The LSN lies in a void range.
    #[error(
        "LSN {lsn} lies in the range from LSN {from} to LSN {to} that truncate_back or a repair has voided"
    )]
    Voided {
        /// The LSN.
        lsn: Lsn,
        /// Start of the range.
        from: Lsn,
        /// Exclusive end of the range.
        to: Lsn,
    },
    /// The LSN lies beyond the end of the log (for reads: beyond the durable LSN).
    #[error("LSN {lsn} lies beyond the end at LSN {end}")]
    BeyondEnd {
        /// The LSN.
        lsn: Lsn,
        /// The end.
        end: Lsn,
    },
    /// A position belongs to another history of the log. A backup was restored, or a copy of the directory
    /// was written, and its records differ from some LSN on.
    #[error(
        "{} contains another history of the log than the position at LSN {lsn}: they differ from LSN {from} on. A restored backup or another copy of the log is there now: undo your records from LSN {from} on, and continue at Position::back_to for that LSN", path.display()
    )]
    Diverged {
        /// The directory.
        path: PathBuf,
        /// The position's LSN.
        lsn: Lsn,
        /// LSN below which the records of both histories are the same. It is 0 if no more is known, and may
        /// lie below the front.
        from: Lsn,
    },
    /// A position belongs to another log.
    #[error(
        "{} contains log {found}, but the position belongs to log {wanted}: check the path, or start again at the front of this log", path.display()
    )]
    OtherLog {
        /// The directory.
        path: PathBuf,
        /// The position's log.
        wanted: LogId,
        /// The log in the directory.
        found: LogId,
    },
    /// A text is not a stored [`Position`](crate::Position).
    #[error("not a follower's position: '{text}'. Store the text that Position's Display prints")]
    NotAPosition {
        /// The text, or its beginning.
        text: String,
    },
    /// No log can have this path.
    #[error("'{}' cannot be the path of a log: {why}", path.display())]
    Path {
        /// The path.
        path: PathBuf,
        /// Reason.
        why: &'static str,
    },
    /// An option has an invalid value.
    #[error("option {option}: {why}")]
    Option {
        /// The option.
        option: &'static str,
        /// Reason.
        why: String,
    },
    /// There is no buffer space or prepared space for the record now. The record was not accepted.
    #[error(
        "no buffer or prepared space for the record now: wait for commits in flight, or use commit_async or reserve"
    )]
    WouldBlock,
    /// A commit by [`Policy::Replicated`](crate::Policy::Replicated) in a log without a replica. The record
    /// was not accepted.
    #[error("the log in {} has no replica, so a commit cannot wait for one: attach a replica with Log::replicate, or commit with Policy::Force", path.display())]
    NoReplica {
        /// The directory.
        path: PathBuf,
    },
    /// The log has a replica already.
    #[error("the log in {} has a replica already: end it before you attach another one", path.display())]
    ReplicaAttached {
        /// The directory.
        path: PathBuf,
    },
    /// The replica has ended before it confirmed the record. The record is durable in this log; it is unknown
    /// whether the replica has it.
    #[error("the replica of the log in {} has ended, it confirmed everything below LSN {replicated}: {why}. Records above may or may not be in the replica. Attach a replica again with Log::replicate", path.display())]
    ReplicaLost {
        /// The directory.
        path: PathBuf,
        /// Exclusive end of what the replica has confirmed.
        replicated: Lsn,
        /// Reason.
        why: String,
    },
    /// A replica that the log must keep everything for is too far behind. The append was not accepted.
    #[error("the replica of the log in {} is {} behind the front that was requested, more than its limit of {}: let it catch up, raise the limit, or end it", path.display(), Bytes(*behind), Bytes(*limit))]
    ReplicaBehind {
        /// The directory.
        path: PathBuf,
        /// Bytes that are kept for it.
        behind: u64,
        /// The limit, bytes.
        limit: u64,
    },
    /// Another machine has taken the log over. This log accepts nothing any more.
    #[error("the log in {} was taken over by {by}: records that were not confirmed to this machine may be missing there. Stop this writer, keep the directory aside, and continue with a restored copy", path.display())]
    Deposed {
        /// The directory.
        path: PathBuf,
        /// The new owner.
        by: String,
    },
    /// The log was closed.
    #[error("the log is closed")]
    Closed,
    /// A task's waker made a call that may wait, in a thread of the log or of another caller. The call could
    /// wait for itself.
    #[error(
        "a waker must not make calls that wait: have it schedule the task, and make the call there"
    )]
    InWaker,
    /// This process is a fork of the one that opened the log.
    #[error("the log was opened before this process was forked: only the parent may use it")]
    Forked,
}

/// Prints the message, for the output of `main() -> Result<(), Error>`, `unwrap` and `expect`.
impl std::fmt::Debug for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// The kind of an [`Error`], to decide what to do.
///
/// Unless a kind says otherwise, the call has changed nothing: no record was accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A call of the operating system failed: no descriptors, memory or rights, a busy device. Nothing
    /// was accepted. Fix the cause, and call again.
    Io,
    /// The directory contains no log. Check the path and the mount; create a log with `create_new` if this
    /// is the first start.
    NoLog,
    /// `create_new` found a log. Open it.
    AlreadyExists,
    /// The directory contains other files. Check the path.
    NotALog,
    /// The log was written by a newer version of Logforce. Use that version.
    NewerFormat,
    /// Another process, or this one, has the log open for writing. End the other writer, wait for it
    /// ([`Options::wait_for_lock`](crate::Options::wait_for_lock)), or read while it writes.
    Locked,
    /// No disk space, or quota, to prepare a segment. Nothing was accepted; acknowledged records stay.
    /// Truncate the front or free space, then append again: the log continues.
    NoSpace,
    /// The log has reached [`Options::max_log_size`](crate::Options::max_log_size). Nothing was accepted.
    /// Take a checkpoint, truncate the front, append again.
    Full,
    /// The directory cannot give the required guarantee, or does not offer the method. Put the log on
    /// another filesystem, or accept less with [`Options::require`](crate::Options::require).
    Unavailable,
    /// Acknowledged data was lost or changed on the medium. An opening that fails with this kind has changed
    /// nothing; a log that is open continues. Do not change the files. Inspect them with `logforce verify`,
    /// save the readable records with `logforce salvage`, restore a backup, or end the log before the damage
    /// with [`repair`](crate::repair).
    Damaged,
    /// A write or a sync has failed, and the log has stopped. The failure is the error's cause. Acknowledged
    /// records are durable. **It is unknown whether other records are in the log** until it is opened again.
    /// Only if `append`, `reserve` or `submit` itself returned this error, that call has accepted nothing.
    /// Stop acknowledging, drop this log, fix the cause, open the log, and check which records are there.
    /// The kind is the same if the log was [displaced](ErrorKind::Displaced).
    Poisoned,
    /// Files of the log were deleted, moved away or replaced while it was open. This is the kind of the
    /// cause of an [`Error::Poisoned`], which itself has the kind [`ErrorKind::Poisoned`]. It is also the
    /// kind of a read that finds no file because the directory was moved. Put the files back before you
    /// open the log.
    Displaced,
    /// An argument is wrong: an option, a path, a record that is too large, a position at which no record
    /// begins or ends, or a backup directory that is not empty. Also returned if a waker makes a call that
    /// waits. Fix the program.
    InvalidInput,
    /// The position lies below the front: its record was dropped. A reader starts from a checkpoint.
    Truncated,
    /// The position lies in a range that [`Log::truncate_back`](crate::Log::truncate_back) or a repair has
    /// voided. A replica undoes its records in the range, and continues behind it.
    Voided,
    /// The log contains another history than the one that was followed: a backup was restored, or another
    /// copy of the directory is there. A replica undoes its records from the error's `from` on, and continues
    /// at [`Position::back_to`](crate::Position::back_to) that LSN; or it starts again at the front.
    Diverged,
    /// The directory contains another log than the one that was followed. Check the path; a replica starts
    /// again at the front.
    OtherLog,
    /// The position lies beyond the end. Fix the program.
    BeyondEnd,
    /// There is no buffer space or no prepared space now. Nothing was accepted. Wait for the commits in
    /// flight, or use [`Log::commit_async`](crate::Log::commit_async) or
    /// [`Log::reserve`](crate::Log::reserve), which wait.
    WouldBlock,
    /// A commit was to wait for a replica, and there is none. Attach a replica.
    NoReplica,
    /// The log has a replica already. Use that one, or end it first.
    ReplicaAttached,
    /// The replica has ended. Records that waited for it are durable in this log; it is unknown whether the
    /// replica has them. Attach a replica again.
    ReplicaLost,
    /// A replica is too far behind, and the log must keep everything for it. Nothing was accepted; the log
    /// continues when the replica has caught up.
    ReplicaBehind,
    /// Another machine has taken the log over. Stop this writer and set its directory aside.
    Deposed,
    /// The log was closed.
    Closed,
    /// A forked child uses its parent's log. Open the log in the child after the parent has closed it.
    Forked,
}

impl Error {
    /// Returns the kind.
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
            Error::Refused(_) => ErrorKind::Unavailable,
            Error::Damaged(_) => ErrorKind::Damaged,
            Error::Poisoned { .. } => ErrorKind::Poisoned,
            Error::Displaced { .. } => ErrorKind::Displaced,
            Error::TooLarge { .. }
            | Error::NotABoundary { .. }
            | Error::WithinAppend { .. }
            | Error::NotAPosition { .. }
            | Error::Option { .. }
            | Error::BackupTarget { .. }
            | Error::Chunk { .. }
            | Error::Path { .. }
            | Error::InWaker => ErrorKind::InvalidInput,
            Error::Truncated { .. } => ErrorKind::Truncated,
            Error::Voided { .. } => ErrorKind::Voided,
            Error::Diverged { .. } => ErrorKind::Diverged,
            Error::OtherLog { .. } => ErrorKind::OtherLog,
            Error::BeyondEnd { .. } => ErrorKind::BeyondEnd,
            Error::WouldBlock => ErrorKind::WouldBlock,
            Error::NoReplica { .. } => ErrorKind::NoReplica,
            Error::ReplicaAttached { .. } => ErrorKind::ReplicaAttached,
            Error::ReplicaLost { .. } => ErrorKind::ReplicaLost,
            Error::ReplicaBehind { .. } => ErrorKind::ReplicaBehind,
            Error::Deposed { .. } => ErrorKind::Deposed,
            Error::Closed => ErrorKind::Closed,
            Error::Forked => ErrorKind::Forked,
        }
    }

    /// Returns the position that the error is about, if any.
    pub fn lsn(&self) -> Option<Lsn> {
        match self {
            Error::Damaged(d) => Some(d.lsn),
            Error::Poisoned { durable, .. } => Some(*durable),
            Error::ReplicaLost { replicated, .. } => Some(*replicated),
            Error::NotABoundary { lsn }
            | Error::WithinAppend { lsn, .. }
            | Error::Truncated { lsn, .. }
            | Error::Voided { lsn, .. }
            | Error::Diverged { lsn, .. }
            | Error::BeyondEnd { lsn, .. }
            | Error::Chunk { lsn, .. } => Some(*lsn),
            _ => None,
        }
    }

    /// Returns the file or directory that the error is about, if any.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Error::Io { path, .. }
            | Error::NoLog { path, .. }
            | Error::AlreadyExists { path }
            | Error::NotALog { path, .. }
            | Error::BackupTarget { path, .. }
            | Error::Chunk { path, .. }
            | Error::Path { path, .. }
            | Error::NewerFormat { path, .. }
            | Error::Locked { path }
            | Error::NoSpace { path, .. }
            | Error::Full { path, .. }
            | Error::NoReplica { path }
            | Error::ReplicaAttached { path }
            | Error::ReplicaLost { path, .. }
            | Error::ReplicaBehind { path, .. }
            | Error::Deposed { path, .. }
            | Error::Displaced { path, .. }
            | Error::Diverged { path, .. }
            | Error::OtherLog { path, .. } => Some(path),
            Error::Refused(refused) => Some(refused.path()),
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

    pub(crate) fn displaced(Displacement { path, found }: Displacement) -> Error {
        Error::Displaced { path, found }
    }

    /// Returns true if the system reported that there is no such file.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Error::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// Returns true if the system reported that it does not support the call for this file.
    pub(crate) fn is_unsupported(&self) -> bool {
        matches!(self, Error::Io { source, .. } if source.kind() == io::ErrorKind::Unsupported)
    }

    /// Returns true if the system reported that the arguments are invalid: direct I/O, length or offset.
    pub(crate) fn is_invalid_input(&self) -> bool {
        matches!(self, Error::Io { source, .. } if source.kind() == io::ErrorKind::InvalidInput)
    }

    /// Returns true if the system reported that there is no space.
    pub(crate) fn is_full(&self) -> bool {
        match self {
            Error::NoSpace { .. } => true,
            Error::Io { source, .. } => is_no_space(source),
            _ => false,
        }
    }
}

/// Returns the cause of a log's failure, and the advice: opening the log again can succeed, repeating a
/// call cannot.
fn poison_message(cause: &Error) -> String {
    match cause {
        Error::Io {
            doing,
            path,
            source,
        } => advice::to_continue_after(Subject::Log, doing, path, source),
        other => format!("{other}. To continue, {}", Subject::Log.reopen()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use logforce_format::RecoveryCase;

    /// Following the message's advice must not lose records that can still be read.
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
            repairable: true,
            needed_from: None,
        };
        let read = Damage {
            in_reading: true,
            ..damage.clone()
        };
        let refused = Damage {
            repairable: false,
            ..damage.clone()
        };
        let control = Damage {
            file: Some("control".to_owned()),
            ..refused.clone()
        };
        let needed = Damage {
            needed_from: Some(Lsn(8192)),
            ..refused.clone()
        };
        let file = Path::new("/data/log").join("0000000000000000.seg");
        let place = format!("{} offset 12288", file.display());
        let message = Error::Damaged(Box::new(damage)).to_string();
        let mut from = 0;
        for part in [
            "LSN 8192",
            &place,
            "os error 5",
            "durable up to LSN 9000",
            "Nothing was changed",
            "logforce verify /data/log",
            "logforce salvage /data/log NEW",
            "logforce repair /data/log",
        ] {
            let at = message.get(from..).and_then(|t| t.find(part));
            from += at.unwrap_or_else(|| panic!("no '{part}' in order in: {message}"));
        }
        // A repair would not find this damage.
        let message = Error::Damaged(Box::new(read)).to_string();
        for part in ["logforce salvage /data/log NEW", "truncate_front", "a copy"] {
            assert!(message.contains(part), "{message}");
        }
        assert!(!message.contains("  "), "{message}");
        let message = Error::Damaged(Box::new(refused)).to_string();
        for part in ["logforce salvage /data/log NEW", "cannot mend", "a copy"] {
            assert!(message.contains(part), "{message}");
        }
        assert!(!message.contains("repair /data/log"), "{message}");
        // Without a control file, nothing but a copy or a salvage helps.
        let message = Error::Damaged(Box::new(control)).to_string();
        for part in [
            "verify /data/log --salvage`",
            "logforce salvage /data/log NEW",
            "it needs the control file",
            "from a backup",
        ] {
            assert!(message.contains(part), "{message}");
        }
        assert!(!message.contains("Fix the cause"), "{message}");
        let message = Error::Damaged(Box::new(needed)).to_string();
        for part in [
            "logforce salvage /data/log NEW",
            "below LSN 8192",
            "same backup",
        ] {
            assert!(message.contains(part), "{message}");
        }
        assert!(!message.contains("saved records"), "{message}");
    }

    /// No call on a failed log can succeed.
    #[test]
    fn a_failed_log_advises_to_open_it_again() {
        for kind in [
            io::ErrorKind::StorageFull,
            io::ErrorKind::Interrupted,
            io::ErrorKind::TimedOut,
            io::ErrorKind::OutOfMemory,
            io::ErrorKind::Other,
        ] {
            let cause = Error::io("write", "/data/log/0000000000000000.seg")(kind.into());
            let message = Error::Poisoned {
                durable: Lsn(9000),
                cause: Arc::new(cause),
            };
            let message = message.to_string();
            assert!(!message.contains("try again"), "{message}");
            assert_eq!(
                message.matches("open the log again").count(),
                1,
                "{message}"
            );
        }
    }
}
