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
    /// How much is read at once.
    chunk: usize,
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
            chunk: CHUNK,
            // Sized at the first use: most segments of a small log are shorter than a chunk.
            buf: AlignedBuf::zeroed(0, 65536),
            of: None,
            file: None,
            offset: 0,
            valid: 0,
        }
    }

    /// Reads no more at once than `bytes`, or what is asked for if that is more: beside a writer,
    /// what lies behind is not there yet.
    pub(crate) fn limit(&mut self, bytes: u64) {
        self.chunk = bytes.clamp(1, CHUNK as u64) as usize;
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
        let chunk = align_up((self.chunk as u64).min(segment.header.len), unit) as usize;
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
                // One unreadable sector must not hide its neighbours in the same chunk.
                Err(_) => return self.fill_exactly(segment, offset, len, unit),
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

    /// Reads no more than is asked for, in units of so many bytes; or, if that fails too, in the
    /// segment's own.
    fn fill_exactly(
        &mut self,
        segment: &Arc<Segment>,
        offset: u64,
        len: usize,
        unit: u64,
    ) -> Result<(), String> {
        let Some(file) = &self.file else {
            return Err("not open".to_owned());
        };
        let from = offset / unit * unit;
        let want = align_up(offset - from + len as u64, unit) as usize;
        match file.read_at(from, &mut self.buf[..want], self.source) {
            Ok(n) => {
                self.offset = from;
                self.valid = n;
                self.of = Some(segment.header.start);
                Ok(())
            }
            Err(e) => {
                let own = u64::from(segment.header.write_unit);
                if own < unit {
                    return self.fill_exactly(segment, offset, len, own);
                }
                Err(format!("read error: {e}"))
            }
        }
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
        let head = Head::read(&mut self.window, self.segments, self.control, &before)?;
        let next = head.check(&mut self.window, before)?;
        self.state = next;
        Ok(Batch {
            payload: head.payload(&mut self.window)?,
            header: head.header,
            end: next.at,
            resumed: resumed.is_some(),
        })
    }
}

/// The header of a batch that follows its predecessor. Its payload was not looked at.
pub(crate) struct Head {
    pub(crate) header: BatchHeader,
    segment: Arc<Segment>,
}

impl Head {
    /// The header of the next batch behind `before`, or why there is none.
    pub(crate) fn read(
        window: &mut Window,
        segments: &Segments,
        control: &Control,
        before: &ScanState,
    ) -> Result<Head, Stop> {
        let at = before.at;
        let stop = |at, seen, found: String| Err(Stop { at, seen, found });
        let Some(segment) = segments.containing(at) else {
            return if at >= control.prepared_end {
                stop(at, Seen::PastEnd, "the end of the last segment".to_owned())
            } else {
                stop(
                    at,
                    Seen::NoSegment,
                    "no segment holds this part of the log".to_owned(),
                )
            };
        };
        if !segment.begins_batch(at) {
            // The control file and the segment's header contradict each other. What is written here
            // would be refused by the device, or, through the cache, tear a batch that is there.
            let unit = segment.header.write_unit;
            let found = format!("no batch can begin here: the segment's write unit is {unit}");
            return stop(at, Seen::Malformed, found);
        }
        let at = at.max(segment.header.first_batch());
        let reject = |r: Reject| rejected(at, r);
        let bytes = window
            .get(&segment, segment.offset(at), BATCH_HEADER_LEN)
            .map_err(|found| unreadable(at, found))?;
        let header = BatchHeader::decode(bytes).map_err(reject)?;
        let own = if header.kind == BatchKind::Epoch {
            header.prev_epoch
        } else {
            header.epoch
        };
        let expected = Expected {
            log_id: control.log_id,
            lsn: at,
            segment_end: segment.header.end(),
            write_unit: segment.header.write_unit,
            epoch: before.epoch.unwrap_or(own),
            prev_crc: before.prev_crc.unwrap_or(header.prev_crc),
        };
        header.check_link(&expected).map_err(reject)?;
        Ok(Head { header, segment })
    }

    /// Where the next batch begins.
    pub(crate) fn end(&self) -> Lsn {
        self.header.end(self.segment.header.write_unit)
    }

    /// The bytes behind the header, checked or not.
    pub(crate) fn payload<'w>(&self, window: &'w mut Window) -> Result<&'w [u8], Stop> {
        let at = self.header.lsn;
        let whole = BATCH_HEADER_LEN + self.header.payload_len as usize;
        let bytes = window
            .get(&self.segment, self.segment.offset(at), whole)
            .map_err(|found| unreadable(at, found))?;
        Ok(bytes.get(BATCH_HEADER_LEN..).unwrap_or(&[]))
    }

    /// Checks the payload; answers the state behind the batch.
    pub(crate) fn check(&self, window: &mut Window, before: ScanState) -> Result<ScanState, Stop> {
        let at = self.header.lsn;
        let mut next = before;
        let payload = self.payload(window)?;
        let checked = self.header.check_payload(payload);
        checked.map_err(|r| rejected(at, r))?;
        next.follow(&self.header, payload).map_err(|found| Stop {
            at,
            seen: Seen::Malformed,
            found,
        })?;
        next.at = self.end();
        self.segment.note_batch(at);
        Ok(next)
    }
}

fn rejected(at: Lsn, r: Reject) -> Stop {
    Stop {
        at,
        seen: Seen::of(r),
        found: r.to_string(),
    }
}

fn unreadable(at: Lsn, found: String) -> Stop {
    Stop {
        at,
        seen: Seen::Unreadable,
        found,
    }
}

impl ScanState {
    /// A state at a batch of which nothing is known but its place.
    pub(crate) fn unlinked(at: Lsn) -> ScanState {
        ScanState {
            at,
            epoch: None,
            prev_crc: None,
            last_void: None,
            sequence: Sequence::unknown(),
        }
    }

    /// The state behind a batch of which the header only was read. It knows no records.
    pub(crate) fn behind(head: &Head) -> ScanState {
        let h = &head.header;
        ScanState {
            at: head.end(),
            epoch: Some(h.epoch),
            prev_crc: Some(h.crc),
            last_void: Some(if h.voids() { h.lsn } else { h.last_void }),
            sequence: Sequence::unknown(),
        }
    }

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
