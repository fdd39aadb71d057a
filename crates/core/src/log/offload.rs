//! Blocking calls for tasks: each runs in a new thread.

use crate::engine::own_threads::may_be_in_callback;
use crate::error::{Error, Result};
use crate::log::Log;
use logforce_device::Runtime;
use logforce_device::sync::Mutex;
use logforce_format::planted;
use std::future::poll_fn;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::task::{Poll, Waker};

impl Log {
    /// Makes a blocking call from a task: runs `call` in a new thread, with a clone of this log. The thread
    /// costs about 50 µs, which is little for a call that forces. For records, [`Log::commit_async`] and
    /// [`Log::reserve`] need no thread.
    ///
    /// ```
    /// # async fn checkpointed(log: logforce_core::Log, applied: logforce_core::Lsn) -> logforce_core::Result<()> {
    /// log.blocking(move |log| log.truncate_front(applied)).await?;
    /// log.blocking(|log| log.close()).await
    /// # }
    /// ```
    ///
    /// In a callback of a log (including the progress function of a backup), the first poll makes the call
    /// itself. Another thread could wait for the thread that is in the callback.
    ///
    /// **Cancelling.** A call begins when its future is first polled. Dropping the future after that does
    /// not stop it. Calls that run at the same time have no order: a close may precede a call that was
    /// polled and dropped earlier, which then fails. Await each call whose effect you need.
    pub async fn blocking<T: Send + 'static>(
        &self,
        call: impl FnOnce(Log) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let log = self.clone();
        let engine = self.engine_arc().clone();
        offload(engine.runtime(), &engine.view.path, move || call(log)).await
    }
}

/// Result of the thread, and the waker of the task that waits for it.
struct Slot<T> {
    result: Option<Result<T>>,
    waker: Option<Waker>,
}

/// Delivers the result when it is dropped, even by a panic. Otherwise the task would wait forever.
struct Delivery<T> {
    slot: Arc<Mutex<Slot<T>>>,
    result: Option<Result<T>>,
    path: PathBuf,
}

impl<T> Delivery<T> {
    fn deliver(mut self, result: Result<T>) {
        self.result = Some(result);
    }
}

impl<T> Drop for Delivery<T> {
    fn drop(&mut self) {
        let result = self.result.take().unwrap_or_else(|| {
            Err(Error::Io {
                doing: "finish a call for",
                path: std::mem::take(&mut self.path),
                source: Arc::new(io::Error::other("the thread that did it panicked")),
            })
        });
        let waker = {
            let mut slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
            slot.result = Some(result);
            slot.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// Runs `call` in a new thread, and waits for it in a task. The call begins at the first poll, and dropping
/// the future after that does not stop it. `path` is for messages. In a callback of a log, the first poll
/// makes the call itself: only the thread in the callback can detect this, and avoid waiting for the
/// callback's end.
pub async fn offload<T: Send + 'static>(
    runtime: &dyn Runtime,
    path: &Path,
    call: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    if !planted!("callback-awaits-a-thread") && may_be_in_callback() {
        return call();
    }
    let slot = Arc::new(Mutex::new(Slot {
        result: None,
        waker: None,
    }));
    let delivery = Delivery {
        slot: slot.clone(),
        result: None,
        path: path.to_owned(),
    };
    let body = move || delivery.deliver(call());
    drop(
        runtime
            .spawn("logforce-call", Box::new(body))
            .map_err(Error::io("start a thread for", path))?,
    );
    poll_fn(move |context| {
        // Clones and drops wakers without the mutex, because both may run the executor's code.
        let mut waker = Some(context.waker().clone());
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        let polled = match slot.result.take() {
            Some(result) => Poll::Ready(result),
            None => {
                std::mem::swap(&mut slot.waker, &mut waker);
                Poll::Pending
            }
        };
        drop(slot);
        drop(waker);
        polled
    })
    .await
}
