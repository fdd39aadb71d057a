//! The walk of `verify`, `dump` and salvage.

use super::report::{Links, Report};
use super::{Finding, Inspector, LOOK_AGAIN, Visit, is_in_use};
use crate::control_file::ControlFile;
use crate::recovery::{anchor_state, damage, first_state, gaps, lost_segment, void_list};
use crate::scan::{Scan, ScanState};
use crate::search::{closed_cuts, headers_behind, stamp_behind};
use crate::segments::Segment;
use crate::voids::Voids;
use crate::{Error, Result};
use logforce_device::ReadSource;
use logforce_format::{BatchHeader, Case, Control, Decision, Lsn, decide};

impl Inspector {
    /// Walks the whole log from its first segment on, checking every byte that counts; behind
    /// damage it goes on with the next whole batch. `visit` may answer `false` to stop.
    pub fn walk(&self, visit: &mut dyn FnMut(Visit<'_>) -> bool) -> Result<Finding> {
        let segments = &self.listing.segments;
        let control = &self.control;
        let path = self.dir.path();
        let (proven_to, last_void) = self.proven()?;
        let (voids, broken) = void_list(segments, control, last_void, path)?;
        let mut voids = voids;
        for (from, to) in closed_cuts(segments, control, ReadSource::Cache)? {
            voids.add(from, to);
        }
        let mut links = Links::default();
        if let Some(broken) = broken {
            // Every batch of the log that is whole says what it takes back, and which batch did so
            // before it.
            links.unknown = Some(broken.lsn);
            links.named.insert(broken.lsn);
            let mut gathered = links.clone();
            self.pass(proven_to, voids.clone(), &links, &mut gathered, &mut |_| {
                true
            })?;
            for &(from, to) in &gathered.ranges {
                voids.add(from, to);
            }
            links = gathered;
            links.unknown = links.latest_lost(&voids, control.front);
        }
        self.pass(proven_to, voids, &links, &mut Links::default(), visit)
    }

    /// Walks with what is known of void ranges.
    fn pass(
        &self,
        proven_to: Lsn,
        voids: Voids,
        known: &Links,
        gathered: &mut Links,
        visit: &mut dyn FnMut(Visit<'_>) -> bool,
    ) -> Result<Finding> {
        let segments = &self.listing.segments;
        let control = &self.control;
        let path = self.dir.path();
        let mut found = Finding {
            end: control.first_segment,
            case: Case::CleanEnd,
            proven_to,
            batches: 0,
            records: 0,
            record_bytes: 0,
            voided: 0,
            damages: 0,
        };
        let mut walk = Report {
            voids,
            unknown: known.unknown,
            gathered,
            front: control.front,
            current: None,
            group: Vec::new(),
            found: &mut found,
            visit,
        };
        let mut lost = gaps(segments, control)
            .into_iter()
            .map(|(from, _)| from)
            .collect::<Vec<_>>();
        let mut state = first_state(control);
        let mut looked = 0;
        loop {
            let mut scan = Scan::new(segments, control, ReadSource::Cache, state)?;
            let stop = loop {
                if let Some((_, to)) = walk.voids.covering(scan.state.at)
                    && segments
                        .containing(scan.state.at)
                        .is_none_or(|s| s.header.start == scan.state.at)
                {
                    // A whole segment that is void need not be readable.
                    scan.state = ScanState::unlinked(to);
                    walk.jump();
                }
                match scan.next()? {
                    Ok(batch) => {
                        let end = batch.end;
                        if batch.resumed {
                            walk.jump();
                        }
                        if !walk.batch(segments, batch.header, batch.payload, end) {
                            return Ok(found);
                        }
                        looked = 0;
                    }
                    Err(stop) => break stop,
                }
            };
            state = scan.state;
            if let Some((_, to)) = walk.voids.covering(stop.at) {
                state = ScanState::unlinked(to);
                walk.jump();
                continue;
            }
            let below = stop.at < control.anchor.lsn;
            let closed_here = control.clean && self.control_whole && state.at == control.anchor.lsn;
            let stamp = if closed_here {
                None
            } else {
                stamp_behind(segments, stop.at, control, state.epoch)?
            };
            let case = decide(stop.seen, below || stamp.is_some(), false);
            if case.decision() == Decision::End {
                walk.found.case = case;
                walk.found.end = state.at.max(walk.found.end);
                break;
            }
            if let Some(first) = self.truncated_to()?.filter(|first| stop.at < *first) {
                // Truncated while it was being looked at; what was there may have another life.
                state = ScanState::unlinked(first);
                walk.jump();
                lost.retain(|l| *l >= first);
                continue;
            }
            if looked < LOOK_AGAIN && self.may_have_changed()? {
                looked += 1;
                continue;
            }
            looked = 0;
            let durable_to = proven_to.max(stamp.unwrap_or(Lsn::ORIGIN));
            let what = match case {
                Case::SegmentLost if stop.at < control.prepared_end => {
                    lost.retain(|l| *l != stop.at);
                    lost_segment(&self.dir, stop.at, control)?
                }
                _ => damage(path, segments, &stop, case, durable_to),
            };
            if !walk.damage(&what) {
                return Ok(found);
            }
            match self.next_behind(stop.at, &state, durable_to, known, &walk.voids)? {
                Some(at) => state = ScanState::unlinked(at),
                None => {
                    walk.found.case = case;
                    break;
                }
            }
        }
        if let Some(what) = self.meta.lost(path)
            && !walk.damage(&what)
        {
            return Ok(found);
        }
        for at in lost {
            // Above the last batch: no scan came by.
            let what = lost_segment(&self.dir, at, control)?;
            if walk.voids.covering(at).is_none() && !walk.damage(&what) {
                break;
            }
        }
        Ok(found)
    }

    /// Whether a batch behind damage counts, though nothing leads to it.
    ///
    /// What a crash left behind a torn batch stays where it lies, whole but for its link: the next
    /// opening writes over the torn batch, and over no more. Where that opening's own first batch is
    /// damaged, nothing in what it had given up says so. So a batch counts that was durable, or that
    /// no later opening can have given up.
    fn counts(&self, segment: &Segment, h: &BatchHeader, durable_to: Lsn) -> bool {
        let control = &self.control;
        // Without a control file nobody knows the latest opening.
        let is_latest = control.sequence > 0 && h.epoch.counter >= control.epoch.counter;
        is_latest || h.end(segment.header.write_unit) <= durable_to
    }

    /// The next whole batch behind damage that is part of the log: not where something took back
    /// nobody knows what, unless batches lead from it to that.
    fn next_behind(
        &self,
        at: Lsn,
        state: &ScanState,
        durable_to: Lsn,
        known: &Links,
        voids: &Voids,
    ) -> Result<Option<Lsn>> {
        let segments = &self.listing.segments;
        let control = &self.control;
        let mut passed = at.plus(1);
        loop {
            let mut next = None;
            headers_behind(segments, passed, control, state.epoch, &mut |s, h| {
                if self.counts(s, h, durable_to) && voids.covering(h.lsn).is_none() {
                    next = Some(h.lsn);
                }
                next.is_none()
            })?;
            let Some(next) = next else {
                return Ok(None);
            };
            let Some(unknown) = known.unknown.filter(|unknown| next < *unknown) else {
                return Ok(Some(next));
            };
            let from = ScanState::unlinked(next);
            let mut scan = Scan::new(segments, control, ReadSource::Cache, from)?;
            while scan.next()?.is_ok() {
                let at = scan.state.at;
                if at >= unknown || known.named.contains(&at) || voids.begins(at) {
                    return Ok(Some(next));
                }
            }
            passed = scan.state.at.max(next.plus(1));
        }
    }

    /// Whether somebody has had the log open since this began to look. Nobody may have had it
    /// then: an opening that came since writes over what the last one left behind a torn batch.
    fn may_have_changed(&self) -> Result<bool> {
        Ok(self.in_use
            || is_in_use(&self.dir)?
            || self
                .control_now()?
                .is_some_and(|now| now.sequence != self.control.sequence))
    }

    /// Where the first segment begins now, if somebody has had the log open and may have moved it.
    fn truncated_to(&self) -> Result<Option<Lsn>> {
        let now = self.control_now()?;
        let now = now.filter(|now| now.log_id == self.control.log_id);
        Ok(match now {
            Some(now) if self.may_have_changed()? => Some(now.first_segment),
            _ => None,
        })
    }

    /// What the control file says now, if it says anything.
    fn control_now(&self) -> Result<Option<Control>> {
        match ControlFile::load(&self.dir) {
            Ok(now) => Ok(Some(now.control)),
            Err(e @ Error::Io { .. }) if !e.is_not_found() => Err(e),
            Err(_) => Ok(None),
        }
    }

    /// What stamps prove, and the latest voiding batch, by a scan from the anchor; or, where that
    /// meets damage, from the latest batch that is proven to be part of the log.
    fn proven(&self) -> Result<(Lsn, Option<Lsn>)> {
        let segments = &self.listing.segments;
        let control = &self.control;
        let mut proven = control.anchor.lsn;
        let anchored = self.control_whole || control.sequence > 0;
        let state = match anchored {
            true => anchor_state(control),
            false => first_state(control),
        };
        let mut state = self.scan_on(state, &mut proven)?;
        let closed_here = control.clean && self.control_whole && state.at == control.anchor.lsn;
        if !closed_here && let Some(stamp) = stamp_behind(segments, state.at, control, state.epoch)?
        {
            proven = proven.max(stamp);
            let mut latest: Option<BatchHeader> = None;
            headers_behind(segments, state.at, control, state.epoch, &mut |s, h| {
                let order = |h: &BatchHeader| (h.epoch.counter, h.lsn);
                let is_later = latest.as_ref().is_none_or(|l| order(h) > order(l));
                if is_later && self.counts(s, h, proven) {
                    latest = Some(*h);
                }
                true
            })?;
            if let Some(latest) = latest {
                let mut from = ScanState::unlinked(latest.lsn);
                from.last_void = Some(latest.last_void);
                state = self.scan_on(from, &mut proven)?;
            }
        }
        Ok((proven, state.last_void))
    }

    /// Goes on from `state` as far as batches are linked.
    fn scan_on(&self, state: ScanState, proven: &mut Lsn) -> Result<ScanState> {
        let source = ReadSource::Cache;
        let mut scan = Scan::new(&self.listing.segments, &self.control, source, state)?;
        while let Ok(batch) = scan.next()? {
            *proven = (*proven).max(batch.header.stamp);
        }
        Ok(scan.state)
    }
}
