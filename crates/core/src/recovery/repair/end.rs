//! Ending a log in place, after the copies are durable.

use super::scan::DamagedLog;
use crate::error::{Error, Result};
use crate::names;
use crate::recovery::epoch::{anchor_behind, epoch_header, move_front, write_epoch};
use crate::recovery::listing;
use crate::recovery::opening::Opening;
use crate::scan::batch::ScanState;
use crate::scan::resume::headers_beyond;
use crate::storage::control_file::Loaded;
use crate::storage::control_file::meta::LoadedMeta;
use crate::storage::durability::{Why, barrier};
use crate::storage::read_buffer::ReadBuffer;
use crate::storage::segments::Segments;
use crate::storage::transfer::write;
use logforce_device::{AlignedBuf, Barrier, ReadSource};
use logforce_format::{
    BATCH_HEADER_LEN, BatchHeader, Control, Epoch, Lsn, MAX_SEGMENT_LEN, MIN_WRITE_UNIT,
    SegmentHeader, planted,
};

impl Opening {
    /// Ends the log at the end that the scan has found. Returns the LSN at which the log continues.
    pub(super) fn end_log(
        &self,
        loaded: Loaded,
        control: Control,
        found: DamagedLog,
        meta: &LoadedMeta,
        lost_meta: bool,
    ) -> Result<Lsn> {
        let cut_from = found.cut_from();
        let DamagedLog {
            mut segments,
            leftovers,
            gaps,
            end,
        } = found;
        let earliest_void = match end.lost {
            Some(_) => earliest_void_beyond(&segments, &control, &end.state)?,
            None => None,
        };
        let both_slots = loaded.both;
        let opened = self.open_control(loaded, control)?;
        if !both_slots {
            // The remaining slot may be older than the last opening, and say that the log was closed cleanly.
            // If it were copied to both slots, the next opening would trust it, and lose everything behind.
            opened.file.update(&opened.poison, |c| c.clean = false)?;
        }
        let forget_meta = || match lost_meta {
            true => opened.file.forget_meta(&opened.poison),
            false => Ok(()),
        };
        let mut spares = self.clear_leftovers(&segments, leftovers)?;
        if end.lost.is_none() {
            // The missing segments were voided by an interrupted repair, or were never used because the log
            // was closed. The log stays closed, since then the space behind its end need not be readable.
            let epoch = opened.control.epoch;
            forget_meta()?;
            self.enforce_names(&segments)?;
            let at = end.state.at;
            self.fill_gaps(&mut segments, &opened.control, epoch, gaps, at)?;
            return Ok(at);
        }
        self.sync_recovered(&segments, &end)?;
        opened.file.sync_meta(meta)?;
        let epoch = self.next_epoch(&opened.control, &end)?;
        self.enforce_names(&segments)?;
        let cut = segments.all();
        // The new segment has the length of the last one, since the owner's options are not known here. It is
        // made before the anchor moves. If space or permission is missing, an opening still refuses the log,
        // and salvage reads all of it.
        let unit = u64::from(self.unit);
        let wanted = cut.last().map_or(0, |last| last.header.len);
        let wanted = wanted.max(4 * unit).next_multiple_of(unit);
        let segment = self.make_segment(&opened.control, &mut spares, epoch, wanted)?;
        forget_meta()?;
        self.persist_epoch(epoch, &opened, &segments, &end, meta.bytes().is_some())?;
        let lsn = segment.header.first_batch();
        let too_early = planted!("repair-begins-at-once");
        if too_early {
            self.fill_gaps(&mut segments, &opened.control, epoch, gaps.clone(), lsn)?;
        }
        self.list_segment(&opened, &mut segments, &segment)?;
        segment.open_writer(false)?;
        let void_from = earliest_void.map_or(cut_from, |earliest| earliest.min(cut_from));
        let header = BatchHeader {
            void_from,
            ..epoch_header(&opened.control, &end, epoch, lsn)
        };
        let header = write_epoch(&segment, header)?;
        let anchor = anchor_behind(&header, &segment);
        move_front(&opened, &end, anchor, lsn)?;
        if !too_early {
            self.fill_gaps(&mut segments, &opened.control, epoch, gaps, lsn)?;
        }
        if planted!("cut-is-left") {
            return Ok(lsn);
        }
        // Writes zeroes over the start of the removed parts. Otherwise they would come back if the new
        // epoch's batch is lost later and the damage has gone.
        for segment in cut.into_iter().filter(|s| s.header.end() > end.state.at) {
            let at = end.state.at.max(segment.header.first_batch());
            if at >= segment.header.end() {
                continue;
            }
            segment.open_writer(false)?;
            let unit = segment.header.write_unit as usize;
            let file = segment.file()?;
            write(&*file, segment.offset(at), AlignedBuf::zeroed(unit, 65536))
                .map_err(Error::io("write", segment.path()))?;
            barrier(&*file, Barrier::Data, Why::CutEnd)
                .map_err(Error::io("sync", segment.path()))?;
        }
        Ok(lsn)
    }

    /// Removes all files with names in `[from, to)` that are not segments. A file that cannot be read now may
    /// be readable next time, and would then be a second segment for the same range.
    fn remove_claims(&self, segments: &Segments, from: Lsn, to: Lsn) -> Result<()> {
        for name in listing::list(&self.dir)?.into_iter().map(|e| e.name) {
            let claims = names::claimed_start(&name).is_some_and(|s| from <= s && s < to);
            if claims && !segments.all().iter().any(|s| s.name() == name) {
                let removed = self.dir.remove(&name);
                removed.map_err(Error::io("remove", self.dir.path().join(&name)))?;
            }
        }
        Ok(())
    }

    /// Creates empty segments in place of missing ones, so that all segments that the control file lists
    /// exist again. Those below `end` are void: they take no space, because the disk may have none for them.
    fn fill_gaps(
        &self,
        segments: &mut Segments,
        control: &Control,
        epoch: Epoch,
        gaps: Vec<(Lsn, Lsn)>,
        end: Lsn,
    ) -> Result<()> {
        for (mut from, to) in gaps {
            self.remove_claims(segments, from, to)?;
            while from < to {
                // Does not fail: a repair refuses a gap that cannot be filled before it changes anything.
                let (len, unit) = filler(from, to).ok_or_else(|| self.no_segment_at(from))?;
                let builder = self.builder(control.log_id, epoch);
                let made = match from.plus(len) <= end {
                    true => builder.make_void(from, len, unit),
                    false => builder.make(from, len, unit, None),
                };
                let segment = made.map_err(|e| self.no_space(e))?;
                segment.writer_done();
                segments.insert(segment);
                from = from.plus(len);
            }
        }
        Ok(())
    }
}

/// Returns the length and the write unit of the first empty segment that fills a gap; `None` if no segment
/// fits.
fn filler(from: Lsn, to: Lsn) -> Option<(u64, u32)> {
    let rest = to.since(from);
    let len = if rest > MAX_SEGMENT_LEN {
        MAX_SEGMENT_LEN / 2
    } else {
        rest
    };
    let fits = |unit: &u32| SegmentHeader::geometry_is_valid(from, len, *unit);
    let unit = [4096, MIN_WRITE_UNIT].into_iter().find(fits)?;
    Some((len, unit))
}

/// Returns true if empty segments can fill a gap, which requires that the last one fits.
pub(super) fn can_fill(from: Lsn, to: Lsn) -> bool {
    const STEP: u64 = MAX_SEGMENT_LEN / 2;
    let before = to.since(from).saturating_sub(MAX_SEGMENT_LEN);
    filler(from.plus(before.div_ceil(STEP) * STEP), to).is_some()
}

/// Returns the start of the earliest range that a batch after `end` voids, before the log is ended at `end`.
/// Dropping that batch must not bring back the records that it voids. So the new epoch's batch voids them
/// again, as far as such batches can be read.
///
/// The list of ranges starts at the last batch of this history: the last header after `end`, or the batch
/// that the anchor names.
fn earliest_void_beyond(
    segments: &Segments,
    control: &Control,
    end: &ScanState,
) -> Result<Option<Lsn>> {
    let anchor = &control.anchor;
    let mut last = (anchor.epoch.counter, anchor.lsn, anchor.last_void);
    headers_beyond(segments, end.at, control, end.epoch, &mut |_, h| {
        let void = if h.voids() { h.lsn } else { h.last_void };
        if (h.epoch.counter, h.lsn) >= (last.0, last.1) {
            last = (h.epoch.counter, h.lsn, void);
        }
        true
    })?;
    let mut at = last.2;
    let mut earliest: Option<Lsn> = None;
    let mut read_buffer = ReadBuffer::new(ReadSource::Cache);
    while at >= end.at {
        let Some(segment) = segments.containing(at) else {
            break;
        };
        let bytes = read_buffer.get(&segment, segment.offset(at), BATCH_HEADER_LEN)?;
        let header = bytes.ok().and_then(|b| BatchHeader::decode(b).ok());
        let Some(h) = header
            .filter(|h| h.log_id == control.log_id && h.lsn == at && h.voids() && h.last_void < at)
        else {
            break;
        };
        earliest = Some(earliest.map_or(h.void_from, |e| e.min(h.void_from)));
        at = h.last_void;
    }
    Ok(earliest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_filled_if_its_last_segment_fits() {
        for (len, fits) in [
            (512, false),
            (16 << 10, true),
            (MAX_SEGMENT_LEN + 512, true),
            (9 * MAX_SEGMENT_LEN + 1, false),
            (1 << 62, true),
        ] {
            assert_eq!(can_fill(Lsn(512), Lsn(512 + len)), fits, "{len}");
        }
    }
}
