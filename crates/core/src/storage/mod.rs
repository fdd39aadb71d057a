//! Files of a log: the directory, the control file, the segments, and reading and writing them.

pub(crate) mod builder;
pub(crate) mod control_file;
pub(crate) mod directory;
pub(crate) mod durability;
pub(crate) mod headerless;
pub(crate) mod hold;
pub(crate) mod listing;
pub(crate) mod read_buffer;
pub(crate) mod retired_files;
pub(crate) mod segment;
pub(crate) mod segment_header;
pub(crate) mod segment_sizes;
pub(crate) mod segments;
pub(crate) mod transfer;
pub(crate) mod voids;
pub(crate) mod zero_fill;
