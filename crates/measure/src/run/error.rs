//! What can go wrong while measuring.

use std::io;

/// Why a measurement, or one row of it, has no numbers.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum MeasureError {
    /// The user asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// The system refused something; `what` says what was being done, with the path.
    #[error("{what}: {cause}")]
    Io {
        /// What was being done.
        what: String,
        /// The system's answer.
        cause: io::Error,
    },
    /// This disk, filesystem or size cannot do it; the text says why.
    #[error("{0}")]
    NotOffered(String),
    /// The log refused or failed.
    #[error("the log: {0}")]
    Log(#[from] logforce::Error),
    /// Not enough free space, of which some is always left alone.
    #[error("{0}")]
    NoSpace(String),
}

/// The message: what `unwrap` and an error of `main` print.
impl std::fmt::Debug for MeasureError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl MeasureError {
    /// An I/O error while `what` was being done.
    pub fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> MeasureError {
        let what = what.into();
        move |cause| MeasureError::Io { what, cause }
    }
}
