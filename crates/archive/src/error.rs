//! Errors of an archive.

use crate::format::{KeyError, ObjectError};
use crate::protocol;
use crate::store::StoreError;
use std::fmt;

/// Result of the functions of an archive.
pub type Result<T> = std::result::Result<T, Error>;

/// Error of an archive. Its message has the failure, the object or position, and the remedy.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The store refused an operation, or could not be reached for as long as it was tried.
    Store(StoreError),
    /// An object is damaged, of another log, or encrypted with another key.
    Object(ObjectError),
    /// The state of the archive forbids the operation: another owner, a gap, a pruned position.
    State(protocol::Error),
    /// The log failed, or does not fit the archive.
    Log(logforce::Error),
    /// The page file failed, or cannot be archived.
    Pages(logforce::pages::Error),
    /// The key for the encryption cannot be used.
    Key(KeyError),
    /// The system failed.
    Io {
        /// Operation, as a verb.
        doing: &'static str,
        /// Error of the system.
        source: std::io::Error,
    },
    /// An argument is wrong.
    Invalid(String),
}

impl Error {
    /// Returns true if another machine has taken the log over.
    pub fn is_deposed(&self) -> bool {
        matches!(self, Error::State(protocol::Error::Deposed { .. }))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Store(error) => error.fmt(f),
            Error::Object(error) => error.fmt(f),
            Error::State(error) => error.fmt(f),
            Error::Log(error) => fmt::Display::fmt(error, f),
            Error::Pages(error) => fmt::Display::fmt(error, f),
            Error::Key(error) => error.fmt(f),
            Error::Io { doing, source } => write!(f, "cannot {doing}: {source}"),
            Error::Invalid(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Error {}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Error {
        Error::Store(error)
    }
}

impl From<ObjectError> for Error {
    fn from(error: ObjectError) -> Error {
        Error::Object(error)
    }
}

impl From<protocol::Error> for Error {
    fn from(error: protocol::Error) -> Error {
        Error::State(error)
    }
}

impl From<logforce::Error> for Error {
    fn from(error: logforce::Error) -> Error {
        Error::Log(error)
    }
}

impl From<logforce::pages::Error> for Error {
    fn from(error: logforce::pages::Error) -> Error {
        match error {
            logforce::pages::Error::Log(error) => Error::Log(error),
            error => Error::Pages(error),
        }
    }
}

impl From<KeyError> for Error {
    fn from(error: KeyError) -> Error {
        Error::Key(error)
    }
}
