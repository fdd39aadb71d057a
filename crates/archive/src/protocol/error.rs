//! Errors of the protocol. None is cured by trying again.

use crate::key::{Epoch, Key};
use logforce::{LogId, Lsn};
use std::fmt;

/// Reason why a machine stopped.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Error {
    /// No archive is at the address.
    NoArchive,
    /// The archive belongs to another log.
    OtherLog {
        /// Log of the archive.
        archive: LogId,
        /// Log of this machine.
        local: LogId,
    },
    /// Another opening owns the archive.
    Deposed {
        /// Epoch of the newest owner.
        epoch: Epoch,
        /// Name of the newest owner.
        owner: String,
    },
    /// Another archiver of the same opening of the log has claimed the archive.
    Replaced {
        /// Its name.
        owner: String,
    },
    /// The local log ends below the archive's end.
    Shorter {
        /// End of the local log.
        local: Lsn,
        /// End of the archive.
        archive: Lsn,
    },
    /// The local log begins above the archive's end.
    Detached {
        /// Front of the local log.
        local: Lsn,
        /// End of the archive.
        archive: Lsn,
    },
    /// The log from this position on was pruned.
    Pruned {
        /// Position that was asked for.
        wanted: Lsn,
        /// Lowest position that the archive has.
        start: Lsn,
    },
    /// An object of the archive is missing.
    Gap {
        /// Position at which the log cannot be continued.
        lsn: Lsn,
        /// Object that should be there, if its name is known.
        key: Option<Key>,
    },
    /// An object is not one that its key can hold.
    Misplaced {
        /// Key.
        key: Key,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoArchive => f.write_str(
                "no archive at this address: the object `archive` is missing; check the address",
            ),
            Error::OtherLog { archive, local } => write!(
                f,
                "the archive belongs to log {archive}, not to {local}; use an address for each log"
            ),
            Error::Deposed { epoch, owner } => write!(
                f,
                "another opening owns the archive: `{owner}`, epoch {}; set the local log aside, then take \
                 over or restore",
                epoch.0
            ),
            Error::Replaced { owner } => write!(
                f,
                "another archiver of this log, `{owner}`, has begun: run only one at a time"
            ),
            Error::Shorter { local, archive } => write!(
                f,
                "the local log ends at {}, below the archive's end at {}; set it aside and restore",
                local.0, archive.0
            ),
            Error::Detached { local, archive } => write!(
                f,
                "the local log begins at {}, above the archive's end at {}; begin an archive at another \
                 address",
                local.0, archive.0
            ),
            Error::Pruned { wanted, start } => write!(
                f,
                "position {} was pruned; the archive begins at {}",
                wanted.0, start.0
            ),
            Error::Gap {
                lsn,
                key: Some(key),
            } => write!(
                f,
                "the archive has a gap at {}: object `{key}` is missing; restore to an LSN below",
                lsn.0
            ),
            Error::Gap { lsn, key: None } => write!(
                f,
                "the archive has a gap at {}: no chunk or segment holds it; restore to an LSN below",
                lsn.0
            ),
            Error::Misplaced { key } => write!(
                f,
                "object `{key}` is not one that belongs there; restore it from a copy of the archive"
            ),
        }
    }
}

impl std::error::Error for Error {}
