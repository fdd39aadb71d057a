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
    /// Upper limit of its extent, bytes.
    pub(super) capacity: usize,
    pub(crate) payload: usize,
    /// Checksum of the payload so far.
    pub(crate) payload_crc: u32,
    pub(crate) frames: u32,
    /// Records that end in it.
    pub(crate) records: u32,
    pub(crate) kind: BatchKind,
    pub(crate) void_from: Lsn,
    /// Start of the atomic append that continues beyond this batch.
    pub(crate) open_from: Option<Lsn>,
}

impl BatchBuilder {
    /// Bytes that it takes on the device: header, payload, padding to the write unit.
    pub(crate) fn extent(&self) -> usize {
        let unit = u64::from(self.segment.header.write_unit);
        align_up((BATCH_HEADER_LEN + self.payload) as u64, unit) as usize
    }

    /// Where the next batch begins.
    pub(crate) fn end(&self) -> Lsn {
        self.lsn.plus(self.extent() as u64)
    }

    /// Where the next frame begins.
    pub(super) fn position(&self) -> Lsn {
        self.lsn.plus((BATCH_HEADER_LEN + self.payload) as u64)
    }

    /// Bytes left for frames.
    pub(super) fn room(&self) -> usize {
        self.capacity - BATCH_HEADER_LEN - self.payload
    }
}
