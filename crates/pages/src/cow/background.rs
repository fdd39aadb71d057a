//! Background flusher: forces commits that no thread waits for, and checks that the file was not displaced.

use crate::cow::store::CowStore;
use crate::error::{Error, Result};
use logforce_device::NamedFiles;
use logforce_format::planted;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

impl CowStore {
    /// Starts the background thread. Closing ends it.
    pub(crate) fn start_background(self: &Arc<Self>) -> Result<()> {
        let store = self.clone();
        let body = Box::new(move || store.work_in_background());
        let thread = self.runtime().spawn("logforce-pages-bg", body);
        let thread = thread.map_err(Error::io("start a thread for", self.path()))?;
        let mut background = self
            .background
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *background = Some(thread);
        Ok(())
    }

    fn work_in_background(&self) {
        let mut location_checked = None;
        loop {
            let seen = self.work.observe();
            let now = self.runtime().now();
            let mut state = self.lock();
            if state.is_closed {
                return;
            }
            let (is_due, left) = state.schedule.is_due(now);
            let group = state.groups.last();
            if is_due && group.is_none() {
                // Everything is durable by now.
                state.schedule.clear();
            }
            drop(state);
            match group {
                // The threads that wait for the group learn its outcome.
                Some(group) if is_due => drop(self.wait_for(&group)),
                _ if is_due => {}
                // Commits that their program takes for accepted may wait long for their force. This check
                // reports early that the file was taken away. A failure clears `left`.
                _ if left.is_some() && is_check_due(location_checked, now) => {
                    location_checked = Some(now);
                    let _ = self.check_location();
                }
                _ => {
                    let left = left.map(|left| left.min(NamedFiles::CHECK_EVERY));
                    self.work.wait(self.runtime(), seen, left);
                }
            }
        }
    }

    /// Waits until the thread has ended. The caller must have requested its end.
    pub(crate) fn join_background(&self) {
        let mut background = self
            .background
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let thread = background.take();
        drop(background);
        if let Some(thread) = thread {
            // If the thread panicked, the file has failed and returns that error.
            let _ = thread.join();
        }
    }
}

/// Returns true if the next check is due.
pub(crate) fn is_check_due(last: Option<Duration>, now: Duration) -> bool {
    last.is_none_or(|last| now >= last.saturating_add(NamedFiles::CHECK_EVERY))
}

impl CowStore {
    /// Returns the error if the directory or one of the files was displaced.
    pub(crate) fn displaced(&self) -> Option<Error> {
        match planted!("page-location-unchecked") {
            true => None,
            false => self.data_dir.displaced(),
        }
    }

    /// Fails the file if the directory or one of the files was displaced.
    pub(crate) fn check_location(&self) -> Result<()> {
        let Some(displaced) = self.displaced() else {
            return Ok(());
        };
        let (ended, error) = {
            let mut state = self.lock();
            (state.fail(displaced), state.failed.clone())
        };
        for group in ended {
            group.notify(self.runtime());
        }
        error.map_or(Ok(()), Err)
    }
}
