//! Acknowledgements, as the test has heard them from the nodes, and their comparison with a restored log.

use crate::content::Id;
use logforce::{Log, Lsn};
use std::collections::{BTreeMap, HashMap};

/// Acknowledged record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ack {
    pub epoch: u64,
    pub end: u64,
    /// Clock of its node before the commit, Unix time in ns; 0 if that is not known.
    pub began: u64,
    pub id: Id,
}

/// Knowledge from outside of the archive.
#[derive(Debug, Default)]
pub struct Ledger {
    /// Acknowledgements that a restored log must contain, by position.
    acks: BTreeMap<u64, Ack>,
    /// Starts of the epochs that were taken over.
    taken: BTreeMap<u64, u64>,
    /// Records of the restored logs, by name.
    seen: HashMap<Id, u64>,
    /// Records of the last restored log, by position.
    last: BTreeMap<u64, Id>,
    /// Positions to which nodes may truncate.
    allowed: u64,
    violation: Option<String>,
    pub acknowledged: u64,
    pub compared: u64,
}

impl Ledger {
    pub fn acked(&mut self, start: u64, ack: Ack) {
        self.acknowledged += 1;
        let successor = self
            .taken
            .range(ack.epoch + 1..)
            .find(|(_, first)| **first <= start);
        if let Some((epoch, first)) = successor {
            self.note(format!(
                "{} was acknowledged at {start} in epoch {}, and epoch {epoch} begins at {first}",
                ack.id, ack.epoch
            ));
        }
        if let Some(before) = self.acks.insert(start, ack)
            && before != ack
        {
            self.note(format!(
                "two acknowledgements of {start}: {before:?}, {ack:?}"
            ));
        }
    }

    pub fn took(&mut self, epoch: u64, first: u64) {
        let late = self.acks.range(first..).find(|(_, ack)| ack.epoch < epoch);
        if let Some((start, ack)) = late {
            let words = format!("epoch {epoch} begins at {first}, {ack:?} lies at {start}");
            self.note(words);
        }
        if self.taken.insert(epoch, first).is_some() {
            self.note(format!("epoch {epoch} was taken twice"));
        }
    }

    fn note(&mut self, violation: String) {
        self.violation.get_or_insert(violation);
    }

    pub fn result(&self) -> Result<(), String> {
        self.violation.clone().map_or(Ok(()), Err)
    }

    /// Returns the acknowledgements so far.
    pub fn acks(&self) -> BTreeMap<u64, Ack> {
        self.acks.clone()
    }

    /// Compares a restored log with the acknowledgements that were there before the restore began, and with
    /// the log that was restored before.
    pub fn compare(&mut self, log: &Log, acks: &BTreeMap<u64, Ack>) -> Result<(), String> {
        let records = self.compare_acks(log, acks)?;
        for (start, id) in self.last.range(log.front_lsn().0..) {
            if records.get(start) != Some(id) {
                return Err(format!("{id} at {start} was in the log restored before"));
            }
        }
        self.last = records;
        Ok(())
    }

    /// Compares a restored log with acknowledgements. Returns its records.
    pub fn compare_acks(
        &mut self,
        log: &Log,
        acks: &BTreeMap<u64, Ack>,
    ) -> Result<BTreeMap<u64, Id>, String> {
        let front = log.front_lsn();
        if front.0 > self.allowed {
            return Err(format!(
                "the log begins at {front}, and {} was allowed",
                self.allowed
            ));
        }
        let records = records(log)?;
        for (start, id) in &records {
            if let Some(before) = self.seen.insert(*id, *start)
                && before != *start
            {
                return Err(format!("{id} lies at {before} and at {start}"));
            }
        }
        for (start, ack) in acks.range(front.0..) {
            self.compared += 1;
            match records.get(start) {
                Some(id) if *id == ack.id => {}
                there => return Err(format!("{ack:?} at {start} is lost: there is {there:?}")),
            }
        }
        Ok(records)
    }

    /// Compares a log that was restored to a time with the acknowledgements. Times are exact to the second.
    pub fn compare_to_a_time(&mut self, log: &Log, time: u64) -> Result<(), String> {
        for (start, id) in records(log)? {
            let Some(ack) = self.acks.get(&start) else {
                continue;
            };
            self.compared += 1;
            if ack.id != id || ack.began > time.saturating_add(1_000_000_000) {
                return Err(format!("{id} at {start} in a log of {time}, and {ack:?}"));
            }
        }
        Ok(())
    }

    /// Permits truncation of what was compared, but for the newest records. Returns the position.
    pub fn allow_truncation(&mut self) -> Option<Lsn> {
        let front = *self.last.keys().rev().nth(20)?;
        self.allowed = self.allowed.max(front);
        // Older ones may be missing from now on.
        self.acks = self.acks.split_off(&self.allowed);
        Some(Lsn(self.allowed))
    }
}

/// Returns the records of a log, by position.
fn records(log: &Log) -> Result<BTreeMap<u64, Id>, String> {
    let mut records = BTreeMap::new();
    for record in log.read_from(log.front_lsn()).map_err(|e| e.to_string())? {
        let record = record.map_err(|e| e.to_string())?;
        let start = record.start.0;
        let id = Id::of(&record.data).ok_or_else(|| format!("a foreign record at {start}"))?;
        records.insert(start, id);
    }
    Ok(records)
}
