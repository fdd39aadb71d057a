//! Copies that a repair keeps of what it removes. The exhaustive suite tests crashes in repairs and later
//! losses.

use crate::common::repaired;
use logforce_core::{Lsn, Record, RepairOptions, RepairReport, repair};
use logforce_sim::mending::{batches, commit_some, cut, live, made, rot};
use logforce_sim::model::{PATH, read, small};
use logforce_testkit::{SimDisk, SimOptions, SimRuntime, Survival};
use std::path::Path;

fn in_copies(disk: &SimDisk, report: &RepairReport) -> Vec<Record> {
    SimRuntime::run(1, |rt| cut(&*disk.system(rt), report))
}

/// A log is repaired, goes on, and is repaired again in the segment where it went on. Both copies stay, even
/// if the front passes their records. A log that opens is not changed.
#[test]
fn each_repair_has_copies_of_its_own() {
    let (disk, first) = made(4);
    rot(&disk);
    let mut second = Vec::new();
    let one = live(&disk, Survival::Kept, |log| second = commit_some(log, 10));
    let from = one.cut.as_ref().expect("it was damaged").from;
    let kept = in_copies(&disk, &one);
    assert!(kept.iter().all(|e| e.start >= from && first.contains(e)));
    let readable = first.iter().filter(|e| e.start >= from).count();
    assert!(kept.len() + 1 >= readable, "{} of {readable}", kept.len());
    assert_eq!(
        one.cut.as_ref().map(|cut| cut.records),
        Some(kept.len() as u64)
    );

    rot(&disk);
    let two = live(&disk, Survival::Kept, |_| {});
    assert_ne!(one.aside, two.aside);
    let later = in_copies(&disk, &two);
    assert!(
        !later.is_empty() && later.iter().all(|e| second.contains(e)),
        "{later:?}"
    );
    assert_eq!(in_copies(&disk, &one), kept);

    let none = live(&disk, Survival::Kept, |log| {
        let new = log.commit(b"goes on").expect("nothing fails");
        log.truncate_front(new.start).expect("nothing fails");
    });
    assert_eq!((none.cut, none.aside), (None, None));
    assert_eq!(in_copies(&disk, &one), kept);
    assert_eq!(in_copies(&disk, &two), later);
}

/// The header of a segment is unreadable during a repair and readable afterwards. No removed record comes
/// back, and log and copies together have all records.
#[test]
fn a_segment_that_can_be_read_again_is_in_the_copies() {
    let (disk, all) = made(12);
    let (_, written, _) = batches(&disk, 1);
    let middle = written.iter().find(|b| b.file != written[0].file);
    let middle = middle.expect("more than a segment");
    assert!(disk.make_unreadable(PATH, &middle.file, 0));
    let mut left = Vec::new();
    let report = live(&disk, Survival::Kept, |log| {
        left = read(log, log.front_lsn())
    });
    assert!(report.unread > 0);
    disk.lift_faults();
    let whole = live(&disk, Survival::Kept, |log| {
        assert_eq!(read(log, log.front_lsn()), left)
    });
    assert_eq!(whole.aside, None, "it opens: nothing to repair");
    assert_eq!([left, in_copies(&disk, &report)].concat(), all);
}

/// A dry run changes nothing, and reports what the repair then does.
#[test]
fn a_dry_run_changes_nothing() {
    let (disk, _) = made(12);
    rot(&disk);
    let files = || {
        let names = disk.names(PATH).into_keys();
        let with_bytes = |name: String| (name.clone(), disk.file_bytes(PATH, &name));
        names.map(with_bytes).collect::<Vec<_>>()
    };
    let before = files();
    SimRuntime::run(1, |rt| {
        let system = disk.system(rt);
        let plan = RepairOptions::new().dry_run(true);
        let plan = repair(&*system, Path::new(PATH), &plan).expect("nothing fails");
        assert!(files() == before);
        let place = plan.aside.as_deref().expect("it would be repaired");
        assert!(disk.names(place).is_empty(), "no copies");
        let done = repair(&*system, Path::new(PATH), &RepairOptions::new());
        let done = done.expect("nothing fails");
        let (would, did) = (plan.cut.expect("damage"), done.cut.expect("damage"));
        assert_eq!((would.from, would.damage), (did.from, did.damage));
        assert_eq!((would.records, plan.aside), (did.records, done.aside));
    });
}

/// The segment with the front has a damaged header. The records truncated before the front are not in the
/// copies either.
#[test]
fn copies_bring_back_nothing_below_the_front() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    let front = SimRuntime::run(1, |rt| {
        let log = crate::common::opened(&disk, rt, small());
        let commit = |n: u8| log.commit(&[n; 3_000]).expect("nothing fails").start;
        let all: Vec<Lsn> = (0..12).map(commit).collect();
        log.truncate_front(all[6]).expect("a record begins there");
        log.close().expect("nothing fails");
        all[6]
    });
    let names = disk.stable_names(PATH);
    let first = names.iter().filter(|n| n.ends_with(".seg")).min();
    assert!(disk.flip_bit(PATH, first.expect("a segment"), 20, 0));
    SimRuntime::run(2, |rt| {
        let (_, report) = repaired(&disk, rt, &small());
        assert!(report.cut.as_ref().expect("it was damaged").from < front);
        let kept = cut(&*disk.system(rt), &report);
        assert!(
            !kept.is_empty() && kept.iter().all(|e| e.start >= front),
            "{kept:?}"
        );
    });
}
