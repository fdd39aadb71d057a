use crate::inspect::Inspector;
use crate::reader::{Reader, Record};
use crate::recovery::existing_directory;
use crate::view::View;
use crate::{Error, RecoveryCase, Result};
use logforce_device::System;
use logforce_format::{LogId, Lsn};
use std::path::Path;
use std::sync::Arc;

/// A log opened for reading: nothing is locked, changed or forced, and another process may be
/// writing it.
///
/// It shows what was durable when it was opened: beside a writer, what stamps prove; else, all that
/// the next opening for writing would recover from the system's cache. To see more, open again, or
/// [follow](ReadOnly::follow).
pub struct ReadOnly {
    view: Arc<View>,
    meta: Result<Option<Vec<u8>>>,
}

impl ReadOnly {
    /// Opens the log in `path` of `system` for reading. Fails on damage at its end; damage further
    /// back is reported by reading it.
    pub fn open(system: &dyn System, path: impl AsRef<Path>) -> Result<ReadOnly> {
        let dir = existing_directory(system, path.as_ref())?;
        Inspector::look(&dir, |inspector| {
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
    pub fn read_from(&self, from: Lsn) -> Result<Reader> {
        Reader::from_boundary(self.view.clone(), from)
    }

    /// Records below are gone.
    pub fn front_lsn(&self) -> Lsn {
        self.view.front()
    }

    /// Exclusive end of what is shown.
    pub fn durable_lsn(&self) -> Lsn {
        self.view.durable()
    }

    pub(crate) fn view(&self) -> &View {
        &self.view
    }

    /// The metadata as it was when the log was opened; `None` if it was never set. Beside a writer
    /// it may be a value that is not acknowledged yet. [`Error::Damaged`] if it cannot be believed.
    pub fn meta(&self) -> Result<Option<Vec<u8>>> {
        self.meta.clone()
    }

    /// Tells this log from every other.
    pub fn id(&self) -> LogId {
        self.view.log_id
    }
}

/// Refuses damage at the end of a log that nobody is writing.
pub(crate) fn check_end(damage: Option<&crate::Damage>, in_use: bool) -> Result<()> {
    match damage {
        // Beside a writer the end is moving; only what stamps prove is shown.
        Some(d) if !in_use || d.case == RecoveryCase::SegmentLost => {
            Err(Error::Damaged(Box::new(d.clone())))
        }
        _ => Ok(()),
    }
}
