//! A follower in another process, in single situations: the cost of a poll, openings that continue in a new
//! segment, damage at which a repair ended the log, and another log in the same directory.

use crate::common::{opened, repaired};
use logforce_core::{
    Error, ErrorKind, Guarantee, Lsn, Method, Options, ReadOnly, ReadOnlyFollower,
};
use logforce_sim::model::PATH;
use logforce_testkit::{Fault, SimDisk, SimOptions, SimRuntime};
use std::collections::BTreeMap;
use std::time::Duration;

fn small() -> Options {
    let options = Options::new().segment_size(65536).max_batch_size(16384);
    options.buffer_size(65536)
}

fn follow(disk: &SimDisk, rt: &SimRuntime, from: Lsn) -> ReadOnlyFollower {
    let log = ReadOnly::open(&*disk.system(rt), PATH).unwrap();
    log.follow_lsn(from).unwrap()
}

/// Returns the records that come within a second.
fn all(follower: &mut ReadOnlyFollower) -> Vec<Vec<u8>> {
    let mut seen = Vec::new();
    let timeout = Duration::from_secs(1);
    while let Some(record) = follower.next_timeout(timeout).unwrap() {
        seen.push(record.data);
    }
    seen
}

#[test]
fn a_look_in_vain_reads_three_places() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    SimRuntime::run(1, |rt| {
        let log = opened(&disk, rt, small());
        for n in 0..200u32 {
            log.commit(&vec![n as u8; 2_000]).unwrap();
        }
        let mut follower = follow(&disk, rt, Lsn::ORIGIN);
        assert_eq!(all(&mut follower).len(), 200);
        rt.sleep(Duration::from_secs(1));
        let before = disk.reads();
        let ops = disk.ops();
        for _ in 0..800 {
            assert_eq!(follower.try_next().unwrap(), None);
        }
        // A poll reads two slots of the control file and a header, and every eighth time also past the
        // cache. Once it opens the file of the last batch by name and reads the batch.
        let reads = disk.reads() - before;
        assert!(reads <= 800 * 3 + 101, "{reads} reads");
        assert_eq!(disk.ops(), ops, "it only reads");
        // One more record costs a few more reads, however long the log is.
        log.commit(b"one more").unwrap();
        rt.sleep(Duration::from_secs(1));
        let before = disk.reads();
        assert_eq!(follower.try_next().unwrap().unwrap().data, b"one more");
        let reads = disk.reads() - before;
        assert!(reads <= 8, "{reads} reads");
        log.close().unwrap();
    });
}

/// An opening on a device with a larger write unit begins a new segment.
#[test]
fn a_coarser_write_unit() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    SimRuntime::run(1, |rt| {
        let mut shown = None;
        let mut unshown = None;
        for (n, unit) in (b'0'..).zip([4096, 8192, 4096, 16384]) {
            let options = small().method(Method::Fdatasync).write_unit_size(unit);
            let log = opened(&disk, rt, options.max_batch_size(32768));
            log.commit(&[n]).unwrap();
            let shown = shown.get_or_insert_with(|| follow(&disk, rt, Lsn::ORIGIN));
            unshown.get_or_insert_with(|| follow(&disk, rt, Lsn::ORIGIN));
            assert_eq!(all(shown), [[n]]);
            log.close().unwrap();
        }
        let mut unshown = unshown.unwrap();
        assert_eq!(all(&mut unshown), [[b'0'], [b'1'], [b'2'], [b'3']]);
    });
}

/// A segment is lost, and a repair ends the log there, while followers are before or after it. Each follower
/// that had removed records is notified. In the end all have the log's records.
#[test]
fn a_cut_at_damage() {
    for taken in [0, 1, 6, 7, 8, 14, 20] {
        let disk = SimDisk::new(SimOptions::default(), 1);
        let lost = format!("{:016x}.seg", 65536);
        SimRuntime::run(1, |rt| {
            let log = opened(&disk, rt, small());
            for n in 0..20u8 {
                log.commit(&[n; 9_000]).unwrap();
            }
            rt.sleep(Duration::from_secs(1));
            let mut follower = follow(&disk, rt, Lsn::ORIGIN);
            let mut copy = BTreeMap::new();
            for n in 0..taken {
                let record = follower.next_blocking().unwrap().unwrap();
                assert_eq!(record.data, [n; 9_000]);
                copy.insert(record.start, record.data);
            }
            log.close().unwrap();
            assert!(disk.remove_file(PATH, &lost));
            let (log, report) = repaired(&disk, rt, &small());
            assert!(report.cut.is_some());
            // At this time no batch proves that the repair is durable.
            let look = ReadOnly::open(&*disk.system(rt), PATH).unwrap();
            match look.follow(&follower.position()) {
                // Records below its position can still be read. The follower reports the repair once it is
                // proven.
                Ok(begun) => assert_eq!(begun.position(), follower.position()),
                Err(Error::Voided { lsn, from, .. }) => {
                    assert!(taken >= 6 && from < lsn, "{taken}: {lsn} {from}");
                }
                Err(e) => panic!("{taken} taken: {e}"),
            }
            log.commit(b"anew").unwrap();
            let mut voided = 0;
            loop {
                match follower.next_timeout(Duration::from_secs(1)) {
                    Ok(Some(record)) => drop(copy.insert(record.start, record.data)),
                    Ok(None) => break,
                    Err(Error::Voided { from, .. }) => {
                        copy.split_off(&from);
                        voided += 1;
                    }
                    Err(e) => panic!("{taken} taken: {e}"),
                }
            }
            let records = log.read_from(log.front_lsn()).unwrap();
            let there: BTreeMap<_, _> = records
                .map(|r| r.map(|e| (e.start, e.data)).unwrap())
                .collect();
            assert!(there.len() < 10);
            assert!(
                copy == there,
                "{taken} taken: {:?} {:?}",
                copy.keys(),
                there.keys()
            );
            assert_eq!(
                voided,
                u32::from(usize::from(taken) >= there.len()),
                "{taken}"
            );
            log.close().unwrap();
        });
    }
}

/// A truncation is seen before it is durable, and a failure undoes it. The follower does not lose the
/// records that it covered.
#[test]
fn a_truncation_that_never_was() {
    let (mut never, mut done) = (0, 0);
    for op in 0..12 {
        let disk = SimDisk::new(SimOptions::default(), op);
        let options = || small().method(Method::Fdatasync);
        SimRuntime::run(op, |rt| {
            rt.tolerate_panics();
            let log = opened(&disk, rt, options());
            let mut places = Vec::new();
            for n in 0..6u8 {
                places.push(log.commit(&[n; 100]).unwrap().start);
            }
            rt.sleep(Duration::from_secs(1));
            let mut follower = follow(&disk, rt, Lsn::ORIGIN);
            let mut copy = BTreeMap::new();
            let mut look = |copy: &mut BTreeMap<_, _>| {
                match follower.next_timeout(Duration::from_millis(100)) {
                    Ok(Some(record)) => drop(copy.insert(record.start, record.data)),
                    Ok(None) => return false,
                    Err(Error::Voided { from, .. }) => drop(copy.split_off(&from)),
                    Err(e) => panic!("{e}"),
                }
                true
            };
            look(&mut copy);
            disk.fail_at(disk.ops() + op, Fault::Io);
            let truncated = log.truncate_back(places[2]).is_ok();
            while look(&mut copy) {}
            drop(log);
            let log = opened(&disk, rt, options());
            log.commit(b"after").unwrap();
            while look(&mut copy) {}
            let records = log.read_from(log.front_lsn()).unwrap();
            let there: BTreeMap<_, _> = records
                .map(|r| r.map(|e| (e.start, e.data)).unwrap())
                .collect();
            assert!(!truncated || there.len() == 3);
            *(if there.len() == 3 {
                &mut done
            } else {
                &mut never
            }) += 1;
            assert!(
                copy == there,
                "fault at {op}: {:?}, {:?}",
                copy.keys(),
                there.keys()
            );
            log.close().unwrap();
        });
    }
    assert!(never > 0 && done > 0, "{never} {done}");
}

/// Without stamps only the anchor proves records, and it moves over records that were read before.
#[test]
fn segment_changes_prove_under_a_weak_method() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    SimRuntime::run(1, |rt| {
        let options = small().method(Method::Buffered);
        let log = opened(&disk, rt, options.require(Guarantee::ProcessCrash));
        let mut follower = follow(&disk, rt, Lsn::ORIGIN);
        let mut seen = 0;
        for n in 0..100u8 {
            log.commit(&[n; 2_000]).unwrap();
            rt.sleep(Duration::from_millis(1));
            while let Some(record) = follower.try_next().unwrap() {
                assert_eq!(record.data, [seen; 2_000]);
                seen += 1;
            }
        }
        assert!((40..100).contains(&seen), "{seen}");
        log.close().unwrap();
        assert_eq!(all(&mut follower).len(), 100 - usize::from(seen));
    });
}

#[test]
fn another_log_in_its_place() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    SimRuntime::run(1, |rt| {
        let log = opened(&disk, rt, small());
        log.commit(b"0").unwrap();
        let mut follower = follow(&disk, rt, Lsn::ORIGIN);
        assert_eq!(all(&mut follower), [b"0"]);
        log.close().unwrap();
        for name in disk.stable_names(PATH) {
            disk.remove_file(PATH, &name);
        }
        let timeout = Duration::from_secs(1);
        let gone = follower.next_timeout(timeout).unwrap_err();
        assert_eq!(gone.kind(), ErrorKind::NoLog, "{gone}");
        let mut follower = {
            let log = opened(&disk, rt, small());
            log.commit(b"1").unwrap();
            let follower = follow(&disk, rt, Lsn::ORIGIN);
            log.close().unwrap();
            follower
        };
        assert_eq!(all(&mut follower), [b"1"]);
        for name in disk.stable_names(PATH) {
            disk.remove_file(PATH, &name);
        }
        let log = opened(&disk, rt, small());
        let other = follower.next_timeout(timeout).unwrap_err();
        assert_eq!(other.kind(), ErrorKind::OtherLog, "{other}");
        log.close().unwrap();
    });
}
