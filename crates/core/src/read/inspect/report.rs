//! Conversion of the events of a walk into records and counts.

use crate::error::Damage;
use crate::read::inspect::info::{BatchInfo, VerifyReport, Visit};
use crate::read::records::Records;
use crate::scan::walk::types::{KnownVoids, Walk, WalkEnd, WalkEvent};
use crate::storage::segments::Segments;
use crate::storage::voids::Voids;
use logforce_format::{BatchHeader, Lsn, RecoveryCase};

/// Collector of a [`VerifyReport`]: assembles records, calls the visitor and counts.
pub(super) struct VerifyReportBuilder<'a, 'v> {
    known_voids: &'a KnownVoids,
    segments: &'a Segments,
    front: Lsn,
    records: Records,
    /// Assembler of the records in void ranges, which are only counted.
    voided_records: Records,
    found: VerifyReport,
    /// True once the visitor has asked to stop.
    stopped: bool,
    visit: &'v mut dyn FnMut(Visit<'_>) -> bool,
}

impl<'a, 'v> VerifyReportBuilder<'a, 'v> {
    pub(super) fn new(
        walk: &'a Walk<'_>,
        segments: &'a Segments,
        front: Lsn,
        visit: &'v mut dyn FnMut(Visit<'_>) -> bool,
    ) -> Self {
        VerifyReportBuilder {
            known_voids: &walk.voids,
            segments,
            front,
            records: Records::default(),
            voided_records: Records::default(),
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

    /// Handles an event; returns `false` once the visitor has asked to stop.
    pub(super) fn event(&mut self, event: WalkEvent<'_>) -> bool {
        match event {
            WalkEvent::Batch(header, payload, end) => self.batch(header, payload, end),
            WalkEvent::Jump => self.records.drop_begun(),
            WalkEvent::Damage(what) => self.damage(what),
            WalkEvent::KnownDamage => self.mark_loss(),
        }
        !self.stopped
    }

    pub(super) fn finish(mut self, ended: &WalkEnd) -> VerifyReport {
        self.found.end = ended.at;
        self.found.case = ended.case;
        self.found
    }

    /// Notes that the next batches are lost.
    fn mark_loss(&mut self) {
        self.records.mark_loss();
        self.emit();
    }

    pub(super) fn damage(&mut self, what: &Damage) {
        self.mark_loss();
        if !self.stopped {
            self.found.damages += 1;
            self.visit_one(Visit::Damage(what));
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
        self.visit_one(Visit::Batch(&info));
        let (from, voids) = (Lsn::ORIGIN, &self.known_voids.voids);
        // The walk has checked the frames.
        let _ = self.records.take(h, payload, from, voids);
        self.emit();
        if voids.covering(h.lsn).or(voids.covering(end)).is_some() {
            let _ = self
                .voided_records
                .take(h, payload, from, &Voids::default());
            let voided = std::iter::from_fn(|| self.voided_records.next())
                .filter(|e| voids.covering(e.start).is_some() && e.start >= self.front);
            self.found.voided += voided.count() as u64;
        }
    }

    /// Passes complete records, and the whole records of incomplete appends, to the visitor.
    fn emit(&mut self) {
        for record in std::mem::take(&mut self.records.parts) {
            if record.start >= self.front && !self.stopped {
                self.found.parts += 1;
                self.visit_one(Visit::Part(&record));
            }
        }
        while let Some(record) = self.records.next() {
            if record.start < self.front || self.stopped {
                continue;
            }
            self.found.records += 1;
            self.found.record_bytes += record.data.len() as u64;
            let unknown = self.known_voids.unknown.as_ref();
            let is_known = unknown.is_none_or(|lost| record.start >= lost.lsn);
            self.visit_one(Visit::Record {
                proven: is_known && record.end <= self.found.proven_to,
                record: &record,
            });
        }
    }

    fn visit_one(&mut self, what: Visit<'_>) {
        if !self.stopped && !(self.visit)(what) {
            self.stopped = true;
        }
    }
}
