//! From staged batches to durable ones. Whoever claims the [`Role`] seals batches in LSN order,
//! writes them, and makes them durable by the log's method.

use crate::log::Shared;
use crate::segments::Segment;
use crate::stage::Building;
use crate::{Error, Result};
use logforce_device::{Barrier, ForceBy, Guarantee, Write};
use logforce_format::{Anchor, BatchHeader, BatchKind, Epoch, Lsn, seal};
use std::sync::Arc;
use std::sync::atomic::Ordering::*;

/// More batches than this are cheaper written plainly with one barrier after them than written
/// through one by one.
const THROUGH_AT_MOST: usize = 2;

/// What only the one writer knows. Claimed by taking it out of the stage.
pub(crate) struct Role {
    pub(crate) prev_crc: u32,
    pub(crate) last_void: Lsn,
    /// Exclusive end of what was written.
    pub(crate) written: Lsn,
    /// Start of an append that is begun and not ended at `written`.
    pub(crate) open_from: Option<Lsn>,
    /// Everything below is durable against loss of power: what the next batch's stamp says.
    pub(crate) stamp: Lsn,
    /// Segments written to since the last barrier. A force must barrier all of them: a write
    /// through makes only itself durable, and a crash would keep it and lose what lies before.
    pub(crate) unforced: Vec<Arc<Segment>>,
    /// Batches written since the last force.
    pub(crate) batches: usize,
}

/// What to do once the batches are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// Nothing: they stay unforced.
    Write,
    /// Force by the log's method.
    Force,
    /// A full barrier on everything unforced, whatever the method.
    Barrier,
}

/// The claimed role. If the holder unwinds, the log is poisoned: the role is lost, and what its
/// writes did is not known.
struct Claim<'a> {
    shared: &'a Shared,
    role: Option<Role>,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if self.role.is_some() {
            self.shared.stage().role_lost = true;
            self.shared.fail(Error::Io {
                doing: "write to",
                path: self.shared.path.clone(),
                source: Arc::new(std::io::Error::other("the writing thread panicked")),
            });
        }
    }
}

impl Shared {
    /// Returns once everything below `end` is as durable as `how` makes it. The caller writes
    /// everything that is staged unless somebody else is writing.
    pub(crate) fn force_to(&self, end: Lsn, how: How) -> Result<()> {
        loop {
            let seen = self.progress.observe();
            let (role, batches) = {
                let mut stage = self.stage();
                self.poison.check()?;
                let reached = match how {
                    How::Barrier => stage.anchor.lsn,
                    _ => Lsn(self.durable.load(Acquire)),
                };
                if reached >= end {
                    return Ok(());
                }
                if end > stage.tail() {
                    return Err(Error::BeyondEnd {
                        lsn: end,
                        end: stage.tail(),
                    });
                }
                match stage.role.take() {
                    Some(role) => {
                        let batches = stage.take_all();
                        (role, batches)
                    }
                    None => {
                        drop(stage);
                        self.progress.sleep(&*self.runtime, seen, None);
                        continue;
                    }
                }
            };
            self.write_out(role, batches, how)?;
        }
    }

    /// Writes the batches and gives the role back. On failure the log is poisoned and the role
    /// stays lost.
    pub(crate) fn write_out(&self, role: Role, batches: Vec<Building>, how: How) -> Result<()> {
        let mut claim = Claim {
            shared: self,
            role: Some(role),
        };
        let Some(role) = &mut claim.role else {
            return Ok(());
        };
        let voids: Vec<(Lsn, Lsn)> = batches
            .iter()
            .filter(|b| b.void_from < b.lsn)
            .map(|b| (b.void_from, b.lsn))
            .collect();
        let mut bufs = Vec::with_capacity(batches.len());
        let safe = match self.write_and_force(role, batches, how, &mut bufs) {
            Ok(safe) => safe,
            Err(e) => {
                claim.role = None;
                self.stage().role_lost = true;
                return Err(self.fail(e));
            }
        };
        let Some(role) = claim.role.take() else {
            return Ok(());
        };
        if !voids.is_empty() {
            // Readers learn of a void range when it is durable, and before the durable LSN passes it.
            let mut known = self.voids();
            for (from, to) in voids {
                known.add(from, to);
            }
        }
        self.publish(role, how, safe, bufs);
        Ok(())
    }

    /// Answers whether everything written so far is behind a barrier.
    fn write_and_force(
        &self,
        role: &mut Role,
        batches: Vec<Building>,
        how: How,
        bufs: &mut Vec<logforce_device::AlignedBuf>,
    ) -> Result<bool> {
        let through = how == How::Force
            && self.plan.force == ForceBy::Through
            && role.unforced.is_empty()
            && batches.len() <= THROUGH_AT_MOST;
        let mut failed = None;
        let mut flying = Vec::with_capacity(batches.len());
        role.batches += batches.len();
        for mut batch in batches {
            self.seal(role, &mut batch);
            let segment = batch.segment.clone();
            let range = 0..batch.extent();
            let write = Write {
                offset: segment.offset(batch.lsn),
                buf: batch.buf,
                range,
                through,
            };
            let file = match segment.file() {
                Ok(file) => file,
                Err(e) => {
                    failed = Some(e);
                    break;
                }
            };
            let ticket = file.submit(write);
            if !role.unforced.iter().any(|s| Arc::ptr_eq(s, &segment)) {
                role.unforced.push(segment.clone());
            }
            flying.push((segment, file, ticket));
        }
        // All are waited for, also after a failure: no write of ours may land after the lock is
        // given up.
        for (segment, file, ticket) in flying {
            let done = file.complete(ticket);
            bufs.push(done.buf);
            if let Err(e) = done.result {
                failed.get_or_insert_with(|| Error::io("write", segment.path())(e));
            }
        }
        if let Some(e) = failed {
            return Err(e);
        }
        let barrier = match (how, self.plan.force) {
            (How::Write, _) => return Ok(false),
            (How::Barrier, _) => Some(Barrier::Data),
            (How::Force, _) if through => None,
            // Durable without more only where the device has no volatile cache.
            (How::Force, ForceBy::None) if self.guarantee < Guarantee::PowerLoss => {
                return Ok(false);
            }
            (How::Force, ForceBy::None) => None,
            (How::Force, ForceBy::Through) => Some(Barrier::Data),
            (How::Force, ForceBy::Barrier(kind)) => Some(kind),
        };
        if let Some(kind) = barrier {
            for segment in &role.unforced {
                segment
                    .file()?
                    .barrier(kind)
                    .map_err(Error::io("sync", segment.path()))?;
            }
        }
        let current = role.unforced.pop();
        for done in role.unforced.drain(..) {
            // Full, and forced: nothing will be written there again.
            done.writer_done();
        }
        if let Some(current) = current
            && role.written >= current.header.end()
        {
            current.writer_done();
        }
        if self.guarantee == Guarantee::PowerLoss || how == How::Barrier && self.barrier_is_durable
        {
            role.stamp = role.written;
        }
        Ok(true)
    }

    fn seal(&self, role: &mut Role, batch: &mut Building) {
        let mut header = BatchHeader {
            log_id: self.log_id,
            lsn: batch.lsn,
            epoch: self.epoch,
            kind: batch.kind,
            stamp: role.stamp,
            void_from: batch.void_from,
            last_void: role.last_void,
            prev_crc: role.prev_crc,
            payload_len: batch.payload as u32,
            payload_crc: batch.payload_crc,
            frames: batch.frames,
            prev_epoch: Epoch::default(),
            crc: 0,
        };
        let extent = batch.extent();
        role.prev_crc = seal(&mut batch.buf[..extent], &mut header);
        if header.voids() {
            role.last_void = header.lsn;
        }
        role.written = batch.end();
        role.open_from = batch.open_from;
        batch.segment.note_batch(batch.lsn);
    }

    /// Lets the world see what is done, and gives the role back.
    fn publish(
        &self,
        mut role: Role,
        how: How,
        safe: bool,
        bufs: Vec<logforce_device::AlignedBuf>,
    ) {
        let forced = how != How::Write;
        let mut ring_work = false;
        {
            let mut stage = self.stage();
            stage.recycle(bufs);
            if forced {
                if safe && role.open_from.is_none() {
                    stage.anchor = anchor(&role, self.epoch);
                }
                // Durable at the log's own guarantee.
                self.durable.store(role.written.0, Release);
                self.poison.durable.store(role.written.0, Release);
                stage.forces += 1;
                if role.batches > 1 && self.guarantee == Guarantee::PowerLoss {
                    // The last batch's own stamp lies below the first of them.
                    stage.stamp_now = true;
                    ring_work = true;
                }
                role.batches = 0;
            }
            ring_work |= stage.has_full() || self.service_parked.load(Acquire);
            stage.role = Some(role);
        }
        self.progress.ring(&*self.runtime);
        if ring_work {
            self.work.ring(&*self.runtime);
        }
    }

    /// Writes a batch without records and forces it: a stamp when there is something to stamp and
    /// nobody is writing. Returns whether it did.
    pub(crate) fn write_stamp(&self) -> Result<bool> {
        let (role, batches, forces) = {
            let mut stage = self.stage();
            if self.poison.is_set() || !stage.has_space_for_mark() {
                return Ok(false);
            }
            let Some(role) = stage.role.take() else {
                return Ok(false);
            };
            if self.guarantee < Guarantee::PowerLoss {
                // Nothing new could be said.
                stage.role = Some(role);
                return Ok(false);
            }
            stage.place_mark(BatchKind::Stamp, None);
            (role, stage.take_all(), stage.forces)
        };
        // Records that waited go along, and the stamp, sealed with them, does not cover them:
        // another must follow, else rot of theirs would pass for a torn write.
        let alone = batches.len() == 1 && role.batches == 0;
        self.write_out(role, batches, How::Force)?;
        let mut stage = self.stage();
        if alone && stage.forces == forces + 1 {
            stage.stamped_forces = stage.forces;
            stage.stamp_now = false;
        }
        Ok(true)
    }

    /// Records the failure, drops what waits, wakes everybody.
    pub(crate) fn fail(&self, cause: Error) -> Error {
        let error = self.poison.set(cause);
        self.stage().discard();
        self.progress.ring(&*self.runtime);
        self.work.ring(&*self.runtime);
        self.prepare.ring(&*self.runtime);
        error
    }
}

/// The anchor at what the role has written.
pub(crate) fn anchor(role: &Role, epoch: Epoch) -> Anchor {
    Anchor {
        lsn: role.written,
        prev_crc: role.prev_crc,
        epoch,
        last_void: role.last_void,
    }
}
