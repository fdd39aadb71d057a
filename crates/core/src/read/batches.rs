//! Single batches at any position of a log, each checked.

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
    /// The scan state after it.
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

/// The first position at or above `lsn` where a batch can begin; `None` past the last segment.
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
        "the frame here does not fit".to_owned(),
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
    /// A buffer for the next payload.
    pub(super) buffer: Vec<u8>,
}

impl Batches {
    /// For reading on from batch to batch.
    pub(super) fn large_reads() -> Self {
        Batches {
            read_buffer: ReadBuffer::new(ReadSource::Cache),
            buffer: Vec::new(),
        }
    }

    /// With small reads, for a single record instead of half a megabyte around it.
    pub(super) fn small_reads() -> Self {
        let mut read_buffer = ReadBuffer::new(ReadSource::Cache);
        read_buffer.limit(SMALL_READ);
        Batches {
            read_buffer,
            buffer: Vec::new(),
        }
    }

    /// The batch at `before` (or the first of a segment that begins there), checked against its
    /// predecessor as far as that is known.
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
                    "no segment holds it".to_owned(),
                )),
            };
        };
        let first = match self.try_load(view, &segment, before)? {
            Ok(batch) => return Ok(batch),
            Err(stop) => stop,
        };
        // Bytes that were read ahead may be older than a write since, and a direct write racing
        // with a cached read can leave an old page in the cache. So it reads again, then past the
        // cache.
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
            // The filesystem cannot read past the cache: the cached bytes count.
            Err(e) if e.is_unsupported() => {}
            Err(e) => return Err(e),
        }
        self.read_buffer.invalidate();
        view.refresh_front()?;
        // The whole segment, not only the batch, must lie below the front: the first record may lie
        // in a batch that begins below it.
        if segment.header.end() <= view.front() || view.segments().containing(lsn).is_none() {
            // Truncated during the read, and the file may be reused already.
            return Err(Error::Truncated {
                lsn,
                front: view.front(),
            });
        }
        // It lies below the durable LSN, so it had been durable: this is damage.
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

    /// The header of a batch of which only the position is known.
    fn header(&mut self, view: &View, segment: &Arc<Segment>, lsn: Lsn) -> ScanResult<BatchHeader> {
        let before = ScanState::unlinked(lsn);
        let linked =
            LinkedHeader::read_in(&mut self.read_buffer, segment.clone(), view.log_id, &before)?;
        Ok(linked.map(|linked| linked.header))
    }

    /// The batch whose bytes include `lsn`; `None` in a segment's header area.
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
                    "no segment holds it".to_owned(),
                ),
            });
        };
        if lsn < segment.header.first_batch() {
            return Ok(None);
        }
        let mut at = segment.index_below(lsn);
        loop {
            // Goes from header to header, and loads a whole batch only if that fails, or at the
            // end.
            let end = match self.header(view, &segment, at)? {
                Ok(h) => h.end(segment.header.write_unit),
                Err(_) => match self.load(view, ScanState::unlinked(at)) {
                    Ok(batch) => batch.next.at,
                    Err(e @ Error::Io { .. }) => return Err(e),
                    // Damage must not hide the batches after it; below the front it is not even a
                    // loss.
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

    /// The highest batch in `(after, lsn]`, found by reading every write unit.
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
