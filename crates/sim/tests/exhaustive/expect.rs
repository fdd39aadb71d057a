//! Expected effects of a flipped bit, by the region that was hit.

use super::regions::Region;
use logforce_core::{BatchInfo, BatchKind, Damage, Error, ErrorKind, Lsn, RecoveryCase};
use logforce_format::Decision;
use logforce_sim::fixture::{Fixture, Look, Shown};

/// Effect of a flipped bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// The opening, the reading or the inspector reported it, with its place.
    Detected,
    /// The other of two slots had the same contents.
    OtherSlot,
    /// No result is different.
    NoEffect,
    /// It lies above the highest surviving stamp and passes for a torn tail.
    AboveStamp,
}

/// A change to a log, for messages and for the bound.
pub struct Trial<'a> {
    /// The log before the change.
    pub fixture: &'a Fixture,
    /// Region that was hit.
    pub region: Region,
    /// Description for messages.
    pub what: String,
}

/// A damaged batch, and what the log's other batches say about it.
struct Hit<'a> {
    batch: &'a BatchInfo,
    /// True if the opening does not scan it, because it lies below the anchor.
    below: bool,
    /// True if neither the stamp of a later batch nor the anchor lies above it.
    unprovable: bool,
    /// Highest stamp that is left, or the anchor.
    highest: Lsn,
    /// True if no record of it is part of the log, and no later record is found through it.
    gone: bool,
    /// True if all of it was voided.
    void: bool,
    /// True if it or a later batch voids records.
    voids: bool,
}

impl<'a> Trial<'a> {
    fn hit(&self, number: usize) -> Hit<'a> {
        let v = self.fixture;
        let batch = &v.batches[number];
        let anchor = v.look.summary.anchor;
        let behind = v.stamp_behind(number);
        let before = v.batches[..number].iter().map(|b| b.stamp).max();
        let highest = before.max(behind).unwrap_or_default();
        let voids = |b: &BatchInfo| b.kind == BatchKind::Void && b.lsn >= batch.lsn;
        Hit {
            batch,
            below: batch.lsn < anchor,
            unprovable: anchor <= batch.lsn && behind.is_none_or(|s| s <= batch.lsn),
            highest: highest.max(anchor),
            gone: batch.end <= v.look.summary.front || v.is_void(batch.lsn, batch.end),
            void: v.is_void(batch.lsn, batch.end),
            voids: v.batches.iter().any(voids),
        }
    }

    fn is_at(&self, d: &Damage, batch: &BatchInfo) {
        let named = (d.lsn, d.file.as_ref(), d.offset);
        let what = &self.what;
        assert_eq!(
            named,
            (batch.lsn, Some(&batch.file), batch.offset),
            "{what}: reported at another place: {d}"
        );
    }

    /// Checks the result of the inspector.
    pub fn looked(&self, look: Result<Look, Error>) -> Fate {
        let (v, what) = (self.fixture, &self.what);
        let look = look.unwrap_or_else(|e| panic!("{what}: cannot be inspected: {e}"));
        let mut expected = v.look.clone();
        match self.region {
            Region::Void => {}
            Region::UnitHead | Region::Torn => {
                // There is no batch, with or without zeroes. The log ends in another row of the table.
                assert_eq!(look.finding.case.decision(), Decision::End, "{what}");
                expected.finding.case = look.finding.case;
            }
            Region::Live => {
                assert!(look.live.is_none() || look.live == v.look.live, "{what}");
                let seen = look.live.is_some();
                expected.live.clone_from(&look.live);
                assert!(look == expected, "{what}: another result is different");
                return if seen { Fate::NoEffect } else { Fate::Detected };
            }
            Region::ControlSlot(_) | Region::ControlRest(_) => {
                expected.summary.control_whole = false;
                // One slot alone does not show that the log was closed cleanly.
                expected.summary.clean = false;
                assert!(look == expected, "{what}: {look:#?}");
                return Fate::OtherSlot;
            }
            Region::MetaSlot(_) | Region::MetaRest(_) => {
                expected.summary.meta_whole = false;
                assert!(look == expected, "{what}: {look:#?}");
                return Fate::OtherSlot;
            }
            Region::SegmentHeader(n) => {
                let s = &v.look.summary.segments[n];
                let d = look.damages.first();
                let d = d.unwrap_or_else(|| panic!("{what}: verify found nothing"));
                assert_eq!(
                    (d.lsn, d.case),
                    (s.start, RecoveryCase::SegmentLost),
                    "{what}"
                );
                assert_eq!(d.file.as_ref(), Some(&s.name), "{what}: {d}");
                self.saved(&look, s.start, s.start.plus(s.len), false);
                return Fate::Detected;
            }
            Region::BatchHeader(n) | Region::Payload(n) => return self.batch_looked(&look, n),
        }
        assert!(look == expected, "{what}: a result is different: {look:#?}");
        Fate::NoEffect
    }

    fn batch_looked(&self, look: &Look, number: usize) -> Fate {
        let (hit, what) = (self.hit(number), &self.what);
        assert_eq!(look.summary, self.fixture.look.summary, "{what}");
        assert_eq!(look.meta, self.fixture.look.meta, "{what}");
        if hit.void && look.damages.is_empty() {
            // A walk continues after the range.
            assert!(look.records == self.fixture.look.records, "{what}");
            let proven = self.fixture.look.finding.proven_to;
            assert_eq!(look.finding.proven_to, proven, "{what}");
            return Fate::NoEffect;
        }
        if hit.unprovable {
            assert_eq!(look.damages, [], "{what}");
            self.cut(&look.records, look.finding.end, &hit);
            return Fate::AboveStamp;
        }
        let d = look.damages.first();
        let d = d.unwrap_or_else(|| panic!("{what}: verify found nothing"));
        self.is_at(d, hit.batch);
        assert_eq!(d.case, RecoveryCase::Damaged, "{what}");
        self.saved(look, hit.batch.lsn, hit.batch.end, hit.voids);
        Fate::Detected
    }

    /// Checks that exactly the records around `[from, to)` can be saved.
    fn saved(&self, look: &Look, from: Lsn, to: Lsn, voids: bool) {
        let (v, what) = (self.fixture, &self.what);
        v.were_appended(&look.records, what);
        let around = |(lsn, k): &&(Lsn, _)| {
            let k: &logforce_sim::model::Known = k;
            *lsn >= to || k.end <= from
        };
        let mut found = look.records.iter().map(|e| e.start).peekable();
        for (lsn, _) in v.live.iter().filter(around) {
            while found.next_if(|f| f < lsn).is_some() {}
            assert_eq!(found.next(), Some(*lsn), "{what}: not saved");
        }
        if !voids {
            let live = |e: &logforce_core::Record| {
                v.live
                    .binary_search_by_key(&e.start, |(lsn, _)| *lsn)
                    .is_ok()
            };
            assert!(look.records.iter().all(live), "{what}: voided, and there");
        }
    }

    /// Checks that the log ends before the batch, and that all missing records lie above the highest stamp.
    fn cut(&self, records: &[logforce_core::Record], end: Lsn, hit: &Hit<'_>) {
        let (v, what) = (self.fixture, &self.what);
        v.is_prefix(records, what);
        assert_eq!(records.len(), v.whole_below(hit.batch.lsn), "{what}");
        for (lsn, k) in &v.live[records.len()..] {
            assert!(k.end > hit.highest, "{what}: {lsn} is proven but gone");
        }
        assert!(hit.highest <= end && end <= hit.batch.lsn, "{what}: {end}");
    }

    /// Checks the result of an opening.
    pub fn opened(&self, opened: Result<Shown, Error>) -> Fate {
        let (v, what) = (self.fixture, &self.what);
        if let Ok(shown) = &opened {
            assert_eq!(shown.meta, v.shown.meta, "{what}: other metadata");
            assert_eq!(shown.front, v.shown.front, "{what}");
            assert_eq!(shown.lost, None, "{what}: a strict opening cuts");
        }
        let fate = self.untouched(&opened);
        if let Some(fate) = fate {
            return fate;
        }
        let at = match &opened {
            Err(Error::Damaged(d)) => Some(&**d),
            Err(e) => panic!("{what}: {e}"),
            Ok(shown) => shown.damage.as_ref(),
        };
        match self.region {
            Region::SegmentHeader(n) => {
                let s = &v.look.summary.segments[n];
                assert!(opened.is_err(), "{what}: opened without a segment");
                let d = at.expect("an error");
                assert_eq!(
                    (d.lsn, d.case),
                    (s.start, RecoveryCase::SegmentLost),
                    "{what}"
                );
                assert_eq!(d.file.as_ref(), Some(&s.name), "{what}: {d}");
                Fate::Detected
            }
            Region::BatchHeader(n) | Region::Payload(n) => {
                let hit = self.hit(n);
                if hit.unprovable {
                    let shown = opened.as_ref().expect("nothing speaks against it");
                    assert_eq!(shown.damage, None, "{what}");
                    // Torn, or, without its magic, stale.
                    let ends = [Some(RecoveryCase::TornEnd), Some(RecoveryCase::StaleEnd)];
                    assert!(ends.contains(&shown.case), "{what}: {:?}", shown.case);
                    self.cut(&shown.records, shown.end, &hit);
                    return Fate::AboveStamp;
                }
                if let Some(d) = at {
                    self.is_at(d, hit.batch);
                }
                match &opened {
                    Ok(shown) => {
                        assert!(hit.below, "{what}: acknowledged, but opened without it");
                        self.read_up_to(shown, &hit)
                    }
                    Err(_) => {
                        let scanned = !hit.below || hit.batch.kind == BatchKind::Void;
                        assert!(scanned, "{what}: refused what no opening reads");
                        Fate::Detected
                    }
                }
            }
            _ => unreachable!("{what}: see above"),
        }
    }

    /// Checks a log that opened, with a broken batch below the anchor.
    fn read_up_to(&self, shown: &Shown, hit: &Hit<'_>) -> Fate {
        let (v, what) = (self.fixture, &self.what);
        v.is_prefix(&shown.records, what);
        if shown.damage.is_some() {
            assert!(
                !hit.gone,
                "{what}: reported by reading, which should skip it"
            );
            assert_eq!(shown.records.len(), v.whole_below(hit.batch.lsn), "{what}");
            return Fate::Detected;
        }
        // Reading the records does not need the batch.
        let empty = hit.batch.frames == 0;
        assert!(hit.gone || empty, "{what}: read over it");
        assert_eq!(
            shown.records.len(),
            v.live.len(),
            "{what}: silently shorter"
        );
        if hit.void {
            Fate::NoEffect
        } else {
            // Only the inspector reports it.
            Fate::Detected
        }
    }

    /// Checks regions whose damage hides no record from any opening; `None` for other regions.
    fn untouched(&self, opened: &Result<Shown, Error>) -> Option<Fate> {
        let (v, what) = (self.fixture, &self.what);
        let mut expected = v.shown.clone();
        let fate = match self.region {
            Region::Void | Region::Live => Fate::NoEffect,
            Region::UnitHead | Region::Torn => {
                if let Ok(Shown { case: Some(c), .. }) = opened {
                    assert_eq!(c.decision(), Decision::End, "{what}");
                    expected.case = Some(*c);
                }
                Fate::NoEffect
            }
            Region::ControlSlot(_) | Region::ControlRest(_) => {
                // A slot shows a clean close only while the other slot is whole.
                expected.clean = false;
                Fate::OtherSlot
            }
            Region::MetaSlot(_) | Region::MetaRest(_) => Fate::OtherSlot,
            _ => return None,
        };
        match opened {
            Ok(shown) => assert!(*shown == expected, "{what}: {shown:#?}"),
            Err(e) => panic!("{what}: refused: {e}"),
        }
        Some(fate)
    }

    /// Checks the result of truncating at the damage.
    pub fn truncated(&self, opened: Result<Shown, Error>) {
        let (v, what) = (self.fixture, &self.what);
        if self.untouched(&opened).is_some() {
            return;
        }
        let shown = opened.unwrap_or_else(|e| panic!("{what}: not truncated: {e}"));
        assert_eq!(shown.meta, v.shown.meta, "{what}: other metadata");
        let (from, hit) = match self.region {
            Region::BatchHeader(n) | Region::Payload(n) => {
                let hit = self.hit(n);
                (hit.batch.lsn, Some(hit))
            }
            Region::SegmentHeader(n) => (v.look.summary.segments[n].start, None),
            _ => unreachable!("{what}: see above"),
        };
        let voids = |b: &BatchInfo| b.kind == BatchKind::Void && b.lsn >= from;
        let void_lost = shown.lost.is_some() && v.batches.iter().any(voids);
        if void_lost {
            // The voided ranges are not known any more.
            v.were_appended(&shown.records, what);
        } else {
            v.is_prefix(&shown.records, what);
            v.is_whole(&shown.records, what);
        }
        let unprovable = hit.as_ref().is_some_and(|h| h.unprovable);
        let all = shown.records.len() == v.live.len();
        let reported = shown.lost.is_some() || shown.damage.is_some();
        assert!(reported || all || unprovable, "{what}: silently cut");
        if let Some(lost) = &shown.lost {
            assert_eq!(lost.lsn, from, "{what}: {lost}");
            assert!(
                shown.tail > v.appended_to(),
                "{what}: LSNs are used again at {}",
                shown.tail
            );
        }
        if let Some(hit) = hit.filter(|h| h.unprovable) {
            assert_eq!((&shown.lost, &shown.damage), (&None, &None), "{what}");
            self.cut(&shown.records, shown.end, &hit);
        }
    }
}

/// Checks the error for two broken slots: it names the control file, and neither slot is used.
pub fn names_control(result: Result<Shown, Error>, what: &str) {
    let Err(e) = result else {
        panic!("{what}: opened")
    };
    let kinds = [ErrorKind::Damaged, ErrorKind::NotALog];
    assert!(kinds.contains(&e.kind()), "{what}: {e}");
    assert!(e.to_string().contains("control"), "{what}: {e}");
}
