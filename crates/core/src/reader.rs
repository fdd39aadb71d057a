use crate::scan::Window;
use crate::segments::Segment;
use crate::view::View;
use crate::{Damage, Error, Result};
use logforce_device::ReadSource;
use logforce_format::frame::{Frame, Frames};
use logforce_format::{BATCH_HEADER_LEN, BatchHeader, BatchKind, Case, Lsn, MAX_RECORD_LEN};
use std::collections::VecDeque;
use std::sync::Arc;

/// How much is read at once where one record is looked for.
const FEW: u64 = 8 << 10;

/// A durable record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its position.
    pub start: Lsn,
    /// Exclusive end.
    pub end: Lsn,
    /// Its bytes.
    pub data: Vec<u8>,
}

/// Reads durable records in order, never one that is not. At the durable end it answers `None`,
/// and goes on when asked again after more became durable. Does not hold up the writer.
///
/// After [`Error::Io`] (no descriptors, no memory) it goes on where it was when it is asked again;
/// every other error ends it.
pub struct Reader {
    view: Arc<View>,
    batches: Batches,
    /// The next batch, or a place where a segment ends.
    next_batch: Lsn,
    /// Header checksum of the batch that ends at `next_batch`, if that one was read.
    link: Option<u32>,
    /// Frames below are skipped.
    from: Lsn,
    ready: VecDeque<Entry>,
    /// Records of an atomic append that is not at its end yet.
    group: Vec<Entry>,
    group_len: usize,
    failed: bool,
}

/// A batch whose checksums were right.
struct Loaded {
    header: BatchHeader,
    payload: Vec<u8>,
    end: Lsn,
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
    fn new(view: Arc<View>, next_batch: Lsn, from: Lsn) -> Self {
        let batches = Batches {
            window: Window::new(ReadSource::Cache),
        };
        Reader {
            view,
            batches,
            next_batch,
            link: None,
            from,
            ready: VecDeque::new(),
            group: Vec::new(),
            group_len: 0,
            failed: false,
        }
    }

    pub(crate) fn at_record(view: Arc<View>, start: Lsn) -> Result<Entry> {
        check_range(&view, start)?;
        let end = view.durable();
        if start >= end {
            return Err(Error::BeyondEnd { lsn: start, end });
        }
        let mut batches = Batches::few();
        let Some(mut batch) = batches.holding(&view, start)? else {
            return Err(Error::NotABoundary { lsn: start });
        };
        let mut entry: Option<Entry> = None;
        loop {
            for frame in batch.frames() {
                let frame = frame.map_err(|m| malformed(&view, m.0))?;
                if frame.lsn < start {
                    continue;
                }
                let begun = match &mut entry {
                    None if frame.lsn == start && frame.header.first => entry.insert(Entry {
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
            if batch.end >= view.durable() {
                return Err(Error::BeyondEnd {
                    lsn: start,
                    end: view.durable(),
                });
            }
            batch = batches.load(&view, batch.end)?;
        }
    }

    pub(crate) fn from_boundary(view: Arc<View>, from: Lsn) -> Result<Reader> {
        let from = past_void(&view, from)?;
        let at = boundary(&view, from)?;
        Ok(Reader::new(view, at.batch, from))
    }

    fn fill(&mut self) -> Result<bool> {
        loop {
            if !self.ready.is_empty() {
                return Ok(true);
            }
            let front = self.view.front();
            if self.from < front && self.next_batch < front {
                // The front passed this reader.
                return Err(Error::Truncated {
                    lsn: self.next_batch.max(self.from),
                    front,
                });
            }
            let voided = self.view.voids().covering(self.next_batch);
            if let Some((_, to)) = voided {
                self.next_batch = to;
                self.link = None;
                self.drop_group();
            }
            if self.next_batch >= self.view.durable() {
                return Ok(false);
            }
            let segment_start = self.next_batch;
            let Some(first) = first_batch_at(&self.view, segment_start)? else {
                return Ok(false);
            };
            if first >= self.view.durable() {
                return Ok(false);
            }
            let batch = self.batches.load(&self.view, first)?;
            // Whole by itself and yet not the one that was written here: a copied segment, or a
            // write that landed in the wrong place.
            if self.link.is_some_and(|crc| crc != batch.header.prev_crc) {
                let found = "a batch that does not follow the one before it".to_owned();
                return Err(damaged(&self.view, first, Case::Damaged, found));
            }
            self.link = Some(batch.header.crc);
            self.next_batch = batch.end;
            self.take(&batch)?;
        }
    }

    fn drop_group(&mut self) {
        self.group.clear();
        self.group_len = 0;
    }

    /// Sorts the frames of a batch into records.
    fn take(&mut self, batch: &Loaded) -> Result<()> {
        let voids = self.view.voids().clone();
        for frame in batch.frames() {
            let frame = frame.map_err(|m| malformed(&self.view, m.0))?;
            if frame.lsn < self.from {
                continue;
            }
            if voids.covering(frame.lsn).is_some() {
                self.drop_group();
                continue;
            }
            if frame.header.first {
                self.group.push(Entry {
                    start: frame.lsn,
                    end: frame.lsn,
                    data: Vec::new(),
                });
            }
            let Some(entry) = self.group.last_mut() else {
                return Err(malformed(&self.view, frame.lsn));
            };
            self.group_len += frame.data.len();
            if self.group_len > MAX_RECORD_LEN {
                return Err(malformed(&self.view, frame.lsn));
            }
            entry.data.extend_from_slice(frame.data);
            if frame.header.last {
                entry.end = frame.end();
                if !frame.header.joined {
                    self.ready.extend(self.group.drain(..));
                    self.group_len = 0;
                }
            }
        }
        Ok(())
    }
}

impl Iterator for Reader {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Result<Entry>> {
        if self.failed {
            return None;
        }
        if let Err(e) = self.view.check_process() {
            self.failed = true;
            return Some(Err(e));
        }
        match self.fill() {
            Ok(_) => self.ready.pop_front().map(Ok),
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
    let mut batches = Batches::few();
    let ends_there = batches.holding(view, lsn)?.is_some_and(|batch| {
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
        let batch = batches.load(view, first)?;
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
        Case::WrittenWrong,
        "the frame here does not fit".to_owned(),
    )
}

fn damaged(view: &View, lsn: Lsn, case: Case, found: String) -> Error {
    let segment = view.segments().containing(lsn);
    Error::Damaged(Box::new(Damage {
        lsn,
        case,
        path: view.path.clone(),
        file: segment.as_ref().map(|s| s.name()),
        offset: segment.as_ref().map_or(0, |s| s.offset(lsn)),
        found,
        durable_to: view.durable(),
    }))
}

/// What was looked for, or what is there instead. The outer error says nothing about the log.
type Found<T> = Result<std::result::Result<T, String>>;

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

    /// The batch that begins at `lsn` (or, where a segment begins there, its first).
    fn load(&mut self, view: &View, lsn: Lsn) -> Result<Loaded> {
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
                    Case::SegmentLost,
                    "no segment holds it".to_owned(),
                )),
            };
        };
        let lsn = lsn.max(segment.header.first_batch());
        let first = match self.try_load(view, &segment, lsn)? {
            Ok(batch) => return Ok(batch),
            Err(found) => found,
        };
        // What was read ahead may be older than what was written since; and a direct write racing
        // with a cached read can leave an old page in the cache. So: again, then past the cache.
        self.window.invalidate();
        if let Ok(batch) = self.try_load(view, &segment, lsn)? {
            return Ok(batch);
        }
        let mut medium = Batches {
            window: Window::new(ReadSource::Medium),
        };
        match medium.try_load(view, &segment, lsn) {
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
        Err(damaged(view, lsn, Case::Damaged, first))
    }

    fn try_load(&mut self, view: &View, segment: &Arc<Segment>, lsn: Lsn) -> Found<Loaded> {
        let offset = segment.offset(lsn);
        let header = match self.header(view, segment, lsn)? {
            Ok(header) => header,
            Err(found) => return Ok(Err(found)),
        };
        let whole = BATCH_HEADER_LEN + header.payload_len as usize;
        let bytes = match self.window.get(segment, offset, whole)? {
            Ok(bytes) => bytes,
            Err(lost) => return Ok(Err(lost.found)),
        };
        let payload = bytes.get(BATCH_HEADER_LEN..).unwrap_or(&[]);
        if let Err(reject) = header.check_payload(payload) {
            return Ok(Err(reject.to_string()));
        }
        segment.note_batch(lsn);
        Ok(Ok(Loaded {
            header,
            payload: payload.to_vec(),
            end: header.end(segment.header.write_unit),
        }))
    }

    fn header(&mut self, view: &View, segment: &Arc<Segment>, lsn: Lsn) -> Found<BatchHeader> {
        let offset = segment.offset(lsn);
        let bytes = match self.window.get(segment, offset, BATCH_HEADER_LEN)? {
            Ok(bytes) => bytes,
            Err(lost) => return Ok(Err(lost.found)),
        };
        let header = match BatchHeader::decode(bytes) {
            Ok(header) => header,
            Err(reject) => return Ok(Err(reject.to_string())),
        };
        let end = header.end(segment.header.write_unit);
        if header.log_id != view.log_id || header.lsn != lsn || end > segment.header.end() {
            return Ok(Err("a batch of another place".to_owned()));
        }
        Ok(Ok(header))
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
                    Case::SegmentLost,
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
                Err(_) => match self.load(view, at) {
                    Ok(batch) => batch.end,
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
                return self.load(view, at).map(Some);
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
