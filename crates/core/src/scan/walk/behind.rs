//! What lies behind damage, where nothing leads to it.

use crate::error::Result;
use crate::scan::batch::ScanState;
use crate::scan::end_of_log::End;
use crate::scan::forward::Scan;
use crate::scan::resume::headers_behind;
use crate::scan::walk::ground::{Ground, Walk};
use crate::storage::segment::Segment;
use logforce_device::ReadSource;
use logforce_format::{BatchHeader, Control, Epoch, Lsn};

/// Whether a batch counts, though nothing leads to it.
///
/// What a crash left behind a torn batch stays where it lies, whole but for its link: the next
/// opening writes over the torn batch, and over no more. Where that opening's own first batch is
/// damaged, nothing in what it had given up says so. But each opening puts the anchor, and its epoch,
/// into the control file before it writes: what lies above the anchor counts only if it is of the
/// latest opening. What lies below was durable.
fn counts(control: &Control, segment: &Segment, h: &BatchHeader, durable_to: Lsn) -> bool {
    // Without a control file nobody knows the latest opening.
    match control.sequence > 0 && h.lsn >= control.anchor.lsn {
        true => h.epoch.counter >= control.epoch.counter,
        false => h.end(segment.header.write_unit) <= durable_to,
    }
}

/// What stamps prove, and the latest batch that voids something: by where an opening ends, or, where
/// it ends at damage, by the latest batch behind that counts.
pub(super) fn latest(ground: &Ground<'_>, opening: &End) -> Result<(Lsn, Option<Lsn>)> {
    let mut proven = opening.trusted;
    let mut state = opening.state;
    let Some(lost) = &opening.lost else {
        return Ok((proven, state.last_void));
    };
    let Ground {
        segments, control, ..
    } = *ground;
    let mut latest: Option<BatchHeader> = None;
    headers_behind(segments, state.at, control, state.epoch, &mut |s, h| {
        let order = |h: &BatchHeader| (h.epoch.counter, h.lsn);
        if counts(control, s, h, lost.durable_to) {
            proven = proven.max(h.stamp);
            if latest.as_ref().is_none_or(|l| order(h) > order(l)) {
                latest = Some(*h);
            }
        }
        true
    })?;
    if let Some(latest) = latest {
        let mut from = ScanState::unlinked(latest.lsn);
        from.last_void = Some(latest.last_void);
        let mut scan = Scan::new(segments, control, ReadSource::Cache, from)?;
        while let Ok(batch) = scan.next()? {
            proven = proven.max(batch.header.stamp);
        }
        state = scan.state;
    }
    Ok((proven, state.last_void))
}

/// The next whole batch from `from` on that is part of the log: not where something took back
/// nobody knows what, unless batches lead from it to that.
pub(super) fn next_behind(
    walk: &Walk<'_>,
    mut from: Lsn,
    last: Option<Epoch>,
) -> Result<Option<Lsn>> {
    let Ground {
        segments, control, ..
    } = walk.ground;
    let known = &walk.known;
    loop {
        let mut next = None;
        headers_behind(segments, from, control, last, &mut |s, h| {
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
            if at >= unknown.lsn || known.leads(at) {
                return Ok(Some(next));
            }
        }
        from = scan.state.at.max(next.plus(1));
    }
}
