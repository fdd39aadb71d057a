//! Scan from a boundary to the first batch that does not link to its predecessor.

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
    /// Exclusive end, at which the next batch begins.
    pub(crate) end: Lsn,
    /// True if the batch voids the range between its predecessor and itself: a repair, or an opening on a
    /// device with larger blocks, has continued in a new segment.
    pub(crate) resumed: bool,
}

/// Reads batches from a boundary on, and checks each against its predecessor. If a later opening has
/// continued in another segment, the scan continues there.
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

    /// Returns the next batch, or the reason why there is none.
    pub(crate) fn next(&mut self) -> ScanResult<Batch<'_>> {
        let resumed = self.resumptions.at(&self.state);
        // The scan moves to the resumption only if the batch there is valid.
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

    /// Returns the positions of first batches that cannot be read. An opening may have continued at each.
    pub(crate) fn unread_starts(&self) -> &[(Lsn, Lost)] {
        self.resumptions.unread()
    }
}
