//! What a walk gathers on its way: records, and what was taken back.

use super::{BatchInfo, Finding, Visit};
use crate::Damage;
use crate::reader::Entry;
use crate::segments::Segments;
use crate::voids::Voids;
use logforce_format::frame::Frames;
use logforce_format::{BATCH_HEADER_LEN, BatchHeader, BatchKind, Lsn};
use std::collections::BTreeSet;

/// What the batches of a log say of those that took something back.
#[derive(Debug, Clone, Default)]
pub(super) struct Links {
    /// The latest that took back nobody knows what.
    pub(super) unknown: Option<Lsn>,
    pub(super) ranges: Vec<(Lsn, Lsn)>,
    /// Batches that void something, by what others say.
    pub(super) named: BTreeSet<Lsn>,
}

impl Links {
    pub(super) fn note(&mut self, h: &BatchHeader) {
        if h.voids() {
            self.ranges.push((h.void_from, h.lsn));
        }
        self.named.insert(h.last_void);
    }

    /// The latest batch that took back nobody knows what. One that was taken back itself had not
    /// taken back more than that.
    pub(super) fn latest_lost(&self, voids: &Voids, front: Lsn) -> Option<Lsn> {
        let found = |at: &Lsn| self.ranges.iter().any(|(_, to)| to == at);
        let mut latest = self.named.iter().rev();
        latest
            .find(|at| **at > front && !found(at) && voids.covering(**at).is_none())
            .copied()
    }
}

/// Puts records together and reports.
pub(super) struct Report<'a, 'v> {
    pub(super) voids: Voids,
    /// Of what lies below nobody knows whether it was taken back.
    pub(super) unknown: Option<Lsn>,
    pub(super) gathered: &'a mut Links,
    pub(super) front: Lsn,
    pub(super) current: Option<Entry>,
    /// Whole records of an atomic append that is not at its end yet, and whether they are proven.
    pub(super) group: Vec<(Entry, bool)>,
    pub(super) found: &'a mut Finding,
    pub(super) visit: &'v mut dyn FnMut(Visit<'_>) -> bool,
}

impl Report<'_, '_> {
    pub(super) fn batch(
        &mut self,
        segments: &Segments,
        h: BatchHeader,
        payload: &[u8],
        end: Lsn,
    ) -> bool {
        let segment = segments.containing(h.lsn);
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
        self.found.end = end;
        self.found.proven_to = self.found.proven_to.max(h.stamp);
        self.gathered.note(&h);
        if !(self.visit)(Visit::Batch(&info)) {
            return false;
        }
        if h.kind != BatchKind::Data {
            return true;
        }
        for frame in Frames::new(payload, h.lsn.plus(BATCH_HEADER_LEN as u64)).map_while(|f| f.ok())
        {
            if frame.header.first {
                self.current = Some(Entry {
                    start: frame.lsn,
                    end: frame.lsn,
                    data: Vec::new(),
                });
            }
            let Some(entry) = &mut self.current else {
                continue;
            };
            entry.data.extend_from_slice(frame.data);
            if !frame.header.last {
                continue;
            }
            entry.end = frame.end();
            let Some(entry) = self.current.take() else {
                continue;
            };
            let joined = frame.header.joined;
            if entry.start >= self.front {
                let known = self.unknown.is_none_or(|u| entry.start >= u);
                let proven = known && entry.end <= self.found.proven_to;
                self.group.push((entry, proven));
            }
            // A crash may have left the beginning of an append: none of it is part of the log.
            if !joined && !self.hand_out() {
                return false;
            }
        }
        true
    }

    /// Reports the records of an append that is complete, or as complete as damage leaves it.
    pub(super) fn hand_out(&mut self) -> bool {
        for (entry, proven) in std::mem::take(&mut self.group) {
            if self.voids.covering(entry.start).is_some() {
                self.found.voided += 1;
                continue;
            }
            self.found.records += 1;
            self.found.record_bytes += entry.data.len() as u64;
            if !(self.visit)(Visit::Record {
                entry: &entry,
                proven,
            }) {
                return false;
            }
        }
        true
    }

    /// Passes over a void range: what is begun and not ended before it never will be.
    pub(super) fn jump(&mut self) {
        self.current = None;
        self.group.clear();
    }

    pub(super) fn damage(&mut self, what: &Damage) -> bool {
        self.current = None;
        self.found.damages += 1;
        self.hand_out() && (self.visit)(Visit::Damage(what))
    }
}
