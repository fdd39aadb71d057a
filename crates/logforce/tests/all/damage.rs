//! Logs that have lost a file or contain one of another log. Openings refuse them and name the damage; only a
//! repair changes them.

use crate::common::*;
use logforce::{
    Error, ErrorKind, Guarantee, Log, Lsn, Options, Result,
    inspect::{RecoveryCase, RepairOptions, Visit},
    replica::{ImportOptions, ReplicaOptions},
};
use logforce_testkit::process::Start;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const LEN: usize = 20_000;
const RECORDS: u64 = 60;

/// The two ways to open an existing log.
const OPENERS: [fn(&Path, Options) -> Result<Log>; 2] = [
    |p, o| logforce::open_existing(p, o),
    |p, o| logforce::open_or_create(p, o),
];

/// Creates a closed log with several segments.
fn closed_log() -> TempDir {
    let dir = temp();
    let log = logforce::create_new(dir.path(), options()).unwrap();
    for n in 0..RECORDS {
        log.commit(&record(n, LEN)).unwrap();
    }
    log.close().unwrap();
    dir
}

/// Returns the segments that contain records. Prepared segments follow them.
fn used_segments(dir: &Path) -> Vec<PathBuf> {
    let used = segments(dir)
        .into_iter()
        .filter(|p| fs::read(p).unwrap()[8192..].iter().any(|&b| b != 0))
        .collect::<Vec<_>>();
    assert!(used.len() >= 4, "{used:?}");
    used
}

fn name(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

fn refused(dir: &Path, case: RecoveryCase, words: &[&str]) -> Error {
    let before = contents(dir);
    let words = [words, &[dir.to_str().unwrap(), "logforce verify"]].concat();
    let e = assert_error(
        logforce::open_existing(dir, options()),
        ErrorKind::Damaged,
        &words,
    );
    let Error::Damaged(damage) = &e else {
        panic!("{e:?}")
    };
    assert_eq!(damage.case, case, "{e}");
    assert_eq!(e.lsn(), Some(damage.lsn));
    assert_eq!(e.path(), Some(dir));
    assert!(before == contents(dir), "a refusal changes nothing");
    e
}

/// Checks that a failed repair has made no copies.
fn assert_nothing_beside(log: &Path) {
    let copies = format!("{}.cut-", name(log));
    let entries = fs::read_dir(log.parent().unwrap()).unwrap();
    let names = entries.map(|e| e.unwrap().file_name().into_string().unwrap());
    let made: Vec<String> = names.filter(|n| n.starts_with(&copies)).collect();
    assert_eq!(made, [""; 0]);
}

fn contents(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap().path())
        .map(|p| (p.clone(), fs::read(p).unwrap()))
        .collect();
    all.sort();
    all
}

/// Repairs the log, and checks that the records before the damage are there and the log works. The copies
/// must contain the original files.
fn cut(dir: &Path) -> u64 {
    let before = contents(dir);
    let copies = temp();
    let repair = RepairOptions::new().aside(copies.path());
    let report = logforce::inspect::repair(dir, &repair).unwrap();
    println!("lost: {:?}", report.cut);
    let cut = report.cut.as_ref().unwrap();
    assert!(cut.from < cut.to && cut.damage.repairable, "{cut:?}");
    let kept_in = report.aside.clone().unwrap();
    assert!(kept_in.starts_with(copies.path()), "{report:?}");
    // Files that end below the cut are not copied, because they stay.
    let after = contents(dir);
    for (path, bytes) in before.iter().filter(|f| !after.contains(f)) {
        let name = match name(path) {
            "lock" => continue,
            "control" => "control.cut",
            name => name,
        };
        let copy = fs::read(kept_in.join(name)).unwrap();
        assert!(copy == *bytes, "{name}");
    }
    let again = logforce::inspect::repair(dir, &repair).unwrap();
    assert_eq!((again.cut, again.aside), (None, None));
    let log = logforce::open_existing(dir, options()).unwrap();
    let kept = read_all(&log).len() as u64;
    assert!(kept < RECORDS);
    assert_holds(&log, 0, kept, LEN);
    log.commit(&record(kept, LEN)).unwrap();
    log.close().unwrap();
    let log = logforce::open_existing(dir, options()).unwrap();
    assert_holds(&log, 0, kept + 1, LEN);
    kept
}

#[test]
fn a_segment_is_missing() {
    // A segment in the middle, the last one, and the first one.
    for which in [1, usize::MAX, 0] {
        let dir = closed_log();
        let used = used_segments(dir.path());
        let gone = &used[which.min(used.len() - 1)];
        let bytes = fs::read(gone).unwrap();
        fs::remove_file(gone).unwrap();
        refused(
            dir.path(),
            RecoveryCase::SegmentLost,
            &[name(gone), "missing"],
        );
        let seen = logforce::inspect::open(dir.path()).unwrap();
        let found = seen.walk(&mut |_| true).unwrap();
        assert!(found.damages > 0 && found.records < RECORDS);
        // With the segment restored, the log opens again.
        fs::write(gone, bytes).unwrap();
        let log = logforce::open_existing(dir.path(), options()).unwrap();
        assert_holds(&log, 0, RECORDS, LEN);
        log.close().unwrap();
        fs::remove_file(gone).unwrap();
        let kept = cut(dir.path());
        assert_eq!(kept == 0, which == 0);
    }
}

#[test]
fn a_prepared_segment_without_records_is_missing() {
    let dir = closed_log();
    let last = segments(dir.path()).pop().unwrap();
    assert!(!used_segments(dir.path()).contains(&last));
    fs::remove_file(&last).unwrap();
    refused(
        dir.path(),
        RecoveryCase::SegmentLost,
        &[name(&last), "missing"],
    );
}

#[test]
fn all_segments_are_missing() {
    let dir = closed_log();
    for segment in segments(dir.path()) {
        fs::remove_file(segment).unwrap();
    }
    refused(dir.path(), RecoveryCase::SegmentLost, &["missing"]);
    for open in OPENERS {
        assert_error(
            open(dir.path(), options()),
            ErrorKind::Damaged,
            &["missing"],
        );
    }
}

#[test]
fn a_segment_is_shorter() {
    for len in [0, 1, 4096, 100_000, SEGMENT - 1] {
        let dir = closed_log();
        let used = used_segments(dir.path());
        let short = &used[1];
        let file = fs::File::options().write(true).open(short).unwrap();
        file.set_len(len).unwrap();
        let why = if len < 128 {
            "no segment header".to_owned()
        } else {
            format!("it has {len} bytes, its header says {SEGMENT}")
        };
        refused(dir.path(), RecoveryCase::SegmentLost, &[name(short), &why]);
        assert!(cut(dir.path()) > 0);
    }
}

#[test]
fn a_segment_is_there_twice() {
    let dir = closed_log();
    let used = used_segments(dir.path());
    let copy = dir.path().join("00000000000000ff.seg");
    fs::copy(&used[2], &copy).unwrap();
    refused(
        dir.path(),
        RecoveryCase::SegmentLost,
        &[name(&copy), name(&used[2]), "move the copy away"],
    );
    // A repair cannot help, and neither the opening nor a failed repair recommends one.
    let before = contents(dir.path());
    let opened = logforce::open_existing(dir.path(), options()).map(drop);
    let repaired = logforce::inspect::repair(dir.path(), &RepairOptions::new()).map(drop);
    for result in [opened, repaired] {
        let e = result.unwrap_err();
        let Error::Damaged(damage) = &e else {
            panic!("{e}")
        };
        assert!(!damage.repairable, "{e}");
        let reported = e.to_string();
        assert!(reported.contains("a repair cannot mend this"), "{reported}");
        assert!(!reported.contains("logforce repair"), "{reported}");
    }
    assert!(before == contents(dir.path()));
    assert_nothing_beside(dir.path());
    fs::remove_file(&copy).unwrap();
    // A copy under a name that the log does not use is ignored.
    fs::copy(&used[2], dir.path().join("backup.seg.old")).unwrap();
    let log = logforce::open_existing(dir.path(), options()).unwrap();
    assert_holds(&log, 0, RECORDS, LEN);
}

#[test]
fn names_are_hints_only() {
    let dir = closed_log();
    for (i, segment) in segments(dir.path()).into_iter().enumerate() {
        let other = format!("{:016x}.seg", 0xffff_0000_0000 - i as u64);
        fs::rename(segment, dir.path().join(other)).unwrap();
    }
    let log = logforce::open_existing(dir.path(), options()).unwrap();
    assert_holds(&log, 0, RECORDS, LEN);
    log.commit(&record(RECORDS, LEN)).unwrap();
    assert_holds(&log, 0, RECORDS + 1, LEN);
}

#[test]
fn a_segment_of_another_log() {
    let (dir, other) = (closed_log(), closed_log());
    let used = used_segments(dir.path());
    let id = logforce::inspect::open(other.path())
        .unwrap()
        .summary()
        .log_id;
    fs::copy(other.path().join(name(&used[1])), &used[1]).unwrap();
    refused(
        dir.path(),
        RecoveryCase::SegmentLost,
        &[name(&used[1]), "belongs to log", &id.to_string()],
    );
}

#[test]
fn a_stray_segment_of_another_log_is_not_overwritten() {
    let (dir, other) = (closed_log(), closed_log());
    // Uses the positions of the log's next segments.
    let end = logforce::inspect::open(dir.path())
        .unwrap()
        .summary()
        .prepared_end;
    let stray = dir.path().join(format!("{:016x}.seg", end.0));
    let bytes = fs::read(&used_segments(other.path())[1]).unwrap();
    fs::write(&stray, &bytes).unwrap();
    let log = logforce::open_existing(dir.path(), options()).unwrap();
    for n in RECORDS..2 * RECORDS {
        log.commit(&record(n, LEN)).unwrap();
    }
    log.close().unwrap();
    let kept = contents(dir.path()).into_iter().any(|(_, b)| b == bytes);
    assert!(kept, "another log's data was overwritten");
    let log = logforce::open_existing(dir.path(), options()).unwrap();
    assert_holds(&log, 0, 2 * RECORDS, LEN);
}

#[test]
fn a_control_file_of_another_log() {
    let (dir, other) = (closed_log(), closed_log());
    fs::copy(other.path().join("control"), dir.path().join("control")).unwrap();
    refused(dir.path(), RecoveryCase::SegmentLost, &["belongs to log"]);
}

/// Changes a slot or header, and corrects its checksum.
fn with_right_checksum(bytes: &mut [u8], change: impl FnOnce(&mut [u8])) {
    change(bytes);
    bytes[8..12].fill(0);
    let crc = crc32c::crc32c(bytes);
    bytes[8..12].copy_from_slice(&crc.to_le_bytes());
}

const SLOTS: [usize; 2] = [0, 64 << 10];

#[test]
fn a_standby_of_a_newer_format_stays() {
    let dir = temp();
    let log = logforce::create_new(dir.path().join("log"), options()).unwrap();
    log.commit(b"a record").unwrap();
    let mut replica = log.replicate(ReplicaOptions::new()).unwrap();
    let chunk = replica.read(u64::MAX).unwrap().unwrap();
    let to = dir.path().join("standby");
    let follow = || {
        let options = ImportOptions::new().require(Guarantee::ProcessCrash);
        logforce::replica::import(&to, options.resume(true))
    };
    let mut import = follow().unwrap();
    import
        .chunk(chunk.from, &chunk.bytes, &chunk.control, None)
        .unwrap();
    import.checkpoint().unwrap();
    drop(import);
    patch(&to.join("control.backup"), |b| {
        for at in SLOTS {
            let newer = |b: &mut [u8]| b[6..8].copy_from_slice(&77u16.to_le_bytes());
            with_right_checksum(&mut b[at..at + 4096], newer);
        }
    });
    let before = contents(&to);
    assert_error(follow(), ErrorKind::NewerFormat, &["version 77"]);
    assert_eq!(contents(&to), before);
}

#[test]
fn a_newer_format() {
    let newer = |b: &mut [u8]| b[6..8].copy_from_slice(&77u16.to_le_bytes());
    // A newer version in either slot of the control file, or in both.
    for slots in [&SLOTS[..1], &SLOTS[1..], &SLOTS] {
        let dir = closed_log();
        let control = dir.path().join("control");
        patch(&control, |b| {
            for &at in slots {
                with_right_checksum(&mut b[at..at + 4096], newer);
            }
        });
        let words = [
            control.to_str().unwrap(),
            "version 77",
            "reads version 1",
            "use a newer one",
        ];
        let before = contents(dir.path());
        let found = logforce::open_existing(dir.path(), options());
        let e = assert_error(found, ErrorKind::NewerFormat, &words);
        assert_eq!(e.path(), Some(&*control));
        let found = logforce::open_or_create(dir.path(), options());
        assert_error(found, ErrorKind::NewerFormat, &words);
        let found = logforce::inspect::repair(dir.path(), &RepairOptions::new());
        assert_error(found, ErrorKind::NewerFormat, &words);
        assert_error(
            logforce::inspect::open(dir.path()).map(drop),
            ErrorKind::NewerFormat,
            &words,
        );
        assert_error(
            logforce::inspect::salvage(dir.path()).map(drop),
            ErrorKind::NewerFormat,
            &words,
        );
        assert!(before == contents(dir.path()));
    }
    // A newer version in a segment.
    let dir = closed_log();
    let segment = &used_segments(dir.path())[1];
    patch(segment, |b| with_right_checksum(&mut b[..128], newer));
    let before = contents(dir.path());
    let opened = logforce::open_existing(dir.path(), options()).map(drop);
    let repaired = logforce::inspect::repair(dir.path(), &RepairOptions::new()).map(drop);
    for found in [opened, repaired] {
        let e = assert_error(
            found,
            ErrorKind::NewerFormat,
            &[name(segment), "version 77"],
        );
        assert_eq!(e.path(), Some(&**segment));
    }
    assert!(before == contents(dir.path()));
}

#[test]
fn a_control_file_that_is_no_good() {
    type Change = fn(&mut Vec<u8>);
    let changes: [(&str, Change, ErrorKind, &str); 7] = [
        (
            "empty",
            |b| b.clear(),
            ErrorKind::NotALog,
            "not a control file",
        ),
        (
            "zeroes",
            |b| b.fill(0),
            ErrorKind::NotALog,
            "not a control file",
        ),
        (
            "half a slot",
            |b| b.truncate(2048),
            ErrorKind::NotALog,
            "not a control file",
        ),
        (
            "both checksums",
            |b| SLOTS.iter().for_each(|at| b[at + 100] ^= 1),
            ErrorKind::Damaged,
            "both slots of the control file are unusable",
        ),
        (
            "contradictions",
            |b| {
                for at in SLOTS {
                    with_right_checksum(&mut b[at..at + 4096], |s| s[40..48].fill(0xee));
                }
            },
            ErrorKind::Damaged,
            "contradictory",
        ),
        (
            "reserved bytes",
            |b| {
                for at in SLOTS {
                    with_right_checksum(&mut b[at..at + 4096], |s| s[200] = 1);
                }
            },
            ErrorKind::Damaged,
            "reserved bytes",
        ),
        (
            "one slot rotten, the other gone",
            |b| {
                b[100] ^= 1;
                b.truncate(66_000);
            },
            ErrorKind::Damaged,
            "both slots",
        ),
    ];
    for (what, change, kind, words) in changes {
        println!("{what}");
        let dir = closed_log();
        patch(&dir.path().join("control"), change);
        let before = contents(dir.path());
        for open in OPENERS {
            let e = assert_error(open(dir.path(), options()), kind, &["control", words]);
            assert_eq!(e.path(), Some(dir.path()));
        }
        let repaired = logforce::inspect::repair(dir.path(), &RepairOptions::new());
        let e = assert_error(repaired, kind, &["control", words]);
        assert!(!e.to_string().contains("logforce repair"), "{e}");
        assert_nothing_beside(dir.path());
        assert_error(
            logforce::inspect::open(dir.path()).map(drop),
            kind,
            &[words],
        );
        assert!(before == contents(dir.path()));
        // A salvage still finds all records.
        let salvaged = logforce::inspect::salvage(dir.path()).unwrap();
        let mut records = Vec::new();
        let found = salvaged
            .walk(&mut |v| {
                if let Visit::Record { record, .. } = v {
                    records.push(record.data.clone());
                }
                true
            })
            .unwrap();
        assert_eq!(found.damages, 0, "{found:?}");
        assert_eq!(records.len() as u64, RECORDS);
        assert!((0..).zip(&records).all(|(n, r)| *r == record(n, LEN)));
    }
}

#[test]
fn one_slot_of_the_control_file_is_enough() {
    type Change = fn(&mut [u8]);
    let changes: [Change; 2] = [|slot| slot.fill(0), |slot| slot[33] ^= 0x10];
    for change in changes {
        for at in SLOTS {
            let dir = closed_log();
            let control = dir.path().join("control");
            patch(&control, |b| change(&mut b[at..at + 4096]));
            let log = logforce::open_existing(dir.path(), options()).unwrap();
            assert!(
                !log.recovered().clean,
                "the word of one slot is not enough for that"
            );
            assert_holds(&log, 0, RECORDS, LEN);
            log.commit(&record(RECORDS, LEN)).unwrap();
            log.close().unwrap();
            let log = logforce::open_existing(dir.path(), options()).unwrap();
            assert!(log.recovered().clean);
            assert_holds(&log, 0, RECORDS + 1, LEN);
        }
    }
}

/// Returns the segment of record `n`, and the offset of its bytes there.
fn find(dir: &Path, n: u64) -> (PathBuf, usize) {
    let head = &record(n, LEN)[..64];
    for segment in segments(dir) {
        let bytes = fs::read(&segment).unwrap();
        if let Some(at) = bytes.windows(64).position(|w| w == head) {
            return (segment, at);
        }
    }
    panic!("record {n} is in no segment");
}

#[test]
fn a_bit_flipped_below_the_anchor_is_told_by_reading_and_by_verify() {
    let dir = closed_log();
    let (segment, at) = find(dir.path(), 20);
    patch(&segment, |b| b[at + 30] ^= 4);
    // Opening scans only batches after the last stamp.
    let log = logforce::open_existing(dir.path(), options()).unwrap();
    let found: Vec<_> = log.read_from(log.front_lsn()).unwrap().collect();
    assert_eq!(found.len(), 21, "20 records, an error, and no more");
    for (n, read) in found.iter().take(20).enumerate() {
        assert!(read.as_ref().unwrap().data == record(n as u64, LEN));
    }
    let e = assert_error(
        found.into_iter().next_back().unwrap(),
        ErrorKind::Damaged,
        &[name(&segment), "LSN", "offset"],
    );
    let Error::Damaged(damage) = &e else {
        panic!("{e:?}")
    };
    let within = damage.offset as usize..damage.offset as usize + 4096;
    assert!(within.contains(&at), "{damage:?} {at}");
    check_the_rest(&log);
    log.close().unwrap();
    let mut reported = Vec::new();
    let seen = logforce::inspect::open(dir.path()).unwrap();
    let found = seen
        .walk(&mut |v| {
            if let Visit::Damage(d) = v {
                reported.push(d.clone());
            }
            true
        })
        .unwrap();
    // Record 20 is gone, one more was added.
    assert_eq!((found.damages, found.records), (1, RECORDS));
    assert_eq!(
        (reported[0].lsn, reported[0].offset),
        (damage.lsn, damage.offset)
    );
}

/// Checks that the log with damage below its anchor still works.
fn check_the_rest(log: &Log) {
    let at = log.commit(b"more").unwrap();
    assert_eq!(log.read_at(at.start).unwrap().data, b"more");
}

#[test]
fn a_bit_flipped_above_the_anchor_is_refused_and_can_be_cut() {
    // The process is killed, so only stamps say where the log ended.
    const DIR: &str = "LOGFORCE_TEST_DIR";
    let name_of_this = "a_bit_flipped_above_the_anchor_is_refused_and_can_be_cut";
    if let Some(dir) = in_second_process(DIR) {
        let log = logforce::create_new(&dir, options().segment_size(8 << 20)).unwrap();
        if log.guarantee() < Guarantee::PowerLoss {
            tell("weak");
        }
        // The records use less than half of the first segment. Otherwise preparing the next one would write
        // the control file and move the anchor.
        for n in 0..RECORDS {
            log.commit(&record(n, LEN)).unwrap();
        }
        // Ends the process without closing the log.
        std::process::abort();
    }
    let home = temp();
    let dir = home.path().join("log");
    let output = again(name_of_this, DIR, &dir).to_end().unwrap();
    if String::from_utf8_lossy(&output.stdout).contains("weak") {
        logforce_testkit::skip!("nothing here survives a loss of power, so nothing is stamped");
        return;
    }
    let open = || logforce::open_existing(&dir, options().segment_size(8 << 20));
    let log = open().unwrap();
    assert!(!log.recovered().clean);
    assert_holds(&log, 0, RECORDS, LEN);
    drop(log);
    fs::remove_dir_all(&dir).unwrap();
    again(name_of_this, DIR, &dir).to_end().unwrap();
    let (segment, at) = find(&dir, 20);
    patch(&segment, |b| b[at + 30] ^= 4);
    let e = refused(
        &dir,
        RecoveryCase::Damaged,
        &[name(&segment), "durable up to LSN"],
    );
    assert!(e.lsn().unwrap().0 <= at as u64 && e.lsn().unwrap().0 + 4096 > at as u64);
    assert_eq!(cut(&dir), 20);
}

/// A repair cuts everything from the start of the front's segment on. The front is still a position to read and
/// to follow from.
#[test]
fn everything_is_cut_from_the_front_on() {
    let home = temp();
    let dir = home.path().join("log");
    let log = logforce::create_new(&dir, options()).unwrap();
    // Each commit fills a write unit, and so a batch ends where the segment does.
    let front = Lsn(SEGMENT);
    for n in 0.. {
        if log.commit(&record(n, 100)).unwrap().start > front {
            break;
        }
    }
    log.truncate_front(front).unwrap();
    log.close().unwrap();
    let segment = dir.join(format!("{:016x}.seg", front.0));
    patch(&segment, |b| b[20] ^= 1);
    let report = logforce::inspect::repair(&dir, &RepairOptions::new()).unwrap();
    assert_eq!(report.cut.unwrap().from, front);
    let log = logforce::open_existing(&dir, options()).unwrap();
    assert_eq!(log.front_lsn(), front);
    log.commit(b"the next").unwrap();
    let follower = log.follow_lsn(front).map(|mut f| f.try_next());
    assert_eq!(follower.unwrap().unwrap().unwrap().data, b"the next");
    let mut read = log.read_from(front).unwrap();
    assert_eq!(read.next().unwrap().unwrap().data, b"the next");
    log.close().unwrap();
    let remote = logforce::read_only(&dir).unwrap().follow_lsn(front);
    assert_eq!(
        remote.unwrap().try_next().unwrap().unwrap().data,
        b"the next"
    );
}
