use crate::error::{Error, Result};
use crate::read::boundary::{boundary, boundary_at_most, past_void};
use crate::read::reader::Reader;
use crate::read::view::View;
use crate::types::Record;
use logforce_format::Lsn;
use std::sync::Arc;

/// Initial number of bytes of log per read. A longer append is read as a whole.
const CHUNK: u64 = 256 << 10;

/// Reads durable records backwards, the newest first, down to the front. Records that become durable
/// meanwhile are not included.
///
/// It returns the records behind damage before it reports the damage. It ends with [`Error::Truncated`] if
/// `truncate_front` overtakes it. After [`Error::Io`] (no descriptors, no memory) the next call continues
/// at the same position. Every other error ends the reader.
pub struct BackwardReader {
    view: Arc<View>,
    /// LSN at or above which all records were returned, or are in `records`.
    at: Lsn,
    /// Bytes of log per read.
    chunk: u64,
    /// Records that were read and not returned yet. The last one is returned next.
    records: Vec<Record>,
    failed: bool,
}

impl BackwardReader {
    pub(crate) fn from_boundary(view: Arc<View>, from: Lsn) -> Result<BackwardReader> {
        boundary(&view, past_void(&view, from)?)?;
        Ok(BackwardReader {
            view,
            at: from,
            chunk: CHUNK,
            records: Vec::new(),
            failed: false,
        })
    }

    /// Reads records before `at` until there is at least one, or the front is reached.
    fn fill(&mut self) -> Result<()> {
        self.view.check_process()?;
        while self.records.is_empty() {
            let front = self.view.front();
            if self.at <= front {
                return Ok(());
            }
            let from = Lsn(self.at.0.saturating_sub(self.chunk)).max(front);
            match self.read_from(from) {
                // Records behind the damage may be whole. Halves the number of bytes per read, so that it
                // returns all of them before it reports the damage.
                Err(Error::Damaged(_)) if self.chunk > 1 => {
                    self.records.clear();
                    self.chunk /= 2;
                }
                read => self.at = read?,
            }
        }
        Ok(())
    }

    /// Reads the records from the last boundary at or below `from` up to `at`. Returns that boundary.
    fn read_from(&mut self, from: Lsn) -> Result<Lsn> {
        let from = boundary_at_most(&self.view, from)?;
        for record in Reader::from_boundary(self.view.clone(), from)? {
            let record = record?;
            if record.start >= self.at {
                break;
            }
            self.records.push(record);
        }
        Ok(from)
    }
}

impl Iterator for BackwardReader {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Result<Record>> {
        if self.failed {
            return None;
        }
        if self.records.is_empty()
            && let Err(e) = self.fill()
        {
            self.records.clear();
            self.failed = !matches!(e, Error::Io { .. });
            return Some(Err(e));
        }
        self.records.pop().map(Ok)
    }
}

impl std::fmt::Debug for BackwardReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BackwardReader")
            .field("at", &self.at)
            .field("failed", &self.failed)
            .finish_non_exhaustive()
    }
}
