//! What was taken out of a log: by the list of the batches that did so, and where that is broken by
//! every batch there is.

use crate::error::{Error, Result};
use crate::scan::end_of_log::End;
use crate::scan::walk::ground::{Changed, Ground, Known, Met, Walk};
use crate::scan::walk::void_list::{link, list};
use crate::storage::voids::Voids;
use crate::storage::window::Window;
use logforce_device::ReadSource;
use logforce_format::{Lsn, planted};
use std::collections::BTreeSet;

/// The void ranges of a log; fails if one is unknown. `last`: the latest batch that voids something.
pub(crate) fn void_ranges(ground: Ground<'_>, end: &End, last: Option<Lsn>) -> Result<Voids> {
    let mut known = list(&ground, last)?;
    if known.unknown.is_some() {
        known = Walk::from(ground, end.clone())?.known;
    }
    match known.unknown {
        Some(broken) => Err(Error::Damaged(Box::new(broken))),
        None => Ok(known.voids),
    }
}

impl Walk<'_> {
    /// Every batch of the log that is whole says what it takes back, and which batch did so before
    /// it.
    pub(super) fn gather(&self) -> Result<Known> {
        let mut known = self.known.clone();
        let mut whole = BTreeSet::new();
        // Markers of ranges whose predecessor is there.
        let mut joined: BTreeSet<(Lsn, Lsn)> = BTreeSet::new();
        let cuts = &self.ground.segments.cuts;
        self.run(&mut |_| Ok(Changed::Nothing), &mut |met| {
            if let Met::Batch(h, _, end) = met {
                if h.voids() {
                    known.voids.add(h.void_from, h.lsn);
                    whole.insert(h.lsn);
                }
                known.named.insert(h.last_void);
                let joins = |(from, _): &&(Lsn, Lsn)| h.lsn < *from && *from <= end;
                joined.extend(cuts.iter().filter(joins));
            }
            true
        })?;
        known.unknown = None;
        let mut window = Window::new(ReadSource::Cache);
        for &at in known.named.iter().rev() {
            // One that lies in a known range has not taken back more than that: a truncation goes
            // to where a record begins or ends that is not void.
            let is_known = whole.contains(&at) || known.voids.covering(at).is_some();
            if at <= self.ground.control.front || is_known {
                continue;
            }
            // It may be whole, and not be reached.
            match link(&self.ground, &mut window, at)? {
                Ok(h) => known.voids.add(h.void_from, h.lsn),
                Err(lost) => {
                    // An opening's, and its marker says what that gave up. What had been taken back
                    // before says the batch in front of it, if that is there.
                    let is_its = |(_, to): &&(Lsn, Lsn)| *to == at && !planted!("marker-ignored");
                    let marked = cuts.iter().find(is_its);
                    if let Some(&(from, to)) = marked {
                        known.voids.add(from, to);
                    }
                    let front = self.ground.control.front;
                    if marked.is_some_and(|cut| cut.0 <= front || joined.contains(cut)) {
                        continue;
                    }
                    known.unknown = Some(lost);
                    break;
                }
            }
        }
        Ok(known)
    }
}
