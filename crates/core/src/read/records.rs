use crate::storage::voids::Voids;
use crate::types::Record;
use logforce_format::frame::{Frames, Malformed};
use logforce_format::{BATCH_HEADER_LEN, BatchHeader, BatchKind, Lsn, MAX_RECORD_LEN};
use std::collections::VecDeque;

/// Puts records together from the batches of a log, in order. Readers, followers and inspection
/// have this one.
#[derive(Default)]
pub(crate) struct Records {
    /// Whole, and to be shown.
    pub(crate) ready: VecDeque<Record>,
    /// Whole, and of appends of which another part is lost.
    pub(crate) parts: Vec<Record>,
    /// Records of an atomic append that is not at its end yet.
    group: Vec<Record>,
    group_len: usize,
    /// A record was seen to begin; before, a fragment may be the rest of one.
    begun: bool,
    /// What lies before is lost: a record that follows another is part of an append.
    behind_loss: bool,
    /// The beginning of `group` is lost.
    beheaded: bool,
}

impl Records {
    /// What is begun and not ended never will be.
    pub(crate) fn drop_begun(&mut self) {
        self.group.clear();
        self.group_len = 0;
        self.begun = false;
    }

    /// What comes next is lost. Of an append that is begun and not ended, whole records are
    /// [`parts`](Self::parts).
    pub(crate) fn lose(&mut self) {
        // An entry without an end is a record that is not at its end.
        let whole = self.group.drain(..).filter(|e| e.end > e.start);
        self.parts.extend(whole);
        self.drop_begun();
        self.behind_loss = true;
    }

    /// Takes the frames at and above `from` of a batch.
    pub(crate) fn take(
        &mut self,
        header: &BatchHeader,
        payload: &[u8],
        from: Lsn,
        voids: &Voids,
    ) -> Result<(), Malformed> {
        if header.voids() {
            // An append that is open here lies in the range.
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
                    self.beheaded = self.behind_loss && frame.header.follows;
                    self.behind_loss = false;
                }
                self.group.push(Record {
                    start: frame.lsn,
                    end: frame.lsn,
                    data: Vec::new(),
                });
            }
            let Some(entry) = self.group.last_mut() else {
                if self.begun {
                    return Err(Malformed(frame.lsn));
                }
                continue;
            };
            self.group_len += frame.data.len();
            if self.group_len > MAX_RECORD_LEN {
                return Err(Malformed(frame.lsn));
            }
            entry.data.extend_from_slice(frame.data);
            if frame.header.last {
                entry.end = frame.end();
                if !frame.header.joined {
                    match self.beheaded {
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
