//! Recovery: control file → segments → batches → decision table → durable end → a new epoch.
//!
//! The order of the steps matters; where a crash requires it, the step says which.
//!
//! *Anchor*: a position below which all is known to be durable (PostgreSQL: redo point). *Stamp*: the
//! durable LSN inside a batch. *Epoch*: number and nonce of one opening for writing. *Spare*: a
//! truncated segment, kept for reuse. *Void*: a range of records that `truncate_back`, or an opening
//! at damage, took out of the log.

mod clean_up;
mod listing;
pub(crate) mod lock_wait;
mod opening;
mod preflight;
mod prepared;
mod reconcile;
mod tail;

use crate::engine::start::{LogEnd, LogFiles, OpenSettings, Parts};
use crate::environment::patient_directory::{patient, patiently};
use crate::error::{Error, Result};
use crate::metrics::Metrics;
use crate::metrics::device::metered;
use crate::names;
use crate::options::{OnDamage, OpenMode, Options};
use crate::scan::coverage::{check_counters, gaps, name_lost};
use crate::scan::end_of_log::{End, anchor_state, earliest_void_beyond, find_end, first_state};
use crate::scan::walk::types::WalkInput;
use crate::scan::walk::void_ranges::settle_void_ranges;
use crate::storage::builder::{OPEN_AHEAD, Spare};
use crate::storage::control_file::meta::LoadedMeta;
use crate::storage::control_file::{ControlFile, Loaded, check_counter};
use crate::storage::directory::{check_path, directory_to_write, unusable_directory};
use crate::storage::durability::{Why, barrier};
use crate::storage::filling::Filling;
use crate::storage::given_up;
use crate::storage::segment::Segment;
use crate::storage::segment_sizes::SegmentSizes;
use crate::storage::segments::Segments;
use crate::storage::voids::Voids;
use crate::storage::writes::write;
use crate::sync::poison::Poison;
use crate::types::RecoveryReport;
use logforce_device::{AlignedBuf, Barrier, Directory, System};
use logforce_format::{Anchor, BatchHeader, BatchKind, Control, Epoch, Lsn, planted, seal};
use opening::Opening;
use preflight::{advise, check_directory, choose, create, facts};
use reconcile::missing_beyond;
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
    // Rejects options that no device supports before it creates anything.
    options.resolve_write_unit(0)?;
    let is_missing = |e: io::Error| e.kind() == io::ErrorKind::NotFound;
    let creates =
        mode != OpenMode::OpenExisting && system.directory(path).err().is_some_and(is_missing);
    let on_damage = options.on_damage;
    let opened = lock_wait::wait_for_lock(
        &*system.runtime(),
        options.wait_for_lock,
        |opened| matches!(opened, Err(Error::Locked { .. })),
        || open_or_create(system, path, mode, options.clone(), creates),
    );
    let opened = opened.map_err(|e| match e {
        // An opening returns the cause: there is no open log yet that could be poisoned.
        Error::Poisoned { cause, .. } => Arc::unwrap_or_clone(cause),
        // The caller used `OnDamage::Truncate` already: the error must not recommend it.
        Error::Damaged(mut damage) if on_damage == OnDamage::Truncate => {
            damage.truncatable = false;
            Error::Damaged(damage)
        }
        e => e,
    });
    if creates && opened.is_err() {
        // The opening failed, perhaps because the guarantee is not available here: removes the
        // directory that it created. It stays if it is not empty or cannot be removed.
        let _ = system.remove_empty_directory(path);
    }
    opened
}

fn open_or_create(
    system: &dyn System,
    path: &Path,
    mode: OpenMode,
    options: Options,
    creates: bool,
) -> Result<Parts> {
    let runtime = system.runtime();
    let shared = options.shared();
    let in_place = |call: &dyn Fn() -> io::Result<Arc<dyn Directory>>| match &shared {
        Some(shared) => patiently(&shared.open_logs, &*runtime, call),
        None => call(),
    };
    let dir = match mode {
        OpenMode::OpenExisting => directory_to_write(in_place(&|| system.directory(path)), path)?,
        _ => in_place(&|| system.make_directory(path))
            .map_err(|e| unusable_directory(e, "make the directory", path))?,
    };
    (options.modes.set_in(&*dir, creates)).map_err(Error::io("change the mode of", path))?;
    let metrics = Metrics::new(&*runtime);
    let dir = match shared {
        Some(shared) => {
            // A directory takes a descriptor for as long as the log is open.
            dir.keep_closed();
            patient(dir, shared.open_logs.clone(), runtime.clone())
        }
        None => dir,
    };
    let dir = metered(dir, metrics.clone(), runtime.clone());
    check_directory(&dir, mode)?;
    let facts = facts(&options, &dir, &*runtime)?;
    let unit = options.resolve_write_unit(facts.write_unit())?;
    let chosen = choose(&options, &facts, path)?;
    let locking = |name: &'static str| {
        move |e: io::Error| match e.kind() {
            io::ErrorKind::WouldBlock => Error::Locked {
                path: path.to_owned(),
            },
            _ => Error::io("lock", path.join(name))(e),
        }
    };
    let lock = dir.lock(names::LOCK).map_err(locking(names::LOCK))?;
    // Another process may have created the log before this one got the lock.
    let present = check_directory(&dir, mode)?;
    if !present {
        create(&dir, &*runtime)?;
    }
    // Locks the control file as well. Otherwise, once the lock file is deleted, a second process could open
    // the log and destroy records that the first acknowledges until it notices. A log in an environment does
    // without, to save a second descriptor for each log.
    let lock: Box<dyn Send + Sync> =
        match options.environment.is_some() || planted!("control-unlocked") {
            true => lock,
            false => {
                let control = dir.lock_file(names::CONTROL);
                let control = control.map_err(locking(names::CONTROL))?;
                // Drops the control file's lock first. A process that gets the lock file's must also get this
                // one.
                Box::new((control, lock))
            }
        };
    let loaded = ControlFile::load(&dir)?;
    let created = loaded.control.prepared_end == Lsn::ORIGIN;
    // After the lock: a calibration must not load the disk if the lock is not available.
    let chosen = advise(chosen, &options, &facts, unit, &dir, &*runtime);
    let sizes = SegmentSizes::new(options.smallest_segment(), options.segment_size, unit);
    let filling = Filling::here(&facts, chosen.force.plan, options.force_of_bulk);
    let opening = Opening {
        dir,
        runtime,
        options,
        unit,
        sizes,
        chosen,
        filling,
        metrics,
    };
    opening.recover(loaded, created, lock)
}

/// The opened control file and its contents.
struct OpenedControl {
    control: Control,
    both_slots: bool,
    file: ControlFile,
    poison: Poison,
}

/// The result of the scan.
struct Scanned {
    segments: Segments,
    spares: Vec<Spare>,
    /// Parts of the log that no segment holds.
    gaps: Vec<(Lsn, Lsn)>,
    end: End,
    voids: Voids,
    /// If the log ends at damage: where the earliest range begins that a batch beyond it voids (takes out
    /// of the log).
    earliest_void: Option<Lsn>,
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
            // Fails before anything is written.
            return Err(Error::Damaged(Box::new(damage.clone())));
        }
        let mut opened = OpenedControl {
            control: loaded.control.clone(),
            both_slots: loaded.both,
            file: ControlFile::open(
                self.dir.clone(),
                loaded,
                self.runtime.clone(),
                self.options.environment.is_none(),
            )?,
            poison: Poison::default(),
        };
        let mut found = self.scan(&mut opened)?;
        self.sync_recovered(&found)?;
        // Before the control file says that there is metadata: a crash in between would leave the
        // flag without durable slots.
        opened.file.sync_meta(&meta)?;
        let epoch = self.persist_epoch(&opened, &found, meta.bytes().is_some())?;
        self.enforce_names(&found.segments)?;
        if found.end.lost.is_none() {
            // Before the epoch's batch, since the log may continue in these segments.
            let gaps = std::mem::take(&mut found.gaps);
            self.fill_gaps(&mut found.segments, &opened.control, epoch, gaps)?;
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
            clean: opened.control.clean && opened.both_slots && !created,
        };
        self.begin_epoch(opened, found, epoch, report, lock)
    }

    /// Finds where the log ends. Changes none of its contents.
    fn scan(&self, opened: &mut OpenedControl) -> Result<Scanned> {
        let on_damage = self.options.on_damage;
        let both_slots = opened.both_slots;
        let (segments, spares) = self.reconcile_segments(&mut opened.control, both_slots)?;
        let control = &opened.control;
        let path = self.dir.path();
        let gaps = gaps(&segments, control);
        let mut start = anchor_state(control);
        if gaps.first().is_some_and(|(lsn, _)| *lsn < start.at) {
            // The log ends before the gap: scans from the start to find where.
            start = first_state(&segments, control);
        }
        let mut end = find_end(&segments, control, start, both_slots, path, on_damage)?;
        self.verify_tail(&segments, control, &mut end)?;
        let input = WalkInput {
            dir: &self.dir,
            segments: &segments,
            control,
            both_slots,
            headerless: &[],
        };
        let voids = match settle_void_ranges(input, &mut end) {
            Err(Error::Damaged(_)) if on_damage == OnDamage::Truncate => {
                // The records that the damaged batch voids are unknown: the log ends before that
                // batch, although an opening's scan begins above it.
                let start = first_state(&segments, control);
                end = find_end(&segments, control, start, both_slots, path, on_damage)?;
                settle_void_ranges(input, &mut end)?
            }
            other => other?,
        };
        if end.lost.is_none() {
            end.lost = missing_beyond(path, &segments, &gaps, control, both_slots, &end);
        }
        if let Some(lost) = &mut end.lost {
            // Before the segment's file is set aside or replaced.
            name_lost(path, &segments, lost, control);
        }
        let lost = end.lost.is_some().then_some(&end.state);
        let earliest_void = match lost {
            Some(state) => earliest_void_beyond(&segments, control, state)?,
            None => None,
        };
        Ok(Scanned {
            segments,
            spares,
            gaps,
            end,
            voids,
            earliest_void,
        })
    }

    /// Syncs the segments that the scan has read before anything depends on them. A process that crashed
    /// before its barrier may have left their bytes only in the system's cache. If the opening may fill
    /// blocks, also syncs the segments that are written next: the blocks of a file that was just copied may
    /// be only in the cache.
    fn sync_recovered(&self, found: &Scanned) -> Result<()> {
        let tail = found.end.state.at;
        for segment in found.segments.all() {
            let is_next = segment.header.end() > tail && self.filling.begins();
            if is_next || found.end.read.contains(&segment.header.start) {
                let synced = barrier(&*segment.file()?, Barrier::Full, Why::RecoveredTail);
                synced.map_err(Error::io("sync", segment.path()))?;
            }
        }
        let synced = self.dir.sync();
        synced.map_err(Error::io("sync directory", self.dir.path()))
    }

    /// The limit of what may be written from `at` on, in segments up to `end`: with room for the epoch's
    /// batch, wherever it comes to lie.
    fn write_limit(&self, segments: &Segments, at: Lsn, end: Lsn) -> Lsn {
        let units = segments.all();
        let units = units.iter().map(|s| s.header.write_unit);
        let unit = units.chain([self.unit]).max().unwrap_or(self.unit);
        let step = self.options.write_limit_step.max(4 * u64::from(unit));
        at.plus(step).min(end)
    }

    /// Writes the new epoch to the control file before a batch carries it. In the other order, the
    /// next opening after a crash could use the same number for another history.
    fn persist_epoch(&self, opened: &OpenedControl, found: &Scanned, meta: bool) -> Result<Epoch> {
        let (control, end) = (&opened.control, &found.end);
        let limit = self.write_limit(&found.segments, end.state.at, control.prepared_end);
        // Above the last batch's too: if one slot of the control file is damaged, the other may not
        // list the latest opening.
        let last_epoch = end.state.epoch.unwrap_or_default();
        let last = control.epoch.counter.max(last_epoch.counter);
        check_counter(last, "openings", self.dir.path())?;
        let epoch = Epoch {
            counter: last + 1,
            nonce: self.runtime.random(),
        };
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
            // Never lower: after a crash before the epoch's batch is durable, the next opening must see
            // what this one has seen.
            c.write_limit = match control.write_limit {
                Lsn::ORIGIN => control.prepared_end,
                known => known.max(limit),
            };
            c.clean = false;
            c.has_meta |= meta;
            // Also if the anchor moves back, to the start of the damage: after a crash before the
            // new epoch's batch is durable, the next opening must find the damage again.
            let s = &end.append_boundary;
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

    /// Writes and forces the epoch's first batch, and prepares the log for appends.
    fn begin_epoch(
        self,
        opened: OpenedControl,
        found: Scanned,
        epoch: Epoch,
        report: RecoveryReport,
        lock: Box<dyn Send + Sync>,
    ) -> Result<Parts> {
        let OpenedControl {
            control,
            file: control_file,
            poison,
            ..
        } = opened;
        let Scanned {
            mut segments,
            mut spares,
            gaps,
            end,
            mut voids,
            earliest_void,
        } = found;
        let direct = self.chosen.force.plan.direct;
        let tail = end.state.at;
        let sequence = &end.state.sequence;
        let open_from = planted!("torn-append-kept", None, else sequence.open_from());
        let last_void = end.state.last_void.unwrap_or(Lsn::ORIGIN);
        // A device with larger blocks: no write may share a physical block with acknowledged records.
        let is_finer = |s: &Arc<Segment>| s.header.write_unit < self.unit;
        let has_finer = segments.containing(tail).as_ref().is_some_and(is_finer)
            || segments.above(tail).iter().any(is_finer);
        let at_end = tail >= control.prepared_end;
        let builder = self.builder(control.log_id, epoch);
        // A new segment after damage, too: no LSN that may have been read is used again.
        let fresh = end.lost.is_some()
            || has_finer
            || at_end
            || !self.check_prepared(&builder, &segments, tail)?;
        let segment = if fresh {
            let wanted = self.sizes.next(segments.bytes(), 0, self.runtime.now());
            let spare = self.sizes.take_spare(&mut spares, wanted);
            let len = spare.as_ref().map_or(wanted, |s| s.len);
            let at = control.prepared_end;
            let made = match builder.make(at, len, self.unit, spare.as_ref()) {
                // On a full disk a log must open, because only an open log can be truncated.
                Err(e) if e.is_full() && len > self.sizes.first => {
                    builder.make(at, self.sizes.first, self.unit, None)
                }
                made => made,
            };
            let segment = made.map_err(|e| self.no_space(e))?;
            let prepared_end = segment.header.end();
            segments.insert(segment.clone());
            let first = segment.header.first_batch();
            let limit = self.write_limit(&segments, first, prepared_end);
            control_file.update(&poison, |c| {
                c.prepared_end = prepared_end;
                c.write_limit = c.write_limit.max(limit);
            })?;
            segment
        } else {
            segments
                .containing(tail)
                .ok_or_else(|| self.no_segment_at(tail))?
        };
        segment.open_writer(direct)?;
        let lsn = tail.max(segment.header.first_batch());
        let void_from = if fresh && !at_end {
            Some(open_from.unwrap_or(tail))
        } else {
            open_from
        };
        let void_from = earliest_void.map_or(void_from, |lsn| {
            Some(void_from.map_or(lsn, |from| from.min(lsn)))
        });
        let mut given_up = std::mem::take(&mut segments.given_up);
        if let Some(lost) = &end.lost {
            // An empty range is not given up.
            if let Some(from) = void_from.filter(|from| *from < lsn) {
                given_up::write_marker(&self.dir, from, lsn, lost)?;
                given_up.push((from, lsn));
            }
        } else {
            // Only without damage: otherwise the batch that voids a range may be the one that is
            // damaged.
            given_up = given_up::remove_stale_markers(&self.dir, given_up, &voids, control.front)?;
        }
        let durable = self.chosen.barrier_is_durable;
        let header = write_epoch(
            &segment,
            BatchHeader {
                log_id: control.log_id,
                lsn,
                epoch,
                kind: BatchKind::Epoch,
                // `sync_recovered` has synced everything below the tail.
                stamp: if durable { tail } else { end.proven.min(tail) },
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
        // After damage (else `recover` has filled them), and only once that batch is durable: a crash
        // in between would leave an empty segment in place of the lost one, and the next opening
        // would not see the loss.
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
        if end.append_boundary.at < front {
            // The log was ended below the front, or in the append in which the front lies: it is
            // empty, and the records that the front had dropped must not come back.
            front = lsn;
            control_file.update(&poison, |c| {
                c.front = front;
                c.anchor = anchor;
            })?;
        }
        let open_ahead = match self.options.environment {
            Some(_) => 0,
            None => OPEN_AHEAD,
        };
        for next in segments.above(segment.header.start).iter().take(open_ahead) {
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
                sizes: self.sizes,
                filling: self.filling,
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
                given_up,
            },
            report,
            poison,
            metrics: self.metrics,
            lock,
        })
    }
}

/// Writes the epoch's first batch and forces it by a barrier, whatever the log's method is.
fn write_epoch(segment: &Arc<Segment>, mut header: BatchHeader) -> Result<BatchHeader> {
    let len = header.extent(segment.header.write_unit) as usize;
    let mut buf = AlignedBuf::zeroed(len, 65536);
    seal(&mut buf, &mut header);
    let file = segment.file()?;
    write(&*file, segment.offset(header.lsn), buf).map_err(Error::io("write", segment.path()))?;
    barrier(&*file, Barrier::Data, Why::Epoch).map_err(Error::io("sync", segment.path()))?;
    segment.note_batch(header.lsn);
    Ok(header)
}
