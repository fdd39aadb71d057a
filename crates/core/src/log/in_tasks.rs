//! Calls that block, for tasks.

use crate::backup::BackupReport;
use crate::error::Result;
use crate::log::Log;
use crate::log::offload::offload;
use logforce_format::Lsn;
use std::path::Path;

/// For tasks: the same calls, in a thread of their own each. That costs some 50 µs, which these do not
/// notice: each forces something. Records have [`Log::commit_async`] and [`Log::reserve`], which need
/// no thread. In a callback of a log, the progress of a backup among them, the first poll makes the call
/// itself: another thread could wait for the one that is in the callback.
///
/// **Cancelling.** A call begins when its future is first polled; dropping the future after that does
/// not stop it. Calls that run at the same time come in no order: a close may come before a call that was
/// polled and dropped earlier, which then fails. Await each whose effect you need.
impl Log {
    /// As [`Log::close`].
    pub async fn close_async(self) -> Result<()> {
        self.in_thread(|log| log.close()).await
    }

    /// As [`Log::truncate_front`].
    pub async fn truncate_front_async(&self, front: Lsn) -> Result<()> {
        self.in_thread(move |log| log.truncate_front(front)).await
    }

    /// As [`Log::truncate_front_at_most`].
    pub async fn truncate_front_at_most_async(&self, lsn: Lsn) -> Result<Lsn> {
        self.in_thread(move |log| log.truncate_front_at_most(lsn))
            .await
    }

    /// As [`Log::truncate_back`].
    pub async fn truncate_back_async(&self, from: Lsn) -> Result<()> {
        self.in_thread(move |log| log.truncate_back(from)).await
    }

    /// As [`Log::set_meta`].
    pub async fn set_meta_async(&self, bytes: &[u8]) -> Result<()> {
        let bytes = bytes.to_vec();
        self.in_thread(move |log| log.set_meta(&bytes)).await
    }

    /// As [`Log::backup_to`].
    pub async fn backup_to_async(&self, to: impl AsRef<Path>) -> Result<BackupReport> {
        let to = to.as_ref().to_owned();
        self.in_thread(move |log| log.backup_to(to)).await
    }

    async fn in_thread<T: Send + 'static>(
        &self,
        call: impl FnOnce(Log) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let log = self.clone();
        let engine = self.engine_arc().clone();
        offload(engine.runtime(), &engine.view.path, move || call(log)).await
    }
}
