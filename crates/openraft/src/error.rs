//! Errors of a store.

use logforce::Lsn;
use std::path::{Path, PathBuf};

/// Error of a log store.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Error of the log below: damage with its file and offset, no space, a lost disk.
    #[error(transparent)]
    Log(#[from] logforce::Error),
    /// Record that this store cannot have written, or not in this place.
    #[error("{}: the record at LSN {lsn} {why}", path.display())]
    Record {
        /// Directory of the log.
        path: PathBuf,
        /// Position of the record. `logforce dump` prints it.
        lsn: Lsn,
        /// Cause, and the remedy if there is one.
        why: String,
    },
    /// Entry, vote or log id that cannot be encoded.
    #[error("cannot encode {what} as MessagePack: {why}")]
    Encode {
        /// The value.
        what: &'static str,
        /// Cause, as reported by the encoder.
        why: String,
    },
    /// Entry that does not follow the last one.
    #[error("entry {index} does not follow the log, which ends before {next}: append without gaps")]
    Gap {
        /// Index of the entry.
        index: u64,
        /// Index of the next entry.
        next: u64,
    },
}

impl Error {
    pub(crate) fn record(path: &Path, lsn: Lsn, why: impl Into<String>) -> Error {
        Error::Record {
            path: path.to_owned(),
            lsn,
            why: why.into(),
        }
    }
}

impl From<Error> for std::io::Error {
    fn from(error: Error) -> Self {
        std::io::Error::other(error)
    }
}
