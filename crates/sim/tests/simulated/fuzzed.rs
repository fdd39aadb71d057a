//! What fuzzing found, each as a case of its own.

use logforce_core::{Creation, Entry, Error, Inspector, Log, OnDamage};
use logforce_device::System;
use logforce_sim::model::{PATH, read, small};
use logforce_testkit::{SimDisk, SimOptions, SimRuntime};

/// A log with several segments: its records, its segments' names.
fn several_segments(disk: &SimDisk) -> (Vec<Entry>, Vec<String>) {
    SimRuntime::run(1, |rt| {
        let system = disk.system(rt);
        let log = Log::open(&*system, PATH, Creation::CreateNew, small()).expect("open");
        for n in 0..8_u8 {
            log.commit(&vec![n; 9_000]).expect("commit");
        }
        let records = read(&log, log.front_lsn());
        log.close().expect("close");
        let inspector = Inspector::open(&*system, PATH).expect("inspect");
        let segments = inspector.summary().segments;
        (records, segments.into_iter().map(|s| s.name).collect())
    })
}

fn open(system: &dyn System, on_damage: OnDamage) -> Result<Log, Error> {
    let options = small().on_damage(on_damage);
    Log::open(system, PATH, Creation::OpenExisting, options)
}

/// Two segments have each other's names, and one of them is damaged. The place of the lost one was
/// prepared anew under its name, and the whole one that had it was set aside: the next opening
/// missed it, and what was committed in between was gone.
#[test]
fn a_whole_segment_with_the_name_of_a_lost_one_is_kept() {
    for (lost, whole) in [(0, 1), (1, 0), (2, 1), (3, 0)] {
        let disk = SimDisk::new(SimOptions::default(), 1);
        let (records, names) = several_segments(&disk);
        let bytes = |n: usize| disk.file_bytes(PATH, &names[n]).expect("a segment");
        let mut of_lost = bytes(lost);
        of_lost[0] ^= 1;
        let of_whole = bytes(whole);
        disk.put_file(PATH, &names[whole], &of_lost);
        disk.put_file(PATH, &names[lost], &of_whole);
        let (before, new) = SimRuntime::run(2, |rt| {
            let system = disk.system(rt);
            assert!(open(&*system, OnDamage::Refuse).is_err());
            let log = open(&*system, OnDamage::Truncate).expect("truncated");
            let before = read(&log, log.front_lsn());
            let new = log.commit(b"new").expect("commit");
            log.close().expect("close");
            (before, new)
        });
        let shown = before.len();
        assert_eq!(before[..], records[..shown], "{lost} {whole}");
        SimRuntime::run(3, |rt| {
            let log = open(&*disk.system(rt), OnDamage::Refuse).expect("whole again");
            let after = read(&log, log.front_lsn());
            assert_eq!(after[..shown], before, "{lost} {whole}");
            assert_eq!(after.len(), shown + 1);
            assert_eq!(after[shown].start, new.start);
        });
    }
}
