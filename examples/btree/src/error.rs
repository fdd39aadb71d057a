//! What can go wrong.

use logforce::pages::Error as PagesError;
use std::fmt;

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a tree.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Error {
    /// The page file below: its message says what happened and what to do.
    Pages(PagesError),
    /// A page does not hold what a page of a tree holds there, though its checksum fits.
    Corrupt {
        /// The page.
        page: u64,
        /// What is wrong with it.
        what: String,
    },
    /// A key is longer than a tree with pages of this size takes.
    KeyTooLong {
        /// Its length, bytes.
        len: usize,
        /// The longest, bytes.
        max: usize,
    },
    /// A value is longer than a tree takes.
    ValueTooLong {
        /// Its length, bytes.
        len: usize,
        /// The longest, bytes.
        max: usize,
    },
    /// The page file holds something else, or its pages have a size that a tree does not take.
    NotATree {
        /// Why.
        why: String,
    },
    /// An operation of the write had failed: what it holds may be half a change.
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
                "the key has {len} bytes, and {max} is the longest with pages of this size"
            ),
            Error::ValueTooLong { len, max } => {
                write!(f, "the value has {len} bytes, and {max} is the longest")
            }
            Error::NotATree { why } => write!(f, "the page file holds no tree: {why}"),
            Error::Incomplete => f.write_str(
                "an operation of this write had failed, so it is not committed: begin another",
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
