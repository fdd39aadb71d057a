//! Search beyond the position at which a scan stopped, for stamps and resumptions.
//!
//! - A *stamp* is a durable LSN in a batch header. It proves that missing batches were durable.
//! - A *resumption* is the first batch of a repair, or of an opening on a device with larger blocks, that
//!   voids a range and continues the log behind it.

use crate::error::Result;
use crate::scan::batch::ScanState;
use crate::storage::read_buffer::ReadBuffer;
use crate::storage::segment::Segment;
use crate::storage::segments::Segments;
use crate::storage::transfer::Lost;
use logforce_device::ReadSource;
use logforce_format::frame::Sequence;
use logforce_format::{
    BATCH_HEADER_LEN, BatchHeader, BatchKind, Control, Epoch, Lsn, align_up, planted,
};
use std::sync::Arc;

/// Searches every write unit from `from` on for batch headers of this log. Calls `visit` for each until it
/// returns `false`. A header counts if it lies at its own LSN, the control file lists its epoch (or it is
/// `last`, the epoch of the last valid batch), and its epoch is not below `last`.
///
/// Searches every unit instead of every batch, because the length in a damaged header proves nothing. Skips
/// units that cannot be read, which may hide a stamp as any other loss may. Stops at the write limit of the
/// control file, because prepared space can be gigabytes.
pub(crate) fn headers_beyond(
    segments: &Segments,
    from: Lsn,
    control: &Control,
    last: Option<Epoch>,
    visit: &mut dyn FnMut(&Arc<Segment>, &BatchHeader) -> bool,
) -> Result<()> {
    let mut read_buffer = ReadBuffer::new(ReadSource::Cache);
    let to = search_end(control, from);
    let mut list = segments.above(from);
    if let Some(first) = segments.containing(from) {
        list.retain(|s| s.header.start != first.header.start);
        list.insert(0, first);
    }
    for segment in &list {
        let unit = u64::from(segment.header.write_unit);
        let within = from
            .max(segment.header.first_batch())
            .since(segment.header.start);
        let mut at = segment.header.start.plus(align_up(within, unit));
        while at < segment.header.end().min(to) {
            if let Ok(bytes) = read_buffer.get(segment, segment.offset(at), BATCH_HEADER_LEN)?
                && let Ok(h) = BatchHeader::decode(bytes)
                && h.log_id == control.log_id
                && h.lsn == at
                && h.epoch.counter >= last.map_or(0, |e| e.counter)
                && (Some(h.epoch) == last || control.knows(h.epoch))
                && !visit(segment, &h)
            {
                return Ok(());
            }
            at = at.plus(unit);
        }
    }
    Ok(())
}

/// Returns the LSN at which a search for batches from `from` on may end.
fn search_end(control: &Control, from: Lsn) -> Lsn {
    // If batches lie above the limit, the control file is older than the log.
    match control.write_limit {
        Lsn::ORIGIN => Lsn(u64::MAX),
        limit if from > limit => Lsn(u64::MAX),
        limit => limit,
    }
}

/// Returns the highest stamp above `at` in batches after it, which proves that the batch at `at` was durable.
pub(crate) fn stamp_beyond(
    segments: &Segments,
    at: Lsn,
    control: &Control,
    last: Option<Epoch>,
) -> Result<Option<Lsn>> {
    let mut highest = None;
    if planted!("stamps-not-searched") {
        return Ok(None);
    }
    headers_beyond(segments, at, control, last, &mut |_, h| {
        if h.stamp > at {
            highest = highest.max(Some(h.stamp));
        }
        true
    })?;
    Ok(highest)
}

/// Resumptions: epoch batches at the start of segments, with which a repair or an opening has continued the
/// log, and voided the range in between.
#[derive(Default)]
pub(crate) struct Resumptions {
    found: Vec<BatchHeader>,
    anchor: Lsn,
    /// Positions of first batches of segments that cannot be read. Each batch may be a resumption.
    unread: Vec<(Lsn, Lost)>,
}

impl Resumptions {
    /// Reads the first batch of every segment above `from`, from the same `source` as the scan. After a
    /// failed barrier the cache may contain an epoch batch that the medium never got.
    pub(crate) fn above(
        segments: &Segments,
        from: Lsn,
        control: &Control,
        source: ReadSource,
    ) -> Result<Self> {
        Self::among(segments.above(from), control, source)
    }

    /// Reads the first batches of these segments.
    pub(crate) fn among(
        segments: Vec<Arc<Segment>>,
        control: &Control,
        source: ReadSource,
    ) -> Result<Self> {
        let mut read_buffer = ReadBuffer::new(source);
        // Reads only one header per segment, without read-ahead.
        read_buffer.limit(BATCH_HEADER_LEN as u64);
        let mut resumptions = Resumptions {
            anchor: control.anchor.lsn,
            ..Resumptions::default()
        };
        for segment in segments {
            let first = segment.header.first_batch();
            let offset = segment.offset(first);
            let bytes = match read_buffer.get(&segment, offset, BATCH_HEADER_LEN)? {
                Ok(bytes) => bytes,
                Err(lost) => {
                    resumptions.unread.push((first, lost));
                    continue;
                }
            };
            let Ok(h) = BatchHeader::decode(bytes) else {
                continue;
            };
            let resumes = h.kind == BatchKind::Epoch
                && h.log_id == control.log_id
                && h.lsn == first
                && h.voids()
                && h.end(segment.header.write_unit) <= segment.header.end();
            if resumes {
                resumptions.found.push(h);
            }
        }
        Ok(resumptions)
    }

    pub(crate) fn unread(&self) -> &[(Lsn, Lost)] {
        &self.unread
    }

    /// Returns the resumption that continues from `state`. It names the batch that ends there as its
    /// predecessor, and voids the batches after it. It counts even if the next batch can be read after all.
    /// Otherwise batches that were cut once, perhaps because of a temporary read error, would come back.
    ///
    /// No resumption skips the anchor, because a repair first moves the anchor to the end of the log before
    /// the damage.
    pub(crate) fn at(&self, state: &ScanState) -> Option<ScanState> {
        if planted!("resumption-ignored") {
            return None;
        }
        let continues = |h: &&BatchHeader| {
            h.lsn > state.at
                && h.void_from <= state.at
                && (h.lsn <= self.anchor || self.anchor <= state.at)
                && Some(h.prev_crc) == state.prev_crc
                && Some(h.prev_epoch) == state.epoch
        };
        // If there are several, the latest counts. It was written because the earlier ones could not be read,
        // and voids the batches with which they had continued.
        let all = self.found.iter().filter(continues);
        let h = all.max_by_key(|h| h.epoch.counter)?;
        Some(ScanState {
            at: h.lsn,
            sequence: Sequence::default(),
            ..*state
        })
    }

    /// Returns the latest resumption that voids `at` and records before it: a repair has ended the log at
    /// damage below `at`.
    pub(crate) fn cutting(&self, at: Lsn, control: &Control) -> Option<Lsn> {
        let cutting = |h: &&BatchHeader| h.void_from < at && at < h.lsn && control.knows(h.epoch);
        let latest = self.found.iter().filter(cutting);
        latest.max_by_key(|h| h.epoch.counter).map(|h| h.lsn)
    }
}
