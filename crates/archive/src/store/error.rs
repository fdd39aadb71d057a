//! Errors of a store, with their remedies.

use std::fmt;
use std::time::Duration;

/// Failed operation of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreError {
    /// Operation, as a verb.
    pub doing: &'static str,
    /// Object or URL.
    pub subject: String,
    /// Answer of the store or of the system.
    pub cause: String,
    /// Remedy, where one is known.
    pub remedy: Option<&'static str>,
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {} {}: {}", self.doing, self.subject, self.cause)?;
        match self.remedy {
            Some(remedy) => write!(f, "; {remedy}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for StoreError {}

/// Returns the cause of an operation that was given up at its time limit.
pub(super) fn no_answer_within(limit: Duration) -> String {
    format!("no answer within {} s", limit.as_secs_f32())
}

/// Returns the error for a service that this program was built without.
pub(super) fn not_built(url: &str) -> StoreError {
    StoreError {
        doing: "open the archive",
        subject: url.to_owned(),
        cause: "this program was built without this kind of object storage".to_owned(),
        remedy: Some("build logforce-archive with its feature `s3`, `gcs` or `azure`"),
    }
}
