//! Whether the log is open, closing or closed.

use crate::error::Result;

/// How far a close has come.
#[derive(Default)]
pub(crate) struct Lifecycle {
    /// A close has begun: the log accepts nothing more.
    pub(crate) closing: bool,
    /// The result of the first close, which all later ones return.
    pub(crate) closed: Option<Result<()>>,
    /// Truncations and metadata changes in progress; a close waits for them.
    pub(crate) file_changes: u32,
    /// The log's threads may end.
    pub(crate) stopping: bool,
}
