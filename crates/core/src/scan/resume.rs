use crate::error::Result;
use crate::scan::batch::ScanState;
use crate::storage::reads::Lost;
use crate::storage::segment::Segment;
use crate::storage::segments::Segments;
use crate::storage::window::Window;
use logforce_device::ReadSource;
use logforce_format::frame::Sequence;
use logforce_format::{
    BATCH_HEADER_LEN, BatchHeader, BatchKind, Control, Epoch, Lsn, align_up, planted,
};
use std::sync::Arc;

/// Looks at every write unit from `from` up for batch headers of this log that lie where they say,
/// whose epoch is known to the control file (or is `last`, that of the last valid batch) and not
/// lower than `last`'s. Calls `visit` for each until it answers `false`.
///
/// Every unit, not every batch: where a header is damaged its length says nothing. Units that the
/// medium does not give back are passed over; they can hide a stamp, but so can any other loss.
pub(crate) fn headers_behind(
    segments: &Segments,
    from: Lsn,
    control: &Control,
    last: Option<Epoch>,
    visit: &mut dyn FnMut(&Arc<Segment>, &BatchHeader) -> bool,
) -> Result<()> {
    let mut window = Window::new(ReadSource::Cache);
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
        while at < segment.header.end() {
            if let Ok(bytes) = window.get(segment, segment.offset(at), BATCH_HEADER_LEN)?
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

/// The highest stamp above `at` that lies behind it, if there is one: proof that what was at `at`
/// had been durable.
pub(crate) fn stamp_behind(
    segments: &Segments,
    at: Lsn,
    control: &Control,
    last: Option<Epoch>,
) -> Result<Option<Lsn>> {
    let mut highest = None;
    if planted!("stamps-not-searched") {
        return Ok(None);
    }
    headers_behind(segments, at, control, last, &mut |_, h| {
        if h.stamp > at {
            highest = highest.max(Some(h.stamp));
        }
        true
    })?;
    Ok(highest)
}

/// Epoch batches at the beginning of segments by which an opening gave up a position further down.
#[derive(Default)]
pub(crate) struct Resumptions {
    found: Vec<BatchHeader>,
    anchor: Lsn,
    /// First batches that the medium does not give back: each may be one.
    unread: Vec<(Lsn, Lost)>,
}

impl Resumptions {
    /// Looks at the first batch of every segment above `from`, where the scan itself reads: after
    /// a failed barrier the cache shows an epoch batch that the medium never got.
    pub(crate) fn above(
        segments: &Segments,
        from: Lsn,
        control: &Control,
        source: ReadSource,
    ) -> Result<Self> {
        let mut window = Window::new(source);
        // One header of each segment, and nothing behind it.
        window.limit(BATCH_HEADER_LEN as u64);
        let mut resumptions = Resumptions {
            anchor: control.anchor.lsn,
            ..Resumptions::default()
        };
        for segment in segments.above(from) {
            let first = segment.header.first_batch();
            let offset = segment.offset(first);
            let bytes = match window.get(&segment, offset, BATCH_HEADER_LEN)? {
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

    /// The one that goes on from `state`: it names the batch that ends there as its predecessor,
    /// and voids what follows. It counts even where the next batch is there after all: what was
    /// given up once, perhaps for a read error that has passed, must not come back.
    ///
    /// None leads past the anchor: an opening that gives something up puts the anchor there first.
    pub(crate) fn at(&self, state: &ScanState) -> Option<ScanState> {
        if planted!("resumption-ignored") {
            return None;
        }
        let goes_on = |h: &&BatchHeader| {
            h.lsn > state.at
                && h.void_from <= state.at
                && (h.lsn <= self.anchor || self.anchor <= state.at)
                && Some(h.prev_crc) == state.prev_crc
                && Some(h.prev_epoch) == state.epoch
        };
        // Of several the latest: it was written because those before it could not be read, and gave
        // up what they had gone on with.
        let all = self.found.iter().filter(goes_on);
        let h = all.max_by_key(|h| h.epoch.counter)?;
        Some(ScanState {
            at: h.lsn,
            sequence: Sequence::default(),
            ..*state
        })
    }

    /// The latest one that gives up `at` though a batch ended there that was read: the log was
    /// truncated at damage further down.
    pub(crate) fn cutting(&self, at: Lsn, control: &Control) -> Option<Lsn> {
        let cutting = |h: &&BatchHeader| h.void_from < at && at < h.lsn && control.knows(h.epoch);
        let latest = self.found.iter().filter(cutting);
        latest.max_by_key(|h| h.epoch.counter).map(|h| h.lsn)
    }
}

/// Ranges that openings gave up at damage, and of which only their markers say so now: the segment
/// where the log went on is missing, or its first batch is not given back, or is not what it was. What
/// lies in them must not come back because of that, however well it can be read again. Where that
/// batch was never written the opening went no further, and the range was not given up.
pub(crate) fn closed_cuts(
    segments: &Segments,
    control: &Control,
    source: ReadSource,
) -> Result<Vec<(Lsn, Lsn)>> {
    let (mut closed, mut window) = (Vec::new(), Window::new(source));
    for &(from, to) in &segments.cuts {
        let is_closed = match segments.containing(to) {
            None => to < control.prepared_end,
            Some(s) => match window.get(&s, s.offset(to), BATCH_HEADER_LEN)? {
                Err(_) => true,
                Ok(bytes) => !is_batch(bytes, control, to) && went_on(segments, &s, control, to)?,
            },
        };
        if is_closed && !planted!("marker-ignored") {
            closed.push((from, to));
        }
    }
    Ok(closed)
}

fn is_batch(bytes: &[u8], control: &Control, at: Lsn) -> bool {
    BatchHeader::decode(bytes).is_ok_and(|h| h.log_id == control.log_id && h.lsn == at)
}

/// Whether an opening that was to go on at `to`, in a segment that it made for that, has done so: its
/// first batch was forced before anything else was written there, and before the anchor names it.
fn went_on(
    segments: &Segments,
    segment: &Arc<Segment>,
    control: &Control,
    to: Lsn,
) -> Result<bool> {
    if control.anchor.last_void == to {
        return Ok(true);
    }
    let mut found = false;
    headers_behind(segments, to.plus(1), control, None, &mut |s, _| {
        found = s.header.start == segment.header.start;
        false
    })?;
    Ok(found)
}
