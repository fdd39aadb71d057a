//! Counters and histograms, without a lock.

pub mod counters;
pub mod histogram;
