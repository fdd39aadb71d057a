//! Logged commit: checks for conflicts, encodes, and appends to the log, which decides the order; then waits.

use super::LoggedStore;
use super::admission::Admission;
use super::diff;
use super::read::LoggedView;
use super::readers::CommitPoint;
use super::state::Planned;
use super::stats::add;
use crate::changes::{Change, Changes};
use crate::error::{Error, Result};
use crate::types::Acknowledged;
use logforce_core::{
    CommitHandle, Error as LogError, ErrorKind as LogErrorKind, Granted, MAX_RECORD_LEN, Policy,
    RecordRange,
};
use logforce_format::{Lsn, RedoRecord, RedoWriter, planted};
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// Maximum number of bytes of headers that the log puts around a record.
const LOG_OVERHEAD: usize = 64;

/// Callback of the log when a record's position is decided, before any reader sees a later one.
type Decided<'a> = &'a mut dyn FnMut(RecordRange);

/// Commit whose position in the order is decided and that was not waited for yet.
pub(crate) struct LoggedCommit {
    commit: u64,
    outcome: Outcome,
}

enum Outcome {
    /// Nothing was changed, so there is nothing to wait for.
    Nothing(Granted),
    /// The log carries the commit out as the policy says.
    Submitted(CommitHandle),
}

/// Redo record, with the earlier records that the byte ranges of each page build on. A full-page image builds
/// on none.
struct Encoded<'a> {
    record: RedoRecord<'a>,
    below: Vec<Vec<Lsn>>,
}

impl LoggedStore {
    /// Commits, and waits until the commit has what its policy promises.
    pub(crate) fn commit(
        &self,
        view: &LoggedView,
        changes: Changes,
        policy: Policy,
    ) -> Result<Acknowledged> {
        if policy != Policy::Force || changes.is_empty() {
            return self.submit(view, changes, policy)?.wait();
        }
        // This thread forces the log itself, so no other thread has to wake it.
        let append =
            |parts: &[&[u8]], decided: Decided<'_>| self.log.append_ordered(parts, decided);
        let (point, ()) = self.append(view, &changes, append)?;
        Ok(Acknowledged {
            commit: point.commit,
            guarantee: self.log.force(point.end)?,
        })
    }

    /// Decides a commit. The log then carries it out.
    pub(crate) fn submit(
        &self,
        view: &LoggedView,
        changes: Changes,
        policy: Policy,
    ) -> Result<LoggedCommit> {
        if changes.is_empty() {
            self.data_dir.check_process()?;
            self.state().check()?;
            return Ok(LoggedCommit {
                commit: view.commit(),
                outcome: Outcome::Nothing(self.guarantee()),
            });
        }
        let submit =
            |parts: &[&[u8]], decided: Decided<'_>| self.log.submit_ordered(parts, policy, decided);
        let (point, handle) = self.append(view, &changes, submit)?;
        Ok(LoggedCommit {
            commit: point.commit,
            outcome: Outcome::Submitted(handle),
        })
    }

    /// Appends a commit to the log by `append`, which decides its position in the order. Returns the state
    /// after it.
    fn append<T>(
        &self,
        view: &LoggedView,
        changes: &Changes,
        append: impl Fn(&[&[u8]], Decided<'_>) -> logforce_core::Result<T>,
    ) -> Result<(CommitPoint, T)> {
        self.data_dir.check_process()?;
        if !planted!("commit-without-room") {
            self.reach(view.page_count(), changes)?;
        }
        let mut freed = false;
        loop {
            match self.try_append(view.end(), changes, &append) {
                // A checkpoint frees space in the log. Tries this only once, because it may not be enough.
                Err(Error::Log(e))
                    if matches!(e.kind(), LogErrorKind::NoSpace | LogErrorKind::Full) && !freed =>
                {
                    freed = true;
                    if !self.state().generations.is_dirty() {
                        return Err(no_space_in_log(e));
                    }
                    self.checkpoint()?;
                }
                Err(Error::Log(e)) => return Err(no_space_in_log(e)),
                other => return other,
            }
        }
    }

    fn try_append<T>(
        &self,
        at: Lsn,
        changes: &Changes,
        append: impl Fn(&[&[u8]], Decided<'_>) -> logforce_core::Result<T>,
    ) -> Result<(CommitPoint, T)> {
        let planned = self.reserve(at, changes)?;
        let mut reserved = Reserved {
            store: self,
            changes,
            is_held: true,
        };
        let encoded = self.encode(changes, &planned)?;
        let mut point = None;
        let mut slots = Vec::new();
        let mut decided = |at: RecordRange| {
            let range = (at.start, at.end);
            let mut state = self.state();
            let (published, pruned) = state.publish(changes, &encoded.below, range);
            if planted!("state-shown-early") {
                state.show();
            }
            self.contents
                .newest
                .published(&state, changes, published.end);
            // Must come last, see `State::show`.
            state.show();
            drop(state);
            point = Some(published);
            slots = pruned.slots;
        };
        let appended = append(&encoded.record.parts(), &mut decided).map_err(Error::from)?;
        let Some(point) = point else {
            // Unreachable: the log calls `decided` before it returns.
            return Err(Error::Closed);
        };
        reserved.is_held = false;
        self.contents.versions_file.free(slots);
        self.count(changes, &encoded);
        self.after_commit();
        Ok((point, appended))
    }

    /// Checks for conflicts. Waits for commits of the same pages that are being appended, and until the
    /// current generation (the commits between two checkpoints) has space. Then marks the pages as this
    /// commit's.
    fn reserve(&self, at: Lsn, changes: &Changes) -> Result<Vec<Planned>> {
        // One generation fills while another one is applied.
        let pages = self.options.changed_cache() / 2 / self.page_size();
        let mut waited = false;
        loop {
            let seen = self.progress.observe();
            {
                let mut state = self.state();
                state.check()?;
                match state.conflict(changes, at) {
                    Ok(Admission::Go) => {}
                    Ok(Admission::Wait) => {
                        drop(state);
                        self.progress.wait(self.runtime(), seen, None);
                        continue;
                    }
                    Err(e) => {
                        add(&self.counts.conflicts, 1);
                        return Err(e);
                    }
                }
                let (latest, distance) = (state.points.latest, self.options.checkpoint_distance);
                if state.generations.admit(latest, distance, pages)? == Admission::Go {
                    return Ok(state.reserve(changes));
                }
            }
            if !std::mem::replace(&mut waited, true) {
                add(&self.counts.waits, 1);
            }
            self.checkpointer.work.notify(self.runtime());
            self.progress.wait(self.runtime(), seen, None);
        }
    }

    fn encode<'a>(&self, changes: &'a Changes, planned: &[Planned]) -> Result<Encoded<'a>> {
        let page_size = self.page_size();
        // Above this limit an image is as good as ranges, and begins the page's redo anew.
        let most = page_size / 2 - RedoWriter::ranges_len(&[]);
        let mut below = Vec::with_capacity(planned.len());
        // Bytes of the images, and of everything else.
        let (mut images, mut capacity) = (0, 0);
        let mut ranges: Vec<Option<Vec<Range<usize>>>> = Vec::with_capacity(planned.len());
        for (change, planned) in changes.pages.values().zip(planned) {
            let changed = match (change, &planned.before) {
                (Change::Write { image, .. }, Some(before)) => diff::changed(before, image, most),
                _ => None,
            };
            capacity += RedoWriter::ranges_len(changed.as_deref().unwrap_or_default());
            if changed.is_none() && matches!(change, Change::Write { .. }) {
                images += page_size;
            }
            below.push(match &changed {
                Some(_) => planned.below.clone(),
                None => Vec::new(),
            });
            ranges.push(changed);
        }
        let len = images + capacity + LOG_OVERHEAD;
        if len > MAX_RECORD_LEN {
            return Err(Error::TooLarge {
                len: len as u64,
                max: MAX_RECORD_LEN as u64,
            });
        }
        let mut redo = RedoWriter::new(changes.resize, capacity);
        for ((page, change), ranges) in changes.pages.iter().zip(&ranges) {
            match (change, ranges) {
                (Change::Discard, _) => redo.discard(*page),
                (Change::Write { image, .. }, None) => redo.image(*page, image),
                (Change::Write { image, .. }, Some(ranges)) => redo.ranges(*page, image, ranges),
            }
        }
        Ok(Encoded {
            record: redo.finish(),
            below,
        })
    }

    fn count(&self, changes: &Changes, encoded: &Encoded<'_>) {
        add(&self.counts.commits, 1);
        add(&self.counts.pages_committed, changes.pages.len() as u64);
        add(&self.counts.bytes_logged, encoded.record.byte_len() as u64);
        add(
            &self.counts.images_logged,
            encoded.record.image_count() as u64,
        );
    }

    /// Keeps memory within its bound, and wakes the checkpointer if a generation has ended.
    fn after_commit(&self) {
        let limit = self.options.changed_cache() / self.page_size();
        let durable = self.log.durable_lsn();
        let (has_work, is_awaited) = {
            let mut state = self.state();
            state.forced(durable);
            if state.resident.count() > limit {
                state.evict(limit);
            }
            let has_work = state.generations.ended.is_some_and(|c| c.applied == 0);
            (has_work, state.take_awaited())
        };
        if has_work {
            self.checkpointer.work.notify(self.runtime());
        }
        // Wakes commits that wait for the generation to end, or for the pages of this commit.
        if has_work || (is_awaited && !planted!("taken-page-forgotten")) {
            self.progress.notify(self.runtime());
        }
    }
}

/// Converts an error of the log for the user of a page file, who cannot truncate the log.
fn no_space_in_log(error: LogError) -> Error {
    match error {
        LogError::NoSpace { path, need, source } => Error::NoSpace { path, need, source },
        other => other.into(),
    }
}

/// Gives the pages back if the commit does not get into the log, even if encoding panics.
struct Reserved<'a> {
    store: &'a LoggedStore,
    changes: &'a Changes,
    is_held: bool,
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        if self.is_held {
            self.store.state().release(self.changes);
            self.store.checkpointer.work.notify(self.store.runtime());
            self.store.progress.notify(self.store.runtime());
        }
    }
}

impl LoggedCommit {
    pub(crate) fn commit(&self) -> u64 {
        self.commit
    }

    pub(crate) fn wait(self) -> Result<Acknowledged> {
        let guarantee = match self.outcome {
            Outcome::Nothing(guarantee) => guarantee,
            Outcome::Submitted(handle) => handle.wait()?.guarantee,
        };
        Ok(Acknowledged {
            commit: self.commit,
            guarantee,
        })
    }

    pub(crate) fn poll(&mut self, waker: &Waker) -> Option<Result<Acknowledged>> {
        let commit = self.commit;
        let handle = match &mut self.outcome {
            Outcome::Nothing(guarantee) => {
                let guarantee = *guarantee;
                return Some(Ok(Acknowledged { commit, guarantee }));
            }
            Outcome::Submitted(handle) => handle,
        };
        let done = match Pin::new(handle).poll(&mut Context::from_waker(waker)) {
            Poll::Pending => return None,
            Poll::Ready(done) => done.map_err(Error::from),
        };
        Some(done.map(|done| Acknowledged {
            commit,
            guarantee: done.guarantee,
        }))
    }
}
