//! Decides where the log ends.
//!
//! A scan begins at the anchor (a position below which the control file knows everything to be
//! durable) and stops at the first position without a next batch. Then `resume.rs` looks beyond it for
//! *stamps*: each batch header carries the durable LSN of its time, so one found further on proves
//! that what lies below it had been durable. With that the decision table (`format/src/decision.rs`)
//! says whether it is a torn tail, which is cut off, or damage.

use crate::error::{Damage, Result};
use crate::scan::batch::{ScanState, Stop};
use crate::scan::coverage::gaps;
use crate::scan::forward::Scan;
use crate::scan::resume::stamp_beyond;
use crate::storage::segments::Segments;
use logforce_device::ReadSource;
use logforce_format::frame::Sequence;
use logforce_format::{Control, Decision, Epoch, Lsn, NextBatch, RecoveryCase, decide};
use std::collections::VecDeque;
use std::path::Path;

/// Where the log ends, and the evidence.
#[derive(Clone)]
pub(crate) struct End {
    pub(crate) state: ScanState,
    pub(crate) case: RecoveryCase,
    /// The highest position that is proven to have been durable.
    pub(crate) proven: Lsn,
    /// The last boundary at or below `proven`. From here the tail is read again, past the cache.
    pub(crate) reread_from: ScanState,
    /// The last boundary at or below it that lies in no atomic append: a scan from an anchor within
    /// an append would reject the append's rest.
    pub(crate) reread_append_boundary: ScanState,
    /// The last boundary that lies in no atomic append.
    pub(crate) append_boundary: ScanState,
    pub(crate) lost: Option<Damage>,
    /// Segments that the scan has read, by start.
    pub(crate) read: Vec<Lsn>,
    pub(crate) scanned: u64,
    pub(crate) batches: u64,
    /// Number of ranges that a repair has cut, or an opening has skipped, behind which the scan went on.
    pub(crate) resumed: u64,
}

/// The state from which an opening scans.
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

/// The state for a scan of everything.
///
/// A repair that ends the log below its front moves the front, and leaves the segments below it, void or
/// empty. Nothing there is part of the log, and a scan from there would report the rest as lost.
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
        // Salvage without a control file does not know it.
        prev_crc: (control.sequence > 0).then_some(control.first_prev_crc),
        last_void: at_origin.then_some(Lsn::ORIGIN),
        // It may begin in the middle of a record that spans a truncated segment and this one.
        sequence: if at_origin {
            Sequence::default()
        } else {
            Sequence::unknown()
        },
    }
}

/// Scans from `state` to the end of the log, and follows where later openings have continued
/// elsewhere.
pub(crate) fn find_end(
    segments: &Segments,
    control: &Control,
    state: ScanState,
    both_slots: bool,
    path: &Path,
) -> Result<End> {
    let mut proven = state.at;
    // Boundaries from the last proven one on; each new stamp drops the earlier ones.
    let mut append_boundary = state;
    // Each with the last one before it that lies in no atomic append.
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
    // A clean close says that nothing lies above the anchor. That counts only if both slots are
    // valid: if the newer slot is damaged, the older may be from an earlier clean close. No test can
    // show that a record is lost otherwise: an opening writes the same bytes, not clean, to both
    // slots before its first batch, so a slot that is left alone is right. This is for a device that
    // has lost the write of one slot and damaged the other.
    let closed_cleanly = control.clean && both_slots && state.at == control.anchor.lsn;
    let stamp = if closed_cleanly {
        None
    } else {
        stamp_beyond(segments, stop.at, control, state.epoch)?
    };
    // The anchor proves as much as a stamp: a scan that stops below it has found damage.
    let below = stop.at < control.anchor.lsn;
    let seen = match stop.seen {
        // A clean close ended here, so no record lies here, and the next batch overwrites it.
        // Failing would deny the owner an intact log because of a sector that was never used.
        NextBatch::Unreadable if closed_cleanly => NextBatch::Blank,
        seen => seen,
    };
    let case = decide(seen, below || stamp.is_some(), false);
    let durable_to = proven.max(stamp.unwrap_or(Lsn::ORIGIN));
    let (case, stop) = match hidden {
        // That opening began at the anchor: what lies after it was not acknowledged, or was
        // cut. It must not come back because the batch that voids it cannot be read.
        Some(hidden) => {
            state = start;
            append_boundary = start;
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
        lost,
        read,
        scanned,
        batches,
        resumed,
    })
}

/// Where the first batch of the latest opening may lie, if `scan`, which began at `from`, has not
/// found it: in a segment that is missing, or whose first batch cannot be read.
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
            found: "the latest opening may begin here, and this segment is missing".to_owned(),
        })
    };
    unread.or_else(gap)
}

/// Describes damage where a scan stopped.
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
