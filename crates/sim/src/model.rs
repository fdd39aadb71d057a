//! A model of a log: records that were appended, acknowledged and truncated. After any crash it says
//! which records must exist, which may, and which must not.

use logforce_core::{
    Environment, EnvironmentOptions, Error, ErrorKind, Guarantee, Inspector, Log, Lsn, OpenMode,
    Options, Record, RecordRange, Visit,
};
use logforce_device::System;
use logforce_testkit::{Failure, Rng};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Directory of the log in these tests.
pub const PATH: &str = "/log";

/// A record as the caller of `append` knows it. Its start is its key in [`Model::records`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// Exclusive end.
    pub end: Lsn,
    /// Bytes of the record. Shared, because a model is cloned before each check of a log.
    pub data: Arc<Vec<u8>>,
    /// Start of the atomic append that it belongs to.
    pub group: Lsn,
}

/// State of a log as known from the results of its calls alone.
#[derive(Debug, Clone, Default)]
pub struct Model {
    /// True once an opening has returned. From then on there is a log, whatever fails.
    pub created: bool,
    /// Records that were appended, and neither truncated at the front nor lost in a crash. Voided ones
    /// stay.
    pub records: BTreeMap<Lsn, Known>,
    /// Records that were truncated at the front.
    past: BTreeMap<Lsn, Arc<Vec<u8>>>,
    /// Records that a repair has removed. Salvage may show them if the batch that voids them is lost.
    cut: BTreeMap<Lsn, Arc<Vec<u8>>>,
    /// Acknowledged void ranges.
    pub voids: Vec<(Lsn, Lsn)>,
    /// Void ranges whose acknowledgement promised less than `PowerLoss`.
    weak_voids: Vec<(Lsn, Lsn, Guarantee)>,
    /// Calls of `truncate_back` that did not succeed.
    pub voids_in_flight: Vec<Lsn>,
    /// LSN below which records are gone.
    pub front: Lsn,
    /// Calls of `truncate_front` that did not succeed.
    pub fronts_in_flight: Vec<Lsn>,
    /// LSN up to which records were acknowledged, by the guarantee of the acknowledgement.
    acked: BTreeMap<Guarantee, Lsn>,
    /// Lowest LSN of new records.
    floor: Lsn,
    /// Commits that did not return. Only the log shows whether they are in it, and where.
    begun: Vec<Vec<u8>>,
    /// Metadata that was last acknowledged, or found by an opening.
    pub meta: Option<Vec<u8>>,
    /// Metadata that was set since and not acknowledged.
    metas_in_flight: Vec<Option<Vec<u8>>>,
    /// True if only one thread works. Its records never lie inside a range that it voided.
    pub alone: bool,
    /// Counter that makes the bytes of every record different.
    next: u64,
    /// Number of truncations that succeeded.
    truncations: u64,
}

/// Returns the weakest guarantee that covers a failure. Records with that guarantee must be left.
pub fn covering(failure: Failure) -> Guarantee {
    match failure {
        Failure::Process => Guarantee::ProcessCrash,
        Failure::Os => Guarantee::OsCrash,
        Failure::Power => Guarantee::PowerLoss,
    }
}

impl Model {
    /// Returns `len` bytes for a record, unlike those of any other.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        self.next += 1;
        let mut rng = Rng::new(self.next);
        let mut data = Vec::with_capacity(len + 8);
        while data.len() < len {
            data.extend_from_slice(&rng.bits().to_le_bytes());
        }
        data.truncate(len);
        data
    }

    /// Notes that a commit has begun.
    pub fn began(&mut self, data: Vec<u8>) {
        self.begun.push(data);
    }

    /// Notes that it succeeded.
    pub fn ended(&mut self, data: &[u8]) {
        self.begun.retain(|d| d != data);
    }

    /// Learns from an opened log the positions of the commits that did not return.
    fn resolve_begun(&mut self, found: &[Record]) {
        for e in found {
            if !self.records.contains_key(&e.start) && self.begun.contains(&e.data) {
                self.ended(&e.data);
                let (end, data, group) = (e.end, e.data.clone().into(), e.start);
                self.records.insert(e.start, Known { end, data, group });
            }
        }
    }

    /// Notes a call that sets the metadata, and returns the bytes for it.
    pub fn meta_requested(&mut self, len: usize) -> Vec<u8> {
        let bytes = self.bytes(len);
        self.metas_in_flight.push(Some(bytes.clone()));
        bytes
    }

    /// Notes that it succeeded.
    pub fn meta_acknowledged(&mut self, bytes: Vec<u8>) {
        self.meta = Some(bytes);
        self.metas_in_flight.clear();
    }

    fn resolve_meta(&mut self, log: &Log) {
        let found = log.meta();
        assert!(
            found == self.meta || self.metas_in_flight.contains(&found),
            "metadata {found:?}: {:?} was acknowledged, {:?} in flight",
            self.meta,
            self.metas_in_flight
        );
        self.meta = found;
        self.metas_in_flight.clear();
    }

    /// Notes an accepted append.
    pub fn appended(&mut self, all: &[RecordRange], data: Vec<Vec<u8>>) {
        let group = all.first().map_or(Lsn::ORIGIN, |a| a.start);
        for (at, data) in all.iter().zip(data) {
            let RecordRange { start, end } = *at;
            assert!(start < end, "empty place {start}..{end}");
            assert!(
                start >= self.floor,
                "LSN {start} was used before: the log ended at {}",
                self.floor
            );
            for (from, to) in &self.voids {
                assert!(
                    !self.alone || end <= *from || start >= *to,
                    "LSN {start} was voided with {from}..{to}"
                );
            }
            let before = self.records.range(..end).next_back();
            assert!(
                before.is_none_or(|(_, k)| k.end <= start),
                "LSN {start}..{end} is in use: {before:?}"
            );
            let data = data.into();
            self.records.insert(start, Known { end, data, group });
        }
    }

    /// Notes that all records below `end` were acknowledged.
    pub fn acked(&mut self, end: Lsn, guarantee: impl Into<Guarantee>) {
        let guarantee = guarantee.into();
        if guarantee == Guarantee::PowerLoss {
            self.weak_voids.retain(|v| v.1 >= end);
        }
        for g in Guarantee::ALL.into_iter().filter(|g| *g <= guarantee) {
            let known = self.acked.entry(g).or_default();
            *known = end.max(*known);
        }
    }

    /// Returns the LSN up to which records were acknowledged against `failure`.
    pub fn acked_to(&self, failure: Failure) -> Lsn {
        self.acked
            .get(&covering(failure))
            .copied()
            .unwrap_or_default()
    }

    /// Returns the end of the log at its last opening.
    pub fn opened_at(&self) -> Lsn {
        self.floor
    }

    /// Returns true if this record was ever appended at its LSN, as far as is known.
    pub fn ever(&self, e: &Record) -> bool {
        let record = self.records.get(&e.start).map(|k| &k.data);
        let data = record.or_else(|| self.past.get(&e.start));
        data.map_or_else(|| self.begun.contains(&e.data), |data| **data == e.data)
    }

    /// Returns true if a repair has removed this record.
    pub fn was_cut(&self, e: &Record) -> bool {
        let data = self.cut.get(&e.start);
        data.is_some_and(|data| **data == e.data)
    }

    /// Returns true if a truncation returned an error but may have happened.
    pub fn is_truncating(&self) -> bool {
        !(self.fronts_in_flight.is_empty() && self.voids_in_flight.is_empty())
    }

    /// Returns true if a truncation succeeded, at either end.
    pub fn was_truncated(&self) -> bool {
        self.truncations > 0
    }

    fn is_voided(&self, lsn: Lsn) -> bool {
        self.voids.iter().any(|(a, b)| (*a..*b).contains(&lsn))
    }

    /// Returns the records that are part of the log as far as is known, in order.
    ///
    /// An atomic append is live as a whole or not at all. If a crash left only a part of it, the next
    /// opening voids that part. The range ends before the append's last records, and the model takes it
    /// for a truncation if one was in flight to the same LSN.
    pub fn live(&self) -> Vec<(Lsn, Known)> {
        self.records
            .range(self.front..)
            .filter(|(lsn, k)| !self.is_voided(**lsn) && !self.is_voided(k.group))
            .map(|(lsn, k)| (*lsn, k.clone()))
            .collect()
    }

    /// Returns the boundaries between appends below `end`.
    pub fn boundaries(&self, end: Lsn) -> Vec<Lsn> {
        self.live()
            .into_iter()
            .filter(|(lsn, k)| *lsn == k.group && k.end <= end)
            .map(|(lsn, _)| lsn)
            .collect()
    }

    /// Checks a log that was opened after `failure`, and adopts its records. The opening made these
    /// durable, and the missing ones are gone for good.
    pub fn verify(&mut self, system: &dyn System, log: &Log, failure: Failure) {
        self.created = true;
        self.forget_voids(failure);
        self.resolve_front(log);
        self.resolve_voids(log);
        self.resolve_meta(log);
        let acked = self.acked_to(failure);
        let found: Vec<Record> = read(log, log.front_lsn());
        self.resolve_begun(&found);
        let live = self.live();
        check_prefix(&found, &live, acked);

        let (durable, tail) = (log.durable_lsn(), log.tail_lsn());
        assert_eq!(durable, tail, "durable and tail after opening");
        let end = found.last().map_or(self.front, |e| e.end);
        let high = self.voids.iter().map(|v| v.1).max().unwrap_or_default();
        assert!(log.recovered().end >= end && log.recovered().end <= tail);
        assert!(
            tail >= end.max(high).max(acked),
            "tail {tail}: {end} was found, {high} voided, {acked} acknowledged"
        );
        // An append may have been voided in part and never written to its end. The rest of its LSNs is
        // used again.
        self.records.retain(|_, k| k.end <= tail);
        for (lsn, k) in live.iter().skip(found.len()) {
            self.records.remove(lsn);
            // A read must not find the records that recovery dropped.
            match log.read_at(*lsn) {
                Err(e) => assert_ne!(e.kind(), ErrorKind::Damaged, "{e}"),
                Ok(e) => assert_ne!(e.data, *k.data, "dropped, but back at {lsn}"),
            }
        }
        // Weaker acknowledgements, which did not cover this failure, have lapsed.
        self.acked.clear();
        self.weak_voids.clear();
        self.acked(durable, Guarantee::PowerLoss);
        self.floor = tail;
        self.check_answers(log, &found);
        self.check_walk(system, &found, false);
    }

    /// Adopts the records of a repaired log.
    pub fn adopt(&mut self, log: &Log) {
        self.front = log.front_lsn();
        self.fronts_in_flight.clear();
        self.voids_in_flight.clear();
        self.weak_voids.clear();
        self.metas_in_flight.clear();
        let found: Vec<Record> = read(log, self.front);
        self.resolve_begun(&found);
        let mut known = std::mem::take(&mut self.records);
        for e in &found {
            // An append exists as a whole or not at all, so the record keeps its group.
            let group = known.remove(&e.start).map_or(e.start, |k| k.group);
            let (end, data) = (e.end, e.data.clone().into());
            self.records.insert(e.start, Known { end, data, group });
        }
        let is_void = |from: Lsn| {
            log.read_at(from)
                .is_err_and(|e| e.kind() == ErrorKind::Voided)
        };
        self.voids
            .retain(|v| v.1 > log.front_lsn() && is_void(v.0) && is_void(Lsn(v.1.0 - 1)));
        // Voided records were not removed, and stay at their LSNs.
        for (lsn, k) in known {
            if self.is_voided(lsn) {
                self.records.insert(lsn, k);
            } else {
                self.cut.insert(lsn, k.data);
            }
        }
        self.meta = log.meta();
        self.acked.clear();
        self.acked(log.durable_lsn(), Guarantee::PowerLoss);
        self.floor = log.tail_lsn();
    }

    /// Checks that an open log shows exactly the forced records. For one writer only.
    pub fn check_readable(&self, log: &Log) {
        let durable = log.durable_lsn();
        let found = read(log, log.front_lsn());
        let live = self.live();
        check_prefix(&found, &live, self.acked_to(Failure::Process).min(durable));
        assert!(found.last().is_none_or(|e| e.end <= durable));
        self.check_answers(log, &found);
    }

    /// Checks that a follower shows exactly the durable records. For one writer only.
    pub fn check_followed(&self, log: &Log) {
        let mut follower = log
            .follow_lsn(log.front_lsn())
            .expect("the front is a boundary");
        let mut shown = Vec::new();
        while let Some(record) = follower.try_next().expect("nothing is voided meanwhile") {
            shown.push(record);
        }
        assert_eq!(shown, read(log, log.front_lsn()));
    }

    /// Checks that a failed log still shows the acknowledged records. A truncation that returned an
    /// error may show or not.
    pub fn check_prefix_readable(&self, log: &Log) {
        let found = read(log, log.front_lsn());
        let mut known = self.clone();
        known.resolve_begun(&found);
        known.resolve_front(log);
        known.resolve_voids(log);
        check_prefix(&found, &known.live(), self.acked_to(Failure::Process));
    }

    fn resolve_front(&mut self, log: &Log) {
        let front = log.front_lsn();
        assert!(
            front == self.front || self.fronts_in_flight.contains(&front),
            "front {front}: {} was acknowledged, {:?} in flight",
            self.front,
            self.fronts_in_flight
        );
        self.fronts_in_flight.clear();
        self.fronted(front);
    }

    /// Notes a truncation at the front.
    pub fn fronted(&mut self, front: Lsn) {
        assert!(front >= self.front, "the front fell to {front}");
        self.truncations += u64::from(front > self.front);
        self.front = front;
        let above = self.records.split_off(&front);
        let below = std::mem::replace(&mut self.records, above);
        self.past
            .extend(below.into_iter().map(|(lsn, k)| (lsn, k.data)));
        self.voids.retain(|v| v.1 > front);
    }

    /// Notes a truncation at the back that was acknowledged, or that was found to have happened. Only the
    /// log knows its end, because other threads may have appended meanwhile.
    pub fn voided(&mut self, log: &Log, from: Lsn) {
        match log.read_at(from) {
            Err(Error::Voided { from: a, to, .. }) => {
                assert!(a <= from && to > from, "{a}..{to} for {from}");
                assert!(to <= log.tail_lsn(), "voided beyond the tail: {from}..{to}");
                self.voids.push((from, to));
                self.truncations += 1;
                self.weak_voids.push((from, to, log.guarantee().into()));
            }
            Err(e) => assert_ne!(e.kind(), ErrorKind::Damaged, "{e}"),
            Ok(_) => {}
        }
    }

    /// Takes over what a copy of the model learned in [`voided`](Self::voided).
    pub fn take_voids(&mut self, from: Model) {
        self.truncations = from.truncations;
        self.voids = from.voids;
        self.weak_voids = from.weak_voids;
    }

    /// Forgets void ranges whose acknowledgement does not cover `failure`: from now on they may exist or not.
    fn forget_voids(&mut self, failure: Failure) {
        for (from, to, guarantee) in std::mem::take(&mut self.weak_voids) {
            if guarantee < covering(failure) {
                self.voids.retain(|v| *v != (from, to));
                self.voids_in_flight.push(from);
            }
        }
    }

    fn resolve_voids(&mut self, log: &Log) {
        for from in std::mem::take(&mut self.voids_in_flight) {
            if from >= self.front && !self.is_voided(from) {
                self.voided(log, from);
            }
        }
    }

    /// Checks `read_at`, `read_from` and the errors below the front, in void ranges and at the end.
    fn check_answers(&self, log: &Log, found: &[Record]) {
        let some = |n: usize| found.len() <= 6 || n.is_multiple_of(found.len() / 6);
        for (n, e) in found.iter().enumerate().filter(|(n, _)| some(*n)) {
            assert_eq!(log.read_at(e.start).as_ref().ok(), Some(e), "{}", e.start);
            let next = log.read_from(e.start).ok().and_then(|mut r| r.next());
            assert_eq!(next.and_then(|r| r.ok()).as_ref(), Some(e));
            let after = log.read_from(e.end).expect("the end of a record");
            let after = after.map(|r| r.expect("readable")).next();
            assert_eq!(after.as_ref(), found.get(n + 1), "behind {}", e.start);
            let inside = log.read_at(e.start.plus(4)).map_err(|e| e.kind());
            assert_eq!(inside, Err(ErrorKind::InvalidInput));
        }
        for (from, to) in self.voids.iter().filter(|v| v.0 >= self.front) {
            let end = Lsn(to.0 - 1);
            for lsn in [*from, end] {
                let kind = log.read_at(lsn).map_err(|e| e.kind());
                assert_eq!(kind, Err(ErrorKind::Voided), "{lsn} in {from}..{to}");
            }
            let kind = log.read_from(end).map(|_| ()).map_err(|e| e.kind());
            assert_eq!(kind, Err(ErrorKind::Voided), "{end} in {from}..{to}");
            // A reader that reaches the range continues after it.
            let next = match log.read_from(*from) {
                Ok(reader) => reader.map(|r| r.expect("readable").start).next(),
                Err(e) => {
                    assert_eq!(e.kind(), ErrorKind::Voided);
                    assert!(
                        found.iter().all(|e| e.end != *from),
                        "{from} is a record's end"
                    );
                    continue;
                }
            };
            let expected = found.iter().map(|e| e.start).find(|s| s >= to);
            assert_eq!(next, expected, "behind {from}..{to}");
        }
        if self.front > Lsn::ORIGIN {
            for lsn in [Lsn::ORIGIN, Lsn(self.front.0 - 1)] {
                let kind = log.read_at(lsn).map_err(|e| e.kind());
                assert_eq!(kind, Err(ErrorKind::Truncated), "{lsn}");
                let kind = log.read_from(lsn).map(|_| ()).map_err(|e| e.kind());
                assert_eq!(kind, Err(ErrorKind::Truncated), "{lsn}");
            }
        }
        let kind = log.read_at(log.durable_lsn()).map_err(|e| e.kind());
        assert_eq!(kind, Err(ErrorKind::BeyondEnd));
    }

    /// Checks that the inspector sees no damage before recovery, and no incomplete append.
    pub fn check_crashed(&mut self, system: &dyn System, failure: Failure) {
        self.forget_voids(failure);
        if self.created && self.voids_in_flight.is_empty() && self.fronts_in_flight.is_empty() {
            self.check_walk(system, &[], true);
        }
    }

    /// Checks that the inspector sees the same records, and no damage. If `crashed`, the log was not
    /// opened since a crash, and may hold an unfinished append.
    pub fn check_walk(&self, system: &dyn System, found: &[Record], crashed: bool) {
        let inspector = Inspector::open(system, PATH).expect("a healthy log can be inspected");
        let mut seen = Vec::new();
        let mut proven_before = true;
        let finding = inspector
            .walk(&mut |visit| {
                match visit {
                    Visit::Record { record, proven } => {
                        assert!(proven_before || !proven, "proven after unproven");
                        proven_before = proven;
                        seen.push(record.clone());
                    }
                    Visit::Damage(d) => panic!("a healthy log is damaged: {d}"),
                    _ => {}
                }
                true
            })
            .expect("walk");
        assert_eq!(finding.damages, 0);
        assert_eq!(finding.records, seen.len() as u64);
        if crashed {
            let mut known = self.clone();
            known.resolve_begun(&seen);
            check_prefix(&seen, &known.live(), Lsn::ORIGIN);
        } else {
            assert_eq!(seen, found, "the inspector and the reader disagree");
        }
    }
}

/// Checks that `found` is a prefix of `live`, holds everything below `acked`, and ends between appends.
fn check_prefix(found: &[Record], live: &[(Lsn, Known)], acked: Lsn) {
    for (n, e) in found.iter().enumerate() {
        let Some((lsn, k)) = live.get(n) else {
            panic!("record {} was never appended, or was dropped", e.start);
        };
        assert!(
            e.start == *lsn && e.end == k.end,
            "record {n} lies at {}..{}, not at {lsn}..{}",
            e.start,
            e.end,
            k.end
        );
        assert!(e.data == *k.data, "record {n} at {lsn} has other bytes");
    }
    if let Some((lsn, k)) = live.get(found.len()) {
        assert!(
            k.end > acked,
            "lost: record {} of {} at {lsn}, acknowledged up to {acked}",
            found.len(),
            live.len()
        );
        assert!(
            k.group == *lsn,
            "half of an append: it began at {}, {lsn} is missing",
            k.group
        );
    }
}

/// Reads all records from `from` on.
pub fn read(log: &Log, from: Lsn) -> Vec<Record> {
    let reader = log.read_from(from).unwrap_or_else(|e| panic!("{e}"));
    reader
        .map(|r| r.unwrap_or_else(|e| panic!("{e}")))
        .collect()
}

/// A model shared by the threads of a workload. Never locked across a call of the log.
pub type Shared = Arc<Mutex<Model>>;

/// Locks the model, also after a panic of another thread.
pub fn lock(model: &Mutex<Model>) -> MutexGuard<'_, Model> {
    model.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns options with small sizes, so that a short workload fills segments and batches.
pub fn small() -> Options {
    Options::new()
        .segment_size(24 << 10)
        .max_batch_size(8 << 10)
        .buffer_size(24 << 10)
        .idle_stamp(std::time::Duration::from_millis(2))
        .max_spare_segments(1)
        // Other tests cover the statistics page.
        .live_stats(false)
}

/// Opens the log like a program that knows if there is one.
pub fn open(
    system: &dyn System,
    created: bool,
    options: Options,
    environment: Option<&EnvironmentOptions>,
) -> Result<Log, Error> {
    let mode = if created {
        OpenMode::OpenExisting
    } else {
        OpenMode::OpenOrCreate
    };
    // The environment lives as long as the log.
    let environment = environment
        .map(|options| Environment::start(system.runtime(), options))
        .transpose()?;
    let options = match &environment {
        Some(environment) => options.environment(environment),
        None => options,
    };
    Log::open(system, PATH, mode, options)
}
