use super::failing_calls::Refusal;
use std::io;

/// A fault to inject into one operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// An input/output error.
    Io,
    /// No space left ([`io::ErrorKind::StorageFull`]).
    NoSpace,
    /// The backend panics, in the thread that called it.
    Panic,
    /// Any other error.
    Refused(Refusal),
}

impl Fault {
    /// # Panics
    /// If the fault is a panic.
    pub(super) fn error(self) -> io::Error {
        match self {
            Fault::Panic => panic!("the device panics (injected)"),
            Fault::Refused(how) => how.error(),
            Fault::Io => io::Error::other("input/output error (injected)"),
            Fault::NoSpace => {
                io::Error::new(io::ErrorKind::StorageFull, "no space left (injected)")
            }
        }
    }
}

/// Fault of one read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Misread {
    /// It returns an error.
    Error,
    /// It returns the earlier contents of one sector, from before the last change on the medium.
    Stale,
    /// It returns another sector of the file in place of one sector.
    Misdirected,
}

/// Kind of failure of a [`SimDisk::crash`](crate::SimDisk::crash).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The process is killed: the system's cache stays, writes in flight may be torn.
    Process,
    /// The operating system stops: its cache is lost, the device's is not.
    Os,
    /// The power is lost, and both caches with it.
    Power,
}

/// Selection of the bytes and names that survive a crash without being durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Survival {
    /// None of them.
    Lost,
    /// All of them.
    Kept,
    /// All up to some moment, as on a device that keeps the order.
    Prefix,
    /// Any subset of the writes, each as a whole.
    Writes,
    /// Any subset of the sectors: writes are reordered and torn.
    Sectors,
}

impl Survival {
    /// All kinds of survival.
    pub const ALL: [Survival; 5] = [
        Survival::Lost,
        Survival::Kept,
        Survival::Prefix,
        Survival::Writes,
        Survival::Sectors,
    ];
}

/// Counts of calls to a disk since its creation. Restoring a snapshot also restores its counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Number of applied writes, including write-throughs.
    pub writes: u64,
    /// Number of write-throughs.
    pub through_writes: u64,
    /// Bytes of all writes.
    pub bytes: u64,
    /// Number of barriers of files.
    pub barriers: u64,
    /// Number of requests to begin writing cached data back.
    pub write_backs_begun: u64,
    /// Number of syncs of directories.
    pub dir_syncs: u64,
    /// Number of created files.
    pub creates: u64,
    /// Number of renamed files.
    pub renames: u64,
    /// Number of removed files.
    pub removes: u64,
    /// Number of reservations of blocks.
    pub reserves: u64,
    /// Number of ranges that the device zeroed.
    pub zeroes: u64,
    /// Number of reads.
    pub reads: u64,
    /// Bytes of all reads.
    pub bytes_read: u64,
}
