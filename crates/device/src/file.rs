use crate::{AlignedBuf, DirectAlignment};
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// Write of one contiguous range, together with its memory.
#[derive(Debug)]
pub struct Write {
    /// Offset in the file, in bytes. On a direct file a multiple of the write unit.
    pub offset: u64,
    /// Memory; the [`Completion`] returns it.
    pub buf: AlignedBuf,
    /// Part of `buf` to write. On a direct file its start and its length are multiples of the write unit.
    pub range: Range<usize>,
    /// True if the write is complete only when these bytes (and only these) are durable.
    pub through: bool,
}

/// Write in flight. Give it back to the same file's [`File::complete`] exactly once.
#[derive(Debug)]
#[must_use = "only `complete` finishes a write and returns its memory"]
pub struct Ticket {
    /// Number that the backend gave to the operation.
    pub id: u64,
    /// Completion, set by a backend whose `submit` blocks: the write is finished already.
    pub done: Option<Completion>,
}

impl Ticket {
    /// Makes the ticket of a write that `submit` has finished.
    pub fn ready(buf: AlignedBuf, result: io::Result<()>) -> Self {
        Ticket {
            id: 0,
            done: Some(Completion { buf, result }),
        }
    }
}

/// Finished write.
#[derive(Debug)]
pub struct Completion {
    /// Memory of the write.
    pub buf: AlignedBuf,
    /// `Ok` if *all* bytes were written (and are durable, if `through` was set). The backend continues short
    /// and interrupted writes and never reports them. After an error any part of the range may have been
    /// written.
    pub result: io::Result<()>,
}

/// Keeps many writes of one file in flight from one thread. See [`File::write_queue`].
pub trait WriteQueue: Send {
    /// Starts a write, at the latest when `complete` is called. It accepts the same writes, and they fail
    /// with the same errors, as with [`File::submit`]. If the queue is full, it first waits until another
    /// write has ended. Returns the number that `complete` will return for this write.
    fn submit(&mut self, write: Write) -> u64;

    /// Waits until any one of the writes in flight has ended. Returns `None` if `complete` has already
    /// returned all of them.
    fn complete(&mut self) -> Option<(u64, Completion)>;
}

/// Extent of a barrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Barrier {
    /// Covers the data and the metadata needed to read it back (`fdatasync`).
    Data,
    /// Covers the file's other metadata as well (`fsync`; on macOS `F_FULLFSYNC`).
    Full,
    /// The system's `fsync`, with the guarantee it has there: on macOS it stops in the device's cache,
    /// elsewhere it is [`Full`](Self::Full). Only for the method of that name.
    Fsync,
    /// Orders writes without making them durable: earlier writes reach the medium before later ones, at some
    /// time. `F_BARRIERFSYNC` on macOS, elsewhere [`Full`](Self::Full). Only for the method of that name.
    Order,
}

/// Source that may serve a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReadSource {
    /// The system's cache may answer.
    Cache,
    /// Reads bypass the system's cache. After a failed barrier the cache may hold bytes that the device never
    /// received; only this source returns the bytes on the device. Offset, length and address must be
    /// multiples of the write unit.
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

/// Open file of a [`Directory`](crate::Directory).
///
/// Several threads may make any calls at once. Writes that are in flight together may be applied in any
/// order, whole or torn at sector boundaries. The caller never lets two of them overlap.
pub trait File: Send + Sync {
    /// Returns the size in bytes.
    fn len(&self) -> io::Result<u64>;

    /// Returns true if the size is zero.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Returns the alignment for direct I/O on this file, if the system reports it for single files. Returns
    /// `None` otherwise; the facts of the directory apply then.
    fn direct_alignment(&self) -> Option<DirectAlignment> {
        None
    }

    /// Reads at `offset`. Returns fewer bytes than asked for only at the end of the file.
    /// [`ReadSource::Medium`] fails with `Unsupported` if the filesystem does not support it.
    fn read_at(&self, offset: u64, buf: &mut [u8], source: ReadSource) -> io::Result<usize>;

    /// Starts a write. It may be finished or still in flight when this returns; errors come with the
    /// completion.
    fn submit(&self, write: Write) -> Ticket;

    /// Waits for a write that this file's `submit` started.
    fn complete(&self, ticket: Ticket) -> Completion;

    /// Returns a queue that keeps up to `depth` writes of this file in flight from one thread. It exists if
    /// `submit` blocks and the system has another call for it. Returns `None` if the system has no such call,
    /// or does not permit it here.
    fn write_queue(self: Arc<Self>, _depth: usize) -> Option<Box<dyn WriteQueue>> {
        None
    }

    /// Makes everything durable that *completed* before this call: data in the system's cache and in the
    /// device's. ([`Barrier::Fsync`] and [`Barrier::Order`] promise less.) A write still in flight is not
    /// covered. After an error no data written since the last successful barrier counts as durable, even if a
    /// retry succeeds.
    fn barrier(&self, barrier: Barrier) -> io::Result<()>;

    /// Returns the offset of the first byte from `offset` on that may be non-zero, as far as the filesystem
    /// knows its holes. Returns `offset` if it does not know them. Returns `None` if a hole reaches to the
    /// end.
    fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        Ok(Some(offset))
    }

    /// Returns the state of the range as the filesystem reports it now: the worst state of any part. Blocks
    /// that were written before this call count only after a [`barrier`](Self::barrier). An error counts as
    /// no answer.
    fn blocks(&self, _: Range<u64>) -> Blocks {
        Blocks::Unknown
    }

    /// Tells the system to start writing its cached data of the range, and does not wait. A hint: it makes
    /// nothing durable, and the next [`barrier`](Self::barrier) still reports every error.
    fn begin_write_back(&self, _: Range<u64>) {}

    /// Reserves blocks for the first `len` bytes and grows the file to at least that size. Returns
    /// `Ok(false)` if the filesystem has no such call; the size is set nevertheless. Fails with `StorageFull`
    /// or `QuotaExceeded` if there is not enough space.
    fn reserve(&self, len: u64) -> io::Result<bool>;

    /// Has the device zero a range without writing it (`FALLOC_FL_WRITE_ZEROES` on Linux), and grows the file to
    /// at least its end. Start and end are multiples of the write unit, and no write to the range is in flight.
    /// Afterwards the blocks count as written. That is metadata, which only a [`Barrier::Full`] makes durable:
    /// before it, a crash of the system may lose writes to these blocks that were not forced. Returns
    /// `Ok(false)`, and changes nothing, if the system, the filesystem or the device does not offer it. Fails
    /// like [`reserve`](Self::reserve) if there is not enough space.
    fn write_zeroes(&self, _: Range<u64>) -> io::Result<bool> {
        Ok(false)
    }

    /// Gives the blocks of a range back to the filesystem. Its bytes are zeroes afterwards, and the size
    /// stays. Returns `Ok(false)` where the system has no such call.
    fn punch(&self, _: Range<u64>) -> io::Result<bool> {
        Ok(false)
    }

    /// Drops clean cached pages, so that the next [`ReadSource::Cache`] read goes to the device. A hint.
    fn drop_cache(&self, range: Range<u64>);
}
