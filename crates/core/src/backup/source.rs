//! The source of a backup: the segments to copy and the control file of the copy.

use crate::error::{Error, Result};
use crate::read::inspect::Inspector;
use crate::storage::control_file::ControlFile;
use crate::storage::segment::Segment;
use logforce_device::Directory;
use logforce_format::{Anchor, Control};
use std::sync::Arc;

/// The segments of a log, and the control file of its copy.
pub(crate) struct Source {
    pub(crate) dir: Arc<dyn Directory>,
    /// The log as it would be after a close at the anchor.
    pub(crate) control: Control,
    pub(crate) meta: Option<Vec<u8>>,
    /// In order; the last one holds the anchor.
    pub(crate) segments: Vec<Arc<Segment>>,
}

impl Source {
    /// Returns the source of a copy that ends at `anchor`. `control` is the log's current control file.
    pub(crate) fn new(
        dir: Arc<dyn Directory>,
        control: &Control,
        anchor: Anchor,
        meta: Option<Vec<u8>>,
        segments: Vec<Arc<Segment>>,
    ) -> Result<Source> {
        let segments: Vec<_> = segments
            .into_iter()
            .filter(|s| s.header.start >= control.first_segment && s.header.start < anchor.lsn)
            .collect();
        let end = segments.last().map_or(anchor.lsn, |s| s.header.end());
        Ok(Source {
            control: Control {
                prepared_end: end,
                // Nothing is written above the end of the copy.
                write_limit: anchor.lsn,
                anchor,
                clean: true,
                has_meta: meta.is_some(),
                ..control.clone()
            },
            meta,
            segments,
            dir,
        })
    }

    /// Returns the source for a log that this process does not write. If another process is writing it, the
    /// copy contains the records that a stamp has proven durable, else those that the next opening would
    /// recover.
    pub(crate) fn of_inspector(inspector: Inspector) -> Result<Source> {
        let meta = inspector.meta()?;
        let (anchor, segments) = inspector.end_for_copy()?;
        let (dir, control, _) = inspector.files();
        Source::new(dir.clone(), control, anchor, meta, segments.all())
    }

    /// Returns the number of bytes to copy.
    pub(crate) fn bytes(&self) -> u64 {
        self.control.anchor.lsn.since(self.control.first_segment)
    }

    /// Fails if another process has truncated the copied segments or has opened the log again.
    pub(super) fn check_unchanged(&self) -> Result<()> {
        let now = ControlFile::load(&self.dir)?.control;
        let same = now.log_id == self.control.log_id && now.epoch == self.control.epoch;
        if same && now.first_segment <= self.control.first_segment {
            return Ok(());
        }
        Err(Error::Truncated {
            lsn: self.control.front,
            front: now.front,
        })
    }
}
