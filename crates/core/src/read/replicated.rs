//! The second watermark: the replicated LSN, which the log's replica moves. It follows the durable LSN and
//! never leads it.

use crate::error::{Error, Result};
use crate::storage::hold::Hold;
use crate::sync::wake::Wake;
use logforce_commit::sync::event::Event;
use logforce_commit::sync::wakers::Wakers;
use logforce_device::Runtime;
use logforce_device::sync::{AtomicBool, AtomicU64, Mutex, MutexGuard};
use logforce_format::{Lsn, planted};
use std::path::Path;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::*;

/// The replicated LSN, and the threads and tasks that wait for it.
#[derive(Default)]
pub(crate) struct Replicated {
    /// Exclusive end of what a replica has confirmed in this opening. Only rises. Stored with the status
    /// locked, read without a lock.
    lsn: AtomicU64,
    status: Mutex<Status>,
    /// True if the last move of the front stopped at what a replica holds.
    pub(crate) holds_front: AtomicBool,
    /// Number of the next replica.
    next: AtomicU64,
    /// Event that is notified when the replicated LSN moves, and when the replica ends.
    pub(crate) advanced: Event,
    /// Tasks that wait for the replicated LSN.
    pub(crate) tasks: Wakers,
}

/// State of the log's replica.
#[derive(Default)]
enum Status {
    /// No replica was attached yet.
    #[default]
    None,
    /// A replica is attached, with its number, and the log is kept for it.
    Attached(u64, Hold),
    /// The replica has ended, for the given reason.
    Ended(String),
}

impl Replicated {
    fn status(&self) -> MutexGuard<'_, Status> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the replicated LSN; [`Lsn::ORIGIN`] before the first confirmation.
    pub(crate) fn lsn(&self) -> Lsn {
        Lsn(self.lsn.load(Acquire))
    }

    /// Attaches a replica that needs the log as `hold` says, unless another one is attached or `check` fails.
    /// Returns its number.
    ///
    /// The check runs with the status locked. A deposed log fails before its replica ends, so the check sees
    /// the failure. Otherwise the successor could confirm records that another machine does not have.
    pub(crate) fn attach(
        &self,
        hold: Hold,
        path: &Path,
        check: impl FnOnce() -> Result<()>,
    ) -> Result<u64> {
        let mut status = self.status();
        if matches!(*status, Status::Attached(..)) {
            return Err(Error::ReplicaAttached {
                path: path.to_owned(),
            });
        }
        if !planted!("attached-when-deposed") {
            check()?;
        }
        let id = self.next.fetch_add(1, Relaxed);
        *status = Status::Attached(id, hold);
        Ok(id)
    }

    /// Returns what the replica needs of the log; `None` without one.
    pub(crate) fn hold(&self) -> Option<Hold> {
        match &*self.status() {
            Status::Attached(_, hold) => Some(*hold),
            _ => None,
        }
    }

    /// Raises the position from which the log is kept for the replica.
    pub(crate) fn hold_from(&self, to: Lsn) {
        if let Status::Attached(_, hold) = &mut *self.status() {
            hold.at = hold.at.max(to);
        }
    }

    /// Fails if no replica is attached.
    pub(crate) fn check_attached(&self, path: &Path) -> Result<()> {
        match &*self.status() {
            Status::Attached(..) => Ok(()),
            Status::None => Err(Error::NoReplica {
                path: path.to_owned(),
            }),
            Status::Ended(why) => Err(self.lost(path, why)),
        }
    }

    /// Returns true if a replica is attached. Otherwise nothing will be confirmed.
    pub(crate) fn is_attached(&self) -> bool {
        matches!(*self.status(), Status::Attached(..))
    }

    /// Returns the result of waiting for `end`, if it is known.
    pub(crate) fn result(&self, end: Lsn, path: &Path) -> Option<Result<()>> {
        if self.lsn() >= end {
            return Some(Ok(()));
        }
        let status = self.status();
        // Read again with the status locked: otherwise a replica that confirms and then ends in between
        // would be reported as lost.
        if self.lsn() >= end {
            return Some(Ok(()));
        }
        match &*status {
            Status::Ended(why) => Some(Err(self.lost(path, why))),
            Status::None | Status::Attached(..) => None,
        }
    }

    /// Returns the error of a commit that its replica has not confirmed.
    pub(crate) fn lost(&self, path: &Path, why: &str) -> Error {
        Error::ReplicaLost {
            path: path.to_owned(),
            replicated: self.lsn(),
            why: why.to_owned(),
        }
    }

    /// Raises the replicated LSN, if the replica with the number `id` is attached. A deposed replica, or one that
    /// was dropped at its limit, must not confirm records that its successor does not have.
    pub(crate) fn raise(&self, id: u64, to: Lsn, runtime: &dyn Runtime) {
        {
            let status = self.status();
            if !matches!(*status, Status::Attached(attached, _) if attached == id) {
                return;
            }
            self.lsn.fetch_max(to.0, AcqRel);
        }
        self.advanced.notify(runtime, Wake::Replicated);
        self.tasks.wake_to(to.0, Wake::ReplicatedTasks);
    }

    /// Ends the replica, if it is the one with the number `id`: everything that waits for it fails.
    pub(crate) fn end(&self, id: u64, why: String, runtime: &dyn Runtime) {
        {
            let mut status = self.status();
            if !matches!(*status, Status::Attached(attached, _) if attached == id) {
                return;
            }
            *status = Status::Ended(why);
        }
        self.wake_all(runtime);
    }

    /// Ends the replica that is attached, whichever it is.
    pub(crate) fn end_any(&self, why: String, runtime: &dyn Runtime) {
        let id = match *self.status() {
            Status::Attached(id, _) => id,
            _ => return,
        };
        self.end(id, why, runtime);
    }

    /// Wakes everything that waits for the replicated LSN.
    pub(crate) fn wake_all(&self, runtime: &dyn Runtime) {
        self.advanced.notify(runtime, Wake::ReplicaEnded);
        self.tasks.wake_all(Wake::ReplicaEndedTasks);
    }
}
