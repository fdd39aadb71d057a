//! Work of threads on a page file, and their notes.

use super::model::{Done, History, State, Step, Universe, random_steps, shrinking_steps};
use logforce_core::{Guarantee, Policy};
use logforce_pages::{Acknowledged, Error, ErrorKind, PageFile, Result, Snapshot, Transaction};
use logforce_testkit::{Rng, SimDisk};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Notes of the threads, which are checked when all threads have ended.
#[derive(Debug, Default)]
pub struct Notes {
    /// Transactions whose numbers are known.
    pub history: History,
    /// Highest commit that was acknowledged as durable.
    pub acknowledged: u64,
    /// Transactions whose outcome is unknown.
    pub unknown: Vec<Done>,
    /// Contents that snapshots showed, which are compared when all numbers are known.
    pub seen: Vec<ObservedSnapshot>,
    /// Last stamp that was given to a transaction.
    pub stamp: u64,
    /// Number of calls of the page file.
    pub calls: u64,
    /// Number of transactions that lost a conflict.
    pub conflicts: u64,
    /// Number of transactions that were refused for lack of space.
    pub refused: u64,
    /// Number of transactions that dropped pages after such a refusal.
    pub shrunk: u64,
}

/// Contents that a snapshot showed.
#[derive(Debug)]
pub struct ObservedSnapshot {
    /// Commit of the snapshot.
    pub commit: u64,
    /// Pages of the snapshot.
    pub state: State,
    /// True if it was a snapshot of the durable state.
    pub is_durable: bool,
}

/// Work of a boot, shared by its threads.
pub struct Work {
    /// The page file.
    pub file: PageFile,
    /// Pages that are used.
    pub universe: Universe,
    /// Notes of the threads.
    pub notes: Mutex<Notes>,
    /// Disk below the file.
    pub disk: SimDisk,
    /// True if the disk may be full.
    pub may_be_full: bool,
    /// True if policies that do not force may be used. A full disk can roll back such commits of a
    /// copy-on-write file without reporting which.
    pub may_be_weak: bool,
    /// True if calls may fail.
    pub may_fail: bool,
    /// True if pages can be dropped even on a full disk.
    pub can_shrink: bool,
    /// True if the disk becomes full halfway. The commits of a logged file then need no more space.
    pub fills: bool,
}

/// End of a thread because the page file or the power has failed.
struct Ended;

impl Work {
    /// Returns the notes.
    pub fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Performs the work of one thread.
    pub fn run(&self, seed: u64, count: u64) {
        let _ = self.try_run(&mut Rng::new(seed), count);
    }

    fn try_run(&self, rng: &mut Rng, count: u64) -> std::result::Result<(), Ended> {
        let mut held: Vec<(Snapshot, State)> = Vec::new();
        for step in 0..count {
            if self.fills && step == count / 2 {
                self.disk.fill();
            }
            match rng.below(12) {
                0 => {
                    let is_durable = rng.one_in(2);
                    let snapshot = match is_durable {
                        true => self.file.snapshot(),
                        false => self.file.latest(),
                    };
                    let Some(snapshot) = self.unless_it_fails(snapshot)? else {
                        continue;
                    };
                    let Some(state) = self.look(&snapshot)? else {
                        continue;
                    };
                    self.notes().seen.push(ObservedSnapshot {
                        commit: snapshot.commit(),
                        state: state.clone(),
                        is_durable,
                    });
                    held.push((snapshot, state));
                }
                1 if !held.is_empty() => {
                    let nth = rng.below(held.len() as u64) as usize;
                    self.still_shows(&held.swap_remove(nth))?;
                }
                2 => self.checkpoint()?,
                _ => {
                    let refused = self.notes().refused;
                    self.transact(rng)?;
                    if self.can_shrink && self.notes().refused > refused {
                        // Snapshots must keep their contents.
                        held.drain(..).try_for_each(|h| self.still_shows(&h))?;
                        self.shrink(rng)?;
                    }
                }
            }
        }
        held.iter().try_for_each(|h| self.still_shows(h))
    }

    /// Returns `None` for an error that need not end the thread.
    fn unless_it_fails<T>(&self, result: Result<T>) -> std::result::Result<Option<T>, Ended> {
        self.notes().calls += 1;
        let error = match result {
            Ok(value) => return Ok(Some(value)),
            Err(e) => e,
        };
        self.expect(&error);
        match error.kind() {
            ErrorKind::Poisoned | ErrorKind::Closed => Err(Ended),
            _ if self.disk.is_cut() => Err(Ended),
            _ => Ok(None),
        }
    }

    /// Checks that an error has a cause in this run, and that its kind fits.
    fn expect(&self, error: &Error) {
        let fits = match error.kind() {
            ErrorKind::Io | ErrorKind::Poisoned => true,
            ErrorKind::NoSpace => self.may_be_full,
            _ => false,
        };
        let has_reason = self.may_fail || self.may_be_full || self.disk.is_cut();
        assert!(fits && has_reason, "{:?}: {error}", error.kind());
    }

    fn look(&self, snapshot: &Snapshot) -> std::result::Result<Option<State>, Ended> {
        self.unless_it_fails(State::of(snapshot, &self.universe))
    }

    fn still_shows(&self, (snapshot, then): &(Snapshot, State)) -> std::result::Result<(), Ended> {
        if let Some(now) = self.look(snapshot)?
            && let Some(difference) = now.difference(then)
        {
            let commit = snapshot.commit();
            panic!("a held snapshot of commit {commit} changed: {difference}");
        }
        Ok(())
    }

    fn checkpoint(&self) -> std::result::Result<(), Ended> {
        let before = self.file.latest().map(|s| s.commit());
        let done = self.file.checkpoint();
        if self.fills
            && let Err(Error::NoSpace { path, .. }) = &done
        {
            // Except for older versions that a snapshot reads.
            let is_kept = path.ends_with("versions");
            assert!(is_kept, "the commits have no space in {}", path.display());
        }
        if self.unless_it_fails(done)?.is_some()
            && let Ok(before) = before
            && !self.may_be_full
        {
            let mut notes = self.notes();
            notes.acknowledged = notes.acknowledged.max(before);
        }
        Ok(())
    }

    fn transact(&self, rng: &mut Rng) -> std::result::Result<(), Ended> {
        let Some(mut txn) = self.unless_it_fails(self.file.begin())? else {
            return Ok(());
        };
        let steps = random_steps(rng, &self.universe, txn.page_count());
        let Some(done) = self.build(&mut txn, steps)? else {
            return Ok(());
        };
        let within = Duration::from_micros(rng.below(2000));
        let policy = match rng.below(6) {
            0 if self.may_be_weak => Policy::Interval { within },
            1 if self.may_be_weak => Policy::Write {
                force_within: within,
            },
            _ => Policy::Force,
        };
        if rng.one_in(2) {
            let result = txn.commit_with(policy);
            if let Ok(committed) = &result {
                self.note(committed.commit, &done);
            }
            return self.ended(result, policy, done, None);
        }
        let handle = match txn.submit_with(policy) {
            Ok(handle) => handle,
            Err(e) => return self.ended(Err(e), policy, done, None),
        };
        let number = handle.commit();
        self.note(number, &done);
        if !self.may_be_full && rng.one_in(8) {
            // No thread waits for the commit, but it is carried out.
            return Ok(());
        }
        self.ended(handle.wait(), policy, done, Some(number))
    }

    /// Performs the steps in a transaction. Returns `None` if a call failed that may fail.
    fn build(
        &self,
        txn: &mut Transaction,
        steps: Vec<Step>,
    ) -> std::result::Result<Option<Done>, Ended> {
        let mut done = {
            let mut notes = self.notes();
            notes.stamp += 1;
            Done::new(notes.stamp, steps)
        };
        let built = done
            .look(txn, &self.universe)
            .and_then(|()| done.perform(txn, &self.universe));
        Ok(self.unless_it_fails(built)?.map(|()| done))
    }

    /// Drops a few pages after a commit was refused.
    fn shrink(&self, rng: &mut Rng) -> std::result::Result<(), Ended> {
        let Some(mut txn) = self.unless_it_fails(self.file.begin())? else {
            return Ok(());
        };
        let steps = shrinking_steps(rng, &self.universe, txn.page_count());
        if steps.is_empty() {
            return Ok(());
        }
        let Some(done) = self.build(&mut txn, steps)? else {
            return Ok(());
        };
        let result = txn.commit();
        if let Err(error) = &result {
            let is_full = error.kind() == ErrorKind::NoSpace;
            assert!(!is_full, "pages cannot be dropped: {error}");
        }
        if let Ok(committed) = &result {
            self.note(committed.commit, &done);
            self.notes().shrunk += 1;
        }
        self.ended(result, Policy::Force, done, None)
    }

    fn note(&self, number: u64, done: &Done) {
        let before = self.notes().history.done.insert(number, done.clone());
        assert!(before.is_none(), "two commits have the number {number}");
    }

    /// Notes the end of a commit. `number` is its number if that was known before.
    fn ended(
        &self,
        result: Result<Acknowledged>,
        policy: Policy,
        done: Done,
        number: Option<u64>,
    ) -> std::result::Result<(), Ended> {
        let mut notes = self.notes();
        notes.calls += 1;
        let error = match result {
            Ok(committed) => {
                match committed.guarantee.guarantee {
                    Guarantee::PowerLoss => {
                        notes.acknowledged = notes.acknowledged.max(committed.commit);
                    }
                    _ => assert_ne!(policy, Policy::Force, "{committed:?}"),
                }
                return Ok(());
            }
            Err(e) => e,
        };
        if error.kind() == ErrorKind::Conflict {
            assert_eq!(number, None, "a conflict after the number was given");
            notes.conflicts += 1;
            return Ok(());
        }
        self.expect(&error);
        if error.kind() == ErrorKind::NoSpace {
            notes.refused += 1;
            if let Some(number) = number {
                notes.history.done.remove(&number);
            }
            return Ok(());
        }
        // The commit may have been written nevertheless.
        if number.is_none() {
            notes.unknown.push(done);
        }
        Err(Ended)
    }
}
