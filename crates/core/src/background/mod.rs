//! The log's own threads: the writer does what no committer waits for, the preallocator prepares
//! segments before appends need them.

mod idle_files;
pub(crate) mod own_threads;
pub(crate) mod pooled;
pub(crate) mod preallocator;
pub(crate) mod space_limit;
pub(crate) mod stats_writer;
pub(crate) mod writer;
