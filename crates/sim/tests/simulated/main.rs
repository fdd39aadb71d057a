//! The log on a simulated disk: crashes at every operation, failing devices, damage, random runs.
//!
//! The files are divided by subject; common code is in the crate itself.

mod backups;
mod bulk;
mod cap;
mod command;
mod committers;
mod common;
mod control_slots;
mod crash;
mod damage;
mod device_failures;
mod environments;
mod files;
mod fuzzed;
mod geometry;
mod headers;
mod live;
mod lost_behind;
mod meta;
mod outside;
mod overlap;
mod permits;
mod pins;
mod policies;
mod recovery;
mod remote;
mod remote_cases;
mod repaired;
mod runs;
mod salvaged;
mod sparse;
mod stale_headers;
mod stats;
mod unannounced;
mod unforced;
mod void_list;
mod voided;
mod zeroes;
