//! Walk over a whole log. `verify`, `dump` and salvage report its findings, and an opening takes the void
//! ranges from it if their list is damaged. So all of them agree.
//!
//! Below the anchor the walk reads batch after batch as a reader does. From the anchor on, it follows the
//! decisions of an opening. If the two parts do not meet, the anchor counts, and the contradiction is
//! reported as damage. After damage the walk continues with the batches that count (`beyond`).

mod beyond;
pub(crate) mod types;
pub(crate) mod void_list;
pub(crate) mod void_ranges;

use crate::error::{Damage, Result};
use crate::scan::batch::{ScanState, Stop};
use crate::scan::coverage::{gaps, lost_segment};
use crate::scan::end_of_log::{End, damage, first_state};
use crate::scan::forward::Scan;
use beyond::{next_batch_beyond, proof_beyond};
use logforce_device::ReadSource;
use logforce_format::{Lsn, NextBatch, RecoveryCase};
use std::collections::BTreeSet;
use types::{Changed, Walk, WalkEnd, WalkEvent, WalkInput};
use void_list::list;

impl<'a> Walk<'a> {
    /// Finds the end of the log and its void ranges.
    pub(crate) fn new(input: WalkInput<'a>) -> Result<Self> {
        let opening = input.end(input.anchor())?;
        Self::from(input, opening)
    }

    /// Finds the void ranges as [`Walk::new`] does, with the end that an opening has found.
    pub(crate) fn from(input: WalkInput<'a>, opening: End) -> Result<Self> {
        let (proven_to, last_void) = proof_beyond(&input, &opening)?;
        let mut walk = Walk {
            voids: list(&input, last_void)?,
            input,
            opening,
            proven_to,
        };
        if walk.voids.unknown.is_some() {
            walk.voids = walk.collect_voids()?;
        }
        Ok(walk)
    }

    /// Returns the damage at which an opening would fail, as far as it is known before the walk.
    fn refused(&self) -> Vec<Damage> {
        let lost = self.opening.lost.iter();
        lost.chain(&self.voids.unknown).cloned().collect()
    }

    /// Walks from the first segment on, until `visit` returns `false`. Calls `changed` before a finding
    /// counts as damage.
    pub(crate) fn run(
        &self,
        changed: &mut dyn FnMut(Lsn) -> Result<Changed>,
        visit: &mut dyn FnMut(WalkEvent<'_>) -> bool,
    ) -> Result<WalkEnd> {
        let WalkInput {
            dir,
            segments,
            control,
            headerless,
            ..
        } = self.input;
        let anchor = self.input.anchor();
        let voids = &self.voids.voids;
        let mut missing: Vec<Lsn> = gaps(segments, control).iter().map(|g| g.0).collect();
        missing.extend(headerless);
        missing.sort();
        let mut reporter = DamageReporter {
            proven_to: self.proven_to,
            all: BTreeSet::new(),
            visit,
        };
        let mut state = first_state(segments, control);
        let mut end = state.at;
        let mut reopened;
        let mut opening = &self.opening;
        // True once the walk has reached the anchor.
        let mut anchored = control.sequence == 0;
        let case = loop {
            let mut scan = Scan::new(segments, control, ReadSource::Cache, state)?;
            let stop = loop {
                if !anchored && scan.state.at >= anchor.at {
                    anchored = true;
                    let at = scan.state.at;
                    // The anchor may lie in a void range.
                    if at == anchor.at || voids.covering(anchor.at).is_none() {
                        let wrong = contradiction(&scan.state, &anchor);
                        scan.state = anchor;
                        if let Some(stop) = wrong {
                            let path = dir.path();
                            let case = RecoveryCase::WrittenWrong;
                            let what = damage(path, segments, &stop, case, anchor.at);
                            if !reporter.damage(what) {
                                return Ok(WalkEnd { at: end, case });
                            }
                        }
                    }
                }
                let is_new = |lost: &Damage| !reporter.all.contains(&lost.lsn);
                if anchored
                    && opening.state.at == scan.state.at
                    && opening.lost.as_ref().is_some_and(is_new)
                {
                    // An opening would end the log here.
                    break None;
                }
                match scan.next()? {
                    Ok(batch) => {
                        if batch.resumed {
                            (reporter.visit)(WalkEvent::Jump);
                        }
                        end = batch.end;
                        if !(reporter.visit)(WalkEvent::Batch(&batch.header, batch.payload, end)) {
                            let case = RecoveryCase::Next;
                            return Ok(WalkEnd { at: end, case });
                        }
                    }
                    Err(stop) => break Some(stop),
                }
            };
            let at = stop.as_ref().map_or(scan.state.at, |s| s.at);
            if stop.is_some()
                && let Some((_, to)) = voids.covering(at)
            {
                state = ScanState::after_void(to);
                (reporter.visit)(WalkEvent::Jump);
                continue;
            }
            let reread;
            let is_same_end = opening.lost.is_none() && opening.state.at == scan.state.at;
            let decided = match &stop {
                Some(_) if !is_same_end => {
                    reread = self.input.end(scan.state)?;
                    &reread
                }
                _ => opening,
            };
            let Some(lost) = &decided.lost else {
                end = end.max(scan.state.at);
                break decided.case;
            };
            match changed(at)? {
                Changed::Nothing => {}
                Changed::Something => {
                    state = scan.state;
                    if stop.is_none() {
                        // The walk is above the anchor: an opening would continue from here.
                        reopened = self.input.end(scan.state)?;
                        opening = &reopened;
                    }
                    continue;
                }
                Changed::Truncated(first) => {
                    // The truncated files may already be reused.
                    state = ScanState::unlinked(first);
                    anchored |= first >= anchor.at;
                    missing.retain(|m| *m >= first);
                    (reporter.visit)(WalkEvent::Jump);
                    continue;
                }
            }
            let (case, mut what) = (decided.case, lost.clone());
            // Continues with the next batch that counts, or at the anchor if that comes first.
            let from = match stop {
                Some(_) => at.plus(1),
                None => at,
            };
            let next = next_batch_beyond(self, from, scan.state.epoch)?;
            let next = next.filter(|next| anchored || *next < anchor.at);
            if case == RecoveryCase::SegmentLost && what.lsn < control.prepared_end {
                missing.retain(|m| *m != what.lsn);
                what = lost_segment(dir.path(), segments, what.lsn, control);
            }
            if !reporter.damage(what) {
                return Ok(WalkEnd { at: end, case });
            }
            state = match next {
                Some(next) => ScanState::unlinked(next),
                None if !anchored => anchor,
                None => break case,
            };
        };
        // An append without its end is not part of the log, independently of other damage.
        (reporter.visit)(WalkEvent::Jump);
        for at in missing {
            // Reports missing segments that no scan has reached, because they lie above the last batch, or
            // in a void range. Also reports segments that were identified by their batches: the walk has
            // read them, but an opening needs the header.
            let mut lost = lost_segment(dir.path(), segments, at, control);
            if headerless.contains(&at) {
                lost.found
                    .push_str("; its batches identify it, and were read");
            }
            if !reporter.damage(lost) {
                return Ok(WalkEnd { at: end, case });
            }
        }
        // Reports damage at which an opening would fail, but which no scan has reached.
        let mut refused = self.refused();
        while let Some(lost) = refused
            .iter()
            .find(|lost| !reporter.all.contains(&lost.lsn))
        {
            match changed(lost.lsn)? {
                Changed::Nothing => {
                    if !reporter.damage(lost.clone()) {
                        break;
                    }
                }
                // The writer was changing the log when the end was determined.
                Changed::Something => refused = Walk::new(self.input)?.refused(),
                Changed::Truncated(first) => refused.retain(|lost| lost.lsn >= first),
            }
        }
        Ok(WalkEnd { at: end, case })
    }
}

/// Returns the contradiction if a walk that has reached `state` cannot continue from the anchor.
fn contradiction(state: &ScanState, anchor: &ScanState) -> Option<Stop> {
    fn differs<T: PartialEq>(a: Option<T>, b: Option<T>) -> bool {
        a.is_some() && b.is_some() && a != b
    }
    let found = if state.at != anchor.at {
        "according to the control file a batch ends here, but a batch extends across this LSN"
    } else if differs(state.epoch, anchor.epoch) || differs(state.prev_crc, anchor.prev_crc) {
        "the control file describes another batch than the one that ends here"
    } else if differs(state.last_void, anchor.last_void) {
        "the control file and the batch that ends here name different batches as the latest that voids a range"
    } else if state.sequence.open_from().is_some() {
        "according to the control file no append is open here, but one is"
    } else {
        return None;
    };
    Some(Stop {
        at: anchor.at,
        seen: NextBatch::Malformed,
        found: found.to_owned(),
    })
}

/// Reports each damaged position once.
struct DamageReporter<'v> {
    proven_to: Lsn,
    all: BTreeSet<Lsn>,
    visit: &'v mut dyn FnMut(WalkEvent<'_>) -> bool,
}

impl DamageReporter<'_> {
    fn damage(&mut self, mut what: Damage) -> bool {
        what.durable_to = what.durable_to.max(self.proven_to);
        (self.visit)(match self.all.insert(what.lsn) {
            true => WalkEvent::Damage(&what),
            // The damage was reported before. But an append in progress must end here: otherwise the rest
            // of another record would complete it.
            false => WalkEvent::KnownDamage,
        })
    }
}
