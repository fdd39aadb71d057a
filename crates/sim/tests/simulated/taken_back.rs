//! What was taken back does not come back, also where the batch that says so is cut with damage.

use logforce_core::{Creation, ErrorKind, Log, OnDamage, Options};
use logforce_device::System;
use logforce_sim::model::{PATH, read, small};
use logforce_testkit::{SimDisk, SimOptions, SimRuntime};

fn open(system: &dyn System, options: Options) -> Log {
    Log::open(system, PATH, Creation::OpenOrCreate, options).expect("it opens")
}

/// Records over several segments are taken back, and one of those segments is lost: the truncation
/// at the damage keeps what lies before, but for what had been taken back there.
#[test]
fn a_truncation_at_damage_brings_nothing_back() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    let (back, lost) = SimRuntime::run(1, |rt| {
        let system = disk.system(rt);
        let log = open(&*system, small());
        log.commit(b"kept").expect("nothing fails");
        let back = log.commit(b"taken back").expect("nothing fails");
        let commit = |len| log.commit(&vec![7; len]).expect("nothing fails");
        commit(20_000);
        let middle = commit(20_000);
        // The batch that takes it back must lie in another segment than what is lost.
        commit(20_000);
        commit(20_000);
        log.truncate_back(back.start).expect("nothing fails");
        log.commit(b"behind").expect("nothing fails");
        log.close().expect("nothing fails");
        (back.start, middle.start)
    });
    let names = disk.stable_names(PATH);
    let start = |name: &&String| {
        let start = name.strip_suffix(".seg")?;
        u64::from_str_radix(start, 16).ok()
    };
    let victim = names
        .iter()
        .filter(|n| start(n).is_some_and(|s| s <= lost.0));
    let victim = victim.max().expect("the segment of the middle");
    assert!(disk.remove_file(PATH, victim));
    for n in 0..2 {
        SimRuntime::run(2 + n, |rt| {
            let system = disk.system(rt);
            let log = open(&*system, small().on_damage(OnDamage::Truncate));
            assert_eq!(log.recovered().lost.is_some(), n == 0);
            let shown = read(&log, log.front_lsn());
            assert_eq!(shown[0].data, b"kept");
            assert_eq!(shown.len() as u64, 1 + n, "{shown:?}");
            let kind = log.read_at(back).map_err(|e| e.kind());
            assert_eq!(kind.map(|e| e.data), Err(ErrorKind::Voided));
            log.commit(b"again").expect("nothing fails");
            log.close().expect("nothing fails");
        });
    }
}

/// Two neighbouring segments cannot be read just once; the log is truncated there. When they can be
/// read again neither may count for anything.
#[test]
fn segments_that_can_be_read_again_stay_given_up() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    SimRuntime::run(1, |rt| {
        let log = open(&*disk.system(rt), small());
        for n in 0..8u8 {
            log.commit(&[n; 15_000]).expect("nothing fails");
        }
        log.close().expect("nothing fails");
    });
    let mut names = disk.stable_names(PATH);
    names.retain(|n| n.ends_with(".seg"));
    names.sort();
    for name in &names[2..4] {
        assert!(disk.make_unreadable(PATH, name, 0));
    }
    let shown = |seed, options: Options| {
        SimRuntime::run(seed, |rt| {
            let log = open(&*disk.system(rt), options);
            let shown = read(&log, log.front_lsn());
            log.close().expect("nothing fails");
            shown
        })
    };
    let truncated = shown(2, small().on_damage(OnDamage::Truncate));
    assert!(!truncated.is_empty() && truncated.len() < 8);
    disk.lift_faults();
    // Another length of segments than those had.
    assert_eq!(shown(3, small().segment_len(32 << 10)), truncated);
    assert_eq!(shown(4, small()), truncated);
}
