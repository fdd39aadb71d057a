//! Search for the end of a damaged log, and for the files that contain the removed part.

use crate::error::{Damage, Error, Result};
use crate::names;
use crate::recovery::epoch::anchor_at;
use crate::recovery::listing;
use crate::recovery::opening::Opening;
use crate::recovery::reconcile::Leftovers;
use crate::scan::coverage::{gaps, lost_segment, name_lost};
use crate::scan::end_of_log::{End, anchor_state, find_end, first_state};
use crate::scan::resume::headers_beyond;
use crate::scan::walk::types::WalkInput;
use crate::scan::walk::void_ranges::settle_void_ranges;
use crate::storage::read_buffer::ReadBuffer;
use crate::storage::segment::Segment;
use crate::storage::segments::Segments;
use logforce_device::ReadSource;
use logforce_format::{BATCH_HEADER_LEN, BatchHeader, Control, EPOCH_HISTORY, Lsn};
use std::path::Path;
use std::sync::Arc;

/// A log as the scan has found it, including its damage.
pub(super) struct DamagedLog {
    pub(super) segments: Segments,
    pub(super) leftovers: Leftovers,
    /// Parts of the log that no segment contains.
    pub(super) gaps: Vec<(Lsn, Lsn)>,
    pub(super) end: End,
}

impl DamagedLog {
    /// Returns the end of the last record that stays in the log. An append that the damage has cut off is
    /// removed as a whole.
    pub(super) fn cut_from(&self) -> Lsn {
        let state = &self.end.state;
        state.sequence.open_from().unwrap_or(state.at)
    }
}

impl Opening {
    /// Finds the end of the log, even if it ends at damage. Does not change the contents of the log.
    pub(super) fn scan_to_damage(
        &self,
        control: &mut Control,
        both_slots: bool,
    ) -> Result<DamagedLog> {
        let (segments, leftovers) = self.list_segments(control, both_slots)?;
        let path = self.dir.path();
        let gaps = gaps(&segments, control);
        let mut start = anchor_state(control);
        if gaps.first().is_some_and(|(lsn, _)| *lsn < start.at) {
            // The log ends before the gap: scans from the start to find its end.
            start = first_state(&segments, control);
        }
        let mut end = find_end(&segments, control, start, both_slots, path)?;
        self.verify_tail(&segments, control, &mut end)?;
        let input = WalkInput::new(&self.dir, &segments, control, both_slots);
        if let Err(e) = settle_void_ranges(input, &mut end) {
            let Error::Damaged(_) = e else { return Err(e) };
            // It is unknown which records the damaged batch voids. So the log ends before that batch,
            // although an opening's scan begins above it.
            let start = first_state(&segments, control);
            end = find_end(&segments, control, start, both_slots, path)?;
            settle_void_ranges(input, &mut end)?;
        }
        if end.lost.is_none() {
            end.lost = missing_beyond(path, &segments, &gaps, control, both_slots, &end);
        }
        if let Some(lost) = &mut end.lost {
            name_lost(path, &segments, lost, control);
            // A scan that began below the anchor has not counted the anchor as proof.
            lost.durable_to = lost.durable_to.max(control.anchor.lsn);
        }
        Ok(DamagedLog {
            segments,
            leftovers,
            gaps,
            end,
        })
    }

    /// Returns the files that may contain a part of the log from `from` on: all but segments that end below.
    /// A missing segment may be in any file: a device may have lost the rename of a spare, or the write of
    /// its header.
    pub(super) fn files_from(&self, found: &DamagedLog, from: Lsn) -> Result<Vec<String>> {
        let below = found.segments.all().into_iter();
        let mut below: Vec<String> = below
            .filter(|s| s.header.end() <= from)
            .map(|s| s.name())
            .collect();
        // Also skips segments made by a repair that failed afterwards. With them, its copies would count as
        // different ones.
        below.extend(found.leftovers.unused());
        let entries = listing::list(&self.dir)?.into_iter().filter(|e| e.is_file);
        let mut names: Vec<String> = entries.map(|e| e.name).collect();
        names.retain(|name| {
            use names::NameKind::{Control, Preparing, Segment, SetAside, Spare};
            let kind = names::kind(name);
            let may_hold = from < Lsn::MAX && !below.contains(name);
            kind == Control || may_hold && matches!(kind, Preparing | Segment | SetAside | Spare)
        });
        names.sort();
        Ok(names)
    }

    /// Returns the total size of these files in bytes.
    pub(super) fn bytes_of(&self, files: &[String]) -> Result<u64> {
        let entries = listing::list(&self.dir)?.into_iter();
        Ok(entries
            .filter(|e| files.contains(&e.name))
            .map(|e| e.len)
            .sum())
    }
}

/// Returns the control file of the copies: of a log that begins where another one is cut.
pub(super) fn control_of_copies(
    control: &Control,
    found: &DamagedLog,
    from: Lsn,
    has_meta: bool,
) -> Result<Control> {
    let begin = &found.end.append_boundary;
    let (mut first_segment, mut first_prev_crc) = (from, begin.prev_crc);
    if let Some(segment) = found.segments.containing(from) {
        let mut read_buffer = ReadBuffer::new(ReadSource::Cache);
        let at = segment.offset(segment.header.first_batch());
        let header = read_buffer.get(&segment, at, BATCH_HEADER_LEN)?;
        let header = header
            .ok()
            .and_then(|bytes| BatchHeader::decode(bytes).ok());
        first_segment = segment.header.start;
        first_prev_crc = header.map(|header| header.prev_crc);
    }
    let mut copies = Control {
        // Otherwise records that `truncate_front` has dropped would come back from the copies.
        front: from.max(control.front),
        first_segment,
        first_prev_crc: first_prev_crc.unwrap_or_default(),
        // The log's own limit may be older than its batches.
        write_limit: Lsn::ORIGIN,
        has_meta,
        clean: false,
        ..control.clone()
    };
    // An anchor above `from` stays, because it proves that everything below it was durable. An anchor at or
    // below `from` is replaced, because it may lie in no copy.
    if from < Lsn::MAX && control.anchor.lsn <= from {
        // Above the anchor, only batches of the latest epoch count. An interrupted repair has begun an epoch
        // that may have no batch yet. If it counted as the latest, the batches to remove would count as
        // dropped.
        let mut latest = begin.epoch;
        let beyond = &mut |_: &Arc<Segment>, h: &BatchHeader| {
            if latest.is_none_or(|latest| latest.counter < h.epoch.counter) {
                latest = Some(h.epoch);
            }
            true
        };
        headers_beyond(&found.segments, from, control, begin.epoch, beyond)?;
        copies.anchor = anchor_at(begin, control);
        copies.history.insert(0, copies.epoch);
        copies.history.extend(begin.epoch);
        copies.history.extend(latest);
        if let Some(latest) = latest {
            copies.history.retain(|e| e.counter <= latest.counter);
        }
        copies
            .history
            .sort_by_key(|epoch| std::cmp::Reverse(epoch.counter));
        copies.history.dedup();
        copies.history.truncate(EPOCH_HISTORY);
        copies.epoch = copies.history.remove(0);
    }
    Ok(copies)
}

/// Returns the first missing segment after `end`, at which a scan found an ordinary end of the log. That
/// segment may have contained acknowledged records, and the stamp that proves that this end is damage. Ending
/// the log silently would lose them.
///
/// Returns `None` after a clean close: the log ended here, and nothing after it was ever used.
fn missing_beyond(
    path: &Path,
    segments: &Segments,
    gaps: &[(Lsn, Lsn)],
    control: &Control,
    both_slots: bool,
    end: &End,
) -> Option<Damage> {
    let at = end.state.at;
    if control.clean && both_slots && at == control.anchor.lsn {
        return None;
    }
    let (lsn, _) = gaps.iter().find(|(from, _)| *from >= at)?;
    let mut lost = lost_segment(path, segments, *lsn, control);
    lost.durable_to = end.proven;
    Some(lost)
}
