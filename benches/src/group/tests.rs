//! Tests of the baseline. The other parts are tested in `tests/group.rs`, on a given system.

use super::baseline::Baseline;
use super::records::{first_number, record, stamp};
use logforce_device::{Method, OpenFile, System};
use logforce_device_os::OsSystem;
use logforce_measure::counting::CountingSystem;
use std::collections::HashSet;
use std::sync::Arc;

/// Makes a directory beside this program and not in `/tmp`, which is often in memory.
fn place() -> tempfile::TempDir {
    let program = std::env::current_exe().unwrap();
    tempfile::tempdir_in(program.parent().unwrap()).unwrap()
}

#[test]
fn every_record_of_the_baseline_is_there_and_whole() {
    const LEN: u64 = 8 << 20;
    const EACH: u64 = 100;
    let place = place();
    let system = CountingSystem::new(Arc::new(OsSystem::new()), |_| true);
    let dir = system.directory(place.path()).unwrap();
    let file = dir.open("journal", OpenFile::CREATE).unwrap();
    let baseline = Baseline::new(file, Method::Dsync, 4096, LEN);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let baseline = &baseline;
            scope.spawn(move || {
                // All lengths are multiples of 8. Some records end at the end of a unit or just before
                // it, but no header crosses a unit boundary: the reader below takes zeroes there for
                // padding.
                let long = record(5000);
                for n in 0..EACH {
                    let number = first_number(thread) + n;
                    let mut record = long[..8 + 8 * (number * 61 % 610) as usize].to_vec();
                    stamp(&mut record, number);
                    baseline.commit(&record).unwrap();
                }
            });
        }
    });
    let counts = system.counts();
    assert!(counts.writes > 0 && counts.through == counts.writes);
    let bytes = std::fs::read(place.path().join("journal")).unwrap();
    let (mut at, mut found) = (0, HashSet::new());
    while at + 8 <= bytes.len() {
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        let len = word(at) as usize;
        if len == 0 {
            // The next write starts at a unit boundary.
            at = (at + 1).next_multiple_of(4096);
            continue;
        }
        let record = &bytes[at + 8..at + 8 + len];
        assert_eq!(word(at + 4), crc32c::crc32c(record));
        let number = u64::from_le_bytes(record[..8].try_into().unwrap());
        assert!(found.insert(number), "{number} is there twice");
        at += 8 + len;
    }
    let all = (0..8).flat_map(|t| (0..EACH).map(move |n| first_number(t) + n));
    assert_eq!(found, all.collect());
    let too_long = vec![0; 5 << 20];
    assert!(baseline.commit(&too_long).is_err());
}

#[test]
fn a_baseline_that_fails_tells_everybody() {
    let place = place();
    let dir = OsSystem::new().directory(place.path()).unwrap();
    drop(dir.open("journal", OpenFile::CREATE).unwrap());
    let file = dir.open("journal", OpenFile::READ).unwrap();
    let baseline = Baseline::new(file, Method::Dsync, 4096, 1 << 20);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..2 {
                    assert!(baseline.commit(&[1; 100]).is_err());
                }
            });
        }
    });
}
