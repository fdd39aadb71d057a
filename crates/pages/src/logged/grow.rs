//! Room in the data file for new pages, before a commit that needs it is accepted: what the filesystem
//! cannot hold must not get into the log, from where it could never leave.

use super::LoggedStore;
use crate::error::{Error, Result};
use crate::files::DATA;
use logforce_device::{AlignedBuf, Write};
use std::io::{self, ErrorKind};
use std::sync::Arc;

/// Bytes by which the data file grows at least.
const STEP: u64 = 1 << 20;

impl LoggedStore {
    /// Makes the data file large enough for `page_count` pages. The last one of them is written, so a
    /// file that grows far is sparse.
    pub(super) fn reach(&self, page_count: u64) -> Result<()> {
        let step = (STEP / u64::from(self.header.page_size)).max(1);
        loop {
            let seen = self.progress.observe();
            {
                let mut state = self.state();
                if page_count <= state.reached {
                    return Ok(());
                }
                if !state.is_growing {
                    state.is_growing = true;
                    break;
                }
            }
            self.progress.wait(self.runtime(), seen, None);
        }
        let target = page_count.next_multiple_of(step);
        let written = self.write_last(target);
        {
            let mut state = self.state();
            state.is_growing = false;
            if written.is_ok() {
                state.reached = target;
            }
        }
        self.progress.notify(self.runtime());
        let path = || self.place.path_of(DATA);
        written.map_err(|e| match e.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Error::NoSpace {
                path: path(),
                need: target * u64::from(self.header.page_size),
                source: Arc::new(e),
            },
            _ => Error::io("make room for more pages in", path())(e),
        })
    }

    /// No commit can have written that page: it would have come here first, and waited.
    fn write_last(&self, page_count: u64) -> io::Result<()> {
        let len = self.page_size();
        let ticket = self.data.file.submit(Write {
            offset: self.data.offset(page_count - 1),
            buf: AlignedBuf::zeroed(len, self.place.alignment()),
            range: 0..len,
            through: false,
        });
        self.data.file.complete(ticket).result
    }
}
