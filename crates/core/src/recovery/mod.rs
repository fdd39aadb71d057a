//! Recovery: control file → segments → batches → decision table → durable end → a new epoch.
//!
//! The order of the steps matters; where a crash requires it, the step says which.
//!
//! *Anchor*: a position below which all is known to be durable (PostgreSQL: redo point). *Stamp*: the
//! durable LSN inside a batch. *Epoch*: number and nonce of one opening for writing. *Spare*: a
//! truncated segment, kept for reuse. *Void*: a range of records that `truncate_back`, or a repair, took
//! out of the log.
//!
//! An opening changes nothing before it knows that it will not refuse. At damage it refuses; `repair.rs`
//! ends a log there.

mod aside;
mod listing;
pub(crate) mod opening;
mod preflight;
mod prepared;
mod reconcile;
pub(crate) mod repair;
mod tail;

use crate::engine::start::{LogEnd, LogFiles, OpenSettings, Parts};
use crate::environment::fd_retry::{patient, patiently};
use crate::error::{Error, Result};
use crate::metrics::Metrics;
use crate::metrics::device::metered;
use crate::names;
use crate::options::{OpenMode, Options};
use crate::scan::batch::ScanState;
use crate::scan::coverage::{check_counters, gaps, lost_segment};
use crate::scan::end_of_log::{End, anchor_state, find_end};
use crate::scan::walk::types::WalkInput;
use crate::scan::walk::void_ranges::settle_void_ranges;
use crate::storage::builder::{OPEN_AHEAD, Spare};
use crate::storage::control_file::meta::LoadedMeta;
use crate::storage::control_file::{ControlFile, Loaded, check_counter};
use crate::storage::directory::{check_path, directory_to_write, unusable_directory};
use crate::storage::durability::{Why, barrier};
use crate::storage::segment::Segment;
use crate::storage::segment_sizes::SegmentSizes;
use crate::storage::segments::Segments;
use crate::storage::transfer::write;
use crate::storage::voids::Voids;
use crate::storage::zero_fill::Filling;
use crate::sync::poison::Poison;
use crate::types::RecoveryReport;
use logforce_device::{AlignedBuf, Barrier, Directory, System};
use logforce_format::{Anchor, BatchHeader, BatchKind, Control, Epoch, Lsn, planted, seal};
use opening::Opening;
use preflight::{advise, check_directory, choose, create, facts};
use reconcile::Leftovers;
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
    let opened = opening::wait_for_lock(
        &*system.runtime(),
        options.wait_for_lock,
        |opened| matches!(opened, Err(Error::Locked { .. })),
        || lock_log(system, path, mode, options.clone(), creates)?.recover(),
    );
    let opened = opened.map_err(|e| match e {
        // An opening returns the cause: there is no open log yet that could be poisoned.
        Error::Poisoned { cause, .. } => Arc::unwrap_or_clone(cause),
        e => e,
    });
    if creates && opened.is_err() {
        // The opening failed, perhaps because the guarantee is not available here: removes the
        // directory that it created. It stays if it is not empty or cannot be removed.
        let _ = system.remove_empty_directory(path);
    }
    opened
}

/// A log that nobody else writes, before anything in it is changed.
struct Locked {
    opening: Opening,
    loaded: Loaded,
    created: bool,
    lock: Box<dyn Send + Sync>,
}

/// Locks the log, or creates it.
fn lock_log(
    system: &dyn System,
    path: &Path,
    mode: OpenMode,
    options: Options,
    creates: bool,
) -> Result<Locked> {
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
    Ok(Locked {
        opening,
        loaded,
        created,
        lock,
    })
}

/// The control file, opened for changes, and what it said before.
struct OpenedControl {
    control: Control,
    file: ControlFile,
    poison: Poison,
}

/// The result of the scan.
struct Scanned {
    segments: Segments,
    leftovers: Leftovers,
    end: End,
    voids: Voids,
}

impl Locked {
    fn recover(self) -> Result<Parts> {
        let Locked {
            opening,
            loaded,
            created,
            lock,
        } = self;
        let path = opening.dir.path();
        check_counters(&loaded.control, path)?;
        let meta = LoadedMeta::load(&opening.dir, &loaded.control)?;
        if let Some(damage) = meta.lost(path) {
            return Err(Error::Damaged(Box::new(damage)));
        }
        let (mut control, both_slots) = (loaded.control.clone(), loaded.both);
        let was_clean = control.clean && both_slots && !created;
        let Scanned {
            segments,
            leftovers,
            end,
            voids,
        } = opening.scan(&mut control, both_slots)?;
        // From here on it changes files.
        let opened = opening.open_control(loaded, control)?;
        let spares = opening.clear_leftovers(&segments, leftovers)?;
        opening.sync_recovered(&segments, &end)?;
        // Before the control file says that there is metadata: a crash in between would leave the
        // flag without durable slots.
        opened.file.sync_meta(&meta)?;
        let epoch = opening.next_epoch(&opened.control, &end)?;
        opening.persist_epoch(epoch, &opened, &segments, &end, meta.bytes().is_some())?;
        opening.enforce_names(&segments)?;
        reconcile::clear(&opening.dir);
        let report = RecoveryReport {
            created,
            end: end.state.at,
            case: end.case,
            scanned: end.scanned,
            batches: end.batches,
            resumed: end.resumed,
            clean: was_clean,
            method: opening.chosen.force.method,
            verdict: opening.chosen.force.verdict,
            evidence: opening.chosen.force.evidence.clone(),
        };
        let found = Found {
            segments,
            spares,
            end,
            voids,
        };
        opening.begin_epoch(opened, found, epoch, report, lock)
    }
}

/// The log that an opening goes on with.
struct Found {
    segments: Segments,
    spares: Vec<Spare>,
    end: End,
    voids: Voids,
}

impl Opening {
    /// Finds where the log ends. Changes none of its contents.
    fn scan(&self, control: &mut Control, both_slots: bool) -> Result<Scanned> {
        let (segments, leftovers) = self.list_segments(control, both_slots)?;
        let path = self.dir.path();
        if let Some(&(lsn, _)) = gaps(&segments, control).first() {
            let lost = lost_segment(path, &segments, lsn, control);
            return Err(Error::Damaged(Box::new(lost)));
        }
        let mut end = find_end(&segments, control, anchor_state(control), both_slots, path)?;
        refuse(&end)?;
        self.verify_tail(&segments, control, &mut end)?;
        refuse(&end)?;
        let voids = settle_void_ranges(
            WalkInput::new(&self.dir, &segments, control, both_slots),
            &mut end,
        )?;
        Ok(Scanned {
            segments,
            leftovers,
            end,
            voids,
        })
    }

    fn open_control(&self, loaded: Loaded, control: Control) -> Result<OpenedControl> {
        let keeps_open = self.options.environment.is_none();
        let (dir, runtime) = (self.dir.clone(), self.runtime.clone());
        Ok(OpenedControl {
            control,
            file: ControlFile::open(dir, loaded, runtime, keeps_open)?,
            poison: Poison::default(),
        })
    }

    /// Syncs the segments that the scan has read before anything depends on them. A process that crashed
    /// before its barrier may have left their bytes only in the system's cache. If the opening may fill
    /// blocks, also syncs the segments that are written next: the blocks of a file that was just copied may
    /// be only in the cache.
    fn sync_recovered(&self, segments: &Segments, end: &End) -> Result<()> {
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

    /// The limit of what may be written from `at` on, in segments up to `end`: with room for the epoch's
    /// batch, wherever it comes to lie.
    fn write_limit(&self, segments: &Segments, at: Lsn, end: Lsn) -> Lsn {
        let units = segments.all();
        let units = units.iter().map(|s| s.header.write_unit);
        let unit = units.chain([self.unit]).max().unwrap_or(self.unit);
        let step = self.options.write_limit_step.max(4 * u64::from(unit));
        at.plus(step).min(end)
    }

    /// Returns the epoch of this opening.
    fn next_epoch(&self, control: &Control, end: &End) -> Result<Epoch> {
        // Above the last batch's too: if one slot of the control file is damaged, the other may not
        // list the latest opening.
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

    /// Writes the new epoch to the control file before a batch carries it. In the other order, the
    /// next opening after a crash could use the same number for another history.
    fn persist_epoch(
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
            // Never lower: after a crash before the epoch's batch is durable, the next opening must see
            // what this one has seen.
            c.write_limit = match control.write_limit {
                Lsn::ORIGIN => control.prepared_end,
                known => known.max(limit),
            };
            c.clean = false;
            c.has_meta |= meta;
            // A repair moves the anchor back, to the start of the damage: after a crash before the
            // new epoch's batch is durable, the next opening must find the damage again.
            c.anchor = anchor_at(&end.append_boundary, c);
            c.front = c.front.min(c.anchor.lsn);
        })
    }

    /// Writes and forces the epoch's first batch, and prepares the log for appends.
    fn begin_epoch(
        self,
        opened: OpenedControl,
        mut found: Found,
        epoch: Epoch,
        report: RecoveryReport,
        lock: Box<dyn Send + Sync>,
    ) -> Result<Parts> {
        let control = &opened.control;
        let (segment, is_skipping) = self.first_segment(&opened, &mut found, epoch)?;
        let Found {
            segments,
            spares,
            end,
            mut voids,
        } = found;
        let direct = self.chosen.force.plan.direct;
        segment.open_writer(direct)?;
        let header = self.write_first_batch(control, &end, &segment, epoch, is_skipping)?;
        voids.add(header.void_from, header.lsn);
        let anchor = anchor_behind(&header, &segment);
        let durable = self.chosen.barrier_is_durable;
        let stamp = if durable { anchor.lsn } else { header.stamp };
        let front = move_front(&opened, &end, anchor, header.lsn)?;
        let OpenedControl {
            control,
            file: control_file,
            poison,
        } = opened;
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
            },
            report,
            poison,
            metrics: self.metrics,
            lock,
        })
    }

    /// Returns the segment of the epoch's first batch. True if that is a new one although the tail's has
    /// space: what is left of that is skipped.
    fn first_segment(
        &self,
        opened: &OpenedControl,
        found: &mut Found,
        epoch: Epoch,
    ) -> Result<(Arc<Segment>, bool)> {
        let control = &opened.control;
        let segments = &mut found.segments;
        let tail = found.end.state.at;
        // A device with larger blocks: no write may share a physical block with acknowledged records.
        let is_finer = |s: &Arc<Segment>| s.header.write_unit < self.unit;
        let has_finer = segments.containing(tail).as_ref().is_some_and(is_finer)
            || segments.above(tail).iter().any(is_finer);
        let at_end = tail >= control.prepared_end;
        let builder = self.builder(control.log_id, epoch);
        let fresh = has_finer || at_end || !self.check_prepared(&builder, segments, tail)?;
        if !fresh {
            let segment = segments.containing(tail);
            return Ok((segment.ok_or_else(|| self.no_segment_at(tail))?, false));
        }
        let wanted = self.sizes.next(segments.bytes(), 0, self.runtime.now());
        let segment = self.make_segment(control, &mut found.spares, epoch, wanted)?;
        self.list_segment(opened, segments, &segment)?;
        Ok((segment, !at_end))
    }

    /// Writes and forces the epoch's first batch, which voids an atomic append that the tail has cut off,
    /// and all from the tail on if that is skipped. Returns its header.
    fn write_first_batch(
        &self,
        control: &Control,
        end: &End,
        segment: &Arc<Segment>,
        epoch: Epoch,
        is_skipping: bool,
    ) -> Result<BatchHeader> {
        let tail = end.state.at;
        let open_from = planted!("torn-append-kept", None, else end.state.sequence.open_from());
        let lsn = tail.max(segment.header.first_batch());
        let void_from = match is_skipping {
            true => Some(open_from.unwrap_or(tail)),
            false => open_from,
        };
        write_epoch(
            segment,
            BatchHeader {
                // `sync_recovered` has synced everything below the tail.
                stamp: match self.chosen.barrier_is_durable {
                    true => tail,
                    false => end.proven.min(tail),
                },
                void_from: void_from.unwrap_or(lsn),
                ..epoch_header(control, end, epoch, lsn)
            },
        )
    }

    /// Prepares a segment behind all others. The control file does not list it yet.
    fn make_segment(
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

    /// Has the control file list a segment that was made behind all others.
    fn list_segment(
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

/// Fails if the log ends at damage.
fn refuse(end: &End) -> Result<()> {
    match &end.lost {
        Some(damage) => Err(Error::Damaged(Box::new(damage.clone()))),
        None => Ok(()),
    }
}

/// The header of the batch at `lsn` by which an epoch continues behind `end`, voiding nothing.
fn epoch_header(control: &Control, end: &End, epoch: Epoch, lsn: Lsn) -> BatchHeader {
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

/// The anchor at a boundary.
fn anchor_at(state: &ScanState, control: &Control) -> Anchor {
    Anchor {
        lsn: state.at,
        prev_crc: state.prev_crc.unwrap_or(control.first_prev_crc),
        epoch: state.epoch.unwrap_or_default(),
        last_void: state.last_void.unwrap_or(Lsn::ORIGIN),
    }
}

/// The anchor behind the first batch of an epoch.
fn anchor_behind(header: &BatchHeader, segment: &Segment) -> Anchor {
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

/// Moves the front to `lsn`, where an epoch begins, if the log was ended below the front, or in the append in
/// which the front lies: it is empty then, and the records that the front had dropped must not come back.
/// Returns the front.
fn move_front(opened: &OpenedControl, end: &End, anchor: Anchor, lsn: Lsn) -> Result<Lsn> {
    if end.append_boundary.at >= opened.control.front {
        return Ok(opened.control.front);
    }
    opened.file.update(&opened.poison, |c| {
        c.front = lsn;
        c.anchor = anchor;
    })?;
    Ok(lsn)
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
