//! Platforms, and the methods of each.

use crate::file::Barrier;
use std::fmt;
use std::str::FromStr;

/// How a force is done: the operating system's way to get bytes onto the medium.
///
/// What each guarantees depends on the system, the filesystem and the file's state as well:
/// [`Facts::assess`](crate::Facts::assess). A method of another system is none there. Names are
/// unique among all systems, so that what was written down on one is not taken for something else on
/// another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Method {
    /// Write into the system's cache; no barrier.
    Buffered,
    /// Write, then `fsync`. On Linux that reaches the medium; on macOS it ends in the device's cache.
    Fsync,
    /// Write, then `fdatasync`.
    Fdatasync,
    /// Write through the cache (`RWF_DSYNC`, the per-call `O_DSYNC`).
    Dsync,
    /// Write past the cache (`O_DIRECT`); no barrier.
    Direct,
    /// `O_DIRECT`, then `fdatasync`.
    DirectFdatasync,
    /// `O_DIRECT` with `RWF_DSYNC`.
    DirectDsync,
    /// Windows: write, then `FlushFileBuffers`.
    Flush,
    /// Windows: write, then `NtFlushBuffersFileEx` for the data alone.
    FlushData,
    /// Windows: write by a handle with `FILE_FLAG_WRITE_THROUGH`.
    WriteThrough,
    /// Windows: write past the cache (`FILE_FLAG_NO_BUFFERING`); no barrier.
    NoBuffering,
    /// Windows: `FILE_FLAG_NO_BUFFERING` with `FILE_FLAG_WRITE_THROUGH`.
    NoBufferingWriteThrough,
    /// macOS: write, then `F_BARRIERFSYNC`: an order among writes, not their durability.
    OrderBarrier,
    /// macOS: write, then `F_FULLFSYNC`.
    FullFsync,
    /// macOS: write by a descriptor with `F_NOCACHE`, then `F_FULLFSYNC`.
    NocacheFullFsync,
}

/// A method taken apart into what the device is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Open the file past the system's cache.
    pub direct: bool,
    /// What makes a write durable.
    pub force: ForceBy,
}

/// What a [`Method`] relies on to make a write durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForceBy {
    /// Nothing does.
    None,
    /// Each write is durable by itself, and *only that write*: earlier writes stay volatile.
    Through,
    /// A barrier after the writes.
    Barrier(Barrier),
}

impl Platform {
    /// Its methods, in the order of the published tables.
    pub fn methods(self) -> &'static [Method] {
        match self {
            Platform::Linux => &Method::LINUX,
            Platform::Windows => &Method::WINDOWS,
            Platform::Macos => &Method::MACOS,
        }
    }
}

impl Method {
    /// The methods of Linux, in the order of the published table.
    pub const LINUX: [Method; 7] = [
        Method::Buffered,
        Method::Fsync,
        Method::Fdatasync,
        Method::Dsync,
        Method::Direct,
        Method::DirectFdatasync,
        Method::DirectDsync,
    ];

    /// The methods of Windows, in the order of the published table.
    pub const WINDOWS: [Method; 6] = [
        Method::Buffered,
        Method::Flush,
        Method::FlushData,
        Method::WriteThrough,
        Method::NoBuffering,
        Method::NoBufferingWriteThrough,
    ];

    /// The methods of macOS.
    pub const MACOS: [Method; 5] = [
        Method::Buffered,
        Method::Fsync,
        Method::OrderBarrier,
        Method::FullFsync,
        Method::NocacheFullFsync,
    ];

    /// All methods of all systems.
    pub const ALL: [Method; 15] = [
        Method::Buffered,
        Method::Fsync,
        Method::Fdatasync,
        Method::Dsync,
        Method::Direct,
        Method::DirectFdatasync,
        Method::DirectDsync,
        Method::Flush,
        Method::FlushData,
        Method::WriteThrough,
        Method::NoBuffering,
        Method::NoBufferingWriteThrough,
        Method::OrderBarrier,
        Method::FullFsync,
        Method::NocacheFullFsync,
    ];

    /// The methods of the system that this program was compiled for.
    pub fn here() -> &'static [Method] {
        Platform::HERE.methods()
    }

    /// Whether `platform` has this method.
    pub fn is_of(self, platform: Platform) -> bool {
        platform.methods().contains(&self)
    }

    /// The name used on the command line and in reports, such as `direct+dsync`.
    pub fn name(self) -> &'static str {
        match self {
            Method::Buffered => "buffered",
            Method::Fsync => "fsync",
            Method::Fdatasync => "fdatasync",
            Method::Dsync => "dsync",
            Method::Direct => "direct",
            Method::DirectFdatasync => "direct+fdatasync",
            Method::DirectDsync => "direct+dsync",
            Method::Flush => "flush",
            Method::FlushData => "flush-data",
            Method::WriteThrough => "write-through",
            Method::NoBuffering => "no-buffering",
            Method::NoBufferingWriteThrough => "no-buffering+write-through",
            Method::OrderBarrier => "barrier",
            Method::FullFsync => "full-fsync",
            Method::NocacheFullFsync => "nocache+full-fsync",
        }
    }

    /// What the device is asked to do.
    #[doc(hidden)]
    pub fn plan(self) -> Plan {
        use ForceBy::{None, Through};
        let by = ForceBy::Barrier;
        let (direct, force) = match self {
            Method::Buffered => (false, None),
            Method::Fsync => (false, by(Barrier::Fsync)),
            Method::Fdatasync | Method::FlushData => (false, by(Barrier::Data)),
            Method::Flush | Method::FullFsync => (false, by(Barrier::Full)),
            Method::OrderBarrier => (false, by(Barrier::Order)),
            Method::Dsync | Method::WriteThrough => (false, Through),
            Method::Direct | Method::NoBuffering => (true, None),
            Method::DirectFdatasync => (true, by(Barrier::Data)),
            Method::NocacheFullFsync => (true, by(Barrier::Full)),
            Method::DirectDsync | Method::NoBufferingWriteThrough => (true, Through),
        };
        Plan { direct, force }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that is no [`Method`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownMethod(pub String);

impl fmt::Display for UnknownMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown method '{}'; known here:", self.0)?;
        for m in Method::here() {
            write!(f, " {m}")?;
        }
        Ok(())
    }
}

impl std::error::Error for UnknownMethod {}

impl FromStr for Method {
    type Err = UnknownMethod;
    fn from_str(s: &str) -> Result<Self, UnknownMethod> {
        Method::ALL
            .into_iter()
            .find(|m| m.name() == s)
            .ok_or_else(|| UnknownMethod(s.to_owned()))
    }
}

/// How the blocks under a file came to be; it decides what a durable write to them costs, and
/// what a write without a barrier is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FileState {
    /// Sized by `fallocate`: blocks reserved, extents unwritten; the first write converts them.
    Fallocated,
    /// Filled with zeroes and synced: written extents, overwritten in place.
    Zeroed,
    /// Held other data before: written extents too.
    Recycled,
    /// Each write extends the file.
    Growing,
}

impl FileState {
    /// All of them.
    pub const ALL: [FileState; 4] = [
        FileState::Fallocated,
        FileState::Zeroed,
        FileState::Recycled,
        FileState::Growing,
    ];

    /// The name used on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            FileState::Fallocated => "fallocated",
            FileState::Zeroed => "zeroed",
            FileState::Recycled => "recycled",
            FileState::Growing => "growing",
        }
    }

    /// Whether a write overwrites blocks that were written before, on a filesystem that
    /// overwrites in place.
    pub fn is_written(self) -> bool {
        matches!(self, FileState::Zeroed | FileState::Recycled)
    }
}

impl fmt::Display for FileState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The family of operating systems whose calls a place is written by. It decides which methods there
/// are, and what a call of the same name is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Platform {
    /// Linux, and whatever imitates its calls (the simulated disk).
    Linux,
    /// Windows.
    Windows,
    /// macOS.
    Macos,
}

impl Platform {
    /// All of them.
    pub const ALL: [Platform; 3] = [Platform::Linux, Platform::Windows, Platform::Macos];

    /// The platform that this program was compiled for. Systems without a backend of their own are counted as
    /// Linux.
    pub const HERE: Platform = if cfg!(windows) {
        Platform::Windows
    } else if cfg!(target_os = "macos") {
        Platform::Macos
    } else {
        Platform::Linux
    };

    /// The name used in messages and reports, such as `Windows`.
    pub fn name(self) -> &'static str {
        match self {
            Platform::Linux => "Linux",
            Platform::Windows => "Windows",
            Platform::Macos => "macOS",
        }
    }

    /// Returns whether the system itself completes a write through by a flush where the device has no FUA.
    /// Linux does; elsewhere what the device makes of it is the device's own affair.
    pub fn completes_write_through(self) -> bool {
        self == Platform::Linux
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_back_on_every_platform() {
        for m in Method::ALL {
            assert_eq!(m.name().parse::<Method>(), Ok(m));
            assert!(Platform::ALL.into_iter().any(|p| m.is_of(p)), "{m}");
        }
        for platform in Platform::ALL {
            for m in platform.methods() {
                assert!(Method::ALL.contains(m));
            }
        }
        let error = "o_sync".parse::<Method>().unwrap_err().to_string();
        for m in Method::here() {
            assert!(error.contains(m.name()), "{error}");
        }
    }

    #[test]
    fn only_buffered_and_fsync_are_of_more_than_one_system() {
        for m in Method::ALL {
            let systems = Platform::ALL.into_iter().filter(|p| m.is_of(*p)).count();
            let shared = match m {
                Method::Buffered => 3,
                Method::Fsync => 2,
                _ => 1,
            };
            assert_eq!(systems, shared, "{m}");
        }
    }
}
