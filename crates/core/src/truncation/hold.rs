//! Replicas and the front: how far the front may move, and when appends are refused instead.

use crate::engine::Engine;
use crate::error::{Bytes, Error, Result};
use crate::storage::hold::{self, AtHoldLimit, Hold};
use logforce_format::Lsn;
use std::sync::atomic::Ordering::*;

impl Engine {
    /// Returns the highest front at or below `wanted` that the replicas permit: the one that is attached, and
    /// one in another process. At its limit, a replica may be dropped instead.
    pub(crate) fn front_for_replicas(&self, wanted: Lsn) -> Result<Lsn> {
        let mut to = wanted;
        if let Some(hold) = self.view.replicated.hold() {
            self.note_alarm(&hold, wanted);
            to = to.min(hold.bound(wanted));
            if hold.is_exceeded(wanted) && hold.at_limit == AtHoldLimit::DropReplica {
                let why = format!(
                    "it is {} behind the front that was requested, more than its limit of {}: begin a new replica",
                    Bytes(wanted.since(hold.at)),
                    Bytes(hold.limit)
                );
                self.drop_replica(why);
            }
        }
        // An error ends the move. If it counted as "no hold", the log would drop what the replica still needs.
        if let Some(hold) = hold::load(&*self.view.dir, self.view.log_id)? {
            self.note_alarm(&hold, wanted);
            to = to.min(hold.bound(wanted));
        }
        self.view.replicated.holds_front.store(to < wanted, Release);
        Ok(to)
    }

    fn note_alarm(&self, hold: &Hold, wanted: Lsn) {
        if hold.is_alarming(wanted) {
            self.metrics.counted.replica_alarms.add(1);
        }
    }

    /// Fails if a replica that must not be dropped has reached its limit. Called before a segment is
    /// prepared. Does nothing unless a replica has held the front.
    pub(crate) fn check_replica_limit(&self) -> Result<()> {
        if !self.view.replicated.holds_front.load(Acquire) {
            return Ok(());
        }
        let wanted = self.pins.requested();
        // The replica in another process may have caught up, and cannot wake this one. The owner's next
        // truncation reports an error; appends do not fail for it.
        let _ = self.move_front();
        let beside = hold::load(&*self.view.dir, self.view.log_id);
        let holds = [self.view.replicated.hold(), beside.ok().flatten()];
        for hold in holds.into_iter().flatten() {
            if hold.at_limit == AtHoldLimit::RefuseAppends && hold.is_exceeded(wanted) {
                return Err(Error::ReplicaBehind {
                    path: self.view.path.clone(),
                    behind: wanted.since(hold.at),
                    limit: hold.limit,
                });
            }
        }
        Ok(())
    }
}
