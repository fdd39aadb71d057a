//! One walk over a whole log. `verify`, `dump` and salvage show what it meets; an opening takes its
//! void ranges from it where their list is broken. So none of them says what another denies.
//!
//! Below the anchor the walk goes from batch to batch as a reader does, from the anchor on as an
//! opening does, and by what that decides. Where the two do not meet, the anchor counts and the
//! contradiction is damage. Behind damage it goes on with what counts.

mod behind;
pub(crate) mod ground;
pub(crate) mod void_list;
pub(crate) mod void_ranges;

use crate::error::{Damage, Result};
use crate::scan::batch::{ScanState, Stop};
use crate::scan::coverage::{gaps, lost_segment};
use crate::scan::end_of_log::{End, damage, first_state};
use crate::scan::forward::Scan;
use crate::scan::resume::closed_cuts;
use behind::{latest, next_behind};
use ground::{Changed, Ended, Ground, Met, Walk};
use logforce_device::ReadSource;
use logforce_format::{Lsn, RecoveryCase, Seen};
use std::collections::BTreeSet;
use void_list::list;

impl<'a> Walk<'a> {
    /// Looks at where the log ends, and at what was taken back.
    pub(crate) fn new(ground: Ground<'a>) -> Result<Self> {
        let opening = ground.end(ground.anchor())?;
        Self::from(ground, opening)
    }

    /// With what an opening has found.
    pub(crate) fn from(ground: Ground<'a>, opening: End) -> Result<Self> {
        let (proven_to, last_void) = latest(&ground, &opening)?;
        let mut walk = Walk {
            known: list(&ground, last_void)?,
            ground,
            opening,
            proven_to,
        };
        for (from, to) in closed_cuts(ground.segments, ground.control, ReadSource::Cache)? {
            walk.known.voids.add(from, to);
        }
        if walk.known.unknown.is_some() {
            walk.known = walk.gather()?;
        }
        Ok(walk)
    }

    /// What an opening refuses, as far as that is known before the walk.
    fn refused(&self) -> Vec<Damage> {
        let lost = self.opening.lost.iter();
        lost.chain(&self.known.unknown).cloned().collect()
    }

    /// Walks from the first segment on, until `visit` answers `false`. `changed` is asked before
    /// something counts as damage.
    pub(crate) fn run(
        &self,
        changed: &mut dyn FnMut(Lsn) -> Result<Changed>,
        visit: &mut dyn FnMut(Met<'_>) -> bool,
    ) -> Result<Ended> {
        let Ground {
            dir,
            segments,
            control,
            regained,
            ..
        } = self.ground;
        let anchor = self.ground.anchor();
        let voids = &self.known.voids;
        let mut missing: Vec<Lsn> = gaps(segments, control).iter().map(|g| g.0).collect();
        missing.extend(regained);
        missing.sort();
        let mut tell = Tell {
            proven_to: self.proven_to,
            all: BTreeSet::new(),
            visit,
        };
        let mut state = first_state(segments, control);
        let mut end = state.at;
        let mut reopened;
        let mut opening = &self.opening;
        // Whether the walk has come to where an opening begins.
        let mut anchored = control.sequence == 0;
        let case = loop {
            let mut scan = Scan::new(segments, control, ReadSource::Cache, state)?;
            let stop = loop {
                if !anchored && scan.state.at >= anchor.at {
                    anchored = true;
                    let at = scan.state.at;
                    // A void range may hold the anchor.
                    if at == anchor.at || voids.covering(anchor.at).is_none() {
                        let wrong = contradiction(&scan.state, &anchor);
                        scan.state = anchor;
                        if let Some(stop) = wrong {
                            let path = dir.path();
                            let case = RecoveryCase::WrittenWrong;
                            let what = damage(path, segments, &stop, case, anchor.at);
                            if !tell.damage(what) {
                                return Ok(Ended { at: end, case });
                            }
                        }
                    }
                }
                let given_up = |lost: &Damage| !tell.all.contains(&lost.lsn);
                if anchored
                    && opening.state.at == scan.state.at
                    && opening.lost.as_ref().is_some_and(given_up)
                {
                    // An opening takes nothing from here on.
                    break None;
                }
                match scan.next()? {
                    Ok(batch) => {
                        if batch.resumed {
                            (tell.visit)(Met::Jump);
                        }
                        end = batch.end;
                        if !(tell.visit)(Met::Batch(&batch.header, batch.payload, end)) {
                            let case = RecoveryCase::Next;
                            return Ok(Ended { at: end, case });
                        }
                    }
                    Err(stop) => break Some(stop),
                }
            };
            let at = stop.as_ref().map_or(scan.state.at, |s| s.at);
            if stop.is_some()
                && let Some((_, to)) = voids.covering(at)
            {
                state = ScanState::behind_void(to);
                (tell.visit)(Met::Jump);
                continue;
            }
            let judged;
            let met_again = opening.lost.is_none() && opening.state.at == scan.state.at;
            let verdict = match &stop {
                Some(_) if !met_again => {
                    judged = self.ground.end(scan.state)?;
                    &judged
                }
                _ => opening,
            };
            let Some(lost) = &verdict.lost else {
                end = end.max(scan.state.at);
                break verdict.case;
            };
            match changed(at)? {
                Changed::Nothing => {}
                Changed::Something => {
                    state = scan.state;
                    if stop.is_none() {
                        // The walk is above the anchor: an opening would go on from here.
                        reopened = self.ground.end(scan.state)?;
                        opening = &reopened;
                    }
                    continue;
                }
                Changed::Truncated(first) => {
                    // What was there may have another life.
                    state = ScanState::unlinked(first);
                    anchored |= first >= anchor.at;
                    missing.retain(|m| *m >= first);
                    (tell.visit)(Met::Jump);
                    continue;
                }
            }
            let (case, mut what) = (verdict.case, lost.clone());
            // The next batch that counts, or the anchor if that comes first.
            let from = match stop {
                Some(_) => at.plus(1),
                None => at,
            };
            let next = next_behind(self, from, scan.state.epoch)?;
            let next = next.filter(|next| anchored || *next < anchor.at);
            if case == RecoveryCase::SegmentLost && what.lsn < control.prepared_end {
                missing.retain(|m| *m != what.lsn);
                what = lost_segment(dir.path(), segments, what.lsn, control);
            }
            if !tell.damage(what) {
                return Ok(Ended { at: end, case });
            }
            state = match next {
                Some(next) => ScanState::unlinked(next),
                None if !anchored => anchor,
                None => break case,
            };
        };
        // What was begun and not ended is no part of the log, whatever else is damaged.
        (tell.visit)(Met::Jump);
        for at in missing {
            // Above the last batch, or void: no scan came by. Or known by its batches, and read: its
            // header is damage all the same, for no opening goes by anything else.
            let mut lost = lost_segment(dir.path(), segments, at, control);
            if regained.contains(&at) {
                lost.found
                    .push_str("; its batches say what they are, and were read");
            }
            if !tell.damage(lost) {
                return Ok(Ended { at: end, case });
            }
        }
        // What an opening refuses, and no scan came by.
        let mut refused = self.refused();
        while let Some(lost) = refused.iter().find(|lost| !tell.all.contains(&lost.lsn)) {
            match changed(lost.lsn)? {
                Changed::Nothing => {
                    if !tell.damage(lost.clone()) {
                        break;
                    }
                }
                // The writer was in the middle of something when the end was looked for.
                Changed::Something => refused = Walk::new(self.ground)?.refused(),
                Changed::Truncated(first) => refused.retain(|lost| lost.lsn >= first),
            }
        }
        Ok(Ended { at: end, case })
    }
}

/// Why a walk that came to `state` cannot go on from the anchor as if nothing were wrong.
fn contradiction(state: &ScanState, anchor: &ScanState) -> Option<Stop> {
    fn differs<T: PartialEq>(a: Option<T>, b: Option<T>) -> bool {
        a.is_some() && b.is_some() && a != b
    }
    let found = if state.at != anchor.at {
        "the control file says that a batch ends here, and one lies across it"
    } else if differs(state.epoch, anchor.epoch) || differs(state.prev_crc, anchor.prev_crc) {
        "the control file says that another batch ends here than does"
    } else if differs(state.last_void, anchor.last_void) {
        "the control file names another void range as the latest below it than the batch here"
    } else if state.sequence.open_from().is_some() {
        "the control file says that no append is open here, and one is"
    } else {
        return None;
    };
    Some(Stop {
        at: anchor.at,
        seen: Seen::Malformed,
        found: found.to_owned(),
    })
}

/// Tells of each damaged place once.
struct Tell<'v> {
    proven_to: Lsn,
    all: BTreeSet<Lsn>,
    visit: &'v mut dyn FnMut(Met<'_>) -> bool,
}

impl Tell<'_> {
    fn damage(&mut self, mut what: Damage) -> bool {
        what.durable_to = what.durable_to.max(self.proven_to);
        (self.visit)(match self.all.insert(what.lsn) {
            true => Met::Damage(&what),
            // Once is enough to tell, but here too what was begun has no end: the rest of another
            // record must not pass for it.
            false => Met::KnownDamage,
        })
    }
}
