//! The position of a follower that reads headers, ahead of the one that reads records.

use crate::scan::batch::ScanState;
use crate::scan::resume::Resumptions;
use crate::storage::window::Window;
use logforce_device::ReadSource;
use logforce_format::{Control, Lsn};

/// Bytes that are read at once, for a header and its neighbours.
const GLANCE: u64 = 16 << 10;
/// The position that reads headers.
pub(super) struct Ahead {
    /// The boundary up to which headers were read.
    pub(super) tip: ScanState,
    /// Everything below is durable.
    pub(super) proven: Lsn,
    pub(super) window: Window,
    /// Void ranges whose batch is not proven yet.
    pub(super) voids: Vec<(Lsn, Lsn)>,
    /// Where openings went on in a segment of their own.
    pub(super) resumptions: Resumptions,
    /// Goes on behind an opening that gave up even what was proven.
    pub(super) cut: bool,
    /// Looks that found nothing, since the last that did.
    pub(super) in_vain: u32,
    /// Looks at the control file that found it unreadable, since one that did not.
    pub(super) blind: u32,
    /// The control file's number when the directory was listed last.
    pub(super) listed: u64,
}

impl Ahead {
    pub(super) fn new(tip: ScanState, proven: Lsn) -> Self {
        let mut window = Window::new(ReadSource::Cache);
        window.limit(GLANCE);
        Ahead {
            tip,
            proven,
            window,
            voids: Vec::new(),
            resumptions: Resumptions::default(),
            cut: false,
            in_vain: 0,
            blind: 0,
            listed: 0,
        }
    }

    /// An opening gave up what lies at `at`; its batch is not proven yet.
    pub(super) fn gives_up(&self, at: Lsn) -> bool {
        self.voids.iter().any(|&(from, to)| from <= at && at < to)
    }

    pub(super) fn go_back_to(&mut self, state: ScanState) {
        self.tip = state;
        self.cut = false;
        self.voids.clear();
    }

    /// The anchor proves what lies below it, if it lies on the chain that was read: after a crash
    /// it may lie on another that took its place.
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
