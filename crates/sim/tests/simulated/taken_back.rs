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
