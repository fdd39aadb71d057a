//! Reading: the view that readers share, readers, followers, and inspection.

pub(crate) mod backward;
mod batches;
pub(crate) mod boundary;
pub(crate) mod divergence;
pub(crate) mod follow;
pub(crate) mod history;
pub(crate) mod inspect;
pub(crate) mod position;
pub(crate) mod raw;
pub(crate) mod read_only;
pub(crate) mod reader;
pub(crate) mod records;
pub(crate) mod remote;
pub(crate) mod replicated;
pub(crate) mod view;
