//! Void ranges of a log: from their list, or, if that is damaged, from all batches.

use crate::error::{Error, Result};
use crate::scan::end_of_log::End;
use crate::scan::walk::types::{Changed, KnownVoids, Walk, WalkEvent, WalkInput};
use crate::scan::walk::void_list::{link, link_buffer, list};
use crate::storage::voids::Voids;
use logforce_format::Lsn;
use std::collections::BTreeSet;

/// Returns the void ranges of a log. Fails if one is unknown. `last` is the latest batch that voids a range.
pub(crate) fn void_ranges(input: WalkInput<'_>, end: &End, last: Option<Lsn>) -> Result<Voids> {
    let known = list(&input, last)?;
    match known.unknown {
        Some(_) => all_known(Walk::from(input, end.clone())?.voids),
        None => Ok(known.voids),
    }
}

fn all_known(known: KnownVoids) -> Result<Voids> {
    match known.unknown {
        Some(broken) => Err(Error::Damaged(Box::new(broken))),
        None => Ok(known.voids),
    }
}

/// Returns the void ranges as [`void_ranges`] does, for an opening that continues at the end of the log.
///
/// The first batch of the opening names the latest earlier batch that voids a range. If the last batch of the
/// log named another one, the next opening would take the first batch for damage, and all commits after it
/// would be lost. So if the control file names a batch that does not exist, `end` takes over the name from
/// the last batch of the log.
pub(crate) fn settle_void_ranges(input: WalkInput<'_>, end: &mut End) -> Result<Voids> {
    let known = list(&input, end.state.last_void)?;
    let Some(broken) = known.unknown else {
        return Ok(known.voids);
    };
    let walk = Walk::from(input, end.clone())?;
    if end.state.last_void == Some(broken.lsn) {
        let (at, mut last) = (end.state.at, None);
        walk.run(&mut |_| Ok(Changed::Nothing), &mut |event| {
            match event {
                WalkEvent::Batch(h, _, to) if to == at => {
                    last = Some(if h.voids() { h.lsn } else { h.last_void });
                }
                _ => {}
            }
            last.is_none()
        })?;
        if last.is_none() {
            return Err(Error::Damaged(Box::new(broken)));
        }
        // The append boundary becomes the anchor that this opening forces. If a crash comes before the
        // control file changes again, the next opening scans from there, and refuses a batch that names
        // another one.
        for state in [&mut end.state, &mut end.append_boundary] {
            if state.last_void == Some(broken.lsn) {
                state.last_void = last;
            }
        }
    }
    all_known(walk.voids)
}

impl Walk<'_> {
    /// Collects the void ranges from all valid batches of the log. Each batch names the range that it voids,
    /// and the latest earlier batch that voids a range.
    pub(super) fn collect_voids(&self) -> Result<KnownVoids> {
        let mut known = self.voids.clone();
        let mut valid = BTreeSet::new();
        self.run(&mut |_| Ok(Changed::Nothing), &mut |event| {
            if let WalkEvent::Batch(h, ..) = event {
                if h.voids() {
                    known.voids.add(h.void_from, h.lsn);
                    valid.insert(h.lsn);
                }
                known.named.insert(h.last_void);
            }
            true
        })?;
        known.unknown = None;
        let mut read_buffer = link_buffer();
        for &at in known.named.iter().rev() {
            // A batch within a known range voids at most that range, because a truncation ends at a
            // boundary of a record that is not void.
            let is_known = valid.contains(&at) || known.voids.covering(at).is_some();
            if at <= self.input.control.front || is_known {
                continue;
            }
            // The batch may be valid although the walk has not reached it.
            match link(&self.input, &mut read_buffer, at)? {
                Ok(h) => known.voids.add(h.void_from, h.lsn),
                Err(lost) => {
                    known.unknown = Some(lost);
                    break;
                }
            }
        }
        Ok(known)
    }
}
