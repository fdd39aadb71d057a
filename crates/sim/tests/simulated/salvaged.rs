//! Records that salvage, `dump` and `verify` show after damage: all were part of the log.

use crate::common::{mended, repaired};
use logforce_core::{
    Batch, BatchInfo, BatchKind, Error, Inspector, Log, Lsn, OpenMode, Options, ReadOnly, Record,
    Visit,
};
use logforce_sim::mending::{OnDamage, cut};
use logforce_sim::model::{PATH, read, small};
use logforce_testkit::{Failure, SimDisk, SimOptions, SimRuntime, Survival};

/// Results of a walk.
#[derive(Debug, Default)]
struct Shown {
    records: Vec<Record>,
    proven: Vec<Lsn>,
    parts: Vec<Record>,
    batches: Vec<BatchInfo>,
    damages: u64,
}

impl Shown {
    fn has(&self, data: &[u8]) -> bool {
        self.records.iter().any(|e| e.data == data)
    }
}

fn walk(disk: &SimDisk) -> Shown {
    SimRuntime::run(1, |rt| {
        let inspector = Inspector::salvage(&*disk.system(rt), PATH).expect("salvage");
        let mut shown = Shown::default();
        let walked = inspector.walk(&mut |visit| {
            match visit {
                Visit::Record { record, proven } => {
                    shown.records.push(record.clone());
                    shown.proven.extend(proven.then_some(record.start));
                }
                Visit::Batch(b) => shown.batches.push(b.clone()),
                Visit::Part(record) => shown.parts.push(record.clone()),
                Visit::Damage(_) => shown.damages += 1,
            }
            true
        });
        assert_eq!(walked.expect("walked").damages, shown.damages);
        shown
    })
}

/// Returns options with batches of at most two write units.
fn options(disk: &SimDisk) -> Options {
    let unit = disk.options().physical_sector;
    small()
        .segment_size(64 << 10)
        .max_batch_size(2 * u64::from(unit))
}

/// Opens, works, and cuts the power at once. All written bytes survive.
fn live<T>(disk: &SimDisk, work: impl FnOnce(&Log) -> T) -> T {
    live_as(disk, 1, work)
}

/// Does the same as [`live`]. The seed makes logs different.
fn live_as<T>(disk: &SimDisk, seed: u64, work: impl FnOnce(&Log) -> T) -> T {
    let options = options(disk);
    let done = SimRuntime::run(seed, |rt| {
        let system = disk.system(rt);
        let log = Log::open(&*system, PATH, OpenMode::OpenOrCreate, options).expect("open");
        let done = work(&log);
        disk.cut();
        done
    });
    disk.crash(Failure::Power, Some(Survival::Kept), 1);
    done
}

fn zero(disk: &SimDisk, b: &BatchInfo) {
    let mut bytes = disk.file_bytes(PATH, &b.file).expect("a segment");
    bytes[b.offset as usize..][..b.end.since(b.lsn) as usize].fill(0);
    disk.put_file(PATH, &b.file, &bytes);
}

fn flip(disk: &SimDisk, b: &BatchInfo) {
    assert!(disk.flip_bit(PATH, &b.file, b.offset + 20, 1), "{b:?}");
}

fn holding<'s>(shown: &'s Shown, data: &[u8]) -> Vec<&'s BatchInfo> {
    let record = shown.records.iter().find(|e| e.data == data);
    let record = record.expect("it is there");
    let touches = |b: &&BatchInfo| b.lsn < record.end && b.end > record.start;
    shown.batches.iter().filter(touches).collect()
}

const FIRST: &[u8] = b"acknowledged";
const GIVEN_UP: &[u8] = &[3; 3_000];
/// Record that fills one batch.
const ONE_BATCH: &[u8] = &[2; 8_056];
const TWO_BATCHES: &[u8] = &[2; 2 * 8_056];

/// Makes a log that lost power while `lost` and [`GIVEN_UP`] were written. The last batch of the former is
/// missing; the latter is complete. Returns the end of the log.
fn torn(disk: &SimDisk, lost: &[u8]) -> Lsn {
    live(disk, |log| {
        log.commit(FIRST).expect("commit");
        log.append(lost).expect("append");
        let up_to = log.append(GIVEN_UP).expect("append").end;
        log.force(up_to).expect("force");
    });
    let shown = walk(disk);
    let missing = holding(&shown, lost);
    let missing = missing.last().expect("a batch");
    let last = holding(&shown, GIVEN_UP);
    assert!(
        last.iter()
            .all(|b| b.lsn > missing.lsn && b.stamp <= missing.lsn)
    );
    zero(disk, missing);
    for stamp in shown.batches.iter().filter(|b| b.lsn > last[0].lsn) {
        zero(disk, stamp);
    }
    missing.lsn
}

/// Checks that no way to read the log shows records that an opening has given up.
fn given_up(disk: &SimDisk, also: Option<&[u8]>) {
    let shown = walk(disk);
    assert!(!shown.has(GIVEN_UP), "given up, but there again: {shown:?}");
    assert!(shown.has(FIRST) && shown.damages > 0);
    if let Some(also) = also {
        assert!(shown.has(also), "acknowledged after the damage");
    }
    let live = |e: &Record| e.data == FIRST || also.is_some_and(|a| e.data == a);
    assert!(shown.records.iter().all(live));
    let whole = disk.snapshot();
    SimRuntime::run(2, |rt| {
        let system = disk.system(rt);
        let refused = ReadOnly::open(&*system, PATH).err();
        assert!(matches!(refused, Some(Error::Damaged(_))), "{refused:?}");
        let (log, report) = repaired(disk, rt, &options(disk));
        assert!(report.cut.is_some());
        let kept = read(&log, log.front_lsn());
        assert!(kept.iter().all(live), "{kept:?}");
    });
    disk.restore(&whole);
}

/// An opening writes its first batch over the beginning of a torn tail. If that batch cannot be read, only
/// the control file says that the rest of the tail was given up.
#[test]
fn a_tail_that_was_given_up_behind_an_unreadable_opening_is_not_shown() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    let end = torn(&disk, ONE_BATCH);
    live(&disk, |log| assert_eq!(log.recovered().end, end));
    let shown = walk(&disk);
    let opening = shown.batches.last().expect("an epoch batch");
    assert_eq!((opening.kind, opening.lsn), (BatchKind::Epoch, end));
    assert!(disk.make_unreadable(PATH, &opening.file, opening.offset));
    given_up(&disk, None);
}

/// On a device with larger sectors the log continues in a new segment. The batch that says so names an
/// earlier batch of the same kind, which is damaged. Records that the later one voids stay void.
#[test]
fn what_is_void_stays_so_where_an_earlier_void_range_is_lost() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    // A record of two batches, of which the first is left; the opening voids it.
    let end = torn(&disk, TWO_BATCHES);
    live(&disk, |log| assert_eq!(log.recovered().end, end));
    disk.change(|o| o.physical_sector = 8_192);
    live(&disk, |log| log.commit(b"later").map(drop).expect("commit"));
    let shown = walk(&disk);
    assert!(!shown.has(GIVEN_UP) && shown.damages == 0);
    let opening = shown.batches.iter().find(|b| b.lsn == end);
    let opening = opening.expect("an epoch batch");
    assert!(opening.void_from < opening.lsn);
    flip(&disk, opening);
    given_up(&disk, Some(b"later"));
}

/// The same, but the batch that has given up the tail is damaged.
#[test]
fn a_tail_that_an_unknown_void_range_may_hold_is_not_shown() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    let end = torn(&disk, ONE_BATCH);
    disk.change(|o| o.physical_sector = 8_192);
    live(&disk, |log| log.commit(b"later").map(drop).expect("commit"));
    let shown = walk(&disk);
    assert!(!shown.has(GIVEN_UP) && shown.damages == 0);
    let opening = shown.batches.iter().find(|b| b.void_from < b.lsn);
    let opening = opening.expect("an epoch batch");
    assert!(opening.void_from == end && opening.lsn > end);
    flip(&disk, opening);
    given_up(&disk, Some(b"later"));
}

/// One batch of the list of void ranges is damaged. Records that the others have voided stay void, and no
/// record that this one may have voided is reported as proven.
#[test]
fn one_lost_void_range_brings_back_no_more_than_its_own() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    let kept = live(&disk, |log| {
        for round in 0..3_u8 {
            log.commit(&[round; 100]).expect("commit");
            let voided = log.commit(&[round + 100; 100]).expect("commit").start;
            log.truncate_back(voided).expect("truncate");
        }
        log.commit(&[3; 100]).expect("commit");
        read(log, log.front_lsn())
    });
    let whole = disk.snapshot();
    let shown = walk(&disk);
    assert_eq!(shown.records, kept);
    assert_eq!(shown.proven.len(), 3, "{:?}", shown.proven);
    let voids: Vec<&BatchInfo> = shown
        .batches
        .iter()
        .filter(|b| b.kind == BatchKind::Void)
        .collect();
    assert_eq!(voids.len(), 3);
    for (n, void) in voids.iter().enumerate() {
        disk.restore(&whole);
        flip(&disk, void);
        let shown = walk(&disk);
        assert_eq!(shown.damages, 1);
        let mut expected = kept.clone();
        for e in &shown.records {
            if !expected.contains(e) {
                assert_eq!(e.data, [n as u8 + 100; 100], "void {n}: {}", e.start);
                expected.push(e.clone());
            }
        }
        expected.sort_by_key(|e| e.start);
        assert_eq!(shown.records, expected, "void {n}");
        let proven: Vec<Lsn> = kept
            .iter()
            .map(|e| e.start)
            .filter(|s| *s > void.lsn)
            .collect();
        let proven = &proven[..proven.len() - 1];
        assert_eq!(shown.proven, proven, "void {n} at {}", void.lsn);
    }
}

/// A later truncation covers an earlier one, whose batch is damaged. Its range is known nevertheless, and no
/// record is refused or given up because of it.
#[test]
fn a_void_range_within_another_can_be_done_without() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    live(&disk, |log| {
        log.commit(FIRST).expect("commit");
        let voided = log.commit(b"voided").expect("commit").start;
        let first = log.commit(b"voided first").expect("commit").start;
        log.truncate_back(first).expect("truncate");
        log.commit(b"voided with it").expect("commit");
        log.truncate_back(voided).expect("truncate");
        log.commit(b"later").expect("commit");
        // The close moves the anchor past all of it.
        log.clone().close().expect("close");
    });
    let shown = walk(&disk);
    let void = shown.batches.iter().find(|b| b.kind == BatchKind::Void);
    flip(&disk, void.expect("a void batch"));
    let whole = disk.snapshot();
    let shown = walk(&disk);
    assert_eq!(shown.damages, 0);
    assert_eq!(shown.records.len(), 2);
    assert!(shown.has(FIRST) && shown.has(b"later") && shown.proven.len() == 2);
    for on_damage in [OnDamage::Refuse, OnDamage::Repair] {
        disk.restore(&whole);
        SimRuntime::run(2, |rt| {
            let opened = mended(&disk, rt, &options(&disk), on_damage);
            let (log, report) = opened.expect("open");
            assert_eq!(report.and_then(|report| report.aside), None);
            assert_eq!(read(&log, log.front_lsn()), shown.records);
        });
    }
}

/// A crash has left the beginning of an append, and independently the metadata is lost: the append's records
/// are not reported. But whole records of an append with damage in the middle are reported as parts.
#[test]
fn what_was_never_finished_is_not_listed_for_damage_elsewhere() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    let one = b"of an append";
    live(&disk, |log| {
        log.set_meta(b"a vote").expect("set");
        log.commit(FIRST).expect("commit");
        let all = log
            .append(Batch::of(&[one, TWO_BATCHES, one]))
            .expect("append");
        log.force(all.end).expect("force");
        log.commit(b"later").expect("commit");
    });
    let whole = disk.snapshot();
    let before = walk(&disk);
    assert_eq!((before.records.len(), before.damages), (5, 0));
    let middle = holding(&before, TWO_BATCHES);
    let (middle, end) = (middle[1], middle[2]);
    flip(&disk, middle);
    let shown = walk(&disk);
    assert!(shown.has(FIRST) && shown.has(b"later"));
    assert_eq!((shown.records.len(), shown.damages), (2, 1));
    let parts: Vec<&[u8]> = shown.parts.iter().map(|e| &e.data[..]).collect();
    assert_eq!(parts, [one, one]);

    disk.restore(&whole);
    for b in before.batches.iter().filter(|b| b.lsn >= end.lsn) {
        zero(&disk, b);
    }
    let mut control = disk.file_bytes(PATH, "control").expect("a control file");
    control[128 << 10..].fill(0);
    disk.put_file(PATH, "control", &control);
    let shown = walk(&disk);
    assert!(shown.has(FIRST));
    assert_eq!((shown.records.len(), shown.damages), (1, 1));
    assert!(shown.parts.is_empty(), "{:?}", shown.parts);
}

fn hurt_header(disk: &SimDisk, file: &str) {
    assert!(disk.flip_bit(PATH, file, 20, 1), "{file}");
}

/// Makes a log of a little more than three segments.
fn of_segments(disk: &SimDisk, seed: u64) -> (Shown, Vec<String>) {
    live_as(disk, seed, |log| {
        for n in 0..40_u8 {
            log.commit(&[n; 5_000]).expect("commit");
        }
        log.clone().close().expect("close");
    });
    let shown = walk(disk);
    let mut files: Vec<String> = shown.batches.iter().map(|b| b.file.clone()).collect();
    files.dedup();
    assert!(shown.records.len() == 40 && shown.damages == 0 && files.len() >= 3);
    (shown, files)
}

/// A damaged segment header loses no record, because each batch names its log, its LSN and its predecessor.
/// The damage of the header is reported, and an opening refuses.
#[test]
fn a_segment_without_its_header_is_known_by_its_batches() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    let (before, files) = of_segments(&disk, 1);
    let whole = disk.snapshot();
    for without_control in [false, true] {
        for (n, file) in files.iter().enumerate() {
            disk.restore(&whole);
            hurt_header(&disk, file);
            if without_control {
                assert!(disk.remove_file(PATH, "control"));
            }
            let shown = walk(&disk);
            assert_eq!(shown.records, before.records, "{n} {without_control}");
            assert_eq!(shown.damages, 1, "{n} {without_control}");
        }
    }
    // Without any header, the batches identify the log.
    disk.restore(&whole);
    assert!(disk.remove_file(PATH, "control"));
    for file in &files {
        hurt_header(&disk, file);
    }
    assert_eq!(walk(&disk).records, before.records);
    disk.restore(&whole);
    hurt_header(&disk, &files[1]);
    SimRuntime::run(1, |rt| {
        let system = disk.system(rt);
        let refused = Log::open(&*system, PATH, OpenMode::OpenExisting, options(&disk)).err();
        assert!(matches!(refused, Some(Error::Damaged(_))), "{refused:?}");
        let refused = ReadOnly::open(&*system, PATH).err();
        assert!(matches!(refused, Some(Error::Damaged(_))), "{refused:?}");
    });
}

/// Batches from an earlier use of a file name another LSN, and batches of another log name that log. Neither
/// are shown.
#[test]
fn a_segment_without_its_header_shows_nothing_of_another_place_or_log() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    let (before, files) = of_segments(&disk, 1);
    let other = SimDisk::new(SimOptions::default(), 2);
    of_segments(&other, 2);
    let in_file = |e: &Record, file: &str| {
        let of = |b: &&BatchInfo| b.file == file && b.lsn < e.end && b.end > e.start;
        before.batches.iter().any(|b| of(&b))
    };
    let foreign = other.file_bytes(PATH, &files[1]).expect("a segment");
    let elsewhere = disk.file_bytes(PATH, &files[0]).expect("a segment");
    for mut bytes in [foreign, elsewhere] {
        bytes[..128].fill(7);
        disk.put_file(PATH, &files[1], &bytes);
        let shown = walk(&disk);
        let left = before.records.iter().filter(|e| !in_file(e, &files[1]));
        assert!(shown.records.iter().eq(left) && shown.damages > 0);
    }
}

/// A repair removes a segment with a damaged header. Its records are in the copies.
#[test]
fn what_was_cut_for_its_header_can_be_read() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    let (before, files) = of_segments(&disk, 1);
    hurt_header(&disk, &files[1]);
    SimRuntime::run(1, |rt| {
        let (log, report) = repaired(&disk, rt, &options(&disk));
        let mut all = read(&log, log.front_lsn());
        log.close().expect("close");
        all.extend(cut(&*disk.system(rt), &report));
        assert_eq!(all, before.records);
    });
}

/// A segment's file ends too early, and a repair ends the log there. All records that could be read from the
/// file before can be read afterwards. This also holds if its header is damaged.
#[test]
fn a_file_that_is_too_short_loses_nothing_more_by_a_repair() {
    for segment_size in [16 << 10, 64 << 10] {
        for (len, hurt) in [12_000, 16_000, 40_000, 65_535]
            .into_iter()
            .filter(|len| *len < segment_size)
            .flat_map(|len| [(len, false), (len, true)])
        {
            let disk = SimDisk::new(SimOptions::default(), 1);
            let options = options(&disk).segment_size(segment_size as u64);
            SimRuntime::run(1, |rt| {
                let system = disk.system(rt);
                let log = Log::open(&*system, PATH, OpenMode::CreateNew, options.clone());
                let log = log.expect("made");
                for n in 0..60u8 {
                    log.commit(&[n; 1_500]).expect("commit");
                }
                log.close().expect("close");
            });
            let mut names = disk.stable_names(PATH);
            names.retain(|n| n.ends_with(".seg"));
            names.sort();
            let mut bytes = disk.file_bytes(PATH, &names[1]).expect("a segment");
            assert_eq!(bytes.len(), segment_size);
            bytes.truncate(len);
            disk.put_file(PATH, &names[1], &bytes);
            if hurt {
                hurt_header(&disk, &names[1]);
            }
            let shown = walk(&disk);
            assert!(shown.damages > 0);
            let before = shown.records;
            SimRuntime::run(1, |rt| {
                let (log, report) = repaired(&disk, rt, &options);
                let mut after = read(&log, log.front_lsn());
                log.close().expect("close");
                after.extend(cut(&*disk.system(rt), &report));
                let (n, of) = (after.len(), before.len());
                assert!(
                    after == before,
                    "{n} of {of}: {len} of {segment_size}, {hurt}"
                );
            });
        }
    }
}

/// A record begins in one segment and ends in the third, and the segment between is lost. The rest of the
/// record must not pass for the record, however early the loss was noticed.
#[test]
fn a_record_whose_middle_is_lost_is_not_put_together() {
    let long = vec![5; 150 << 10];
    // The record may begin anywhere in the batches of the first segment.
    for before in (45..70).map(|kib| kib << 10) {
        let disk = SimDisk::new(SimOptions::default(), 1);
        live(&disk, |log| {
            log.append(&vec![4; before]).expect("append");
            let at = log.append(&long).expect("append");
            log.force(at.end).expect("force");
            log.truncate_front(at.start).expect("truncate");
        });
        // The segments of an earlier opening are whole, so its loss is known before the walk begins.
        live(&disk, |log| {
            for _ in 0..100 {
                log.commit(FIRST).expect("commit");
            }
        });
        let shown = walk(&disk);
        let whole = holding(&shown, &long);
        let mut segments: Vec<&str> = whole.iter().map(|b| b.file.as_str()).collect();
        segments.dedup();
        assert!(segments.len() >= 3, "{segments:?}");
        let lost = disk.file_bytes(PATH, segments[1]).expect("a segment");
        for control in [true, false] {
            assert!(disk.remove_file(PATH, segments[1]));
            if !control {
                let len = disk.file_bytes(PATH, "control").expect("it").len();
                disk.put_file(PATH, "control", &vec![0; len]);
            }
            let left = walk(&disk);
            assert!(left.damages > 0);
            let sizes: Vec<usize> = left.records.iter().map(|e| e.data.len()).collect();
            let are_true = sizes.iter().all(|s| [before, FIRST.len()].contains(s));
            assert!(are_true, "{sizes:?} of {before}, control file: {control}");
            disk.put_file(PATH, segments[1], &lost);
        }
    }
}
