//! Reading: what a reader sees of a log, and everything that shows records.

pub(crate) mod follow;
pub(crate) mod inspect;
pub(crate) mod read_only;
pub(crate) mod reader;
pub(crate) mod records;
pub(crate) mod remote;
pub(crate) mod rescue;
pub(crate) mod shown;
pub(crate) mod view;
