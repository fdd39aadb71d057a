//! Platforms and their methods.

use crate::file::Barrier;
use std::fmt;
use std::str::FromStr;

/// Method of a force: the operating system's way to get bytes onto the medium.
///
/// The guarantee of a method also depends on the system, the filesystem and the file's state: see
/// [`Facts::assess`](crate::Facts::assess). Methods of another platform are not available. Names are unique
/// among all platforms, so that a name recorded on one is never mistaken on another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Method {
    /// Writes into the system's cache; no barrier.
    Buffered,
    /// Writes, then calls `fsync`. On Linux that reaches the medium; on macOS it stops in the device's cache.
    Fsync,
    /// Writes, then calls `fdatasync`.
    Fdatasync,
    /// Writes through the cache (`RWF_DSYNC`, the per-call `O_DSYNC`).
    Dsync,
    /// Writes past the cache (`O_DIRECT`); no barrier.
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
    /// macOS: write, then `F_FULLFSYNC`, which also flushes the cache of the device.
    FullFsync,
    /// macOS: write by a descriptor with `F_NOCACHE`, then `F_FULLFSYNC`.
    NocacheFullFsync,
}

/// Operations that a [`Method`] asks of the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// True if the file is opened for direct I/O, past the system's cache.
    pub direct: bool,
    /// Operation that makes a write durable.
    pub force: ForceBy,
}

/// Operation by which a [`Method`] makes a write durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForceBy {
    /// No operation.
    None,
    /// Each write is durable by itself, and *only that write*: earlier writes stay volatile.
    Through,
    /// A barrier after the writes.
    Barrier(Barrier),
}

impl Platform {
    /// Returns the methods of the platform, in the order of the published tables.
    pub fn methods(self) -> &'static [Method] {
        match self {
            Platform::Linux => &Method::LINUX,
            Platform::Windows => &Method::WINDOWS,
            Platform::Macos => &Method::MACOS,
        }
    }
}

impl Method {
    /// Methods of Linux, in the order of the published table.
    pub const LINUX: [Method; 7] = [
        Method::Buffered,
        Method::Fsync,
        Method::Fdatasync,
        Method::Dsync,
        Method::Direct,
        Method::DirectFdatasync,
        Method::DirectDsync,
    ];

    /// Methods of Windows, in the order of the published table.
    pub const WINDOWS: [Method; 6] = [
        Method::Buffered,
        Method::Flush,
        Method::FlushData,
        Method::WriteThrough,
        Method::NoBuffering,
        Method::NoBufferingWriteThrough,
    ];

    /// Methods of macOS.
    pub const MACOS: [Method; 5] = [
        Method::Buffered,
        Method::Fsync,
        Method::OrderBarrier,
        Method::FullFsync,
        Method::NocacheFullFsync,
    ];

    /// All methods of all platforms.
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

    /// Returns the methods of the platform that this program was compiled for.
    pub fn here() -> &'static [Method] {
        Platform::HERE.methods()
    }

    /// Returns true if `platform` has this method.
    pub fn is_of(self, platform: Platform) -> bool {
        platform.methods().contains(&self)
    }

    /// Returns the name used on the command line and in reports, such as `direct+dsync`.
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

    /// Returns the operations that the device is asked to perform.
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

/// Error: the name does not belong to a [`Method`].
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

/// History of a file's blocks. It decides the cost of a durable write to them, and the guarantee of a write
/// without a barrier.
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
    /// All states.
    pub const ALL: [FileState; 4] = [
        FileState::Fallocated,
        FileState::Zeroed,
        FileState::Recycled,
        FileState::Growing,
    ];

    /// Returns the name used on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            FileState::Fallocated => "fallocated",
            FileState::Zeroed => "zeroed",
            FileState::Recycled => "recycled",
            FileState::Growing => "growing",
        }
    }

    /// Returns true if a write overwrites blocks that were written before, on a filesystem that overwrites in
    /// place.
    pub fn is_written(self) -> bool {
        matches!(self, FileState::Zeroed | FileState::Recycled)
    }
}

impl fmt::Display for FileState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Family of operating systems whose system calls are used. It decides which methods exist, and what a call
/// of the same name guarantees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Platform {
    /// Linux, and anything that imitates its calls (the simulated disk).
    Linux,
    /// Windows.
    Windows,
    /// macOS.
    Macos,
}

impl Platform {
    /// All platforms.
    pub const ALL: [Platform; 3] = [Platform::Linux, Platform::Windows, Platform::Macos];

    /// Platform that this program was compiled for. A system without a backend counts as Linux.
    pub const HERE: Platform = if cfg!(windows) {
        Platform::Windows
    } else if cfg!(target_os = "macos") {
        Platform::Macos
    } else {
        Platform::Linux
    };

    /// Returns the name used in messages and reports, such as `Windows`.
    pub fn name(self) -> &'static str {
        match self {
            Platform::Linux => "Linux",
            Platform::Windows => "Windows",
            Platform::Macos => "macOS",
        }
    }

    /// Returns true if the system itself completes a write-through by a flush where the device has no FUA.
    /// Linux does; on other platforms the device alone decides.
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
