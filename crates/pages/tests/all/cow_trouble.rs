//! Tests of copy-on-write files with bad input, a lost header, and a failing disk.

use crate::cow_basics::{contents, create, on_disk, options, reopen};
use logforce_core::{OpenMode, Policy};
use logforce_device::Runtime;
use logforce_format::{PAGE_HEADER_OFFSETS, PageFileHeader, newest_page_header};
use logforce_pages::{CommitMode, Error, ErrorKind, Options, PageFile, WriteThroughLimit};
use logforce_testkit::{
    Call, FailingCalls, Failure, Fault, FaultKind, Refusal, SimDisk, SimOptions, SimRuntime,
    Survival,
};
use std::time::Duration;

pub fn write_all(file: &PageFile, pages: impl IntoIterator<Item = u64>, stamp: u64) -> u64 {
    let mut tx = file.begin().unwrap();
    for page in pages {
        tx.write(page, &contents(page, stamp, file.page_size()))
            .unwrap();
    }
    tx.commit().unwrap().commit
}

pub fn try_write(file: &PageFile, page: u64, stamp: u64) -> Result<u64, Error> {
    let mut tx = file.begin()?;
    tx.write(page, &contents(page, stamp, file.page_size()))?;
    Ok(tx.commit()?.commit)
}

pub fn try_open(disk: &SimDisk, rt: &SimRuntime, options: Options) -> Result<PageFile, Error> {
    PageFile::open(&*disk.system(rt), "/db", OpenMode::OpenExisting, options)
}

pub fn stamp_of(file: &PageFile, page: u64) -> u64 {
    let mut buf = vec![0; file.page_size() as usize];
    file.snapshot().unwrap().read(page, &mut buf).unwrap();
    u64::from_le_bytes(buf[8..16].try_into().unwrap())
}

/// Makes all calls of a kind fail.
pub fn failing(call: Call, how: Refusal) -> FailingCalls {
    FailingCalls {
        calls: vec![call],
        how,
        after: 0,
        failing: u64::MAX,
    }
}

pub fn newest_header(disk: &SimDisk) -> (usize, PageFileHeader) {
    let bytes = disk.file_bytes("/db", "pages").unwrap();
    let slot = |n: usize| PageFileHeader::decode(&bytes[PAGE_HEADER_OFFSETS[n] as usize..]);
    newest_page_header([slot(0), slot(1)]).unwrap()
}

/// The medium loses the newer header without a crash. The previous header is then current, and the state that
/// it refers to is whole. After closing, both slots hold the last commit.
#[test]
fn the_older_header_still_reaches_its_state() {
    for (rounds, closes) in (1..12).flat_map(|rounds| [(rounds, false), (rounds, true)]) {
        let disk = SimDisk::new(SimOptions::default(), rounds);
        SimRuntime::run(1, |rt| {
            let file = create(&disk, rt, options().page_size(4096));
            for n in 1..=rounds {
                write_all(&file, 0..4, n);
            }
            if closes {
                file.close().unwrap();
            } else {
                disk.cut();
            }
        });
        disk.crash(Failure::Power, Some(Survival::Lost), 1);
        let (newest, header) = newest_header(&disk);
        assert_eq!(header.commit, rounds);
        assert!(disk.flip_bit("/db", "pages", PAGE_HEADER_OFFSETS[newest] + 40, 0));
        let left = if closes { rounds } else { rounds - 1 };
        SimRuntime::run(1, |rt| {
            let file = reopen(&disk, rt);
            let view = file.snapshot().unwrap();
            assert_eq!(view.commit(), left);
            for page in 0..view.page_count() {
                assert_eq!(stamp_of(&file, page), left);
            }
            // Both slots are valid again.
            write_all(&file, [0], 50);
            drop(view);
            file.close().unwrap();
            assert_eq!(stamp_of(&reopen(&disk, rt), 0), 50);
        });
    }
}

/// The same with a power cut in the middle of the next commit, which overwrites free places.
#[test]
fn the_older_header_survives_the_next_commit_until_its_slot_is_written() {
    for op in 0..40 {
        let disk = SimDisk::new(SimOptions::default(), op);
        let committed = SimRuntime::run(op, |rt| {
            let file = create(&disk, rt, options().page_size(4096));
            for n in 1..=6 {
                write_all(&file, 0..4, n);
            }
            disk.cut_at(disk.ops() + op);
            (7..)
                .take_while(|n| try_write(&file, n % 4, *n).is_ok())
                .count() as u64
                + 6
        });
        // Everything written is there, but what a header refers to was forced before it.
        disk.crash(Failure::Power, Some(Survival::Kept), op);
        let (newest, header) = newest_header(&disk);
        assert!(header.commit >= committed);
        let older = PAGE_HEADER_OFFSETS[1 - newest] as usize;
        let bytes = disk.file_bytes("/db", "pages").unwrap();
        let Ok(other) = PageFileHeader::decode(&bytes[older..]) else {
            continue;
        };
        let at = PAGE_HEADER_OFFSETS[newest] + 40;
        assert!(disk.flip_bit("/db", "pages", at, 0));
        SimRuntime::run(op, |rt| {
            let file = reopen(&disk, rt);
            let view = file.snapshot().unwrap();
            assert_eq!(view.commit(), other.commit);
            for page in 0..4 {
                let written = (7..=view.commit()).rfind(|n| n % 4 == page);
                let written = written.unwrap_or(view.commit().min(6));
                assert_eq!(stamp_of(&file, page), written, "operation {op}");
            }
        });
    }
}

#[test]
fn bad_input_is_told() {
    on_disk(|disk, rt| {
        let file = create(disk, rt, options());
        let page = contents(0, 1, 4096);
        let mut tx = file.begin().unwrap();
        let told = tx.write(0, &page[..4095]).unwrap_err();
        assert!(matches!(
            told,
            Error::PageSize {
                page: 0,
                len: 4095,
                page_size: 4096
            }
        ));
        tx.write(3, &page).unwrap();
        assert!(matches!(
            tx.write(3, &page),
            Err(Error::PageTwice { page: 3 })
        ));
        assert!(matches!(tx.discard(3), Err(Error::PageTwice { page: 3 })));
        assert!(matches!(
            tx.discard(4),
            Err(Error::OutOfRange {
                page: 4,
                page_count: 4
            })
        ));
        assert!(matches!(
            tx.write(1 << 48, &page),
            Err(Error::OutOfRange { .. })
        ));
        assert!(matches!(
            tx.page_mut(1 << 48),
            Err(Error::OutOfRange { .. })
        ));
        assert!(matches!(
            tx.set_page_count(3),
            Err(Error::OutOfRange { page: 3, .. })
        ));
        assert!(matches!(
            tx.set_page_count((1 << 48) + 1),
            Err(Error::OutOfRange { .. })
        ));
        let mut buf = vec![0; 4096];
        assert!(matches!(
            tx.read(4, &mut buf),
            Err(Error::OutOfRange { .. })
        ));
        assert!(matches!(
            tx.read(3, &mut buf[1..]),
            Err(Error::PageSize { .. })
        ));
        tx.commit().unwrap();
        let view = file.snapshot().unwrap();
        assert!(matches!(
            view.read(4, &mut buf),
            Err(Error::OutOfRange {
                page: 4,
                page_count: 4
            })
        ));
        assert!(matches!(
            view.read(0, &mut buf[..1]),
            Err(Error::PageSize { .. })
        ));
        drop(view);
        file.close().unwrap();
        for (options, option) in [
            (options().page_size(512), "page_size"),
            (options().checksums(false), "checksums"),
            (options().mode(CommitMode::Logged), "mode"),
        ] {
            match try_open(disk, rt, options) {
                Err(Error::OtherOption { option: told, .. }) => assert_eq!(told, option),
                other => panic!("{option}: {other:?}"),
            }
        }
        let again = PageFile::open(&*disk.system(rt), "/db", OpenMode::CreateNew, options());
        assert_eq!(again.unwrap_err().kind(), ErrorKind::AlreadyExists);
        let none = PageFile::open(
            &*disk.system(rt),
            "/other",
            OpenMode::OpenExisting,
            options(),
        );
        assert_eq!(none.unwrap_err().kind(), ErrorKind::NoPageFile);
    });
}

/// If a barrier or the header fails, the file accepts nothing more, durable pages can be read, and reopening
/// finds one of the two states.
#[test]
fn a_failed_barrier_poisons() {
    for call in [Call::Barrier, Call::Complete] {
        on_disk(|disk, rt| {
            let none = WriteThroughLimit { runs: 0, bytes: 0 };
            let file = create(disk, rt, options().write_through(none));
            write_all(&file, 0..10, 1);
            let view = file.snapshot().unwrap();
            disk.fail_calls(failing(call, Refusal::Medium));
            let told = try_write(&file, 0, 2).unwrap_err();
            assert!(matches!(told, Error::Poisoned(_)), "{told}");
            disk.stop_failing_calls();
            // A retry would succeed and prove nothing.
            for error in [
                try_write(&file, 0, 2).unwrap_err(),
                file.begin().unwrap_err(),
                file.latest().unwrap_err(),
                file.checkpoint().unwrap_err(),
            ] {
                assert_eq!(error.kind(), ErrorKind::Poisoned);
            }
            let mut buf = vec![0; 4096];
            view.read(0, &mut buf).unwrap();
            assert!(buf == contents(0, 1, 4096));
            assert_eq!(stamp_of(&file, 9), 1);
            drop(view);
            assert_eq!(file.close().unwrap_err().kind(), ErrorKind::Poisoned);
            let file = reopen(disk, rt);
            assert_eq!(stamp_of(&file, 0), 1);
            write_all(&file, [0], 3);
        });
    }
}

/// A failure in the background is reported to all later callers.
#[test]
fn a_failure_in_the_background_is_told() {
    on_disk(|disk, rt| {
        let file = create(disk, rt, options());
        write_all(&file, 0..2, 1);
        let mut tx = file.begin().unwrap();
        tx.write(0, &contents(0, 2, 4096)).unwrap();
        disk.fail_at(disk.ops() + 1, Fault::Io);
        let within = Duration::from_millis(5);
        tx.commit_with(Policy::Interval { within }).unwrap();
        while file.latest().is_ok() {
            rt.sleep(Duration::from_millis(1));
        }
        assert_eq!(file.begin().unwrap_err().kind(), ErrorKind::Poisoned);
        assert_eq!(stamp_of(&file, 0), 1);
    });
}

/// All runs fail, some for lack of space and one by the medium. The failure of the medium counts.
#[test]
fn an_error_of_the_medium_is_not_hidden_by_a_full_disk() {
    let mut poisoned = 0;
    for nth in 0..6 {
        on_disk(|disk, rt| {
            let none = WriteThroughLimit { runs: 0, bytes: 0 };
            let file = create(disk, rt, options().page_size(65536).write_through(none));
            // The first commit makes the file grow, so that later ones find space.
            for _ in 0..4 {
                write_all(&file, 0..40, 1);
            }
            let now = rt.now();
            assert!(now > Duration::ZERO);
            let begin = disk.ops();
            let mut tx = file.begin().unwrap();
            for page in 0..40 {
                tx.write(page, &contents(page, 2, 65536)).unwrap();
            }
            for op in 0..6 {
                let fault = if op == nth { Fault::Io } else { Fault::NoSpace };
                disk.fail_at(begin + op, fault);
            }
            let told = tx.commit();
            // If no write fails, there is space elsewhere in the file.
            let failed = disk.faults().get(FaultKind::WriteError) > 0;
            poisoned += u32::from(failed);
            assert_eq!(
                told.map_err(|e| e.kind()).err(),
                failed.then_some(ErrorKind::Poisoned)
            );
        });
    }
    assert!(poisoned > 2);
}
