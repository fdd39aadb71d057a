use crate::{AlignedBuf, DirectAlignment};
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// One write, handed over with its memory.
#[derive(Debug)]
pub struct Write {
    /// Where in the file, in bytes. On a direct file: a multiple of the write unit.
    pub offset: u64,
    /// The memory; comes back in the [`Completion`].
    pub buf: AlignedBuf,
    /// The part of `buf` to write. On a direct file its start and its length are multiples of
    /// the write unit.
    pub range: Range<usize>,
    /// Complete only when these bytes (and only these) are durable.
    pub through: bool,
}

/// A write in flight. Give it back to the same file's [`File::complete`] exactly once.
#[derive(Debug)]
#[must_use = "a write is not done, and its memory not back, before `complete`"]
pub struct Ticket {
    /// The backend's own number for the operation.
    pub id: u64,
    /// Set by a backend whose `submit` blocks: the write is done already.
    pub done: Option<Completion>,
}

impl Ticket {
    /// The ticket of a write that was done within `submit`.
    pub fn ready(buf: AlignedBuf, result: io::Result<()>) -> Self {
        Ticket {
            id: 0,
            done: Some(Completion { buf, result }),
        }
    }
}

/// A finished write.
#[derive(Debug)]
pub struct Completion {
    /// The memory that the write was handed.
    pub buf: AlignedBuf,
    /// Whether *all* bytes were written (and are durable, if `through` was asked for). Short
    /// writes and interruptions are continued by the backend, never reported. After an error
    /// any part of the range may have been written.
    pub result: io::Result<()>,
}

/// Keeps many writes of one file in flight from one thread. See [`File::write_queue`].
pub trait WriteQueue: Send {
    /// Begins a write, at the latest when `complete` is called. The same writes are accepted, and the
    /// same errors come of them, as by [`File::submit`]. Waits for another one to end if as many are in
    /// flight as the queue is deep. Returns a number by which `complete` will name it.
    fn submit(&mut self, write: Write) -> u64;

    /// Waits until any one of the writes has ended that `complete` has not returned yet. `None` if there
    /// is none.
    fn complete(&mut self) -> Option<(u64, Completion)>;
}

/// How much a barrier covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Barrier {
    /// The data and what is needed to read it back (`fdatasync`).
    Data,
    /// The file's other metadata as well (`fsync`; on macOS `F_FULLFSYNC`).
    Full,
    /// What the system calls `fsync`, and worth what it is worth there: on macOS it ends in the
    /// device's cache, elsewhere it is [`Full`](Self::Full). Only for the method of that name.
    Fsync,
    /// An order and no durability: earlier writes reach the medium before later ones, at some time.
    /// `F_BARRIERFSYNC` on macOS, elsewhere [`Full`](Self::Full). Only for the
    /// method of that name.
    Order,
}

/// Where a read may be served from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReadSource {
    /// The system's cache may answer.
    Cache,
    /// Past the system's cache. After a failed barrier the cache may hold bytes that the device
    /// never got; only this source shows what is really there. Offset, length and address must
    /// be multiples of the write unit.
    Medium,
}

/// State of a range of a file for a write to it, on a filesystem that overwrites in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Blocks {
    /// Written blocks of this file alone: the write changes nothing else.
    Written,
    /// Blocks of this file alone, some of which were never written: the write changes metadata too.
    Reserved,
    /// A hole, or blocks that another file shares: the write needs free space.
    Missing,
    /// Not reported by the system.
    Unknown,
}

/// An open file of a [`Directory`](crate::Directory).
///
/// All calls may come from several threads at once. Writes that are in flight together may be
/// applied in any order, whole or torn at sector grain; the caller never lets two overlap.
pub trait File: Send + Sync {
    /// Size in bytes.
    fn len(&self) -> io::Result<u64>;

    /// Whether the size is zero.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Returns what transfers past the system's cache need on this file, where the system says that of single
    /// files. `None` otherwise: what the facts of its directory say goes for it.
    fn direct_alignment(&self) -> Option<DirectAlignment> {
        None
    }

    /// Reads at `offset`; fewer bytes than asked for only at the end of the file.
    /// [`ReadSource::Medium`] answers `Unsupported` where the filesystem cannot.
    fn read_at(&self, offset: u64, buf: &mut [u8], source: ReadSource) -> io::Result<usize>;

    /// Starts a write. It may be done when this returns or still be in flight; errors come with
    /// the completion.
    fn submit(&self, write: Write) -> Ticket;

    /// Waits for a write that this file's `submit` began.
    fn complete(&self, ticket: Ticket) -> Completion;

    /// A way to keep up to `depth` writes of this file in flight from one thread, where `submit` blocks
    /// and the system has another call for it. `None` where it has none, or does not permit it here.
    fn write_queue(self: Arc<Self>, _depth: usize) -> Option<Box<dyn WriteQueue>> {
        None
    }

    /// Makes everything durable that *completed* before this call: data in the system's cache and in
    /// the device's ([`Barrier::Fsync`] and [`Barrier::Order`] promise less). A write still in flight
    /// is not covered. After an error nothing that was written since the last successful barrier may be
    /// believed, whatever a retry says.
    fn barrier(&self, barrier: Barrier) -> io::Result<()>;

    /// The first byte from `offset` on that may be other than zero, as far as the filesystem knows
    /// where the file has holes: at `offset` if it does not. `None` where a hole reaches to the end.
    fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        Ok(Some(offset))
    }

    /// Returns the state of the range as the filesystem reports it now: the worst state of any part. Blocks
    /// that were written before this call count only after a [`barrier`](Self::barrier). An error counts as
    /// no answer.
    fn blocks(&self, _: Range<u64>) -> Blocks {
        Blocks::Unknown
    }

    /// Has the system begin to write what its cache holds of the range, and does not wait for it. A
    /// hint: it makes nothing durable, and takes no error away from the next
    /// [`barrier`](Self::barrier).
    fn begin_write_back(&self, _: Range<u64>) {}

    /// Reserves blocks for the first `len` bytes and grows the file to at least that size.
    /// `Ok(false)` where the filesystem has no such call (the size is set all the same); no
    /// space is an error of kind `StorageFull` or `QuotaExceeded`.
    fn reserve(&self, len: u64) -> io::Result<bool>;

    /// Gives the blocks of a range back to the filesystem. Its bytes are zeroes afterwards, and the size
    /// stays. Returns `Ok(false)` where the system has no such call.
    fn punch(&self, _: Range<u64>) -> io::Result<bool> {
        Ok(false)
    }

    /// Drops clean cached pages, so that the next [`ReadSource::Cache`] read asks the device. A
    /// hint.
    fn drop_cache(&self, range: Range<u64>);
}
