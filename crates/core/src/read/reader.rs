use crate::error::{Damage, Error, Result};
use crate::read::records::Records;
use crate::read::view::View;
use crate::scan::batch::{LinkedHeader, ScanResult, ScanState};
use crate::storage::segment::Segment;
use crate::storage::window::Window;
use crate::types::Record;
use logforce_device::ReadSource;
use logforce_format::frame::{Frame, Frames};
use logforce_format::{
    BATCH_HEADER_LEN, BatchHeader, BatchKind, Lsn, MAX_RECORD_LEN, RecoveryCase, decide,
};
use std::sync::Arc;

/// Bytes per read while searching for a single record.
const SMALL_READ: u64 = 8 << 10;

/// Reads durable records in order, and never one that is not durable. At the durable end it returns
/// `None`, and continues when called again after more became durable. It does not block the writer.
///
/// After [`Error::Io`] (no descriptors, no memory) the next call continues where it was; every
/// other error ends it.
pub struct Reader {
    view: Arc<View>,
    batches: Batches,
    /// The position of the next batch, or a segment's end, and what is known of the batch before.
    state: ScanState,
    /// Frames below are skipped.
    from: Lsn,
    records: Records,
    failed: bool,
}

/// A batch with valid checksums and links.
struct Loaded {
    header: BatchHeader,
    payload: Vec<u8>,
    /// The scan state after it.
    next: ScanState,
}

impl Loaded {
    fn frames(&self) -> Frames<'_> {
        let payload = if self.header.kind == BatchKind::Data {
            &self.payload[..]
        } else {
            &[]
        };
        Frames::new(payload, self.header.lsn.plus(BATCH_HEADER_LEN as u64))
    }
}

/// What lies at an LSN.
pub(crate) struct Boundary {
    /// The batch to start reading from.
    pub(crate) batch: Lsn,
    /// An atomic append begins or ends here; otherwise this lies within one.
    pub(crate) between_appends: bool,
}

impl Reader {
    fn new(view: Arc<View>, state: ScanState, from: Lsn) -> Self {
        let batches = Batches {
            window: Window::new(ReadSource::Cache),
        };
        Reader {
            view,
            batches,
            state,
            from,
            records: Records::default(),
            failed: false,
        }
    }

    pub(crate) fn at_record(view: Arc<View>, start: Lsn) -> Result<Record> {
        check_range(&view, start)?;
        let end = view.durable();
        if start >= end {
            return Err(Error::BeyondEnd { lsn: start, end });
        }
        let mut batches = Batches::small_reads();
        let Some(mut batch) = batches.holding(&view, start)? else {
            return Err(Error::NotABoundary { lsn: start });
        };
        let mut record: Option<Record> = None;
        loop {
            for frame in batch.frames() {
                let frame = frame.map_err(|m| malformed(&view, m.0))?;
                if frame.lsn < start {
                    continue;
                }
                let begun = match &mut record {
                    None if frame.lsn == start && frame.header.first => record.insert(Record {
                        start,
                        end: start,
                        data: Vec::new(),
                    }),
                    Some(e) if !frame.header.first => e,
                    _ => return Err(Error::NotABoundary { lsn: start }),
                };
                if begun.data.len() + frame.data.len() > MAX_RECORD_LEN {
                    return Err(malformed(&view, frame.lsn));
                }
                begun.data.extend_from_slice(frame.data);
                if frame.header.last {
                    begun.end = frame.end();
                    if begun.end > view.durable() {
                        return Err(Error::BeyondEnd {
                            lsn: start,
                            end: view.durable(),
                        });
                    }
                    return record.ok_or(Error::NotABoundary { lsn: start });
                }
            }
            if record.is_none() {
                return Err(Error::NotABoundary { lsn: start });
            }
            if batch.next.at >= view.durable() {
                return Err(Error::BeyondEnd {
                    lsn: start,
                    end: view.durable(),
                });
            }
            batch = batches.load(&view, batch.next)?;
        }
    }

    pub(crate) fn from_boundary(view: Arc<View>, from: Lsn) -> Result<Reader> {
        let from = past_void(&view, from)?;
        let at = boundary(&view, from)?;
        let state = match view.segments().containing(at.batch) {
            // The first batch of a log has no predecessor.
            Some(s) if s.header.start == Lsn::ORIGIN && at.batch <= s.header.first_batch() => {
                ScanState::at_origin(at.batch)
            }
            _ => ScanState::unlinked(at.batch),
        };
        Ok(Reader::new(view, state, from))
    }

    fn fill(&mut self) -> Result<bool> {
        loop {
            if !self.records.ready.is_empty() {
                return Ok(true);
            }
            let front = self.view.front();
            if self.from < front && self.state.at < front {
                // The front has passed this reader.
                return Err(Error::Truncated {
                    lsn: self.state.at.max(self.from),
                    front,
                });
            }
            let voided = self.view.voids().covering(self.state.at);
            if let Some((_, to)) = voided {
                self.state = ScanState::after_void(to);
                self.records.drop_begun();
            }
            if self.state.at >= self.view.durable() {
                return Ok(false);
            }
            let Some(first) = first_batch_at(&self.view, self.state.at)? else {
                return Ok(false);
            };
            if first >= self.view.durable() {
                return Ok(false);
            }
            // Checks the link too: a batch with valid checksums may still be the wrong one, from a
            // copied segment or a misdirected write.
            let batch = self.batches.load(&self.view, self.state)?;
            self.state = batch.next;
            let voids = self.view.voids().clone();
            self.records
                .take(&batch.header, &batch.payload, self.from, &voids)
                .map_err(|m| malformed(&self.view, m.0))?;
        }
    }
}

impl Iterator for Reader {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Result<Record>> {
        if self.failed {
            return None;
        }
        if let Err(e) = self.view.check_process() {
            self.failed = true;
            return Some(Err(e));
        }
        match self.fill() {
            Ok(_) => self.records.ready.pop_front().map(Ok),
            Err(e) => {
                // An error of this process may pass: the next call continues where it was.
                self.failed = !matches!(e, Error::Io { .. });
                Some(Err(e))
            }
        }
    }
}

/// Fails if `lsn` lies below the front, in a void range, or beyond the end.
fn check_range(view: &View, lsn: Lsn) -> Result<()> {
    let front = view.front();
    if lsn < front {
        return Err(Error::Truncated { lsn, front });
    }
    let voided = view.voids().covering(lsn);
    if let Some((from, to)) = voided {
        return Err(Error::Voided { lsn, from, to });
    }
    let end = view.durable();
    if lsn > end {
        return Err(Error::BeyondEnd { lsn, end });
    }
    Ok(())
}

/// Where to continue from `lsn` if a void range begins there: at the range's end, if `lsn` is the
/// front or the end of a record that is not voided.
pub(crate) fn past_void(view: &Arc<View>, lsn: Lsn) -> Result<Lsn> {
    let covering = view.voids().covering(lsn);
    let Some((from, to)) = covering else {
        return Ok(lsn);
    };
    if lsn == view.front() {
        return Ok(to);
    }
    if lsn != from || lsn < view.front() {
        return Ok(lsn);
    }
    // The record's last byte, not its end: if it fills its batch, its end is the position of the
    // next batch, which was voided, never written, or lies in a segment's header area.
    let mut batches = Batches::small_reads();
    let ends_there = batches.holding(view, Lsn(lsn.0 - 1))?.is_some_and(|batch| {
        batch
            .frames()
            .any(|f| f.is_ok_and(|f| f.header.last && f.end() == lsn))
    });
    Ok(if ends_there { to } else { lsn })
}

/// Finds the batch from which to read at `lsn`, which must be the start or the end of a durable
/// record, or the front.
pub(crate) fn boundary(view: &Arc<View>, lsn: Lsn) -> Result<Boundary> {
    check_range(view, lsn)?;
    if lsn == view.durable() {
        return Ok(Boundary {
            batch: lsn,
            between_appends: true,
        });
    }
    let not = Error::NotABoundary { lsn };
    let mut batches = Batches::small_reads();
    let Some(batch) = batches.holding(view, lsn)? else {
        // In a segment's header area: its start is where the previous batch ended.
        let first = first_batch_at(view, lsn)?.ok_or(not.clone())?;
        let is_start = view
            .segments()
            .containing(lsn)
            .is_some_and(|s| s.header.start == lsn);
        if first >= view.durable() {
            return if is_start {
                Ok(Boundary {
                    batch: lsn,
                    between_appends: true,
                })
            } else {
                Err(not)
            };
        }
        let batch = batches.load(view, ScanState::unlinked(first))?;
        return if is_start {
            begins(view, &batch, not)
        } else {
            Err(not)
        };
    };
    if lsn == batch.header.lsn {
        return begins(view, &batch, not);
    }
    for frame in batch.frames() {
        let Frame {
            lsn: at, header, ..
        } = frame.map_err(|m| malformed(view, m.0))?;
        if at == lsn {
            return if header.first {
                Ok(Boundary {
                    batch: batch.header.lsn,
                    between_appends: !header.follows,
                })
            } else {
                Err(not)
            };
        }
    }
    match batch.frames().last() {
        Some(Ok(frame)) if frame.end() == lsn && frame.header.last => Ok(Boundary {
            batch: batch.header.lsn,
            between_appends: !frame.header.joined,
        }),
        _ => Err(not),
    }
}

/// The boundary at the start of a batch; fails if the batch continues a record.
fn begins(view: &View, batch: &Loaded, not: Error) -> Result<Boundary> {
    match batch.frames().next() {
        None => Ok(Boundary {
            batch: batch.header.lsn,
            between_appends: true,
        }),
        Some(Ok(f)) if f.header.first => Ok(Boundary {
            batch: batch.header.lsn,
            between_appends: !f.header.follows,
        }),
        Some(Ok(_)) => Err(not),
        Some(Err(m)) => Err(malformed(view, m.0)),
    }
}

/// The first position at or above `lsn` where a batch can begin; `None` past the last segment.
fn first_batch_at(view: &View, lsn: Lsn) -> Result<Option<Lsn>> {
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

fn malformed(view: &View, lsn: Lsn) -> Error {
    damaged(
        view,
        lsn,
        RecoveryCase::WrittenWrong,
        "the frame here does not fit".to_owned(),
    )
}

fn damaged(view: &View, lsn: Lsn, case: RecoveryCase, found: String) -> Error {
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
        truncatable: false,
    }))
}

/// Reads single batches at any position.
struct Batches {
    window: Window,
}

impl Batches {
    /// With small reads, for a single record instead of half a megabyte around it.
    fn small_reads() -> Self {
        let mut window = Window::new(ReadSource::Cache);
        window.limit(SMALL_READ);
        Batches { window }
    }

    /// The batch at `before` (or the first of a segment that begins there), checked against its
    /// predecessor as far as that is known.
    fn load(&mut self, view: &View, before: ScanState) -> Result<Loaded> {
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
        self.window.invalidate();
        if let Ok(batch) = self.try_load(view, &segment, before)? {
            return Ok(batch);
        }
        let mut medium = Batches {
            window: Window::new(ReadSource::Medium),
        };
        match medium.try_load(view, &segment, before) {
            Ok(Ok(batch)) => return Ok(batch),
            Ok(Err(_)) => {}
            // The filesystem cannot read past the cache: the cached bytes count.
            Err(e) if e.is_unsupported() => {}
            Err(e) => return Err(e),
        }
        self.window.invalidate();
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
        let window = &mut self.window;
        let linked = match LinkedHeader::read_in(window, segment.clone(), view.log_id, &before)? {
            Ok(linked) => linked,
            Err(stop) => return Ok(Err(stop)),
        };
        let next = match linked.check(window, before)? {
            Ok(next) => next,
            Err(stop) => return Ok(Err(stop)),
        };
        let payload = linked.payload(window)?;
        Ok(payload.map(|payload| Loaded {
            payload: payload.to_vec(),
            header: linked.header,
            next,
        }))
    }

    /// The header of a batch of which only the position is known.
    fn header(&mut self, view: &View, segment: &Arc<Segment>, lsn: Lsn) -> ScanResult<BatchHeader> {
        let before = ScanState::unlinked(lsn);
        let linked =
            LinkedHeader::read_in(&mut self.window, segment.clone(), view.log_id, &before)?;
        Ok(linked.map(|linked| linked.header))
    }

    /// The batch whose bytes include `lsn`; `None` in a segment's header area.
    fn holding(&mut self, view: &View, lsn: Lsn) -> Result<Option<Loaded>> {
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
