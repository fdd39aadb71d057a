use crate::search::Resumptions;
use crate::segments::{Segment, Segments};
use logforce_device::{AlignedBuf, File, ReadSource};
use logforce_format::{
    BATCH_HEADER_LEN, BatchHeader, BatchKind, Control, Epoch, Expected, Lsn, MAX_WRITE_UNIT,
    Reject, Seen, align_up, frame::Sequence,
};
use std::sync::Arc;

/// How much is read at once: small enough to stay in the processor's cache between the copy out of
/// the page cache and the checksum, which is what makes a warm scan fast.
const CHUNK: usize = 512 << 10;

/// What a scan knows at a batch boundary.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ScanState {
    /// The boundary.
    pub(crate) at: Lsn,
    /// Epoch of the batch that ends here; `None`: not known, any will do.
    pub(crate) epoch: Option<Epoch>,
    /// Header checksum of that batch; `None`: not known.
    pub(crate) prev_crc: Option<u32>,
    /// The latest voiding batch so far; `None`: not known.
    pub(crate) last_void: Option<Lsn>,
    pub(crate) sequence: Sequence,
}

/// Why a scan stopped.
#[derive(Debug, Clone)]
pub(crate) struct Stop {
    /// Where the next batch would have been.
    pub(crate) at: Lsn,
    pub(crate) seen: Seen,
    /// In words.
    pub(crate) found: String,
}

/// A batch that is the next one.
pub(crate) struct Batch<'a> {
    pub(crate) header: BatchHeader,
    pub(crate) payload: &'a [u8],
    /// Where the following one begins.
    pub(crate) end: Lsn,
    /// What lies between its predecessor and it was given up.
    pub(crate) resumed: bool,
}

/// Bytes of one segment, read in large aligned pieces.
pub(crate) struct Window {
    source: ReadSource,
    buf: AlignedBuf,
    /// Start LSN of the segment that `buf` holds a piece of.
    of: Option<Lsn>,
    file: Option<Arc<dyn File>>,
    offset: u64,
    valid: usize,
}

impl Window {
    pub(crate) fn new(source: ReadSource) -> Self {
        Window {
            source,
            // Sized at the first use: most segments of a small log are shorter than a chunk.
            buf: AlignedBuf::zeroed(0, 65536),
            of: None,
            file: None,
            offset: 0,
            valid: 0,
        }
    }

    /// Forgets what was read.
    pub(crate) fn invalidate(&mut self) {
        self.of = None;
        self.file = None;
        self.valid = 0;
    }

    /// `len` bytes at `offset` of the segment; fewer where the file ends.
    pub(crate) fn get(
        &mut self,
        segment: &Arc<Segment>,
        offset: u64,
        len: usize,
    ) -> Result<&[u8], String> {
        let start = segment.header.start;
        let held = self.of == Some(start)
            && offset >= self.offset
            && offset + len as u64 <= self.offset + self.valid as u64;
        if !held {
            self.fill(segment, offset, len)?;
        }
        let from = ((offset - self.offset) as usize).min(self.valid);
        Ok(&self.buf[from..(from + len).min(self.valid)])
    }

    fn fill(&mut self, segment: &Arc<Segment>, offset: u64, len: usize) -> Result<(), String> {
        if self.of != Some(segment.header.start) || self.file.is_none() {
            self.file = Some(segment.file().map_err(|e| e.to_string())?);
        }
        self.of = None;
        self.valid = 0;
        // Past the cache in the coarsest unit there is: the device may have changed since the
        // segment was made.
        let unit = match self.source {
            ReadSource::Cache => 4096,
            ReadSource::Medium => u64::from(MAX_WRITE_UNIT),
        };
        let from = offset / unit * unit;
        let want = align_up(offset - from + len as u64, unit) as usize;
        let chunk = align_up((CHUNK as u64).min(segment.header.len), unit) as usize;
        if want.max(chunk) > self.buf.len() {
            self.buf = AlignedBuf::zeroed(want.max(chunk), 65536);
        }
        // A long batch is read by itself; otherwise a chunk, up to the segment's end.
        let room = align_up(segment.header.len.saturating_sub(from), unit);
        let take = (want.max(chunk) as u64).min(room) as usize;
        let Some(file) = &self.file else {
            return Err("not open".to_owned());
        };
        let mut read = 0;
        while read < take {
            match file.read_at(from + read as u64, &mut self.buf[read..take], self.source) {
                Ok(0) => break,
                Ok(n) => read += n,
                // A read that fails in the middle still serves what lies before it.
                Err(_) if read as u64 >= offset - from + len as u64 => break,
                Err(e) => {
                    // One unreadable sector must not hide its neighbours in the same chunk.
                    if take > want && read == 0 {
                        return self.fill_exactly(segment, from, want);
                    }
                    return Err(format!("read error: {e}"));
                }
            }
            if self.source == ReadSource::Medium && !(read as u64).is_multiple_of(unit) {
                break;
            }
        }
        self.offset = from;
        self.valid = read;
        self.of = Some(segment.header.start);
        Ok(())
    }

    fn fill_exactly(
        &mut self,
        segment: &Arc<Segment>,
        from: u64,
        want: usize,
    ) -> Result<(), String> {
        let Some(file) = &self.file else {
            return Err("not open".to_owned());
        };
        let n = file
            .read_at(from, &mut self.buf[..want], self.source)
            .map_err(|e| format!("read error: {e}"))?;
        self.offset = from;
        self.valid = n;
        self.of = Some(segment.header.start);
        Ok(())
    }
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
    ) -> Self {
        Scan {
            segments,
            control,
            resumptions: Resumptions::above(segments, state.at, control, source),
            window: Window::new(source),
            state,
        }
    }

    /// The next batch, or why there is none here.
    pub(crate) fn next(&mut self) -> Result<Batch<'_>, Stop> {
        let resumed = self.resumptions.at(&self.state);
        // Taken over only when the batch there has passed: else the scan stays where it is.
        let before = resumed.unwrap_or(self.state);
        let at = before.at;
        let stop = |at, seen, found: String| Err(Stop { at, seen, found });
        let Some(segment) = self.segments.containing(at) else {
            return if at >= self.control.prepared_end {
                stop(at, Seen::PastEnd, "the end of the last segment".to_owned())
            } else {
                stop(
                    at,
                    Seen::NoSegment,
                    "no segment holds this part of the log".to_owned(),
                )
            };
        };
        let at = at.max(segment.header.first_batch());
        let unit = segment.header.write_unit;
        let offset = segment.offset(at);
        let reject = |r: Reject| Stop {
            at,
            seen: Seen::of(r),
            found: r.to_string(),
        };
        let unreadable = |found| Stop {
            at,
            seen: Seen::Unreadable,
            found,
        };
        let header = {
            let bytes = self
                .window
                .get(&segment, offset, BATCH_HEADER_LEN)
                .map_err(unreadable)?;
            BatchHeader::decode(bytes).map_err(reject)?
        };
        let own = if header.kind == BatchKind::Epoch {
            header.prev_epoch
        } else {
            header.epoch
        };
        let expected = Expected {
            log_id: self.control.log_id,
            lsn: at,
            segment_end: segment.header.end(),
            write_unit: unit,
            epoch: before.epoch.unwrap_or(own),
            prev_crc: before.prev_crc.unwrap_or(header.prev_crc),
        };
        header.check_link(&expected).map_err(reject)?;
        let whole = BATCH_HEADER_LEN + header.payload_len as usize;
        let mut next = before;
        {
            let bytes = self
                .window
                .get(&segment, offset, whole)
                .map_err(unreadable)?;
            let payload = bytes.get(BATCH_HEADER_LEN..).unwrap_or(&[]);
            header.check_payload(payload).map_err(reject)?;
            next.follow(&header, payload).map_err(|why| Stop {
                at,
                seen: Seen::Malformed,
                found: why,
            })?;
        }
        next.at = header.end(unit);
        self.state = next;
        segment.note_batch(at);
        let bytes = self
            .window
            .get(&segment, offset, whole)
            .map_err(unreadable)?;
        Ok(Batch {
            header,
            payload: bytes.get(BATCH_HEADER_LEN..).unwrap_or(&[]),
            end: next.at,
            resumed: resumed.is_some(),
        })
    }
}

impl ScanState {
    /// The state behind a batch whose link and payload were checked. `Err` says why its contents
    /// cannot be.
    fn follow(&mut self, header: &BatchHeader, payload: &[u8]) -> Result<(), String> {
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
                .map_err(|m| format!("the frame at LSN {} does not fit", m.0))?,
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
