//! The scan from a boundary to the first batch that does not link.

use crate::error::Result;
use crate::scan::batch::{LinkedHeader, ScanResult, ScanState};
use crate::scan::resume::Resumptions;
use crate::storage::read_buffer::ReadBuffer;
use crate::storage::segments::Segments;
use crate::storage::transfer::Lost;
use logforce_device::ReadSource;
use logforce_format::{BatchHeader, Control, Lsn};

/// The next batch of a scan.
pub(crate) struct Batch<'a> {
    pub(crate) header: BatchHeader,
    pub(crate) payload: &'a [u8],
    /// Exclusive end: where the next batch begins.
    pub(crate) end: Lsn,
    /// It voids what lies between its predecessor and it: a repair, or an opening on a device with larger blocks,
    /// went on in a new segment.
    pub(crate) resumed: bool,
}

/// Reads batches from a boundary on, checks each against its predecessor, and follows where later
/// openings have continued elsewhere.
pub(crate) struct Scan<'s> {
    segments: &'s Segments,
    control: &'s Control,
    resumptions: Resumptions,
    read_buffer: ReadBuffer,
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
            read_buffer: ReadBuffer::new(source),
            state,
        })
    }

    /// The next batch, or why there is none.
    pub(crate) fn next(&mut self) -> ScanResult<Batch<'_>> {
        let resumed = self.resumptions.at(&self.state);
        // The state moves only if the batch there is valid; otherwise the scan stays where it is.
        let before = resumed.unwrap_or(self.state);
        let linked = match LinkedHeader::read(
            &mut self.read_buffer,
            self.segments,
            self.control,
            &before,
        )? {
            Ok(linked) => linked,
            Err(stop) => return Ok(Err(stop)),
        };
        let next = match linked.check(&mut self.read_buffer, before)? {
            Ok(next) => next,
            Err(stop) => return Ok(Err(stop)),
        };
        self.state = next;
        let payload = linked.payload(&mut self.read_buffer)?;
        Ok(payload.map(|payload| Batch {
            payload,
            header: linked.header,
            end: next.at,
            resumed: resumed.is_some(),
        }))
    }

    pub(crate) fn segments(&self) -> &'s Segments {
        self.segments
    }

    /// First batches of segments that cannot be read: with each, an opening may have continued.
    pub(crate) fn unread_starts(&self) -> &[(Lsn, Lost)] {
        self.resumptions.unread()
    }
}
