use crate::error::Result;
use crate::read::backward::BackwardReader;
use crate::read::inspect::Inspector;
use crate::read::reader::Reader;
use crate::read::view::View;
use crate::storage::directory::existing_directory;
use crate::types::Record;
use logforce_device::System;
use logforce_format::{LogId, Lsn};
use std::path::Path;
use std::sync::Arc;

/// A log opened for reading. It locks, changes and forces nothing, and another process may be
/// writing the log.
///
/// It contains what was durable when it was opened: beside a writer, what stamps prove; otherwise,
/// all that the next opening for writing would recover from the system's cache. To see more, open
/// again, or [follow](ReadOnly::follow).
pub struct ReadOnly {
    view: Arc<View>,
    meta: Result<Option<Vec<u8>>>,
}

impl ReadOnly {
    /// Opens the log in `path` of `system` for reading. Fails on damage at its end; reading reports
    /// damage further back.
    #[doc(hidden)]
    pub fn open(system: &dyn System, path: impl AsRef<Path>) -> Result<ReadOnly> {
        let dir = existing_directory(system, path.as_ref())?;
        Inspector::read_stable(&dir, |inspector| {
            let meta = inspector.meta();
            let view = inspector.into_view(system.runtime())?;
            Ok(ReadOnly { view, meta })
        })
    }

    /// The record at `start`.
    pub fn read_at(&self, start: Lsn) -> Result<Record> {
        Reader::at_record(self.view.clone(), start)
    }

    /// Reads records from `from` on: the start or the end of a record, or
    /// [`ReadOnly::front_lsn`].
    ///
    /// The writer may have truncated since this was opened: this, or the reader, then answers
    /// [`Error::Truncated`](crate::Error::Truncated). Open again, and begin at the front anew.
    pub fn read_from(&self, from: Lsn) -> Result<Reader> {
        Reader::from_boundary(self.view.clone(), from)
    }

    /// Reads records backwards from `from` on: the newest that ends there or below first. `from` is the
    /// start or the end of a record, or [`ReadOnly::durable_lsn`].
    pub fn read_back_from(&self, from: Lsn) -> Result<BackwardReader> {
        BackwardReader::from_boundary(self.view.clone(), from)
    }

    /// The last record; `None` in a log without records.
    pub fn last(&self) -> Result<Option<Record>> {
        self.read_back_from(self.durable_lsn())?.next().transpose()
    }

    /// Records below are gone.
    pub fn front_lsn(&self) -> Lsn {
        self.view.front()
    }

    /// Exclusive end of what can be read.
    pub fn durable_lsn(&self) -> Lsn {
        self.view.durable()
    }

    pub(crate) fn view(&self) -> &View {
        &self.view
    }

    /// The metadata as it was when the log was opened; `None` if it was never set. Beside a writer
    /// it may be a value that is not acknowledged yet. [`Error::Damaged`](crate::Error::Damaged) if
    /// both slots are damaged.
    pub fn meta(&self) -> Result<Option<Vec<u8>>> {
        self.meta.clone()
    }

    /// A random number that identifies this log.
    pub fn id(&self) -> LogId {
        self.view.log_id
    }
}
