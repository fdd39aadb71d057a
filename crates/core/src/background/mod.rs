//! The log's own threads: the writer does what no committer waits for, the preallocator prepares
//! segments before appends need them.

pub(crate) mod location_check;
pub(crate) mod preallocator;
pub(crate) mod space_limit;
mod stats_writer;
pub(crate) mod writer;
