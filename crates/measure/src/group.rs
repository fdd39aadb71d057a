//! Group commit.
pub mod baseline;
