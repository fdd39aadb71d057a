//! Calls that fail for a while, for reasons other than the bytes on the medium.

use std::io;

/// A call of the device layer: of a system, a directory or a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Call {
    /// A directory is opened.
    Directory,
    /// A directory is made.
    MakeDirectory,
    /// A directory is listed.
    Entries,
    /// A file is opened that is there.
    Open,
    /// A file is made.
    Create,
    /// A file is asked for its length.
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
    /// The writer lock is looked at.
    IsLocked,
    /// The system is asked what it knows of the place.
    Facts,
    /// The system is asked for the free space.
    FreeSpace,
    /// A directory is asked whether its path still leads to it.
    Whereabouts,
    /// A name is asked which file it is.
    Identity,
}

impl Call {
    /// All of them.
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

    /// Those that change nothing.
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

/// How a call fails.
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
    /// `EAGAIN`. Not for the lock, where it means that another process holds it.
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
    /// Those that say nothing about the medium.
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

    /// Whether this call can fail so.
    pub fn fits(self, call: Call) -> bool {
        match self {
            Refusal::Nothing | Refusal::Half => matches!(call, Call::Read | Call::Entries),
            Refusal::Again => call != Call::Lock,
            _ => true,
        }
    }

    /// Too few bytes or names, and no error.
    pub fn is_short(self) -> bool {
        matches!(self, Refusal::Nothing | Refusal::Half)
    }

    /// How much of `whole` a short result has.
    pub fn part_of(self, whole: usize) -> usize {
        match self {
            Refusal::Half => whole / 2,
            _ => 0,
        }
    }

    /// As the system reports it: by its number where that is known.
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

/// Calls that fail: of the chosen kinds so many pass, then so many fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailingCalls {
    /// The chosen kinds; empty: all.
    pub calls: Vec<Call>,
    /// How they fail.
    pub how: Refusal,
    /// So many pass before.
    pub after: u64,
    /// Then so many fail; `u64::MAX`: all.
    pub failing: u64,
}

impl FailingCalls {
    /// Counts a call. Whether it fails, and how.
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
