use crate::storage::voids::Voids;
use crate::types::Record;
use logforce_format::frame::{Frames, Malformed};
use logforce_format::{BATCH_HEADER_LEN, BatchHeader, BatchKind, Lsn, MAX_RECORD_LEN};
use std::collections::VecDeque;

/// Assembles records from the batches of a log, in order. Readers, followers and inspection share
/// it.
#[derive(Default)]
pub(crate) struct Records {
    /// Complete records.
    pub(crate) ready: VecDeque<Record>,
    /// Whole records of atomic appends of which another record is lost.
    pub(crate) parts: Vec<Record>,
    /// Records of an atomic append whose end has not been read yet.
    group: Vec<Record>,
    group_len: usize,
    /// The start of a record was read; before it, a frame may be the rest of an earlier record.
    begun: bool,
    /// The batches before are lost: a record that continues an append is the rest of an incomplete
    /// one.
    after_loss: bool,
    /// The first records of `group` are lost.
    is_incomplete: bool,
}

impl Records {
    /// Whether all that was taken was returned.
    pub(crate) fn is_between_appends(&self) -> bool {
        self.ready.is_empty() && self.group.is_empty()
    }

    /// Drops the append in progress: its end will not come.
    pub(crate) fn drop_begun(&mut self) {
        self.group.clear();
        self.group_len = 0;
        self.begun = false;
    }

    /// What follows is lost. The whole records of the append in progress become
    /// [`parts`](Self::parts).
    pub(crate) fn mark_loss(&mut self) {
        // A record whose end was not read has `end == start`.
        let whole = self.group.drain(..).filter(|e| e.end > e.start);
        self.parts.extend(whole);
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
        if header.voids() {
            // The append in progress lies in the void range.
            self.drop_begun();
        }
        if header.kind != BatchKind::Data {
            return Ok(());
        }
        for frame in Frames::new(payload, header.lsn.plus(BATCH_HEADER_LEN as u64)) {
            let frame = frame?;
            if frame.lsn < from {
                continue;
            }
            if voids.covering(frame.lsn).is_some() {
                self.drop_begun();
                continue;
            }
            if frame.header.first {
                self.begun = true;
                if self.group.is_empty() {
                    self.is_incomplete = self.after_loss && frame.header.follows;
                    self.after_loss = false;
                }
                self.group.push(Record {
                    start: frame.lsn,
                    end: frame.lsn,
                    data: Vec::new(),
                });
            }
            let Some(record) = self.group.last_mut() else {
                if self.begun {
                    return Err(Malformed(frame.lsn));
                }
                continue;
            };
            self.group_len += frame.data.len();
            if self.group_len > MAX_RECORD_LEN {
                return Err(Malformed(frame.lsn));
            }
            record.data.extend_from_slice(frame.data);
            if frame.header.last {
                record.end = frame.end();
                if !frame.header.joined {
                    match self.is_incomplete {
                        true => self.parts.append(&mut self.group),
                        false => self.ready.extend(self.group.drain(..)),
                    }
                    self.group_len = 0;
                }
            }
        }
        Ok(())
    }
}
