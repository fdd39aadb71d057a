//! Following a log that another process writes. This module locks, forces and writes nothing.
//!
//! Two positions move along the chain of batches. The first one reads only headers, because of their
//! stamps: a stamp proves that everything below it is durable. The second one reads whole batches and
//! returns their records. It never passes the proven LSN. The next recovery may drop batches between the
//! two. Then the first position goes back to the second.

mod alarm;
mod batches;
mod displaced;
mod files;
pub(crate) mod follower;
mod proof;
pub(crate) mod replica;

use crate::error::{Error, Result};
use crate::read::boundary::boundary;
use crate::read::divergence::{Compared, check_log};
use crate::read::history::Position;
use crate::read::inspect::{Inspector, check_end, is_in_use};
use crate::read::position::FollowerPosition;
use crate::read::read_only::ReadOnly;
use crate::read::records::Records;
use crate::read::view::View;
use crate::scan::batch::ScanState;
use crate::scan::coverage::{gaps, lost_segment};
use crate::scan::end_of_log::{anchor_state, find_end};
use crate::scan::walk::types::WalkInput;
use crate::scan::walk::void_ranges::void_ranges;
use crate::storage::directory::{directory_displaced, existing_directory};
use crate::storage::read_buffer::ReadBuffer;
use crate::types::Record;
use alarm::Alarm;
use files::FollowedFiles;
use files::HeaderPosition;
use follower::FollowedLocation;
use follower::{BatchPosition, Begin, ReadOnlyFollower, Start};
use futures_core::Stream;
use logforce_device::sync::AtomicU32;
use logforce_device::{Directory, ReadSource, Runtime};
use logforce_format::{Lsn, planted};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

impl ReadOnly {
    /// Follows the log from a follower's [position](ReadOnlyFollower::position) on, which may have been
    /// stored long ago. Reads the log's files again. This `ReadOnly` does not change.
    ///
    /// # Errors
    /// [`Error::Diverged`] if the log now contains another history, for example after a backup was
    /// restored. The error names the LSN at which the histories diverge. [`Error::OtherLog`] if it is
    /// another log. [`Error::Truncated`] and [`Error::Voided`] as for a running follower.
    pub fn follow(&self, from: &Position) -> Result<ReadOnlyFollower> {
        let view = self.view();
        ReadOnlyFollower::begin(&view.dir, &view.runtime, Begin::Position(from))
    }

    /// Follows the log from the LSN `from` on: the start or the end of a record, or
    /// [`ReadOnly::front_lsn`]. Reads the log's files again. This `ReadOnly` does not change.
    ///
    /// An LSN does not identify the history of the log to which it belongs. So pass only an LSN that this
    /// `ReadOnly` has returned. To continue after a restart, store a position ([`ReadOnly::follow`]).
    ///
    /// The writer may have truncated the log since this `ReadOnly` was opened. Then its front is gone.
    /// Unless the records in between matter, begin again at the new front:
    ///
    /// ```
    /// # use logforce_core::{Error, ReadOnly, ReadOnlyFollower};
    /// # fn follow(log: &ReadOnly) -> logforce_core::Result<ReadOnlyFollower> {
    /// let mut from = log.front_lsn();
    /// let follower = loop {
    ///     match log.follow_lsn(from) {
    ///         Err(Error::Truncated { front, .. }) => from = front, // truncated meanwhile
    ///         other => break other?,
    ///     }
    /// };
    /// # Ok(follower)
    /// # }
    /// ```
    ///
    /// A later truncation that overtakes the follower ends it with the same error.
    pub fn follow_lsn(&self, from: Lsn) -> Result<ReadOnlyFollower> {
        let view = self.view();
        ReadOnlyFollower::begin(&view.dir, &view.runtime, Begin::Lsn(from))
    }
}

/// Opens the directory that is now at the path of `dir`.
fn by_path(dir: &dyn Directory) -> Result<Arc<dyn Directory>> {
    let system = dir.system();
    let system = system.map_err(Error::io("open the directory", dir.path()))?;
    existing_directory(&*system, dir.path())
}

impl ReadOnlyFollower {
    /// Reads the log in `dir`, or in the directory that has replaced it, and begins there.
    fn begin(
        dir: &Arc<dyn Directory>,
        runtime: &Arc<dyn Runtime>,
        begin: Begin<'_>,
    ) -> Result<Self> {
        match Self::begin_in(dir, runtime, begin) {
            // The error may come from a directory that was removed or replaced: a file that is missing
            // there does not mean that the log at its path is damaged.
            Err(_) if directory_displaced(&**dir).is_some() => {
                Self::begin_in(&by_path(&**dir)?, runtime, begin)
            }
            begun => begun,
        }
    }

    fn begin_in(
        dir: &Arc<dyn Directory>,
        runtime: &Arc<dyn Runtime>,
        begin: Begin<'_>,
    ) -> Result<Self> {
        // Before the files are read, so that files that replace them later are noticed.
        let location = FollowedLocation::of(&**dir, runtime.now());
        Inspector::read_stable(dir, |inspector| {
            let location = location.clone();
            Self::start(inspector, dir.clone(), runtime.clone(), location, begin)
        })
    }

    fn start(
        inspector: Inspector,
        dir: Arc<dyn Directory>,
        runtime: Arc<dyn Runtime>,
        location: FollowedLocation,
        begin: Begin<'_>,
    ) -> Result<Self> {
        let (control, whole, segments, in_use) = inspector.into_parts();
        let path = dir.path().to_owned();
        let from = match begin {
            Begin::Lsn(from) => from,
            Begin::Position(position) => {
                check_log(position, &path, control.log_id)?;
                position.lsn()
            }
        };
        if let Some(&(lsn, _)) = gaps(&segments, &control).first() {
            let lost = lost_segment(dir.path(), &segments, lsn, &control);
            return Err(Error::Damaged(Box::new(lost)));
        }
        let anchor = anchor_state(&control);
        let end = find_end(&segments, &control, anchor, whole, &path)?;
        check_end(end.lost.as_ref(), in_use)?;
        let proven = end.proven;
        let input = WalkInput::new(&dir, &segments, &control, whole);
        let voids = void_ranges(input, &end, end.reread_from.last_void)?;
        if from < control.front {
            return Err(Error::Truncated {
                lsn: from,
                front: control.front,
            });
        }
        let covering = voids.covering(from);
        let view = View::new(
            dir.clone(),
            runtime.clone(),
            control.log_id,
            segments,
            voids.clone(),
            control.front..end.state.at,
        );
        // A repair may have cut records that the position has read. Possibly nothing proves yet the batch
        // with which the repair continued the log. So these void ranges include the unproven ones.
        let unless_given_up = |e: Error| {
            let is_lost = matches!(e, Error::Damaged(_)) && from > control.front;
            let segments = view.segments();
            let input = WalkInput::new(&dir, &segments, &control, whole);
            let unproven = is_lost.then(|| void_ranges(input, &end, end.state.last_void));
            match unproven.and_then(|voids| voids.ok()?.covering(from)) {
                Some((start, to)) if start < from => Error::Voided {
                    lsn: from,
                    from: start,
                    to,
                },
                _ => e,
            }
        };
        let compared = Compared {
            view: &view,
            end: end.state.at,
            epoch: end.state.epoch.unwrap_or(control.anchor.epoch),
        };
        // Compares the histories first. A void range of another history may begin at an LSN at which the
        // history of this position has no record.
        let is_voided = || covering.is_some_and(|(start, _)| start < from);
        if let Begin::Position(position) = begin
            && !(planted!("voided-before-compared") && is_voided())
        {
            compared.check(position).map_err(&unless_given_up)?;
        }
        let consumed = match covering {
            // All records of the range are voided, and the caller has none of them.
            Some((start, to)) if start == from || from == control.front => {
                ScanState::after_void(to)
            }
            Some((start, to)) => {
                return Err(Error::Voided {
                    lsn: from,
                    from: start,
                    to,
                });
            }
            None if from > end.state.at => {
                return Err(Error::BeyondEnd {
                    lsn: from,
                    end: end.state.at,
                });
            }
            None if from >= end.reread_from.at => end.reread_from,
            None => {
                let batch = boundary(&view, from).map_err(&unless_given_up)?.batch;
                // Begins at the segment's start, before its header area. Another history may have records
                // there, which a replica that goes back must not keep.
                ScanState::unlinked(batch.min(from))
            }
        };
        let history = match begin {
            Begin::Lsn(from) => compared.history_below(from)?,
            Begin::Position(position) => position.history().clone(),
        };
        let segments = std::mem::take(&mut *view.segments());
        Ok(ReadOnlyFollower {
            runtime,
            poll: Duration::from_millis(10),
            start: Start {
                from,
                epoch: control.epoch,
            },
            location,
            files: FollowedFiles::new(dir, segments, control),
            headers: HeaderPosition::new(end.reread_from, proven),
            batches: BatchPosition {
                consumed,
                is_voided: false,
                last: None,
                history,
                read_buffer: ReadBuffer::new(ReadSource::Cache),
                records: Records::default(),
                retries: 0,
            },
            voids,
            position: FollowerPosition::below(from),
            alarm: None,
            ended: false,
        })
    }

    /// Sets the time between two checks of the files while no record is available. Default: 10 ms.
    pub fn poll_interval(mut self, interval: Duration) -> Self {
        self.poll = interval;
        self
    }

    /// Returns the next record if it is proven durable; otherwise, and after the end, `Ok(None)`.
    pub fn try_next(&mut self) -> Result<Option<Record>> {
        if self.ended {
            return Ok(None);
        }
        self.location.just_begun = false;
        let answer = self.advance().or_else(|e| self.explain(e));
        // After `Voided` it continues behind the void range, and after `Io` at the same position.
        self.ended = match &answer {
            Err(Error::Voided { .. } | Error::Io { .. }) | Ok(_) => false,
            Err(_) => true,
        };
        answer
    }

    /// Waits for the next record, even while no process writes the log: a writer may open it again.
    /// Returns `None` after an error has ended the follower.
    pub fn next_blocking(&mut self) -> Option<Result<Record>> {
        loop {
            match self.try_next() {
                Ok(Some(record)) => return Some(Ok(record)),
                Err(e) => return Some(Err(e)),
                Ok(None) if self.ended => return None,
                Ok(None) => self.pause(self.poll),
            }
        }
    }

    /// Waits as [`ReadOnlyFollower::next_blocking`] does, but returns `Ok(None)` when `timeout` has
    /// passed without a record, and after the end.
    pub fn next_timeout(&mut self, timeout: Duration) -> Result<Option<Record>> {
        let began = self.runtime.now();
        loop {
            let record = self.try_next()?;
            let passed = self.runtime.now().saturating_sub(began);
            let left = timeout.saturating_sub(passed);
            if record.is_some() || self.ended || left.is_zero() {
                return Ok(record);
            }
            self.pause(left.min(self.poll));
        }
    }

    fn pause(&self, time: Duration) {
        self.runtime.wait(&AtomicU32::new(0), 0, Some(time));
    }

    /// Waits as [`ReadOnlyFollower::next_blocking`] does, but as a future. The implementation of
    /// `futures_core::Stream` does the same.
    ///
    /// A poll reads the log's files, mostly from the system's cache. While the task waits, a thread of
    /// the follower wakes it after each [poll interval](ReadOnlyFollower::poll_interval).
    ///
    /// **Cancel safe.** A future that is dropped before it has completed has consumed nothing: the next
    /// call returns the same record.
    pub async fn next(&mut self) -> Option<Result<Record>> {
        poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }

    /// Returns the follower's position. Every proven record below it was returned, or was voided, or lies
    /// below the starting position. A follower that starts here after a restart skips nothing and returns
    /// nothing twice.
    ///
    /// The position may move back over padding, to the end of the last record, while an append has been
    /// read only in part. No record lies in between.
    pub fn position(&self) -> Position {
        self.batches.history.at(self.lsn())
    }

    fn lsn(&self) -> Lsn {
        let consumed = self.batches.consumed.at;
        // Not the end of a void range: a follower that starts there would report the range again.
        let voided = || self.voids.covering(Lsn(consumed.0.saturating_sub(1)));
        let is_voided = self.batches.is_voided || voided().is_some();
        match self.batches.records.is_between_appends() && !is_voided {
            true => self.position.end().max(consumed),
            false => self.position.end(),
        }
    }

    /// Returns the number of bytes of log that were proven durable at the last poll and were not returned
    /// yet: 0 once the follower has caught up with that poll.
    pub fn lag(&self) -> u64 {
        self.headers.proven.0.saturating_sub(self.lsn().0)
    }

    /// Returns true once the follower has ended: it will return nothing more.
    pub fn is_ended(&self) -> bool {
        self.ended
    }

    /// Returns the exclusive end of the log that was proven durable at the last poll.
    pub fn proven_lsn(&self) -> Lsn {
        self.headers.proven
    }

    /// Returns true if a process has the log open for writing now. Fails if the lock cannot be checked.
    pub fn is_writer_running(&self) -> Result<bool> {
        is_in_use(&self.files.dir)
    }

    /// Handles an error. If other files have replaced those that caused it, continues in the new ones.
    fn explain(&mut self, e: Error) -> Result<Option<Record>> {
        match e {
            Error::Voided { .. } => Err(e),
            Error::Io { .. } if !e.is_not_found() => Err(e),
            _ if self.begin_anew(false)? => self.advance(),
            _ => Err(e),
        }
    }

    fn advance(&mut self) -> Result<Option<Record>> {
        loop {
            self.check_location()?;
            if let Some(e) = self.position.voided(&self.voids) {
                return Err(e);
            }
            while let Some(record) = self.batches.records.next() {
                if self.voids.covering(record.start).is_some() {
                    continue;
                }
                let is_cut = || {
                    self.voids
                        .covering(Lsn(record.end.0.saturating_sub(1)))
                        .is_some()
                };
                if !self.location.just_begun && is_cut() {
                    // No truncation ends within a record, so the void range belongs to a history that a copy
                    // has replaced. If it were reported, the caller would go back to an LSN at which no
                    // record of the copy begins.
                    self.go_back(self.position.end());
                    return Ok(None);
                }
                if record.start < self.files.control.front {
                    self.confirm_front(record.start, |c| c.front)?;
                }
                self.position.note(record.start, record.end);
                return Ok(Some(record));
            }
            if !self.consume_batch()? && !self.find_proof()? {
                return Ok(None);
            }
        }
    }
}

impl Stream for ReadOnlyFollower {
    type Item = Result<Record>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Record>>> {
        let this = &mut *self;
        match this.try_next() {
            Ok(None) if this.ended => Poll::Ready(None),
            Ok(None) => {
                if this.alarm.is_none() {
                    let started = Alarm::start(this.runtime.clone());
                    let path = this.files.dir.path();
                    match started.map_err(Error::io("start a thread to follow", path)) {
                        Ok(alarm) => this.alarm = Some(alarm),
                        Err(e) => return Poll::Ready(Some(Err(e))),
                    }
                }
                if let Some(alarm) = &this.alarm {
                    alarm.wake_after(this.poll, context.waker());
                }
                Poll::Pending
            }
            answer => Poll::Ready(answer.transpose()),
        }
    }
}

impl std::fmt::Debug for ReadOnlyFollower {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadOnlyFollower")
            .field("position", &self.lsn())
            .field("proven", &self.proven_lsn())
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}
