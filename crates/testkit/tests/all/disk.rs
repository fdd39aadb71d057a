//! Behaviour of the simulated disk for each layer, fault and failure.

use crate::common::{DIRECT, UNIT, read, write};
use logforce_device::{
    AlignedBuf, Barrier, Blocks, Directory, File, OpenFile, ReadSource, Write, WriteCache,
};
use logforce_testkit::{
    Counters, Failure, Fault, FaultKind, Misread, SectorFault, SimDisk, SimOptions, SimRuntime,
    Survival,
};
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

fn with_dir<T>(disk: &SimDisk, body: impl FnOnce(&dyn Directory) -> T) -> T {
    SimRuntime::run(1, |rt| {
        body(&*disk.system(rt).make_directory(Path::new("/d")).unwrap())
    })
}

/// Creates a disk with a durable file `a` of 4 units filled with 1.
fn prepared(options: SimOptions) -> SimDisk {
    let disk = SimDisk::new(options, 1);
    disk.put_file("/d", "a", &[1; 4 * UNIT]);
    disk
}

fn stable(disk: &SimDisk) -> Vec<u8> {
    disk.file_bytes("/d", "a")
        .unwrap()
        .chunks(UNIT)
        .map(|c| c[0])
        .collect()
}

#[test]
fn through_makes_its_own_bytes_durable_and_no_others() {
    for how in [OpenFile::WRITE, DIRECT] {
        let disk = prepared(SimOptions::default());
        with_dir(&disk, |d| {
            let a = d.open("a", how).unwrap();
            write(&*a, 0, 1, 2, false).unwrap();
            write(&*a, 1, 1, 3, true).unwrap();
            assert_eq!(stable(&disk), [1, 3, 1, 1]);
            a.barrier(Barrier::Data).unwrap();
            assert_eq!(stable(&disk), [2, 3, 1, 1]);
        });
    }
}

#[test]
fn a_device_without_a_volatile_cache_keeps_direct_overwrites_only() {
    let through = SimOptions {
        write_cache: WriteCache::Through,
        ..SimOptions::default()
    };
    for (in_place, kept) in [(true, 2), (false, 1)] {
        let disk = prepared(SimOptions {
            in_place,
            ..through.clone()
        });
        with_dir(&disk, |d| {
            let direct = d.open("a", DIRECT).unwrap();
            write(&*direct, 0, 1, 2, false).unwrap();
            let buffered = d.open("a", OpenFile::WRITE).unwrap();
            write(&*buffered, 1, 1, 2, false).unwrap();
            direct.reserve(6 * UNIT as u64).unwrap();
            direct.barrier(Barrier::Data).unwrap();
            let before = stable(&disk);
            assert_eq!(before, [2, 2, 1, 1, 0, 0]);
            // The unit is reserved but not written, so the state of its extent must become durable, too.
            write(&*direct, 5, 1, 2, false).unwrap();
            write(&*direct, 3, 1, 2, false).unwrap();
            write(&*buffered, 2, 1, 2, false).unwrap();
        });
        assert_eq!(stable(&disk), [2, 2, 1, kept, 0, 0]);
    }
}

#[test]
fn after_a_failed_barrier_the_cache_shows_what_the_device_lacks() {
    let mut seen = BTreeSet::new();
    for seed in 0..50 {
        let disk = SimDisk::new(SimOptions::default(), seed);
        disk.put_file("/d", "a", &[1; 4 * UNIT]);
        with_dir(&disk, |d| {
            let a = d.open("a", OpenFile::WRITE).unwrap();
            write(&*a, 0, 1, 2, false).unwrap();
            disk.fail_at(disk.ops(), Fault::Io);
            a.barrier(Barrier::Data).unwrap_err();
            a.barrier(Barrier::Data).unwrap();
            let cached = read(&*a, 0, ReadSource::Cache).unwrap();
            let medium = read(&*a, 0, ReadSource::Medium).unwrap();
            assert_eq!((cached, medium), (2, stable(&disk)[0]));
            a.drop_cache(0..u64::MAX);
            assert_eq!(read(&*a, 0, ReadSource::Cache).unwrap(), medium);
            seen.insert(medium);
        });
    }
    assert_eq!(seen, BTreeSet::from([1, 2]));
}

#[test]
fn a_failed_write_is_applied_in_any_part() {
    let mut seen = BTreeSet::new();
    for seed in 0..60 {
        let disk = SimDisk::new(SimOptions::default(), seed);
        disk.put_file("/d", "a", &[1; 4 * UNIT]);
        with_dir(&disk, |d| {
            let a = d.open("a", DIRECT).unwrap();
            disk.fail_at(disk.ops() + seed % 2, Fault::NoSpace);
            let e = write(&*a, 0, 2, 2, true).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::StorageFull);
            let mut buf = AlignedBuf::zeroed(2 * UNIT, UNIT);
            a.read_at(0, &mut buf, ReadSource::Medium).unwrap();
            seen.insert(buf.chunks(512).filter(|c| c[0] == 2).count());
            write(&*a, 0, 2, 3, false).unwrap();
        });
    }
    assert!(
        seen.contains(&0) && seen.contains(&16) && seen.len() > 5,
        "{seen:?}"
    );
}

/// Returns all possible contents after a cut with two completed writes and one in flight.
fn found_after_cut(survival: Option<Survival>) -> BTreeSet<Vec<u8>> {
    let disk = prepared(SimOptions {
        sector: 4096,
        ..SimOptions::default()
    });
    with_dir(&disk, |d| {
        let a = d.open("a", DIRECT).unwrap();
        write(&*a, 0, 2, 2, false).unwrap();
        write(&*a, 1, 1, 3, false).unwrap();
        let mut buf = AlignedBuf::zeroed(UNIT, UNIT);
        buf.fill(4);
        let write = Write {
            offset: 3 * UNIT as u64,
            buf,
            range: 0..UNIT,
            through: true,
        };
        let ticket = a.submit(write);
        disk.cut();
        let done = a.complete(ticket);
        assert!(done.result.is_err() && done.buf[0] == 4);
    });
    let image = disk.snapshot();
    (0..300)
        .map(|seed| {
            disk.restore(&image);
            disk.crash(Failure::Power, survival, seed);
            stable(&disk)
        })
        .collect()
}

#[test]
fn a_cut_loses_reorders_and_tears() {
    assert_eq!(
        found_after_cut(Some(Survival::Lost)),
        BTreeSet::from([vec![1; 4]])
    );
    assert_eq!(
        found_after_cut(Some(Survival::Kept)),
        BTreeSet::from([vec![2, 3, 1, 4]])
    );
    let in_order = [
        vec![1, 1, 1, 1],
        vec![2, 2, 1, 1],
        vec![2, 3, 1, 1],
        vec![2, 3, 1, 4],
    ];
    assert_eq!(
        found_after_cut(Some(Survival::Prefix)),
        BTreeSet::from(in_order)
    );
    // The first unit is old or new, the second has three versions, and the third is in flight: 2 * 3 * 2
    // results. A whole write cannot be new in its first half and old in its second, which excludes some of
    // them.
    assert_eq!(found_after_cut(Some(Survival::Writes)).len(), 8);
    assert_eq!(found_after_cut(Some(Survival::Sectors)).len(), 12);
    assert_eq!(found_after_cut(None).len(), 12);
}

#[test]
fn sectors_tear_at_their_grain() {
    let disk = prepared(SimOptions {
        sector: 512,
        ..SimOptions::default()
    });
    with_dir(&disk, |d| {
        write(&*d.open("a", OpenFile::WRITE).unwrap(), 0, 1, 2, false).unwrap()
    });
    let image = disk.snapshot();
    let torn = (0..50).any(|seed| {
        disk.restore(&image);
        disk.reboot(seed);
        let bytes = disk.file_bytes("/d", "a").unwrap();
        assert!(
            bytes[..UNIT]
                .chunks(512)
                .all(|c| c.iter().all(|b| *b == c[0]))
        );
        bytes[..UNIT]
            .chunks(512)
            .map(|c| c[0])
            .collect::<BTreeSet<_>>()
            .len()
            == 2
    });
    assert!(torn);
}

#[test]
fn each_failure_loses_what_it_can() {
    let run = |failure, how| {
        let disk = prepared(SimOptions::default());
        with_dir(&disk, |d| {
            write(&*d.open("a", how).unwrap(), 0, 1, 2, false).unwrap();
            d.open("b", OpenFile::CREATE).unwrap();
        });
        disk.crash(failure, Some(Survival::Lost), 1);
        with_dir(&disk, |d| {
            let a = d.open("a", OpenFile::READ).unwrap();
            (
                read(&*a, 0, ReadSource::Cache).unwrap(),
                d.open("b", OpenFile::READ).is_ok(),
            )
        })
    };
    for (failure, buffered, direct, name) in [
        (Failure::Process, 2, 2, true),
        (Failure::Os, 1, 2, false),
        (Failure::Power, 1, 1, false),
    ] {
        assert_eq!(
            run(failure, OpenFile::WRITE),
            (buffered, name),
            "{failure:?}"
        );
        assert_eq!(run(failure, DIRECT), (direct, name), "{failure:?}");
    }
}

#[test]
fn sizes_and_names_are_lost_unless_forced() {
    let mut sizes = BTreeSet::new();
    let mut names = BTreeSet::new();
    for seed in 0..200 {
        let disk = SimDisk::new(SimOptions::default(), seed);
        with_dir(&disk, |d| {
            let a = d.open("a", OpenFile::CREATE).unwrap();
            d.sync().unwrap();
            a.reserve(UNIT as u64).unwrap();
            a.barrier(Barrier::Data).unwrap();
            write(&*a, 1, 1, 2, false).unwrap();
            a.reserve(8 * UNIT as u64).unwrap();
            let b = d.open("b", OpenFile::CREATE).unwrap();
            write(&*b, 0, 1, 2, true).unwrap();
            d.rename("b", "c").unwrap();
        });
        disk.reboot(seed);
        names.insert(disk.stable_names("/d").join(" "));
        sizes.insert(disk.file_bytes("/d", "a").unwrap().len() / UNIT);
        if let Some(c) = disk.file_bytes("/d", "c") {
            assert_eq!(
                c, [2; UNIT],
                "a file whose name survives has what was forced"
            );
        }
    }
    assert_eq!(
        names.iter().map(String::as_str).collect::<Vec<_>>(),
        ["a", "a b", "a c"]
    );
    assert!(sizes.is_superset(&BTreeSet::from([1, 2, 8])), "{sizes:?}");
    assert!(!sizes.contains(&0));
}

#[test]
fn handles_and_locks_end_with_their_boot() {
    let disk = prepared(SimOptions::default());
    let (file, dir, lock): (Arc<dyn File>, _, _) = SimRuntime::run(1, |rt| {
        let d = disk.system(rt).directory(Path::new("/d")).unwrap();
        let lock = d.lock("lock").unwrap();
        (d.open("a", OpenFile::WRITE).unwrap(), d, lock)
    });
    disk.reboot(1);
    assert!(file.len().is_err() && dir.entries().is_err());
    assert!(write(&*file, 0, 1, 2, false).is_err());
    with_dir(&disk, |d| {
        let held = d.lock("lock").unwrap();
        drop(lock);
        assert!(
            d.is_locked("lock").unwrap(),
            "an old boot's lock is not this one's"
        );
        drop(held);
        assert!(!d.is_locked("lock").unwrap());
    });
    disk.cut_at(disk.ops());
    with_dir_fails(&disk);
    assert!(disk.is_cut());
}

fn with_dir_fails(disk: &SimDisk) {
    SimRuntime::run(1, |rt| {
        let sys = disk.system(rt);
        let e = sys
            .make_directory(Path::new("/e"))
            .err()
            .expect("power is cut");
        assert!(e.to_string().contains("power is cut"));
        assert!(sys.directory(Path::new("/d")).is_err());
    });
}

/// After a data barrier, blocks that the device zeroed may still count as never written; data in them may not.
#[test]
fn zeroes_by_the_device_are_recorded_by_a_full_barrier() {
    let written = |barrier, seed| {
        let disk = SimDisk::new(
            SimOptions {
                zeroes: true,
                ..SimOptions::default()
            },
            seed,
        );
        disk.put_file("/d", "a", &[]);
        with_dir(&disk, |d| {
            let a = d.open("a", DIRECT).unwrap();
            assert!(a.write_zeroes(0..4 * UNIT as u64).unwrap());
            assert_eq!(a.blocks(0..4 * UNIT as u64), Blocks::Written);
            write(&*a, 3, 1, 7, false).unwrap();
            a.barrier(barrier).unwrap();
        });
        disk.reboot(seed);
        with_dir(&disk, |d| {
            let a = d.open("a", DIRECT).unwrap();
            assert_eq!(a.blocks(3 * UNIT as u64..4 * UNIT as u64), Blocks::Written);
            a.blocks(0..3 * UNIT as u64)
        })
    };
    let mut lost = 0;
    for seed in 0..20 {
        assert_eq!(written(Barrier::Full, seed), Blocks::Written);
        lost += u64::from(written(Barrier::Data, seed) != Blocks::Written);
    }
    assert!((1..20).contains(&lost), "{lost}");
}

#[test]
fn room_is_limited() {
    let room = SimOptions {
        capacity: Some(8 * UNIT as u64),
        ..SimOptions::default()
    };
    let disk = prepared(room);
    with_dir(&disk, |d| {
        assert_eq!(d.free_space().unwrap(), 4 * UNIT as u64);
        let b = d.open("b", OpenFile::CREATE).unwrap();
        assert_eq!(
            b.reserve(5 * UNIT as u64).unwrap_err().kind(),
            ErrorKind::StorageFull
        );
        assert_eq!(b.len().unwrap(), 0);
        assert!(b.reserve(3 * UNIT as u64).unwrap());
        write(&*b, 0, 4, 1, false).unwrap();
        assert_eq!(
            write(&*b, 4, 1, 1, false).unwrap_err().kind(),
            ErrorKind::StorageFull
        );
        write(&*b, 0, 4, 2, true).unwrap();
        d.remove("a").unwrap();
        assert_eq!(d.free_space().unwrap(), 4 * UNIT as u64);
        write(&*b, 4, 1, 1, false).unwrap();
        b.barrier(Barrier::Full).unwrap();
        d.sync().unwrap();
    });
    disk.change(|o| o.in_place = false);
    disk.reboot(1);
    with_dir(&disk, |d| {
        // On a copy-on-write filesystem overwriting needs free space.
        let b = d.open("b", OpenFile::WRITE).unwrap();
        let free = d.free_space().unwrap() as usize / UNIT;
        write(&*b, 0, free, 1, false).unwrap();
        assert!(write(&*b, 0, free + 1, 1, false).is_err());
    });
}

#[test]
fn the_medium_rots_and_becomes_unreadable() {
    let disk = prepared(SimOptions::default());
    assert!(disk.flip_bit("/d", "a", UNIT as u64, 1));
    assert!(!disk.flip_bit("/d", "a", 4 * UNIT as u64, 1));
    assert_eq!(stable(&disk), [1, 3, 1, 1]);
    assert!(disk.make_unreadable("/d", "a", 2 * UNIT as u64));
    with_dir(&disk, |d| {
        let a = d.open("a", OpenFile::WRITE).unwrap();
        for source in [ReadSource::Cache, ReadSource::Medium] {
            assert!(read(&*a, 2, source).is_err());
        }
        write(&*a, 2, 1, 7, true).unwrap();
        assert_eq!(read(&*a, 2, ReadSource::Medium).unwrap(), 7);
        disk.fail_read_at(disk.reads());
        assert!(read(&*a, 0, ReadSource::Cache).is_err());
        assert_eq!(read(&*a, 0, ReadSource::Cache).unwrap(), 1);
    });
    assert!(disk.remove_file("/d", "a") && !disk.remove_file("/d", "a"));
}

#[test]
fn faults_lie_over_pristine_bytes() {
    let disk = prepared(SimOptions {
        sector: UNIT as u32,
        ..SimOptions::default()
    });
    with_dir(&disk, |d| {
        let a = d.open("a", OpenFile::WRITE).unwrap();
        write(&*a, 1, 1, 5, true).unwrap();
        write(&*a, 1, 1, 6, true).unwrap();
    });
    let at = UNIT as u64;
    let pristine = disk.file_bytes("/d", "a");
    let sector = |fault| {
        assert!(disk.inject("/d", "a", at, &fault));
        let bytes = disk.file_bytes("/d", "a").unwrap();
        bytes[UNIT]
    };
    assert_eq!(sector(SectorFault::Flipped(0)), 7);
    assert_eq!(sector(SectorFault::Flipped(0)), 6);
    assert_eq!(sector(SectorFault::Stale), 5);
    assert_eq!(sector(SectorFault::Misdirected(0)), 1);
    assert_eq!(sector(SectorFault::Forged([9; 512].into())), 9);
    with_dir(&disk, |d| {
        let a = d.open("a", OpenFile::WRITE).unwrap();
        assert_eq!(read(&*a, 1, ReadSource::Medium).ok(), Some(9));
    });
    disk.lift_faults();
    assert_eq!(disk.file_bytes("/d", "a"), pristine);
    sector(SectorFault::Stale);
    // Writing a sector again removes its fault.
    with_dir(&disk, |d| {
        let a = d.open("a", OpenFile::WRITE).unwrap();
        write(&*a, 1, 1, 8, true).unwrap();
        assert_eq!(read(&*a, 1, ReadSource::Medium).ok(), Some(8));
        // Each fault takes effect only once.
        for how in [Misread::Stale, Misread::Misdirected, Misread::Error] {
            disk.misread_at(disk.reads(), how);
            let first = read(&*a, 1, ReadSource::Medium).ok();
            assert_ne!(first, Some(8), "{how:?}");
            assert_eq!(read(&*a, 1, ReadSource::Medium).ok(), Some(8));
        }
    });
    let counts = disk.faults();
    for (kind, count) in [
        (FaultKind::Forged, 1),
        (FaultKind::StaleRead, 1),
        (FaultKind::MisdirectedRead, 1),
        (FaultKind::ReadError, 1),
        (FaultKind::BitRot, 0),
    ] {
        assert_eq!(counts.get(kind), count, "{kind:?}");
    }
}

#[test]
fn what_was_asked_is_counted_and_written_down() {
    let disk = prepared(SimOptions::default());
    with_dir(&disk, |d| {
        let b = d.open("b", OpenFile::CREATE).unwrap();
        write(&*b, 0, 2, 1, false).unwrap();
        write(&*b, 2, 1, 1, true).unwrap();
        b.barrier(Barrier::Data).unwrap();
        d.rename("b", "c").unwrap();
        d.sync().unwrap();
        d.remove("c").unwrap();
        read(&*b, 0, ReadSource::Cache).unwrap();
        b.reserve(1).unwrap();
        assert!(!b.write_zeroes(0..UNIT as u64).unwrap(), "not offered");
    });
    let counted = Counters {
        writes: 2,
        through_writes: 1,
        bytes: 3 * UNIT as u64,
        write_backs_begun: 0,
        barriers: 1,
        dir_syncs: 1,
        creates: 1,
        renames: 1,
        removes: 1,
        reserves: 1,
        zeroes: 0,
        reads: 1,
        bytes_read: UNIT as u64,
    };
    assert_eq!(disk.counters(), counted);
    assert!(
        disk.log()
            .contains("submit b[8192..12288] buffered through"),
        "{}",
        disk.log()
    );
}

#[test]
#[should_panic(expected = "overlaps one in flight")]
fn overlapping_writes_in_flight_break_the_contract() {
    let disk = prepared(SimOptions::default());
    with_dir(&disk, |d| {
        let a = d.open("a", OpenFile::WRITE).unwrap();
        let part = |offset| {
            let buf = AlignedBuf::zeroed(UNIT, UNIT);
            a.submit(Write {
                offset,
                buf,
                range: 0..UNIT,
                through: false,
            })
        };
        let _first = part(0);
        let _second = part(UNIT as u64 - 1);
    });
}

#[test]
fn a_failed_write_back_is_reported_once_to_each_open_file() {
    let disk = prepared(SimOptions::default());
    with_dir(&disk, |d| {
        let open = || d.open("a", OpenFile::WRITE).unwrap();
        let (a, b, c) = (open(), open(), open());
        assert_eq!(disk.fail_write_back("/d", "a", 0..u64::MAX), 0);
        write(&*a, 0, 2, 2, false).unwrap();
        // Only the first unit fails. The other one is written by the barrier that reports the error.
        let sectors = UNIT / disk.options().sector as usize;
        assert_eq!(disk.fail_write_back("/d", "a", 0..UNIT as u64), sectors);
        let before_the_report = open();
        a.barrier(Barrier::Data).unwrap_err();
        let after_the_report = open();
        assert!(disk.barrier_failed());
        assert_eq!(stable(&disk), [1, 2, 1, 1]);
        assert_eq!(read(&*a, 0, ReadSource::Cache).unwrap(), 2);
        a.barrier(Barrier::Data).unwrap();
        assert_eq!(stable(&disk), [1, 2, 1, 1]);
        // A write-through reports the error too, and is durable all the same.
        write(&*b, 2, 1, 3, true).unwrap_err();
        assert_eq!(stable(&disk), [1, 2, 3, 1]);
        write(&*b, 2, 1, 4, true).unwrap();
        c.barrier(Barrier::Full).unwrap_err();
        before_the_report.barrier(Barrier::Full).unwrap_err();
        after_the_report.barrier(Barrier::Full).unwrap();
        // A barrier that fails by itself is an error of a write-back for the other open files.
        write(&*a, 0, 1, 5, false).unwrap();
        disk.fail_at(disk.ops(), Fault::Io);
        b.barrier(Barrier::Data).unwrap_err();
        b.barrier(Barrier::Data).unwrap();
        a.barrier(Barrier::Data).unwrap_err();
        a.barrier(Barrier::Data).unwrap();
    });
}
