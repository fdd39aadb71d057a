//! Decision where the log ends.
//!
//! A scan begins at the anchor: according to the control file, everything below it is durable. The scan stops
//! at the first position without a next batch. Then `resume.rs` searches for *stamps* beyond that position.
//! Each batch header carries the LSN that was durable when the batch was sealed. A stamp proves that
//! everything below its LSN was durable. Then the decision table (`format/src/decision.rs`) decides: the end
//! is a torn tail, which is cut off, or damage.

use crate::error::{Damage, Result};
use crate::scan::batch::{ScanState, Stop};
use crate::scan::coverage::gaps;
use crate::scan::forward::Scan;
use crate::scan::resume::stamp_beyond;
use crate::storage::segments::Segments;
use logforce_device::ReadSource;
use logforce_format::frame::Sequence;
use logforce_format::{
    BATCH_HEADER_LEN, BatchKind, Control, Decision, Epoch, Lsn, NextBatch, RecoveryCase, decide,
};
use std::collections::VecDeque;
use std::path::Path;

/// End of the log, and the evidence for it.
#[derive(Clone)]
pub(crate) struct End {
    pub(crate) state: ScanState,
    pub(crate) case: RecoveryCase,
    /// Highest LSN that is proven to have been durable.
    pub(crate) proven: Lsn,
    /// Last boundary at or below `proven`. From here the tail is read again, past the cache.
    pub(crate) reread_from: ScanState,
    /// Last boundary at or below `reread_from` that lies in no atomic append: a scan from an anchor within an
    /// append would reject the append's rest.
    pub(crate) reread_append_boundary: ScanState,
    /// Last boundary that lies in no atomic append.
    pub(crate) append_boundary: ScanState,
    /// End of the last batch that completes an append or a `truncate_back`. A stamp behind it does not count,
    /// because no later one proves it.
    pub(crate) appends_end: Lsn,
    pub(crate) lost: Option<Damage>,
    /// Segments that the scan has read, by start.
    pub(crate) read: Vec<Lsn>,
    pub(crate) scanned: u64,
    pub(crate) batches: u64,
    /// Number of ranges behind which the scan continued, because a repair has cut or an opening has skipped
    /// them.
    pub(crate) resumed: u64,
}

/// Returns the state from which an opening scans.
pub(crate) fn anchor_state(control: &Control) -> ScanState {
    let a = &control.anchor;
    ScanState {
        at: a.lsn,
        epoch: Some(a.epoch),
        prev_crc: Some(a.prev_crc),
        last_void: Some(a.last_void),
        sequence: Sequence::default(),
    }
}

/// Returns the state for a scan of the whole log.
///
/// A repair that ends the log below its front moves the front, and leaves void or empty segments below it.
/// Nothing there is part of the log. A scan from there would report the rest as lost.
pub(crate) fn first_state(segments: &Segments, control: &Control) -> ScanState {
    let front = segments.containing(control.front);
    if let Some(segment) = front.filter(|s| s.header.start > control.first_segment) {
        return ScanState::unlinked(segment.header.start);
    }
    let at_origin = control.first_segment == Lsn::ORIGIN;
    ScanState {
        at: control.first_segment,
        // A log that was truncated at the front begins with a batch of any epoch.
        epoch: at_origin.then(Epoch::default),
        // The checksum is unknown in salvage without a control file.
        prev_crc: (control.sequence > 0).then_some(control.first_prev_crc),
        last_void: at_origin.then_some(Lsn::ORIGIN),
        // The segment may begin within a record that began in a truncated segment.
        sequence: if at_origin {
            Sequence::default()
        } else {
            Sequence::unknown()
        },
    }
}

/// Scans from `state` to the end of the log. If a later opening has continued in another segment, the scan
/// continues there.
pub(crate) fn find_end(
    segments: &Segments,
    control: &Control,
    state: ScanState,
    both_slots: bool,
    path: &Path,
) -> Result<End> {
    let mut proven = state.at;
    let mut append_boundary = state;
    let mut appends_end = state.at;
    // Boundaries from the last proven one on, since each new stamp drops the earlier ones. Each has the last
    // boundary up to it that lies in no atomic append.
    let mut boundaries = VecDeque::from([(state, append_boundary)]);
    let mut read: Vec<Lsn> = Vec::new();
    let (mut scanned, mut batches, mut resumed) = (0, 0, 0);
    let mut scan = Scan::new(segments, control, ReadSource::Cache, state)?;
    let stop = loop {
        let (header, end) = match scan.next()? {
            Ok(batch) => {
                resumed += u64::from(batch.resumed);
                (batch.header, batch.end)
            }
            Err(stop) => break stop,
        };
        batches += 1;
        proven = proven.max(header.stamp);
        scanned += end.since(header.lsn);
        if let Some(s) = segments.containing(header.lsn)
            && read.last() != Some(&s.header.start)
        {
            read.push(s.header.start);
        }
        if scan.state.sequence.open_from().is_none() {
            append_boundary = scan.state;
        }
        // An append that is still open counts once it ends; one that ended in its batch counts now.
        let first = header.lsn.plus(BATCH_HEADER_LEN as u64);
        let open_from = scan.state.sequence.open_from();
        let completes = header.frames > 0 && open_from.is_none_or(|from| from > first);
        if completes || header.kind == BatchKind::Void {
            appends_end = end;
        }
        boundaries.push_back((scan.state, append_boundary));
        while boundaries.get(1).is_some_and(|(s, _)| s.at <= proven) {
            boundaries.pop_front();
        }
    };
    let hidden = unread_opening(&scan, control, state.at);
    let start = state;
    let mut state = scan.state;
    if let Some(s) = segments.containing(stop.at)
        && !read.contains(&s.header.start)
    {
        read.push(s.header.start);
    }
    // After a clean close, nothing lies above the anchor. That counts only if both slots are valid: if the
    // newer slot is damaged, the older one may be from an earlier clean close. That takes a device that has
    // lost the write of one slot and damaged the other. No test can show that a record is lost otherwise,
    // since an opening writes the same bytes, not clean, to both slots before its first batch: a single
    // valid slot is then correct.
    let closed_cleanly = control.clean && both_slots && state.at == control.anchor.lsn;
    let stamp = if closed_cleanly {
        None
    } else {
        stamp_beyond(segments, stop.at, control, state.epoch)?
    };
    // The anchor proves durability as a stamp does: a scan that stops below it has found damage.
    let below = stop.at < control.anchor.lsn;
    let seen = match stop.seen {
        // The log was closed cleanly here, so no record lies here, and the next batch overwrites the sector.
        // A failure would make an intact log unusable because of a sector that was never used.
        NextBatch::Unreadable if closed_cleanly => NextBatch::Blank,
        seen => seen,
    };
    let case = decide(seen, below || stamp.is_some(), false);
    let durable_to = proven.max(stamp.unwrap_or(Lsn::ORIGIN));
    let (case, stop) = match hidden {
        // The latest opening began at the anchor. The records after the anchor were not acknowledged, or were
        // cut. They must not come back because the batch that voids them cannot be read.
        Some(hidden) => {
            state = start;
            append_boundary = start;
            appends_end = start.at;
            boundaries = VecDeque::from([(start, start)]);
            proven = start.at;
            match case.decision() {
                Decision::Refuse => (case, stop),
                _ => (decide(hidden.seen, true, false), hidden),
            }
        }
        None => (case, stop),
    };
    let lost = match case.decision() {
        Decision::Refuse => Some(damage(path, segments, &stop, case, durable_to)),
        _ => None,
    };
    let (reread_from, reread_append_boundary) = boundaries
        .front()
        .copied()
        .unwrap_or((state, append_boundary));
    Ok(End {
        state,
        case,
        proven,
        reread_from,
        reread_append_boundary,
        append_boundary,
        appends_end,
        lost,
        read,
        scanned,
        batches,
        resumed,
    })
}

/// Returns the position at which the first batch of the latest opening may lie, if `scan`, which began at
/// `from`, has not found that batch: in a missing segment, or in one whose first batch cannot be read.
fn unread_opening(scan: &Scan<'_>, control: &Control, from: Lsn) -> Option<Stop> {
    let met = scan
        .state
        .epoch
        .is_none_or(|e| e.counter >= control.epoch.counter);
    if met || from != control.anchor.lsn {
        return None;
    }
    let unread = scan.unread_starts().first();
    let unread = unread.map(|(at, lost)| Stop {
        at: *at,
        seen: lost.seen,
        found: format!("the latest opening may begin here: {}", lost.found),
    });
    let gap = || {
        let &(at, _) = gaps(scan.segments(), control).first()?;
        Some(Stop {
            at,
            seen: NextBatch::NoSegment,
            found: "the latest opening may begin here, but this segment is missing".to_owned(),
        })
    };
    unread.or_else(gap)
}

/// Describes the damage at which a scan stopped.
pub(crate) fn damage(
    path: &Path,
    segments: &Segments,
    stop: &Stop,
    case: RecoveryCase,
    durable_to: Lsn,
) -> Damage {
    let segment = segments.containing(stop.at);
    Damage {
        lsn: stop.at,
        case,
        path: path.to_owned(),
        file: segment.as_ref().map(|s| s.name()),
        offset: segment.as_ref().map_or(0, |s| s.offset(stop.at)),
        found: stop.found.clone(),
        durable_to,
        in_reading: false,
        repairable: true,
        needed_from: None,
    }
}
