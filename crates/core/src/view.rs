use crate::commit::Signal;
use crate::segments::Segments;
use crate::voids::Voids;
use crate::wakers::Wakers;
use crate::{Error, Result};
use logforce_device::sync::{AtomicU64, Mutex, MutexGuard};
use logforce_device::{Directory, Runtime};
use logforce_format::{Control, LogId, Lsn, planted};
use std::path::PathBuf;
use std::sync::atomic::Ordering::*;
use std::sync::{Arc, PoisonError};

/// What reading needs to know of a log, whether this process writes it or only looks.
pub(crate) struct View {
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) dir: Arc<dyn Directory>,
    pub(crate) path: PathBuf,
    pub(crate) log_id: LogId,
    /// The process that opened the log.
    pub(crate) process: u64,
    pub(crate) segments: Mutex<Segments>,
    pub(crate) voids: Mutex<Voids>,
    pub(crate) durable: AtomicU64,
    pub(crate) front: AtomicU64,
    /// Rings when the durable LSN moves, and when it will not move any more.
    pub(crate) advanced: Signal,
    /// Tasks that wait for the durable LSN.
    pub(crate) wakers: Wakers,
    /// Why the durable LSN will not move any more: closed, or failed.
    pub(crate) ended: Mutex<Option<Option<Error>>>,
}

impl View {
    /// A view of a log that this process does not write.
    pub(crate) fn of(
        dir: Arc<dyn Directory>,
        runtime: Arc<dyn Runtime>,
        control: &Control,
        segments: Segments,
        voids: Voids,
        durable: Lsn,
    ) -> Arc<View> {
        Arc::new(View {
            process: runtime.process(),
            path: dir.path().to_owned(),
            runtime,
            dir,
            log_id: control.log_id,
            segments: Mutex::new(segments),
            voids: Mutex::new(voids),
            durable: durable.0.into(),
            front: control.front.0.into(),
            advanced: Signal::default(),
            wakers: Wakers::default(),
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

    /// The end, if it has come.
    pub(crate) fn ended(&self) -> Option<Option<Error>> {
        self.ended
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The durable LSN will not move any more.
    pub(crate) fn end(&self, why: Option<Error>) {
        self.ended
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert(why);
        if !planted!("end-wakes-no-follower") {
            self.advanced.ring(&*self.runtime);
        }
        if !planted!("end-wakes-no-task") {
            self.wakers.wake_all();
        }
    }

    /// Refuses a forked child: its copy of the staging memory is the parent's, and both would
    /// write different batches at the same LSN.
    pub(crate) fn check_process(&self) -> Result<()> {
        if self.runtime.process() == self.process {
            Ok(())
        } else {
            Err(Error::Forked)
        }
    }

    /// Looks whether the front was moved by another process, or by a later opening in this one:
    /// what is missing may have been truncated there.
    pub(crate) fn refresh_front(&self) -> Result<()> {
        match crate::control_file::ControlFile::load(&self.dir) {
            Ok(loaded) if loaded.control.log_id == self.log_id => {
                self.front.fetch_max(loaded.control.front.0, AcqRel);
                Ok(())
            }
            // Nothing is known then, and what is missing may have been truncated.
            Err(e @ Error::Io { .. }) if !e.is_not_found() => Err(e),
            _ => Ok(()),
        }
    }
}
