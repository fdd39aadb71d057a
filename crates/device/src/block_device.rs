//! The block device below a filesystem.

use crate::Source;

/// Cache of a device, as the system sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WriteCache {
    /// None, or a power-protected one: a completed write is on the medium.
    Through,
    /// Volatile: needs a flush, or FUA.
    Back,
    /// It does not say.
    Unknown,
}

/// The alignment that direct I/O needs, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DirectAlignment {
    /// Of the memory address.
    pub memory: u32,
    /// Of file offset and length.
    pub offset: u32,
}

/// The block device below a filesystem, as far as the system says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockDevice {
    /// Kernel name of the whole device, such as `nvme0n1`.
    pub name: String,
    /// Its cache, as the system sees it: no flush is sent where it is [`WriteCache::Through`].
    pub write_cache: WriteCache,
    /// The party that answers for `write_cache`; of a device that others lie below, the least of all
    /// that do.
    pub cache_source: Source,
    /// Whether it takes FUA writes (durable without a flush of everything else). On Windows: whether
    /// it says that it supports write-through.
    pub fua: Option<bool>,
    /// Logical sector, bytes.
    pub logical_sector: u32,
    /// Physical sector, bytes.
    pub physical_sector: u32,
    /// Whether it turns.
    pub rotational: Option<bool>,
    /// The device's model, or the backing file of a loop device; empty if unknown.
    pub model: String,
}
