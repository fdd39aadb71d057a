//! Read buffer over segments, which is filled in large aligned pieces.

use crate::storage::segment::Segment;
use crate::storage::transfer::{Lost, ReadResult, read, read_once};
use logforce_device::{AlignedBuf, File, ReadSource};
use logforce_format::{Lsn, MAX_WRITE_UNIT, align_up, planted};
use std::sync::Arc;

/// Bytes per read: small enough to stay in the processor's cache between the copy from the page cache and the
/// checksum, which makes a warm scan fast.
const CHUNK: usize = 512 << 10;

/// A read buffer over one segment at a time.
pub(crate) struct ReadBuffer {
    source: ReadSource,
    /// Bytes per read.
    chunk: usize,
    buf: AlignedBuf,
    /// Start LSN of the segment whose bytes are in `buf`.
    of: Option<Lsn>,
    file: Option<Arc<dyn File>>,
    offset: u64,
    valid: usize,
}

impl ReadBuffer {
    pub(crate) fn new(source: ReadSource) -> Self {
        ReadBuffer {
            source,
            chunk: CHUNK,
            // The buffer is allocated at the first use, since the segments of a small log are shorter than a
            // chunk.
            buf: AlignedBuf::zeroed(0, 65536),
            of: None,
            file: None,
            offset: 0,
            valid: 0,
        }
    }

    /// Limits the read-ahead to `bytes`. While a writer runs, the bytes after them are not written yet.
    pub(crate) fn limit(&mut self, bytes: u64) {
        self.chunk = bytes.clamp(1, CHUNK as u64) as usize;
    }

    /// Drops the buffered bytes.
    pub(crate) fn invalidate(&mut self) {
        self.of = None;
        self.file = None;
        self.valid = 0;
    }

    /// Returns `len` bytes at `offset` of the segment; fewer at the segment's end.
    pub(crate) fn get(
        &mut self,
        segment: &Arc<Segment>,
        offset: u64,
        len: usize,
    ) -> ReadResult<&[u8]> {
        let start = segment.header.start;
        let held = self.of == Some(start)
            && offset >= self.offset
            && offset + len as u64 <= self.offset + self.valid as u64;
        if !held && let Err(lost) = self.fill(segment, offset, len)? {
            return Ok(Err(lost));
        }
        let from = ((offset - self.offset) as usize).min(self.valid);
        let to = (from + len).min(self.valid);
        // The segment's length is known, so a shorter file is damage, not the end of the log.
        let whole = (len as u64).min(segment.header.len.saturating_sub(offset));
        let there = (to - from) as u64;
        let is_short = planted!("short-segment-accepted", false, else there < whole);
        if is_short {
            return Ok(Err(Lost::bytes(format!(
                "the file ends at byte {}, its header says {}",
                self.offset + self.valid as u64,
                segment.header.len
            ))));
        }
        Ok(Ok(&self.buf[from..to]))
    }

    fn fill(&mut self, segment: &Arc<Segment>, offset: u64, len: usize) -> ReadResult<()> {
        if self.of != Some(segment.header.start) || self.file.is_none() {
            self.of = None;
            self.file = match segment.file_or_lost()? {
                Ok(file) => Some(file),
                Err(lost) => return Ok(Err(lost)),
            };
        }
        self.of = None;
        self.valid = 0;
        // Reads past the cache in the largest possible unit, because the device may have changed since the
        // segment was prepared.
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
        // Reads a long batch alone, otherwise a chunk, at most up to the segment's end.
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
            // An unreadable sector must not hide the other sectors of the same chunk.
            Err(_) => self.fill_exactly(segment, &*file, offset, len, unit),
        }
    }

    /// Reads only the requested bytes, in units of `unit` bytes. If that fails as well, reads them in the
    /// segment's write unit.
    fn fill_exactly(
        &mut self,
        segment: &Arc<Segment>,
        file: &dyn File,
        offset: u64,
        len: usize,
        unit: u64,
    ) -> ReadResult<()> {
        let path = segment.path();
        let mut first = None;
        let own = u64::from(segment.header.write_unit);
        // The buffer has space for the first unit. A larger unit would not help.
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
                // The device cannot read such small units: the first error counts.
                Err(_) if first.is_some() => break,
                Err(e) => return Err(e),
            }
        }
        Ok(Err(first.unwrap_or_else(|| Lost::bytes("not read"))))
    }
}
