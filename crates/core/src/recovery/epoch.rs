//! Begin of a new epoch, by an opening or a repair. This module opens the control file for changes, makes
//! the recovered batches durable, and makes the epoch's segment and first batch.

use crate::error::{Error, Result};
use crate::recovery::opening::Opening;
use crate::scan::batch::ScanState;
use crate::scan::end_of_log::End;
use crate::storage::builder::Spare;
use crate::storage::control_file::{ControlFile, Loaded, check_counter};
use crate::storage::durability::{Why, barrier};
use crate::storage::segment::Segment;
use crate::storage::segments::Segments;
use crate::storage::transfer::write;
use crate::sync::poison::Poison;
use logforce_device::{AlignedBuf, Barrier};
use logforce_format::{Anchor, BatchHeader, BatchKind, Control, Epoch, Lsn, planted, seal};
use std::sync::Arc;

/// The control file, opened for changes, and its previous contents.
pub(super) struct OpenedControl {
    pub(super) control: Control,
    pub(super) file: ControlFile,
    pub(super) poison: Poison,
}

impl Opening {
    pub(super) fn open_control(&self, loaded: Loaded, control: Control) -> Result<OpenedControl> {
        let keeps_open = self.options.environment.is_none();
        let (dir, runtime) = (self.dir.clone(), self.runtime.clone());
        Ok(OpenedControl {
            control,
            file: ControlFile::open(dir, loaded, runtime, keeps_open)?,
            poison: Poison::default(),
        })
    }

    /// Syncs the segments that the scan has read, before anything depends on them. Their bytes may be only
    /// in the system's cache, because a process crashed before its barrier. If the opening may fill blocks,
    /// also syncs the segments that are written next: the blocks of a file that was just copied may be only
    /// in the cache.
    pub(super) fn sync_recovered(&self, segments: &Segments, end: &End) -> Result<()> {
        let tail = end.state.at;
        for segment in segments.all() {
            let is_next = segment.header.end() > tail && self.filling.begins();
            if is_next || end.read.contains(&segment.header.start) {
                let synced = barrier(&*segment.file()?, Barrier::Full, Why::RecoveredTail);
                synced.map_err(Error::io("sync", segment.path()))?;
            }
        }
        let synced = self.dir.sync();
        synced.map_err(Error::io("sync directory", self.dir.path()))
    }

    /// Returns the LSN up to which the log may be written from `at` on, at most `end`. It leaves space for
    /// the epoch's batch in any of the segments.
    fn write_limit(&self, segments: &Segments, at: Lsn, end: Lsn) -> Lsn {
        let units = segments.all();
        let units = units.iter().map(|s| s.header.write_unit);
        let unit = units.chain([self.unit]).max().unwrap_or(self.unit);
        let step = self.options.write_limit_step.max(4 * u64::from(unit));
        at.plus(step).min(end)
    }

    /// Returns the epoch of this opening.
    pub(super) fn next_epoch(&self, control: &Control, end: &End) -> Result<Epoch> {
        // The counter must also exceed that of the last batch: if one slot of the control file is damaged,
        // the other may not list the latest opening.
        let last = control
            .epoch
            .counter
            .max(end.state.epoch.unwrap_or_default().counter);
        check_counter(last, "openings", self.dir.path())?;
        Ok(Epoch {
            counter: last + 1,
            nonce: self.runtime.random(),
        })
    }

    /// Writes the new epoch to the control file before a batch carries it. Otherwise, after a crash, the
    /// next opening could use the same number for another history.
    pub(super) fn persist_epoch(
        &self,
        epoch: Epoch,
        opened: &OpenedControl,
        segments: &Segments,
        end: &End,
        meta: bool,
    ) -> Result<()> {
        let control = &opened.control;
        let limit = self.write_limit(segments, end.state.at, control.prepared_end);
        let last_epoch = end.state.epoch.unwrap_or_default();
        opened.file.update(&opened.poison, |c| {
            if c.epoch.counter > 0 {
                c.history.insert(0, c.epoch);
            }
            if last_epoch.counter > c.epoch.counter {
                c.history.insert(0, last_epoch);
            }
            c.history.truncate(logforce_format::EPOCH_HISTORY);
            if !planted!("epoch-not-announced") {
                c.epoch = epoch;
            }
            c.prepared_end = control.prepared_end;
            // Never lowers the limit: if a crash comes before the epoch's batch is durable, the next opening
            // must search the same part of the log as this one.
            c.write_limit = match control.write_limit {
                Lsn::ORIGIN => control.prepared_end,
                known => known.max(limit),
            };
            c.clean = false;
            c.has_meta |= meta;
            // A repair moves the anchor back to the start of the damage: if a crash comes before the new
            // epoch's batch is durable, the next opening must find the damage again.
            c.anchor = anchor_at(&end.append_boundary, c);
            // The format requires the front to be at or below the anchor. `move_front` moves it up again once
            // the epoch's batch is durable.
            c.front = c.front.min(c.anchor.lsn);
        })
    }

    /// Prepares a segment behind all others. It does not list the segment in the control file.
    pub(super) fn make_segment(
        &self,
        control: &Control,
        spares: &mut Vec<Spare>,
        epoch: Epoch,
        wanted: u64,
    ) -> Result<Arc<Segment>> {
        let builder = self.builder(control.log_id, epoch);
        let spare = self.sizes.take_spare(spares, wanted);
        let len = spare.as_ref().map_or(wanted, |s| s.len);
        let at = control.prepared_end;
        let made = match builder.make(at, len, self.unit, spare.as_ref()) {
            // On a full disk a log must open, because only an open log can be truncated.
            Err(e) if e.is_full() && len > self.sizes.first => {
                builder.make(at, self.sizes.first, self.unit, None)
            }
            made => made,
        };
        made.map_err(|e| self.no_space(e))
    }

    /// Lists in the control file a segment that was made behind all others.
    pub(super) fn list_segment(
        &self,
        opened: &OpenedControl,
        segments: &mut Segments,
        segment: &Arc<Segment>,
    ) -> Result<()> {
        let prepared_end = segment.header.end();
        segments.insert(segment.clone());
        let limit = self.write_limit(segments, segment.header.first_batch(), prepared_end);
        opened.file.update(&opened.poison, |c| {
            c.prepared_end = prepared_end;
            c.write_limit = c.write_limit.max(limit);
        })
    }
}

/// Returns the header of the batch at `lsn` with which an epoch continues behind `end`. It voids nothing.
pub(super) fn epoch_header(control: &Control, end: &End, epoch: Epoch, lsn: Lsn) -> BatchHeader {
    BatchHeader {
        log_id: control.log_id,
        lsn,
        epoch,
        kind: BatchKind::Epoch,
        stamp: end.proven.min(end.state.at),
        void_from: lsn,
        last_void: end.state.last_void.unwrap_or(Lsn::ORIGIN),
        prev_crc: end.state.prev_crc.unwrap_or(control.first_prev_crc),
        payload_len: 0,
        payload_crc: 0,
        frames: 0,
        prev_epoch: end.state.epoch.unwrap_or_default(),
        crc: 0,
    }
}

/// Returns the anchor at a boundary.
pub(super) fn anchor_at(state: &ScanState, control: &Control) -> Anchor {
    Anchor {
        lsn: state.at,
        prev_crc: state.prev_crc.unwrap_or(control.first_prev_crc),
        epoch: state.epoch.unwrap_or_default(),
        last_void: state.last_void.unwrap_or(Lsn::ORIGIN),
    }
}

/// Returns the anchor behind the first batch of an epoch.
pub(super) fn anchor_behind(header: &BatchHeader, segment: &Segment) -> Anchor {
    Anchor {
        lsn: header.end(segment.header.write_unit),
        prev_crc: header.crc,
        epoch: header.epoch,
        last_void: if header.voids() {
            header.lsn
        } else {
            header.last_void
        },
    }
}

/// Moves the front to `lsn`, where an epoch begins, if the log was ended below the front, or within the
/// append that contains the front. The log is empty then. Otherwise records that were truncated at the front
/// would come back. Returns the front.
pub(super) fn move_front(
    opened: &OpenedControl,
    end: &End,
    anchor: Anchor,
    lsn: Lsn,
) -> Result<Lsn> {
    if end.append_boundary.at >= opened.control.front {
        return Ok(opened.control.front);
    }
    opened.file.update(&opened.poison, |c| {
        c.front = lsn;
        c.anchor = anchor;
    })?;
    Ok(lsn)
}

/// Writes the epoch's first batch, and forces it with a barrier, independently of the log's method.
pub(super) fn write_epoch(segment: &Arc<Segment>, mut header: BatchHeader) -> Result<BatchHeader> {
    let len = header.extent(segment.header.write_unit) as usize;
    let mut buf = AlignedBuf::zeroed(len, 65536);
    seal(&mut buf, &mut header);
    let file = segment.file()?;
    write(&*file, segment.offset(header.lsn), buf).map_err(Error::io("write", segment.path()))?;
    barrier(&*file, Barrier::Data, Why::Epoch).map_err(Error::io("sync", segment.path()))?;
    segment.note_batch(header.lsn);
    Ok(header)
}
