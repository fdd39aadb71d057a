//! Whether the log's files are still those that were followed.
//!
//! A restored backup, or another log, may replace the directory, files in it, or the bytes of the files.
//! An open directory goes on to show the old files, and a batch of the new ones does not link to what was
//! read; so without this check a follower would wait for ever. Everything that it notices leads to the
//! same question: what a new follower that begins at this one's position finds by the log's path.

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
    /// Looks whether the log is still there, if it is time for that. Continues in what has replaced it if
    /// that contains the same history.
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
            // In the middle of a change: again with the next check.
            self.location.suspect = !self.begin_anew(is_displaced)?;
        }
        Ok(())
    }

    /// Begins anew at this position, in the files that are there now; after an error the next call may. Returns
    /// whether it could.
    pub(super) fn begin_anew(&mut self, is_displaced: bool) -> Result<bool> {
        let position = self.position();
        let begin = || {
            let dir = by_path(&*self.files.dir)?;
            Self::begin(&dir, &self.runtime, Begin::Position(&position))
        };
        let mut begun = begin();
        if !is_displaced && matches!(begun, Err(Error::Damaged(_))) {
            // An opening may be in the middle of a change. Without a writer the damage stays.
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
                // The caller drops all that this may return again.
                let from = self.go_back(from);
                Err(Error::Voided { lsn, from, to })
            }
            // The files are the same, and an opening may be in the middle of a change.
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

    /// Goes back to `to`, or below what a truncation that is undone by that has voided; returns where it is
    /// then. The next call begins there anew.
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

    /// Has the next call begin anew: what this knows to be proven may be another history's.
    pub(super) fn suspect_now(&mut self) {
        self.location.suspect = true;
        self.location.next = Duration::ZERO;
    }

    /// Looks whether the control file that was read knows the epoch of a batch. One that it does not know was
    /// begun since, perhaps in another history.
    pub(super) fn note_epoch(&mut self, epoch: Epoch) {
        let control = &self.files.control;
        let oldest = control.history.last().unwrap_or(&control.epoch);
        if epoch.counter >= oldest.counter && !control.knows(epoch) {
            self.suspect_now();
        }
    }

    /// Looks whether a control file that was read may be another history's; returns whether it is another
    /// log's.
    pub(super) fn note_new_control(&mut self, control: &Control) -> bool {
        let known = &self.files.control;
        let is_other = control.log_id != known.log_id;
        if is_other || control.sequence < known.sequence || control.epoch != known.epoch {
            self.suspect_now();
        }
        is_other
    }

    /// Returns the opening that must have written the next batch, which voids what lies before it; `None` if
    /// it may be any batch. No checksum links the first batch behind a void range to what was read, and the
    /// range may be of a history that a copy has replaced. Only where the same opening (each draws a nonce)
    /// has voided it is that certainly not so.
    pub(super) fn expected_epoch(&self) -> Option<Epoch> {
        let is_linked = self.batches.consumed.prev_crc.is_some();
        if is_linked || self.location.just_begun || planted!("follower-takes-any-successor") {
            return None;
        }
        self.batches.history.epoch()
    }

    /// Whether the last batch that was consumed is still there. The front may have passed it, or a repair
    /// has cut it; or an older copy was written over the files.
    fn has_last_batch(&self) -> Result<bool> {
        let Some((lsn, crc)) = self.batches.last else {
            return Ok(true);
        };
        let Some(known) = self.files.segments.containing(lsn) else {
            return Ok(true);
        };
        // By its name: an open file may have been deleted.
        let dir = self.files.dir.clone();
        let segment = Arc::new(Segment::new(dir, known.name(), known.header));
        let mut read_buffer = ReadBuffer::new(ReadSource::Cache);
        read_buffer.limit(BATCH_HEADER_LEN as u64);
        let bytes = read_buffer.get(&segment, segment.offset(lsn), BATCH_HEADER_LEN)?;
        let header = bytes.ok().and_then(|b| BatchHeader::decode(b).ok());
        Ok(header.is_some_and(|h| h.lsn == lsn && h.crc == crc))
    }
}

/// Returns whether a proven batch, which ends at `end`, contradicts the void ranges: it voids one that is in none of
/// the headers before it, or one ends within it. Then what is known to be proven is another history's: records of
/// the range may have been returned, or records of this batch would be taken for voided.
pub(super) fn contradicts(voids: &Voids, header: &BatchHeader, end: Lsn) -> bool {
    let below = Lsn(header.lsn.0.saturating_sub(1));
    let is_unknown = header.voids() && voids.covering(below).is_none();
    is_unknown && !planted!("follower-voids-in-silence") || voids.ends_within(header.lsn, end)
}
