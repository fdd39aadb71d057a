use crate::scan::{ScanState, Window};
use crate::segments::{Segment, Segments};
use logforce_device::ReadSource;
use logforce_format::{BATCH_HEADER_LEN, BatchHeader, BatchKind, Control, Epoch, Lsn};
use std::sync::Arc;

/// Looks at every write unit from `from` up for batch headers of this log that lie where they say,
/// whose epoch is known to the control file (or is `last`, that of the last valid batch) and not
/// lower than `last`'s. Calls `visit` for each until it answers `false`.
///
/// Every unit, not every batch: where a header is damaged its length says nothing. Units that
/// cannot be read are passed over; they can hide a stamp, but so can any other loss.
pub(crate) fn headers_behind(
    segments: &Segments,
    from: Lsn,
    control: &Control,
    last: Option<Epoch>,
    visit: &mut dyn FnMut(&Arc<Segment>, &BatchHeader) -> bool,
) {
    let mut window = Window::new(ReadSource::Cache);
    let mut list = segments.above(from);
    if let Some(first) = segments.containing(from) {
        list.retain(|s| s.header.start != first.header.start);
        list.insert(0, first);
    }
    for segment in &list {
        let unit = u64::from(segment.header.write_unit);
        let mut at = from.max(segment.header.first_batch());
        while at < segment.header.end() {
            if let Ok(bytes) = window.get(segment, segment.offset(at), BATCH_HEADER_LEN)
                && let Ok(h) = BatchHeader::decode(bytes)
                && h.log_id == control.log_id
                && h.lsn == at
                && h.epoch.counter >= last.map_or(0, |e| e.counter)
                && (Some(h.epoch) == last || control.knows(h.epoch))
                && !visit(segment, &h)
            {
                return;
            }
            at = at.plus(unit);
        }
    }
}

/// The highest stamp above `at` that lies behind it, if there is one: proof that what was at `at`
/// had been durable.
pub(crate) fn stamp_behind(
    segments: &Segments,
    at: Lsn,
    control: &Control,
    last: Option<Epoch>,
) -> Option<Lsn> {
    let mut highest = None;
    headers_behind(segments, at, control, last, &mut |_, h| {
        if h.stamp > at {
            highest = highest.max(Some(h.stamp));
        }
        true
    });
    highest
}

/// The epoch batch at the beginning of a later segment by which a later opening gave up `at`.
pub(crate) fn resumed_at(
    segments: &Segments,
    state: &ScanState,
    at: Lsn,
    control: &Control,
) -> Option<BatchHeader> {
    let (epoch, prev_crc) = (state.epoch?, state.prev_crc?);
    let mut window = Window::new(ReadSource::Cache);
    segments.above(at).iter().find_map(|segment| {
        let first = segment.header.first_batch();
        let bytes = window
            .get(segment, segment.offset(first), BATCH_HEADER_LEN)
            .ok()?;
        let h = BatchHeader::decode(bytes).ok()?;
        let links = h.kind == BatchKind::Epoch
            && h.log_id == control.log_id
            && h.lsn == first
            && h.voids()
            && h.void_from <= at
            && h.prev_crc == prev_crc
            && h.prev_epoch == epoch
            && h.end(segment.header.write_unit) <= segment.header.end();
        links.then_some(h)
    })
}
