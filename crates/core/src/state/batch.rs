//! A batch in the log buffer.

use crate::storage::segment::Segment;
use logforce_device::AlignedBuf;
use logforce_format::{BATCH_HEADER_LEN, BatchKind, Lsn, align_up};
use std::sync::Arc;

/// A batch that is being filled, or that waits to be written.
pub(crate) struct BatchBuilder {
    pub(crate) buf: AlignedBuf,
    pub(crate) segment: Arc<Segment>,
    pub(crate) lsn: Lsn,
    /// Upper limit of the batch's extent, bytes.
    pub(super) capacity: usize,
    pub(crate) payload: usize,
    /// Checksum of the payload so far.
    pub(crate) payload_crc: u32,
    pub(crate) frames: u32,
    /// Number of records that end in the batch.
    pub(crate) records: u32,
    pub(crate) kind: BatchKind,
    pub(crate) void_from: Lsn,
    /// Start of the atomic append that continues beyond this batch.
    pub(crate) open_from: Option<Lsn>,
}

impl BatchBuilder {
    /// Returns the number of bytes on the device: header, payload, and padding to the write unit.
    pub(crate) fn extent(&self) -> usize {
        let unit = u64::from(self.segment.header.write_unit);
        align_up((BATCH_HEADER_LEN + self.payload) as u64, unit) as usize
    }

    /// Returns the end of the batch, at which the next batch begins.
    pub(crate) fn end(&self) -> Lsn {
        self.lsn.plus(self.extent() as u64)
    }

    /// Returns the LSN at which the next frame begins.
    pub(super) fn position(&self) -> Lsn {
        self.lsn.plus((BATCH_HEADER_LEN + self.payload) as u64)
    }

    /// Returns the number of bytes left for frames.
    pub(super) fn room(&self) -> usize {
        self.capacity - BATCH_HEADER_LEN - self.payload
    }
}
