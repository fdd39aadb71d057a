//! The scan from a boundary to the first position that does not link.

use crate::error::Result;
use crate::scan::batch::{Head, ScanState, Step};
use crate::scan::resume::Resumptions;
use crate::storage::reads::Lost;
use crate::storage::segments::Segments;
use crate::storage::window::Window;
use logforce_device::ReadSource;
use logforce_format::{BatchHeader, Control, Lsn};

/// A batch that is the next one.
pub(crate) struct Batch<'a> {
    pub(crate) header: BatchHeader,
    pub(crate) payload: &'a [u8],
    /// Where the following one begins.
    pub(crate) end: Lsn,
    /// What lies between its predecessor and it was given up.
    pub(crate) resumed: bool,
}

/// Walks batches from a boundary on, checking each against its predecessor, and going on where a
/// later opening did.
pub(crate) struct Scan<'s> {
    segments: &'s Segments,
    control: &'s Control,
    resumptions: Resumptions,
    window: Window,
    pub(crate) state: ScanState,
}

impl<'s> Scan<'s> {
    pub(crate) fn new(
        segments: &'s Segments,
        control: &'s Control,
        source: ReadSource,
        state: ScanState,
    ) -> Result<Self> {
        Ok(Scan {
            segments,
            control,
            resumptions: Resumptions::above(segments, state.at, control, source)?,
            window: Window::new(source),
            state,
        })
    }

    /// The next batch, or why there is none here.
    pub(crate) fn next(&mut self) -> Step<Batch<'_>> {
        let resumed = self.resumptions.at(&self.state);
        // Taken over only when the batch there has passed: else the scan stays where it is.
        let before = resumed.unwrap_or(self.state);
        let head = match Head::read(&mut self.window, self.segments, self.control, &before)? {
            Ok(head) => head,
            Err(stop) => return Ok(Err(stop)),
        };
        let next = match head.check(&mut self.window, before)? {
            Ok(next) => next,
            Err(stop) => return Ok(Err(stop)),
        };
        self.state = next;
        let payload = head.payload(&mut self.window)?;
        Ok(payload.map(|payload| Batch {
            payload,
            header: head.header,
            end: next.at,
            resumed: resumed.is_some(),
        }))
    }

    /// Whether it goes on where an earlier opening did, and not with what lies here.
    pub(crate) fn resumes(&self) -> bool {
        self.resumptions.at(&self.state).is_some()
    }

    pub(crate) fn segments(&self) -> &'s Segments {
        self.segments
    }

    /// The first batches above where it began that the medium does not give back: each may be one
    /// that goes on where an earlier opening gave up.
    pub(crate) fn unread_starts(&self) -> &[(Lsn, Lost)] {
        self.resumptions.unread()
    }
}
