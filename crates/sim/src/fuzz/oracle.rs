//! The oracle: rules for the records that a mutated log may show.
//!
//! A damaged log shows a prefix of its records. If the remaining bytes prove that more was durable, it
//! reports the loss. A log that was rolled back in parts shows only records that were appended. A forged
//! log may show anything: it only must return, and keep what it acknowledges from then on.

use super::Files;
use super::base::Base;
use super::mutated::Mutated;
use super::opening::{Shown, Walked, Written};
use logforce_core::{BatchKind, Lsn, Record};
use logforce_format::{
    BATCH_HEADER_LEN, BatchHeader, CONTROL_SLOT_LEN, CONTROL_SLOT_OFFSETS, Control, Decision,
    META_SLOT_OFFSETS, Meta, SEGMENT_HEADER_LEN, SegmentHeader,
};
use std::collections::BTreeSet;

/// A mutated log, and the expectations for it.
pub(super) struct Case<'b> {
    m: &'b Mutated<'b>,
    /// LSN below which everything was durable, as the remaining bytes prove.
    proven: Lsn,
    /// True if a batch that voids records was changed, so that the voided records may come back.
    void_damaged: bool,
}

/// Returns true if the bytes at `at` are the same in both.
fn same(a: &Files, b: &Files, name: &str, at: usize, len: usize) -> bool {
    let of = |files: &Files| -> Option<Vec<u8>> {
        files.get(name)?.get(at..at + len).map(<[u8]>::to_vec)
    };
    of(a).is_some_and(|a| Some(a) == of(b))
}

impl<'b> Case<'b> {
    pub(super) fn new(m: &'b Mutated<'b>) -> Case<'b> {
        let base = m.base;
        let is_there = |name: &str, at: usize, len: usize| {
            let range = at as u64 / 4096..=(at + len - 1) as u64 / 4096;
            let readable = |(n, at): &(String, u64)| n == name && range.contains(&(at / 4096));
            same(&m.files, &base.files, name, at, len) && !m.unreadable.iter().any(readable)
        };
        let mut proven = Lsn::ORIGIN;
        let mut void_damaged = false;
        for s in &base.segments {
            let file = m.files.get(&s.name);
            let whole = is_there(&s.name, 0, SEGMENT_HEADER_LEN)
                && file.is_some_and(|f| f.len() as u64 >= s.len);
            for b in base.batches.iter().filter(|b| b.file == s.name) {
                let there = whole && is_there(&s.name, b.offset as usize, BATCH_HEADER_LEN);
                if there {
                    proven = proven.max(b.stamp);
                }
                if b.kind != BatchKind::Data && b.void_from < b.lsn && !there {
                    void_damaged = true;
                }
            }
        }
        let slot = |at: u64| is_there("control", at as usize, CONTROL_SLOT_LEN);
        if CONTROL_SLOT_OFFSETS.into_iter().any(slot) {
            proven = proven.max(base.anchor);
        }
        Case {
            m,
            proven,
            void_damaged,
        }
    }

    fn base(&self) -> &Base {
        self.m.base
    }

    /// Returns true if bytes that the log never wrote have a correct checksum. The fuzzer sees the value
    /// that a checksum is compared with, and may forge one by chance.
    pub(super) fn is_forged(&self) -> bool {
        self.m.kinds.forged || forged_by_chance(self.base(), &self.m.files)
    }

    /// Panics, unless a forgery explains the finding.
    pub(super) fn fail(&self, what: &str) {
        if self.is_forged() {
            return;
        }
        panic!(
            "'{}', proven up to {}: {what}",
            self.base().name,
            self.proven
        );
    }

    fn check(&self, right: bool, what: impl FnOnce() -> String) {
        if !right {
            self.fail(&what());
        }
    }

    fn was_appended(&self, e: &Record) -> bool {
        let known = self.base().history.get(&e.start);
        known.is_some_and(|k| k.contains(e))
    }

    pub(super) fn walked(&self, walked: &Walked) {
        for e in &walked.records {
            self.check(self.was_appended(e), || {
                format!("a walk found {} that was never appended", e.start)
            });
        }
        if let Some(Ok(meta)) = &walked.meta {
            self.meta(meta);
        }
    }

    fn meta(&self, meta: &Option<Vec<u8>>) {
        let right = if self.m.kinds.rolled_back {
            self.base().metas.contains(meta)
        } else {
            *meta == self.base().meta
        };
        self.check(right, || "metadata that is not the latest".to_owned());
    }

    /// Checks that the records are a prefix of the log's records.
    fn beginning(&self, records: &[Record], how: &str) {
        for e in records {
            self.check(self.was_appended(e), || {
                format!("{how}: {} was never appended", e.start)
            });
        }
        let ordered = records.is_sorted_by(|a, b| a.end <= b.start);
        self.check(ordered, || format!("{how}: out of order"));
        if self.m.kinds.rolled_back {
            return;
        }
        for (e, live) in records.iter().zip(&self.base().live) {
            self.check(e == live, || {
                format!("{how}: {} where {} must be", e.start, live.start)
            });
        }
        self.check(records.len() <= self.base().live.len(), || {
            format!("{how}: more records than the log had")
        });
    }

    /// Checks that all records that are proven durable exist.
    fn complete(&self, records: &[Record], how: &str) {
        let missing = self.base().live.get(records.len());
        let right = self.m.kinds.rolled_back || missing.is_none_or(|e| e.end > self.proven);
        self.check(right, || {
            let missing = missing.map(|e| e.start);
            format!("{how}: silently shorter, {missing:?} is missing")
        });
    }

    pub(super) fn shown(&self, shown: &Shown, how: &str) {
        self.beginning(&shown.records, how);
        if shown.ended.is_none() {
            self.complete(&shown.records, how);
            self.meta(&shown.meta);
        }
    }

    /// Returns true if a batch that voids records was changed.
    pub(super) fn void_damaged(&self) -> bool {
        self.void_damaged
    }

    /// Checks that the records that the walk reports as proven were part of the log.
    pub(super) fn proven(&self, records: &[Record]) {
        if self.m.kinds.rolled_back {
            return;
        }
        for e in records {
            self.check(self.base().live.contains(e), || {
                format!(
                    "{} is reported as proven, but was not part of the log",
                    e.start
                )
            });
        }
    }

    pub(super) fn followed(&self, records: &[Record]) {
        self.beginning(records, "followed");
    }

    pub(super) fn written(&self, written: &Written, truncating: bool) {
        let how = if truncating { "truncated" } else { "opened" };
        let before = &written.before;
        if let Some(recovered) = &before.recovered {
            let reported = before.lost || recovered.case.decision() != Decision::Refuse;
            assert!(
                reported,
                "{how}: a loss that is not reported: {recovered:?}"
            );
        }
        if truncating && (self.void_damaged || before.lost) {
            for e in &before.records {
                self.check(self.was_appended(e), || {
                    format!("{how}: {} was never appended", e.start)
                });
            }
        } else {
            self.shown(before, how);
        }
        self.kept(written, how);
    }

    /// Checks that the next opening keeps what this one showed, and the record committed after it.
    fn kept(&self, written: &Written, how: &str) {
        let before = &written.before;
        if written.after.is_none() {
            self.check(
                before.ended.is_some() || self.m.kinds.rolled_back || self.m.files.len() > 30,
                || format!("{how}: the log accepts no record"),
            );
        }
        written.check();
    }
}

/// Returns all whole headers and slots in the files.
fn whole(files: &Files) -> BTreeSet<Vec<u8>> {
    let mut found = BTreeSet::new();
    for (name, bytes) in files {
        if name == "control" {
            for at in CONTROL_SLOT_OFFSETS.into_iter().chain(META_SLOT_OFFSETS) {
                let slot = bytes.get(at as usize..).unwrap_or(&[]);
                let slot = &slot[..slot.len().min(CONTROL_SLOT_LEN)];
                let mut id = logforce_format::LogId::default();
                if let Some(bytes) = slot.get(16..32) {
                    id.0.copy_from_slice(bytes);
                }
                if Control::decode(slot).is_ok() || Meta::decode(slot, id).is_ok() {
                    found.insert(slot.to_vec());
                }
            }
            continue;
        }
        for at in (0..bytes.len()).step_by(512) {
            let header = &bytes[at..bytes.len().min(at + BATCH_HEADER_LEN)];
            if BatchHeader::decode(header).is_ok() || SegmentHeader::decode(header).is_ok() {
                found.insert(header.to_vec());
            }
        }
    }
    found
}

fn forged_by_chance(base: &Base, files: &Files) -> bool {
    let mut known = whole(&base.files);
    for version in &base.versions {
        known.extend(whole(version));
    }
    whole(files).iter().any(|header| !known.contains(header))
}
