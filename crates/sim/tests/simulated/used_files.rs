//! Files of truncated segments that are used again, under the names that they have.

use crate::common::{open, opened};
use logforce_core::{
    Error, GivenUp, Inspector, Log, LogSummary, Lsn, OnDamage, Options, SegmentInfo,
};
use logforce_sim::model::PATH;
use logforce_testkit::{
    Call, FailingCalls, Failure, Refusal, SimDisk, SimOptions, SimRuntime, Survival,
};
use std::collections::BTreeSet;
use std::time::Duration;

const SEGMENT: u64 = 16 << 10;
/// Four of them fill a segment.
const RECORD: usize = 2_500;

fn options() -> Options {
    Options::new()
        .segment_size(SEGMENT)
        .max_batch(8 << 10)
        .buffer_size(32 << 10)
        .max_spare_segments(8)
        .calibrate(false)
        .live_stats(false)
        .idle_stamp(Duration::MAX)
}

fn commit(log: &Log, count: usize) {
    for n in 0..count {
        log.commit(vec![n as u8; RECORD]).expect("nothing fails");
    }
}

fn summary(disk: &SimDisk) -> LogSummary {
    SimRuntime::run(9, |rt| {
        let inspector = Inspector::open(&*disk.system(rt), PATH).expect("a healthy log");
        inspector.summary()
    })
}

fn own_name(start: Lsn) -> String {
    format!("{:016x}.seg", start.0)
}

/// Whether its file has the name of another segment.
fn is_used_again(segment: &&SegmentInfo) -> bool {
    segment.name != own_name(segment.start)
}

fn used_again(log: &LogSummary) -> usize {
    log.segments.iter().filter(is_used_again).count()
}

/// Names of segments in the directory.
fn segment_files(disk: &SimDisk) -> BTreeSet<String> {
    let names = disk.names(PATH).into_keys();
    names.filter(|n| n.ends_with(".seg")).collect()
}

/// Neither is a name changed nor the directory synced.
#[test]
fn the_directory_does_not_change() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    SimRuntime::run(1, |rt| {
        let log = opened(&disk, rt, options());
        commit(&log, 40);
        // More often than the control file can name files: it forgets those of what was truncated.
        for _ in 0..30 {
            log.truncate_front_at_most(log.tail_lsn()).expect("it does");
            let (files, before) = (segment_files(&disk), log.stats().counters);
            // As long as there are spares.
            while log.stats().counters.segments_recycled - before.segments_recycled < 5 {
                commit(&log, 1);
                rt.sleep(Duration::from_secs(1));
            }
            let after = log.stats().counters;
            assert_eq!(after.directory_syncs, before.directory_syncs);
            assert_eq!(segment_files(&disk), files);
            commit(&log, 40);
        }
        assert!(log.stats().counters.segments_recycled > 150);
        log.close().expect("nothing fails");
    });
    let closed = summary(&disk);
    assert_eq!(used_again(&closed), 0, "a close puts the names right");
    assert!(closed.spares.iter().all(|s| s.0.ends_with(".spare")));
}

/// A log that was cut while it used files again.
fn crashed() -> SimDisk {
    let disk = SimDisk::new(SimOptions::default(), 1);
    SimRuntime::run(1, |rt| {
        let log = opened(&disk, rt, options());
        commit(&log, 40);
        log.truncate_front_at_most(log.tail_lsn()).expect("it does");
        commit(&log, 8);
        disk.cut();
    });
    disk.crash(Failure::Power, Some(Survival::Lost), 1);
    disk
}

fn goes_on(disk: &SimDisk, seed: u64, records: usize) {
    SimRuntime::run(seed, |rt| {
        let log = opened(disk, rt, options());
        assert_eq!(log.recovered().lost, None);
        let shown = log.read_from(log.front_lsn()).expect("it reads").count();
        assert_eq!(shown, records);
        log.close().expect("nothing fails");
    });
    assert_eq!(used_again(&summary(disk)), 0);
    has_one_name_for_each_file(disk);
}

fn has_one_name_for_each_file(disk: &SimDisk) {
    let names = disk.names(PATH);
    let files: BTreeSet<u64> = names.values().copied().collect();
    assert_eq!(files.len(), names.len(), "{names:?}");
}

/// Opens, commits so many records, and closes.
fn run(
    disk: &SimDisk,
    seed: u64,
    on_damage: OnDamage,
    count: usize,
) -> Result<Vec<GivenUp>, Error> {
    SimRuntime::run(seed, |rt| {
        let log = open(disk, rt, &options().on_damage(on_damage))?;
        for n in 0..count {
            log.commit(vec![n as u8; RECORD])?;
        }
        let given_up = log.given_up()?;
        log.close()?;
        Ok(given_up)
    })
}

#[test]
fn an_opening_puts_the_names_right() {
    let disk = crashed();
    let log = summary(&disk);
    assert!(used_again(&log) >= 2, "{log:?}");
    let in_place = log.spares.iter().filter(|s| s.0.ends_with(".seg")).count();
    assert!(in_place >= 2, "{log:?}");
    goes_on(&disk, 2, 8);
    goes_on(&disk, 3, 8);
}

/// A crash while the header of a spare was overwritten: nothing in it is needed, and it must not turn out
/// to be a segment later.
#[test]
fn a_header_that_is_half_written() {
    for (unreadable, partly_unread) in [(false, false), (true, false), (false, true)] {
        let disk = crashed();
        let log = summary(&disk);
        let spare = log.spares.iter().find(|s| s.0.ends_with(".seg"));
        let (name, _) = spare.expect("it keeps its name");
        match unreadable {
            true => assert!(disk.make_unreadable(PATH, name, 0)),
            false => assert!(disk.flip_bit(PATH, name, 40, 3)),
        }
        if partly_unread {
            assert!(disk.make_unreadable(PATH, name, 8 << 10));
        }
        let strays = summary(&disk).strays;
        assert_eq!(strays.len(), 1, "{strays:?}");
        goes_on(&disk, 2, 8);
        let names = disk.names(PATH);
        assert!(!names.contains_key(name));
        // It may have held what nobody else has.
        let is_kept = names.keys().any(|n| n.contains("damaged"));
        assert_eq!(is_kept, partly_unread, "{names:?}");
        disk.lift_faults();
        assert_eq!(summary(&disk).strays, []);
        goes_on(&disk, 3, 8);
    }
}

/// The control file has room for so many names; further files are renamed before they are used again.
#[test]
fn more_files_than_the_control_file_can_name() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    let many = || options().max_spare_segments(200);
    SimRuntime::run(1, |rt| {
        let log = opened(&disk, rt, many());
        commit(&log, 560);
        log.truncate_front_at_most(log.tail_lsn()).expect("it does");
        commit(&log, 560);
        let recycled = log.stats().counters.segments_recycled;
        assert!(recycled > 125, "{recycled}");
        disk.cut();
    });
    disk.crash(Failure::Power, Some(Survival::Lost), 1);
    let log = summary(&disk);
    assert_eq!(used_again(&log), 112);
    assert!(log.segments.len() > 125, "{}", log.segments.len());
    goes_on(&disk, 2, 560);
}

/// A close that was torn, on a filesystem that does not write two names at once.
#[test]
fn a_segment_under_its_old_name_and_its_own() {
    let disk = crashed();
    for segment in summary(&disk).segments.iter().filter(is_used_again) {
        assert!(disk.link_file(PATH, &segment.name, &own_name(segment.start)));
    }
    assert_eq!(summary(&disk).strays, [], "one segment, not two");
    goes_on(&disk, 2, 8);
    SimRuntime::run(3, |rt| {
        let log = opened(&disk, rt, options());
        for _ in 0..3 {
            log.truncate_front_at_most(log.tail_lsn()).expect("it does");
            commit(&log, 40);
        }
        log.close().expect("nothing fails");
    });
    goes_on(&disk, 4, 40);
}

/// A close renames over nothing: whose a file is that has the name of a segment, it cannot know.
#[test]
fn a_close_overwrites_no_file() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    let taken = SimRuntime::run(1, |rt| {
        let log = opened(&disk, rt, options());
        commit(&log, 40);
        log.truncate_front_at_most(log.tail_lsn()).expect("it does");
        commit(&log, 8);
        let segments = summary(&disk).segments;
        let used = segments.iter().find(is_used_again).expect("there is one");
        let taken = own_name(used.start);
        assert!(disk.link_file(PATH, "lock", &taken));
        log.close().expect("nothing fails");
        taken
    });
    let names = disk.names(PATH);
    assert_eq!(names[&taken], names["lock"], "{names:?}");
    assert_eq!(used_again(&summary(&disk)), 1);
}

/// A used file whose header cannot be read is given up, by an opening that is cut short at each operation.
/// The next one gives up the same. When it can be read again, it must not be a second segment where another
/// was made.
#[test]
fn a_used_file_that_is_given_up_stays_so() {
    let disk = crashed();
    let image = disk.snapshot();
    let segments = summary(&disk).segments;
    let used: Vec<&SegmentInfo> = segments.iter().filter(is_used_again).collect();
    let mut cuts = 0;
    for victim in &used {
        let restart = || {
            disk.restore(&image);
            disk.reboot(1);
            assert!(disk.make_unreadable(PATH, &victim.name, 0));
        };
        restart();
        let uncut = run(&disk, 5, OnDamage::Truncate, 0).expect("it opens");
        assert!(!uncut.is_empty());
        for after in 0.. {
            restart();
            disk.cut_at(disk.ops() + after);
            let first = run(&disk, 5, OnDamage::Truncate, 0);
            if !disk.is_cut() {
                first.unwrap_or_else(|e| panic!("{e}"));
                break;
            }
            cuts += 1;
            disk.crash(Failure::Process, Some(Survival::Kept), 1);
            let second = run(&disk, 6, OnDamage::Truncate, 2);
            let second = second.unwrap_or_else(|e| panic!("+{after}: {e}"));
            // It may end later, or be listed twice: the first opening may have made segments.
            let starts = |all: &[GivenUp]| all.iter().map(|g| g.from).collect::<BTreeSet<_>>();
            assert_eq!(starts(&second), starts(&uncut), "+{after}");
            disk.lift_faults();
            run(&disk, 7, OnDamage::Refuse, 2).unwrap_or_else(|e| panic!("+{after}: {e}"));
        }
    }
    assert!(used.len() >= 2 && cuts > 100, "{used:?}, {cuts} cuts");
}

/// The same, and the next opening can read the header, and gets a listing that lacks the file: it must know
/// that one is there.
#[test]
fn a_used_file_that_was_to_be_given_up_and_is_not_listed() {
    let disk = crashed();
    let image = disk.snapshot();
    let segments = summary(&disk).segments;
    let (mut refused, mut opened) = (0, 0);
    for victim in segments.iter().filter(is_used_again) {
        for after in 0.. {
            disk.restore(&image);
            disk.reboot(1);
            assert!(disk.make_unreadable(PATH, &victim.name, 0));
            disk.cut_at(disk.ops() + after);
            let _ = run(&disk, 5, OnDamage::Truncate, 0);
            if !disk.is_cut() {
                break;
            }
            disk.crash(Failure::Process, Some(Survival::Kept), 1);
            disk.lift_faults();
            if !disk.names(PATH).contains_key(&victim.name) {
                continue;
            }
            disk.leave_out_of_listings(&victim.name);
            match run(&disk, 6, OnDamage::Truncate, 0) {
                Ok(_) => opened += 1,
                Err(Error::Io { .. }) => refused += 1,
                Err(e) => panic!("+{after}: {e}"),
            }
            disk.lift_faults();
            run(&disk, 7, OnDamage::Refuse, 2).unwrap_or_else(|e| panic!("+{after}: {e}"));
        }
    }
    assert!(refused >= 10, "{refused} refused, {opened} opened");
}

/// A crash came before the control file listed a used file, whose header cannot be read at the next
/// opening; that makes a segment at the same place, also where it gives up damage elsewhere.
#[test]
fn a_header_of_which_the_control_file_knows_nothing() {
    for damage in [false, true] {
        let mut states = 0;
        for op in 0..300 {
            let disk = SimDisk::new(SimOptions::default(), 1);
            SimRuntime::run(1, |rt| {
                let log = opened(&disk, rt, options());
                commit(&log, 40);
                log.truncate_front_at_most(log.tail_lsn()).expect("it does");
                disk.cut_at(disk.ops() + op);
                for n in 0..30 {
                    let _ = log.commit(vec![n; RECORD]);
                }
                disk.cut();
            });
            disk.crash(Failure::Process, Some(Survival::Kept), 1);
            let log = summary(&disk);
            let is_listed = |s: &&SegmentInfo| s.start < log.prepared_end;
            let unlisted = |s: &&SegmentInfo| !is_listed(s) && is_used_again(s);
            let Some(victim) = log.segments.iter().find(unlisted) else {
                continue;
            };
            states += 1;
            assert!(disk.make_unreadable(PATH, &victim.name, 0));
            if damage {
                let last = log.segments.iter().rfind(is_listed);
                assert!(disk.make_unreadable(PATH, &last.expect("one").name, 0));
            }
            run(&disk, 5, OnDamage::Truncate, 12).unwrap_or_else(|e| panic!("+{op}: {e}"));
            // What was renamed must stay so.
            disk.crash(Failure::Power, Some(Survival::Lost), 1);
            disk.lift_faults();
            run(&disk, 7, OnDamage::Refuse, 12).unwrap_or_else(|e| panic!("+{op}: {e}"));
        }
        assert!(states >= 10, "{states}");
    }
}

/// A spare with a torn header held what was truncated, and is no evidence of what was given up before.
#[test]
fn a_torn_spare_beside_a_range_that_was_given_up() {
    let disk = crashed();
    let log = summary(&disk);
    let mut used = log.segments.iter().filter(|s| s.start < log.anchor);
    let lost = used.next_back().expect("there is one");
    assert!(disk.flip_bit(PATH, &lost.name, 40, 3));
    let given_up = run(&disk, 2, OnDamage::Truncate, 12).expect("it opens");
    assert_eq!(given_up.len(), 1, "{given_up:?}");
    SimRuntime::run(3, |rt| {
        let log = opened(&disk, rt, options());
        commit(&log, 12);
        log.truncate_front_at_most(log.tail_lsn()).expect("it does");
        commit(&log, 2);
        disk.cut();
    });
    disk.crash(Failure::Power, Some(Survival::Lost), 1);
    let spares = summary(&disk).spares;
    let spare = spares.iter().find(|s| s.0.ends_with(".seg"));
    let (name, _) = spare.expect("it keeps its name");
    assert!(disk.flip_bit(PATH, name, 40, 3));
    let now = run(&disk, 4, OnDamage::Refuse, 0).expect("it opens");
    let ranges = |all: &[GivenUp]| all.iter().map(|g| (g.from, g.to)).collect::<Vec<_>>();
    assert_eq!(ranges(&now), ranges(&given_up));
    assert!(!disk.names(PATH).contains_key(name));
}
