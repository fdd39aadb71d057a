//! The way back: control file → segments → batches → decision table → durable end → a new epoch.
//!
//! Order matters here; each step names the crash that the order is for.

use crate::control_file::{ControlFile, Loaded};
use crate::log::{Recovered, Shared, Signal};
use crate::options::{Creation, OnDamage, Options};
use crate::poison::Poison;
use crate::prepare::{Preparing, Spare, retire, zeroes_help};
use crate::scan::{Scan, ScanState, Stop};
use crate::search::stamp_behind;
use crate::segments::{Listing, Segment, Segments, list};
use crate::stage::Stage;
use crate::view::View;
use crate::voids::Voids;
use crate::writer::{Role, anchor};
use crate::{Damage, Error, Result, names};
use logforce_device::{
    AlignedBuf, Assessment, Barrier, Directory, Facts, FileState, Guarantee, Method, ReadSource,
    Runtime, System, Verdict, Write,
};
use logforce_format::frame::Sequence;
use logforce_format::{
    Anchor, BATCH_HEADER_LEN, BatchHeader, BatchKind, Case, Control, Decision, Epoch, LogId, Lsn,
    MAX_SEGMENT_LEN, MIN_WRITE_UNIT, Seen, SegmentHeader, decide, seal,
};
use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

/// Opens a log for writing; see `Log::open`.
pub(crate) fn open(
    system: &dyn System,
    path: &Path,
    creation: Creation,
    options: Options,
) -> Result<Shared> {
    let runtime = system.runtime();
    let dir = match creation {
        Creation::OpenExisting => existing_directory(system, path)?,
        _ => system
            .make_directory(path)
            .map_err(|e| unusable_directory(e, "make the directory", path))?,
    };
    look(&dir, creation)?;
    let facts = dir
        .facts()
        .map_err(Error::io("look at the filesystem of", path))?;
    let unit = options.resolve_write_unit(facts.write_unit())?;
    let chosen = choose(&options, &facts, path)?;
    let lock = dir.lock(names::LOCK).map_err(|e| match e.kind() {
        io::ErrorKind::WouldBlock => Error::Locked {
            path: path.to_owned(),
        },
        _ => Error::io("lock", path.join(names::LOCK))(e),
    })?;
    // Somebody may have made it between the look and the lock.
    let present = look(&dir, creation)?;
    if !present {
        create(&dir, &*runtime)?;
    }
    let loaded = ControlFile::load(&dir)?;
    let created = loaded.control.prepared_end == Lsn::ORIGIN;
    let opening = Opening {
        dir,
        runtime,
        options,
        unit,
        chosen,
        fill: zeroes_help(facts.kind),
    };
    opening.recover(loaded, created, lock)
}

pub(crate) fn existing_directory(system: &dyn System, path: &Path) -> Result<Arc<dyn Directory>> {
    system.directory(path).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => Error::NoLog {
            path: path.to_owned(),
            why: "the directory does not exist".to_owned(),
        },
        _ => unusable_directory(e, "open the directory", path),
    })
}

fn unusable_directory(e: io::Error, doing: &'static str, path: &Path) -> Error {
    match e.kind() {
        io::ErrorKind::NotADirectory => Error::NotALog {
            path: path.to_owned(),
            why: "it is no directory".to_owned(),
        },
        _ => Error::io(doing, path)(e),
    }
}

/// Whether there is a log, and whether the caller may have what it asks for.
fn look(dir: &Arc<dyn Directory>, creation: Creation) -> Result<bool> {
    let path = dir.path().to_owned();
    let entries = dir.entries().map_err(Error::io("list", &path))?;
    let kinds: Vec<_> = entries.iter().map(|e| (names::kind(&e.name), e)).collect();
    if kinds.iter().any(|(k, _)| *k == names::NameKind::Control) {
        let unfinished = || {
            // No segment ever came into use: an opening that was to make it failed, or crashed.
            ControlFile::load(dir).is_ok_and(|l| l.control.prepared_end == Lsn::ORIGIN)
        };
        return if creation == Creation::CreateNew && !unfinished() {
            Err(Error::AlreadyExists { path })
        } else {
            Ok(true)
        };
    }
    // Never a fresh log over the remains of one: its acknowledged records would be gone in silence.
    if let Some((_, e)) = kinds
        .iter()
        .find(|(k, _)| matches!(k, names::NameKind::Segment | names::NameKind::Spare))
    {
        let why = format!(
            "it has the segment '{}' but no '{}' file: put it back, or save what there is with `logforce dump --salvage`",
            e.name,
            names::CONTROL
        );
        return Err(Error::NoLog { path, why });
    }
    if let Some((_, e)) = kinds.iter().find(|(k, _)| *k == names::NameKind::Foreign) {
        let why = format!("it holds '{}' and no '{}' file", e.name, names::CONTROL);
        return Err(Error::NotALog { path, why });
    }
    match creation {
        Creation::OpenExisting => Err(Error::NoLog {
            path,
            why: "the directory is empty".to_owned(),
        }),
        _ => Ok(false),
    }
}

fn create(dir: &Arc<dyn Directory>, runtime: &dyn Runtime) -> Result<()> {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&runtime.random().to_le_bytes());
    id[8..].copy_from_slice(&runtime.random().to_le_bytes());
    let control = Control {
        log_id: LogId(id),
        sequence: 1,
        clean: true,
        ..Control::default()
    };
    ControlFile::create(dir, &control)
}

struct Chosen {
    method: Method,
    guarantee: Guarantee,
    barrier_is_durable: bool,
}

/// Settles the method, and refuses what cannot be had.
fn choose(options: &Options, facts: &Facts, path: &Path) -> Result<Chosen> {
    let default = if facts.direct.is_some() {
        Method::DirectDsync
    } else {
        Method::Dsync
    };
    let method = options.method.unwrap_or(default);
    let state = FileState::Zeroed;
    let Some(Assessment {
        guarantee,
        verdict: _,
        evidence,
    }) = facts.assess(method, state)
    else {
        return Err(Error::Method {
            path: path.to_owned(),
            method,
            why: format!("{} has no direct I/O here", facts.filesystem),
        });
    };
    if guarantee < options.require {
        return Err(Error::Guarantee {
            path: path.to_owned(),
            method,
            wanted: options.require,
            got: guarantee,
            evidence,
        });
    }
    let barrier_is_durable = facts
        .assess(Method::Fdatasync, state)
        .is_some_and(|a| a.guarantee == Guarantee::PowerLoss && a.verdict != Verdict::Contradicted);
    Ok(Chosen {
        method,
        guarantee,
        barrier_is_durable,
    })
}

struct Opening {
    dir: Arc<dyn Directory>,
    runtime: Arc<dyn Runtime>,
    options: Options,
    unit: u32,
    chosen: Chosen,
    fill: bool,
}

/// Where the log ends and how we know.
pub(crate) struct End {
    pub(crate) state: ScanState,
    pub(crate) case: Case,
    /// The highest position known to have been durable.
    pub(crate) trusted: Lsn,
    /// The boundary at or below `trusted` from which the tail is read again.
    settled: ScanState,
    /// The last boundary at which no append is begun and not ended.
    closed: ScanState,
    pub(crate) lost: Option<Damage>,
    /// Segments that were read from, by start.
    read: Vec<Lsn>,
    scanned: u64,
}

impl Opening {
    fn recover(self, loaded: Loaded, created: bool, lock: Box<dyn Send + Sync>) -> Result<Shared> {
        let mut control = loaded.control.clone();
        let both_slots = loaded.both;
        let control_file = ControlFile::open(self.dir.clone(), loaded, self.runtime.clone())?;
        let poison = Poison::default();
        let (mut segments, spares) = self.take_stock(&mut control, both_slots)?;
        let gaps = gaps(&segments, &control);
        let mut start = anchor_state(&control);
        if let Some(&(lsn, _)) = gaps.first() {
            if self.options.on_damage == OnDamage::Refuse {
                return Err(Error::Damaged(Box::new(lost_segment(
                    &self.dir, lsn, &control,
                )?)));
            }
            if lsn < start.at {
                // What comes before the gap is all there will be: find out where that ends.
                start = first_state(&control);
            }
        }
        let mut end = find_end(
            &segments,
            &control,
            start,
            both_slots,
            self.dir.path(),
            self.options.on_damage,
        )?;
        self.settle_tail(&segments, &control, &mut end)?;
        let path = self.dir.path();
        let voids = match collect_voids(&segments, &control, end.state.last_void, path) {
            Err(Error::Damaged(_)) if self.options.on_damage == OnDamage::Truncate => {
                // Which records the lost void batch took back nobody knows: the log ends before it,
                // though the opening's own scan begins higher.
                let start = first_state(&control);
                let how = self.options.on_damage;
                end = find_end(&segments, &control, start, both_slots, path, how)?;
                collect_voids(&segments, &control, end.state.last_void, path)?
            }
            other => other?,
        };

        // Everything that was believed is forced before anything builds on it: what was read may
        // be in the system's cache only, written by a process that crashed before its barrier.
        for segment in segments.all() {
            if end.read.contains(&segment.header.start) {
                let file = segment.file()?;
                file.barrier(Barrier::Full)
                    .map_err(Error::io("sync", segment.path()))?;
            }
        }
        self.dir
            .sync()
            .map_err(Error::io("sync directory", self.dir.path()))?;

        // The epoch is in the control file before a batch carries it. Otherwise a crash could lose
        // both, and a second opening would take the same number for another history.
        // Above the last batch's too: where a slot of the control file rotted, the other may not
        // know the latest opening.
        let last_epoch = end.state.epoch.unwrap_or_default();
        let epoch = Epoch {
            counter: control.epoch.counter.max(last_epoch.counter) + 1,
            nonce: self.runtime.random(),
        };
        let tail = end.state.at;
        let open_from = end.state.sequence.open_from();
        let prev_epoch = end.state.epoch.unwrap_or_default();
        let prev_crc = end.state.prev_crc.unwrap_or(control.first_prev_crc);
        let last_void = end.state.last_void.unwrap_or(Lsn::ORIGIN);
        control_file.update(&poison, |c| {
            if c.epoch.counter > 0 {
                c.history.insert(0, c.epoch);
            }
            if last_epoch.counter > c.epoch.counter {
                c.history.insert(0, last_epoch);
            }
            c.history.truncate(logforce_format::EPOCH_HISTORY);
            c.epoch = epoch;
            c.prepared_end = control.prepared_end;
            c.clean = false;
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
        self.fill_gaps(&mut segments, &control, epoch, gaps)?;

        let mut preparing = Prepared {
            opening: &self,
            log_id: control.log_id,
            epoch,
            spares,
        };
        let finer = |s: &Arc<Segment>| s.header.write_unit < self.unit;
        let coarser = segments.containing(tail).as_ref().is_some_and(finer)
            || segments.above(tail).iter().any(finer);
        let at_end = tail >= control.prepared_end;
        let mut prepared_end = control.prepared_end;
        // After damage, and on a coarser device, a segment of its own: no LSN that may have been
        // read is used again, and no write shares a physical block with acknowledged data.
        let fresh = end.lost.is_some() || coarser || at_end;
        let segment = if fresh {
            let segment = preparing.make(prepared_end)?;
            prepared_end = segment.header.end();
            segments.insert(segment.clone());
            control_file.update(&poison, |c| c.prepared_end = prepared_end)?;
            segment
        } else {
            let Some(segment) = segments.containing(tail) else {
                return Err(self.impossible(tail));
            };
            segment
        };
        let spares = std::mem::take(&mut preparing.spares);
        drop(preparing);

        segment.open_writer(self.chosen.method.plan().direct)?;
        let lsn = tail.max(segment.header.first_batch());
        let void_from = if fresh && !at_end {
            Some(open_from.unwrap_or(tail))
        } else {
            open_from
        };
        // Everything below the tail was barriered above.
        let stamp = if self.chosen.barrier_is_durable {
            tail
        } else {
            end.trusted.min(tail)
        };
        let header = BatchHeader {
            log_id: control.log_id,
            lsn,
            epoch,
            kind: BatchKind::Epoch,
            stamp,
            void_from: void_from.unwrap_or(lsn),
            last_void,
            prev_crc,
            payload_len: 0,
            payload_crc: 0,
            frames: 0,
            prev_epoch,
            crc: 0,
        };
        let header = write_epoch(&segment, header)?;
        let mut voids = voids;
        if header.voids() {
            voids.add(header.void_from, header.lsn);
        }
        let written = header.end(segment.header.write_unit);
        let role = Role {
            prev_crc: header.crc,
            last_void: if header.voids() {
                header.lsn
            } else {
                last_void
            },
            written,
            open_from: None,
            stamp: if self.chosen.barrier_is_durable {
                written
            } else {
                header.stamp
            },
            unforced: Vec::new(),
            batches: 0,
        };
        let anchor = anchor(&role, epoch);
        let mut front = control.front;
        if tail < front {
            // Cut below the front: nothing is left, and what the front had taken away must not
            // come back.
            front = header.lsn;
            control_file.update(&poison, |c| {
                c.front = front;
                c.anchor = anchor;
            })?;
        }
        let upcoming: VecDeque<Arc<Segment>> = segments.above(segment.header.start).into();
        for next in &upcoming {
            next.open_writer(self.chosen.method.plan().direct)?;
        }
        poison
            .durable
            .store(written.0, std::sync::atomic::Ordering::Release);
        // Segments of an earlier opening may need longer writes than this one was asked for.
        let units = std::iter::once(&segment).chain(&upcoming);
        let longest_unit = units.map(|s| s.header.write_unit).max().unwrap_or(0);
        let max_batch = self.options.max_batch.max(2 * longest_unit);
        let stage = Stage::new(
            written,
            segment,
            upcoming,
            max_batch.next_multiple_of(longest_unit),
            self.options.staging,
            role,
            anchor,
        );
        let Opening {
            dir,
            runtime,
            options,
            unit,
            chosen,
            fill,
        } = self;
        let view = View {
            process: runtime.process(),
            path: dir.path().to_owned(),
            log_id: control.log_id,
            segments: Mutex::new(segments),
            voids: Mutex::new(voids),
            durable: written.0.into(),
            front: front.0.into(),
            runtime,
            dir,
        };
        Ok(Shared {
            view: Arc::new(view),
            epoch,
            plan: chosen.method.plan(),
            method: chosen.method,
            guarantee: chosen.guarantee,
            barrier_is_durable: chosen.barrier_is_durable,
            unit,
            fill,
            stage: Mutex::new(stage),
            spares: Mutex::new(spares),
            control: control_file,
            poison,
            progress: Signal::default(),
            work: Signal::default(),
            prepare: Signal::default(),
            service_parked: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            recovered: Recovered {
                created,
                end: tail,
                case: end.case,
                scanned: end.scanned,
                lost: end.lost,
                clean: control.clean && both_slots && !created,
            },
            lock: Mutex::new(Some(lock)),
            options,
        })
    }

    /// Lists what is there and clears away what an interrupted preparation, truncation or
    /// recycling left behind.
    fn take_stock(
        &self,
        control: &mut Control,
        both_slots: bool,
    ) -> Result<(Segments, Vec<Spare>)> {
        let Listing {
            mut segments,
            broken: _,
            spares,
            preparing,
        } = list(&self.dir, control.log_id)?;
        for name in preparing {
            self.dir
                .remove(&name)
                .map_err(Error::io("remove", self.dir.path().join(&name)))?;
        }
        let mut spares: Vec<Spare> = spares
            .into_iter()
            .map(|(name, len)| Spare { name, len })
            .collect();
        if !both_slots {
            adopt(&segments, control);
        }
        // Below the front: the crash came between the control file and the renaming. At or above
        // the prepared end: between the preparation and the control file.
        let mut loose = segments.take_below(control.first_segment);
        loose.extend(segments.take_from(control.prepared_end));
        for segment in loose {
            let keep = spares.len() < self.options.spares
                && segment.header.len == self.options.segment_len;
            spares.extend(retire(&self.dir, &segment, keep)?);
        }
        spares.retain(|s| {
            let keep = s.len == self.options.segment_len;
            if !keep {
                // A left-over costs space and nothing else.
                let _ = self.dir.remove(&s.name);
            }
            keep
        });
        Ok((segments, spares))
    }

    /// Puts empty segments where some are missing, so that the control file's promise holds again.
    fn fill_gaps(
        &self,
        segments: &mut Segments,
        control: &Control,
        epoch: Epoch,
        gaps: Vec<(Lsn, Lsn)>,
    ) -> Result<()> {
        for (mut from, to) in gaps {
            let name = names::segment(from);
            match self.dir.rename(&name, &names::set_aside(&name)) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => {
                    return Err(Error::io("rename", self.dir.path().join(&name))(e));
                }
                _ => {}
            }
            while from < to {
                let rest = to.since(from);
                let len = if rest > MAX_SEGMENT_LEN {
                    MAX_SEGMENT_LEN / 2
                } else {
                    rest
                };
                let fits = |unit: &u32| SegmentHeader::geometry_is_valid(from, len, *unit);
                let Some(unit) = [4096, MIN_WRITE_UNIT].into_iter().find(fits) else {
                    return Err(self.impossible(from));
                };
                let segment = self
                    .preparing(control.log_id, epoch)
                    .make(from, len, unit, None)
                    .map_err(|e| self.full(e))?;
                segment.writer_done();
                segments.insert(segment);
                from = from.plus(len);
            }
        }
        Ok(())
    }

    fn preparing(&self, log_id: LogId, epoch: Epoch) -> Preparing<'_> {
        static GO_ON: AtomicBool = AtomicBool::new(false);
        Preparing {
            dir: &self.dir,
            log_id,
            epoch,
            direct: self.chosen.method.plan().direct,
            fill: self.fill,
            stop: &GO_ON,
        }
    }

    fn full(&self, e: Error) -> Error {
        match e {
            Error::Io { ref source, .. } if e.is_full() => Error::NoSpace {
                path: self.dir.path().to_owned(),
                need: self.options.segment_len,
                source: source.clone(),
            },
            other => other,
        }
    }

    fn impossible(&self, at: Lsn) -> Error {
        Error::Damaged(Box::new(Damage {
            lsn: at,
            case: Case::SegmentLost,
            path: self.dir.path().to_owned(),
            file: None,
            offset: 0,
            found: "no segment holds the end of the log".to_owned(),
            durable_to: at,
        }))
    }

    /// Believes only the medium above the last trusted stamp. After a failed barrier the system's
    /// cache returns bytes that the device never got, and a new barrier "succeeds"; so the tail is
    /// read again past the cache, or, where that cannot be done, written again and forced.
    fn settle_tail(&self, segments: &Segments, control: &Control, end: &mut End) -> Result<()> {
        let cached_end = end.state.at;
        let from = end.settled;
        if cached_end <= end.trusted || cached_end <= from.at {
            return Ok(());
        }
        let probe = segments
            .containing(from.at)
            .or_else(|| segments.containing(cached_end));
        if !probe.as_ref().is_some_and(reads_medium) {
            return rewrite(
                segments,
                from.at,
                cached_end,
                self.chosen.method.plan().direct,
            );
        }
        let mut scan = Scan::new(segments, control, ReadSource::Medium, from);
        let mut closed = from;
        let stop = loop {
            let step = scan.next().map(|batch| batch.end);
            match step {
                Ok(batch_end) if batch_end >= cached_end => return Ok(()),
                Ok(_) => {}
                Err(stop) => break stop,
            }
            if scan.state.sequence.open_from().is_none() {
                closed = scan.state;
            }
        };
        let trusted = end.trusted;
        if stop.seen == Seen::Unreadable && self.options.on_damage == OnDamage::Refuse {
            let d = damage(self.dir.path(), segments, &stop, Case::ReadError, trusted);
            return Err(Error::Damaged(Box::new(d)));
        }
        // The cache lied: what lies between was never on the medium, so no force ever covered it.
        end.case = decide(stop.seen, false, false);
        end.state = scan.state;
        end.closed = closed;
        end.lost = None;
        for segment in segments.all() {
            if segment.header.end() > end.state.at && segment.header.start < cached_end {
                segment
                    .file()?
                    .drop_cache(segment.offset(end.state.at)..segment.header.len);
            }
        }
        Ok(())
    }
}

/// Segments that opening itself has to prepare.
struct Prepared<'a> {
    opening: &'a Opening,
    log_id: LogId,
    epoch: Epoch,
    spares: Vec<Spare>,
}

impl Prepared<'_> {
    fn make(&mut self, start: Lsn) -> Result<Arc<Segment>> {
        let o = self.opening;
        let spare = self.spares.pop();
        o.preparing(self.log_id, self.epoch)
            .make(start, o.options.segment_len, o.unit, spare.as_ref())
            .map_err(|e| o.full(e))
    }
}

/// Takes in the segments that follow the last announced one. Where one slot of the control file is
/// damaged, the other may be the older, and not know of segments that hold acknowledged data.
pub(crate) fn adopt(segments: &Segments, control: &mut Control) {
    while let Some(next) = segments.containing(control.prepared_end) {
        control.prepared_end = next.header.end();
    }
}

/// The parts of `[first_segment, prepared_end)` that no segment holds.
pub(crate) fn gaps(segments: &Segments, control: &Control) -> Vec<(Lsn, Lsn)> {
    let mut gaps = Vec::new();
    let mut at = control.first_segment;
    for segment in segments.all() {
        if segment.header.start > at && at < control.prepared_end {
            gaps.push((at, segment.header.start.min(control.prepared_end)));
        }
        at = at.max(segment.header.end());
    }
    if at < control.prepared_end {
        gaps.push((at, control.prepared_end));
    }
    gaps
}

/// Says which segment is missing or has a broken header.
pub(crate) fn lost_segment(
    dir: &Arc<dyn Directory>,
    lsn: Lsn,
    control: &Control,
) -> Result<Damage> {
    let broken = list(dir, control.log_id)?.broken;
    let named = broken
        .into_iter()
        .find(|(name, _)| names::claimed_start(name) == Some(lsn));
    let (file, found) = match named {
        Some((name, why)) => (Some(name), format!("this segment is unusable: {why}")),
        None => (
            Some(names::segment(lsn)),
            format!(
                "the control file says that segments up to LSN {} exist, this one is missing",
                control.prepared_end
            ),
        ),
    };
    Ok(Damage {
        lsn,
        case: Case::SegmentLost,
        path: dir.path().to_owned(),
        file,
        offset: 0,
        found,
        durable_to: control.anchor.lsn,
    })
}

/// The state from which the scan at opening starts.
pub(crate) fn anchor_state(control: &Control) -> ScanState {
    let a = &control.anchor;
    ScanState {
        at: a.lsn,
        epoch: Some(a.epoch),
        prev_crc: Some(a.prev_crc),
        last_void: Some(a.last_void),
        sequence: Sequence::default(),
    }
}

/// The state for a scan of everything.
pub(crate) fn first_state(control: &Control) -> ScanState {
    let virgin = control.first_segment == Lsn::ORIGIN;
    ScanState {
        at: control.first_segment,
        // A log that was truncated at the front begins with a batch of any of its epochs.
        epoch: virgin.then(Epoch::default),
        // In salvage there is no control file to know it from.
        prev_crc: (control.sequence > 0).then_some(control.first_prev_crc),
        last_void: virgin.then_some(Lsn::ORIGIN),
        // And in the middle of a record, if one spans the segments that are gone and this one.
        sequence: if virgin {
            Sequence::default()
        } else {
            Sequence::unknown()
        },
    }
}

/// Scans from `state` to the log's end, jumping where a later opening did.
pub(crate) fn find_end(
    segments: &Segments,
    control: &Control,
    state: ScanState,
    both_slots: bool,
    path: &Path,
    on_damage: OnDamage,
) -> Result<End> {
    let mut trusted = state.at;
    // Boundaries from the last trusted one on; a stamp that is found lets the earlier ones go.
    let mut boundaries = VecDeque::from([state]);
    let mut closed = state;
    let mut read: Vec<Lsn> = Vec::new();
    let mut scanned = 0;
    let mut scan = Scan::new(segments, control, ReadSource::Cache, state);
    let stop = loop {
        let (header, end) = match scan.next() {
            Ok(batch) => (batch.header, batch.end),
            Err(stop) => break stop,
        };
        trusted = trusted.max(header.stamp);
        scanned += end.since(header.lsn);
        if let Some(s) = segments.containing(header.lsn)
            && read.last() != Some(&s.header.start)
        {
            read.push(s.header.start);
        }
        boundaries.push_back(scan.state);
        while boundaries.get(1).is_some_and(|s| s.at <= trusted) {
            boundaries.pop_front();
        }
        if scan.state.sequence.open_from().is_none() {
            closed = scan.state;
        }
    };
    let state = scan.state;
    if let Some(s) = segments.containing(stop.at)
        && !read.contains(&s.header.start)
    {
        read.push(s.header.start);
    }
    // A close in order says that nothing lies above the anchor; its word is good only while
    // the other slot is whole too.
    let closed_here = control.clean && both_slots && state.at == control.anchor.lsn;
    let stamp = if closed_here {
        None
    } else {
        stamp_behind(segments, stop.at, control, state.epoch)
    };
    // The anchor is as good as a stamp: below it a scan gets only where something is lost.
    let below = stop.at < control.anchor.lsn;
    let case = decide(stop.seen, below || stamp.is_some(), false);
    let durable_to = trusted.max(stamp.unwrap_or(Lsn::ORIGIN));
    let lost = match case.decision() {
        Decision::Refuse => {
            let d = damage(path, segments, &stop, case, durable_to);
            if on_damage == OnDamage::Refuse {
                return Err(Error::Damaged(Box::new(d)));
            }
            Some(d)
        }
        _ => None,
    };
    let settled = boundaries.front().copied().unwrap_or(state);
    Ok(End {
        state,
        case,
        trusted,
        settled,
        closed,
        lost,
        read,
        scanned,
    })
}

/// Describes where a scan stopped.
pub(crate) fn damage(
    path: &Path,
    segments: &Segments,
    stop: &Stop,
    case: Case,
    durable_to: Lsn,
) -> Damage {
    let segment = segments.containing(stop.at);
    Damage {
        lsn: stop.at,
        case,
        path: path.to_owned(),
        file: segment.as_ref().map(|s| s.name()),
        offset: segment.as_ref().map_or(0, |s| s.offset(stop.at)),
        found: stop.found.clone(),
        durable_to,
    }
}

/// Walks the list of voiding batches back to the front.
pub(crate) fn collect_voids(
    segments: &Segments,
    control: &Control,
    last: Option<Lsn>,
    path: &Path,
) -> Result<Voids> {
    let mut voids = Voids::default();
    let mut at = last.unwrap_or(Lsn::ORIGIN);
    let mut window = crate::scan::Window::new(ReadSource::Cache);
    // The format makes each link lie below the one before it, so this ends.
    // One at or below the front voids only what is gone anyway, and so do those before it.
    while at > control.front {
        let broken = |found: String| {
            let stop = Stop {
                at,
                seen: Seen::Broken,
                found,
            };
            Error::Damaged(Box::new(damage(path, segments, &stop, Case::Damaged, at)))
        };
        let segment = segments
            .containing(at)
            .ok_or_else(|| broken("a void batch's segment is missing".to_owned()))?;
        let bytes = window
            .get(&segment, segment.offset(at), BATCH_HEADER_LEN)
            .map_err(broken)?;
        let header = BatchHeader::decode(bytes)
            .map_err(|r| broken(format!("a void batch should be here: {r}")))?;
        if header.log_id != control.log_id || header.lsn != at || !header.voids() {
            return Err(broken("a void batch should be here".to_owned()));
        }
        voids.add(header.void_from, header.lsn);
        at = header.last_void;
    }
    Ok(voids)
}

fn reads_medium(segment: &Arc<Segment>) -> bool {
    let mut probe = AlignedBuf::zeroed(65536, 65536);
    match segment.file() {
        Ok(file) => match file.read_at(0, &mut probe, ReadSource::Medium) {
            Err(e) => e.kind() != io::ErrorKind::Unsupported,
            Ok(_) => true,
        },
        Err(_) => false,
    }
}

/// Writes `[from, to)` again with the same bytes and forces it.
fn rewrite(segments: &Segments, from: Lsn, to: Lsn, direct: bool) -> Result<()> {
    const CHUNK: usize = 1 << 20;
    for segment in segments.all() {
        let start = from.max(segment.header.first_batch());
        let end = to.min(segment.header.end());
        if start >= end {
            continue;
        }
        segment.open_writer(direct)?;
        let file = segment.file()?;
        let mut at = start;
        while at < end {
            let n = end.since(at).min(CHUNK as u64) as usize;
            let mut buf = AlignedBuf::zeroed(n, 65536);
            let mut have = 0;
            while have < n {
                let offset = segment.offset(at) + have as u64;
                match file
                    .read_at(offset, &mut buf[have..], ReadSource::Cache)
                    .map_err(Error::io("read", segment.path()))?
                {
                    0 => break,
                    k => have += k,
                }
            }
            let ticket = file.submit(Write {
                offset: segment.offset(at),
                buf,
                range: 0..n,
                through: false,
            });
            file.complete(ticket)
                .result
                .map_err(Error::io("write", segment.path()))?;
            at = at.plus(n as u64);
        }
        file.barrier(Barrier::Full)
            .map_err(Error::io("sync", segment.path()))?;
    }
    Ok(())
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
    file.barrier(Barrier::Data)
        .map_err(Error::io("sync", segment.path()))?;
    segment.note_batch(header.lsn);
    Ok(header)
}
