//! Calls that block, for tasks.

use crate::error::Result;
use crate::log::Log;
use crate::log::offload::offload;

impl Log {
    /// Makes calls that block, for a task: `call` runs in a thread of its own, with a clone of this log. That
    /// costs some 50 µs, which calls that force something do not notice. Records have [`Log::commit_async`] and
    /// [`Log::reserve`], which need no thread.
    ///
    /// ```
    /// # async fn checkpointed(log: logforce_core::Log, applied: logforce_core::Lsn) -> logforce_core::Result<()> {
    /// log.blocking(move |log| log.truncate_front(applied)).await?;
    /// log.blocking(|log| log.close()).await
    /// # }
    /// ```
    ///
    /// In a callback of a log, the progress of a backup among them, the first poll makes the call itself:
    /// another thread could wait for the one that is in the callback.
    ///
    /// **Cancelling.** A call begins when its future is first polled; dropping the future after that does
    /// not stop it. Calls that run at the same time come in no order: a close may come before a call that was
    /// polled and dropped earlier, which then fails. Await each whose effect you need.
    pub async fn blocking<T: Send + 'static>(
        &self,
        call: impl FnOnce(Log) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let log = self.clone();
        let engine = self.engine_arc().clone();
        offload(engine.runtime(), &engine.view.path, move || call(log)).await
    }
}
