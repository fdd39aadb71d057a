//! Batches after damage, which no chain of links reaches.

use crate::error::Result;
use crate::scan::batch::ScanState;
use crate::scan::end_of_log::End;
use crate::scan::forward::Scan;
use crate::scan::resume::headers_beyond;
use crate::scan::walk::types::{Walk, WalkInput};
use crate::storage::segment::Segment;
use logforce_device::ReadSource;
use logforce_format::{BatchHeader, Control, Epoch, Lsn};

/// Returns true if a batch is part of the log, although no chain of links reaches it.
///
/// Batches that a crash has left after a torn batch stay on disk, and are valid except for their link: the
/// next opening overwrites only the torn batch. If that opening's first batch is damaged, nothing in the
/// dropped batches shows that they were dropped. But each opening first writes the anchor and its epoch to
/// the control file. So a batch above the anchor counts only if it belongs to the latest opening. Batches
/// below the anchor were durable.
fn counts(control: &Control, segment: &Segment, h: &BatchHeader, durable_to: Lsn) -> bool {
    // Without a control file the latest opening is unknown.
    match control.sequence > 0 && h.lsn >= control.anchor.lsn {
        true => h.epoch.counter >= control.epoch.counter,
        false => h.end(segment.header.write_unit) <= durable_to,
    }
}

/// Returns the LSN up to which stamps prove durability, and the latest batch that voids a range. Both come
/// from the end that an opening finds. If that is damage, the latest batch after it that counts is used, too.
pub(super) fn proof_beyond(input: &WalkInput<'_>, opening: &End) -> Result<(Lsn, Option<Lsn>)> {
    let mut proven = opening.proven;
    let mut state = opening.state;
    let Some(lost) = &opening.lost else {
        return Ok((proven, state.last_void));
    };
    let WalkInput {
        segments, control, ..
    } = *input;
    let mut proof_beyond: Option<BatchHeader> = None;
    headers_beyond(segments, state.at, control, state.epoch, &mut |s, h| {
        let order = |h: &BatchHeader| (h.epoch.counter, h.lsn);
        if counts(control, s, h, lost.durable_to) {
            proven = proven.max(h.stamp);
            if proof_beyond.as_ref().is_none_or(|l| order(h) > order(l)) {
                proof_beyond = Some(*h);
            }
        }
        true
    })?;
    if let Some(proof_beyond) = proof_beyond {
        let mut from = ScanState::unlinked(proof_beyond.lsn);
        from.last_void = Some(proof_beyond.last_void);
        let mut scan = Scan::new(segments, control, ReadSource::Cache, from)?;
        while let Ok(batch) = scan.next()? {
            proven = proven.max(batch.header.stamp);
        }
        state = scan.state;
    }
    Ok((proven, state.last_void))
}

/// Returns the next whole batch from `from` on that is part of the log. If a batch above it voids an unknown
/// range, only a batch from which a chain of links leads to that batch counts.
pub(super) fn next_batch_beyond(
    walk: &Walk<'_>,
    mut from: Lsn,
    last: Option<Epoch>,
) -> Result<Option<Lsn>> {
    let WalkInput {
        segments, control, ..
    } = walk.input;
    let known = &walk.voids;
    loop {
        let mut next = None;
        headers_beyond(segments, from, control, last, &mut |s, h| {
            let is_void = known.voids.covering(h.lsn).is_some();
            if counts(control, s, h, walk.proven_to) && !is_void {
                next = Some(h.lsn);
            }
            next.is_none()
        })?;
        let Some(next) = next else {
            return Ok(None);
        };
        let Some(unknown) = known.unknown.as_ref().filter(|lost| next < lost.lsn) else {
            return Ok(Some(next));
        };
        let state = ScanState::unlinked(next);
        let mut scan = Scan::new(segments, control, ReadSource::Cache, state)?;
        while scan.next()?.is_ok() {
            let at = scan.state.at;
            if at >= unknown.lsn || known.leads_to_log(at) {
                return Ok(Some(next));
            }
        }
        from = scan.state.at.max(next.plus(1));
    }
}
