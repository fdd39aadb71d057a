//! Segment headers that are read wrong.

use crate::common::mended;
use logforce_core::{Inspector, Log, OpenMode};
use logforce_sim::mending::OnDamage;
use logforce_sim::model::{PATH, read, small};
use logforce_testkit::{FaultKind, Misread, SimDisk, SimOptions, SimRuntime};

/// Creates a cleanly closed log of some segments, one of them unused.
fn closed() -> SimDisk {
    let disk = SimDisk::new(SimOptions::default(), 1);
    SimRuntime::run(1, |rt| {
        let log = Log::open(&*disk.system(rt), PATH, OpenMode::CreateNew, small());
        let log = log.expect("made");
        for n in 0..8u8 {
            log.commit(&[n; 15_000]).expect("nothing fails");
        }
        log.close().expect("nothing fails");
    });
    disk.reboot(1);
    disk
}

/// Each read of an opening returns wrong bytes once. Bytes that a second read gets are not lost, and no file
/// is set aside.
#[test]
fn a_header_that_is_read_wrong_once_costs_nothing() {
    let whole = closed();
    let image = whole.snapshot();
    for on_damage in [OnDamage::Refuse, OnDamage::Repair] {
        let mut wrong = 0;
        for n in 0..40 {
            let disk = &whole;
            disk.restore(&image);
            // Each time another sector is returned instead.
            disk.reboot(10 + n);
            let before = disk.faults().get(FaultKind::MisdirectedRead);
            disk.misread_at(n, Misread::Misdirected);
            SimRuntime::run(1, |rt| {
                let opened = mended(disk, rt, &small(), on_damage);
                let (log, report) = opened.unwrap_or_else(|e| panic!("read {n}: {e}"));
                let copies = report.and_then(|report| report.aside);
                assert_eq!(copies, None, "read {n}");
                log.close().expect("nothing fails");
            });
            wrong += disk.faults().get(FaultKind::MisdirectedRead) - before;
            disk.reboot(2);
            let names = disk.stable_names(PATH);
            let odd = names.iter().find(|n| n.ends_with(".damaged"));
            assert_eq!(odd, None, "read {n}");
            let records = SimRuntime::run(2, |rt| {
                let log = Log::open(&*disk.system(rt), PATH, OpenMode::OpenExisting, small());
                let log = log.expect("it opens");
                read(&log, log.front_lsn()).len()
            });
            assert_eq!(records, 8, "read {n}");
        }
        assert!(wrong > 10, "{wrong}");
    }
}

/// A refusal names the file and the reason, even if the header can be read again by then.
#[test]
fn a_refusal_for_a_header_says_what_was_seen() {
    let disk = closed();
    let image = disk.snapshot();
    let mut reported = 0;
    for n in 0..40 {
        disk.restore(&image);
        disk.reboot(1);
        // As often as the opening reads it.
        for again in 0..3 {
            disk.misread_at(n + again, Misread::Error);
        }
        SimRuntime::run(1, |rt| {
            let system = disk.system(rt);
            let refused = Log::open(&*system, PATH, OpenMode::OpenExisting, small()).err();
            let text = refused.map(|e| e.to_string()).unwrap_or_default();
            if text.contains(".seg") {
                assert!(!text.contains("this one is missing"), "read {n}: {text}");
                assert!(text.contains("header cannot be read"), "read {n}: {text}");
                reported += 1;
            }
            Inspector::open(&*system, PATH).expect("it can be inspected");
        });
    }
    assert!(reported > 2, "{reported}");
}
