//! Files of a log that another process writes, as they were last read.

use crate::error::{Error, Result};
use crate::names;
use crate::scan::batch::{LinkedHeader, ScanResult, ScanState};
use crate::scan::resume::Resumptions;
use crate::storage::control_file::ControlFile;
use crate::storage::listing::{Listing, list};
use crate::storage::read_buffer::ReadBuffer;
use crate::storage::segments::Segments;
use logforce_device::{Directory, OpenFile, ReadSource};
use logforce_format::{
    CONTROL_SLOT_LEN, CONTROL_SLOT_OFFSETS, Control, ControlReject, Lsn, newest,
};
use std::sync::Arc;

/// Number of polls that retry a control file without a valid slot before it counts as damaged.
const CONTROL_RETRIES: u32 = 5;

/// The directory of a followed log, and the state that was read from it.
pub(super) struct FollowedFiles {
    pub(super) dir: Arc<dyn Directory>,
    pub(super) segments: Segments,
    pub(super) control: Control,
    /// Number of consecutive failed reads of the control file.
    control_misses: u32,
    /// Sequence number of the control file at the last listing of the directory.
    listed: u64,
}

impl FollowedFiles {
    pub(super) fn new(dir: Arc<dyn Directory>, segments: Segments, control: Control) -> Self {
        FollowedFiles {
            dir,
            segments,
            control,
            control_misses: 0,
            listed: 0,
        }
    }

    /// Reads the control file again; returns it if it has changed.
    pub(super) fn changed_control(&mut self) -> Result<Option<Control>> {
        let control = match read_cached_control(&self.dir) {
            Ok(control) => control,
            Err(e @ Error::Io { .. }) => return Err(e),
            // Either the writer is writing both slots, or they are damaged.
            Err(e) => {
                self.control_misses += 1;
                return if self.control_misses > CONTROL_RETRIES {
                    Err(e)
                } else {
                    Ok(None)
                };
            }
        };
        self.control_misses = 0;
        let known = &self.control;
        // A restored copy may have reached the same sequence number, so identity and epoch count as well.
        let has_changed = (control.sequence, control.log_id, control.epoch)
            != (known.sequence, known.log_id, known.epoch);
        Ok(has_changed.then_some(control))
    }

    /// Lists the segments. Returns `None` if a segment was renamed or removed meanwhile: the next poll
    /// tries again.
    pub(super) fn list(&self) -> Result<Option<Listing>> {
        match list(&self.dir, self.control.log_id) {
            Err(e @ Error::Io { .. }) => Err(e),
            listing => {
                let mut listing = listing.ok().filter(|l| l.vanished.is_none());
                if let Some(listing) = &mut listing {
                    // The next opening may replace segments that the control file does not list.
                    listing.segments.take_from(self.control.prepared_end);
                }
                Ok(listing)
            }
        }
    }

    /// Replaces the segments with those of a listing.
    pub(super) fn take_listing(&mut self, listing: Listing) {
        self.segments = listing.segments;
        self.listed = self.control.sequence;
    }

    /// Returns the header of the next batch after `before`, or the reason why there is none.
    pub(super) fn header_after(
        &self,
        read_buffer: &mut ReadBuffer,
        before: &ScanState,
    ) -> ScanResult<LinkedHeader> {
        LinkedHeader::read(read_buffer, &self.segments, &self.control, before)
    }

    /// Finds the segment that begins at `at`, if there is one.
    pub(super) fn find_segment_at(&mut self, at: Lsn) -> Result<()> {
        if at >= self.control.prepared_end || self.segments.containing(at).is_some() {
            return Ok(());
        }
        if !self
            .segments
            .add_by_name(&self.dir, self.control.log_id, at)?
            && self.listed != self.control.sequence
            && let Some(listing) = self.list()?
        {
            // Only the header of a segment counts. Its name may be wrong.
            self.take_listing(listing);
        }
        Ok(())
    }
}

/// Reads the control file through the cache. Its contents are valid once they are written. Only the next
/// opening depends on whether they were forced.
fn read_cached_control(dir: &Arc<dyn Directory>) -> Result<Control> {
    let path = dir.path().join(names::CONTROL);
    let file = dir
        .open(names::CONTROL, OpenFile::READ)
        .map_err(Error::io("open", &path))?;
    let slots = CONTROL_SLOT_OFFSETS.map(|offset| {
        let mut slot = vec![0; CONTROL_SLOT_LEN];
        match file.read_at(offset, &mut slot, ReadSource::Cache) {
            Ok(n) if n == CONTROL_SLOT_LEN => Control::decode(&slot),
            _ => Err(ControlReject::Magic),
        }
    });
    match newest(slots) {
        Ok((_, control)) => Ok(control),
        Err(_) => ControlFile::load(dir).map(|loaded| loaded.control),
    }
}

/// Bytes per read: one header and the bytes near it.
const READ_AHEAD: u64 = 16 << 10;

/// Position up to which headers are read.
pub(super) struct HeaderPosition {
    /// Boundary up to which headers were read.
    pub(super) tip: ScanState,
    /// LSN below which everything is proven durable.
    pub(super) proven: Lsn,
    pub(super) read_buffer: ReadBuffer,
    /// Void ranges whose batch is not proven yet.
    pub(super) voids: Vec<(Lsn, Lsn)>,
    /// Segments in which openings have continued.
    pub(super) resumptions: Resumptions,
    /// True if the headers continue after a repair that cut even proven batches.
    pub(super) cut: bool,
    /// Number of consecutive polls without new proof.
    pub(super) misses: u32,
}

impl HeaderPosition {
    pub(super) fn new(tip: ScanState, proven: Lsn) -> Self {
        let mut read_buffer = ReadBuffer::new(ReadSource::Cache);
        read_buffer.limit(READ_AHEAD);
        HeaderPosition {
            tip,
            proven,
            read_buffer,
            voids: Vec::new(),
            resumptions: Resumptions::default(),
            cut: false,
            misses: 0,
        }
    }

    /// Returns true if a batch that is not proven yet voids `at`.
    pub(super) fn has_pending_void(&self, at: Lsn) -> bool {
        self.voids.iter().any(|&(from, to)| from <= at && at < to)
    }

    pub(super) fn go_back_to(&mut self, state: ScanState) {
        self.tip = state;
        self.cut = false;
        self.voids.clear();
    }

    /// Counts everything below the anchor as proven if the anchor lies on the chain that was read. After a
    /// crash it may lie on the chain of a later opening.
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
