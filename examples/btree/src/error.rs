//! Errors.

use logforce::pages::Error as PagesError;
use std::fmt;

/// Result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a tree.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Error {
    /// Error of the page file; its message has the cause and the remedy.
    Pages(PagesError),
    /// A page's content is not valid for a tree, although its checksum is right.
    Corrupt {
        /// Page number.
        page: u64,
        /// Description of the damage.
        what: String,
    },
    /// A key is too long for a tree with pages of this size.
    KeyTooLong {
        /// Length, bytes.
        len: usize,
        /// Maximum length, bytes.
        max: usize,
    },
    /// A value is too long.
    ValueTooLong {
        /// Length, bytes.
        len: usize,
        /// Maximum length, bytes.
        max: usize,
    },
    /// The page file does not contain a tree, or its pages have a size that a tree does not support.
    NotATree {
        /// Reason.
        why: String,
    },
    /// An operation of the write has failed, so its changes may be incomplete.
    Incomplete,
}

impl Error {
    pub(crate) fn corrupt(page: u64, what: impl Into<String>) -> Error {
        Error::Corrupt {
            page,
            what: what.into(),
        }
    }
}

impl From<PagesError> for Error {
    fn from(e: PagesError) -> Self {
        Error::Pages(e)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Pages(e) => e.fmt(f),
            Error::Corrupt { page, what } => write!(
                f,
                "page {page} of the tree is corrupt: {what}. `check` lists all damage; restore a backup"
            ),
            Error::KeyTooLong { len, max } => write!(
                f,
                "key too long: {len} bytes, maximum {max} with pages of this size"
            ),
            Error::ValueTooLong { len, max } => {
                write!(f, "value too long: {len} bytes, maximum {max}")
            }
            Error::NotATree { why } => write!(f, "the page file is not a tree: {why}"),
            Error::Incomplete => f.write_str(
                "an earlier operation of this write failed, so it cannot be committed: begin a new write",
            ),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Pages(e) => Some(e),
            _ => None,
        }
    }
}
