//! Damage: distinguished from a torn tail if a stamp allows it, and never a silently shorter log.

use crate::common::{mended, repaired};
use crate::crash::{case, spanning};
use logforce_core::{
    BatchInfo, BatchKind, Damage, Error, ErrorKind, Inspector, Log, Lsn, OpenMode, Record,
    RecoveryCase, Visit,
};
use logforce_sim::is_deep;
use logforce_sim::mending::OnDamage;
use logforce_sim::model::{Known, PATH, lock, read, small};
use logforce_sim::workload::{Image, Step, World};
use logforce_testkit::{Failure, SimOptions, SimRuntime, Survival};

/// A log with known batches, which the tests damage.
struct Fixture {
    world: World,
    image: Image,
    batches: Vec<BatchInfo>,
    live: Vec<(Lsn, Known)>,
    segments: Vec<String>,
}

/// Result of an opening.
enum Opened {
    /// It refused with this damage.
    Damaged(Box<Damage>),
    /// It opened: the records that could be read, the damage that ended the reading, the reported
    /// loss, the tail.
    Shows(Vec<Record>, Option<Box<Damage>>, Option<Damage>, Lsn),
}

impl Fixture {
    /// Creates a log whose work ended with a power cut or a close.
    fn new(name: &str, steps: &[Step], closed: bool) -> Fixture {
        let world = World::new(name, SimOptions::default(), small(), 1);
        if closed {
            world.work(1, &[steps.to_vec()]).expect("nothing fails");
        } else {
            let mut steps = steps.to_vec();
            steps.push(Step::Cut);
            let _ = world.work(1, &[steps]);
            world.disk.crash(Failure::Power, Some(Survival::Lost), 1);
        }
        let mut batches = Vec::new();
        let segments = SimRuntime::run(1, |rt| {
            let inspector = Inspector::open(&*world.disk.system(rt), PATH).expect("healthy");
            let walked = inspector.walk(&mut |v| {
                if let Visit::Batch(b) = v {
                    batches.push(b.clone());
                }
                true
            });
            assert_eq!(walked.expect("walk").damages, 0);
            let names = inspector.summary().segments;
            names.into_iter().map(|s| s.name).collect()
        });
        let (image, live) = (world.image(), lock(&world.model).live());
        Fixture {
            world,
            image,
            batches,
            live,
            segments,
        }
    }

    /// Returns the LSN at which an opening begins to read.
    fn anchor(&self) -> Lsn {
        SimRuntime::run(1, |rt| {
            let inspector = Inspector::open(&*self.world.disk.system(rt), PATH).expect("healthy");
            inspector.summary().anchor
        })
    }

    /// Opens and reads, then cuts the power.
    fn open(&self, on_damage: OnDamage) -> Opened {
        SimRuntime::run(7, |rt| {
            let options = &self.world.options;
            let (log, report) = match mended(&self.world.disk, rt, options, on_damage) {
                Ok(opened) => opened,
                Err(Error::Damaged(d)) => return Opened::Damaged(d),
                Err(e) => panic!("{e}"),
            };
            let mut shown = Vec::new();
            let mut damage = None;
            let read = log.read_from(log.front_lsn());
            let records = read.map_or_else(|e| vec![Err(e)], |reader| reader.collect());
            for record in records {
                match record {
                    Ok(record) => shown.push(record),
                    Err(Error::Damaged(d)) => damage = Some(d),
                    Err(e) => panic!("{e}"),
                }
            }
            let lost = report.and_then(|report| report.cut).map(|cut| cut.damage);
            let tail = log.tail_lsn();
            self.world.disk.cut();
            Opened::Shows(shown, damage, lost, tail)
        })
    }

    /// Returns true if all of `[from, to)` was voided.
    fn is_void(&self, from: Lsn, to: Lsn) -> bool {
        let model = lock(&self.world.model);
        model.voids.iter().any(|v| v.0 <= from && to <= v.1)
    }

    fn is_prefix(&self, shown: &[Record]) {
        self.is_prefix_but(shown, false);
    }

    /// Checks the prefix. With `void_lost` the voided ranges are unknown, and voided records may come back.
    fn is_prefix_but(&self, shown: &[Record], void_lost: bool) {
        let live = |e: &&Record| !void_lost || self.live.iter().any(|(lsn, _)| *lsn == e.start);
        let shown: Vec<&Record> = shown.iter().filter(live).collect();
        assert!(
            shown.len() <= self.live.len(),
            "more records than were appended"
        );
        for (e, (lsn, k)) in shown.iter().zip(&self.live) {
            assert_eq!((e.start, e.end, &e.data), (*lsn, k.end, &*k.data));
        }
    }

    /// Walks the log, and returns the damages and the records found.
    fn walk(&self) -> (Vec<Damage>, Vec<Record>) {
        SimRuntime::run(7, |rt| {
            let inspector =
                Inspector::salvage(&*self.world.disk.system(rt), PATH).expect("salvage");
            let (mut damages, mut records) = (Vec::new(), Vec::new());
            let walked = inspector.walk(&mut |v| {
                match v {
                    Visit::Damage(d) => damages.push(d.clone()),
                    Visit::Record { record, .. } => records.push(record.clone()),
                    _ => {}
                }
                true
            });
            assert_eq!(walked.expect("walk").damages, damages.len() as u64);
            (damages, records)
        })
    }

    /// Checks every way to open after `[from, to)` was damaged. If `unprovable`, no remaining bytes say
    /// that it had been durable.
    fn check(&self, what: &str, from: Lsn, to: Lsn, unprovable: bool) {
        let what = format!("{}: {what} {from}..{to}", self.world.name);
        let _report = self.world.report(what.clone());
        let damaged = self.world.image();

        // All records around it can be saved, except the rest of an append.
        let (damages, saved) = self.walk();
        let touched = |(lsn, k): &&(Lsn, Known)| *lsn < to && k.end > from;
        let lost: Vec<Lsn> = self
            .live
            .iter()
            .filter(touched)
            .map(|l| l.1.group)
            .collect();
        let whole = |(_, k): &&(Lsn, Known)| !lost.contains(&k.group);
        let around: Vec<_> = self.live.iter().filter(whole).collect();
        if !unprovable {
            assert!(!damages.is_empty(), "{what}: verify found nothing");
            let there =
                |lsn: Lsn, k: &Known| saved.iter().any(|e| e.start == lsn && e.data == *k.data);
            for (lsn, k) in &around {
                assert!(there(*lsn, k), "{what}: {lsn} was not saved");
            }
        }
        for e in &saved {
            let k = lock(&self.world.model).records.get(&e.start).cloned();
            assert_eq!(
                k.map(|k| k.data.to_vec()),
                Some(e.data.clone()),
                "{what}: saved {}",
                e.start
            );
        }

        let voids = |b: &&BatchInfo| b.kind == BatchKind::Void && b.lsn < to && b.end > from;
        let void_lost = self.batches.iter().any(|b| voids(&b));
        self.world.restore(&damaged);
        let intact = |end: Lsn| self.live.iter().filter(|(_, k)| k.end <= end).count();
        match self.open(OnDamage::Refuse) {
            Opened::Damaged(d) => {
                assert!(d.lsn >= from && d.lsn <= to, "{what}: reported {d}");
            }
            Opened::Shows(shown, Some(d), ..) => {
                self.is_prefix(&shown);
                assert!(d.lsn >= from && d.lsn <= to, "{what}: reported {d}");
                assert!(shown.len() >= intact(from).saturating_sub(4), "{what}");
            }
            Opened::Shows(shown, None, ..) => {
                self.is_prefix(&shown);
                assert!(
                    unprovable || shown.len() == self.live.len(),
                    "{what}: a silently shorter log"
                );
            }
        }

        self.world.restore(&damaged);
        match self.open(OnDamage::Repair) {
            Opened::Damaged(d) => panic!("{what}: not repaired: {d}"),
            Opened::Shows(shown, damage, lost, tail) => {
                self.is_prefix_but(&shown, void_lost);
                let end = self.live.last().map_or(Lsn::ORIGIN, |(_, k)| k.end);
                let reported = damage.is_some() || lost.is_some() || shown.len() == self.live.len();
                assert!(reported || unprovable, "{what}: silently cut");
                if lost.is_some() {
                    assert!(tail > end, "{what}: LSNs are used again at {tail}");
                }
                self.crash_while_repairing(&what, &damaged, &shown, unprovable);
            }
        }
        self.world.restore(&damaged);
    }

    /// Crashes at every fifth operation of the repair. An opening then refuses, or shows what the finished
    /// repair shows; and the next repair ends at the same LSN.
    fn crash_while_repairing(&self, what: &str, damaged: &Image, shown: &[Record], free: bool) {
        let ops = self.world.disk.ops();
        for op in (0..ops).step_by(5) {
            self.world.restore(damaged);
            self.world.disk.cut_at(op);
            SimRuntime::run(op, |rt| {
                let system = self.world.disk.system(rt);
                let _ = OnDamage::Repair.mend(&*system);
                self.world.disk.cut();
            });
            self.world.disk.reboot(op);
            let between = self.world.image();
            match self.open(OnDamage::Refuse) {
                Opened::Damaged(_) | Opened::Shows(_, Some(_), ..) => {}
                Opened::Shows(again, None, ..) => {
                    // Only if the repair was complete.
                    assert!(again == shown || free, "{what}: other records after {op}");
                }
            }
            self.world.restore(&between);
            match self.open(OnDamage::Repair) {
                Opened::Damaged(d) => panic!("{what}: cut at {op} but not repaired: {d}"),
                Opened::Shows(again, ..) => {
                    assert!(again == shown || free, "{what}: other records after {op}");
                }
            }
        }
    }
}

fn steps() -> Vec<Step> {
    let mut steps = spanning()[..3].to_vec();
    steps.extend([Step::Front(20), Step::Commit(9_000), Step::Append(400)]);
    steps.extend([Step::Commit(30), Step::Back(1), Step::Idle(5)]);
    steps.extend([Step::Commit(700), Step::Commit(70), Step::Commit(5)]);
    steps
}

/// Flips a bit in the header and in the payload of each batch.
fn flip_everywhere(closed: bool) {
    let fixture = Fixture::new(if closed { "closed" } else { "cut" }, &steps(), closed);
    let last_stamp = fixture.batches.iter().map(|b| b.stamp).max();
    let anchor = fixture.anchor();
    let mut silent = 0;
    for (n, b) in fixture.batches.iter().enumerate() {
        let payload = (b.payload_len > 0).then_some(128 + u64::from(b.payload_len) / 2);
        let places = [Some(0), Some(20), Some(84), Some(100), payload];
        for (field, at) in places.into_iter().flatten().enumerate() {
            // The cases left out for this batch are tried for its neighbours.
            if closed && !is_deep() && (n + field) % 2 == 1 {
                continue;
            }
            fixture.world.restore(&fixture.image);
            let flipped = fixture
                .world
                .disk
                .flip_bit(PATH, &b.file, b.offset + at, at as u8);
            assert!(flipped, "{b:?}");
            // Damage that cannot be distinguished lies above the highest stamp of the later batches.
            let behind = fixture.batches[n + 1..].iter().map(|b| b.stamp).max();
            let unprovable = anchor <= b.lsn && behind.is_none_or(|s| s <= b.lsn);
            silent += u32::from(unprovable);
            assert!(!unprovable || last_stamp <= Some(b.lsn));
            // A stamp between a record and the batch that voids it is void, too.
            let voided = fixture.is_void(b.lsn, b.end);
            let unprovable = unprovable || voided;
            fixture.check(&format!("bit of byte {at}"), b.lsn, b.end, unprovable);
        }
    }
    assert_eq!(silent == 0, closed);
}

#[test]
fn a_flipped_bit_in_a_closed_log() {
    flip_everywhere(true);
}

#[test]
fn a_flipped_bit_in_a_crashed_log() {
    flip_everywhere(false);
}

#[test]
fn a_missing_segment() {
    for closed in [true, false] {
        let fixture = Fixture::new("missing", &steps(), closed);
        for name in &fixture.segments {
            for header in [false, true] {
                fixture.world.restore(&fixture.image);
                if header {
                    assert!(fixture.world.disk.flip_bit(PATH, name, 40, 1));
                } else {
                    assert!(fixture.world.disk.remove_file(PATH, name));
                }
                let from = Lsn(u64::from_str_radix(&name[..16], 16).expect("its name"));
                match fixture.open(OnDamage::Refuse) {
                    Opened::Damaged(d) => {
                        assert_eq!((d.lsn, d.case), (from, RecoveryCase::SegmentLost), "{d}");
                        assert_eq!(d.file.as_ref(), Some(name), "{d}");
                    }
                    Opened::Shows(..) => panic!("{name} is missing, but no error reports it"),
                }
                fixture.world.restore(&fixture.image);
                if header {
                    fixture.world.disk.flip_bit(PATH, name, 40, 1);
                } else {
                    fixture.world.disk.remove_file(PATH, name);
                }
                fixture.check(&format!("without {name}"), from, from.plus(24 << 10), false);
            }
        }
    }
}

#[test]
fn a_sector_that_cannot_be_read() {
    let fixture = Fixture::new("unreadable", &steps(), false);
    for b in &fixture.batches {
        fixture.world.restore(&fixture.image);
        assert!(fixture.world.disk.make_unreadable(PATH, &b.file, b.offset));
        match fixture.open(OnDamage::Refuse) {
            Opened::Damaged(d) => assert_eq!(d.lsn, b.lsn, "{d}"),
            Opened::Shows(shown, damage, ..) => {
                fixture.is_prefix(&shown);
                let whole = shown.len() == fixture.live.len();
                assert!(damage.is_some() || whole, "{} is unreadable: silent", b.lsn);
            }
        }
    }
}

/// After the end of a cleanly closed log nothing can be missing, and the next batch overwrites the
/// unreadable sector. After a crash that sector may hold a batch.
#[test]
fn a_sector_behind_the_end_that_cannot_be_read() {
    for closed in [true, false] {
        let steps = [Step::Append(500), Step::Commit(500)];
        let fixture = Fixture::new("unreadable behind the end", &steps, closed);
        let last = fixture.batches.last().expect("there are some");
        let behind = last.offset + last.end.since(last.lsn);
        let disk = &fixture.world.disk;
        assert!(disk.make_unreadable(PATH, &last.file, behind));
        match fixture.open(OnDamage::Refuse) {
            Opened::Damaged(d) => {
                assert!(!closed, "{d}");
                assert_eq!((d.lsn, d.case), (last.end, RecoveryCase::ReadError));
            }
            Opened::Shows(shown, damage, ..) => {
                assert!(closed && damage.is_none(), "{damage:?}");
                assert_eq!(shown.len(), fixture.live.len());
            }
        }
    }
}

#[test]
fn an_emptied_directory_is_no_fresh_log() {
    let fixture = Fixture::new("emptied", &steps(), true);
    let open = |mode| {
        SimRuntime::run(1, |rt| {
            let system = fixture.world.disk.system(rt);
            let log = Log::open(&*system, PATH, mode, small());
            log.map(drop).map_err(|e| e.kind())
        })
    };
    // Without the control file the rest does not pass for a new log in any mode.
    fixture.world.disk.remove_file(PATH, "control");
    for mode in [
        OpenMode::OpenExisting,
        OpenMode::OpenOrCreate,
        OpenMode::CreateNew,
    ] {
        assert_eq!(open(mode), Err(ErrorKind::NoLog), "{mode:?}");
    }
    // The segments can be saved without it.
    let (_, saved) = fixture.walk();
    for (lsn, k) in &fixture.live {
        let found = saved.iter().find(|e| e.start == *lsn);
        assert_eq!(found.map(|e| &e.data), Some(&*k.data), "{lsn}");
    }
    for name in &fixture.segments {
        fixture.world.disk.remove_file(PATH, name);
    }
    assert_eq!(open(OpenMode::OpenExisting), Err(ErrorKind::NoLog));
}

/// Damage to one slot and to both slots of the control file, at every moment of a workload.
#[test]
fn a_damaged_control_slot() {
    let mut steps = steps();
    steps.extend([Step::Commit(20_000), Step::Front(70), Step::Commit(20_000)]);
    let case = case("control", vec![steps]);
    let whole = case.world("whole");
    whole.work(1, &case.threads).expect("nothing fails");
    for op in (32..whole.disk.ops()).step_by(5) {
        let world = case.world(&format!("cut at {op}"));
        world.disk.cut_at(op);
        let _ = world.work(1, &case.threads);
        world.disk.crash(Failure::Power, None, op);
        // First undamaged: an opening restores both slots.
        assert!(world.try_open(op, Failure::Power));
        world.disk.crash(Failure::Power, Some(Survival::Lost), op);
        let image = world.image();
        for slot in [0, 65536] {
            world.restore(&image);
            assert!(world.disk.flip_bit(PATH, "control", slot + 50, 3));
            let recovered = world.recover(op, Failure::Power, &[Step::Commit(10)]);
            if let Err(e) = recovered {
                let _report = world.report(format!("slot at {slot}"));
                assert_eq!(e.kind(), ErrorKind::Damaged, "{}: {e}", world.name);
                panic!("{} slot at {slot}: {e}", world.name);
            }
        }
        world.restore(&image);
        for slot in [0, 65536] {
            world.disk.flip_bit(PATH, "control", slot + 50, 3);
        }
        let _report = world.report("both slots".to_owned());
        let opened = SimRuntime::run(op, |rt| {
            let system = world.disk.system(rt);
            let log = Log::open(&*system, PATH, OpenMode::OpenOrCreate, small());
            log.map(drop).map_err(|e| e.kind())
        });
        assert_eq!(opened, Err(ErrorKind::Damaged));
    }
}

/// A repaired log accepts records, and does not use LSNs again.
#[test]
fn a_repaired_log_goes_on() {
    let fixture = Fixture::new("goes on", &steps(), false);
    // The first batch that the opening reads; enough stamps follow it.
    let anchor = fixture.anchor();
    let b = fixture
        .batches
        .iter()
        .find(|b| b.lsn >= anchor && b.frames > 0);
    let b = b.expect("something lies above the anchor");
    fixture.world.disk.flip_bit(PATH, &b.file, b.offset + 9, 0);
    SimRuntime::run(3, |rt| {
        let system = fixture.world.disk.system(rt);
        let options = &fixture.world.options;
        let (log, report) = repaired(&fixture.world.disk, rt, options);
        let lost = report.cut.expect("reported").damage;
        assert_eq!((lost.lsn, lost.case), (b.lsn, RecoveryCase::Damaged));
        let before = read(&log, log.front_lsn());
        fixture.is_prefix(&before);
        let kind = log.read_at(b.lsn).map_err(|e| e.kind());
        assert_eq!(kind, Err(ErrorKind::Voided));
        let end = fixture.live.last().map(|(_, k)| k.end);
        let new = log.commit(b"goes on").expect("goes on");
        assert!(Some(new.start) > end);
        log.close().expect("closes");
        let log = mended(&fixture.world.disk, rt, options, OnDamage::Refuse);
        let (log, _) = log.expect("healthy again");
        let after = read(&log, log.front_lsn());
        assert_eq!(after[..before.len()], before);
        assert_eq!(after.last().map(|e| &e.data[..]), Some(&b"goes on"[..]));
        assert_eq!(after.len(), before.len() + 1);
        let seen = Inspector::open(&*system, PATH).expect("inspect");
        assert_eq!(seen.walk(&mut |_| true).expect("walk").damages, 0);
    });
}

/// Two histories of one log that differ only in their bytes, as after a copied directory with a bad source
/// of random numbers: no batch of the one passes for a batch of the other.
#[test]
fn a_twins_batch_is_not_taken() {
    let steps = vec![Step::Commit(100); 6];
    let fixture = Fixture::new("twin", &steps, false);
    let file = &fixture.segments[0];
    let twin = {
        let world = World::new("twin", SimOptions::default(), small(), 1);
        // Other bytes of the same length.
        lock(&world.model).bytes(1);
        let mut steps = steps.clone();
        steps.push(Step::Cut);
        let _ = world.work(1, &[steps]);
        world.disk.crash(Failure::Power, Some(Survival::Lost), 1);
        world.disk.file_bytes(PATH, file).expect("the same names")
    };
    let own = fixture
        .world
        .disk
        .file_bytes(PATH, file)
        .expect("it is there");
    let anchor = fixture.anchor();
    let mut scanned = 0;
    let here = |b: &&BatchInfo| b.frames > 0 && b.file == *file;
    let with_records = fixture.batches.iter().filter(here);
    for (n, b) in with_records.enumerate().skip(1) {
        fixture.world.restore(&fixture.image);
        let (from, to) = (b.offset as usize, (b.offset + b.end.since(b.lsn)) as usize);
        let mut mixed = own.clone();
        assert_ne!(mixed[from..to], twin[from..to]);
        mixed[from..to].copy_from_slice(&twin[from..to]);
        fixture.world.disk.put_file(PATH, file, &mixed);
        match fixture.open(OnDamage::Refuse) {
            Opened::Damaged(d) => {
                assert_eq!(d.lsn, b.lsn, "{d}");
                scanned += 1;
            }
            Opened::Shows(shown, damage, ..) => {
                fixture.is_prefix(&shown);
                let looked_at = b.lsn >= anchor;
                assert!(!looked_at || damage.is_none(), "opening took {}", b.lsn);
                scanned += u32::from(looked_at);
                assert!(shown.len() <= n, "the twin's record at {} was taken", b.lsn);
            }
        }
    }
    assert!(scanned > 0, "the opening read no batch");
}

/// A force of several batches is stamped at once, without waiting until the log is idle. This bounds the
/// records that cannot be distinguished from a torn tail.
#[test]
fn a_force_of_several_batches_is_stamped() {
    let never = std::time::Duration::from_secs(3600);
    let world = World::new(
        "stamped",
        SimOptions::default(),
        small().idle_stamp(never),
        1,
    );
    let mut steps = vec![Step::Append(2_000); 20];
    steps.extend([Step::Force, Step::Idle(1), Step::Cut]);
    let _ = world.work(1, &[steps]);
    world.disk.crash(Failure::Power, Some(Survival::Lost), 1);
    let proven = SimRuntime::run(1, |rt| {
        let inspector = Inspector::open(&*world.disk.system(rt), PATH).expect("healthy");
        inspector.walk(&mut |_| true).expect("walk").proven_to
    });
    let acked = lock(&world.model).acked_to(Failure::Power);
    assert!(proven >= acked, "{proven} is proven, {acked} acknowledged");
}
