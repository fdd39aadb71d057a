//! Reading of single batches at any position of a log. Each batch is checked.

use crate::error::{Damage, Error, Result};
use crate::read::view::View;
use crate::scan::batch::{LinkedHeader, ScanResult, ScanState};
use crate::storage::read_buffer::ReadBuffer;
use crate::storage::segment::Segment;
use logforce_device::ReadSource;
use logforce_format::frame::Frames;
use logforce_format::{BATCH_HEADER_LEN, BatchHeader, BatchKind, Lsn, RecoveryCase, decide};
use std::sync::Arc;

/// Bytes per read while searching for a single record.
const SMALL_READ: u64 = 8 << 10;

/// A batch with valid checksums and links.
pub(super) struct Loaded {
    pub(super) header: BatchHeader,
    pub(super) payload: Vec<u8>,
    /// Scan state after the batch.
    pub(super) next: ScanState,
}

impl Loaded {
    pub(super) fn frames(&self) -> Frames<'_> {
        let payload = if self.header.kind == BatchKind::Data {
            &self.payload[..]
        } else {
            &[]
        };
        Frames::new(payload, self.header.lsn.plus(BATCH_HEADER_LEN as u64))
    }
}

/// Returns the first position at or above `lsn` where a batch can begin; `None` past the last segment.
pub(super) fn first_batch_at(view: &View, lsn: Lsn) -> Result<Option<Lsn>> {
    let segment = view.segments().containing(lsn);
    match segment {
        Some(s) => Ok(Some(lsn.max(s.header.first_batch()))),
        None if lsn < view.front() => Err(Error::Truncated {
            lsn,
            front: view.front(),
        }),
        None => Ok(None),
    }
}

pub(super) fn malformed(view: &View, lsn: Lsn) -> Error {
    damaged(
        view,
        lsn,
        RecoveryCase::WrittenWrong,
        "the frame is invalid, or cannot follow the frame before it".to_owned(),
    )
}

pub(super) fn damaged(view: &View, lsn: Lsn, case: RecoveryCase, found: String) -> Error {
    let segment = view.segments().containing(lsn);
    Error::Damaged(Box::new(Damage {
        lsn,
        case,
        path: view.path.clone(),
        file: segment.as_ref().map(|s| s.name()),
        offset: segment.as_ref().map_or(0, |s| s.offset(lsn)),
        found,
        durable_to: view.durable(),
        in_reading: true,
        repairable: false,
        needed_from: None,
    }))
}

/// Reads single batches at any position.
pub(super) struct Batches {
    read_buffer: ReadBuffer,
    /// Buffer for the next payload.
    pub(super) buffer: Vec<u8>,
}

impl Batches {
    /// Creates a reader with large reads, for reading batch after batch.
    pub(super) fn large_reads() -> Self {
        Batches {
            read_buffer: ReadBuffer::new(ReadSource::Cache),
            buffer: Vec::new(),
        }
    }

    /// Creates a reader with small reads, for a single record. A large read would read half a megabyte
    /// around it.
    pub(super) fn small_reads() -> Self {
        let mut read_buffer = ReadBuffer::new(ReadSource::Cache);
        read_buffer.limit(SMALL_READ);
        Batches {
            read_buffer,
            buffer: Vec::new(),
        }
    }

    /// Returns the batch at `before.at`, or the first batch of a segment that begins there. Checks it
    /// against its predecessor, as far as that is known.
    pub(super) fn load(&mut self, view: &View, before: ScanState) -> Result<Loaded> {
        let lsn = before.at;
        let segment = view.segments().containing(lsn);
        let Some(segment) = segment else {
            return match first_batch_at(view, lsn)? {
                _ if lsn < view.front() => Err(Error::Truncated {
                    lsn,
                    front: view.front(),
                }),
                _ => Err(damaged(
                    view,
                    lsn,
                    RecoveryCase::SegmentLost,
                    "no segment contains this LSN".to_owned(),
                )),
            };
        };
        let first = match self.try_load(view, &segment, before)? {
            Ok(batch) => return Ok(batch),
            Err(stop) => stop,
        };
        // Reads again, then past the cache. Bytes that were read ahead may be older than a later write,
        // and a direct write that races with a cached read can leave an old page in the cache.
        self.read_buffer.invalidate();
        if let Ok(batch) = self.try_load(view, &segment, before)? {
            return Ok(batch);
        }
        let mut medium = Batches {
            read_buffer: ReadBuffer::new(ReadSource::Medium),
            buffer: Vec::new(),
        };
        match medium.try_load(view, &segment, before) {
            Ok(Ok(batch)) => return Ok(batch),
            Ok(Err(_)) => {}
            // The filesystem cannot read past the cache: the result of the cached read stands.
            Err(e) if e.is_unsupported() => {}
            Err(e) => return Err(e),
        }
        self.read_buffer.invalidate();
        view.refresh_front()?;
        // The whole segment must lie below the front, not only the start of the batch: the first record
        // of the log may lie in a batch that begins below the front.
        if segment.header.end() <= view.front() || view.segments().containing(lsn).is_none() {
            // The segment was truncated during the read. Its file may already be reused.
            return Err(Error::Truncated {
                lsn,
                front: view.front(),
            });
        }
        // The batch lies below the durable LSN, so it was durable before: this is damage.
        let case = decide(first.seen, true, false);
        Err(damaged(view, first.at, case, first.found))
    }

    fn try_load(
        &mut self,
        view: &View,
        segment: &Arc<Segment>,
        before: ScanState,
    ) -> ScanResult<Loaded> {
        let read_buffer = &mut self.read_buffer;
        let linked =
            match LinkedHeader::read_in(read_buffer, segment.clone(), view.log_id, &before)? {
                Ok(linked) => linked,
                Err(stop) => return Ok(Err(stop)),
            };
        let next = match linked.check(read_buffer, before)? {
            Ok(next) => next,
            Err(stop) => return Ok(Err(stop)),
        };
        let mut own = std::mem::take(&mut self.buffer);
        let payload = linked.payload(read_buffer)?;
        Ok(payload.map(|payload| {
            own.clear();
            own.extend_from_slice(payload);
            Loaded {
                payload: own,
                header: linked.header,
                next,
            }
        }))
    }

    /// Returns the header of the batch at `lsn`, without a check against its predecessor.
    fn header(&mut self, view: &View, segment: &Arc<Segment>, lsn: Lsn) -> ScanResult<BatchHeader> {
        let before = ScanState::unlinked(lsn);
        let linked =
            LinkedHeader::read_in(&mut self.read_buffer, segment.clone(), view.log_id, &before)?;
        Ok(linked.map(|linked| linked.header))
    }

    /// Returns the batch whose bytes include `lsn`; `None` in a segment's header area.
    pub(super) fn holding(&mut self, view: &View, lsn: Lsn) -> Result<Option<Loaded>> {
        let segment = view.segments().containing(lsn);
        let Some(segment) = segment else {
            return Err(match lsn < view.front() {
                true => Error::Truncated {
                    lsn,
                    front: view.front(),
                },
                false => damaged(
                    view,
                    lsn,
                    RecoveryCase::SegmentLost,
                    "no segment contains this LSN".to_owned(),
                ),
            });
        };
        if lsn < segment.header.first_batch() {
            return Ok(None);
        }
        let mut at = segment.index_below(lsn);
        loop {
            // Reads header after header. Loads a whole batch only if a header cannot be read, or at the
            // end of the search.
            let end = match self.header(view, &segment, at)? {
                Ok(h) => h.end(segment.header.write_unit),
                Err(_) => match self.load(view, ScanState::unlinked(at)) {
                    Ok(batch) => batch.next.at,
                    Err(e @ Error::Io { .. }) => return Err(e),
                    // Damage must not hide the batches after it. If it lies below the front, nothing is
                    // lost.
                    Err(e) => match self.nearest_below(view, &segment, at, lsn)? {
                        Some(behind) => {
                            at = behind;
                            continue;
                        }
                        None => return Err(e),
                    },
                },
            };
            if lsn < end {
                return self.load(view, ScanState::unlinked(at)).map(Some);
            }
            segment.note_batch(at);
            if end >= view.durable() || end >= segment.header.end() {
                return Err(Error::NotABoundary { lsn });
            }
            at = end;
        }
    }

    /// Returns the start of the highest batch in `(after, lsn]`. Tries every write unit.
    fn nearest_below(
        &mut self,
        view: &View,
        segment: &Arc<Segment>,
        after: Lsn,
        lsn: Lsn,
    ) -> Result<Option<Lsn>> {
        let unit = u64::from(segment.header.write_unit);
        let mut at = segment.header.start.plus(segment.offset(lsn) / unit * unit);
        while at > after {
            if self.header(view, segment, at)?.is_ok() {
                return Ok(Some(at));
            }
            at = Lsn(at.0 - unit);
        }
        Ok(None)
    }
}
