//! Where the log ends: the scan from the anchor, the decision table, and the list of void ranges.

use crate::error::{Damage, Error, Result};
use crate::options::OnDamage;
use crate::scan::batch::{ScanState, Stop};
use crate::scan::coverage::gaps;
use crate::scan::forward::Scan;
use crate::scan::resume::{closed_cuts, headers_behind, stamp_behind};
use crate::storage::segments::Segments;
use crate::storage::window::Window;
use logforce_device::ReadSource;
use logforce_format::frame::Sequence;
use logforce_format::{
    BATCH_HEADER_LEN, BatchHeader, Control, Decision, Epoch, Lsn, RecoveryCase, Seen, decide,
};
use std::collections::VecDeque;
use std::path::Path;

/// Where the log ends and how we know.
#[derive(Clone)]
pub(crate) struct End {
    pub(crate) state: ScanState,
    pub(crate) case: RecoveryCase,
    /// The highest position known to have been durable.
    pub(crate) trusted: Lsn,
    /// The boundary at or below `trusted` from which the tail is read again.
    pub(crate) settled: ScanState,
    /// The last boundary at or below it where no append was open: an anchor in the middle of an
    /// append would make its rest look like the beginning of nothing.
    pub(crate) settled_closed: ScanState,
    /// The last boundary at which no append is begun and not ended.
    pub(crate) closed: ScanState,
    pub(crate) lost: Option<Damage>,
    /// Segments that were read from, by start.
    pub(crate) read: Vec<Lsn>,
    pub(crate) scanned: u64,
    pub(crate) batches: u64,
    pub(crate) resumed: u64,
}

/// The state from which the scan at opening starts.
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
/// An opening that had to give up all there was moves the front and leaves the segments below it,
/// which are kept, or empty: nothing there is part of the log, and a scan that began there would call
/// the rest lost.
pub(crate) fn first_state(segments: &Segments, control: &Control) -> ScanState {
    let front = segments.containing(control.front);
    if let Some(segment) = front.filter(|s| s.header.start > control.first_segment) {
        return ScanState::unlinked(segment.header.start);
    }
    let virgin = control.first_segment == Lsn::ORIGIN;
    ScanState {
        at: control.first_segment,
        // A log that was truncated at the front begins with a batch of any of its epochs.
        epoch: virgin.then(Epoch::default),
        // In salvage there is no control file to know it from.
        prev_crc: (control.sequence > 0).then_some(control.first_prev_crc),
        last_void: virgin.then_some(Lsn::ORIGIN),
        // And in the middle of a record, if one spans the segments that are gone and this one.
        sequence: if virgin {
            Sequence::default()
        } else {
            Sequence::unknown()
        },
    }
}

/// Scans from `state` to the log's end, jumping where a later opening did.
pub(crate) fn find_end(
    segments: &Segments,
    control: &Control,
    state: ScanState,
    both_slots: bool,
    path: &Path,
    on_damage: OnDamage,
) -> Result<End> {
    let mut trusted = state.at;
    // Boundaries from the last trusted one on; a stamp that is found lets the earlier ones go.
    let mut closed = state;
    // Each with the last one before it where no append was open.
    let mut boundaries = VecDeque::from([(state, closed)]);
    let mut read: Vec<Lsn> = Vec::new();
    let (mut scanned, mut batches, mut resumed) = (0, 0, 0);
    let mut scan = Scan::new(segments, control, ReadSource::Cache, state)?;
    let closed_cuts = closed_cuts(segments, control, ReadSource::Cache)?;
    let stop = loop {
        let at = scan.state.at;
        if let Some(stop) = given_up(&closed_cuts, at)
            && !scan.resumes()
        {
            break stop;
        }
        let (header, end) = match scan.next()? {
            Ok(batch) => {
                resumed += u64::from(batch.resumed);
                (batch.header, batch.end)
            }
            Err(stop) => break stop,
        };
        batches += 1;
        trusted = trusted.max(header.stamp);
        scanned += end.since(header.lsn);
        if let Some(s) = segments.containing(header.lsn)
            && read.last() != Some(&s.header.start)
        {
            read.push(s.header.start);
        }
        if scan.state.sequence.open_from().is_none() {
            closed = scan.state;
        }
        boundaries.push_back((scan.state, closed));
        while boundaries.get(1).is_some_and(|(s, _)| s.at <= trusted) {
            boundaries.pop_front();
        }
    };
    let hidden = hidden_opening(&scan, control, state.at);
    let began = state;
    let mut state = scan.state;
    if let Some(s) = segments.containing(stop.at)
        && !read.contains(&s.header.start)
    {
        read.push(s.header.start);
    }
    // A close in order says that nothing lies above the anchor; its word is good only while
    // the other slot is whole too.
    let closed_here = control.clean && both_slots && state.at == control.anchor.lsn;
    let stamp = if closed_here {
        None
    } else {
        stamp_behind(segments, stop.at, control, state.epoch)?
    };
    // The anchor is as good as a stamp: below it a scan gets only where something is lost.
    let below = stop.at < control.anchor.lsn;
    let seen = match stop.seen {
        // The close came to this place and found nothing to keep: no record can be there, and the
        // next batch is written over it. To refuse would lock the owner out of a whole log, for a
        // sector that was never used.
        Seen::Unreadable if closed_here => Seen::Blank,
        seen => seen,
    };
    let case = decide(seen, below || stamp.is_some(), false);
    let durable_to = trusted.max(stamp.unwrap_or(Lsn::ORIGIN));
    let (case, stop) = match hidden {
        // The anchor is where that opening began: what lies behind it was not acknowledged, or was
        // given up. It must not come back because the batch that says so cannot be read.
        Some(hidden) => {
            state = began;
            closed = began;
            boundaries = VecDeque::from([(began, began)]);
            trusted = began.at;
            match case.decision() {
                Decision::Refuse => (case, stop),
                _ => (decide(hidden.seen, true, false), hidden),
            }
        }
        None => (case, stop),
    };
    let lost = match case.decision() {
        Decision::Refuse => {
            let d = damage(path, segments, &stop, case, durable_to);
            if on_damage == OnDamage::Refuse {
                return Err(Error::Damaged(Box::new(d)));
            }
            Some(d)
        }
        _ => None,
    };
    let (settled, settled_closed) = boundaries.front().copied().unwrap_or((state, closed));
    Ok(End {
        state,
        case,
        trusted,
        settled,
        settled_closed,
        closed,
        lost,
        read,
        scanned,
        batches,
        resumed,
    })
}

/// An opening went on elsewhere from `at`, and where it did cannot be read.
fn given_up(closed: &[(Lsn, Lsn)], at: Lsn) -> Option<Stop> {
    let &(_, to) = closed.iter().find(|(from, to)| *from <= at && at < *to)?;
    Some(Stop {
        at,
        seen: Seen::NoSegment,
        found: format!(
            "what follows was given up at damage by an earlier opening, and the segment where the log went on, at LSN {to}, cannot be read"
        ),
    })
}

/// Where the first batch of the latest opening may lie that `scan`, which began at `from`, did not
/// meet: in a segment that is missing, or whose beginning the medium does not give back.
fn hidden_opening(scan: &Scan<'_>, control: &Control, from: Lsn) -> Option<Stop> {
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
            seen: Seen::NoSegment,
            found: "the latest opening may begin here, and this segment is missing".to_owned(),
        })
    };
    unread.or_else(gap)
}

/// Describes where a scan stopped.
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
        truncatable: true,
    }
}

/// Where the earliest range begins that was taken back by a batch behind `end`, below which the log
/// is about to be cut. What is cut must not bring back what had been taken back: the ranges that
/// can still be read of go on being void.
///
/// They are listed by the last batch there is of this history; where that is cannot be known better
/// than by the headers that lie behind, or by the anchor.
pub(crate) fn taken_back_behind(
    segments: &Segments,
    control: &Control,
    end: &ScanState,
) -> Result<Option<Lsn>> {
    let anchor = &control.anchor;
    let mut last = (anchor.epoch.counter, anchor.lsn, anchor.last_void);
    headers_behind(segments, end.at, control, end.epoch, &mut |_, h| {
        let void = if h.voids() { h.lsn } else { h.last_void };
        if (h.epoch.counter, h.lsn) >= (last.0, last.1) {
            last = (h.epoch.counter, h.lsn, void);
        }
        true
    })?;
    let mut at = last.2;
    let mut earliest: Option<Lsn> = None;
    let mut window = Window::new(ReadSource::Cache);
    while at >= end.at {
        let Some(segment) = segments.containing(at) else {
            break;
        };
        let bytes = window.get(&segment, segment.offset(at), BATCH_HEADER_LEN)?;
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
