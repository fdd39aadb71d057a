//! What lies beyond the position where a scan stopped: *stamps* (durable LSNs in batch headers, which
//! prove that what is missing had been durable), and *resumptions* (the first batch of a repair, or of an
//! opening on a device with larger blocks, that voids a range and goes on behind it).

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

/// Searches every write unit from `from` on for headers of this log: at their own LSN, of an epoch
/// that the control file lists (or `last`, the epoch of the last valid batch), and not of an epoch
/// below `last`. Calls `visit` for each until it returns `false`.
///
/// Every unit, not every batch: the length in a damaged header proves nothing. Skips units that
/// cannot be read; they can hide a stamp, as any other loss can. Ends where the control file says that
/// nothing was written: prepared space can be gigabytes.
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

/// Where a search for batches from `from` on may end.
fn search_end(control: &Control, from: Lsn) -> Lsn {
    // Where something lies above the limit, the control file is older than the log.
    match control.write_limit {
        Lsn::ORIGIN => Lsn(u64::MAX),
        limit if from > limit => Lsn(u64::MAX),
        limit => limit,
    }
}

/// The highest stamp above `at` in batches after it: proof that the batch at `at` had been durable.
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

/// Resumptions: epoch batches at the start of segments, by which a repair or an opening has continued
/// and voided what lies in between.
#[derive(Default)]
pub(crate) struct Resumptions {
    found: Vec<BatchHeader>,
    anchor: Lsn,
    /// First batches of segments that cannot be read: each may be a resumption.
    unread: Vec<(Lsn, Lost)>,
}

impl Resumptions {
    /// Reads the first batch of every segment above `from`, from the same `source` as the scan:
    /// after a failed barrier the cache holds an epoch batch that the medium never got.
    pub(crate) fn above(
        segments: &Segments,
        from: Lsn,
        control: &Control,
        source: ReadSource,
    ) -> Result<Self> {
        let mut read_buffer = ReadBuffer::new(source);
        // One header per segment, without read-ahead.
        read_buffer.limit(BATCH_HEADER_LEN as u64);
        let mut resumptions = Resumptions {
            anchor: control.anchor.lsn,
            ..Resumptions::default()
        };
        for segment in segments.above(from) {
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

    /// The resumption that continues from `state`: it names the batch that ends there as its
    /// predecessor, and voids what follows. It counts even if the next batch can be read after all:
    /// what was cut once, perhaps because of a read error that has passed, must not come back.
    ///
    /// No resumption leads past the anchor: a repair moves the anchor
    /// there first.
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
        // The latest of several: it was written because the earlier ones could not be read, and
        // voids what they had continued with.
        let all = self.found.iter().filter(continues);
        let h = all.max_by_key(|h| h.epoch.counter)?;
        Some(ScanState {
            at: h.lsn,
            sequence: Sequence::default(),
            ..*state
        })
    }

    /// The latest resumption that voids `at`, although a batch before `at` was read: a repair has
    /// ended the log at damage further down.
    pub(crate) fn cutting(&self, at: Lsn, control: &Control) -> Option<Lsn> {
        let cutting = |h: &&BatchHeader| h.void_from < at && at < h.lsn && control.knows(h.epoch);
        let latest = self.found.iter().filter(cutting);
        latest.max_by_key(|h| h.epoch.counter).map(|h| h.lsn)
    }
}
