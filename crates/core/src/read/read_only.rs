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
/// It contains the records that were durable when it was opened. While a writer runs, these are the
/// records that stamps prove durable. Otherwise, these are all records that the next opening for
/// writing would recover, including those in the system's cache. To see more, open the log again, or
/// [follow](ReadOnly::follow) it.
pub struct ReadOnly {
    view: Arc<View>,
    meta: Result<Option<Vec<u8>>>,
}

impl ReadOnly {
    /// Opens the log in `path` of `system` for reading. Fails on damage at the end of the log. Damage
    /// further back is reported when it is read.
    #[doc(hidden)]
    pub fn open(system: &dyn System, path: impl AsRef<Path>) -> Result<ReadOnly> {
        let dir = existing_directory(system, path.as_ref())?;
        Inspector::read_stable(&dir, |inspector| {
            let meta = inspector.meta();
            let view = inspector.into_view(system.runtime())?;
            Ok(ReadOnly { view, meta })
        })
    }

    /// Returns the record that starts at `start`.
    pub fn read_at(&self, start: Lsn) -> Result<Record> {
        Reader::at_record(self.view.clone(), start)
    }

    /// Returns a reader of the records from `from` on. `from` is the start or the end of a record, or
    /// [`ReadOnly::front_lsn`].
    ///
    /// The writer may have truncated the log since this was opened. Then this method, or the reader,
    /// returns [`Error::Truncated`](crate::Error::Truncated): open the log again, and start at the new front.
    pub fn read_from(&self, from: Lsn) -> Result<Reader> {
        Reader::from_boundary(self.view.clone(), from)
    }

    /// Returns a reader of the records that end at or below `from`, the newest first. `from` is the start
    /// or the end of a record, or [`ReadOnly::durable_lsn`].
    pub fn read_back_from(&self, from: Lsn) -> Result<BackwardReader> {
        BackwardReader::from_boundary(self.view.clone(), from)
    }

    /// Returns the last record; `None` in a log without records.
    pub fn last(&self) -> Result<Option<Record>> {
        self.read_back_from(self.durable_lsn())?.next().transpose()
    }

    /// Returns the front of the log. Records below it were truncated.
    pub fn front_lsn(&self) -> Lsn {
        self.view.front()
    }

    /// Returns the exclusive end of the records that can be read.
    pub fn durable_lsn(&self) -> Lsn {
        self.view.durable()
    }

    pub(crate) fn view(&self) -> &View {
        &self.view
    }

    /// Returns the metadata as it was when the log was opened; `None` if it was never set. While a
    /// writer runs, the value may not be acknowledged yet. Fails with
    /// [`Error::Damaged`](crate::Error::Damaged) if both slots are damaged.
    pub fn meta(&self) -> Result<Option<Vec<u8>>> {
        self.meta.clone()
    }

    /// Returns the random number that identifies this log.
    pub fn id(&self) -> LogId {
        self.view.log_id
    }
}
