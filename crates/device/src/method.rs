use crate::file::Barrier;
use std::fmt;
use std::str::FromStr;

/// How a force is done: the operating system's way to get bytes onto the medium.
///
/// What each guarantees depends on the filesystem and on the file's state as well:
/// [`Facts::assess`](crate::Facts::assess).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Method {
    /// Write into the system's cache; no barrier.
    Buffered,
    /// Write, then `fsync`.
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
        }
    }

    /// What the device is asked to do.
    pub fn plan(self) -> Plan {
        use ForceBy::{None, Through};
        let (direct, force) = match self {
            Method::Buffered => (false, None),
            Method::Fsync => (false, ForceBy::Barrier(Barrier::Full)),
            Method::Fdatasync => (false, ForceBy::Barrier(Barrier::Data)),
            Method::Dsync => (false, Through),
            Method::Direct => (true, None),
            Method::DirectFdatasync => (true, ForceBy::Barrier(Barrier::Data)),
            Method::DirectDsync => (true, Through),
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
        for m in Method::LINUX {
            write!(f, " {m}")?;
        }
        Ok(())
    }
}

impl std::error::Error for UnknownMethod {}

impl FromStr for Method {
    type Err = UnknownMethod;
    fn from_str(s: &str) -> Result<Self, UnknownMethod> {
        Method::LINUX
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_back() {
        for m in Method::LINUX {
            assert_eq!(m.name().parse::<Method>(), Ok(m));
        }
        assert!(
            "o_sync"
                .parse::<Method>()
                .unwrap_err()
                .to_string()
                .contains("direct+dsync")
        );
    }
}
