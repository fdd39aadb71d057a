//! The position of a follower that reads headers for proof, ahead of the one that reads records.

use crate::scan::batch::ScanState;
use crate::scan::resume::Resumptions;
use crate::storage::read_buffer::ReadBuffer;
use logforce_device::ReadSource;
use logforce_format::{Control, Lsn};

/// Bytes per read: a header and its neighbours.
const READ_AHEAD: u64 = 16 << 10;

/// The position that reads headers.
pub(super) struct HeaderPosition {
    /// The boundary up to which headers were read.
    pub(super) tip: ScanState,
    /// Everything below is durable.
    pub(super) proven: Lsn,
    pub(super) window: ReadBuffer,
    /// Void ranges whose batch is not proven yet.
    pub(super) voids: Vec<(Lsn, Lsn)>,
    /// Where openings have continued in a new segment.
    pub(super) resumptions: Resumptions,
    /// Continues after a repair that cut even proven batches.
    pub(super) cut: bool,
    /// Polls without new proof, since the last one with.
    pub(super) misses: u32,
}

impl HeaderPosition {
    pub(super) fn new(tip: ScanState, proven: Lsn) -> Self {
        let mut window = ReadBuffer::new(ReadSource::Cache);
        window.limit(READ_AHEAD);
        HeaderPosition {
            tip,
            proven,
            window,
            voids: Vec::new(),
            resumptions: Resumptions::default(),
            cut: false,
            misses: 0,
        }
    }

    /// Whether an opening has voided `at` by a batch that is not proven yet.
    pub(super) fn has_pending_void(&self, at: Lsn) -> bool {
        self.voids.iter().any(|&(from, to)| from <= at && at < to)
    }

    pub(super) fn go_back_to(&mut self, state: ScanState) {
        self.tip = state;
        self.cut = false;
        self.voids.clear();
    }

    /// The anchor proves what lies below it, if it lies on the chain that was read. After a crash
    /// it may lie on another chain, of a later opening.
    pub(super) fn prove_by_anchor(&mut self, control: &Control) {
        let anchor = &control.anchor;
        let same = self.tip.at == anchor.lsn
            && self.tip.prev_crc == Some(anchor.prev_crc)
            && self.tip.epoch == Some(anchor.epoch);
        if same {
            self.proven = self.proven.max(anchor.lsn);
        }
    }
}
