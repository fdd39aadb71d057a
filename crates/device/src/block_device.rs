//! The block device below a filesystem.

use crate::Source;

/// Cache of a device, as the system reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WriteCache {
    /// No cache, or a power-protected one: a completed write is on the medium.
    Through,
    /// Volatile cache: a write needs a flush, or FUA.
    Back,
    /// Not reported.
    Unknown,
}

/// Alignment that direct I/O needs, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DirectAlignment {
    /// Alignment of the memory address.
    pub memory: u32,
    /// Alignment of file offset and length.
    pub offset: u32,
}

/// Writes that a crash cannot tear (`RWF_ATOMIC` of Linux), in bytes. A write has to be a power of two between
/// the two, and aligned to its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AtomicWrite {
    /// Smallest such write.
    pub unit_min: u32,
    /// Largest such write.
    pub unit_max: u32,
}

/// Block device below a filesystem, as far as the system reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockDevice {
    /// Kernel name of the whole device, such as `nvme0n1`.
    pub name: String,
    /// Cache of the device, as the system reports it. With [`WriteCache::Through`] no flush is sent.
    pub write_cache: WriteCache,
    /// Party that answers for `write_cache`. For a device above other devices, the weakest party of all of
    /// them.
    pub cache_source: Source,
    /// Support of FUA writes (durable without a flush of everything else). On Windows: reported support of
    /// write-through.
    pub fua: Option<bool>,
    /// True if the device zeroes ranges without writing them, by the word of its driver. On Linux the kernel
    /// reports it from 6.17 on. See [`File::write_zeroes`](crate::File::write_zeroes).
    pub zeroes: Option<bool>,
    /// Size of a logical sector in bytes.
    pub logical_sector: u32,
    /// Size of a physical sector in bytes.
    pub physical_sector: u32,
    /// Rotational (hard disk).
    pub rotational: Option<bool>,
    /// Model of the device, or the backing file of a loop device; empty if unknown.
    pub model: String,
}

impl BlockDevice {
    /// Makes a device that reports only its name. Its cache is [`WriteCache::Unknown`], and its cache source
    /// is [`Source::Nobody`]. Its sectors count as 512 bytes (logical) and 4096 bytes (physical), which
    /// leaves the write unit at its minimum.
    pub fn new(name: impl Into<String>) -> BlockDevice {
        BlockDevice {
            name: name.into(),
            write_cache: WriteCache::Unknown,
            cache_source: Source::Nobody,
            fua: None,
            zeroes: None,
            logical_sector: 512,
            physical_sector: 4096,
            rotational: None,
            model: String::new(),
        }
    }
}
