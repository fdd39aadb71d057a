//! Step of a scan: the state between two batches, and the check that a batch is the next one.

use crate::error::Result;
use crate::storage::read_buffer::ReadBuffer;
use crate::storage::segment::Segment;
use crate::storage::segments::Segments;
use crate::storage::transfer::Lost;
use logforce_format::{
    BATCH_HEADER_LEN, BatchHeader, BatchKind, Control, Epoch, Expected, LogId, Lsn, NextBatch,
    Reject, frame::Sequence,
};
use std::sync::Arc;

/// State of a scan at a batch boundary.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ScanState {
    /// LSN of the boundary.
    pub(crate) at: Lsn,
    /// Epoch of the batch that ends here; `None` if unknown: any epoch matches.
    pub(crate) epoch: Option<Epoch>,
    /// Header checksum of that batch; `None` if unknown: any checksum matches.
    pub(crate) prev_crc: Option<u32>,
    /// Latest batch so far that voids a range; `None` if unknown.
    pub(crate) last_void: Option<Lsn>,
    pub(crate) sequence: Sequence,
}

/// Result of a scan, or the reason why it stopped. The outer error is one of this process, and proves nothing
/// about the log.
pub(crate) type ScanResult<T> = Result<std::result::Result<T, Stop>>;

/// Reason why a scan stopped.
#[derive(Debug, Clone)]
pub(crate) struct Stop {
    /// LSN at which the next batch would have been.
    pub(crate) at: Lsn,
    pub(crate) seen: NextBatch,
    /// Description of the finding.
    pub(crate) found: String,
}

/// The header of a batch that links to its predecessor. Its payload is not checked.
pub(crate) struct LinkedHeader {
    pub(crate) header: BatchHeader,
    segment: Arc<Segment>,
}

impl LinkedHeader {
    /// Returns the header of the next batch after `before`, or the reason why there is none.
    pub(crate) fn read(
        read_buffer: &mut ReadBuffer,
        segments: &Segments,
        control: &Control,
        before: &ScanState,
    ) -> ScanResult<LinkedHeader> {
        let at = before.at;
        let stop = |at, seen, found: String| Ok(Err(Stop { at, seen, found }));
        let Some(segment) = segments.containing(at) else {
            return if at >= control.prepared_end {
                stop(
                    at,
                    NextBatch::PastEnd,
                    "the end of the last segment".to_owned(),
                )
            } else {
                stop(
                    at,
                    NextBatch::NoSegment,
                    "no segment contains this part of the log".to_owned(),
                )
            };
        };
        LinkedHeader::read_in(read_buffer, segment, control.log_id, before)
    }

    /// Reads a header as [`LinkedHeader::read`] does, from the segment that contains the boundary.
    pub(crate) fn read_in(
        read_buffer: &mut ReadBuffer,
        segment: Arc<Segment>,
        log_id: LogId,
        before: &ScanState,
    ) -> ScanResult<LinkedHeader> {
        let at = before.at;
        if !segment.begins_batch(at) {
            // The control file and the segment's header contradict each other. The device would reject a
            // write here. Through the cache, a write would overwrite a part of a batch.
            let unit = segment.header.write_unit;
            let found = format!("no batch can begin here: the segment's write unit is {unit}");
            let seen = NextBatch::Malformed;
            return Ok(Err(Stop { at, seen, found }));
        }
        let at = at.max(segment.header.first_batch());
        let bytes = match read_buffer.get(&segment, segment.offset(at), BATCH_HEADER_LEN)? {
            Ok(bytes) => bytes,
            Err(lost) => return Ok(Err(unreadable(at, lost))),
        };
        let header = match BatchHeader::decode(bytes) {
            Ok(header) => header,
            Err(reject) => return Ok(Err(rejected(at, reject))),
        };
        let own = if header.kind == BatchKind::Epoch {
            header.prev_epoch
        } else {
            header.epoch
        };
        let expected = Expected {
            log_id,
            lsn: at,
            segment_end: segment.header.end(),
            write_unit: segment.header.write_unit,
            epoch: before.epoch.unwrap_or(own),
            prev_crc: before.prev_crc.unwrap_or(header.prev_crc),
        };
        let linked = header.check_link(&expected);
        Ok(linked
            .map(|()| LinkedHeader { header, segment })
            .map_err(|reject| rejected(at, reject)))
    }

    /// Returns the exclusive end of the batch, at which the next batch begins.
    pub(crate) fn end(&self) -> Lsn {
        self.header.end(self.segment.header.write_unit)
    }

    /// Returns the bytes of the payload, without checking them.
    pub(crate) fn payload<'w>(&self, read_buffer: &'w mut ReadBuffer) -> ScanResult<&'w [u8]> {
        let at = self.header.lsn;
        let whole = BATCH_HEADER_LEN + self.header.payload_len as usize;
        let bytes = read_buffer.get(&self.segment, self.segment.offset(at), whole)?;
        Ok(bytes
            .map(|bytes| bytes.get(BATCH_HEADER_LEN..).unwrap_or(&[]))
            .map_err(|lost| unreadable(at, lost)))
    }

    /// Checks the payload, and returns the state after the batch.
    pub(crate) fn check(
        &self,
        read_buffer: &mut ReadBuffer,
        before: ScanState,
    ) -> ScanResult<ScanState> {
        let at = self.header.lsn;
        let mut next = before;
        let payload = match self.payload(read_buffer)? {
            Ok(payload) => payload,
            Err(stop) => return Ok(Err(stop)),
        };
        if let Err(reject) = self.header.check_payload(payload) {
            return Ok(Err(rejected(at, reject)));
        }
        if let Err(found) = next.follow(&self.header, payload) {
            let seen = NextBatch::Malformed;
            return Ok(Err(Stop { at, seen, found }));
        }
        next.at = self.end();
        self.segment.note_batch(at);
        Ok(Ok(next))
    }
}

fn rejected(at: Lsn, r: Reject) -> Stop {
    Stop {
        at,
        seen: NextBatch::of(r),
        found: r.to_string(),
    }
}

fn unreadable(at: Lsn, lost: Lost) -> Stop {
    let Lost { seen, found } = lost;
    Stop { at, seen, found }
}

impl ScanState {
    /// Returns a state of which only the position is known.
    pub(crate) fn unlinked(at: Lsn) -> ScanState {
        ScanState {
            at,
            epoch: None,
            prev_crc: None,
            last_void: None,
            sequence: Sequence::unknown(),
        }
    }

    /// Returns the state at the beginning of a log.
    pub(crate) fn at_origin(at: Lsn) -> ScanState {
        ScanState {
            at,
            epoch: Some(Epoch::default()),
            prev_crc: Some(0),
            last_void: Some(Lsn::ORIGIN),
            sequence: Sequence::default(),
        }
    }

    /// Returns the state at the end of a void range, where no append is in progress.
    pub(crate) fn after_void(to: Lsn) -> ScanState {
        ScanState {
            sequence: Sequence::default(),
            ..ScanState::unlinked(to)
        }
    }

    /// Returns the state after a batch of which only the header was read. It contains nothing about records.
    pub(crate) fn after(linked: &LinkedHeader) -> ScanState {
        let h = &linked.header;
        ScanState {
            at: linked.end(),
            epoch: Some(h.epoch),
            prev_crc: Some(h.crc),
            last_void: Some(if h.voids() { h.lsn } else { h.last_void }),
            sequence: Sequence::unknown(),
        }
    }

    /// Advances past a batch with a valid link and payload. Returns an error that describes why the contents
    /// of the batch are impossible.
    pub(crate) fn follow(
        &mut self,
        header: &BatchHeader,
        payload: &[u8],
    ) -> std::result::Result<(), String> {
        let base = header.lsn.plus(BATCH_HEADER_LEN as u64);
        if self.last_void.is_some_and(|v| v != header.last_void) {
            return Err("its list of void ranges does not continue its predecessor's".to_owned());
        }
        if header.voids() {
            if self
                .sequence
                .open_from()
                .is_some_and(|open| header.void_from <= open)
            {
                self.sequence.reset();
            }
            self.last_void = Some(header.lsn);
        } else {
            self.last_void = Some(header.last_void);
        }
        match header.kind {
            BatchKind::Data => self
                .sequence
                .push_all(payload, base, header.frames)
                .map_err(|m| format!("the frame at LSN {} is invalid or misplaced", m.0))?,
            BatchKind::Epoch | BatchKind::Void => {
                if let Some(open) = self.sequence.open_from() {
                    return Err(format!(
                        "the record begun at LSN {open} is neither ended nor voided"
                    ));
                }
            }
            BatchKind::Stamp => {}
        }
        self.epoch = Some(header.epoch);
        self.prev_crc = Some(header.crc);
        Ok(())
    }
}
