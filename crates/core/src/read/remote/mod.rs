//! Following a log that another process writes. Nothing is locked, forced or written.
//!
//! Two positions move along the chain of batches. *Ahead* goes the one that reads headers only, for
//! the stamps in them: each says that everything below it is durable. Behind comes the one that
//! reads whole batches and shows their records, and it never passes what is proven. What lies
//! between the two may be cut by the next recovery; then the first goes back to the second.

mod ahead;
pub(crate) mod follower;
mod taking;
mod tip;

use crate::error::{Error, Result};
use crate::names;
use crate::options::OnDamage;
use crate::read::inspect::{Inspector, check_end};
use crate::read::read_only::ReadOnly;
use crate::read::reader::boundary;
use crate::read::records::Records;
use crate::read::shown::Shown;
use crate::read::view::View;
use crate::scan::batch::ScanState;
use crate::scan::coverage::{gaps, lost_segment};
use crate::scan::end_of_log::{anchor_state, find_end};
use crate::scan::walk::ground::Ground;
use crate::scan::walk::void_ranges::void_ranges;
use crate::storage::window::Window;
use crate::types::Record;
use follower::ReadOnlyFollower;
use logforce_device::sync::AtomicU32;
use logforce_device::{Directory, ReadSource, Runtime};
use logforce_format::Lsn;
use std::sync::Arc;
use std::time::Duration;
use tip::Ahead;

impl ReadOnly {
    /// Follows the log from `from` on: the start or the end of a record, [`ReadOnly::front_lsn`],
    /// or where another follower of this log was ([`ReadOnlyFollower::position`]). Looks at the log
    /// anew; this `ReadOnly` stays as it was.
    pub fn follow(&self, from: Lsn) -> Result<ReadOnlyFollower> {
        let view = self.view();
        Inspector::look(&view.dir, |inspector| {
            ReadOnlyFollower::start(inspector, view.dir.clone(), view.runtime.clone(), from)
        })
    }
}

impl ReadOnlyFollower {
    fn start(
        inspector: Inspector,
        dir: Arc<dyn Directory>,
        runtime: Arc<dyn Runtime>,
        from: Lsn,
    ) -> Result<Self> {
        let (control, whole, segments, in_use) = inspector.into_parts();
        let path = dir.path().to_owned();
        if let Some(&(lsn, _)) = gaps(&segments, &control).first() {
            let lost = lost_segment(dir.path(), &segments, lsn, &control);
            return Err(Error::Damaged(Box::new(lost)));
        }
        let anchor = anchor_state(&control);
        let end = find_end(
            &segments,
            &control,
            anchor,
            whole,
            &path,
            OnDamage::Truncate,
        )?;
        check_end(end.lost.as_ref(), in_use)?;
        let proven = end.trusted;
        let ground = Ground {
            dir: &dir,
            segments: &segments,
            control: &control,
            both_slots: whole,
            regained: &[],
        };
        let voids = void_ranges(ground, &end, end.settled.last_void)?;
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
            control.front..proven,
        );
        let taken = match covering {
            // All that it would show there is gone, and its user has nothing of that.
            Some((start, to)) if start == from || from == control.front => {
                ScanState::behind_void(to)
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
            None if from >= end.settled.at => end.settled,
            None => ScanState::unlinked(boundary(&view, from)?.batch),
        };
        let segments = std::mem::take(&mut *view.segments());
        Ok(ReadOnlyFollower {
            dir,
            runtime,
            poll: Duration::from_millis(10),
            from,
            began: control.epoch,
            segments,
            ahead: Ahead::new(end.settled, proven),
            control,
            taken,
            window: Window::new(ReadSource::Cache),
            records: Records::default(),
            voids,
            shown: Shown::below(from),
            doubts: 0,
            failed: None,
        })
    }

    /// How long [`ReadOnlyFollower::next_blocking`] waits between two looks. Default 10 ms.
    pub fn poll_interval(mut self, interval: Duration) -> Self {
        self.poll = interval;
        self
    }

    /// The next record, if one is there that is proven durable.
    pub fn try_next(&mut self) -> Result<Option<Record>> {
        if let Some(e) = &self.failed {
            return Err(e.clone());
        }
        let answer = self.advance();
        match &answer {
            Err(Error::Voided { .. } | Error::Io { .. }) | Ok(_) => {}
            Err(e) => self.failed = Some(e.clone()),
        }
        answer
    }

    /// Waits for the next record; `Ok(None)` when `timeout` has passed without one. It waits on
    /// while nobody writes the log: another writer may come.
    pub fn next_blocking(&mut self, timeout: Option<Duration>) -> Result<Option<Record>> {
        let began = self.runtime.now();
        loop {
            if let Some(entry) = self.try_next()? {
                return Ok(Some(entry));
            }
            let passed = self.runtime.now().saturating_sub(began);
            let left = timeout.map(|t| t.saturating_sub(passed));
            if left.is_some_and(|l| l.is_zero()) {
                return Ok(None);
            }
            let pause = left.map_or(self.poll, |l| l.min(self.poll));
            self.runtime.wait(&AtomicU32::new(0), 0, Some(pause));
        }
    }

    /// Where it is: everything below was shown, or taken back, or lies below where it began. To
    /// follow from here after a restart leaves nothing out and shows nothing twice.
    pub fn position(&self) -> Lsn {
        self.shown.end()
    }

    /// Exclusive end of what was proven durable when it last looked.
    pub fn proven_lsn(&self) -> Lsn {
        self.ahead.proven
    }

    /// Whether somebody has the log open for writing now. Fails where the lock cannot be looked at.
    pub fn is_writer_running(&self) -> Result<bool> {
        let path = self.dir.path().join(names::LOCK);
        self.dir
            .is_locked(names::LOCK)
            .map_err(Error::io("look at the lock", path))
    }

    fn advance(&mut self) -> Result<Option<Record>> {
        loop {
            if let Some(e) = self.shown.taken_back(&self.voids) {
                return Err(e);
            }
            while let Some(entry) = self.records.ready.pop_front() {
                if self.voids.covering(entry.start).is_some() {
                    continue;
                }
                if entry.start < self.control.front {
                    self.confirm_front(entry.start, |c| c.front)?;
                }
                self.shown.note(entry.start, entry.end);
                return Ok(Some(entry));
            }
            if !self.take_batch()? && !self.look_ahead()? {
                return Ok(None);
            }
        }
    }
}

impl std::fmt::Debug for ReadOnlyFollower {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadOnlyFollower")
            .field("position", &self.position())
            .field("proven", &self.proven_lsn())
            .field("failed", &self.failed)
            .finish_non_exhaustive()
    }
}
