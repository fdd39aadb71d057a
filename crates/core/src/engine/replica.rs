//! Waiting for the replica, and the replica's confirmations.

use crate::engine::Engine;
use crate::engine::events::Wakeups;
use crate::error::{Error, Result};
use crate::policy::Policy;
use crate::storage::hold::Hold;
use crate::sync::poison::refuse_in_waker;
use crate::sync::wake::{WaitFor, Wake};
use logforce_device::{Granted, Guarantee};
use logforce_format::{Lsn, planted};

impl Engine {
    /// Fails if `policy` waits for a replica and none is attached. Called before an append, so that nothing
    /// is accepted then.
    pub(crate) fn check_replica(&self, policy: Policy) -> Result<()> {
        if !policy.is_replicated() || self.view.replicated.is_attached() {
            return Ok(());
        }
        self.check()?;
        Err(Error::NoReplica {
            path: self.view.path.clone(),
        })
    }

    /// Waits until the replica has confirmed everything below `end`, which is durable here. A failure of this
    /// log does not end the wait: the replica may still read and confirm what is durable.
    pub(crate) fn wait_replicated(&self, end: Lsn) -> Result<()> {
        if planted!("replicated-without-waiting") {
            return Ok(());
        }
        let replicated = &self.view.replicated;
        loop {
            let seen = replicated.advanced.observe();
            if let Some(result) = replicated.result(end, &self.view.path) {
                return result;
            }
            refuse_in_waker()?;
            replicated
                .advanced
                .wait(self.runtime(), seen, None, WaitFor::Replica);
        }
    }

    /// Returns the guarantee of the records below `end` after a commit by `policy`.
    pub(crate) fn guarantee_of(&self, policy: Policy, end: Lsn) -> Granted {
        match policy.is_replicated() {
            true => Guarantee::MachineLoss.into(),
            false => self.guarantee_at(end),
        }
    }

    /// Attaches a replica that needs the log as `hold` says, and returns its number. Fails if the log has one,
    /// or has failed.
    pub(crate) fn attach_replica(&self, hold: Hold) -> Result<u64> {
        let replicated = &self.view.replicated;
        let id = replicated.attach(hold, &self.view.path, || self.check())?;
        self.wake_callbacks();
        Ok(id)
    }

    /// Registers that the replica with the number `id` has confirmed everything below `to`.
    pub(crate) fn replica_confirmed(&self, id: u64, to: Lsn) {
        self.view.replicated.raise(id, to, self.runtime());
        self.wake_callbacks();
    }

    /// Keeps the log for the replica only from `to` on. With `moves`, the front follows in the background.
    pub(crate) fn replica_needs(&self, to: Lsn, moves: bool) {
        self.view.replicated.hold_from(to);
        if moves {
            self.follow_hold();
        }
    }

    /// Ends the replica with the number `id`: commits that wait for it fail.
    pub(crate) fn replica_ended(&self, id: u64, why: String) {
        self.view.replicated.end(id, why, self.runtime());
        self.wake_callbacks();
        self.follow_hold();
    }

    /// Ends the replica that is attached, whichever it is.
    pub(crate) fn drop_replica(&self, why: String) {
        self.view.replicated.end_any(why, self.runtime());
        self.wake_callbacks();
    }

    /// Fails the log, because another machine has taken it over. Nothing is accepted any more: records that
    /// this machine accepted now would be in no other copy of the log.
    pub(crate) fn deposed(&self, id: u64, by: String) -> Error {
        let path = self.view.path.clone();
        let error = Error::Deposed { path, by };
        if !planted!("deposed-goes-on") {
            self.fail(error.clone());
        }
        self.replica_ended(id, error.to_string());
        error
    }

    /// Wakes the preallocator if the front may move now.
    fn follow_hold(&self) {
        if self.pins.note_due(|| self.front()) {
            let preallocator = &self.events.preallocator;
            preallocator.notify(self.runtime(), Wake::PinAdvanced);
        }
    }

    /// Wakes the writer thread if a callback waits for the replica.
    fn wake_callbacks(&self) {
        let writer = {
            let mut state = self.state();
            let replicated = &self.view.replicated;
            let passed = match replicated.is_attached() {
                true => replicated.lsn(),
                false => Lsn(u64::MAX),
            };
            state.completions.note_replicated(passed);
            Wake::WriterForReplica.if_needed(state.has_callback())
        };
        self.wake(Wakeups {
            writer,
            ..Wakeups::default()
        });
    }
}
