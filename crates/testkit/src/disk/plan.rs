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
    /// Where that is the fault.
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

/// What becomes of one read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Misread {
    /// It returns an error.
    Error,
    /// One of its sectors is given as it was before it last changed on the medium.
    Stale,
    /// For one of its sectors another one of the file is given.
    Misdirected,
}

/// What fails in a [`SimDisk::crash`](crate::SimDisk::crash).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The process is killed: the system's cache stays, writes in flight may be torn.
    Process,
    /// The operating system stops: its cache is lost, the device's is not.
    Os,
    /// Power is lost: both caches are.
    Power,
}

/// Which of the bytes and names that were not durable are there after a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Survival {
    /// None.
    Lost,
    /// All.
    Kept,
    /// Those up to some moment: a device that keeps the order.
    Prefix,
    /// Any subset of the writes, each as a whole.
    Writes,
    /// Any subset of the sectors: writes reordered and torn.
    Sectors,
}

impl Survival {
    /// All of them.
    pub const ALL: [Survival; 5] = [
        Survival::Lost,
        Survival::Kept,
        Survival::Prefix,
        Survival::Writes,
        Survival::Sectors,
    ];
}

/// What was asked of a disk since it was made (or restored: a snapshot brings its own back).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Writes applied, `through` ones among them.
    pub writes: u64,
    /// Writes that were to be durable by themselves.
    pub through_writes: u64,
    /// Bytes of all writes.
    pub bytes: u64,
    /// Barriers of files.
    pub barriers: u64,
    /// How often the system was to begin to write what it has cached.
    pub write_backs_begun: u64,
    /// Syncs of directories.
    pub dir_syncs: u64,
    /// Files made.
    pub creates: u64,
    /// Files renamed.
    pub renames: u64,
    /// Files removed.
    pub removes: u64,
    /// Reservations of blocks.
    pub reserves: u64,
    /// Reads.
    pub reads: u64,
    /// Bytes read.
    pub bytes_read: u64,
}
