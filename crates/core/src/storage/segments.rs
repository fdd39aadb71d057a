//! Set of the segments of a log.

use crate::environment::fd_budget::OpenFiles;
use crate::error::{Error, Result};
use crate::names;
use crate::storage::segment::{Handles, Segment};
use crate::storage::segment_header::{HeaderRead, read_header};
use logforce_device::Directory;
use logforce_format::{LogId, Lsn, SegmentHeader};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// The segments of a log, by start.
#[derive(Default)]
pub(crate) struct Segments {
    by_start: BTreeMap<Lsn, Arc<Segment>>,
    handles: Arc<Handles>,
    /// Rejected files with names of segments: name and reason. They are kept because a header that could not
    /// be read when the decision was made may be readable later.
    pub(crate) rejected: Vec<(String, String)>,
}

impl Segments {
    pub(crate) fn insert(&mut self, segment: Arc<Segment>) {
        segment.count_among(&self.handles);
        self.by_start.insert(segment.header.start, segment);
    }

    /// Adds the segment of the log `id` that begins at `at`, if the file with its name contains it, and it
    /// overlaps no other segment. Returns true if it was added.
    pub(crate) fn add_by_name(
        &mut self,
        dir: &Arc<dyn Directory>,
        id: LogId,
        at: Lsn,
    ) -> Result<bool> {
        let name = names::segment(at);
        let header = match read_header(dir, &name) {
            Ok(HeaderRead::Whole(h)) if h.log_id == id && h.start == at => h,
            Ok(_) | Err(Error::NewerFormat { .. }) => return Ok(false),
            Err(e) if e.is_not_found() => return Ok(false),
            Err(e) => return Err(e),
        };
        let is_free = self.overlapping(&header).is_none();
        if is_free {
            self.insert(Arc::new(Segment::new(dir.clone(), name, header)));
        }
        Ok(is_free)
    }

    /// Rejects the segments for which `why` returns a reason.
    pub(crate) fn reject(&mut self, why: impl Fn(&Segment) -> Option<String>) {
        let rejected = &mut self.rejected;
        self.by_start.retain(|_, segment| {
            let why = why(segment);
            let is_kept = why.is_none();
            rejected.extend(why.map(|why| (segment.name(), why)));
            is_kept
        });
    }

    /// Reports to an environment when files are opened.
    pub(crate) fn report_to(&self, files: Arc<OpenFiles>) {
        self.handles.report_to(files);
    }

    /// Returns the segment that contains `lsn`.
    pub(crate) fn containing(&self, lsn: Lsn) -> Option<Arc<Segment>> {
        let (_, s) = self.by_start.range(..=lsn).next_back()?;
        s.header.contains(lsn).then(|| s.clone())
    }

    /// Returns a segment that overlaps one with this header.
    pub(crate) fn overlapping(&self, header: &SegmentHeader) -> Option<Arc<Segment>> {
        let (_, last) = self.by_start.range(..header.end()).next_back()?;
        (last.header.end() > header.start).then(|| last.clone())
    }

    /// Returns true if a segment in this range has blocks that may never have been written.
    pub(crate) fn has_unwritten(&self, range: Range<Lsn>) -> bool {
        let below = self.by_start.range(..range.end);
        below
            .rev()
            .take_while(|(_, s)| s.header.end() > range.start)
            .any(|(_, s)| s.is_unwritten())
    }

    /// Returns all segments, in order.
    pub(crate) fn all(&self) -> Vec<Arc<Segment>> {
        self.by_start.values().cloned().collect()
    }

    /// Returns the total size of all segments in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.by_start.values().map(|s| s.header.len).sum()
    }

    /// Returns the segments that begin above `lsn`, in order.
    pub(crate) fn above(&self, lsn: Lsn) -> Vec<Arc<Segment>> {
        use std::ops::Bound::{Excluded, Unbounded};
        self.by_start
            .range((Excluded(lsn), Unbounded))
            .map(|(_, s)| s.clone())
            .collect()
    }

    /// Removes and returns the segments that end at or below `lsn`.
    pub(crate) fn take_below(&mut self, lsn: Lsn) -> Vec<Arc<Segment>> {
        let mut gone = Vec::new();
        while let Some(first) = self.by_start.first_entry() {
            if first.get().header.end() > lsn {
                break;
            }
            gone.push(first.remove());
        }
        gone
    }

    /// Removes and returns the segments that begin at or above `lsn`.
    pub(crate) fn take_from(&mut self, lsn: Lsn) -> Vec<Arc<Segment>> {
        self.by_start.split_off(&lsn).into_values().collect()
    }
}
