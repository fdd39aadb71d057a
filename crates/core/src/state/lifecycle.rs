//! Whether the log takes anything still, and what its end waits for.

use crate::error::Result;

/// How far the log is on its way to being closed.
#[derive(Default)]
pub(crate) struct Lifecycle {
    /// A close has begun: nothing is accepted any more.
    pub(crate) closing: bool,
    /// What the first close answered, for the others.
    pub(crate) closed: Option<Result<()>>,
    /// Truncations and changes of the metadata under way.
    pub(crate) truncating: u32,
    /// The log's threads may end.
    pub(crate) stopping: bool,
}
