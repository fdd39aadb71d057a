//! The log's own threads. The writer does the work for which no committer waits; the preallocator
//! prepares segments before appends need them.

mod idle_files;
pub(crate) mod own_threads;
pub(crate) mod pooled;
pub(crate) mod preallocator;
pub(crate) mod space_limit;
pub(crate) mod stats_writer;
pub(crate) mod writer;
