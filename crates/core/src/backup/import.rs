//! Restoring: makes a log of the chunks that a replica has kept.
//!
//! Each batch is checked before it is written: its checksums, and the link to its predecessor. So a chunk
//! that is damaged, missing or of another log cannot become part of the restored log.

use crate::backup::chain::ChunkChain;
use crate::backup::target::{ALIGNMENT, BackupReport, CHUNK, Target, Wanted};
use crate::error::{Error, Result};
use crate::names;
use crate::options::Modes;
use crate::read::raw::decode_control;
use crate::storage::directory::check_path;
use crate::storage::durability::{Why, barrier};
use crate::storage::segment_header::{HeaderRead, read_header};
use crate::storage::transfer::write_part;
use crate::storage::zero_fill::zeroes_help;
use logforce_device::{AlignedBuf, Barrier, File, Guarantee, OpenFile, System};
use logforce_format::{
    Anchor, BATCH_HEADER_LEN, BatchHeader, Control, EPOCH_HISTORY, Epoch, Lsn, SEGMENT_HEADER_LEN,
    SegmentHeader,
};
use std::path::Path;
use std::sync::Arc;

/// Options of an [`Import`].
#[derive(Debug, Clone)]
pub struct ImportOptions {
    wanted: Wanted,
    until: Option<Lsn>,
    resumes: bool,
    opening: Option<u64>,
    front: Option<Lsn>,
}

impl Default for ImportOptions {
    fn default() -> Self {
        ImportOptions {
            wanted: Wanted {
                require: Guarantee::PowerLoss,
                modes: Modes::default(),
            },
            until: None,
            resumes: false,
            opening: None,
            front: None,
        }
    }
}

impl ImportOptions {
    /// Returns the defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the minimum guarantee that a sync must give in the directory. Default:
    /// [`Guarantee::PowerLoss`].
    pub fn require(mut self, guarantee: Guarantee) -> Self {
        self.wanted.require = guarantee;
        self
    }

    /// Sets an LSN at which the restored log ends: at the first position at or above it that lies between
    /// two batches and between two atomic appends. Default: the end of the last chunk.
    pub fn until(mut self, lsn: Lsn) -> Self {
        self.until = Some(lsn);
        self
    }

    /// Goes on with an import that was left at a [checkpoint](Import::checkpoint), if the directory contains
    /// one: see [`Import::position`]. A damaged checkpoint counts as none. Default: false, its files are removed.
    pub fn resume(mut self, resume: bool) -> Self {
        self.resumes = resume;
        self
    }

    /// Sets the front of the restored log, instead of that of the last chunk: a position between two atomic
    /// appends, in the segment with which the first chunk begins or at its end. For an owner whose data is
    /// older than that chunk, such as a page file that a base copy has restored. Not with an import that
    /// [goes on](ImportOptions::resume).
    pub fn front(mut self, lsn: Lsn) -> Self {
        self.front = Some(lsn);
        self
    }

    /// Notes an opening with this random number as the newest one of the restored log. A machine that takes a
    /// log over identifies itself by it later: see [`LogState::openings`](crate::LogState::openings).
    pub fn opening(mut self, nonce: u64) -> Self {
        self.opening = Some(nonce);
        self
    }
}

/// A log that is being made of chunks ([`LogChunk`](crate::LogChunk)). Until [`Import::finish`] returns, the
/// directory is marked as unfinished and cannot be opened; dropping the import removes its files.
pub struct Import<'a> {
    target: Target<'a>,
    options: ImportOptions,
    /// Fills the rest of a segment with zeroes.
    fills: bool,
    /// Check of the chunks, at the end of what was imported.
    chain: ChunkChain,
    /// Last position at or below it at which a log can end.
    end: Option<Anchor>,
    segment: Option<OpenSegment>,
    /// Memory of the writes, kept between them.
    buf: Option<AlignedBuf>,
    /// Headers of all segments, in order.
    segments: Vec<SegmentHeader>,
    /// Link of the first batch to the one before it; `None` if the first chunk does not begin with both.
    first_link: Option<u32>,
    /// Newest control slot whose chunk was imported as a whole.
    whole: Option<Control>,
    /// Control slot of the last chunk.
    last: Option<Control>,
    meta: Option<Vec<u8>>,
    is_complete: bool,
}

/// The segment that is being written.
struct OpenSegment {
    header: SegmentHeader,
    file: Arc<dyn File>,
    name: String,
    /// Number of bytes that were written.
    len: u64,
}

impl<'a> Import<'a> {
    /// Begins to make a log in the directory `to` of `system`, which must be missing or empty, or contain an
    /// import or a backup that was cut short.
    #[doc(hidden)]
    pub fn new(system: &'a dyn System, to: &Path, options: ImportOptions) -> Result<Import<'a>> {
        check_path(to)?;
        let (resumes, modes) = (options.resumes, options.wanted.modes);
        let mut target = Target::open(system, to, modes, resumes)?;
        target.check_guarantee(options.wanted.require)?;
        let facts = target.dir.facts_for_writing();
        let facts = facts.map_err(Error::io("check the filesystem of", target.dir.path()))?;
        let fills = zeroes_help(facts.kind);
        let left = target.checkpoint.as_ref().map(|left| left.control.clone());
        if left.is_none() {
            target.begin()?;
        }
        let mut import = Import {
            target,
            options,
            fills,
            chain: ChunkChain::new(),
            end: None,
            segment: None,
            buf: None,
            segments: Vec::new(),
            first_link: None,
            whole: None,
            last: None,
            meta: None,
            is_complete: false,
        };
        if let Some(left) = left {
            import.resume(left)?;
        }
        Ok(import)
    }

    /// Goes on behind the checkpoint `control`. What was written behind it is written again.
    fn resume(&mut self, control: Control) -> Result<()> {
        let end = control.anchor.lsn;
        for name in self.target.entries()? {
            let Some(start) = names::claimed_start(&name) else {
                continue;
            };
            if start >= end {
                self.target.remove(&name)?;
                continue;
            }
            match read_header(&self.target.dir, &name)? {
                HeaderRead::Whole(header) if header.start == start => self.segments.push(header),
                _ => {
                    return self
                        .refused(start, "the import that was left here is damaged: remove it");
                }
            }
        }
        self.segments.sort_by_key(|s| s.start);
        if let Some(header) = self.segments.last().copied().filter(|s| s.end() > end) {
            let name = names::segment(header.start);
            let file = self.target.dir.open(&name, OpenFile::WRITE);
            let file = file.map_err(Error::io("open for writing", self.target.path(&name)))?;
            let len = end.since(header.start);
            self.segment = Some(OpenSegment {
                header,
                file,
                name,
                len,
            });
            // Remains behind the checkpoint must not look like a part of the log.
            self.fills = true;
        }
        let meta = self
            .target
            .checkpoint
            .as_ref()
            .and_then(|left| left.meta.as_ref());
        self.meta = meta.map(|meta| meta.bytes.clone());
        let header = self.segments.last().copied();
        self.chain = ChunkChain::after(&control, header);
        self.end = Some(control.anchor);
        self.whole = Some(control.clone());
        self.last = Some(control);
        Ok(())
    }

    /// Returns the sequence number of the next control slot. `last` is the control slot of the last chunk.
    fn sequence(&self, last: &Control) -> u64 {
        let saved = self.target.checkpoint.as_ref().map(|left| &left.control);
        saved.unwrap_or(last).sequence + 1
    }

    /// Makes what was imported durable, and lets another import go on from here
    /// ([`ImportOptions::resume`]), also after a crash. From then on, dropping this import leaves the files.
    /// For a standby that follows a replica.
    pub fn checkpoint(&mut self) -> Result<()> {
        let (Some(anchor), Some(last)) = (self.end, self.last.clone()) else {
            return Ok(());
        };
        if let Some(segment) = &self.segment {
            let path = self.target.path(&segment.name);
            barrier(&*segment.file, Barrier::Full, Why::BackupSegment)
                .map_err(Error::io("sync", path))?;
        }
        let end = self.segments.last().map_or(anchor.lsn, |s| s.end());
        let control = Control {
            sequence: self.sequence(&last),
            prepared_end: end,
            write_limit: anchor.lsn,
            anchor,
            has_meta: self.meta.is_some(),
            ..last
        };
        self.target.save(control, self.meta.as_deref())?;
        // Otherwise a standby grows by all that the log has ever had. The slot is durable now: a crash before
        // that would go on from an older one, which needs these segments. A front that was set needs them too.
        if let (Some(whole), Some(last)) = (&self.whole, self.segments.last())
            && self.options.front.is_none()
        {
            self.remove_below(whole.first_segment.min(last.start));
        }
        Ok(())
    }

    /// Removes the segments that the log has truncated. One that cannot be removed is tried again later.
    fn remove_below(&mut self, first: Lsn) {
        let dir = &self.target.dir;
        self.segments
            .retain(|s| s.start >= first || dir.remove(&names::segment(s.start)).is_err());
    }

    /// Returns the exclusive end of what was imported; `None` before the first chunk.
    pub fn position(&self) -> Option<Lsn> {
        self.chain.position()
    }

    /// Sets the end of the restored log, as [`ImportOptions::until`] does. Chunks that were imported before
    /// stay.
    pub fn set_until(&mut self, lsn: Lsn) {
        self.options.until = Some(lsn);
        self.is_complete = self.end.is_some_and(|end| end.lsn >= lsn);
    }

    /// Returns true once [`ImportOptions::until`] is reached. Further chunks are ignored.
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    fn refused<T>(&self, lsn: Lsn, why: impl Into<String>) -> Result<T> {
        Err(Error::Chunk {
            path: self.target.dir.path().to_owned(),
            lsn,
            why: why.into(),
        })
    }

    /// Imports the chunk `bytes`, which begins at `from`: at the end of the chunk before, or, as the first
    /// one, at the start of a segment. `control` and `meta` are those of the chunk. Without bytes, the chunk
    /// before gets another control slot.
    ///
    /// # Errors
    /// [`Error::Chunk`] if the bytes do not continue the log; [`Error::Io`] and [`Error::NoSpace`] if they
    /// cannot be written. The import cannot go on after an error.
    pub fn chunk(
        &mut self,
        from: Lsn,
        bytes: &[u8],
        control: &[u8],
        meta: Option<&[u8]>,
    ) -> Result<()> {
        if self.is_complete {
            return Ok(());
        }
        if bytes.is_empty() {
            return self.newer_control(from, control, meta);
        }
        let until = self.options.until.unwrap_or(Lsn(u64::MAX));
        let checked = self.chain.check(from, bytes, control, until);
        let checked = match checked {
            Ok(checked) => checked,
            Err((lsn, why)) => return self.refused(lsn, why),
        };
        let (anchor, is_whole) = (checked.anchor, checked.is_whole);
        let len = anchor.lsn.since(from) as usize;
        self.write(from, &bytes[..len], &checked.headers)?;
        if self.position().is_none() {
            self.first_link = first_link(bytes);
        }
        self.chain.advance(&checked);
        let control = checked.control;
        self.end = Some(anchor);
        self.is_complete = anchor.lsn >= until;
        if is_whole {
            self.whole = Some(control.clone());
        }
        self.last = Some(control);
        self.meta = meta.map(<[u8]>::to_vec);
        Ok(())
    }

    /// Takes another control slot for the end of what was imported: it may have a higher front.
    fn newer_control(&mut self, at: Lsn, control: &[u8], meta: Option<&[u8]>) -> Result<()> {
        let control = decode_control(control)?;
        let is_same = |last: &Control| last.log_id == control.log_id;
        if self.position() != Some(at)
            || control.anchor.lsn != at
            || !self.last.as_ref().is_some_and(is_same)
        {
            return self.refused(at, "its control slot is that of another end");
        }
        self.whole = Some(control.clone());
        self.last = Some(control);
        self.meta = meta.map(<[u8]>::to_vec);
        Ok(())
    }

    /// Writes verified bytes to the segments that contain them. `entered` are the segments that begin within.
    fn write(&mut self, from: Lsn, bytes: &[u8], entered: &[SegmentHeader]) -> Result<()> {
        let mut entered = entered.iter().copied().peekable();
        let mut at = from;
        let end = from.plus(bytes.len() as u64);
        while at < end {
            if let Some(header) = entered.next_if(|h| h.start == at) {
                self.close_segment()?;
                let name = names::segment(header.start);
                let file = self.target.create_segment(&name, header.len)?;
                self.segments.push(header);
                self.segment = Some(OpenSegment {
                    header,
                    file,
                    name,
                    len: 0,
                });
            }
            let stop = entered.peek().map_or(end, |h| h.start.min(end));
            let Some(segment) = &mut self.segment else {
                return self.refused(at, "no segment begins here");
            };
            let stop = stop.min(segment.header.end());
            if stop <= at {
                return self.refused(at, "no segment begins here");
            }
            let mut piece = &bytes[at.since(from) as usize..stop.since(from) as usize];
            let path = self.target.path(&segment.name);
            while !piece.is_empty() {
                let (head, rest) = piece.split_at(piece.len().min(CHUNK));
                let buf = self.buf.take();
                let mut buf = buf.unwrap_or_else(|| AlignedBuf::zeroed(CHUNK, ALIGNMENT));
                buf[..head.len()].copy_from_slice(head);
                let written = write_part(&*segment.file, segment.len, buf, 0..head.len());
                self.buf = Some(written.map_err(Error::io("write", &path))?);
                let end = segment.len + head.len() as u64;
                // Otherwise the disk would rest until the segment is forced.
                segment.file.begin_write_back(segment.len..end);
                segment.len = end;
                piece = rest;
            }
            at = stop;
        }
        Ok(())
    }

    /// Fills and forces the segment that is being written.
    fn close_segment(&mut self) -> Result<()> {
        let Some(segment) = self.segment.take() else {
            return Ok(());
        };
        let path = self.target.path(&segment.name);
        let rest = segment.len..segment.header.len;
        self.target
            .complete_segment(&*segment.file, &path, rest, self.fills)
    }

    /// Makes the directory a log, durably. It is then as if it had been closed cleanly.
    ///
    /// # Errors
    /// [`Error::Chunk`] without any chunk; [`Error::BeyondEnd`] if [`ImportOptions::until`] was not reached;
    /// [`Error::Truncated`] if the log with that end begins below the first chunk, or its front lies above.
    pub fn finish(mut self) -> Result<BackupReport> {
        let until = self.options.until;
        let (Some(anchor), Some(last)) = (self.end, self.last.take()) else {
            return self.refused(Lsn::ORIGIN, "there is none");
        };
        if let Some(lsn) = until.filter(|until| anchor.lsn < *until) {
            let end = anchor.lsn;
            return Err(Error::BeyondEnd { lsn, end });
        }
        self.close_segment()?;
        // The front of the moment: that of the last chunk is younger if the chunk was cut.
        let at_end = self.whole.take().unwrap_or_else(|| last.clone());
        let Some(tail) = self.segments.last() else {
            return self.refused(anchor.lsn, "no segment begins in it");
        };
        let mut control = Control {
            front: at_end.front,
            first_segment: at_end.first_segment,
            first_prev_crc: at_end.first_prev_crc,
            prepared_end: tail.end(),
            write_limit: anchor.lsn,
            anchor,
            clean: true,
            has_meta: self.meta.is_some(),
            sequence: self.sequence(&last),
            ..last
        };
        if let Some(nonce) = self.options.opening {
            control.history.insert(0, control.epoch);
            control.history.truncate(EPOCH_HISTORY);
            control.epoch = Epoch {
                counter: control.epoch.counter + 1,
                nonce,
            };
        }
        if let Some(front) = self.options.front {
            let first = self.segments.first();
            let (Some(first), Some(link)) = (
                first.filter(|s| s.start <= front && front <= s.end()),
                self.first_link,
            ) else {
                let why = "the first chunk does not begin with the segment that contains it";
                return self.refused(front, why);
            };
            control.front = front;
            control.first_segment = first.start;
            control.first_prev_crc = link;
        }
        let first = self.segments.first().map_or(anchor.lsn, |s| s.start);
        if control.first_segment < first {
            let (lsn, front) = (control.front, first);
            return Err(Error::Truncated { lsn, front });
        }
        if control.front > anchor.lsn {
            let (lsn, front) = (anchor.lsn, control.front);
            return Err(Error::Truncated { lsn, front });
        }
        let (front, first) = (control.front, control.first_segment);
        self.target.finish(control, self.meta.as_deref())?;
        // Otherwise they would take up space until the next truncation. A crash before the call above returns
        // may go on from the checkpoint, which needs them.
        self.remove_below(first);
        Ok(BackupReport {
            front,
            end: anchor.lsn,
            segments: self.segments.len() as u64,
            bytes: anchor.lsn.since(first),
        })
    }
}

/// Returns the link of the first batch of a segment, whose bytes begin here and were checked.
fn first_link(bytes: &[u8]) -> Option<u32> {
    let segment = SegmentHeader::decode(bytes.get(..SEGMENT_HEADER_LEN)?).ok()?;
    let batch = segment.first_batch().since(segment.start) as usize;
    let batch = bytes.get(batch..batch.checked_add(BATCH_HEADER_LEN)?)?;
    BatchHeader::decode(batch)
        .ok()
        .map(|header| header.prev_crc)
}

impl std::fmt::Debug for Import<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Import")
            .field("path", &self.target.dir.path())
            .field("position", &self.position())
            .finish_non_exhaustive()
    }
}
