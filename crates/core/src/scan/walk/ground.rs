//! What a walk goes over, and what it meets.

use crate::error::{Damage, Result};
use crate::options::OnDamage;
use crate::scan::batch::ScanState;
use crate::scan::end_of_log::{End, anchor_state, find_end, first_state};
use crate::storage::segments::Segments;
use crate::storage::voids::Voids;
use logforce_device::Directory;
use logforce_format::{BatchHeader, Control, Lsn, RecoveryCase};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A log as its files are, and what its control file promises.
#[derive(Clone, Copy)]
pub(crate) struct Ground<'a> {
    pub(crate) dir: &'a Arc<dyn Directory>,
    pub(crate) segments: &'a Segments,
    pub(crate) control: &'a Control,
    pub(crate) both_slots: bool,
    /// Where segments begin whose header is damaged, and which are known by their batches.
    pub(crate) regained: &'a [Lsn],
}

/// What a walk meets, in the log's order.
pub(crate) enum Met<'b> {
    /// A batch whose checksums and links are right.
    Batch(&'b BatchHeader, &'b [u8], Lsn),
    /// What was begun before here and has not ended never will.
    Jump,
    /// Something that must be there is not, and perhaps what follows it.
    Damage(&'b Damage),
    /// The same, and it has been told of before the walk came here.
    KnownDamage,
}

/// What a writer has done to the log meanwhile.
pub(crate) enum Changed {
    Nothing,
    /// It may have been in the middle of something.
    Something,
    /// The log begins here now.
    Truncated(Lsn),
}

/// How a walk ended.
pub(crate) struct Ended {
    /// Exclusive end of the last batch.
    pub(crate) at: Lsn,
    pub(crate) case: RecoveryCase,
}

/// What is known of a log before it is walked.
pub(crate) struct Walk<'a> {
    pub(super) ground: Ground<'a>,
    /// What an opening finds.
    pub(super) opening: End,
    /// Highest position that a stamp, or the anchor, proves to have been durable.
    pub(crate) proven_to: Lsn,
    pub(crate) known: Known,
}

impl Ground<'_> {
    /// What an opening that truncates finds from `state` on.
    pub(super) fn end(&self, state: ScanState) -> Result<End> {
        let path = self.dir.path();
        let on_damage = OnDamage::Truncate;
        find_end(
            self.segments,
            self.control,
            state,
            self.both_slots,
            path,
            on_damage,
        )
    }

    /// Where an opening begins. Without a control file, where the log does.
    pub(super) fn anchor(&self) -> ScanState {
        match self.control.sequence {
            0 => first_state(self.segments, self.control),
            _ => anchor_state(self.control),
        }
    }
}

/// What is known of void ranges.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known {
    pub(crate) voids: Voids,
    /// The latest batch that took back nobody knows what.
    pub(crate) unknown: Option<Damage>,
    /// Batches that void something, by what others say.
    pub(super) named: BTreeSet<Lsn>,
}

impl Known {
    /// Whether what ends at `at` is known to have been part of the log, for what it leads to is.
    pub(super) fn leads(&self, at: Lsn) -> bool {
        self.named.contains(&at) || self.voids.begins(at)
    }
}
