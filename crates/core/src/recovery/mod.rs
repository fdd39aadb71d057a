//! The way back: control file → segments → batches → decision table → durable end → a new epoch.
//!
//! Order matters here; each step names the crash that the order is for.

mod clean_up;
mod opening;
mod preflight;
mod reconcile;
mod steady;
mod tail;

use crate::engine::start::{LogEnd, LogFiles, OpenSettings, Parts};
use crate::error::{Error, Result};
use crate::metrics::Metrics;
use crate::metrics::device::metered;
use crate::names;
use crate::options::{OnDamage, OpenMode, Options};
use crate::scan::coverage::{check_counters, gaps, lost_segment, name_lost};
use crate::scan::end_of_log::{End, anchor_state, find_end, first_state, taken_back_behind};
use crate::scan::walk::ground::Ground;
use crate::scan::walk::void_ranges::void_ranges;
use crate::storage::aside;
use crate::storage::builder::{OPEN_AHEAD, Spare, zeroes_help};
use crate::storage::control_file::meta::LoadedMeta;
use crate::storage::control_file::{ControlFile, Loaded, check_counter};
use crate::storage::directory::{check_path, directory_to_write, unusable_directory};
use crate::storage::durability::{Why, barrier};
use crate::storage::segment::Segment;
use crate::storage::segments::Segments;
use crate::storage::voids::Voids;
use crate::sync::poison::Poison;
use crate::types::RecoveryReport;
use logforce_device::{AlignedBuf, Barrier, System, Write};
use logforce_format::{Anchor, BatchHeader, BatchKind, Control, Epoch, Lsn, planted, seal};
use opening::Opening;
use preflight::{advise, choose, create, facts, look};
use reconcile::missing_behind;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Opens a log for writing; see `Log::open`.
pub(crate) fn open(
    system: &dyn System,
    path: &Path,
    mode: OpenMode,
    options: Options,
) -> Result<Parts> {
    check_path(path)?;
    // What no device could make right is refused before anything is made.
    options.resolve_write_unit(0)?;
    let is_missing = |e: io::Error| e.kind() == io::ErrorKind::NotFound;
    let makes_one =
        mode != OpenMode::OpenExisting && system.directory(path).err().is_some_and(is_missing);
    let on_damage = options.on_damage;
    let opened = open_or_make(system, path, mode, options).map_err(|e| match e {
        // Of an opening the failure itself: there is no log yet that could have stopped.
        Error::Poisoned { cause, .. } => Arc::unwrap_or_clone(cause),
        // Whoever opened so is not advised to.
        Error::Damaged(mut damage) if on_damage == OnDamage::Truncate => {
            damage.truncatable = false;
            Error::Damaged(damage)
        }
        e => e,
    });
    if makes_one && opened.is_err() {
        // Refused, as where the guarantee cannot be had: nothing is left then. A directory that
        // holds anything is not empty and stays, and so does one that cannot be removed.
        let _ = system.remove_empty_directory(path);
    }
    opened
}

fn open_or_make(
    system: &dyn System,
    path: &Path,
    mode: OpenMode,
    options: Options,
) -> Result<Parts> {
    let runtime = system.runtime();
    let dir = match mode {
        OpenMode::OpenExisting => directory_to_write(system, path)?,
        _ => system
            .make_directory(path)
            .map_err(|e| unusable_directory(e, "make the directory", path))?,
    };
    let metrics = Metrics::new(&*runtime);
    let dir = metered(dir, metrics.clone(), runtime.clone());
    look(&dir, mode)?;
    let facts = facts(&options, &dir, &*runtime)?;
    let unit = options.resolve_write_unit(facts.write_unit())?;
    let chosen = choose(&options, &facts, path)?;
    let lock = dir.lock(names::LOCK).map_err(|e| match e.kind() {
        io::ErrorKind::WouldBlock => Error::Locked {
            path: path.to_owned(),
        },
        _ => Error::io("lock", path.join(names::LOCK))(e),
    })?;
    // Somebody may have made it between the look and the lock.
    let present = look(&dir, mode)?;
    if !present {
        create(&dir, &*runtime)?;
    }
    let loaded = ControlFile::load(&dir)?;
    let created = loaded.control.prepared_end == Lsn::ORIGIN;
    // Not before the lock: whoever is refused must not have kept the disk busy first.
    let chosen = advise(chosen, &options, &facts, unit, &dir, &*runtime);
    let opening = Opening {
        dir,
        runtime,
        options,
        unit,
        chosen,
        fill: zeroes_help(facts.kind),
        metrics,
    };
    opening.recover(loaded, created, lock)
}

/// The control file as opened, and what it says.
struct Promise {
    control: Control,
    both_slots: bool,
    file: ControlFile,
    poison: Poison,
}

/// What was found in the segments.
struct Found {
    segments: Segments,
    spares: Vec<Spare>,
    /// Parts of the log that no segment holds.
    gaps: Vec<(Lsn, Lsn)>,
    end: End,
    voids: Voids,
    /// Where what was taken back by batches behind a damaged end begins.
    taken_back: Option<Lsn>,
}

impl Opening {
    fn recover(self, loaded: Loaded, created: bool, lock: Box<dyn Send + Sync>) -> Result<Parts> {
        let control = &loaded.control;
        check_counters(control, self.dir.path())?;
        let meta = LoadedMeta::load(&self.dir, control)?;
        let lost_meta = meta.lost(self.dir.path());
        if let Some(damage) = &lost_meta
            && self.options.on_damage == OnDamage::Refuse
        {
            // Before anything is written.
            return Err(Error::Damaged(Box::new(damage.clone())));
        }
        let mut promise = Promise {
            control: loaded.control.clone(),
            both_slots: loaded.both,
            file: ControlFile::open(self.dir.clone(), loaded, self.runtime.clone())?,
            poison: Poison::default(),
        };
        let mut found = self.find(&mut promise)?;
        self.sync_recovered(&found)?;
        // Before the control file says that there is metadata: a crash in between would leave the
        // word without the slots.
        promise.file.settle_meta(&meta)?;
        let epoch = self.persist_epoch(&promise, &found.end, meta.bytes().is_some())?;
        self.enforce_names(&found.segments)?;
        if found.end.lost.is_none() {
            // The log may go on in them.
            let gaps = std::mem::take(&mut found.gaps);
            self.fill_gaps(&mut found.segments, &promise.control, epoch, gaps)?;
        }
        clean_up::clear(&self.dir);
        let report = RecoveryReport {
            created,
            end: found.end.state.at,
            case: found.end.case,
            scanned: found.end.scanned,
            batches: found.end.batches,
            resumed: found.end.resumed,
            lost: found.end.lost.clone(),
            lost_meta,
            clean: promise.control.clean && promise.both_slots && !created,
        };
        self.begin(promise, found, epoch, report, lock)
    }

    /// Finds where the log ends. Nothing that it holds is changed.
    fn find(&self, promise: &mut Promise) -> Result<Found> {
        let on_damage = self.options.on_damage;
        let both_slots = promise.both_slots;
        let (segments, spares) = self.reconcile_segments(&mut promise.control, both_slots)?;
        let control = &promise.control;
        let path = self.dir.path();
        let gaps = gaps(&segments, control);
        let mut start = anchor_state(control);
        if let Some(&(lsn, _)) = gaps.first() {
            if on_damage == OnDamage::Refuse {
                let lost = lost_segment(self.dir.path(), &segments, lsn, control);
                return Err(Error::Damaged(Box::new(lost)));
            }
            if lsn < start.at {
                // What comes before the gap is all there will be: find out where that ends.
                start = first_state(&segments, control);
            }
        }
        let mut end = find_end(&segments, control, start, both_slots, path, on_damage)?;
        self.settle_tail(&segments, control, &mut end)?;
        let ground = Ground {
            dir: &self.dir,
            segments: &segments,
            control,
            both_slots,
            regained: &[],
        };
        let voids = match void_ranges(ground, &end, end.state.last_void) {
            Err(Error::Damaged(_)) if on_damage == OnDamage::Truncate => {
                // Which records the lost void batch took back nobody knows: the log ends before it,
                // though the opening's own scan begins higher.
                let start = first_state(&segments, control);
                end = find_end(&segments, control, start, both_slots, path, on_damage)?;
                void_ranges(ground, &end, end.state.last_void)?
            }
            other => other?,
        };
        if end.lost.is_none() {
            end.lost = missing_behind(path, &segments, &gaps, control, both_slots, &end);
        }
        if let Some(lost) = &mut end.lost {
            // Before anything is set aside or made anew in its place.
            name_lost(path, &segments, lost, control);
        }
        let lost = end.lost.is_some().then_some(&end.state);
        let taken_back = match lost {
            Some(state) => taken_back_behind(&segments, control, state)?,
            None => None,
        };
        Ok(Found {
            segments,
            spares,
            gaps,
            end,
            voids,
            taken_back,
        })
    }

    /// Forces everything that was believed, before anything builds on it: what was read may be in
    /// the system's cache only, written by a process that crashed before its barrier.
    fn sync_recovered(&self, found: &Found) -> Result<()> {
        for segment in found.segments.all() {
            if found.end.read.contains(&segment.header.start) {
                let synced = barrier(&*segment.file()?, Barrier::Full, Why::RecoveredTail);
                synced.map_err(Error::io("sync", segment.path()))?;
            }
        }
        let synced = self.dir.sync();
        synced.map_err(Error::io("sync directory", self.dir.path()))
    }

    /// Puts the new epoch into the control file before a batch carries it. Otherwise a crash could
    /// lose both, and a second opening would take the same number for another history.
    fn persist_epoch(&self, promise: &Promise, end: &End, meta: bool) -> Result<Epoch> {
        let control = &promise.control;
        // Above the last batch's too: where a slot of the control file rotted, the other may not
        // know the latest opening.
        let last_epoch = end.state.epoch.unwrap_or_default();
        let last = control.epoch.counter.max(last_epoch.counter);
        check_counter(last, "openings", self.dir.path())?;
        let epoch = Epoch {
            counter: last + 1,
            nonce: self.runtime.random(),
        };
        promise.file.update(&promise.poison, |c| {
            if c.epoch.counter > 0 {
                c.history.insert(0, c.epoch);
            }
            if last_epoch.counter > c.epoch.counter {
                c.history.insert(0, last_epoch);
            }
            c.history.truncate(logforce_format::EPOCH_HISTORY);
            if !logforce_format::planted!("epoch-not-announced") {
                c.epoch = epoch;
            }
            c.prepared_end = control.prepared_end;
            c.clean = false;
            c.has_meta |= meta;
            // Also where it moves back, to the start of what is lost: until the new epoch's batch
            // is durable, a crash must leave a log that shows its damage again.
            let s = &end.closed;
            c.anchor = Anchor {
                lsn: s.at,
                prev_crc: s.prev_crc.unwrap_or(c.first_prev_crc),
                epoch: s.epoch.unwrap_or_default(),
                last_void: s.last_void.unwrap_or(Lsn::ORIGIN),
            };
            c.front = c.front.min(s.at);
        })?;
        Ok(epoch)
    }

    /// Writes and forces the epoch's first batch, and makes the log ready for appends.
    fn begin(
        self,
        promise: Promise,
        found: Found,
        epoch: Epoch,
        report: RecoveryReport,
        lock: Box<dyn Send + Sync>,
    ) -> Result<Parts> {
        let Promise {
            control,
            file: control_file,
            poison,
            ..
        } = promise;
        let Found {
            mut segments,
            mut spares,
            gaps,
            end,
            mut voids,
            taken_back,
        } = found;
        let direct = self.chosen.force.plan.direct;
        let tail = end.state.at;
        let open_from = end.state.sequence.open_from();
        let open_from = open_from.filter(|_| !planted!("torn-append-kept"));
        let last_void = end.state.last_void.unwrap_or(Lsn::ORIGIN);
        let finer = |s: &Arc<Segment>| s.header.write_unit < self.unit;
        let coarser = segments.containing(tail).as_ref().is_some_and(finer)
            || segments.above(tail).iter().any(finer);
        let at_end = tail >= control.prepared_end;
        // After damage, and on a coarser device, a segment of its own: no LSN that may have been
        // read is used again, and no write shares a physical block with acknowledged data.
        let fresh = end.lost.is_some() || coarser || at_end;
        let segment = if fresh {
            let o = &self.options;
            let segment = self
                .builder(control.log_id, epoch)
                .make(
                    control.prepared_end,
                    o.segment_size,
                    self.unit,
                    spares.pop().as_ref(),
                )
                .map_err(|e| self.full(e))?;
            let prepared_end = segment.header.end();
            segments.insert(segment.clone());
            control_file.update(&poison, |c| c.prepared_end = prepared_end)?;
            segment
        } else {
            segments
                .containing(tail)
                .ok_or_else(|| self.impossible(tail))?
        };
        segment.open_writer(direct)?;
        let lsn = tail.max(segment.header.first_batch());
        let void_from = if fresh && !at_end {
            Some(open_from.unwrap_or(tail))
        } else {
            open_from
        };
        let void_from = taken_back.map_or(void_from, |lsn| {
            Some(void_from.map_or(lsn, |from| from.min(lsn)))
        });
        let mut cuts = std::mem::take(&mut segments.cuts);
        if let Some(lost) = &end.lost {
            // Where nothing lies between, nothing is given up.
            if let Some(from) = void_from.filter(|from| *from < lsn) {
                aside::mark(&self.dir, from, lsn, lost)?;
                cuts.push((from, lsn));
            }
        } else {
            // Not where something is lost: the batch that says that a range is void may be.
            cuts = aside::settle(&self.dir, cuts, &voids, control.front)?;
        }
        let durable = self.chosen.barrier_is_durable;
        let header = write_epoch(
            &segment,
            BatchHeader {
                log_id: control.log_id,
                lsn,
                epoch,
                kind: BatchKind::Epoch,
                // Everything below the tail was barriered above.
                stamp: if durable { tail } else { end.trusted.min(tail) },
                void_from: void_from.unwrap_or(lsn),
                last_void,
                prev_crc: end.state.prev_crc.unwrap_or(control.first_prev_crc),
                payload_len: 0,
                payload_crc: 0,
                frames: 0,
                prev_epoch: end.state.epoch.unwrap_or_default(),
                crc: 0,
            },
        )?;
        // Not before that batch is durable: a crash in between would leave a segment that nothing was
        // ever written to where one was lost, and the next opening would see no loss.
        self.fill_gaps(&mut segments, &control, epoch, gaps)?;
        voids.add(header.void_from, header.lsn);
        let written = header.end(segment.header.write_unit);
        let anchor = Anchor {
            lsn: written,
            prev_crc: header.crc,
            epoch,
            last_void: if header.voids() { lsn } else { last_void },
        };
        let stamp = if durable { written } else { header.stamp };
        let mut front = control.front;
        if end.closed.at < front {
            // Cut below the front, or in the append that the front lies in: nothing is left, and
            // what the front had taken away must not come back.
            front = lsn;
            control_file.update(&poison, |c| {
                c.front = front;
                c.anchor = anchor;
            })?;
        }
        for next in segments.above(segment.header.start).iter().take(OPEN_AHEAD) {
            next.open_writer(direct)?;
        }
        Ok(Parts {
            dir: self.dir,
            runtime: self.runtime,
            log_id: control.log_id,
            decided: OpenSettings {
                options: self.options,
                force: self.chosen.force,
                barrier_is_durable: durable,
                unit: self.unit,
                fill: self.fill,
            },
            end: LogEnd {
                epoch,
                segment,
                anchor,
                stamp,
                front,
            },
            found: LogFiles {
                control: control_file,
                segments,
                spares,
                voids,
                cuts,
            },
            report,
            poison,
            metrics: self.metrics,
            lock,
        })
    }
}

/// Writes the epoch batch and forces it, whatever the log's method is.
fn write_epoch(segment: &Arc<Segment>, mut header: BatchHeader) -> Result<BatchHeader> {
    let len = header.extent(segment.header.write_unit) as usize;
    let mut buf = AlignedBuf::zeroed(len, 65536);
    seal(&mut buf, &mut header);
    let file = segment.file()?;
    let ticket = file.submit(Write {
        offset: segment.offset(header.lsn),
        buf,
        range: 0..len,
        through: false,
    });
    file.complete(ticket)
        .result
        .map_err(Error::io("write", segment.path()))?;
    barrier(&*file, Barrier::Data, Why::Epoch).map_err(Error::io("sync", segment.path()))?;
    segment.note_batch(header.lsn);
    Ok(header)
}
