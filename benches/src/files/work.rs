//! Work of a committing thread: blocks or records that are written and made durable, one after the other.

use super::by_hand::{ByHand, write};
use crate::group::records::{first_number, record, stamp};
use logforce::file;
use logforce_device::{AlignedBuf, Barrier, File};
use logforce_measure::MeasureError;
use logforce_measure::workers::{Step, Work};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// Way to make one write durable.
pub(super) trait Committer: Sync {
    /// Writes the first `len` bytes of `buf` at `offset`; returns the buffer when they are durable.
    fn commit(&self, buf: AlignedBuf, len: usize, offset: u64) -> Result<AlignedBuf, MeasureError>;
}

fn failed(e: file::Error) -> MeasureError {
    MeasureError::NotOffered(e.to_string())
}

/// `File::write_commit`.
pub(super) struct WriteCommit(pub(super) file::File);

impl Committer for WriteCommit {
    fn commit(&self, buf: AlignedBuf, len: usize, offset: u64) -> Result<AlignedBuf, MeasureError> {
        self.0.write_commit(&buf[..len], offset).map_err(failed)?;
        Ok(buf)
    }
}

/// `File::write_at`, then `File::commit`.
pub(super) struct WriteThenCommit(pub(super) file::File);

impl Committer for WriteThenCommit {
    fn commit(&self, buf: AlignedBuf, len: usize, offset: u64) -> Result<AlignedBuf, MeasureError> {
        self.0.write_at(&buf[..len], offset).map_err(failed)?;
        self.0.commit().map_err(failed)?;
        Ok(buf)
    }
}

/// A write and an `fdatasync` for each commit.
pub(super) struct SyncEach(pub(super) Arc<dyn File>);

impl Committer for SyncEach {
    fn commit(&self, buf: AlignedBuf, len: usize, offset: u64) -> Result<AlignedBuf, MeasureError> {
        let (buf, written) = write(&*self.0, buf, len, offset);
        written.map_err(MeasureError::io("the write"))?;
        let synced = self.0.barrier(Barrier::Data);
        synced.map_err(MeasureError::io("the sync"))?;
        Ok(buf)
    }
}

impl Committer for ByHand {
    fn commit(&self, buf: AlignedBuf, len: usize, offset: u64) -> Result<AlignedBuf, MeasureError> {
        ByHand::commit(self, buf, len, offset)
    }
}

/// Offsets of the writes.
pub(super) enum Offsets {
    /// Each thread writes the blocks of a separate region in turn.
    Slots {
        /// Size of a block, bytes.
        block: u64,
        /// Size of a region, bytes; a multiple of `block`.
        region: u64,
    },
    /// All threads write records one behind the other, and continue at the beginning of the file.
    Append {
        /// Size of a record, bytes.
        record: u64,
        /// Size of the file, bytes; a multiple of `record`.
        len: u64,
        /// Number of records so far.
        written: AtomicU64,
    },
}

impl Offsets {
    /// Returns the size of a write, bytes.
    pub(super) fn size(&self) -> u64 {
        match self {
            Offsets::Slots { block, .. } => *block,
            Offsets::Append { record, .. } => *record,
        }
    }

    /// Returns the offset of the write number `number` of a thread.
    fn next(&self, thread: u32, number: u64) -> u64 {
        match self {
            Offsets::Slots { block, region } => {
                u64::from(thread) * region + number * block % region
            }
            Offsets::Append {
                record,
                len,
                written,
            } => written.fetch_add(1, Relaxed) * record % len,
        }
    }
}

/// Threads that commit by one committer.
pub(super) struct FileWork<'a> {
    pub(super) committer: &'a dyn Committer,
    pub(super) offsets: &'a Offsets,
}

/// State of one thread.
pub(super) struct Worker {
    buf: Option<AlignedBuf>,
    thread: u32,
    number: u64,
}

impl Work for FileWork<'_> {
    type Worker = Worker;

    fn worker(&self, thread: u32) -> Result<Worker, MeasureError> {
        let content = record(self.offsets.size());
        let mut buf = AlignedBuf::zeroed(content.len().next_multiple_of(4096), 4096);
        buf[..content.len()].copy_from_slice(&content);
        Ok(Worker {
            buf: Some(buf),
            thread,
            number: 0,
        })
    }

    fn step(&self, worker: &mut Worker, began: Instant) -> Result<Step, MeasureError> {
        let Some(mut buf) = worker.buf.take() else {
            return Err(MeasureError::NotOffered("a buffer was lost".to_owned()));
        };
        // Every write differs, so that no device can deduplicate or skip it.
        stamp(&mut buf, first_number(worker.thread) + worker.number);
        let offset = self.offsets.next(worker.thread, worker.number);
        worker.number += 1;
        let len = usize::try_from(self.offsets.size()).unwrap_or(0);
        worker.buf = Some(self.committer.commit(buf, len, offset)?);
        Ok(Step { began, more: true })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_stay_in_their_region_and_records_begin_again() {
        let slots = Offsets::Slots {
            block: 4096,
            region: 8192,
        };
        let of_two: Vec<_> = (0..3).map(|n| slots.next(2, n)).collect();
        assert_eq!(of_two, [16384, 20480, 16384]);
        let append = Offsets::Append {
            record: 128,
            len: 256,
            written: AtomicU64::new(0),
        };
        let records: Vec<_> = (0..3).map(|thread| append.next(thread, 0)).collect();
        assert_eq!(records, [0, 128, 0]);
        assert_eq!((slots.size(), append.size()), (4096, 128));
    }
}
