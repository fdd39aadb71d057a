//! Files of truncated segments that are used again, under the names that they have.

use crate::common::opened;
use logforce_core::{Inspector, Log, LogSummary, Lsn, Options};
use logforce_sim::model::PATH;
use logforce_testkit::{Failure, SimDisk, SimOptions, SimRuntime, Survival};
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

fn is_used_again(name: &str, start: Lsn) -> bool {
    name != format!("{:016x}.seg", start.0)
}

/// Segments whose files have names of other segments.
fn used_again(log: &LogSummary) -> usize {
    let segments = log.segments.iter();
    segments.filter(|s| is_used_again(&s.name, s.start)).count()
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
        for _ in 0..5 {
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
    for unreadable in [false, true] {
        let disk = crashed();
        let log = summary(&disk);
        let spare = log.spares.iter().find(|s| s.0.ends_with(".seg"));
        let (name, _) = spare.expect("it keeps its name");
        match unreadable {
            true => assert!(disk.make_unreadable(PATH, name, 0)),
            false => assert!(disk.flip_bit(PATH, name, 40, 3)),
        }
        let strays = summary(&disk).strays;
        assert_eq!(strays.len(), 1, "{strays:?}");
        goes_on(&disk, 2, 8);
        assert!(!disk.names(PATH).contains_key(name));
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
