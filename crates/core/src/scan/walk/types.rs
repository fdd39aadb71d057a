//! Input of a walk, its events, and the facts that are known before it.

use crate::error::{Damage, Result};
use crate::scan::batch::ScanState;
use crate::scan::end_of_log::{End, anchor_state, find_end, first_state};
use crate::storage::segments::Segments;
use crate::storage::voids::Voids;
use logforce_device::Directory;
use logforce_format::{BatchHeader, Control, Lsn, RecoveryCase};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The files of a log, and the contents of its control file.
#[derive(Clone, Copy)]
pub(crate) struct WalkInput<'a> {
    pub(crate) dir: &'a Arc<dyn Directory>,
    pub(crate) segments: &'a Segments,
    pub(crate) control: &'a Control,
    pub(crate) both_slots: bool,
    /// Starts of segments with a damaged header, which were identified by their batches.
    pub(crate) headerless: &'a [Lsn],
}

/// Event of a walk. Events come in the log's order.
pub(crate) enum WalkEvent<'b> {
    /// A batch with valid checksums and links, its payload and its end.
    Batch(&'b BatchHeader, &'b [u8], Lsn),
    /// The walk continues at another position: an append in progress has no end.
    Jump,
    /// A part that must exist is missing or damaged, and perhaps the parts after it as well.
    Damage(&'b Damage),
    /// As `Damage`, but it was reported before.
    KnownDamage,
}

/// Change that a writer has made meanwhile.
pub(crate) enum Changed {
    Nothing,
    /// A writer may have changed the log: the walk reads again.
    Something,
    /// The log now begins at this LSN.
    Truncated(Lsn),
}

/// End of a walk.
pub(crate) struct WalkEnd {
    /// Exclusive end of the last batch.
    pub(crate) at: Lsn,
    pub(crate) case: RecoveryCase,
}

/// A walk over a whole log, with the facts that are known before it.
pub(crate) struct Walk<'a> {
    pub(super) input: WalkInput<'a>,
    /// End of the log as an opening would find it.
    pub(super) opening: End,
    /// Highest LSN that a stamp or the anchor proves to have been durable.
    pub(crate) proven_to: Lsn,
    pub(crate) voids: KnownVoids,
}

impl<'a> WalkInput<'a> {
    /// Returns the input of a log whose segments all have headers.
    pub(crate) fn new(
        dir: &'a Arc<dyn Directory>,
        segments: &'a Segments,
        control: &'a Control,
        both_slots: bool,
    ) -> Self {
        WalkInput {
            dir,
            segments,
            control,
            both_slots,
            headerless: &[],
        }
    }

    /// Finds the end of the log as an opening or a repair would find it from `state` on.
    pub(super) fn end(&self, state: ScanState) -> Result<End> {
        let path = self.dir.path();
        find_end(self.segments, self.control, state, self.both_slots, path)
    }

    /// Returns the state from which an opening would scan; without a control file, the start of the log.
    pub(super) fn anchor(&self) -> ScanState {
        match self.control.sequence {
            0 => first_state(self.segments, self.control),
            _ => anchor_state(self.control),
        }
    }
}

/// The void ranges of a log, as far as they are known.
#[derive(Debug, Clone, Default)]
pub(crate) struct KnownVoids {
    pub(crate) voids: Voids,
    /// Damage at the latest batch that voids a range and cannot be read: its range is unknown.
    pub(crate) unknown: Option<Damage>,
    /// Batches that void a range, according to other batches.
    pub(super) named: BTreeSet<Lsn>,
}

impl KnownVoids {
    /// Returns true if a chain that ends at `at` is part of the log, because it leads to a batch that is.
    pub(super) fn leads_to_log(&self, at: Lsn) -> bool {
        self.named.contains(&at) || self.voids.begins(at)
    }
}
