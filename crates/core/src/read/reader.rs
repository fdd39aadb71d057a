use crate::error::{Error, Result};
use crate::read::batches::{Batches, first_batch_at, malformed};
use crate::read::boundary::{boundary, check_range, past_void};
use crate::read::history::{History, Position};
use crate::read::records::Records;
use crate::read::view::View;
use crate::scan::batch::ScanState;
use crate::types::{Record, RecordRef};
use logforce_format::{Lsn, MAX_RECORD_LEN, planted};
use std::sync::Arc;

/// Reads durable records in order, and never returns a record that is not durable. At the durable end it
/// returns `None`. It continues when it is called again after more records became durable. It does not
/// block the writer.
///
/// After [`Error::Io`] (no descriptors, no memory) the next call continues at the same position. Every
/// other error ends the reader.
pub struct Reader {
    view: Arc<View>,
    batches: Batches,
    /// Position of the next batch, or the end of a segment, with the known facts of the batch before.
    state: ScanState,
    /// LSN below which frames are skipped.
    from: Lsn,
    records: Records,
    /// True if the reader stops at the replicated LSN instead of the durable one.
    replicated: bool,
    /// The openings whose batches a follower has read.
    history: History,
    failed: bool,
}

impl Reader {
    fn new(view: Arc<View>, state: ScanState, from: Lsn) -> Self {
        let batches = Batches::large_reads();
        Reader {
            history: History::unknown(view.log_id),
            view,
            batches,
            state,
            from,
            records: Records::default(),
            replicated: false,
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
            // Begins at the segment's start, before its header area. Another history may have records there,
            // which a replica that goes back must not keep.
            _ => ScanState::unlinked(at.batch.min(from)),
        };
        Ok(Reader::new(view, state, from))
    }

    /// Sets the history below the position at which this reader begins.
    pub(super) fn with_history(mut self, history: History) -> Reader {
        self.history = history;
        self
    }

    /// Makes the reader stop at the replicated LSN. It lies between two batches, as the durable LSN does.
    pub(super) fn stop_at_replicated(&mut self) {
        self.replicated = true;
    }

    /// Returns the LSN at which the reader stops for now.
    pub(super) fn limit(&self) -> Lsn {
        match self.replicated && !planted!("replicated-follower-ahead") {
            true => self.view.replicated.lsn(),
            false => self.view.durable(),
        }
    }

    /// Returns the position at `lsn`, below which everything was read.
    pub(super) fn position_at(&self, lsn: Lsn) -> Position {
        self.history.at(lsn)
    }

    /// Returns the end of the last batch if all its records were returned. Otherwise, and at the end of a
    /// void range, returns [`Lsn::ORIGIN`].
    pub(crate) fn consumed_to(&self) -> Lsn {
        // Not the end of a void range: a follower that starts there would report the range again.
        let voided = || {
            self.view
                .voids()
                .covering(Lsn(self.state.at.0.saturating_sub(1)))
        };
        match self.records.is_between_appends() && voided().is_none() {
            true => self.state.at,
            false => Lsn::ORIGIN,
        }
    }

    /// Reads until a record is complete, or until the durable end.
    fn fill(&mut self) -> Result<()> {
        loop {
            if self.records.has_next() {
                return Ok(());
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
            let limit = self.limit();
            if self.state.at >= limit {
                return Ok(());
            }
            let Some(first) = first_batch_at(&self.view, self.state.at)? else {
                return Ok(());
            };
            if first >= limit {
                return Ok(());
            }
            // Checks the link to the previous batch, too. A batch with valid checksums may still be the
            // wrong one, from a copied segment or a misdirected write.
            self.batches.buffer = self.records.take_buffer();
            let batch = self.batches.load(&self.view, self.state)?;
            let below = std::mem::replace(&mut self.state, batch.next).at;
            let before = Lsn(batch.header.lsn.0.saturating_sub(1));
            let voids = self.view.voids().within(before, batch.next.at);
            self.history.note_batch(&batch.header, below, &voids);
            self.records
                .take_owned(&batch.header, batch.payload, self.from, &voids)
                .map_err(|m| malformed(&self.view, m.0))?;
        }
    }
}

impl Reader {
    /// Returns the next record without a copy of its bytes: it can be used until the next call. `None` and
    /// errors have the same meaning as those of [`Iterator::next`].
    ///
    /// ```
    /// # fn sum(log: &logforce_core::Log) -> logforce_core::Result<usize> {
    /// let mut reader = log.read_from(log.front_lsn())?;
    /// let mut sum = 0;
    /// while let Some(record) = reader.next_ref() {
    ///     sum += record?.data.len();
    /// }
    /// # Ok(sum)
    /// # }
    /// ```
    pub fn next_ref(&mut self) -> Option<Result<RecordRef<'_>>> {
        match self.advance() {
            Ok(()) => self.records.next_ref().map(Ok),
            Err(e) => e.map(Err),
        }
    }

    /// Reads until a record is complete, or until the durable end. Returns `Err(None)` after a failure.
    fn advance(&mut self) -> std::result::Result<(), Option<Error>> {
        if self.failed {
            return Err(None);
        }
        if let Err(e) = self.view.check_process() {
            self.failed = true;
            return Err(Some(e));
        }
        self.fill().map_err(|e| {
            // An error of this process may be temporary: the next call continues at the same position.
            self.failed = !matches!(e, Error::Io { .. });
            Some(e)
        })
    }
}

impl Iterator for Reader {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Result<Record>> {
        match self.advance() {
            Ok(()) => self.records.next().map(Ok),
            Err(e) => e.map(Err),
        }
    }
}
