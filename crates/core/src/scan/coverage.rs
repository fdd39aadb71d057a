//! Coverage of the log by segments: the parts that have a segment, and the parts that must have one.

use crate::error::{Damage, Error, Result};
use crate::names;
use crate::storage::control_file::check_counter;
use crate::storage::read_buffer::ReadBuffer;
use crate::storage::segment::Segment;
use crate::storage::segments::Segments;
use logforce_device::ReadSource;
use logforce_format::{
    BATCH_HEADER_LEN, BatchHeader, Control, Lsn, MIN_WRITE_UNIT, NextBatch, RecoveryCase,
};
use std::path::Path;
use std::sync::Arc;

/// Includes segments that contain data above the last one that the control file lists. If one slot of the
/// control file is damaged, the other may be older, and not list segments with acknowledged records. The same
/// is true for a control file restored from a copy.
///
/// A crash leaves only unused segments there, and an opening of another process removes those. A reader holds
/// no lock (`locked` is false): for it, a segment that vanished after it was listed was unused.
pub(crate) fn adopt(
    segments: &Segments,
    control: &mut Control,
    both_slots: bool,
    locked: bool,
) -> Result<()> {
    let mut read_buffer = ReadBuffer::new(ReadSource::Cache);
    let mut next = control.prepared_end;
    for segment in segments.all() {
        if segment.header.start < control.prepared_end {
            continue;
        }
        let follows = !both_slots && segment.header.start == next;
        if follows || is_used(&mut read_buffer, &segment, control, locked)? {
            next = segment.header.end();
        }
    }
    if next > control.prepared_end || !both_slots {
        // The control file is, or may be, older than the log, and so is its write limit.
        control.write_limit = Lsn::ORIGIN;
    }
    // A gap in between is reported as a lost segment.
    control.prepared_end = next;
    Ok(())
}

/// Rejects segments whose header places them below the first listed one, but whose name does not. Does so
/// only if a part of the log is, or may be, missing. Such a header may be the one of a truncated segment that
/// used the file before: the device has lost the write of the new header.
pub(crate) fn reject_misnamed(segments: &mut Segments, control: &Control, both_slots: bool) {
    if both_slots && gaps(segments, control).is_empty() {
        return;
    }
    segments.reject(|segment| {
        let (start, end) = (segment.header.start, segment.header.end());
        let is_misnamed = names::claimed_start(&segment.name()) != Some(start);
        (end <= control.first_segment && is_misnamed).then(|| {
            format!("its header says that it is the truncated segment [{start}, {end}), but its name does not")
        })
    });
}

/// Returns true if the segment contains its first batch, or cannot be read; see [`adopt`].
fn is_used(
    read_buffer: &mut ReadBuffer,
    segment: &Arc<Segment>,
    control: &Control,
    locked: bool,
) -> Result<bool> {
    let first = segment.header.first_batch();
    let bytes = match read_buffer.get(segment, segment.offset(first), BATCH_HEADER_LEN)? {
        Ok(bytes) => bytes,
        Err(lost) => return Ok(locked || lost.seen != NextBatch::NoSegment),
    };
    let header = BatchHeader::decode(bytes);
    Ok(header.is_ok_and(|h| h.log_id == control.log_id && h.lsn == first))
}

/// Fails if, according to the control file, the segments begin or end within a segment, or a batch ends where
/// none can. Otherwise a segment prepared there would overlap another one, and the next opening could not
/// find its records.
pub(crate) fn check_bounds(segments: &Segments, control: &Control, path: &Path) -> Result<()> {
    let damaged = |lsn: Lsn, file: String, found: String| {
        Err(Error::Damaged(Box::new(Damage {
            lsn,
            case: RecoveryCase::SegmentLost,
            path: path.to_owned(),
            file: Some(file),
            offset: 0,
            found,
            durable_to: Lsn::ORIGIN,
            in_reading: false,
            repairable: false,
            needed_from: None,
        })))
    };
    let bounds = [
        ("begin", control.first_segment),
        ("end", control.prepared_end),
    ];
    for (how, lsn) in bounds {
        if !lsn.0.is_multiple_of(u64::from(MIN_WRITE_UNIT)) {
            let found = format!("it says that segments {how} at LSN {lsn}, where none can {how}");
            return damaged(lsn, names::CONTROL.to_owned(), found);
        }
        if let Some(segment) = segments.containing(lsn).filter(|s| s.header.start < lsn) {
            let found = format!(
                "it claims [{}, {}) of the log, but the control file says that the segments {how} at {lsn}",
                segment.header.start,
                segment.header.end()
            );
            return damaged(lsn, segment.name(), found);
        }
    }
    // No batch ends between a segment's start and its first batch. If the write unit in the header is wrong,
    // the opening would write its first batch at a position that readers do not accept. They would refuse all
    // later commits.
    let anchor = control.anchor.lsn;
    if let Some(segment) = segments.containing(anchor) {
        let first = segment.header.first_batch();
        if segment.header.start < anchor && anchor <= first {
            let found = format!(
                "according to its header no batch ends at or below LSN {first}, but according to the control file one ends at {anchor}"
            );
            return damaged(anchor, segment.name(), found);
        }
    }
    Ok(())
}

/// Fails if a counter of the control file is impossibly high. Otherwise the next opening, slot or segment
/// could not have a higher one.
pub(crate) fn check_counters(control: &Control, path: &Path) -> Result<()> {
    for (counter, of) in [
        (control.sequence, "changes of this file"),
        (control.prepared_end.0, "bytes of log"),
        (control.epoch.counter, "openings"),
    ] {
        check_counter(counter, of, path)?;
    }
    Ok(())
}

/// Returns the parts of `[first_segment, prepared_end)` that no segment contains.
pub(crate) fn gaps(segments: &Segments, control: &Control) -> Vec<(Lsn, Lsn)> {
    let mut gaps = Vec::new();
    let mut at = control.first_segment;
    for segment in segments.all() {
        if segment.header.start > at && at < control.prepared_end {
            gaps.push((at, segment.header.start.min(control.prepared_end)));
        }
        at = at.max(segment.header.end());
    }
    if at < control.prepared_end {
        gaps.push((at, control.prepared_end));
    }
    gaps
}

/// Adds the description of [`lost_segment`] to the damage of a scan, which found only that a segment is
/// missing.
pub(crate) fn name_lost(path: &Path, segments: &Segments, lost: &mut Damage, control: &Control) {
    if lost.case == RecoveryCase::SegmentLost && lost.file.is_none() {
        let named = lost_segment(path, segments, lost.lsn, control);
        lost.file = named.file;
        lost.found = format!("{}: {}", lost.found, named.found);
    }
}

/// Describes the segment that is missing or has a damaged header. Uses the listing on which the decision was
/// based, because another listing may contain other files.
pub(crate) fn lost_segment(
    path: &Path,
    segments: &Segments,
    lsn: Lsn,
    control: &Control,
) -> Damage {
    // The anchor may lie within a missing part. No segment begins there.
    let gaps = gaps(segments, control);
    let gap = gaps.iter().find(|(from, to)| *from <= lsn && lsn < *to);
    let start = gap.map_or(lsn, |(from, _)| *from);
    let rejected = |start: Lsn| {
        let mut all = segments.rejected.iter();
        all.find(|(name, _)| names::claimed_start(name) == Some(start))
    };
    let (file, found) = match rejected(lsn).or_else(|| rejected(start)) {
        Some((name, why)) => (
            Some(name.clone()),
            format!("this segment is unusable: {why}"),
        ),
        None => (
            Some(names::segment(start)),
            describe_missing(segments, start, control),
        ),
    };
    Damage {
        lsn,
        case: RecoveryCase::SegmentLost,
        path: path.to_owned(),
        file,
        offset: 0,
        found,
        durable_to: control.anchor.lsn,
        in_reading: false,
        repairable: true,
        needed_from: None,
    }
}

/// Describes a segment whose file name does not exist. It may be an unusable file with another name.
fn describe_missing(segments: &Segments, lsn: Lsn, control: &Control) -> String {
    let mut found = format!(
        "the control file says that segments up to LSN {} exist, but this one is missing",
        control.prepared_end
    );
    let name = names::segment(lsn);
    if let Some(other) = segments.all().iter().find(|s| s.name() == name) {
        let (start, end) = (other.header.start, other.header.end());
        found += &format!("; the file of this name holds [{start}, {end})");
    }
    const NAMED: usize = 3;
    for (name, why) in segments.rejected.iter().take(NAMED) {
        found += &format!("; {name} is unusable: {why}");
    }
    let more = segments.rejected.len().saturating_sub(NAMED);
    if more > 0 {
        found += &format!("; {more} more files are unusable");
    }
    found
}
