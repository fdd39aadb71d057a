//! Checks that the bytes of chunks are one log: each batch, and its link to the one before.

use crate::error::{Error, Result};
use crate::scan::batch::ScanState;
use crate::scan::end_of_log::anchor_state;
use logforce_format::frame::Sequence;
use logforce_format::{
    Anchor, BATCH_HEADER_LEN, BatchHeader, BatchKind, Control, Expected, LogId, Lsn,
    SEGMENT_HEADER_LEN, SegmentHeader, planted,
};

/// Checker of chunks ([`LogChunk`](crate::LogChunk)): that each continues the one before, as bytes of one log.
/// It writes nothing; [`Import`](crate::Import) makes a log of them.
#[derive(Debug, Default)]
pub struct ChunkChain {
    /// State at the end; `None` before the first chunk.
    state: Option<ScanState>,
    log_id: LogId,
    segment: Option<SegmentHeader>,
}

/// Chunk that continues the log, up to a position at which a log can end.
pub(super) struct Checked {
    pub(super) anchor: Anchor,
    /// True if that is the end of the chunk.
    pub(super) is_whole: bool,
    pub(super) state: ScanState,
    /// Segments that begin in it.
    pub(super) headers: Vec<SegmentHeader>,
    pub(super) control: Control,
}

impl ChunkChain {
    /// Returns a checker that has seen nothing.
    pub fn new() -> ChunkChain {
        ChunkChain::default()
    }

    /// Returns a checker for what follows a copy. `segment` is the copy's last segment.
    pub(super) fn after(control: &Control, segment: Option<SegmentHeader>) -> ChunkChain {
        ChunkChain {
            state: Some(anchor_state(control)),
            log_id: control.log_id,
            segment,
        }
    }

    /// Returns the exclusive end of what was checked; `None` before the first chunk.
    pub fn position(&self) -> Option<Lsn> {
        self.state.map(|s| s.at)
    }

    /// Checks the chunk `bytes`, which begins at `from`, with its control slot.
    ///
    /// # Errors
    /// [`Error::Chunk`] if it does not continue the log. The path in it is empty.
    pub fn add(&mut self, from: Lsn, bytes: &[u8], control: &[u8]) -> Result<()> {
        let checked = self.check(from, bytes, control, Lsn(u64::MAX));
        let checked = checked.map_err(|(lsn, why)| Error::Chunk {
            path: Default::default(),
            lsn,
            why,
        })?;
        self.advance(&checked);
        Ok(())
    }

    /// Checks a chunk up to the first position at or above `until` at which a log can end.
    pub(super) fn check(
        &self,
        from: Lsn,
        bytes: &[u8],
        control: &[u8],
        until: Lsn,
    ) -> std::result::Result<Checked, Refusal> {
        let control = Control::decode(control)
            .map_err(|reject| (from, format!("its control slot: {reject}")))?;
        let before = match self.state {
            Some(state) if self.log_id != control.log_id => {
                let why = format!("it belongs to log {}, not {}", control.log_id, self.log_id);
                return Err((state.at, why));
            }
            Some(state) if state.at != from => {
                return Err((from, format!("the one before ends at LSN {}", state.at)));
            }
            Some(state) => state,
            None if from == Lsn::ORIGIN => ScanState::at_origin(from),
            None => ScanState {
                prev_crc: (control.first_segment == from).then_some(control.first_prev_crc),
                ..ScanState::unlinked(from)
            },
        };
        let mut state = before;
        let mut reached = None;
        let mut headers: Vec<SegmentHeader> = Vec::new();
        let mut current = self.segment;
        while state.at < from.plus(bytes.len() as u64) {
            let step = Step {
                from,
                bytes,
                log_id: control.log_id,
                current,
            };
            let (next, entered) = step.next(state)?;
            current = entered.last().copied().or(current);
            headers.extend(entered);
            state = next;
            if let Some(anchor) = anchor_of(&state, control.front.min(until)) {
                reached = Some((anchor, state));
                if anchor.lsn >= until {
                    break;
                }
            }
        }
        // Cut at the last position where the log can end: the chunks end there too.
        let Some((anchor, state)) = reached else {
            let why = "it contains no position at which a log can end";
            return Err((from, why.to_owned()));
        };
        // A chunk that was cut between two batches would make a shorter log.
        let is_whole = anchor == control.anchor;
        if !is_whole && anchor.lsn < until && !planted!("chunk-cut-short") {
            let end = control.anchor.lsn;
            return Err((
                anchor.lsn,
                format!("it ends at LSN {}, not at {end}", anchor.lsn),
            ));
        }
        headers.retain(|h| h.start < anchor.lsn);
        Ok(Checked {
            anchor,
            is_whole,
            state,
            headers,
            control,
        })
    }

    /// Goes on behind a chunk that was checked.
    pub(super) fn advance(&mut self, checked: &Checked) {
        self.state = Some(checked.state);
        self.log_id = checked.control.log_id;
        self.segment = checked.headers.last().copied().or(self.segment);
    }
}

/// Returns the anchor at a boundary at or above `least`, if no append is open there.
fn anchor_of(state: &ScanState, least: Lsn) -> Option<Anchor> {
    if state.at < least || state.sequence.open_from().is_some() {
        return None;
    }
    Some(Anchor {
        lsn: state.at,
        prev_crc: state.prev_crc?,
        epoch: state.epoch?,
        last_void: state.last_void?,
    })
}

/// The step from one batch to the next one, in the bytes of a chunk.
struct Step<'b> {
    from: Lsn,
    bytes: &'b [u8],
    log_id: LogId,
    /// Segment of the batch before.
    current: Option<SegmentHeader>,
}

/// Reason why a chunk is refused, with the position.
type Refusal = (Lsn, String);

impl Step<'_> {
    fn at(&self, lsn: Lsn, len: usize) -> std::result::Result<&[u8], Refusal> {
        let start = lsn.since(self.from) as usize;
        let bytes = start
            .checked_add(len)
            .and_then(|end| self.bytes.get(start..end));
        bytes.ok_or_else(|| (lsn, "it ends within a batch or a header".to_owned()))
    }

    /// Returns the state after the next batch, and the segments that begin before it.
    fn next(
        mut self,
        before: ScanState,
    ) -> std::result::Result<(ScanState, Vec<SegmentHeader>), Refusal> {
        let mut entered = Vec::new();
        if self.current.is_none_or(|s| s.end() <= before.at) {
            self.enter(before.at, &mut entered)?;
        }
        match self.batch(before) {
            Ok(next) => Ok((next, entered)),
            Err(refusal) => {
                // A repair, or an opening on a device with larger blocks, has continued the log in a later
                // segment. Zeroes lie in between.
                let resumed = self.resumption(before, &mut entered);
                resumed.map(|next| (next, entered)).ok_or(refusal)
            }
        }
    }

    /// Makes the segment that begins at `at` the current one.
    fn enter(
        &mut self,
        at: Lsn,
        entered: &mut Vec<SegmentHeader>,
    ) -> std::result::Result<(), Refusal> {
        let bytes = self.at(at, SEGMENT_HEADER_LEN)?;
        let header = SegmentHeader::decode(bytes)
            .map_err(|reject| (at, format!("a segment should begin here: {reject}")))?;
        if header.start != at || header.log_id != self.log_id {
            return Err((at, "the segment that begins here is another one".to_owned()));
        }
        self.current = Some(header);
        entered.push(header);
        Ok(())
    }

    /// Returns the state after the batch at `before`, in the current segment.
    fn batch(&self, before: ScanState) -> std::result::Result<ScanState, Refusal> {
        let Some(segment) = &self.current else {
            return Err((before.at, "no segment begins here".to_owned()));
        };
        let lsn = before.at.max(segment.first_batch());
        let refused = |why: String| (lsn, why);
        let header = BatchHeader::decode(self.at(lsn, BATCH_HEADER_LEN)?)
            .map_err(|reject| refused(reject.to_string()))?;
        let own = match header.kind {
            BatchKind::Epoch => header.prev_epoch,
            _ => header.epoch,
        };
        let expected = Expected {
            log_id: self.log_id,
            lsn,
            segment_end: segment.end(),
            write_unit: segment.write_unit,
            epoch: before.epoch.unwrap_or(own),
            prev_crc: before.prev_crc.unwrap_or(header.prev_crc),
        };
        header
            .check_link(&expected)
            .map_err(|reject| refused(reject.to_string()))?;
        let len = header.payload_len as usize;
        let payload = self.at(lsn.plus(BATCH_HEADER_LEN as u64), len)?;
        header
            .check_payload(payload)
            .map_err(|reject| refused(reject.to_string()))?;
        let mut next = before;
        next.follow(&header, payload).map_err(refused)?;
        next.at = header.end(segment.write_unit);
        self.at(lsn, next.at.since(lsn) as usize)?;
        Ok(next)
    }

    /// Returns the state after the batch that resumes the log in a later segment.
    fn resumption(
        &mut self,
        before: ScanState,
        entered: &mut Vec<SegmentHeader>,
    ) -> Option<ScanState> {
        let mut at = self.current?.end();
        loop {
            self.enter(at, entered).ok()?;
            let segment = self.current?;
            let first = BatchHeader::decode(self.at(segment.first_batch(), BATCH_HEADER_LEN).ok()?);
            if let Ok(first) = first {
                let resumes = first.kind == BatchKind::Epoch && first.void_from <= before.at;
                let void = ScanState {
                    at: segment.start,
                    sequence: Sequence::default(),
                    ..before
                };
                return resumes.then(|| self.batch(void).ok()).flatten();
            }
            at = segment.end();
        }
    }
}
