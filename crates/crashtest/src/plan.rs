//! The plan of a test.

use crate::program::{AckSource, Program};
use crate::testbed::Filesystem;
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;

/// A test of one program.
#[derive(Debug, Clone, Serialize)]
pub struct Plan {
    /// Command line that repeats the test.
    pub command: String,
    /// Filesystems, one after the other.
    pub filesystems: Vec<Filesystem>,
    /// Size of the disk, bytes; `None` for the smallest that the filesystem works with.
    pub size: Option<u64>,
    /// Number of live cuts on each filesystem.
    pub cuts: u64,
    /// Number of replayed states on each filesystem.
    pub states: u64,
    /// Creates, durably, what is there before the first cut.
    pub setup: Option<Program>,
    /// Works and acknowledges until it ends or is ended.
    pub workload: Program,
    /// Compares what survived with what was acknowledged.
    pub check: Program,
    /// Destination of the acknowledgements.
    pub acks: AckSource,
    /// Writes back files of the program, and commits the journal, at random times.
    pub noise: bool,
    /// Ends some sessions by `kill -9` and starts another on the same mount before the cut.
    pub kill: bool,
    /// Looks for the cause of losses.
    pub explain: bool,
    /// Longest time without an acknowledgement, and of a check.
    pub patience: Duration,
    /// Seed of all random choices. When exactly the power goes depends on the machine too.
    pub seed: u64,
    /// Directory for the cases that lost something.
    pub keep: Option<PathBuf>,
}

impl Plan {
    /// Returns a test with the default volume.
    pub fn new(workload: Program, check: Program) -> Plan {
        Plan {
            command: String::new(),
            filesystems: vec![Filesystem::Ext4, Filesystem::Xfs],
            size: None,
            cuts: 30,
            states: 300,
            setup: None,
            workload,
            check,
            acks: AckSource::default(),
            noise: true,
            kill: false,
            explain: true,
            patience: Duration::from_secs(30),
            seed: 1,
            keep: None,
        }
    }
}
