//! Properties of the protocol, checked in each state or at the event that they are about.

use super::bucket::Bucket;
use super::node::Process;
use super::restorer::{Log, Restorer, restore};
use super::world::{Acknowledged, Watched, World};
use crate::protocol::Claimed;
use std::ops::Range;

/// Checks that a restore of a bucket, as it is, has all that was acknowledged. The hint decides nothing.
pub(super) fn nothing_is_lost(bucket: &Bucket, acknowledged: &Acknowledged) -> Result<(), String> {
    for bucket in [bucket, &bucket.without_hint()] {
        match restore(bucket)? {
            Some(restored) => contains(&restored, acknowledged)?,
            None if acknowledged.is_empty() => {}
            None => return Err("the archive is gone".to_owned()),
        }
    }
    Ok(())
}

impl Watched {
    /// Checks the result of a restorer that has ended.
    pub(super) fn check(&self, now: &Acknowledged) -> Result<(), String> {
        match self.restorer.reading.outcome() {
            Some(Err(_)) if self.before.is_empty() && now.is_empty() => Ok(()),
            Some(Err(error)) if !self.before.is_empty() => {
                Err(format!("a restorer fails: {error}"))
            }
            Some(Err(_)) | None => Ok(()),
            Some(Ok(_)) => {
                contains(&self.restorer, &self.before)?;
                same(&self.restorer.log, now)
            }
        }
    }
}

/// Checks that a restored log has all acknowledged records from its start on, and a front at or above that.
fn contains(restored: &Restorer, acknowledged: &Acknowledged) -> Result<(), String> {
    for (lsn, (record, _)) in acknowledged.range(restored.start..) {
        if restored.log.record(*lsn) != Some(*record) {
            return Err(format!("lost: the record that was acknowledged at {lsn}"));
        }
    }
    match restored.chunk_front {
        Some(front) if front < restored.start => Err(format!(
            "pruned up to {}, above the archived front {front}",
            restored.start
        )),
        None if !restored.log.records.is_empty() => Err("a restored log has no front".to_owned()),
        _ => Ok(()),
    }
}

/// Checks that a log has no other record where one was acknowledged.
fn same(log: &Log, acknowledged: &Acknowledged) -> Result<(), String> {
    for (lsn, (record, _)) in acknowledged {
        if log.record(*lsn).is_some_and(|there| there != *record) {
            return Err(format!(
                "another record is where one was acknowledged, at {lsn}"
            ));
        }
    }
    Ok(())
}

impl World {
    /// Checks that an epoch has one owner.
    pub(super) fn claimed(&mut self, claimed: &Claimed) -> Result<(), String> {
        let (epoch, first) = (claimed.epoch.0, claimed.first.0);
        let owner = (claimed.nonce, first);
        if let Some(other) = self.owners.change(|owners| owners.insert(epoch, owner))
            && other != owner
        {
            return Err(format!("two owners of epoch {epoch}"));
        }
        self.below_the_seals()
    }

    /// Checks that a log with which a machine begins to write is the archive's below its epoch.
    pub(super) fn opened(&self, log: &Log, first: u64) -> Result<(), String> {
        if log.end() < first {
            return Err(format!(
                "a log that ends at {} is written from {first} on",
                log.end()
            ));
        }
        let restored = restore(&self.bucket)?;
        let archived = restored.map(|restored| restored.log).unwrap_or_default();
        match (log.from..first).find(|lsn| {
            let there = archived.record(*lsn);
            there.is_some() && there != log.record(*lsn)
        }) {
            Some(lsn) => Err(format!(
                "a log is written on that differs from the archive at {lsn}"
            )),
            None => Ok(()),
        }
    }

    /// Checks that no other record was acknowledged at an LSN.
    pub(super) fn acknowledge(
        &mut self,
        log: &Log,
        range: Range<u64>,
        number: usize,
    ) -> Result<(), String> {
        let epoch = match &self.nodes[number].process {
            Process::Write(writer, _) => writer.epoch().0,
            _ => return Err("acknowledged by a process that does not write".to_owned()),
        };
        for lsn in range {
            let Some(record) = log.record(lsn) else {
                return Err(format!("acknowledged at {lsn}, without a record there"));
            };
            let acknowledge = |all: &mut Acknowledged| all.insert(lsn, (record, epoch));
            if let Some((other, _)) = self.acknowledged.change(acknowledge)
                && other != record
            {
                return Err(format!("two records were acknowledged at {lsn}"));
            }
        }
        self.below_the_seals()
    }

    /// Checks that nothing acknowledged in an epoch lies above its seal.
    fn below_the_seals(&self) -> Result<(), String> {
        for (lsn, (_, epoch)) in self.acknowledged.iter() {
            let later = self.owners.range(epoch + 1..).next();
            if let Some((_, (_, first))) = later
                && lsn >= first
            {
                return Err(format!("acknowledged above the seal, at {lsn}"));
            }
        }
        Ok(())
    }
}
