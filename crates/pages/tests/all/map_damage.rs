//! Tests of damage of a logged file's map. The map is checked against the data file, so that a written page
//! never reads as zeroes. A dropped page is not damage.

use crate::common::{PAGE, PATH, disk, open, options, page};
use crate::damage::{DATA, read, reopen, written};
use logforce_core::OpenMode;
use logforce_pages::{
    CommitMode, Error, ErrorKind, Inspector, PageFile, Result, Transaction, Visit,
};
use logforce_testkit::{Failure, Fault, SectorFault, SimDisk, SimRuntime, Survival};

#[test]
fn a_rotten_sector_of_the_map_is_damage_and_never_an_empty_page() {
    for (offset, bit) in [(0, 0), (5, 1), (8, 0), (8 + 4 * 8, 0), (12, 7), (300, 2)] {
        let disk = written();
        assert!(disk.flip_bit(PATH, "map", offset, bit));
        reopen(&disk, |file| {
            let file = file.unwrap();
            let error = read(&file, 4).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Damaged, "{offset}: {error}");
            // Writing a whole page repairs it, and neither repairs nor loses another page.
            let mut txn = file.begin().unwrap();
            txn.write(4, &page(100)).unwrap();
            txn.commit().unwrap();
            file.checkpoint().unwrap();
            file.close().unwrap();
        });
        reopen(&disk, |file| {
            let file = file.unwrap();
            assert_eq!(read(&file, 4).unwrap(), page(100));
            for n in (0..10).filter(|n| *n != 4) {
                let error = read(&file, n).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Damaged, "{offset}, {n}: {error}");
            }
            let mut txn = file.begin().unwrap();
            (0..10).for_each(|n| txn.write(n, &page(n + 1)).unwrap());
            txn.commit().unwrap();
            file.checkpoint().unwrap();
            (0..10).for_each(|n| assert_eq!(read(&file, n).unwrap(), page(n + 1)));
            file.close().unwrap();
        });
    }
}

/// A sector of zeroes, or a map that ends too early, looks as if its pages had never been written. The data
/// file contradicts that.
#[test]
fn a_lost_sector_of_the_map_is_damage_and_never_an_empty_page() {
    const SECTOR: usize = 512;
    let lose = |how: &dyn Fn(&mut Vec<u8>)| {
        let disk = disk(1);
        SimRuntime::run(1, |rt| {
            let file = open(rt, &disk, options_of_a_large_one()).unwrap();
            let mut txn = file.begin().unwrap();
            (0..130).for_each(|n| txn.write(n, &page(n + 1)).unwrap());
            txn.set_page_count(1000).unwrap();
            txn.commit().unwrap();
            file.checkpoint().unwrap();
            file.close().unwrap();
        });
        let mut map = disk.file_bytes(PATH, "map").unwrap();
        how(&mut map);
        disk.put_file(PATH, "map", &map);
        reopen(&disk, |file| {
            let file = file.unwrap();
            let error = read(&file, 70).unwrap_err();
            let Error::Damaged { path, offset, .. } = &error else {
                panic!("{error}");
            };
            assert!(path.ends_with("map") && *offset == SECTOR as u64, "{error}");
            assert!(read(&file, 3).unwrap() == page(4));
            assert!(read(&file, 500).unwrap() == page(0), "never written");
        });
        SimRuntime::run(3, |rt| {
            let inspector = Inspector::open(disk.system(rt), PATH).unwrap();
            let mut damages = Vec::new();
            let report = inspector.walk(&mut |visit| {
                if let Visit::Damage(damage) = visit {
                    damages.push((damage.file.clone(), damage.offset));
                }
                true
            });
            damages.sort();
            assert_eq!(report.unwrap().damages, damages.len() as u64);
            let found = inspector.page(70).unwrap();
            assert!(found.damage.is_some(), "{found:?}");
            damages
        })
    };
    // Each page is named: 63 of the second sector, four of the third.
    let of_sector = |n: u64, pages| vec![("map".to_owned(), n * SECTOR as u64); pages];
    let zeroed = lose(&|map| map[SECTOR..2 * SECTOR].fill(0));
    assert_eq!(zeroed, of_sector(1, 63));
    let cut_short = lose(&|map| map.truncate(SECTOR));
    assert_eq!(cut_short, [of_sector(1, 63), of_sector(2, 4)].concat());
}

/// Returns the pages that the inspector and a backup report as damaged. The backup fails.
fn damaged_pages(disk: &SimDisk) -> Vec<u64> {
    let before = disk.snapshot();
    let pages = SimRuntime::run(3, |rt| {
        let inspector = Inspector::open(disk.system(rt), PATH).unwrap();
        let mut pages = Vec::new();
        let report = inspector.walk(&mut |visit| {
            if let Visit::Damage(damage) = visit {
                pages.push(damage.page.unwrap());
            }
            true
        });
        assert_eq!(report.unwrap().damages, pages.len() as u64);
        let system = disk.system(rt);
        let options = options(CommitMode::Logged);
        let file = PageFile::open(&*system, PATH, OpenMode::OpenExisting, options).unwrap();
        let guarantee = logforce_core::Guarantee::PowerLoss;
        let copied = file.snapshot().unwrap().backup(
            "/copy",
            logforce_core::BackupOptions::new().require(guarantee),
        );
        assert_eq!(copied.is_err(), !pages.is_empty(), "{copied:?}");
        file.close().unwrap();
        pages
    });
    disk.restore(&before);
    pages
}

/// Pages of a lost sector do not become zeroes when an adjacent page is written, in the same opening or by
/// redo from the log.
#[test]
fn what_a_lost_sector_of_the_map_told_of_stays_damaged_beside_a_new_page() {
    for (cut_short, is_redone) in [(false, false), (false, true), (true, false), (true, true)] {
        let disk = written();
        if is_redone {
            reopen(&disk, |file| {
                let file = file.unwrap();
                let mut txn = file.begin().unwrap();
                txn.write(0, &page(100)).unwrap();
                txn.commit().unwrap();
                disk.cut();
            });
            disk.crash(Failure::Process, None, 1);
        }
        disk.put_file(PATH, "map", if cut_short { &[] } else { &[0; 512] });
        for round in 0..3 {
            reopen(&disk, |file| {
                let file = file.unwrap();
                let error = read(&file, 1).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Damaged, "{round}: {error}");
                if round == 1 && !is_redone {
                    let mut txn = file.begin().unwrap();
                    txn.write(0, &page(100)).unwrap();
                    txn.commit().unwrap();
                }
                file.checkpoint().unwrap();
                file.close().unwrap();
            });
        }
        assert_eq!(damaged_pages(&disk), (1..10).collect::<Vec<_>>());
        // Dropping a page or writing it as a whole repairs it.
        reopen(&disk, |file| {
            let file = file.unwrap();
            assert!(read(&file, 0).unwrap() == page(100));
            let mut txn = file.begin().unwrap();
            (1..5).for_each(|n| txn.write(n, &page(n)).unwrap());
            (5..10).for_each(|n| txn.discard(n).unwrap());
            txn.commit().unwrap();
            file.checkpoint().unwrap();
            file.close().unwrap();
        });
        assert_eq!(damaged_pages(&disk), []);
    }
}

/// A device reports a sector of the map as written that it has not written. No changed page reads as its
/// previous version or as empty.
#[test]
fn a_lost_write_of_the_map_is_damage() {
    type Change = fn(&PageFile);
    let changes: [(&str, Change); 5] = [
        ("first written", |_| ()),
        ("written", |file| {
            commit(file, |txn| txn.write(4, &page(44)));
        }),
        ("discarded", |file| commit(file, |txn| txn.discard(4))),
        ("discarded and written", |file| {
            commit(file, |txn| txn.discard(4));
            commit(file, |txn| txn.write(4, &page(44)));
        }),
        ("dropped and added", |file| {
            commit(file, |txn| txn.set_page_count(4));
            commit(file, |txn| txn.set_page_count(10));
        }),
    ];
    for (what, change) in changes {
        for checksums in [true, false] {
            let disk = disk(1);
            let options = || options(CommitMode::Logged).checksums(checksums);
            SimRuntime::run(1, |rt| {
                let file = open(rt, &disk, options()).unwrap();
                commit(&file, |txn| {
                    (0..10).try_for_each(|n| txn.write(n, &page(n + 1)))
                });
                file.checkpoint().unwrap();
                change(&file);
                file.close().unwrap();
            });
            assert!(disk.inject(PATH, "map", 0, &SectorFault::Stale));
            SimRuntime::run(2, |rt| {
                let file = open(rt, &disk, options()).unwrap();
                let mut expected = vec![0; PAGE];
                if let "first written" = what {
                    expected = page(5);
                } else if what.ends_with("written") {
                    expected = page(44);
                }
                match read(&file, 4) {
                    // Without checksums the entry is the same, and the bytes are those that were written.
                    Ok(bytes) => assert!(!checksums && bytes == expected, "{what}"),
                    Err(e) => assert_eq!(e.kind(), ErrorKind::Damaged, "{what}: {e}"),
                }
                disk.cut();
            });
        }
    }
}

fn commit(file: &PageFile, change: impl FnOnce(&mut Transaction) -> Result<()>) {
    let mut txn = file.begin().unwrap();
    change(&mut txn).unwrap();
    txn.commit().unwrap();
    file.checkpoint().unwrap();
}

/// Dropped pages keep their bytes until the file covers them again, which clears them. This also holds if the
/// file drops and adds them between two checkpoints, and after any crash.
#[test]
fn dropped_pages_that_are_added_again_are_no_damage() {
    let mut crashes = 0;
    let survivals = [Survival::Kept, Survival::Lost, Survival::Writes];
    let cases = survivals.map(|survival| [(false, survival), (true, survival)]);
    for (in_one, survival) in cases.into_iter().flatten() {
        for op in 0.. {
            let disk = disk(op);
            SimRuntime::run(op, |rt| {
                let file = open(rt, &disk, options(CommitMode::Logged)).unwrap();
                commit(&file, |txn| {
                    (0..10).try_for_each(|n| txn.write(n, &page(n + 1)))
                });
                let resize = |count| -> Result<()> {
                    let mut txn = file.begin()?;
                    txn.set_page_count(count)?;
                    txn.commit()?;
                    Ok(())
                };
                disk.cut_at(disk.ops() + op);
                let _ = (|| {
                    resize(4)?;
                    if !in_one {
                        file.checkpoint()?;
                    }
                    resize(10)?;
                    file.checkpoint()
                })();
            });
            let is_done = !disk.is_cut();
            disk.cut();
            disk.crash(Failure::Power, Some(survival), op);
            assert_eq!(damaged_pages(&disk), [], "{op}, before an opening");
            for _ in 0..2 {
                reopen(&disk, |file| {
                    let file = file.unwrap();
                    let count = file.snapshot().unwrap().page_count();
                    for n in 0..count {
                        let found = read(&file, n).unwrap();
                        assert!(found == page(n + 1) || (n >= 4 && found == page(0)), "{op}");
                    }
                    file.checkpoint().unwrap();
                    file.close().unwrap();
                });
                assert_eq!(damaged_pages(&disk), [], "{op}");
                disk.crash(Failure::Power, Some(Survival::Lost), op);
            }
            crashes += 1;
            if is_done {
                break;
            }
        }
    }
    assert!(crashes > 60, "{crashes}");
}

/// After a crash, the zeroes by which the data file has grown may be missing on the medium. Some filesystems
/// then show the contents of deleted files. Such bytes are not a page that the map has lost.
#[test]
fn what_a_crash_left_at_the_end_of_the_data_file_is_no_damage() {
    what_a_crash_left(false);
}

/// The same holds after a clean close, which makes the log durable and leaves the data file as it is.
#[test]
fn what_a_crash_left_after_a_clean_close_is_no_damage() {
    what_a_crash_left(true);
}

fn what_a_crash_left(closes: bool) {
    let disk = disk(1);
    SimRuntime::run(1, |rt| {
        let file = open(rt, &disk, options_of_a_large_one()).unwrap();
        let mut txn = file.begin().unwrap();
        (0..10).for_each(|n| txn.write(n, &page(n + 1)).unwrap());
        txn.commit().unwrap();
        file.checkpoint().unwrap();
        let mut txn = file.begin().unwrap();
        txn.write(100, &page(101)).unwrap();
        txn.commit().unwrap();
        if closes {
            file.close().unwrap();
        }
        disk.cut();
    });
    disk.crash(Failure::Power, Some(Survival::Kept), 1);
    let mut bytes = disk.file_bytes(PATH, "pages").unwrap();
    let place = |number: usize| DATA as usize + number * PAGE..DATA as usize + (number + 1) * PAGE;
    for number in [70, 100, 101, 127] {
        bytes[place(number)].fill(0xee);
    }
    disk.put_file(PATH, "pages", &bytes);
    SimRuntime::run(2, |rt| {
        let inspector = Inspector::open(disk.system(rt), PATH).unwrap();
        assert_eq!(inspector.walk(&mut |_| true).unwrap().damages, 0);
        assert_eq!(inspector.page(70).unwrap().damage, None);
    });
    for _ in 0..2 {
        reopen(&disk, |file| {
            let file = file.unwrap();
            let mut txn = file.begin().unwrap();
            txn.set_page_count(135).unwrap();
            txn.commit().unwrap();
            for number in [70, 101, 127] {
                assert!(read(&file, number).unwrap() == page(0), "page {number}");
            }
            assert!(read(&file, 100).unwrap() == page(101));
            assert!(read(&file, 9).unwrap() == page(10));
            file.checkpoint().unwrap();
            file.close().unwrap();
        });
    }
}

/// Damage of the map is damage of its pages. Their sector may reach beyond the end of the data file.
#[test]
fn a_rotten_sector_of_the_map_refuses_no_opening_after_a_crash() {
    let disk = disk(1);
    SimRuntime::run(1, |rt| {
        let file = open(rt, &disk, options_of_a_large_one()).unwrap();
        let mut txn = file.begin().unwrap();
        (0..10).for_each(|n| txn.write(n, &page(n + 1)).unwrap());
        txn.commit().unwrap();
        file.checkpoint().unwrap();
        let mut txn = file.begin().unwrap();
        txn.write(20, &page(21)).unwrap();
        txn.commit().unwrap();
        disk.cut();
    });
    disk.crash(Failure::Power, Some(Survival::Kept), 1);
    assert!(disk.flip_bit(PATH, "map", 100, 0));
    reopen(&disk, |file| {
        let file = file.unwrap();
        let lost = read(&file, 9).map(drop).unwrap_err();
        assert_eq!(lost.kind(), ErrorKind::Damaged, "{lost}");
        assert!(read(&file, 20).unwrap() == page(21));
    });
}

fn options_of_a_large_one() -> logforce_pages::Options {
    let options = options(CommitMode::Logged).checkpoint_distance(1 << 20);
    options.cache(1 << 20)
}

/// Sectors that were lost, are rotten, or are stale, for pages that are dropped and added again, in the same
/// opening or behind the end of the file.
#[test]
fn dropping_and_adding_pages_mends_what_a_sector_of_the_map_lost() {
    for (sector, closed_with) in [(0, 130), (1, 70), (0, 70), (1, 63)] {
        for how in ["lost", "rotten", "stale"] {
            let disk = disk(1);
            let mut stale = Vec::new();
            SimRuntime::run(1, |rt| {
                let file = open(rt, &disk, options_of_a_large_one()).unwrap();
                commit(&file, |txn| {
                    (0..130)
                        .step_by(2)
                        .try_for_each(|n| txn.write(n, &page(n + 1)))
                });
                file.checkpoint().unwrap();
                stale = disk.file_bytes(PATH, "map").unwrap();
                commit(&file, |txn| {
                    (0..130).try_for_each(|n| txn.write(n, &page(n + 2)))
                });
                file.checkpoint().unwrap();
                commit(&file, |txn| txn.set_page_count(closed_with));
                file.checkpoint().unwrap();
                file.close().unwrap();
            });
            let mut map = disk.file_bytes(PATH, "map").unwrap();
            let range = sector * 512..(sector + 1) * 512;
            match how {
                "lost" => map[range].fill(0),
                "rotten" => map[range.start + 9] ^= 1,
                _ => map[range.clone()].copy_from_slice(&stale[range]),
            }
            disk.put_file(PATH, "map", &map);
            // Damage at or above the header's count does not count.
            if how == "stale" && sector == 1 && closed_with == 63 {
                assert!(damaged_pages(&disk).is_empty());
            }
            let kept = if sector == 0 { 0 } else { closed_with };
            reopen(&disk, |file| {
                let file = file.unwrap();
                if sector == 0 {
                    commit(&file, |txn| txn.set_page_count(0));
                    file.checkpoint().unwrap();
                }
                commit(&file, |txn| txn.set_page_count(100));
                file.checkpoint().unwrap();
                file.close().unwrap();
            });
            reopen(&disk, |file| {
                let file = file.unwrap();
                for n in kept..100 {
                    let found = read(&file, n);
                    let is_zero = found.as_ref().is_ok_and(|p| p.iter().all(|b| *b == 0));
                    assert!(
                        is_zero,
                        "{how} {sector} {closed_with}, page {n}: {:?}",
                        found.err()
                    );
                }
                file.close().unwrap();
            });
        }
    }
}

/// A damaged page of a snapshot stays damaged when the page is overwritten, discarded or dropped. The file
/// continues to work.
#[test]
fn a_snapshot_never_shows_a_damaged_page_as_zeroes() {
    for lost_map in [false, true] {
        for how in 0..4 {
            let disk = written();
            match lost_map {
                true => {
                    disk.overwrite_file(PATH, "map", &[0; 512]);
                }
                false => {
                    let offset = DATA + 4 * PAGE as u64 + 100;
                    assert!(disk.flip_bit(PATH, "pages", offset, 3));
                }
            }
            reopen(&disk, |file| {
                let file = file.unwrap();
                let held = file.snapshot().unwrap();
                let check = |when: &str| {
                    let mut bytes = vec![0; PAGE];
                    for n in 0..10 {
                        let found = held.read(n, &mut bytes);
                        match lost_map || n == 4 {
                            true => assert_eq!(
                                found.expect_err(when).kind(),
                                ErrorKind::Damaged,
                                "{how}, page {n} {when}"
                            ),
                            false => {
                                found.unwrap();
                                assert!(bytes == page(n + 1), "{how}, page {n} {when}");
                            }
                        }
                    }
                };
                check("before");
                commit(&file, |txn| match how {
                    0 => txn.write(4, &page(7)),
                    1 => txn.discard(4),
                    2 => txn.set_page_count(2),
                    _ => {
                        txn.set_page_count(0)?;
                        txn.set_page_count(10)
                    }
                });
                file.checkpoint().unwrap();
                check("after the checkpoint");
                commit(&file, |txn| txn.set_page_count(20));
                file.checkpoint().unwrap();
                check("after it was cleared");
                assert!(read(&file, 4).unwrap() == page(if how == 0 { 7 } else { 0 }));
                drop(held);
                file.close().unwrap();
            });
        }
    }
}

/// At or above the header's page count the map may hold anything, even for pages that the log adds.
#[test]
fn a_single_page_behind_the_header_is_not_looked_up_in_the_map() {
    let disk = disk(1);
    let mut stale = Vec::new();
    SimRuntime::run(1, |rt| {
        let file = open(rt, &disk, options_of_a_large_one()).unwrap();
        commit(&file, |txn| {
            (0..130).try_for_each(|n| txn.write(n, &page(n + 1)))
        });
        file.checkpoint().unwrap();
        stale = disk.file_bytes(PATH, "map").unwrap();
        commit(&file, |txn| txn.set_page_count(63));
        file.checkpoint().unwrap();
        file.transact(|txn| txn.set_page_count(100)).unwrap();
        disk.cut();
    });
    disk.crash(Failure::Process, None, 1);
    let mut map = disk.file_bytes(PATH, "map").unwrap();
    map[512..].copy_from_slice(&stale[512..]);
    disk.put_file(PATH, "map", &map);
    assert_eq!(damaged_pages(&disk), []);
    SimRuntime::run(2, |rt| {
        let inspector = Inspector::open(disk.system(rt), PATH).unwrap();
        let found = inspector.page(70).unwrap();
        assert!(found.damage.is_none() && found.bytes.is_none(), "{found:?}");
    });
}

/// At or above the header's count no entry of the map is used, so none is missed.
#[test]
fn pages_behind_the_header_need_no_sector_of_the_map() {
    let disk = disk(1);
    SimRuntime::run(1, |rt| {
        let file = open(rt, &disk, options_of_a_large_one()).unwrap();
        commit(&file, |txn| {
            (0..135).try_for_each(|n| txn.write(n, &page(n + 1)))
        });
        file.close().unwrap();
    });
    let mut map = disk.file_bytes(PATH, "map").unwrap();
    map[2 * 512 + 9] ^= 1;
    disk.put_file(PATH, "map", &map);
    SimRuntime::run(2, |rt| {
        let file = open(rt, &disk, options_of_a_large_one()).unwrap();
        let mut txn = file.begin().unwrap();
        txn.set_page_count(150).unwrap();
        txn.commit().unwrap();
        let check = |when: &str| {
            for n in (126..150).rev() {
                let found = read(&file, n);
                match n {
                    ..135 => assert!(matches!(found, Err(Error::Damaged { .. })), "{when}: {n}"),
                    _ => assert_eq!(found.unwrap(), vec![0; PAGE], "{when}: {n}"),
                }
            }
        };
        check("before the checkpoint");
        file.checkpoint().unwrap();
        check("after it");
        file.close().unwrap();
    });
}

/// An operation of a checkpoint that adds dropped pages again fails. The next opening in the same boot finds
/// zeroes in the system's cache that a failed sync has kept from the medium. Runs with and without a lost
/// sector of the map.
#[test]
fn places_are_cleared_again_after_a_failed_sync() {
    let mut failures = 0;
    for is_lost in [false, true] {
        for op in 0.. {
            let disk = disk(op);
            SimRuntime::run(op, |rt| {
                let file = open(rt, &disk, options(CommitMode::Logged)).unwrap();
                commit(&file, |txn| {
                    (0..10).try_for_each(|n| txn.write(n, &page(n + 1)))
                });
                commit(&file, |txn| txn.set_page_count(4));
                file.close().unwrap();
            });
            if is_lost {
                disk.put_file(PATH, "map", &[0; 512]);
            }
            let mut is_over = false;
            reopen(&disk, |file| {
                let file = file.unwrap();
                let failing = disk.ops() + op;
                disk.fail_at(failing, Fault::Io);
                let added = file.transact(|txn| txn.set_page_count(10));
                is_over = added.and_then(|_| file.checkpoint()).is_ok() && disk.ops() <= failing;
                disk.cut();
            });
            disk.crash(Failure::Process, Some(Survival::Kept), op);
            reopen(&disk, |file| {
                let file = file.unwrap();
                commit(&file, |txn| txn.set_page_count(10));
                disk.cut();
            });
            disk.crash(Failure::Power, Some(Survival::Lost), op);
            reopen(&disk, |file| {
                let file = file.unwrap();
                for n in 4..10 {
                    let found =
                        read(&file, n).unwrap_or_else(|e| panic!("{is_lost}, {op}, page {n}: {e}"));
                    assert!(found == page(0), "{is_lost}, {op}, page {n}");
                }
            });
            failures += 1;
            if is_over {
                break;
            }
        }
    }
    assert!(failures > 20, "{failures}");
}
