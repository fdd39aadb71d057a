use crate::Result;
use crate::reads::{Had, Lost, read, read_once};
use crate::search::Resumptions;
use crate::segments::{Segment, Segments};
use logforce_device::{AlignedBuf, File, ReadSource};
use logforce_format::{
    BATCH_HEADER_LEN, BatchHeader, BatchKind, Control, Epoch, Expected, LogId, Lsn, MAX_WRITE_UNIT,
    Reject, Seen, align_up, frame::Sequence, planted,
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

/// What a scan wanted, or why it stopped. The outer error says nothing about the log.
pub(crate) type Step<T> = Result<std::result::Result<T, Stop>>;

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

    /// `len` bytes at `offset` of the segment; fewer where the segment ends.
    pub(crate) fn get(&mut self, segment: &Arc<Segment>, offset: u64, len: usize) -> Had<&[u8]> {
        let start = segment.header.start;
        let held = self.of == Some(start)
            && offset >= self.offset
            && offset + len as u64 <= self.offset + self.valid as u64;
        if !held && let Err(lost) = self.fill(segment, offset, len)? {
            return Ok(Err(lost));
        }
        let from = ((offset - self.offset) as usize).min(self.valid);
        let to = (from + len).min(self.valid);
        // A segment's length is known. Whoever took less for the end of the log would cut there.
        let whole = (len as u64).min(segment.header.len.saturating_sub(offset));
        if ((to - from) as u64) < whole && !planted!("short-segment-accepted") {
            return Ok(Err(Lost::bytes(format!(
                "the file ends at byte {}, its header says {}",
                self.offset + self.valid as u64,
                segment.header.len
            ))));
        }
        Ok(Ok(&self.buf[from..to]))
    }

    fn fill(&mut self, segment: &Arc<Segment>, offset: u64, len: usize) -> Had<()> {
        if self.of != Some(segment.header.start) || self.file.is_none() {
            self.of = None;
            self.file = match segment.look()? {
                Ok(file) => Some(file),
                Err(lost) => return Ok(Err(lost)),
            };
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
        let Some(file) = self.file.clone() else {
            return Ok(Err(Lost::file("not open")));
        };
        let path = segment.path();
        let read = read_once(&*file, &path, from, &mut self.buf[..take], self.source)?;
        match read {
            Ok(n) => {
                self.offset = from;
                self.valid = n;
                self.of = Some(segment.header.start);
                Ok(Ok(()))
            }
            // One unreadable sector must not hide its neighbours in the same chunk.
            Err(_) => self.fill_exactly(segment, &*file, offset, len, unit),
        }
    }

    /// Reads no more than is asked for, in units of so many bytes; or, if that fails too, in the
    /// segment's own.
    fn fill_exactly(
        &mut self,
        segment: &Arc<Segment>,
        file: &dyn File,
        offset: u64,
        len: usize,
        unit: u64,
    ) -> Had<()> {
        let path = segment.path();
        let mut first = None;
        let own = u64::from(segment.header.write_unit);
        // The buffer has room for one in the first of them, and a coarser one tells nothing more.
        for unit in [Some(unit), (own < unit).then_some(own)]
            .into_iter()
            .flatten()
        {
            let from = offset / unit * unit;
            let want = align_up(offset - from + len as u64, unit) as usize;
            let answer = read(file, &path, from, &mut self.buf[..want], self.source);
            match answer {
                Ok(Ok(n)) => {
                    self.offset = from;
                    self.valid = n;
                    self.of = Some(segment.header.start);
                    return Ok(Ok(()));
                }
                Ok(Err(lost)) => first = first.or(Some(lost)),
                // The device takes nothing so small: what it said before counts.
                Err(_) if first.is_some() => break,
                Err(e) => return Err(e),
            }
        }
        Ok(Err(first.unwrap_or_else(|| Lost::bytes("not read"))))
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
    ) -> Step<Head> {
        let at = before.at;
        let stop = |at, seen, found: String| Ok(Err(Stop { at, seen, found }));
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
        Head::read_in(window, segment, control.log_id, before)
    }

    /// As [`Head::read`], in the segment that holds the boundary.
    pub(crate) fn read_in(
        window: &mut Window,
        segment: Arc<Segment>,
        log_id: LogId,
        before: &ScanState,
    ) -> Step<Head> {
        let at = before.at;
        if !segment.begins_batch(at) {
            // The control file and the segment's header contradict each other. What is written here
            // would be refused by the device, or, through the cache, tear a batch that is there.
            let unit = segment.header.write_unit;
            let found = format!("no batch can begin here: the segment's write unit is {unit}");
            let seen = Seen::Malformed;
            return Ok(Err(Stop { at, seen, found }));
        }
        let at = at.max(segment.header.first_batch());
        let bytes = match window.get(&segment, segment.offset(at), BATCH_HEADER_LEN)? {
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
            .map(|()| Head { header, segment })
            .map_err(|reject| rejected(at, reject)))
    }

    /// Where the next batch begins.
    pub(crate) fn end(&self) -> Lsn {
        self.header.end(self.segment.header.write_unit)
    }

    /// The bytes behind the header, checked or not.
    pub(crate) fn payload<'w>(&self, window: &'w mut Window) -> Step<&'w [u8]> {
        let at = self.header.lsn;
        let whole = BATCH_HEADER_LEN + self.header.payload_len as usize;
        let bytes = window.get(&self.segment, self.segment.offset(at), whole)?;
        Ok(bytes
            .map(|bytes| bytes.get(BATCH_HEADER_LEN..).unwrap_or(&[]))
            .map_err(|lost| unreadable(at, lost)))
    }

    /// Checks the payload; answers the state behind the batch.
    pub(crate) fn check(&self, window: &mut Window, before: ScanState) -> Step<ScanState> {
        let at = self.header.lsn;
        let mut next = before;
        let payload = match self.payload(window)? {
            Ok(payload) => payload,
            Err(stop) => return Ok(Err(stop)),
        };
        if let Err(reject) = self.header.check_payload(payload) {
            return Ok(Err(rejected(at, reject)));
        }
        if let Err(found) = next.follow(&self.header, payload) {
            let seen = Seen::Malformed;
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
        seen: Seen::of(r),
        found: r.to_string(),
    }
}

fn unreadable(at: Lsn, lost: Lost) -> Stop {
    let Lost { seen, found } = lost;
    Stop { at, seen, found }
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

    /// The state at the beginning of a log.
    pub(crate) fn virgin(at: Lsn) -> ScanState {
        ScanState {
            at,
            epoch: Some(Epoch::default()),
            prev_crc: Some(0),
            last_void: Some(Lsn::ORIGIN),
            sequence: Sequence::default(),
        }
    }

    /// The state at the end of a void range: no append is open there.
    pub(crate) fn behind_void(to: Lsn) -> ScanState {
        ScanState {
            sequence: Sequence::default(),
            ..ScanState::unlinked(to)
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
    fn follow(&mut self, header: &BatchHeader, payload: &[u8]) -> std::result::Result<(), String> {
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
