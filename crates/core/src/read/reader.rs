use crate::error::{Damage, Error, Result};
use crate::read::records::Records;
use crate::read::view::View;
use crate::scan::batch::{Head, ScanState, Step};
use crate::storage::segment::Segment;
use crate::storage::window::Window;
use crate::types::Record;
use logforce_device::ReadSource;
use logforce_format::frame::{Frame, Frames};
use logforce_format::{
    BATCH_HEADER_LEN, BatchHeader, BatchKind, Lsn, MAX_RECORD_LEN, RecoveryCase, decide,
};
use std::sync::Arc;

/// How much is read at once where one record is looked for.
const FEW: u64 = 8 << 10;

/// Reads durable records in order, never one that is not. At the durable end it answers `None`,
/// and goes on when asked again after more became durable. Does not hold up the writer.
///
/// After [`Error::Io`] (no descriptors, no memory) it goes on where it was when it is asked again;
/// every other error ends it.
pub struct Reader {
    view: Arc<View>,
    batches: Batches,
    /// The next batch, or a place where a segment ends, and what is known of the one before.
    state: ScanState,
    /// Frames below are skipped.
    from: Lsn,
    records: Records,
    failed: bool,
}

/// A batch whose checksums and links were right.
struct Loaded {
    header: BatchHeader,
    payload: Vec<u8>,
    /// What is known behind it.
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
    /// The batch to start from.
    pub(crate) batch: Lsn,
    /// An atomic append begins here, or one ends here; otherwise it is a record within one.
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
        let mut batches = Batches::few();
        let Some(mut batch) = batches.holding(&view, start)? else {
            return Err(Error::NotABoundary { lsn: start });
        };
        let mut entry: Option<Record> = None;
        loop {
            for frame in batch.frames() {
                let frame = frame.map_err(|m| malformed(&view, m.0))?;
                if frame.lsn < start {
                    continue;
                }
                let begun = match &mut entry {
                    None if frame.lsn == start && frame.header.first => entry.insert(Record {
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
                    return entry.ok_or(Error::NotABoundary { lsn: start });
                }
            }
            if entry.is_none() {
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
            // Nothing comes before the first batch of a log.
            Some(s) if s.header.start == Lsn::ORIGIN && at.batch <= s.header.first_batch() => {
                ScanState::virgin(at.batch)
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
                // The front passed this reader.
                return Err(Error::Truncated {
                    lsn: self.state.at.max(self.from),
                    front,
                });
            }
            let voided = self.view.voids().covering(self.state.at);
            if let Some((_, to)) = voided {
                self.state = ScanState::behind_void(to);
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
            // One may be whole by itself and yet not the one that was written here: a copied
            // segment, or a write that landed in the wrong place.
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
                // What is about this process may pass: then it goes on where it was.
                self.failed = !matches!(e, Error::Io { .. });
                Some(Err(e))
            }
        }
    }
}

/// Below the front, voided, beyond the end.
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

/// Where to go on from `lsn` if a void range begins there: at the range's end, if `lsn` is the
/// front, or the end of a record that was not taken back.
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
    // The record's last byte, not its end: where it fills its batch, that is where the next batch
    // would begin, which was taken back, never written, or lies in a segment's header area.
    let mut batches = Batches::few();
    let ends_there = batches.holding(view, Lsn(lsn.0 - 1))?.is_some_and(|batch| {
        batch
            .frames()
            .any(|f| f.is_ok_and(|f| f.header.last && f.end() == lsn))
    });
    Ok(if ends_there { to } else { lsn })
}

/// Finds the batch from which to read at `lsn`, which must be where a durable record begins or
/// ends, or the front.
pub(crate) fn boundary(view: &Arc<View>, lsn: Lsn) -> Result<Boundary> {
    check_range(view, lsn)?;
    if lsn == view.durable() {
        return Ok(Boundary {
            batch: lsn,
            between_appends: true,
        });
    }
    let not = Error::NotABoundary { lsn };
    let mut batches = Batches::few();
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

/// The boundary at the beginning of a batch: none if a record goes on in it.
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

/// The first place at or above `lsn` where a batch may begin; `None` past the last segment.
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

/// Reads single batches, wherever they lie.
struct Batches {
    window: Window,
}

impl Batches {
    /// For a look at a place: a record, not the half megabyte in which it lies.
    fn few() -> Self {
        let mut window = Window::new(ReadSource::Cache);
        window.limit(FEW);
        Batches { window }
    }

    /// The batch that begins at `before` (or, where a segment begins there, its first), and follows
    /// what comes before as far as that is known.
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
        // What was read ahead may be older than what was written since; and a direct write racing
        // with a cached read can leave an old page in the cache. So: again, then past the cache.
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
            // There is no way past the cache: what it showed counts.
            Err(e) if e.is_unsupported() => {}
            Err(e) => return Err(e),
        }
        self.window.invalidate();
        view.refresh_front()?;
        // Not merely a batch that begins below the front: the first record may lie in it.
        if segment.header.end() <= view.front() || view.segments().containing(lsn).is_none() {
            // Truncated while it was being read, and the file has another life.
            return Err(Error::Truncated {
                lsn,
                front: view.front(),
            });
        }
        // It is below the durable end: what was here had been durable.
        let case = decide(first.seen, true, false);
        Err(damaged(view, first.at, case, first.found))
    }

    fn try_load(&mut self, view: &View, segment: &Arc<Segment>, before: ScanState) -> Step<Loaded> {
        let window = &mut self.window;
        let head = match Head::read_in(window, segment.clone(), view.log_id, &before)? {
            Ok(head) => head,
            Err(stop) => return Ok(Err(stop)),
        };
        let next = match head.check(window, before)? {
            Ok(next) => next,
            Err(stop) => return Ok(Err(stop)),
        };
        let payload = head.payload(window)?;
        Ok(payload.map(|payload| Loaded {
            payload: payload.to_vec(),
            header: head.header,
            next,
        }))
    }

    /// The header of a batch of which nothing is known but its place.
    fn header(&mut self, view: &View, segment: &Arc<Segment>, lsn: Lsn) -> Step<BatchHeader> {
        let before = ScanState::unlinked(lsn);
        let head = Head::read_in(&mut self.window, segment.clone(), view.log_id, &before)?;
        Ok(head.map(|head| head.header))
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
            // Hop from header to header; only where that fails, or at the end, load a whole batch.
            let end = match self.header(view, &segment, at)? {
                Ok(h) => h.end(segment.header.write_unit),
                Err(_) => match self.load(view, ScanState::unlinked(at)) {
                    Ok(batch) => batch.next.at,
                    Err(e @ Error::Io { .. }) => return Err(e),
                    // Damage below must not hide what lies behind it; below the front it is not
                    // even a loss.
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

    /// The highest batch in `(after, lsn]`, found by looking at every write unit.
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
