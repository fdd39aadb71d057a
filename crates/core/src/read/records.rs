use crate::storage::voids::Voids;
use crate::types::{Record, RecordRef};
use logforce_format::frame::{FRAME_HEADER_LEN, Frames, Malformed};
use logforce_format::{BATCH_HEADER_LEN, BatchHeader, BatchKind, Lsn, MAX_RECORD_LEN};
use std::collections::VecDeque;
use std::ops::Range;

/// Assembler of records from the batches of a log, in order. Readers, followers and inspection use it.
/// A record that lies within one batch is not copied separately.
#[derive(Default)]
pub(crate) struct Records {
    /// Payload of the last batch.
    payload: Vec<u8>,
    /// Buffer that can be reused.
    unused: Vec<u8>,
    /// Complete records.
    ready: VecDeque<Piece>,
    /// Record that [`next_ref`](Self::next_ref) has lent.
    lent: Option<Piece>,
    /// Whole records of atomic appends that have lost another record.
    pub(crate) parts: Vec<Record>,
    /// Records of an atomic append whose end has not been read yet.
    group: Vec<Piece>,
    group_len: usize,
    /// True once the start of a record was read. Before that, a frame may be the rest of an earlier
    /// record.
    begun: bool,
    /// True if the batches before are lost. Then a record that continues an append belongs to an
    /// incomplete append.
    after_loss: bool,
    /// True if the first records of `group` are lost.
    is_incomplete: bool,
}

/// A record, or the part of it that was read.
struct Piece {
    start: Lsn,
    /// Exclusive end; equal to `start` until the end was read.
    end: Lsn,
    data: Data,
}

enum Data {
    /// A range of the payload of the last batch.
    InPayload(Range<usize>),
    Own(Vec<u8>),
}

impl Piece {
    fn bytes<'a>(&'a self, payload: &'a [u8]) -> &'a [u8] {
        match &self.data {
            Data::InPayload(range) => payload.get(range.clone()).unwrap_or(&[]),
            Data::Own(bytes) => bytes,
        }
    }

    /// Copies the bytes out of the payload, which will be replaced.
    fn detach(&mut self, payload: &[u8]) {
        if matches!(self.data, Data::InPayload(_)) {
            self.data = Data::Own(self.bytes(payload).to_vec());
        }
    }

    fn into_record(self, payload: &[u8]) -> Record {
        let (start, end) = (self.start, self.end);
        let data = match self.data {
            Data::Own(data) => data,
            Data::InPayload(_) => self.bytes(payload).to_vec(),
        };
        Record { start, end, data }
    }
}

impl Records {
    /// Returns the next complete record.
    pub(crate) fn next(&mut self) -> Option<Record> {
        let piece = self.ready.pop_front()?;
        Some(piece.into_record(&self.payload))
    }

    /// Returns the next complete record as [`Records::next`] does, but without a copy.
    pub(crate) fn next_ref(&mut self) -> Option<RecordRef<'_>> {
        let piece = self.lent.insert(self.ready.pop_front()?);
        Some(RecordRef {
            start: piece.start,
            end: piece.end,
            data: piece.bytes(&self.payload),
        })
    }

    /// Returns true if a record is complete and was not returned yet.
    pub(crate) fn has_next(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Returns true if all records that were read were returned, and no append is in progress.
    pub(crate) fn is_between_appends(&self) -> bool {
        self.ready.is_empty() && self.group.is_empty()
    }

    /// Drops the append in progress, whose end will not be read.
    pub(crate) fn drop_begun(&mut self) {
        self.group.clear();
        self.group_len = 0;
        self.begun = false;
    }

    /// Notes that the next batches are lost. The whole records of the append in progress become
    /// [`parts`](Self::parts).
    pub(crate) fn mark_loss(&mut self) {
        let payload = &self.payload;
        let whole = self.group.drain(..).filter(|p| p.end > p.start);
        self.parts.extend(whole.map(|p| p.into_record(payload)));
        self.drop_begun();
        self.after_loss = true;
    }

    /// Adds the frames of a batch at and above `from`.
    pub(crate) fn take(
        &mut self,
        header: &BatchHeader,
        payload: &[u8],
        from: Lsn,
        voids: &Voids,
    ) -> Result<(), Malformed> {
        let mut own = std::mem::take(&mut self.unused);
        own.clear();
        own.extend_from_slice(payload);
        self.take_owned(header, own, from, voids)
    }

    /// Adds frames as [`Records::take`] does, but without a copy of the payload.
    pub(crate) fn take_owned(
        &mut self,
        header: &BatchHeader,
        payload: Vec<u8>,
        from: Lsn,
        voids: &Voids,
    ) -> Result<(), Malformed> {
        if header.voids() {
            // The append in progress lies in the void range.
            self.drop_begun();
        }
        if header.kind != BatchKind::Data {
            self.unused = payload;
            return Ok(());
        }
        let pieces = self.ready.iter_mut().chain(&mut self.group);
        pieces.for_each(|piece| piece.detach(&self.payload));
        let taken = self.take_frames(header, &payload, from, voids);
        self.unused = std::mem::replace(&mut self.payload, payload);
        taken
    }

    /// Returns the buffer of an earlier payload, for the next one.
    pub(crate) fn take_buffer(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.unused)
    }

    fn take_frames(
        &mut self,
        header: &BatchHeader,
        payload: &[u8],
        from: Lsn,
        voids: &Voids,
    ) -> Result<(), Malformed> {
        let begin = header.lsn.plus(BATCH_HEADER_LEN as u64);
        for frame in Frames::new(payload, begin) {
            let frame = frame?;
            if frame.lsn < from {
                continue;
            }
            if voids.covering(frame.lsn).is_some() {
                self.drop_begun();
                continue;
            }
            let offset = frame.lsn.since(begin) as usize + FRAME_HEADER_LEN;
            let data = Data::InPayload(offset..offset + frame.data.len());
            if frame.header.first {
                self.begun = true;
                if self.group.is_empty() {
                    self.is_incomplete = self.after_loss && frame.header.follows;
                    self.after_loss = false;
                }
                self.group.push(Piece {
                    start: frame.lsn,
                    end: frame.lsn,
                    data,
                });
            }
            let Some(piece) = self.group.last_mut() else {
                if self.begun {
                    return Err(Malformed(frame.lsn));
                }
                continue;
            };
            self.group_len += frame.data.len();
            if self.group_len > MAX_RECORD_LEN {
                return Err(Malformed(frame.lsn));
            }
            if !frame.header.first {
                // The frame continues a record that began in an earlier batch.
                piece.detach(payload);
                if let Data::Own(data) = &mut piece.data {
                    data.extend_from_slice(frame.data);
                }
            }
            if frame.header.last {
                piece.end = frame.end();
                if !frame.header.joined {
                    let group = self.group.drain(..);
                    match self.is_incomplete {
                        true => self.parts.extend(group.map(|p| p.into_record(payload))),
                        false => self.ready.extend(group),
                    }
                    self.group_len = 0;
                }
            }
        }
        Ok(())
    }
}
