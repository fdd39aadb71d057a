//! Rot, lost and foreign files: damage is reported with its place and never served, and files that do
//! not belong together are refused.

use crate::common::{PAGE, PATH, disk, open, options, page};
use logforce_core::OpenMode;
use logforce_pages::{CommitMode, Error, ErrorKind, Inspector, PageFile, Result, Visit};
use logforce_testkit::{Failure, SimDisk, SimRuntime, Survival};

const LOG: &str = "/file/log";
/// Where page 0 lies.
const DATA: u64 = 128 << 10;

/// A logged file with ten pages in its data file, closed.
fn written() -> SimDisk {
    let disk = disk(1);
    SimRuntime::run(1, |rt| {
        let file = open(rt, &disk, options(CommitMode::Logged)).unwrap();
        let mut txn = file.begin().unwrap();
        (0..10).for_each(|n| txn.write(n, &page(n + 1)).unwrap());
        txn.commit().unwrap();
        file.checkpoint().unwrap();
        file.close().unwrap();
    });
    disk
}

fn reopen<T>(disk: &SimDisk, look: impl FnOnce(Result<PageFile>) -> T) -> T {
    SimRuntime::run(2, |rt| {
        let system = disk.system(rt);
        let file = PageFile::open(
            &*system,
            PATH,
            OpenMode::OpenExisting,
            options(CommitMode::Logged),
        );
        look(file)
    })
}

fn read(file: &PageFile, number: u64) -> Result<Vec<u8>> {
    let mut bytes = vec![0xaa; PAGE];
    file.snapshot()?.read(number, &mut bytes)?;
    Ok(bytes)
}

#[test]
fn a_rotten_page_is_reported_by_its_number_and_the_others_are_read() {
    let disk = written();
    let offset = DATA + 4 * PAGE as u64 + 100;
    assert!(disk.flip_bit(PATH, "pages", offset, 3));
    reopen(&disk, |file| {
        let file = file.unwrap();
        let error = read(&file, 4).unwrap_err();
        let Error::Damaged { what, offset, .. } = &error else {
            panic!("{error}");
        };
        assert_eq!((&what[..], *offset), ("page 4", DATA + 4 * PAGE as u64));
        for n in (0..10).filter(|n| *n != 4) {
            assert!(read(&file, n).unwrap() == page(n + 1), "page {n}");
        }
        // A whole new page mends it.
        let mut txn = file.begin().unwrap();
        assert_eq!(txn.page_mut(4).unwrap_err().kind(), ErrorKind::Damaged);
        txn.write(4, &page(44)).unwrap();
        txn.commit().unwrap();
        file.checkpoint().unwrap();
        assert!(read(&file, 4).unwrap() == page(44));
        file.close().unwrap();
    });
}

#[test]
fn a_page_that_the_medium_does_not_give_back_is_damage() {
    let disk = written();
    assert!(disk.make_unreadable(PATH, "pages", DATA + 2 * PAGE as u64));
    reopen(&disk, |file| {
        let file = file.unwrap();
        let error = read(&file, 2).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
        assert!(read(&file, 3).unwrap() == page(4));
    });
}

#[test]
fn pages_in_each_others_places_are_noticed() {
    let disk = written();
    let mut bytes = disk.file_bytes(PATH, "pages").unwrap();
    let (a, b) = (DATA as usize + PAGE, DATA as usize + 2 * PAGE);
    let (low, high) = bytes.split_at_mut(b);
    low[a..].swap_with_slice(&mut high[..PAGE]);
    disk.put_file(PATH, "pages", &bytes);
    reopen(&disk, |file| {
        let file = file.unwrap();
        for n in [1, 2] {
            assert_eq!(read(&file, n).unwrap_err().kind(), ErrorKind::Damaged);
        }
    });
}

#[test]
fn a_rotten_sector_of_the_map_is_damage_and_never_an_empty_page() {
    for (offset, bit) in [(0, 0), (5, 1), (8, 0), (8 + 4 * 8, 0), (12, 7), (300, 2)] {
        let disk = written();
        assert!(disk.flip_bit(PATH, "map", offset, bit));
        reopen(&disk, |file| {
            let file = file.unwrap();
            let error = read(&file, 4).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Damaged, "{offset}: {error}");
        });
    }
}

/// A sector of zeroes, or a map that ends too early, looks as if its pages had never been written. The
/// data file says otherwise.
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
    let second = ("map".to_owned(), SECTOR as u64);
    let third = ("map".to_owned(), 2 * SECTOR as u64);
    let zeroed = lose(&|map| map[SECTOR..2 * SECTOR].fill(0));
    assert_eq!(zeroed, std::slice::from_ref(&second));
    let cut_short = lose(&|map| map.truncate(SECTOR));
    assert_eq!(cut_short, [second, third]);
}

/// The zeroes by which the data file has grown may not be on the medium after a crash, and what deleted
/// files have left shows there on some filesystems. It is no page that the map has lost.
#[test]
fn what_a_crash_left_at_the_end_of_the_data_file_is_no_damage() {
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

fn options_of_a_large_one() -> logforce_pages::Options {
    let options = options(CommitMode::Logged).checkpoint_distance(1 << 20);
    options.cache(1 << 20)
}

#[test]
fn one_header_slot_is_enough_and_none_is_damage() {
    for slot in [0, 64 << 10] {
        let disk = written();
        assert!(disk.flip_bit(PATH, "pages", slot + 200, 0));
        reopen(&disk, |file| {
            let file = file.unwrap();
            assert!(read(&file, 9).unwrap() == page(10), "slot at {slot}");
        });
    }
    let disk = written();
    assert!(disk.flip_bit(PATH, "pages", 200, 0));
    assert!(disk.flip_bit(PATH, "pages", (64 << 10) + 200, 0));
    reopen(&disk, |file| {
        assert_eq!(file.unwrap_err().kind(), ErrorKind::Damaged);
    });
}

#[test]
fn files_that_do_not_belong_together_are_refused() {
    let kind = |disk: &SimDisk| reopen(disk, |file| file.unwrap_err().kind());
    // No data file beside the log.
    let disk = written();
    assert!(disk.remove_file(PATH, "pages"));
    assert_eq!(kind(&disk), ErrorKind::NoPageFile);
    SimRuntime::run(1, |rt| {
        let error = open(rt, &disk, options(CommitMode::Logged)).unwrap_err();
        assert_eq!(
            error.kind(),
            ErrorKind::NoPageFile,
            "never a fresh one: {error}"
        );
    });
    // No map.
    let disk = written();
    assert!(disk.remove_file(PATH, "map"));
    assert_eq!(kind(&disk), ErrorKind::Damaged);
    // No log beside the data file.
    let disk = written();
    for name in disk.names(LOG).into_keys() {
        assert!(disk.remove_file(LOG, &name));
    }
    assert_eq!(kind(&disk), ErrorKind::Unsuitable);
    // Another page file's data file beside the log.
    let (disk, other) = (written(), written_elsewhere());
    disk.put_file(PATH, "pages", &other.file_bytes(PATH, "pages").unwrap());
    assert_eq!(kind(&disk), ErrorKind::Unsuitable);
    // Something else.
    let disk = written();
    disk.put_file(PATH, "pages", &[7; 300_000]);
    assert_eq!(kind(&disk), ErrorKind::Unsuitable);
}

/// As [`written`], with other ids.
fn written_elsewhere() -> SimDisk {
    let disk = disk(99);
    SimRuntime::run(99, |rt| {
        let file = open(rt, &disk, options(CommitMode::Logged)).unwrap();
        file.begin().unwrap();
        file.close().unwrap();
    });
    disk
}

#[test]
fn an_older_copy_of_one_of_the_two_is_refused() {
    let disk = written();
    let old_data = disk.file_bytes(PATH, "pages").unwrap();
    // Many checkpoints, so that the log begins after what the old data file needs.
    reopen(&disk, |file| {
        let file = file.unwrap();
        for round in 0..200 {
            let mut txn = file.begin().unwrap();
            (0..10).for_each(|n| txn.write(n, &page(round * 100 + n)).unwrap());
            txn.commit().unwrap();
        }
        file.checkpoint().unwrap();
        file.close().unwrap();
    });
    disk.put_file(PATH, "pages", &old_data);
    reopen(&disk, |file| {
        let error = file.unwrap_err();
        assert!(matches!(error, Error::ForeignLog { .. }), "{error}");
    });
}
