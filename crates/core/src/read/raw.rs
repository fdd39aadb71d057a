//! Reading of the log's bytes for a replica: whole batches, each checked, at their positions.
//!
//! Between batches a segment may hold remains of earlier contents: the rest of its header's block, or a
//! range that a repair has voided. These bytes mean nothing and are read as zeroes.

use crate::error::{Bytes, Error, Result};
use crate::read::batches::{Batches, Loaded, damaged};
use crate::read::view::View;
use crate::scan::batch::ScanState;
use crate::scan::end_of_log::anchor_state;
use crate::scan::resume::Resumptions;
use logforce_device::ReadSource;
use logforce_format::{Anchor, Control, LogId, Lsn, decide, planted};
use std::io;
use std::sync::Arc;

/// A part of the log as bytes: whole batches, with what a copy needs to become a log that ends there.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LogChunk {
    /// Position of the first byte: the end of the chunk before, or the start of the log's first segment.
    pub from: Lsn,
    /// Exclusive end. The position lies between two batches, and between two atomic appends.
    pub to: Lsn,
    /// Bytes of the log: batches and headers of segments, at their positions.
    pub bytes: Vec<u8>,
    /// Control slot of a copy that ends at `to`, encoded.
    pub control: Vec<u8>,
    /// Metadata of the log at the time of reading, if it was ever set.
    pub meta: Option<Vec<u8>>,
    /// Number of records, parts of records, and voided ranges in the chunk. A chunk without any contains only
    /// stamps and the like; it need not be sent before there is another one.
    pub frames: u64,
}

/// State of a log, or of a copy as its control slot states it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogState {
    /// Identity of the log.
    pub log_id: LogId,
    /// Exclusive end of what is durable.
    pub end: Lsn,
    /// Front of the log.
    pub front: Lsn,
    /// Start of the first segment that a log with this end needs.
    pub first_segment: Lsn,
    /// Random numbers of the openings of the log, the latest first: up to 129. A party that has seen the latest
    /// one knows that this log is the same, and no copy that went another way.
    pub openings: Vec<u64>,
}

impl LogState {
    /// Reads the [control slot](LogChunk::control) of a chunk.
    pub fn decode(control: &[u8]) -> Result<LogState> {
        let control = decode_control(control)?;
        Ok(LogState::of(&control, control.anchor.lsn))
    }

    /// Returns the state of a log that ends at `end`.
    pub(crate) fn of(control: &Control, end: Lsn) -> LogState {
        let latest = std::iter::once(&control.epoch);
        let openings = latest.chain(&control.history).map(|e| e.nonce);
        LogState {
            log_id: control.log_id,
            end,
            front: control.front,
            first_segment: control.first_segment,
            openings: openings.collect(),
        }
    }
}

/// Returns the control slot for several chunks as one: the end is that of the chunk with `last`, and the front
/// that of the chunk with `first`. So a log can be restored to a position within.
pub fn joined_control(first: &[u8], last: &[u8]) -> Result<Vec<u8>> {
    let (first, last) = (decode_control(first)?, decode_control(last)?);
    let joined = Control {
        front: first.front,
        first_segment: first.first_segment,
        first_prev_crc: first.first_prev_crc,
        ..last
    };
    Ok(joined.encode().to_vec())
}

/// Reads the control slot of a chunk.
pub(crate) fn decode_control(control: &[u8]) -> Result<Control> {
    Control::decode(control).map_err(|reject| Error::Option {
        option: "control",
        why: format!("it is not the control slot of a chunk: {reject}"),
    })
}

/// Longest void range that a chunk contains beside batches before it, bytes. With a longer one, the chunk
/// ends before it.
const MAX_VOID_BESIDE: u64 = 64 << 20;
/// Longest void range that a chunk contains, bytes. A repair can void all segments behind its end, more than
/// fits into memory. An object of an archive has 256 MiB.
const MAX_VOID: u64 = 255 << 20;

/// Reads batches in order, and copies them with their positions.
pub(crate) struct RawReader {
    view: Arc<View>,
    batches: Batches,
    /// State at the end of the last chunk.
    state: ScanState,
    /// Resumptions in the void range that was read last, and the end of that range.
    resumptions: Option<(Lsn, Resumptions)>,
}

/// Returns the anchor at a boundary; `None` within an atomic append, or if too little is known.
fn anchor_at(state: &ScanState) -> Option<Anchor> {
    if state.sequence.open_from().is_some() {
        return None;
    }
    Some(Anchor {
        lsn: state.at,
        prev_crc: state.prev_crc?,
        epoch: state.epoch?,
        last_void: state.last_void?,
    })
}

impl RawReader {
    /// Creates a reader that begins with the first segment of the log.
    pub(crate) fn from_first_segment(view: Arc<View>, control: &Control) -> RawReader {
        let at = control.first_segment;
        let state = match at == Lsn::ORIGIN {
            true => ScanState::at_origin(at),
            false => ScanState {
                prev_crc: Some(control.first_prev_crc),
                ..ScanState::unlinked(at)
            },
        };
        RawReader {
            view,
            batches: Batches::large_reads(),
            state,
            resumptions: None,
        }
    }

    /// Creates a reader that continues a copy, given the control slot of its end. `current` is the log's own.
    /// Fails if this log does not contain what was copied.
    pub(crate) fn after(view: Arc<View>, current: &Control, copied: &Control) -> Result<RawReader> {
        let anchor = copied.anchor;
        let lsn = anchor.lsn;
        if copied.log_id != view.log_id {
            return Err(Error::OtherLog {
                path: view.path.clone(),
                wanted: copied.log_id,
                found: view.log_id,
            });
        }
        let front = view.front();
        if lsn < front {
            return Err(Error::Truncated { lsn, front });
        }
        let diverged = Error::Diverged {
            path: view.path.clone(),
            lsn,
            from: front,
        };
        let mut reader = RawReader {
            view: view.clone(),
            batches: Batches::large_reads(),
            state: anchor_state(copied),
            resumptions: None,
        };
        let voided = view.voids().covering(lsn);
        if let Some((from, to)) = voided {
            // A repair may have ended this log below, and have left the batches of the copy readable. If it
            // ended the log above, the copy may end behind records that a truncation there has voided.
            let found = reader.resumptions(from, to, current)?;
            if let Some(cutting) = found.cutting(lsn, current)
                && !planted!("replica-behind-a-repair")
                && !reader.leads_to(cutting, current)?
            {
                return Err(diverged);
            }
        }
        // The checksum of the last batch depends on everything below.
        let link = if lsn == current.first_segment {
            Some(current.first_prev_crc)
        } else if lsn > view.durable() {
            None
        } else {
            let last = Lsn(lsn.0.saturating_sub(1));
            match reader.batches.holding(&view, last) {
                Ok(batch) => batch
                    .filter(|b| b.next.at == lsn)
                    .and_then(|b| b.next.prev_crc),
                Err(Error::Damaged(_) | Error::NotABoundary { .. }) => None,
                Err(e) => return Err(e),
            }
        };
        match link == Some(anchor.prev_crc) {
            true => Ok(reader),
            false => Err(diverged),
        }
    }

    /// Returns the end of the last chunk.
    pub(crate) fn position(&self) -> Lsn {
        self.state.at
    }

    /// Returns true if the batches behind the copy lead to the resumption at `end`.
    fn leads_to(&mut self, end: Lsn, control: &Control) -> Result<bool> {
        let mut state = self.state;
        while state.at < end {
            state = match self.load(state, control) {
                Ok(batch) if batch.header.lsn >= end => return Ok(batch.header.lsn == end),
                Ok(batch) => batch.next,
                Err(Error::Damaged(_)) => return Ok(false),
                Err(e) => return Err(e),
            };
        }
        Ok(false)
    }

    /// Loads the batch that follows `before`: the next one, or the one with which a repair, or an opening on
    /// a device with larger blocks, has continued the log in a later segment. Batches that this one voids may
    /// still be readable.
    fn load(&mut self, before: ScanState, control: &Control) -> Result<Loaded> {
        let covering = self.view.voids().covering(before.at);
        let before = match covering {
            Some((_, to)) => self
                .resumptions(before.at, to, control)?
                .at(&before)
                .unwrap_or(before),
            None => before,
        };
        self.batches.load(&self.view, before)
    }

    /// Returns the resumptions above `at` in the void range that ends at `to`.
    fn resumptions(&mut self, at: Lsn, to: Lsn, control: &Control) -> Result<&Resumptions> {
        let found = match self.resumptions.take() {
            Some((end, found)) if end == to => found,
            _ => {
                let mut segments = self.view.segments().above(at);
                segments.retain(|s| s.header.start < to);
                let found = Resumptions::among(segments, control, ReadSource::Cache)?;
                if let Some((lsn, lost)) = found.unread().first() {
                    let case = decide(lost.seen, true, false);
                    return Err(damaged(&self.view, *lsn, case, lost.found.clone()));
                }
                found
            }
        };
        Ok(&self.resumptions.insert((to, found)).1)
    }

    /// Returns the next chunk below `limit`. It ends at the first possible position at which it has `max`
    /// bytes, or at the last possible one below the limit. `control` is the log's current one. Returns `None`
    /// if there is nothing to read yet.
    pub(crate) fn read(
        &mut self,
        control: &Control,
        meta: Option<Vec<u8>>,
        limit: Lsn,
        max: u64,
    ) -> Result<Option<LogChunk>> {
        let from = self.state.at;
        let (mut state, mut bytes, mut frames) = (self.state, Vec::new(), 0);
        let mut end = None;
        // One allocation for most chunks, which end a little behind `max`.
        bytes.reserve(limit.since(from).min(max.saturating_add(max / 8)) as usize);
        while state.at < limit {
            let batch = self.load(state, control)?;
            let written = from.plus(bytes.len() as u64);
            let void = batch.header.lsn.since(written);
            if void > MAX_VOID_BESIDE && end.is_some() {
                break;
            }
            if void > MAX_VOID.max(max) {
                return Err(self.long_void(written, batch.header.lsn));
            }
            state = batch.next;
            // Without a voided range, a copy still shows the records in it.
            frames += u64::from(batch.header.frames) + u64::from(batch.header.voids());
            self.copy(from, &batch, &mut bytes);
            self.batches.buffer = batch.payload;
            // The first chunk reaches the front at least: no copy can end below it.
            if let Some(anchor) = anchor_at(&state).filter(|a| a.lsn >= control.front) {
                end = Some((anchor, state, frames));
                if anchor.lsn.since(from) >= max {
                    break;
                }
            }
        }
        let Some((anchor, state, frames)) = end else {
            return Ok(None);
        };
        self.state = state;
        let to = anchor.lsn;
        bytes.truncate(to.since(from) as usize);
        let last = self.view.segments().containing(Lsn(to.0 - 1));
        let control = Control {
            prepared_end: last.map_or(to, |s| s.header.end()),
            write_limit: to,
            anchor,
            clean: true,
            has_meta: meta.is_some(),
            ..control.clone()
        };
        Ok(Some(LogChunk {
            from,
            to,
            bytes,
            control: control.encode().to_vec(),
            meta,
            frames,
        }))
    }

    /// Returns the error of a void range that no chunk can contain.
    fn long_void(&self, from: Lsn, to: Lsn) -> Error {
        let why = format!(
            "the log is void from LSN {from} to LSN {to}: {}, and a chunk may contain {}. Truncate the front of \
             the log to LSN {to} or above, and begin a new replica",
            Bytes(to.since(from)),
            Bytes(MAX_VOID),
        );
        Error::io("read a chunk of", &self.view.path)(io::Error::other(why))
    }

    /// Appends a batch to `bytes`, which begin at `from`, and before it the headers of the segments that
    /// begin in between.
    fn copy(&self, from: Lsn, batch: &Loaded, bytes: &mut Vec<u8>) {
        let header = &batch.header;
        if header.lsn.since(from) > bytes.len() as u64 {
            // This batch is the first one of its segment. Segments that a repair has left without batches
            // lie in between.
            let written = from.plus(bytes.len() as u64);
            for between in self.view.segments().all() {
                let start = between.header.start;
                if start >= written && start <= header.lsn {
                    bytes.resize(start.since(from) as usize, 0);
                    bytes.extend_from_slice(&between.header.encode());
                }
            }
        }
        bytes.resize(header.lsn.since(from) as usize, 0);
        bytes.reserve(batch.next.at.since(header.lsn) as usize);
        bytes.extend_from_slice(&header.encode());
        bytes.extend_from_slice(&batch.payload);
        bytes.resize(batch.next.at.since(from) as usize, 0);
    }
}
