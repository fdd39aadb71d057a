//! What was taken out of a log: by the list of the batches that did so, and where that is broken by
//! every batch there is.

use super::{Changed, Ground, Met, Walk};
use crate::recovery::{End, damage};
use crate::scan::{Stop, Window};
use crate::voids::Voids;
use crate::{Damage, Error, Result};
use logforce_device::ReadSource;
use logforce_format::{BATCH_HEADER_LEN, BatchHeader, Lsn, RecoveryCase, Seen, planted};
use std::collections::BTreeSet;

/// What is known of void ranges.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known {
    pub(crate) voids: Voids,
    /// The latest batch that took back nobody knows what.
    pub(crate) unknown: Option<Damage>,
    /// Batches that void something, by what others say.
    named: BTreeSet<Lsn>,
}

impl Known {
    /// Whether what ends at `at` is known to have been part of the log, for what it leads to is.
    pub(super) fn leads(&self, at: Lsn) -> bool {
        self.named.contains(&at) || self.voids.begins(at)
    }
}

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

/// What the list of voiding batches says, back to the front, or as far as it can be followed.
pub(super) fn list(ground: &Ground<'_>, last: Option<Lsn>) -> Result<Known> {
    let mut known = Known::default();
    let mut at = last.unwrap_or(Lsn::ORIGIN);
    let mut window = Window::new(ReadSource::Cache);
    // The format makes each link lie below the one before it, so this ends.
    // One at or below the front voids only what is gone anyway, and so do those before it.
    while at > ground.control.front {
        known.named.insert(at);
        match link(ground, &mut window, at)? {
            Ok(header) => {
                known.voids.add(header.void_from, header.lsn);
                at = header.last_void;
            }
            Err(lost) => {
                known.unknown = Some(lost);
                break;
            }
        }
    }
    Ok(known)
}

/// The header of the voiding batch at `at`, or what is wrong with it.
fn link(
    ground: &Ground<'_>,
    window: &mut Window,
    at: Lsn,
) -> Result<std::result::Result<BatchHeader, Damage>> {
    let Ground {
        dir,
        segments,
        control,
        ..
    } = *ground;
    let lost = |found: String| {
        let seen = Seen::Broken;
        let stop = Stop { at, seen, found };
        Ok(Err(damage(
            dir.path(),
            segments,
            &stop,
            RecoveryCase::Damaged,
            at,
        )))
    };
    let Some(segment) = segments.containing(at) else {
        return lost("a void batch's segment is missing".to_owned());
    };
    let bytes = match window.get(&segment, segment.offset(at), BATCH_HEADER_LEN)? {
        Ok(bytes) => bytes,
        Err(no) => return lost(no.found),
    };
    match BatchHeader::decode(bytes) {
        Ok(h) if h.log_id == control.log_id && h.lsn == at && h.voids() => Ok(Ok(h)),
        Ok(_) => lost("a void batch should be here".to_owned()),
        Err(r) => lost(format!("a void batch should be here: {r}")),
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
