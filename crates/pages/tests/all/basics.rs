//! Tests of page files without failures, and of the errors for wrong arguments.

use crate::common::{MODES, PAGE, PATH, disk, open, options, page, with_file};
use logforce_core::{BackupOptions, OpenMode, Policy};
use logforce_pages::{Error, ErrorKind, PageFile};
use logforce_testkit::SimRuntime;
use std::time::Duration;

/// Returns the tag of a page that was made by [`page`].
fn tag(file: &PageFile, number: u64) -> u64 {
    let bytes = read(file, number);
    let tag = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    assert!(bytes == page(tag), "page {number} is not whole");
    tag
}

fn read(file: &PageFile, number: u64) -> Vec<u8> {
    let mut bytes = vec![0; PAGE];
    file.snapshot().unwrap().read(number, &mut bytes).unwrap();
    bytes
}

#[test]
fn pages_are_there_after_a_commit_and_after_reopening() {
    for mode in MODES {
        let disk = disk(1);
        SimRuntime::run(1, |rt| {
            let file = open(rt, &disk, options(mode)).unwrap();
            let mut txn = file.begin().unwrap();
            txn.write(3, &page(33)).unwrap();
            txn.write(1, &page(11)).unwrap();
            assert_eq!(txn.commit().unwrap().commit, 1);
            assert_eq!(tag(&file, 3), 33);
            assert_eq!(tag(&file, 2), 0, "never written");
            assert_eq!(file.snapshot().unwrap().page_count(), 4);
            file.close().unwrap();
            for _ in 0..2 {
                let file = open(rt, &disk, options(mode)).unwrap();
                assert_eq!(tag(&file, 1), 11);
                assert_eq!(tag(&file, 3), 33);
                assert_eq!(file.snapshot().unwrap().commit(), 1);
                file.checkpoint().unwrap();
                assert_eq!(tag(&file, 3), 33);
                file.close().unwrap();
            }
        });
    }
}

/// Snapshots and transactions of a closed file read and write nothing: the files may be another opener's.
#[test]
fn a_closed_file_lets_the_next_opener_in() {
    for mode in MODES {
        let disk = disk(1);
        SimRuntime::run(1, |rt| {
            let file = open(rt, &disk, options(mode)).unwrap();
            let write = |file: &PageFile, number, tag| {
                let mut txn = file.begin().unwrap();
                txn.write(number, &page(tag)).unwrap();
                txn.commit().unwrap();
            };
            (0..2).for_each(|n| write(&file, n, 1));
            file.checkpoint().unwrap();
            let second = open(rt, &disk, options(mode));
            assert_eq!(second.unwrap_err().kind(), ErrorKind::Locked);
            let (clone, state) = (file.clone(), file.snapshot().unwrap());
            let (mut inside, mut behind) = (file.begin().unwrap(), file.begin().unwrap());
            inside.write(0, &page(2)).unwrap();
            // The file would have to grow for it.
            behind.write(9_999, &page(2)).unwrap();
            file.close().unwrap();
            let next = open(rt, &disk, options(mode)).unwrap();
            assert_eq!(tag(&next, 0), 1);
            write(&next, 0, 3);
            next.checkpoint().unwrap();
            let mut buf = vec![0; PAGE];
            assert!(matches!(state.read(0, &mut buf), Err(Error::Closed)));
            let copied = state.backup("/copy", BackupOptions::new());
            assert!(matches!(copied, Err(Error::Closed)), "{copied:?}");
            assert!(matches!(inside.read(1, &mut buf), Err(Error::Closed)));
            assert!(matches!(inside.commit(), Err(Error::Closed)));
            assert!(matches!(clone.begin(), Err(Error::Closed)));
            assert!(matches!(clone.checkpoint(), Err(Error::Closed)));
            drop((clone, state));
            let len = disk.file_bytes(PATH, "pages").unwrap().len();
            assert!(matches!(behind.commit(), Err(Error::Closed)));
            assert_eq!(disk.file_bytes(PATH, "pages").unwrap().len(), len);
            write(&next, 0, 4);
            next.close().unwrap();
        });
    }
}

/// A dropped page takes a few bytes of the log. It does not count as a whole page in the limit of a commit.
#[test]
fn as_many_pages_as_there_are_may_be_dropped_at_once() {
    const LARGE: usize = 64 << 10;
    const COUNT: u64 = 1100;
    for mode in MODES {
        let disk = disk(1);
        SimRuntime::run(1, |rt| {
            let options = options(mode).page_size(LARGE as u32);
            let options = options.checkpoint_distance(4 << 20).cache(8 << 20);
            let file = open(rt, &disk, options).unwrap();
            let mut txn = file.begin().unwrap();
            txn.set_page_count(COUNT).unwrap();
            txn.write(7, &[7; LARGE]).unwrap();
            txn.commit().unwrap();
            let before = file.stats();
            let mut txn = file.begin().unwrap();
            (0..COUNT).for_each(|page| txn.discard(page).unwrap());
            txn.commit().unwrap();
            let now = file.stats();
            assert_eq!(now.pages_committed - before.pages_committed, COUNT);
            assert_eq!(now.images_logged, before.images_logged);
            assert!(now.bytes_logged - before.bytes_logged < COUNT * 20);
            assert_eq!(*file.latest().unwrap().page(7).unwrap(), [0; LARGE][..]);
            file.close().unwrap();
        });
    }
}

#[test]
fn a_snapshot_stays_as_it_is() {
    with_file(|file| {
        let mut txn = file.begin().unwrap();
        (0..20).for_each(|n| txn.write(n, &page(n)).unwrap());
        txn.commit().unwrap();
        file.checkpoint().unwrap();
        let old = file.snapshot().unwrap();
        // This takes many checkpoint distances.
        for round in 1..40 {
            let mut txn = file.begin().unwrap();
            (0..20).for_each(|n| txn.write(n, &page(n + 100 * round)).unwrap());
            txn.commit().unwrap();
        }
        file.checkpoint().unwrap();
        let mut bytes = vec![0; PAGE];
        for n in 0..20 {
            old.read(n, &mut bytes).unwrap();
            assert!(bytes == page(n), "page {n}");
            assert_eq!(tag(file, n), n + 3900);
        }
    });
}

#[test]
fn of_two_that_write_the_same_page_the_later_one_is_told() {
    with_file(|file| {
        let (mut a, mut b, mut c) = (
            file.begin().unwrap(),
            file.begin().unwrap(),
            file.begin().unwrap(),
        );
        a.write(1, &page(1)).unwrap();
        b.write(1, &page(2)).unwrap();
        c.write(2, &page(3)).unwrap();
        a.commit().unwrap();
        let error = b.commit().unwrap_err();
        assert!(matches!(error, Error::Conflict { page: 1 }), "{error}");
        c.commit().unwrap();
        assert_eq!((tag(file, 1), tag(file, 2)), (1, 3));
        // The same holds if the other commit has reached the data file.
        let mut d = file.begin().unwrap();
        d.write(1, &page(4)).unwrap();
        let mut e = file.begin().unwrap();
        e.write(1, &page(5)).unwrap();
        e.commit().unwrap();
        file.checkpoint().unwrap();
        file.checkpoint().unwrap();
        assert_eq!(d.commit().unwrap_err().kind(), ErrorKind::Conflict);
        assert_eq!(file.stats().conflicts, 2);
    });
}

#[test]
fn latest_shows_what_is_committed_and_snapshot_what_is_durable() {
    with_file(|file| {
        let mut txn = file.begin().unwrap();
        txn.write(0, &page(1)).unwrap();
        txn.commit().unwrap();
        let mut txn = file.begin().unwrap();
        txn.write(0, &page(2)).unwrap();
        let policy = Policy::Interval {
            within: Duration::from_secs(1000),
        };
        txn.commit_with(policy).unwrap();
        let mut bytes = vec![0; PAGE];
        file.latest().unwrap().read(0, &mut bytes).unwrap();
        assert_eq!(bytes, page(2));
        assert_eq!(tag(file, 0), 1);
        file.checkpoint().unwrap();
        assert_eq!(tag(file, 0), 2);
    });
}

#[test]
fn the_file_grows_and_shrinks_and_pages_are_dropped() {
    with_file(|file| {
        let mut txn = file.begin().unwrap();
        (0..10).for_each(|n| txn.write(n, &page(n + 1)).unwrap());
        txn.commit().unwrap();
        file.checkpoint().unwrap();
        let before = file.snapshot().unwrap();
        let mut txn = file.begin().unwrap();
        txn.set_page_count(4).unwrap();
        txn.discard(2).unwrap();
        let error = txn.read(5, &mut [0; PAGE]).unwrap_err();
        assert!(matches!(
            error,
            Error::OutOfRange {
                page: 5,
                page_count: 4
            }
        ));
        txn.commit().unwrap();
        let mut txn = file.begin().unwrap();
        txn.set_page_count(10).unwrap();
        txn.page_mut(7).unwrap()[0] = 77;
        txn.commit().unwrap();
        for checkpointed in [false, true] {
            if checkpointed {
                file.checkpoint().unwrap();
            }
            let expected = [1, 2, 0, 4, 0, 0, 0];
            for (n, expected) in expected.into_iter().enumerate() {
                assert_eq!(tag(file, n as u64), expected, "{n}, {checkpointed}");
            }
            assert_eq!(read(file, 7)[..2], [77, 0]);
            let mut bytes = vec![0; PAGE];
            for n in 0..10 {
                before.read(n, &mut bytes).unwrap();
                assert!(bytes == page(n + 1), "{n}, {checkpointed}");
            }
        }
    });
}

#[test]
fn wrong_arguments_are_refused_and_change_nothing() {
    with_file(|file| {
        let mut txn = file.begin().unwrap();
        assert!(matches!(
            txn.write(0, &[1; 100]),
            Err(Error::PageSize { len: 100, .. })
        ));
        assert!(matches!(
            txn.write(1 << 48, &page(1)),
            Err(Error::OutOfRange { .. })
        ));
        assert!(matches!(
            txn.page_mut(u64::MAX),
            Err(Error::OutOfRange { .. })
        ));
        assert!(matches!(txn.discard(0), Err(Error::OutOfRange { .. })));
        txn.write(0, &page(1)).unwrap();
        assert!(matches!(
            txn.write(0, &page(2)),
            Err(Error::PageTwice { page: 0 })
        ));
        assert!(matches!(txn.discard(0), Err(Error::PageTwice { page: 0 })));
        assert!(matches!(
            txn.set_page_count(0),
            Err(Error::OutOfRange { .. })
        ));
        assert!(matches!(
            txn.read(1, &mut [0; PAGE]),
            Err(Error::OutOfRange { .. })
        ));
        txn.commit().unwrap();
        assert_eq!(tag(file, 0), 1);
        let snapshot = file.snapshot().unwrap();
        assert!(matches!(
            snapshot.read(0, &mut [0; 1]),
            Err(Error::PageSize { .. })
        ));
        assert!(matches!(
            snapshot.read(1, &mut [0; PAGE]),
            Err(Error::OutOfRange { .. })
        ));
    });
}

#[test]
fn openings_that_do_not_fit_are_refused() {
    for mode in MODES {
        let disk = disk(1);
        SimRuntime::run(1, |rt| {
            let system = disk.system(rt);
            let open_as = |how, options| PageFile::open(&*system, PATH, how, options);
            let kind = |how, options| open_as(how, options).unwrap_err().kind();
            assert_eq!(
                kind(OpenMode::OpenExisting, options(mode)),
                ErrorKind::NoPageFile
            );
            let file = open_as(OpenMode::CreateNew, options(mode)).unwrap();
            assert_eq!(
                kind(OpenMode::OpenExisting, options(mode)),
                ErrorKind::Locked
            );
            file.close().unwrap();
            assert_eq!(
                kind(OpenMode::CreateNew, options(mode)),
                ErrorKind::AlreadyExists
            );
            let other = options(mode).page_size(1024);
            assert_eq!(kind(OpenMode::OpenExisting, other), ErrorKind::Unsuitable);
            let other = options(mode).checksums(false);
            assert_eq!(kind(OpenMode::OpenExisting, other), ErrorKind::Unsuitable);
            let other = options(mode).page_size(1000);
            assert_eq!(kind(OpenMode::OpenExisting, other), ErrorKind::InvalidInput);
            open_as(OpenMode::OpenExisting, options(mode))
                .unwrap()
                .close()
                .unwrap();
        });
    }
}
