//! Tests of rot, lost files and foreign files. Damage is reported with its location and never returned as
//! contents. Files that do not belong together are refused.

use crate::common::{PAGE, PATH, disk, open, options, page};
use logforce_core::OpenMode;
use logforce_pages::{CommitMode, Error, ErrorKind, PageFile, Result};
use logforce_testkit::{SimDisk, SimRuntime};

const LOG: &str = "/file/log";
/// Offset of page 0.
pub(crate) const DATA: u64 = 128 << 10;

/// Makes a closed logged file with ten pages in its data file.
pub(crate) fn written() -> SimDisk {
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

pub(crate) fn reopen<T>(disk: &SimDisk, look: impl FnOnce(Result<PageFile>) -> T) -> T {
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

pub(crate) fn read(file: &PageFile, number: u64) -> Result<Vec<u8>> {
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
        // Writing the whole page repairs it.
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
    // The data file is missing beside the log.
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
    // The map is missing.
    let disk = written();
    assert!(disk.remove_file(PATH, "map"));
    assert_eq!(kind(&disk), ErrorKind::Damaged);
    // The log is missing beside the data file.
    let disk = written();
    for name in disk.names(LOG).into_keys() {
        assert!(disk.remove_file(LOG, &name));
    }
    assert_eq!(kind(&disk), ErrorKind::Unsuitable);
    // The data file of another page file is beside the log.
    let (disk, other) = (written(), written_elsewhere());
    disk.put_file(PATH, "pages", &other.file_bytes(PATH, "pages").unwrap());
    assert_eq!(kind(&disk), ErrorKind::Unsuitable);
    // The data file holds something else.
    let disk = written();
    disk.put_file(PATH, "pages", &[7; 300_000]);
    assert_eq!(kind(&disk), ErrorKind::Unsuitable);
}

/// Makes a file as [`written`] does, with other ids.
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
    // Makes many checkpoints, so that the log begins after what the old data file needs.
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
