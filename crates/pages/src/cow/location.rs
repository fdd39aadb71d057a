//! Checks that the file is still where it was opened. They run at intervals while commits wait to be forced
//! or are forced. They also run before a header that follows growth, at a checkpoint, and at the close.

use crate::cow::store::CowStore;
use crate::error::{Error, Result};
use logforce_device::NamedFiles;
use logforce_format::planted;
use std::time::Duration;

/// Returns true if the last check was too long ago.
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

    /// Fails the file if it is not where it was opened.
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
