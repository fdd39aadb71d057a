//! Recovery: control file → segments → batches → decision table → durable end → a new epoch.
//!
//! The order of the steps matters. The comment of a step names the crash that requires it.
//!
//! - *Anchor*: a position below which everything is known to be durable (PostgreSQL: redo point).
//! - *Stamp*: the durable LSN inside a batch.
//! - *Epoch*: number and nonce of one opening for writing.
//! - *Spare*: a truncated segment, kept for reuse.
//! - *Void*: a range of records that `truncate_back`, or a repair, took out of the log.
//!
//! An opening changes nothing until it knows that it will not refuse the log. It refuses a damaged log.
//! `repair/` ends such a log before the damage.

mod epoch;
mod listing;
mod opening;
mod preflight;
mod prepared;
mod reconcile;
pub(crate) mod repair;
mod tail;

use crate::engine::start::{LogEnd, LogFiles, OpenSettings, Parts};
use crate::environment::fd_retry::{retry, retrying};
use crate::error::{Error, Result};
use crate::metrics::Metrics;
use crate::metrics::device::metered;
use crate::names;
use crate::options::{OpenMode, Options};
use crate::scan::coverage::{check_counters, gaps, lost_segment};
use crate::scan::end_of_log::{End, anchor_state, find_end};
use crate::scan::walk::types::WalkInput;
use crate::scan::walk::void_ranges::settle_void_ranges;
use crate::storage::builder::{OPEN_AHEAD, Spare};
use crate::storage::control_file::meta::LoadedMeta;
use crate::storage::control_file::{ControlFile, Loaded};
use crate::storage::directory::{check_path, directory_to_write, unusable_directory};
use crate::storage::segment::Segment;
use crate::storage::segment_sizes::SegmentSizes;
use crate::storage::segments::Segments;
use crate::storage::voids::Voids;
use crate::storage::zero_fill::{DeviceZeroes, Filling};
use crate::types::RecoveryReport;
use epoch::{OpenedControl, anchor_behind, epoch_header, move_front, write_epoch};
use logforce_commit::lock_wait::wait_for_lock;
use logforce_device::{Directory, System};
use logforce_format::{BatchHeader, Control, Epoch, Lsn, planted};
use opening::Opening;
use preflight::{check_directory, create};
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
    // Rejects options that no device supports, before anything is created.
    options.resolve_write_unit(0)?;
    let is_missing = |e: io::Error| e.kind() == io::ErrorKind::NotFound;
    let creates =
        mode != OpenMode::OpenExisting && system.directory(path).err().is_some_and(is_missing);
    let opened = wait_for_lock(
        &*system.runtime(),
        options.wait_for_lock,
        |opened| matches!(opened, Err(Error::Locked { .. })),
        || lock_log(system, path, mode, options.clone(), creates)?.recover(),
    );
    let opened = opened.map_err(|e| match e {
        // Returns the cause, because there is no open log yet that could be poisoned.
        Error::Poisoned { cause, .. } => Arc::unwrap_or_clone(cause),
        Error::NoLog { path, why } if is_vacant(system, &path) => Error::NoLog {
            path,
            why: format!("{why}: check the path, or set Options::create at the first start"),
        },
        e => e,
    });
    if creates && opened.is_err() {
        // The opening failed, perhaps because the guarantee is not available here. Removes the directory that
        // it created. A directory that is not empty, or cannot be removed, stays.
        let _ = system.remove_empty_directory(path);
    }
    opened
}

/// Returns true if nothing exists at the path, or if it is an empty directory. Only there an opening can
/// create a log: it never does where a log has lost its control file.
fn is_vacant(system: &dyn System, path: &Path) -> bool {
    match system.directory(path).and_then(|dir| dir.entries()) {
        Ok(entries) => entries.is_empty(),
        Err(e) => e.kind() == io::ErrorKind::NotFound,
    }
}

/// A log that is locked against other writers, before anything in it is changed.
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
        Some(shared) => retry(&shared.fd_budget, &*runtime, call),
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
            // An open directory would use a descriptor for as long as the log is open.
            dir.keep_closed();
            retrying(dir, shared.fd_budget.clone(), runtime.clone())
        }
        None => dir,
    };
    let dir = metered(dir, metrics.clone(), runtime.clone());
    check_directory(&dir, mode)?;
    let choice = options.method_choice(&dir, &*runtime);
    let facts = choice.facts();
    let facts = facts.map_err(Error::io("check the filesystem of", path))?;
    let unit = options.resolve_write_unit(facts.write_unit())?;
    let force = choice.choose(&facts).map_err(Error::Refused)?;
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
    // Locks the control file as well. Otherwise, if the lock file is deleted, a second process could open the
    // log, and destroy records that the first process acknowledges until it notices. A log in an environment
    // does not lock it, to save a second descriptor for each log.
    let lock: Box<dyn Send + Sync> =
        match options.environment.is_some() || planted!("control-unlocked") {
            true => lock,
            false => {
                let control = dir.lock_file(names::CONTROL);
                let control = control.map_err(locking(names::CONTROL))?;
                // The control file's lock is released first: a process that gets the lock of the lock file
                // must also get this one.
                Box::new((control, lock))
            }
        };
    let loaded = ControlFile::load(&dir)?;
    let created = loaded.control.prepared_end == Lsn::ORIGIN;
    // Asks the advisor after locking: a calibration must not load the disk if the lock is not available.
    let force = choice.advise(force, &facts, unit);
    let sizes = SegmentSizes::new(options.smallest_segment(), options.segment_size, unit);
    let filling = Filling::here(&facts, force.plan, options.force_of_bulk);
    let zeroes = DeviceZeroes::new(options.device_zeroes);
    let opening = Opening {
        dir,
        runtime,
        options,
        unit,
        sizes,
        force,
        filling,
        zeroes,
        metrics,
    };
    Ok(Locked {
        opening,
        loaded,
        created,
        lock,
    })
}

/// A log as the scan of an opening has found it, without damage.
struct Scanned {
    segments: Segments,
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
        let (scanned, leftovers) = opening.scan(&mut control, both_slots)?;
        let Scanned { segments, end, .. } = &scanned;
        // From here on, files are changed.
        let opened = opening.open_control(loaded, control)?;
        let spares = opening.clear_leftovers(segments, leftovers)?;
        opening.sync_recovered(segments, end)?;
        // Syncs the metadata before the control file lists it. Otherwise a crash in between would leave the
        // flag without durable slots.
        opened.file.sync_meta(&meta)?;
        let epoch = opening.next_epoch(&opened.control, end)?;
        opening.persist_epoch(epoch, &opened, segments, end, meta.bytes().is_some())?;
        opening.enforce_names(segments)?;
        reconcile::clear(&opening.dir);
        let report = RecoveryReport {
            created,
            end: end.state.at,
            case: end.case,
            scanned: end.scanned,
            batches: end.batches,
            resumed: end.resumed,
            clean: was_clean,
            method: opening.force.method,
            verdict: opening.force.verdict,
            evidence: opening.force.evidence.clone(),
        };
        opening.begin_epoch(opened, scanned, spares, epoch, report, lock)
    }
}

impl Opening {
    /// Finds the end of the log. Does not change the contents of the log.
    fn scan(&self, control: &mut Control, both_slots: bool) -> Result<(Scanned, Leftovers)> {
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
        let scanned = Scanned {
            segments,
            end,
            voids,
        };
        Ok((scanned, leftovers))
    }

    /// Writes and forces the epoch's first batch, and prepares the log for appends.
    fn begin_epoch(
        self,
        opened: OpenedControl,
        mut scanned: Scanned,
        mut spares: Vec<Spare>,
        epoch: Epoch,
        report: RecoveryReport,
        lock: Box<dyn Send + Sync>,
    ) -> Result<Parts> {
        let control = &opened.control;
        let (segment, is_skipping) =
            self.first_segment(&opened, &mut scanned, &mut spares, epoch)?;
        let Scanned {
            segments,
            end,
            mut voids,
        } = scanned;
        let direct = self.force.plan.direct;
        segment.open_writer(direct)?;
        let header = self.write_first_batch(control, &end, &segment, epoch, is_skipping)?;
        voids.add(header.void_from, header.lsn);
        let anchor = anchor_behind(&header, &segment);
        let durable = self.force.barrier_is_durable;
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
                force: self.force,
                barrier_is_durable: durable,
                unit: self.unit,
                sizes: self.sizes,
                filling: self.filling,
                zeroes: self.zeroes,
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

    /// Returns the segment of the epoch's first batch. Returns true if it is a new segment although the
    /// segment of the tail has space: the rest of that segment is skipped.
    fn first_segment(
        &self,
        opened: &OpenedControl,
        scanned: &mut Scanned,
        spares: &mut Vec<Spare>,
        epoch: Epoch,
    ) -> Result<(Arc<Segment>, bool)> {
        let control = &opened.control;
        let segments = &mut scanned.segments;
        let tail = scanned.end.state.at;
        // If the device has larger blocks than the segment's write unit, continues in a new segment: no write
        // may share a physical block with acknowledged records.
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
        let segment = self.make_segment(control, spares, epoch, wanted)?;
        self.list_segment(opened, segments, &segment)?;
        Ok((segment, !at_end))
    }

    /// Writes and forces the epoch's first batch, and returns its header. The batch voids an atomic append
    /// that is incomplete at the tail. If the rest of the tail's segment is skipped, the batch also voids
    /// everything from the tail on.
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
                stamp: match self.force.barrier_is_durable {
                    true => tail,
                    false => end.proven.min(tail),
                },
                void_from: void_from.unwrap_or(lsn),
                ..epoch_header(control, end, epoch, lsn)
            },
        )
    }
}

/// Fails if the log ends at damage.
fn refuse(end: &End) -> Result<()> {
    match &end.lost {
        Some(damage) => Err(Error::Damaged(Box::new(damage.clone()))),
        None => Ok(()),
    }
}
