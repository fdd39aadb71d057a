//! Calls that fail for a while, for reasons other than the bytes on the medium.

use std::io;

/// A call of the device layer: of a system, a directory or a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Call {
    /// A directory is opened.
    Directory,
    /// A directory is created.
    MakeDirectory,
    /// A directory is listed.
    Entries,
    /// An existing file is opened.
    Open,
    /// A file is created.
    Create,
    /// The length of a file is read.
    Len,
    /// Bytes are read.
    Read,
    /// A write is submitted.
    Write,
    /// A write is completed.
    Complete,
    /// A file is forced.
    Barrier,
    /// Blocks are reserved.
    Reserve,
    /// A file is renamed.
    Rename,
    /// A file is removed.
    Remove,
    /// A directory is synced.
    Sync,
    /// Taking the writer lock, or locking a file beside it.
    Lock,
    /// The state of the writer lock is read.
    IsLocked,
    /// The facts of a directory are read.
    Facts,
    /// The free space is read.
    FreeSpace,
    /// A directory checks that its path still leads to it.
    Whereabouts,
    /// The identity of a named file is read.
    Identity,
}

impl Call {
    /// All calls.
    pub const ALL: [Call; 20] = [
        Call::Directory,
        Call::MakeDirectory,
        Call::Entries,
        Call::Open,
        Call::Create,
        Call::Len,
        Call::Read,
        Call::Write,
        Call::Complete,
        Call::Barrier,
        Call::Reserve,
        Call::Rename,
        Call::Remove,
        Call::Sync,
        Call::Lock,
        Call::IsLocked,
        Call::Facts,
        Call::FreeSpace,
        Call::Whereabouts,
        Call::Identity,
    ];

    /// Calls that change nothing.
    pub const LOOKS: [Call; 10] = [
        Call::Directory,
        Call::Entries,
        Call::Open,
        Call::Len,
        Call::Read,
        Call::IsLocked,
        Call::Facts,
        Call::FreeSpace,
        Call::Whereabouts,
        Call::Identity,
    ];
}

/// Failure of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Refusal {
    /// The process has too many files open (`EMFILE`).
    TooManyFiles,
    /// `ENOMEM`.
    NoMemory,
    /// `EACCES`.
    NoRights,
    /// A signal came (`EINTR`).
    Interrupted,
    /// `EAGAIN`. Not used for the lock, where it means that another process holds it.
    Again,
    /// `EBUSY`.
    Busy,
    /// `ESTALE`.
    Stale,
    /// `ETIMEDOUT`.
    TimedOut,
    /// The medium cannot do it (`EIO`).
    Medium,
    /// No error: a read returns no byte, a listing no name.
    Nothing,
    /// No error: a read returns half of the bytes, a listing half of the names.
    Half,
}

impl Refusal {
    /// Failures that say nothing about the medium.
    pub const OF_THE_PROCESS: [Refusal; 8] = [
        Refusal::TooManyFiles,
        Refusal::NoMemory,
        Refusal::NoRights,
        Refusal::Interrupted,
        Refusal::Again,
        Refusal::Busy,
        Refusal::Stale,
        Refusal::TimedOut,
    ];

    /// Returns true if this call can fail in this way.
    pub fn fits(self, call: Call) -> bool {
        match self {
            Refusal::Nothing | Refusal::Half => matches!(call, Call::Read | Call::Entries),
            Refusal::Again => call != Call::Lock,
            _ => true,
        }
    }

    /// Returns true if the call returns too few bytes or names, and no error.
    pub fn is_short(self) -> bool {
        matches!(self, Refusal::Nothing | Refusal::Half)
    }

    /// Returns the length of a short result, given the `whole` length.
    pub fn part_of(self, whole: usize) -> usize {
        match self {
            Refusal::Half => whole / 2,
            _ => 0,
        }
    }

    /// Returns the error as the system reports it, by its number if that is known.
    pub fn error(self) -> io::Error {
        use io::ErrorKind;
        let (number, kind) = match self {
            Refusal::TooManyFiles => (24, ErrorKind::Other),
            Refusal::NoMemory => (12, ErrorKind::OutOfMemory),
            Refusal::NoRights => (13, ErrorKind::PermissionDenied),
            Refusal::Interrupted => (4, ErrorKind::Interrupted),
            Refusal::Again => (11, ErrorKind::WouldBlock),
            Refusal::Busy => (16, ErrorKind::ResourceBusy),
            Refusal::Stale => (116, ErrorKind::StaleNetworkFileHandle),
            Refusal::TimedOut => (110, ErrorKind::TimedOut),
            Refusal::Medium => {
                return logforce_device::failure::medium("input/output error (injected)");
            }
            Refusal::Nothing | Refusal::Half => (0, ErrorKind::UnexpectedEof),
        };
        if cfg!(target_os = "linux") && number > 0 {
            return io::Error::from_raw_os_error(number);
        }
        io::Error::new(kind, format!("{self:?} (injected)"))
    }
}

/// Calls that fail: of the chosen kinds `after` calls pass, then `failing` calls fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailingCalls {
    /// Chosen kinds; empty for all kinds.
    pub calls: Vec<Call>,
    /// Failure of the calls.
    pub how: Refusal,
    /// Number of calls that pass first.
    pub after: u64,
    /// Number of calls that then fail; `u64::MAX` for all.
    pub failing: u64,
}

impl FailingCalls {
    /// Counts a call. Returns its failure, or `None` if it passes.
    pub fn strikes(&mut self, call: Call) -> Option<Refusal> {
        let meant = self.calls.is_empty() || self.calls.contains(&call);
        if !meant || !self.how.fits(call) {
            return None;
        }
        if self.after > 0 {
            self.after -= 1;
            return None;
        }
        if self.failing == 0 {
            return None;
        }
        if self.failing < u64::MAX {
            self.failing -= 1;
        }
        Some(self.how)
    }
}
