//! Closing all logs of an environment at once.

use crate::engine::own_threads::may_be_awaited;
use crate::environment::Environment;
use crate::environment::members::Member;
use crate::error::{Error, Result};
use crate::log::Handle;
use logforce_device::sync::Mutex;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

/// Maximum number of logs that close at the same time. A close spends most of its time waiting for the
/// device.
const AT_ONCE: usize = 16;

impl Member for Handle {
    fn path(&self) -> &Path {
        &self.engine.view.path
    }

    /// Closes the log. Turns a panic of the device into an error, as for the log's other callers.
    fn close(&self) -> Result<()> {
        self.close_catching_panics().0
    }
}

/// Logs that are still to be closed, and the errors of those whose close failed.
struct Closing {
    left: Mutex<Vec<Arc<dyn Member>>>,
    failed: Mutex<Vec<(PathBuf, Error)>>,
}

impl Closing {
    fn run(&self) {
        while let Some(log) = {
            let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
            left.pop()
        } {
            // In a callback of a log that another thread is closing, the error is `Closed`, because that
            // close waits for the callback.
            if let Err(e) = log.close()
                && !matches!(e, Error::Closed)
            {
                let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
                failed.push((log.path().to_owned(), e));
            }
        }
    }
}

impl Environment {
    /// Closes all logs of this environment, up to 16 at once, as [`Log::close`](crate::Log::close) does.
    /// Returns the directory and the error of each log that failed, ordered by directory. Clones of the logs
    /// may remain: they answer [`Error::Closed`]. The environment can be used for other logs.
    ///
    /// This closes the log of a page file as well, so close the page file first. It does not wait for a log
    /// whose last clone another thread is dropping. In a callback of a log, it closes the logs one after
    /// another, in the calling thread.
    #[must_use = "the logs in the result were not closed cleanly: their unforced records may be lost"]
    pub fn close_all(&self) -> Vec<(PathBuf, Error)> {
        let mut logs = self.shared.members.open();
        logs.reverse();
        let threads = match may_be_awaited() {
            // Another thread would close the log of this callback, and wait for the callback, which waits
            // for that thread.
            true => 1,
            false => logs.len().min(AT_ONCE),
        };
        let closing = Arc::new(Closing {
            left: Mutex::new(logs),
            failed: Mutex::default(),
        });
        let mut others = Vec::new();
        for _ in 1..threads {
            let closing = closing.clone();
            let body = Box::new(move || closing.run());
            // If the system cannot start more threads, the running ones close the remaining logs.
            others.extend(self.shared.runtime.spawn("logforce-close", body).ok());
        }
        closing.run();
        for thread in others {
            let _ = thread.join();
        }
        let mut failed = closing
            .failed
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let mut failed = std::mem::take(&mut *failed);
        failed.sort_by(|a, b| a.0.cmp(&b.0));
        failed
    }
}
