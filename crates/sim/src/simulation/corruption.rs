//! Corrupted copies: a copy of the disk is corrupted, then opened, read or salvaged. It must show only true
//! records. It may show fewer than before only if the loss is reported, or if no remaining bytes could prove
//! it.

use super::{Coverage, note_refusal};
use crate::mending::OnDamage;
use crate::model::{PATH, lock};
use crate::workload::{World, is_quiet};
use logforce_core::{
    BatchInfo, BatchKind, Error, ErrorKind, Inspector, Log, Lsn, OpenMode, ReadOnly, Record, Visit,
};
use logforce_format::frame::FRAME_HEADER_LEN;
use logforce_format::{
    BATCH_HEADER_LEN, BatchHeader, CONTROL_SLOT_LEN, CONTROL_SLOT_OFFSETS, payload_crc,
};
use logforce_testkit::{Failure, Misread, Rng, SectorFault, SimRuntime};

/// Contents of an undamaged copy.
struct Truth {
    /// LSN from which on an opening checks that each batch follows the one before.
    anchor: Lsn,
    batches: Vec<BatchInfo>,
    segments: Vec<String>,
    records: Vec<Record>,
    meta: Option<Vec<u8>>,
}

/// Places of the damage.
#[derive(Debug, Default)]
struct Aim {
    /// Sectors of files: name, first byte, end.
    places: Vec<(String, u64, u64)>,
    /// True if reads went wrong at unknown places.
    anywhere: bool,
    /// True if a whole file is gone.
    removed: bool,
    /// True if bytes that were never written there have correct checksums.
    forged: bool,
    /// Batch that was replaced by one with other records and correct checksums. Only the next batch, which
    /// names its predecessor's checksum, proves that.
    replaced: Option<Lsn>,
}

impl Aim {
    fn touches(&self, b: &BatchInfo) -> bool {
        let end = b.offset + b.end.since(b.lsn);
        let hit = |p: &(String, u64, u64)| p.0 == b.file && p.1 < end && p.2 > b.offset;
        self.anywhere || self.removed || self.places.iter().any(hit)
    }

    fn is_in_control(&self) -> bool {
        self.places.iter().any(|p| p.0 == "control")
    }

    /// Returns true if both slots of the control file were hit. An old slot beside a broken one looks
    /// like a crash in the middle of a change, and the old one counts.
    fn ages_control(&self) -> bool {
        let hit = |slot: u64| {
            let end = slot + CONTROL_SLOT_LEN as u64;
            let touches = |p: &(String, u64, u64)| p.0 == "control" && p.1 < end && p.2 > slot;
            self.places.iter().any(touches)
        };
        self.anywhere || CONTROL_SLOT_OFFSETS.into_iter().all(hit)
    }

    /// Returns true for one place in the segments: no other damage hides the stamp that proves it durable.
    fn is_simple(&self) -> bool {
        !self.anywhere && self.places.len() == 1 && !self.is_in_control()
    }
}

/// Way of opening the corrupted copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Strict,
    Repair,
    ReadOnly,
    Salvage,
}

/// Results of reading the corrupted copy.
struct Seen {
    records: Vec<Record>,
    /// Error that ended the reading.
    error: Option<Error>,
    /// True if a loss was reported, in any way.
    reported: bool,
    /// Start of the part that a repair removed.
    cut_from: Option<Lsn>,
    meta: Result<Option<Vec<u8>>, Error>,
}

/// Corrupts the disk, opens it in one way and checks the result. Leaves the disk corrupted. Returns
/// whether the log was repaired, so that the run can continue on it.
pub(super) fn corrupt_and_look(
    world: &mut World,
    rng: &mut Rng,
    failure: Failure,
    coverage: &mut Coverage,
) -> bool {
    let created = lock(&world.model).created;
    if !created {
        return false;
    }
    let image = world.image();
    let seed = rng.bits();
    let truth = Truth::of(world, seed);
    world.restore(&image);
    // After a process crash the system's cache hides the medium. Damage shows only after the next power
    // cut.
    if failure == Failure::Process && rng.one_in(2) {
        return false;
    }
    let aim = corrupt(world, rng, &truth, failure);
    let way = match aim.replaced {
        Some(_) => rng.pick(&[Way::Strict, Way::Repair]),
        None => rng.pick(&[
            Way::Strict,
            Way::Strict,
            Way::Repair,
            Way::ReadOnly,
            Way::Salvage,
        ]),
    };
    let _report = world.report(format!("corrupted {aim:?}, {way:?}{}", truth.described()));
    coverage.corrupted_copies += 1;
    let mut was_truncated = false;
    match look(world, seed, way) {
        Err(e) => {
            let may_refuse = aim.is_in_control() || aim.anywhere || e.kind() != ErrorKind::Damaged;
            assert!(way != Way::Repair || may_refuse, "not repaired: {e}");
            note_refusal(&e, coverage);
        }
        Ok(seen) if way == Way::Salvage => {
            let model = lock(&world.model);
            for e in &seen.records {
                let was = model.ever(e) || model.was_cut(e);
                assert!(was, "salvaged at {}: never was, or changed", e.start);
            }
            coverage.damages += u64::from(seen.reported);
            coverage.unharmed += u64::from(!seen.reported);
        }
        Ok(seen) => {
            truth.compare(&seen, &aim, way, world, coverage);
            if way == Way::Repair && seen.error.is_none() && !aim.forged {
                check_stays_given_up(world, seed, &seen, &truth);
                was_truncated = seen.reported;
            }
        }
    }
    was_truncated
}

/// Continues the run on a repaired log, whose records the model adopts.
pub(super) fn continue_truncated(world: &World, seed: u64) {
    let _report = world.report("continuing".to_owned());
    world.disk.reboot(seed);
    SimRuntime::run(seed, |rt| {
        let system = world.disk.system(rt);
        let opened = crate::model::open(&*system, true, world.options.clone(), None);
        let log = opened.unwrap_or_else(|e| panic!("repaired, but damaged again: {e}"));
        let mut model = lock(&world.model).clone();
        model.adopt(&log);
        *lock(&world.model) = model;
        world.disk.cut();
    });
    world.disk.reboot(seed ^ 1);
}

/// Checks that records that a repair has removed do not come back once they can be read again: the next
/// opening shows the same.
fn check_stays_given_up(world: &World, seed: u64, given_up: &Seen, truth: &Truth) {
    world.disk.reboot(seed);
    world.disk.lift_faults();
    hide_opening(world, seed, given_up, truth);
    let _report = world.report("the damage has passed".to_owned());
    let again = look(world, seed ^ 1, Way::Strict);
    let again = again.unwrap_or_else(|e| panic!("repaired, but damaged again: {e}"));
    if let Some(e) = again.error {
        panic!("repaired, but damaged again: {e}");
    }
    let (was, is) = (given_up.records.len(), again.records.len());
    assert!(
        again.records == given_up.records,
        "repaired to {was} records, but the log has {is} again"
    );
}

/// Makes the batch by which a repair has removed records unreadable, or removes its segment. That is damage,
/// and must not bring back any removed record.
fn hide_opening(world: &World, seed: u64, given_up: &Seen, truth: &Truth) {
    let _report = world.report("the opening's own batch is lost".to_owned());
    let image = world.image();
    let mut cutting = None;
    SimRuntime::run(seed, |rt| {
        let inspector = Inspector::open(&*world.disk.system(rt), PATH)?;
        inspector.walk(&mut |visit| {
            if let Visit::Batch(b) = visit
                && b.kind == BatchKind::Epoch
                && b.void_from < b.lsn
            {
                cutting = Some((b.file.clone(), b.offset));
            }
            true
        })
    })
    .unwrap_or_else(|e| panic!("repaired, but cannot be inspected: {e}"));
    if let Some((file, offset)) = cutting {
        let how = seed >> 1;
        let _ = match how % 3 {
            0 => world.disk.make_unreadable(PATH, &file, offset),
            1 => world.disk.make_unreadable(PATH, &file, 0),
            _ => world.disk.remove_file(PATH, &file),
        };
        let way = match how / 3 % 2 {
            0 => Way::Strict,
            _ => Way::Repair,
        };
        if let Ok(seen) = look(world, seed ^ 2, way) {
            // Records that a call had voided may be back, because the batch that says so may be lost as well.
            // So may those below the cut: the repair found a batch beyond it that voids them.
            let was_given_up = |e: &&Record| {
                let is_cut = given_up.cut_from.is_none_or(|from| from <= e.start);
                is_cut && truth.records.contains(e) && !given_up.records.contains(e)
            };
            let back = seen.records.iter().find(was_given_up);
            assert!(
                back.is_none(),
                "given up, but back because the opening's batch is lost ({file}, {}, {way:?}): {}",
                how % 3,
                back.map_or(Lsn::ORIGIN, |e| e.start)
            );
        }
    }
    world.restore(&image);
}

impl Truth {
    fn of(world: &World, seed: u64) -> Truth {
        let _report = world.report(format!("undamaged, schedule {seed}"));
        let (mut batches, mut segments) = (Vec::new(), Vec::new());
        let mut anchor = Lsn::ORIGIN;
        SimRuntime::run(seed, |rt| {
            let system = world.disk.system(rt);
            let inspector = Inspector::open(&*system, PATH).expect("a healthy log");
            let walked = inspector.walk(&mut |visit| {
                if let Visit::Batch(b) = visit {
                    batches.push(b.clone());
                }
                true
            });
            assert_eq!(walked.expect("a healthy log").damages, 0);
            let summary = inspector.summary();
            anchor = summary.anchor;
            segments.extend(summary.segments.into_iter().map(|s| s.name));
        });
        let seen = look(world, seed, Way::Strict).unwrap_or_else(|e| panic!("undamaged: {e}"));
        assert!(!seen.reported && seen.error.is_none(), "undamaged: damage");
        Truth {
            anchor,
            batches,
            segments,
            records: seen.records,
            meta: seen.meta.expect("undamaged"),
        }
    }

    fn above_anchor(&self) -> impl Iterator<Item = &BatchInfo> {
        self.batches.iter().filter(|b| b.lsn >= self.anchor)
    }

    /// Returns the batches as lines, for the message of a failed run.
    fn described(&self) -> String {
        if is_quiet() {
            return String::new();
        }
        let line = |b: &BatchInfo| {
            let (from, end) = (b.void_from, b.end);
            let void = if from < b.lsn {
                format!(" voids from {from}")
            } else {
                String::new()
            };
            format!(
                "\n{:?} {}..{end} stamp {}{void} {} {}",
                b.kind, b.lsn, b.stamp, b.file, b.offset
            )
        };
        self.batches.iter().map(line).collect()
    }

    /// Returns true if a batch that voids records lies after damage that no stamp distinguishes from a
    /// torn write. The log then ends before it, as if the truncation had never been called.
    fn void_hidden(&self, aim: &Aim) -> bool {
        let whole = || self.batches.iter().filter(|b| !aim.touches(b));
        let torn = |t: &&BatchInfo| !whole().any(|b| b.lsn > t.lsn && b.stamp > t.lsn);
        // An older version of the control file names an older anchor.
        let begins = |b: &&BatchInfo| aim.ages_control() || b.lsn >= self.anchor;
        let touched = self
            .batches
            .iter()
            .filter(begins)
            .filter(|b| aim.touches(b));
        let Some(end) = touched.filter(torn).map(|b| b.lsn).next() else {
            return false;
        };
        self.batches
            .iter()
            .any(|b| b.void_from < b.lsn && b.lsn >= end)
    }

    /// Returns true if a part of this record is in the replaced batch. Its bytes are not the written
    /// ones, and the batch alone does not show that.
    fn is_replaced(&self, aim: &Aim, e: &Record) -> bool {
        let mut replaced = self.batches.iter().filter(|b| aim.replaced == Some(b.lsn));
        replaced.any(|b| e.start < b.end && e.end > b.lsn)
    }

    fn compare(&self, seen: &Seen, aim: &Aim, way: Way, world: &World, coverage: &mut Coverage) {
        if let Ok(meta) = &seen.meta {
            assert!(
                *meta == self.meta || seen.reported || aim.is_in_control() || aim.anywhere,
                "metadata is {meta:?}, but it was {:?}",
                self.meta
            );
        }
        let voids = |b: &&BatchInfo| b.void_from < b.lsn && aim.touches(b);
        let void_lost = self.batches.iter().any(|b| voids(&b));
        let hidden = self.void_hidden(aim);
        let end = self.records.last().map(|e| e.end);
        let mut shown = Vec::new();
        for e in &seen.records {
            if self.records.iter().any(|t| t.start == e.start) {
                shown.push(e);
                continue;
            }
            // Four reasons: the batch that voided the record is lost; a call that was never
            // acknowledged truncated it; it lies only in the system's cache, which an opening for
            // writing does not trust; or it lies below the front, in a segment that still exists,
            // and only the corrupted control file knows the front.
            let model = lock(&world.model);
            let aged = aim.ages_control() && e.start < model.front;
            let cached = way == Way::ReadOnly && end.is_none_or(|end| e.start >= end);
            let allowed = void_lost || hidden || cached || aged || model.is_truncating();
            assert!(
                allowed && (model.ever(e) || self.is_replaced(aim, e)),
                "{} was never appended, or was voided",
                e.start
            );
        }
        assert!(shown.len() <= self.records.len());
        for (e, t) in shown.iter().zip(&self.records) {
            let replaced = aim.replaced.is_some_and(|lsn| e.end > lsn);
            assert!(
                replaced || *e == t,
                "{} instead of {}, or changed",
                e.start,
                t.start
            );
        }
        assert!(
            aim.replaced.is_none() || seen.error.is_some() || seen.reported,
            "a batch was replaced, but its successor accepts it"
        );
        if let Some(e) = &seen.error {
            if aim.anywhere && e.kind() == ErrorKind::InvalidInput {
                // A read once gave the sector's older bytes: an unacknowledged batch that a crash had left
                // there, with its records elsewhere. A read in the middle of the log checks no link.
                coverage.other_refusals += 1;
                return;
            }
            note_refusal(e, coverage);
        } else if seen.reported {
            coverage.damages += 1;
        } else if let Some(first) = self.records.get(shown.len()) {
            // Fewer records without a report: then no remaining bytes may be able to prove the loss.
            let stamps = self.batches.iter().filter(|b| !aim.touches(b));
            let bound = stamps.map(|b| b.stamp).max().unwrap_or_default();
            assert!(
                first.end > bound || void_lost || !aim.is_simple(),
                "silently truncated at {}, but a stamp proves {bound}",
                first.start
            );
            coverage.unprovable += 1;
        } else {
            coverage.unharmed += 1;
        }
    }
}

/// Corrupts one place or several.
fn corrupt(world: &World, rng: &mut Rng, truth: &Truth, failure: Failure) -> Aim {
    let mut aim = Aim::default();
    if rng.one_in(6) {
        for _ in 0..1 + rng.below(3) {
            let how = rng.pick(&[Misread::Error, Misread::Stale, Misread::Misdirected]);
            world.disk.misread_at(rng.below(60), how);
        }
        aim.anywhere = true;
        return aim;
    }
    if rng.one_in(12) && !truth.segments.is_empty() {
        let name = &truth.segments[rng.below(truth.segments.len() as u64) as usize];
        world.disk.remove_file(PATH, name);
        aim.places.push((name.clone(), 0, u64::MAX));
        aim.removed = true;
        return aim;
    }
    // After a process crash the cache still has the original batch, and would be written back over it.
    if rng.one_in(6)
        && failure != Failure::Process
        && let Some((b, forged)) = replace(world, rng, truth)
    {
        assert!(world.disk.inject(PATH, &b.file, b.offset, &forged));
        aim.places.push((b.file.clone(), b.offset, b.offset + 1));
        aim.replaced = Some(b.lsn);
        aim.forged = true;
        return aim;
    }
    for _ in 0..rng.pick(&[1, 1, 1, 2, 4]) {
        let (name, offset) = choose(rng, truth);
        let sector = u64::from(world.disk.options().sector);
        let fault = match rng.below(5) {
            0 => SectorFault::Flipped(rng.bits() as u8),
            1 => SectorFault::Unreadable,
            2 => SectorFault::Stale,
            3 => SectorFault::Misdirected(rng.below(256 << 10)),
            _ => match forge(world, rng, truth, &name, offset) {
                Some(forged) => forged,
                None => SectorFault::Flipped(1),
            },
        };
        if world.disk.inject(PATH, &name, offset, &fault) {
            aim.forged |= matches!(fault, SectorFault::Forged(_));
            let start = offset / sector * sector;
            let in_file = truth.batches.iter().filter(|b| b.file == name);
            // Without its header the whole segment is lost.
            let header = in_file.map(|b| b.offset).min().is_some_and(|b| start < b);
            let end = if header { u64::MAX } else { start + sector };
            aim.places.push((name, start, end));
        }
    }
    aim
}

/// Draws a file and an offset in it.
fn choose(rng: &mut Rng, truth: &Truth) -> (String, u64) {
    let some = |rng: &mut Rng, n: usize| rng.below(n as u64) as usize;
    match rng.below(10) {
        0 => ("control".to_owned(), rng.below(256 << 10)),
        1 => (
            "control".to_owned(),
            rng.pick(&[0, 64 << 10, 128 << 10, 192 << 10]),
        ),
        2 if !truth.segments.is_empty() => {
            let name = &truth.segments[some(rng, truth.segments.len())];
            (name.clone(), rng.pick(&[0, rng.clone().below(150_000)]))
        }
        3..=5 if truth.above_anchor().count() > 0 => {
            // Above the anchor only stamps distinguish damage from a torn tail.
            let count = truth.above_anchor().count() as u64;
            let b = truth.above_anchor().nth(rng.below(count) as usize);
            let b = b.expect("counted just now");
            (b.file.clone(), b.offset + rng.below(b.end.since(b.lsn)))
        }
        6 if !truth.batches.is_empty() => {
            // At the log's end: the write that was in flight, or the last one.
            let b = &truth.batches[truth.batches.len() - 1];
            let len = b.end.since(b.lsn);
            (b.file.clone(), b.offset + rng.pick(&[0, len / 2, len]))
        }
        _ if !truth.batches.is_empty() => {
            let b = &truth.batches[some(rng, truth.batches.len())];
            (b.file.clone(), b.offset + rng.below(b.end.since(b.lsn)))
        }
        _ => ("control".to_owned(), 0),
    }
}

/// Forges a header with correct checksums that the log never wrote: with another predecessor, payload or
/// stamp.
fn forge(
    world: &World,
    rng: &mut Rng,
    truth: &Truth,
    name: &str,
    offset: u64,
) -> Option<SectorFault> {
    let sector = u64::from(world.disk.options().sector);
    let start = offset / sector * sector;
    truth
        .batches
        .iter()
        .find(|b| b.file == name && b.offset == start)?;
    let bytes = world.disk.file_bytes(PATH, name)?;
    let mut header = BatchHeader::decode(bytes.get(start as usize..)?).ok()?;
    match rng.below(3) {
        0 => header.prev_crc ^= 1,
        1 => header.payload_crc ^= 1,
        _ => header.stamp = Lsn(header.stamp.0 / 2),
    }
    Some(SectorFault::Forged(header.encode().to_vec().into()))
}

/// Draws a batch above the anchor that has a successor, and replaces it by a forgery: one byte of a record is
/// changed and all checksums are correct. The record does not continue in the successor.
fn replace<'t>(
    world: &World,
    rng: &mut Rng,
    truth: &'t Truth,
) -> Option<(&'t BatchInfo, SectorFault)> {
    let sector = world.disk.options().sector as usize;
    let all: Vec<&BatchInfo> = truth.above_anchor().collect();
    let n = rng.below(all.len() as u64) as usize;
    let (b, _) = (all.get(n)?, all.get(n + 1)?);
    let bytes = world.disk.file_bytes(PATH, &b.file)?;
    let batch = bytes.get(b.offset as usize..)?;
    let mut header = BatchHeader::decode(batch).ok()?;
    let payload = batch
        .get(BATCH_HEADER_LEN..)?
        .get(..header.payload_len as usize)?;
    // The record follows the frame's header.
    let at = FRAME_HEADER_LEN;
    if payload.len() <= at || BATCH_HEADER_LEN + at >= sector {
        return None;
    }
    let mut payload = payload.to_vec();
    payload[at] ^= 1;
    header.payload_crc = payload_crc(0, &payload);
    let mut forged = header.encode().to_vec();
    forged.extend_from_slice(&payload);
    forged.truncate(sector);
    Some((b, SectorFault::Forged(forged.into())))
}

/// Opens the log and reads it, then cuts the power.
fn look(world: &World, seed: u64, way: Way) -> Result<Seen, Error> {
    SimRuntime::run(seed, |rt| {
        let system = world.disk.system(rt);
        let seen = match way {
            Way::Salvage => salvage(&*system),
            Way::ReadOnly => read_only(&*system),
            Way::Strict => open(world, &*system, OnDamage::Refuse, false),
            // Half of these runs cut the power right after the opening.
            Way::Repair => open(world, &*system, OnDamage::Repair, seed & 1 == 0),
        };
        world.disk.cut();
        seen
    })
}

fn open(
    world: &World,
    system: &dyn logforce_device::System,
    on_damage: OnDamage,
    abruptly: bool,
) -> Result<Seen, Error> {
    let mended = on_damage.mend(system)?;
    let log = Log::open(system, PATH, OpenMode::OpenExisting, world.options.clone())?;
    let lost = mended.as_ref().is_some_and(|report| report.aside.is_some());
    let cut = mended.and_then(|report| report.cut);
    let (records, error) = collect(log.read_from(log.front_lsn()));
    let meta = Ok(log.meta());
    if abruptly {
        world.disk.cut();
    }
    Ok(Seen {
        cut_from: cut.map(|cut| cut.from),
        reported: lost,
        records,
        error,
        meta,
    })
}

fn read_only(system: &dyn logforce_device::System) -> Result<Seen, Error> {
    let log = ReadOnly::open(system, PATH)?;
    let (records, error) = collect(log.read_from(log.front_lsn()));
    Ok(Seen {
        cut_from: None,
        reported: false,
        records,
        error,
        meta: log.meta(),
    })
}

fn collect(reader: Result<logforce_core::Reader, Error>) -> (Vec<Record>, Option<Error>) {
    let mut records = Vec::new();
    match reader {
        Err(e) => (records, Some(e)),
        Ok(reader) => {
            for record in reader {
                match record {
                    Ok(record) => records.push(record),
                    Err(e) => return (records, Some(e)),
                }
            }
            (records, None)
        }
    }
}

fn salvage(system: &dyn logforce_device::System) -> Result<Seen, Error> {
    let inspector = Inspector::salvage(system, PATH)?;
    let (mut records, mut reported) = (Vec::new(), false);
    inspector.walk(&mut |visit| {
        match visit {
            Visit::Record { record, .. } => records.push(record.clone()),
            Visit::Damage(_) => reported = true,
            _ => {}
        }
        true
    })?;
    Ok(Seen {
        cut_from: None,
        records,
        error: None,
        reported,
        meta: Ok(None),
    })
}
