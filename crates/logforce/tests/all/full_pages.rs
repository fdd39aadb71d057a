//! Page files on a full disk where overwriting takes new space: they open, are read, and shrink.

use crate::common::*;
use crate::full::Filler;
use logforce::Guarantee;
use logforce::pages::{CommitMode, Error, ErrorKind, Options, PageFile};
use std::path::Path;

fn with() -> Options {
    of(CommitMode::CopyOnWrite)
}

fn of(mode: CommitMode) -> Options {
    Options::new()
        .mode(mode)
        .require(Guarantee::ProcessCrash)
        .log(options())
}

fn open(dir: &Path) -> PageFile {
    logforce::pages::open_existing(dir, with()).unwrap()
}

fn write(file: &PageFile, page: u64, stamp: u8) -> Result<(), Error> {
    let mut txn = file.begin()?;
    txn.write(page, &vec![stamp; file.page_size() as usize])?;
    txn.commit().map(drop)
}

fn shorten(file: &PageFile, page_count: u64) -> Result<(), Error> {
    let mut txn = file.begin()?;
    txn.set_page_count(page_count)?;
    txn.commit().map(drop)
}

#[test]
fn a_copy_on_write_file_shrinks_on_a_full_btrfs() {
    let home = open_to_all(temp());
    let Some(fs) = loop_fs("btrfs", 128, &home) else {
        return;
    };
    let dir = fs.path().join("file");
    let file = logforce::pages::create_new(&dir, with()).unwrap();
    let mut pages = 200;
    (0..pages).for_each(|page| write(&file, page, 1).unwrap());
    file.close().unwrap();
    let filler = Filler::new(fs.path(), 0);
    for _ in 0..4 {
        let file = open(&dir);
        assert_eq!(file.latest().unwrap().page_count(), pages);
        for stamp in 2..12 {
            pages -= 1;
            shorten(&file, pages).unwrap();
            write(&file, 3, stamp).unwrap();
        }
        // Writes far more than the free space.
        let mut txn = file.begin().unwrap();
        let grown = vec![9; file.page_size() as usize];
        (1000..3000).for_each(|page| txn.write(page, &grown).unwrap());
        assert_eq!(txn.commit().unwrap_err().kind(), ErrorKind::NoSpace);
        // Fills the filesystem up to the last block.
        while write(&file, pages, 1).is_ok() {
            pages += 1;
        }
        file.close().unwrap();
    }
    drop(filler);
    let file = open(&dir);
    write(&file, pages, 7).unwrap();
    for page in 0..pages {
        assert_eq!(
            file.latest().unwrap().page(page).unwrap()[0] == 1,
            page != 3
        );
    }
    file.close().unwrap();
}

/// The file's log cannot write its control file. Committed pages can be read without opening the file, and
/// are still there once there is space.
#[test]
fn a_logged_file_on_a_full_btrfs_waits_for_space_and_is_read() {
    let home = open_to_all(temp());
    let Some(fs) = loop_fs("btrfs", 128, &home) else {
        return;
    };
    let dir = fs.path().join("file");
    let file = logforce::pages::create_new(&dir, of(CommitMode::Logged)).unwrap();
    (0..200).for_each(|page| write(&file, page, 1).unwrap());
    file.close().unwrap();
    let open = || logforce::pages::open_existing(&dir, of(CommitMode::Logged));
    let filler = Filler::new(fs.path(), 0);
    for _ in 0..2 {
        let Err(refused) = open() else {
            // The filesystem still had a few free blocks.
            return;
        };
        assert_eq!(refused.kind(), ErrorKind::NoSpace, "{refused}");
        let snapshot = logforce::pages::read_only(&dir).unwrap();
        (0..200).for_each(|page| assert_eq!(snapshot.page(page).unwrap()[0], 1));
    }
    drop(filler);
    let file = open().unwrap();
    shorten(&file, 100).unwrap();
    write(&file, 3, 2).unwrap();
    file.checkpoint().unwrap();
    file.close().unwrap();
}
