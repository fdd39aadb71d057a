//! What a walk meets, as records and numbers.

use crate::error::Damage;
use crate::read::inspect::answers::{BatchInfo, VerifyReport, Visit};
use crate::read::records::Records;
use crate::scan::walk::ground::{Ended, Known, Met, Walk};
use crate::storage::segments::Segments;
use crate::storage::voids::Voids;
use logforce_format::{BatchHeader, Lsn, RecoveryCase};

/// Puts records together and reports.
pub(super) struct Report<'a, 'v> {
    known: &'a Known,
    segments: &'a Segments,
    front: Lsn,
    records: Records,
    /// To count what lies in void ranges.
    taken_back: Records,
    found: VerifyReport,
    /// The visitor has had enough.
    stopped: bool,
    visit: &'v mut dyn FnMut(Visit<'_>) -> bool,
}

impl<'a, 'v> Report<'a, 'v> {
    pub(super) fn new(
        walk: &'a Walk<'_>,
        segments: &'a Segments,
        front: Lsn,
        visit: &'v mut dyn FnMut(Visit<'_>) -> bool,
    ) -> Self {
        Report {
            known: &walk.known,
            segments,
            front,
            records: Records::default(),
            taken_back: Records::default(),
            found: VerifyReport {
                end: Lsn::ORIGIN,
                case: RecoveryCase::CleanEnd,
                proven_to: walk.proven_to,
                batches: 0,
                records: 0,
                record_bytes: 0,
                voided: 0,
                parts: 0,
                damages: 0,
            },
            stopped: false,
            visit,
        }
    }

    /// Reports what was met; `false` once the visitor has had enough.
    pub(super) fn met(&mut self, met: Met<'_>) -> bool {
        match met {
            Met::Batch(header, payload, end) => self.batch(header, payload, end),
            Met::Jump => self.records.drop_begun(),
            Met::Damage(what) => self.damage(what),
            Met::KnownDamage => self.lose(),
        }
        !self.stopped
    }

    pub(super) fn finding(mut self, ended: &Ended) -> VerifyReport {
        self.found.end = ended.at;
        self.found.case = ended.case;
        self.found
    }

    /// What comes next is lost.
    fn lose(&mut self) {
        self.records.lose();
        self.hand_out();
    }

    pub(super) fn damage(&mut self, what: &Damage) {
        self.lose();
        if !self.stopped {
            self.found.damages += 1;
            self.show(Visit::Damage(what));
        }
    }

    fn batch(&mut self, h: &BatchHeader, payload: &[u8], end: Lsn) {
        let segment = self.segments.containing(h.lsn);
        let info = BatchInfo {
            lsn: h.lsn,
            end,
            file: segment.as_ref().map(|s| s.name()).unwrap_or_default(),
            offset: segment.as_ref().map_or(0, |s| s.offset(h.lsn)),
            kind: h.kind,
            epoch: h.epoch,
            stamp: h.stamp,
            void_from: h.void_from,
            frames: h.frames,
            payload_len: h.payload_len,
        };
        self.found.batches += 1;
        self.found.proven_to = self.found.proven_to.max(h.stamp);
        self.show(Visit::Batch(&info));
        let (from, voids) = (Lsn::ORIGIN, &self.known.voids);
        // The walk has found the frames right.
        let _ = self.records.take(h, payload, from, voids);
        self.hand_out();
        if voids.covering(h.lsn).or(voids.covering(end)).is_some() {
            let _ = self.taken_back.take(h, payload, from, &Voids::default());
            let taken_back = self.taken_back.ready.drain(..);
            let voided =
                taken_back.filter(|e| voids.covering(e.start).is_some() && e.start >= self.front);
            self.found.voided += voided.count() as u64;
        }
    }

    /// Reports the records of appends that are complete, and what is left of others.
    fn hand_out(&mut self) {
        for entry in std::mem::take(&mut self.records.parts) {
            if entry.start >= self.front && !self.stopped {
                self.found.parts += 1;
                self.show(Visit::Part(&entry));
            }
        }
        while let Some(entry) = self.records.ready.pop_front() {
            if entry.start < self.front || self.stopped {
                continue;
            }
            self.found.records += 1;
            self.found.record_bytes += entry.data.len() as u64;
            let unknown = self.known.unknown.as_ref();
            let is_known = unknown.is_none_or(|lost| entry.start >= lost.lsn);
            self.show(Visit::Record {
                proven: is_known && entry.end <= self.found.proven_to,
                entry: &entry,
            });
        }
    }

    fn show(&mut self, what: Visit<'_>) {
        if !self.stopped && !(self.visit)(what) {
            self.stopped = true;
        }
    }
}
