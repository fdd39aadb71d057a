//! Checks that the log's files are still the followed ones.
//!
//! A restored backup, or another log, may replace the directory, files in it, or the bytes of the files.
//! An open directory handle still shows the old files, and a batch of the new files does not link to the
//! batches that were read. So without this check a follower would wait forever. Every suspicion is
//! handled in the same way: a new follower begins at this one's position, in the files at the log's path.

use crate::error::{Error, Result};
use crate::read::position::FollowerPosition;
use crate::read::records::Records;
use crate::read::remote::by_path;
use crate::read::remote::follower::EVERY;
use crate::read::remote::follower::{Begin, ReadOnlyFollower};
use crate::scan::batch::ScanState;
use crate::storage::read_buffer::ReadBuffer;
use crate::storage::segment::Segment;
use crate::storage::voids::Voids;
use logforce_device::ReadSource;
use logforce_format::{BATCH_HEADER_LEN, BatchHeader, Control, Epoch, Lsn, planted};
use std::sync::Arc;
use std::time::Duration;

impl ReadOnlyFollower {
    /// Checks, if the check is due, that the log is still at its path. If other files have replaced it and
    /// contain the same history, continues in those.
    pub(super) fn check_location(&mut self) -> Result<()> {
        let now = self.runtime.now();
        if now < self.location.next {
            return Ok(());
        }
        self.location.next = now.saturating_add(EVERY);
        if planted!("follower-checks-no-location") {
            return Ok(());
        }
        let is_displaced = self.location.is_displaced(&*self.files.dir);
        let is_suspect = std::mem::take(&mut self.location.suspect)
            && self.location.begun != Some(self.beginning_at(self.position().lsn()));
        if is_displaced || is_suspect || !self.has_last_batch()? {
            // If the files are being changed, the next check tries again.
            self.location.suspect = !self.begin_anew(is_displaced)?;
        }
        Ok(())
    }

    /// Begins again at this position, in the files that are at the log's path now. Returns false if the
    /// files are being changed. After an error the next call may try again.
    pub(super) fn begin_anew(&mut self, is_displaced: bool) -> Result<bool> {
        let position = self.position();
        let begin = || {
            let dir = by_path(&*self.files.dir)?;
            Self::begin(&dir, &self.runtime, Begin::Position(&position))
        };
        let mut begun = begin();
        if !is_displaced && matches!(begun, Err(Error::Damaged(_))) {
            // An opening may be changing the files. If no writer runs, the damage is permanent.
            begun = match self.is_writer_running()? {
                true => return Ok(false),
                false => begin(),
            };
        }
        match begun {
            Ok(mut begun) => {
                begun.poll = self.poll;
                begun.alarm = self.alarm.take();
                begun.location.begun = Some(begun.beginning_at(position.lsn()));
                begun.location.just_begun = true;
                *self = begun;
                Ok(true)
            }
            Err(Error::Voided { lsn, from, to }) => {
                // After this error the caller drops all records that the follower may return again.
                let from = self.go_back(from);
                Err(Error::Voided { lsn, from, to })
            }
            // The files are the same, and an opening may be changing them.
            Err(e) if !is_displaced && e.is_not_found() => Ok(false),
            Err(e) => {
                // After `Io` the next call tries again.
                self.location.suspect = true;
                Err(e)
            }
        }
    }

    fn beginning_at(&self, lsn: Lsn) -> (Lsn, u64, Epoch) {
        let control = &self.files.control;
        (lsn, control.sequence, control.epoch)
    }

    /// Goes back to `to`, or lower if that undoes a truncation that voided records below `to`. Returns the
    /// new LSN. The next call begins again from there.
    pub(super) fn go_back(&mut self, to: Lsn) -> Lsn {
        let position = self.position().back_to(to);
        self.batches.history = position.history().clone();
        self.position = FollowerPosition::below(position.lsn());
        self.batches.consumed = ScanState::unlinked(position.lsn());
        self.batches.is_voided = false;
        self.batches.records = Records::default();
        self.location.begun = None;
        self.suspect_now();
        position.lsn()
    }

    /// Makes the next call begin again, because the proven LSN may belong to another history.
    pub(super) fn suspect_now(&mut self) {
        self.location.suspect = true;
        self.location.next = Duration::ZERO;
    }

    /// Checks that the control file that was read lists the epoch of a batch. An unlisted epoch began
    /// later, perhaps in another history: then the next call begins again.
    pub(super) fn note_epoch(&mut self, epoch: Epoch) {
        let control = &self.files.control;
        let oldest = control.history.last().unwrap_or(&control.epoch);
        if epoch.counter >= oldest.counter && !control.knows(epoch) {
            self.suspect_now();
        }
    }

    /// Checks whether a control file may belong to another history: then the next call begins again.
    /// Returns true if it belongs to another log.
    pub(super) fn note_new_control(&mut self, control: &Control) -> bool {
        let known = &self.files.control;
        let is_other = control.log_id != known.log_id;
        if is_other || control.sequence < known.sequence || control.epoch != known.epoch {
            self.suspect_now();
        }
        is_other
    }

    /// Returns the epoch of the opening that must have written the next batch. That batch must void the
    /// range before it. Returns `None` if any batch may come next.
    ///
    /// No checksum links the first batch behind a void range to the batches that were read. The range may
    /// belong to a history that a copy has replaced. This is impossible only if the same opening has voided
    /// the range, since each opening draws a nonce.
    pub(super) fn expected_epoch(&self) -> Option<Epoch> {
        let is_linked = self.batches.consumed.prev_crc.is_some();
        if is_linked || self.location.just_begun || planted!("follower-takes-any-successor") {
            return None;
        }
        self.batches.history.epoch()
    }

    /// Returns true if the last consumed batch is still in the file of its segment. Otherwise the front
    /// may have passed it, a repair may have cut it, or an older copy may have overwritten the files.
    fn has_last_batch(&self) -> Result<bool> {
        let Some((lsn, crc)) = self.batches.last else {
            return Ok(true);
        };
        let Some(known) = self.files.segments.containing(lsn) else {
            return Ok(true);
        };
        // Opens the file by its name, because an open file may have been deleted.
        let dir = self.files.dir.clone();
        let segment = Arc::new(Segment::new(dir, known.name(), known.header));
        let mut read_buffer = ReadBuffer::new(ReadSource::Cache);
        read_buffer.limit(BATCH_HEADER_LEN as u64);
        let bytes = read_buffer.get(&segment, segment.offset(lsn), BATCH_HEADER_LEN)?;
        let header = bytes.ok().and_then(|b| BatchHeader::decode(b).ok());
        Ok(header.is_some_and(|h| h.lsn == lsn && h.crc == crc))
    }
}

/// Returns true if a proven batch, which ends at `end`, contradicts the known void ranges. Either it voids
/// a range that no earlier header voided, or a known range ends within it. Then the proven LSN belongs to
/// another history. Records of the range may already have been returned, or records of this batch would
/// be taken for voided.
pub(super) fn contradicts(voids: &Voids, header: &BatchHeader, end: Lsn) -> bool {
    let below = Lsn(header.lsn.0.saturating_sub(1));
    let is_unknown = header.voids() && voids.covering(below).is_none();
    is_unknown && !planted!("follower-voids-in-silence") || voids.ends_within(header.lsn, end)
}
