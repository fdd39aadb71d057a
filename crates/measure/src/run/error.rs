//! Errors of a measurement.

use std::io;

/// Reason why a measurement, or one row of it, has no numbers.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum MeasureError {
    /// The user asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// A system call failed; `what` names the operation and the path.
    #[error("{what}: {cause}")]
    Io {
        /// Operation that failed.
        what: String,
        /// Error of the system.
        cause: io::Error,
    },
    /// Not available on this disk, filesystem or size; the text gives the reason.
    #[error("{0}")]
    NotOffered(String),
    /// The log refused or failed.
    #[error("the log: {0}")]
    Log(#[from] logforce::Error),
    /// Not enough free space. Some of it is always left unused.
    #[error("{0}")]
    NoSpace(String),
}

/// Prints the message, because `unwrap` and an error returned by `main` use `Debug`.
impl std::fmt::Debug for MeasureError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl MeasureError {
    /// Returns a function that turns an I/O error during `what` into a [`MeasureError`].
    pub fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> MeasureError {
        let what = what.into();
        move |cause| MeasureError::Io { what, cause }
    }
}
