use crate::error::{Error, Result};
use crate::read::replicated::Replicated;
use crate::storage::control_file::ControlFile;
use crate::storage::segments::Segments;
use crate::storage::voids::Voids;
use crate::sync::wake::Wake;
use crate::types::CheckpointDue;
use logforce_commit::sync::event::Event;
use logforce_commit::sync::reason::Reason;
use logforce_commit::sync::wakers::Wakers;
use logforce_device::sync::{AtomicU64, Mutex, MutexGuard};
use logforce_device::{Directory, Runtime};
use logforce_format::{LogId, Lsn};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::Ordering::*;
use std::sync::{Arc, PoisonError};

/// State that all readers of a log share, whether this process writes the log or only reads it.
pub(crate) struct View {
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) dir: Arc<dyn Directory>,
    pub(crate) path: PathBuf,
    pub(crate) log_id: LogId,
    /// ID of the process that opened the log.
    pub(crate) process: u64,
    pub(crate) segments: Mutex<Segments>,
    pub(crate) voids: Mutex<Voids>,
    pub(crate) durable: AtomicU64,
    pub(crate) front: AtomicU64,
    /// Event that is notified when the durable LSN moves, and when it will not move any more.
    pub(crate) advanced: Event,
    /// Tasks that wait for the durable LSN.
    pub(crate) wakers: Wakers,
    pub(crate) replicated: Replicated,
    pub(crate) checkpoint: CheckpointRequest,
    /// Reason why the durable LSN will not move any more: `Some(None)` if the log was closed,
    /// `Some(Some(_))` if it failed.
    pub(crate) ended: Mutex<Option<Option<Error>>>,
}

/// The checkpoint request that the log has made, and the threads and tasks that wait for one.
#[derive(Default)]
pub(crate) struct CheckpointRequest {
    /// Newest request that was not taken yet.
    pub(crate) due: Mutex<Option<CheckpointDue>>,
    /// Event that is notified when a request was made, and when no more will be made.
    pub(crate) made: Event,
    /// Tasks that wait for a request.
    pub(crate) tasks: Wakers,
}

impl View {
    /// Creates a view of the log's durable `range`, which starts at the front.
    pub(crate) fn new(
        dir: Arc<dyn Directory>,
        runtime: Arc<dyn Runtime>,
        log_id: LogId,
        segments: Segments,
        voids: Voids,
        range: Range<Lsn>,
    ) -> Arc<View> {
        Arc::new(View {
            process: runtime.process(),
            path: dir.path().to_owned(),
            runtime,
            dir,
            log_id,
            segments: Mutex::new(segments),
            voids: Mutex::new(voids),
            durable: range.end.0.into(),
            front: range.start.0.into(),
            advanced: Event::default(),
            wakers: Wakers::default(),
            replicated: Replicated::default(),
            checkpoint: CheckpointRequest::default(),
            ended: Mutex::default(),
        })
    }

    pub(crate) fn segments(&self) -> MutexGuard<'_, Segments> {
        self.segments.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn voids(&self) -> MutexGuard<'_, Voids> {
        self.voids.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn durable(&self) -> Lsn {
        Lsn(self.durable.load(Acquire))
    }

    pub(crate) fn front(&self) -> Lsn {
        Lsn(self.front.load(Acquire))
    }

    /// Returns the reason why the durable LSN will not move any more; `None` while it may move.
    pub(crate) fn ended(&self) -> Option<Option<Error>> {
        self.ended
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Ends the view: the durable LSN will not move any more.
    pub(crate) fn end(&self, why: Option<Error>, wake: Wake) {
        if wake.is_forgotten() {
            return;
        }
        self.ended
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert(why);
        self.advanced.notify(&*self.runtime, Wake::EndedFollowers);
        self.wakers.wake_all(Wake::EndedTasks);
        self.replicated.wake_all(&*self.runtime);
        let checkpoint = &self.checkpoint;
        checkpoint
            .made
            .notify(&*self.runtime, Wake::EndedCheckpoints);
        checkpoint.tasks.wake_all(Wake::EndedCheckpointTasks);
    }

    /// Returns the request that was not taken yet. Drops it first if the log has been truncated that far
    /// since. A log that is full of unforced records requests a truncation to its current front: that
    /// request stays.
    pub(crate) fn pending_checkpoint(&self) -> MutexGuard<'_, Option<CheckpointDue>> {
        let due = &self.checkpoint.due;
        let mut due = due.lock().unwrap_or_else(PoisonError::into_inner);
        let front = self.front();
        if due
            .as_ref()
            .is_some_and(|d| d.truncate_to <= front && d.front < front)
        {
            *due = None;
        }
        due
    }

    /// Requests a checkpoint. The caller holds no lock: this wakes threads and tasks.
    pub(crate) fn post_checkpoint(&self, due: CheckpointDue) {
        *self.pending_checkpoint() = Some(due);
        let request = &self.checkpoint;
        request.made.notify(&*self.runtime, Wake::CheckpointDue);
        request.tasks.wake_all(Wake::CheckpointDueTasks);
    }

    /// Fails in a forked child. It has a copy of the parent's log buffer, so both would write different
    /// batches at the same LSN.
    pub(crate) fn check_process(&self) -> Result<()> {
        if self.runtime.process() == self.process {
            Ok(())
        } else {
            Err(Error::Forked)
        }
    }

    /// Reads the front from the control file. A missing part of the log may have been truncated by another
    /// process, or by a later opening in this one.
    pub(crate) fn refresh_front(&self) -> Result<()> {
        match ControlFile::load(&self.dir) {
            Ok(loaded) if loaded.control.log_id == self.log_id => {
                self.front.fetch_max(loaded.control.front.0, AcqRel);
                Ok(())
            }
            // Without the front it is unknown whether the missing part was truncated.
            Err(e @ Error::Io { .. }) if !e.is_not_found() => Err(e),
            _ => Ok(()),
        }
    }
}
