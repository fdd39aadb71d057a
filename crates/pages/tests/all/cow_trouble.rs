//! Damage, bad input, a full disk, a disk that fails.

use crate::cow_basics::{contents, create, on_disk, options, reopen};
use logforce_core::{Guarantee, OpenMode, Policy};
use logforce_device::Runtime;
use logforce_format::{
    CopyOnWriteRoot, PAGE_DATA_OFFSET, PAGE_HEADER_LEN, PAGE_HEADER_OFFSETS, PageFileHeader,
    PageFileKind, TableEntry, newest_page_header, place_crc, place_offset, set_table_entry,
    table_entries,
};
use logforce_pages::{CommitMode, Error, ErrorKind, Options, PageFile, WriteThroughLimit};
use logforce_testkit::{
    Call, FailingCalls, Failure, Fault, FaultKind, Misread, Refusal, Rng, SectorFault, SimDisk,
    SimOptions, SimRuntime, Survival,
};
use std::time::Duration;

fn write_all(file: &PageFile, pages: impl IntoIterator<Item = u64>, stamp: u64) -> u64 {
    let mut tx = file.begin().unwrap();
    for page in pages {
        tx.write(page, &contents(page, stamp, file.page_size()))
            .unwrap();
    }
    tx.commit().unwrap().commit
}

fn try_write(file: &PageFile, page: u64, stamp: u64) -> Result<u64, Error> {
    let mut tx = file.begin()?;
    tx.write(page, &contents(page, stamp, file.page_size()))?;
    Ok(tx.commit()?.commit)
}

fn try_open(disk: &SimDisk, rt: &SimRuntime, options: Options) -> Result<PageFile, Error> {
    PageFile::open(&*disk.system(rt), "/db", OpenMode::OpenExisting, options)
}

fn stamp_of(file: &PageFile, page: u64) -> u64 {
    let mut buf = vec![0; file.page_size() as usize];
    file.snapshot().unwrap().read(page, &mut buf).unwrap();
    u64::from_le_bytes(buf[8..16].try_into().unwrap())
}

/// All calls of a kind.
fn failing(call: Call, how: Refusal) -> FailingCalls {
    FailingCalls {
        calls: vec![call],
        how,
        after: 0,
        failing: u64::MAX,
    }
}

fn newest_header(disk: &SimDisk) -> (usize, PageFileHeader) {
    let bytes = disk.file_bytes("/db", "pages").unwrap();
    let slot = |n: usize| PageFileHeader::decode(&bytes[PAGE_HEADER_OFFSETS[n] as usize..]);
    newest_page_header([slot(0), slot(1)]).unwrap()
}

/// Each sector of each place is damaged in turn, by a bit and as a whole.
#[test]
fn damage_is_told_with_the_page_and_never_served() {
    for checksums in [true, false] {
        on_disk(|disk, rt| {
            let file = create(disk, rt, options().page_size(1024).checksums(checksums));
            for n in 0..70 {
                write_all(&file, [n], n + 1);
            }
            file.close().unwrap();
            let whole = disk.snapshot();
            let places =
                (disk.file_bytes("/db", "pages").unwrap().len() as u64 - PAGE_DATA_OFFSET) / 1024;
            let (mut pages_hit, mut nodes_hit) = (0, 0);
            for place in 0..places {
                let offset = place_offset(1024, place).unwrap();
                for how in 0..3 {
                    disk.restore(&whole);
                    let at = offset + 700 * (place % 2);
                    match how {
                        0 => assert!(disk.flip_bit("/db", "pages", at, 3)),
                        1 => assert!(disk.make_unreadable("/db", "pages", at)),
                        _ => {
                            let old = SectorFault::Stale;
                            disk.inject("/db", "pages", at, &old);
                        }
                    }
                    let told = |e: &Error| match e {
                        Error::Damaged {
                            what, offset: told, ..
                        } => {
                            assert_eq!(*told, offset);
                            what.clone()
                        }
                        other => panic!("{other}"),
                    };
                    let file = reopen(disk, rt);
                    let view = file.snapshot().unwrap();
                    for page in 0..70 {
                        let mut buf = vec![7; 1024];
                        match view.read(page, &mut buf) {
                            Ok(()) if buf == contents(page, page + 1, 1024) => {}
                            Ok(()) => assert!(!checksums && how != 1, "damage was served"),
                            Err(e) if told(&e) == "node of the page table" => {
                                nodes_hit += 1;
                                // The other pages of the node are not known.
                                let told = try_write(&file, page, 99).unwrap_err();
                                assert_eq!(told.kind(), ErrorKind::Damaged, "{told}");
                            }
                            Err(e) => {
                                pages_hit += 1;
                                assert_eq!(told(&e), format!("page {page}"));
                                assert!(buf.iter().all(|b| *b == 0 || *b == 7), "given out");
                                // Told again, and to a transaction as well.
                                assert!(view.read(page, &mut buf).is_err());
                                let mut tx = file.begin().unwrap();
                                assert!(tx.page_mut(page).is_err());
                                // Writing it anew heals it.
                                assert_eq!(stamp_of(&file, (page + 1) % 70), (page + 1) % 70 + 1);
                                write_all(&file, [page], 99);
                                assert_eq!(stamp_of(&file, page), 99);
                            }
                        }
                    }
                }
            }
            let expected = if checksums { 140 } else { 70 };
            assert!(
                pages_hit >= expected && nodes_hit >= 2 * 70,
                "{pages_hit}, {nodes_hit}"
            );
        });
    }
}

/// One lost node makes nothing else unusable, whichever it is. The other pages are read and written, the
/// pages below it are not overwritten, and dropping those mends the file. Without a commit the header slots
/// stay as they are.
#[test]
fn a_lost_node_takes_nothing_with_it() {
    for seed in 0..8 {
        on_disk(|disk, rt| {
            let mut rng = Rng::new(seed);
            let file = create(disk, rt, options().page_size(512));
            let pages = 100;
            for n in 0..60 {
                write_all(&file, [rng.below(pages)], n);
            }
            write_all(&file, 0..pages, 1000);
            file.close().unwrap();
            let whole = disk.snapshot();
            let bytes = disk.file_bytes("/db", "pages").unwrap();
            let (_, header) = newest_header(disk);
            let PageFileKind::CopyOnWrite(root) = header.kind else {
                panic!()
            };
            let at = |place: u64| place_offset(512, place).unwrap();
            let node = |place: u64| &bytes[at(place) as usize..][..512];
            let root = root.place.unwrap();
            let leaves = table_entries(node(root)).map(|(_, leaf)| leaf.place);
            for place in std::iter::once(root).chain(leaves) {
                disk.restore(&whole);
                let (offset, bit) = (at(place) + rng.below(512), rng.below(8) as u8);
                assert!(disk.flip_bit("/db", "pages", offset, bit));
                let file = reopen(disk, rt);
                let is_lost = |file: &PageFile, page| {
                    let view = file.snapshot().unwrap();
                    let read = view.page(page);
                    assert!(
                        read.as_ref()
                            .is_ok_and(|p| p[..] == contents(page, 1000, 512)[..])
                            || read.is_err_and(|e| e.kind() == ErrorKind::Damaged)
                    );
                    view.page(page).is_err()
                };
                let (lost, left): (Vec<u64>, Vec<u64>) =
                    (0..pages).partition(|page| is_lost(&file, *page));
                assert_eq!(
                    lost.len(),
                    if place == root {
                        100
                    } else {
                        lost.len().min(32)
                    }
                );
                assert!(!lost.is_empty());
                let backed_up = file.snapshot().unwrap().copy_to(
                    &*disk.system(rt),
                    "/copy",
                    Guarantee::ProcessCrash,
                );
                assert_eq!(backed_up.unwrap_err().kind(), ErrorKind::Damaged);
                file.close().unwrap();
                let untouched = |at: u64| {
                    let now = disk.file_bytes("/db", "pages").unwrap();
                    let slot = at as usize..at as usize + PAGE_HEADER_LEN;
                    now[slot.clone()] == bytes[slot]
                };
                assert!(PAGE_HEADER_OFFSETS.into_iter().all(untouched));
                // Makes many commits, which free places and look for others.
                let mut file = reopen(disk, rt);
                for round in 0..40 {
                    let Some(page) = left.get(rng.below(left.len() as u64 + 1) as usize) else {
                        assert_eq!(
                            try_write(&file, lost[0], 5).unwrap_err().kind(),
                            ErrorKind::Damaged
                        );
                        continue;
                    };
                    write_all(&file, [*page], 2000 + round);
                    if round % 8 == 7 {
                        file.close().unwrap();
                        file = reopen(disk, rt);
                    }
                }
                file.close().unwrap();
                // The pages below the node are still there.
                assert!(disk.flip_bit("/db", "pages", offset, bit));
                let file = reopen(disk, rt);
                lost.iter().for_each(|page| assert!(!is_lost(&file, *page)));
                file.close().unwrap();
                assert!(disk.flip_bit("/db", "pages", offset, bit));
                let file = reopen(disk, rt);
                let mut tx = file.begin().unwrap();
                tx.set_page_count(lost[0] / 32 * 32).unwrap();
                tx.commit().unwrap();
                write_all(&file, 0..pages, 3000);
                file.close().unwrap();
                let file = reopen(disk, rt);
                for page in 0..pages {
                    assert_eq!(stamp_of(&file, page), 3000);
                }
            }
        });
    }
}

#[test]
fn what_was_read_wrong_once_is_no_damage() {
    for how in [Misread::Error, Misread::Stale, Misread::Misdirected] {
        on_disk(|disk, rt| {
            let file = create(disk, rt, options().page_size(4096));
            write_all(&file, 0..20, 1);
            write_all(&file, 0..20, 2);
            file.close().unwrap();
            for read in 0.. {
                let begin = disk.reads();
                disk.misread_at(begin + read, how);
                let file = match try_open(disk, rt, options()) {
                    Ok(file) => file,
                    // A header slot: the other one would do, and it is not asked twice.
                    Err(e) => panic!("read {read}: {e}"),
                };
                for page in 0..20 {
                    assert_eq!(stamp_of(&file, page), 2);
                }
                file.close().unwrap();
                if disk.reads() - begin < read {
                    break;
                }
            }
        });
    }
}

/// Reads that fail for lack of something say nothing about the pages.
#[test]
fn a_read_that_fails_is_no_damage() {
    on_disk(|disk, rt| {
        let file = create(disk, rt, options().cache(0));
        write_all(&file, 0..3, 1);
        let view = file.snapshot().unwrap();
        let mut buf = vec![0; 4096];
        for refusal in Refusal::OF_THE_PROCESS {
            if refusal == Refusal::Interrupted {
                continue;
            }
            disk.fail_calls(failing(Call::Read, refusal));
            assert_eq!(view.read(1, &mut buf).unwrap_err().kind(), ErrorKind::Io);
            disk.stop_failing_calls();
            view.read(1, &mut buf).unwrap();
            assert!(buf == contents(1, 1, 4096));
        }
    });
}

/// The medium, not a crash, loses the newer header. The previous header is in force, and the state that it
/// reaches is whole. After closing, both slots hold the last commit.
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
            // Both slots are good again.
            write_all(&file, [0], 50);
            drop(view);
            file.close().unwrap();
            assert_eq!(stamp_of(&reopen(&disk, rt), 0), 50);
        });
    }
}

/// The same where the power goes in the middle of the next commit, which writes over what is free.
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
        // All that was written is there, but what a header reaches was forced before it.
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

/// Bytes that pass all checksums and cannot be.
#[test]
fn crafted_tables_are_refused() {
    on_disk(|disk, rt| {
        let file = create(disk, rt, options().page_size(512));
        write_all(&file, 0..100, 1);
        file.close().unwrap();
        let bytes = disk.file_bytes("/db", "pages").unwrap();
        let (_, header) = newest_header(disk);
        let PageFileKind::CopyOnWrite(root) = header.kind else {
            panic!()
        };
        assert_eq!(root.depth, 2);
        let at = |place: u64| place_offset(512, place).unwrap() as usize;
        let root_at = at(root.place.unwrap());
        let (_, leaf) = table_entries(&bytes[root_at..][..512]).next().unwrap();
        type Craft<'a> = &'a dyn Fn(&mut Vec<u8>, &mut PageFileHeader, &mut CopyOnWriteRoot);
        // A changed leaf, with all checksums above it made right.
        let with_leaf =
            |bytes: &mut Vec<u8>, root: &mut CopyOnWriteRoot, change: &dyn Fn(&mut [u8])| {
                change(&mut bytes[at(leaf.place)..][..512]);
                let crc = place_crc(&bytes[at(leaf.place)..][..512]);
                let entry = TableEntry { crc, ..leaf };
                set_table_entry(&mut bytes[root_at..][..512], 0, Some(entry));
                root.crc = place_crc(&bytes[root_at..][..512]);
            };
        let entry = |place| Some(TableEntry { place, crc: 1 });
        let crafts: [(&str, Craft<'_>); 7] = [
            ("a place beyond", &|b, _, r| {
                with_leaf(b, r, &|leaf| set_table_entry(leaf, 3, entry(1 << 40)));
            }),
            ("a place twice", &|b, _, r| {
                with_leaf(b, r, &|leaf| {
                    let first = table_entries(leaf).next().unwrap().1;
                    set_table_entry(leaf, 3, Some(first));
                });
            }),
            ("reserved bytes", &|b, _, r| {
                with_leaf(b, r, &|leaf| leaf[14] = 1)
            }),
            ("a node that is its own child", &|b, _, r| {
                with_leaf(b, r, &|l| set_table_entry(l, 3, entry(leaf.place)));
            }),
            ("pages beyond the end", &|_, h, _| h.page_count = 50),
            ("a deeper table", &|_, _, r| r.depth = 16),
            ("more places than there are", &|_, _, r| {
                r.places_end = u64::MAX
            }),
        ];
        for (what, craft) in crafts {
            let (mut bytes, mut header, mut root) = (bytes.clone(), header, root);
            craft(&mut bytes, &mut header, &mut root);
            header.kind = PageFileKind::CopyOnWrite(root);
            for offset in PAGE_HEADER_OFFSETS {
                bytes[offset as usize..][..PAGE_HEADER_LEN].copy_from_slice(&header.encode());
            }
            disk.put_file("/db", "pages", &bytes);
            match try_open(disk, rt, options()) {
                Ok(_) => panic!("{what}: opened"),
                Err(e) => assert_eq!(e.kind(), ErrorKind::Damaged, "{what}: {e}"),
            }
        }
        // The file ends too early.
        disk.put_file("/db", "pages", &bytes[..at(root.places_end) - 512]);
        let told = try_open(disk, rt, options()).unwrap_err().to_string();
        assert!(told.contains("damaged file at byte"), "{told}");
        disk.put_file("/db", "pages", &bytes);
        assert_eq!(stamp_of(&reopen(disk, rt), 99), 1);
    });
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

/// A disk with this much room.
fn full_disk(room: u64, in_place: bool) -> SimDisk {
    let options = SimOptions {
        capacity: Some(room),
        in_place,
        ..SimOptions::default()
    };
    SimDisk::new(options, 1)
}

/// No space: refused as a whole, nothing of before is lost, and it goes on when there is space.
#[test]
fn a_full_disk_refuses_and_goes_on() {
    for through in [0, 9] {
        for room in (0..12).map(|n| (400 << 10) + n * 1024) {
            let disk = full_disk(room, true);
            SimRuntime::run(1, |rt| {
                let upto = WriteThroughLimit {
                    runs: through,
                    bytes: 1 << 30,
                };
                let file = create(&disk, rt, options().write_through(upto));
                let mut last = 0;
                let told = loop {
                    match try_write(&file, last, last + 1) {
                        Ok(_) => last += 1,
                        Err(e) => break e,
                    }
                };
                assert!(matches!(told, Error::NoSpace { .. }), "{told}");
                assert!(last > 20, "{last} pages");
                assert_eq!(file.latest().unwrap().commit(), last);
                assert_eq!(file.latest().unwrap().page_count(), last);
                for page in 0..last {
                    assert_eq!(stamp_of(&file, page), page + 1);
                }
                // Again and again, and nothing is used up by it.
                for _ in 0..20 {
                    assert_eq!(
                        try_write(&file, last, 1).unwrap_err().kind(),
                        ErrorKind::NoSpace
                    );
                }
                disk.change(|o| o.capacity = Some(2 << 20));
                let commit = try_write(&file, last, 77).unwrap();
                assert!(commit > last);
                assert_eq!(stamp_of(&file, last), 77);
                file.close().unwrap();
                let file = reopen(&disk, rt);
                assert_eq!(file.snapshot().unwrap().commit(), commit);
                assert_eq!(stamp_of(&file, last), 77);
            });
        }
    }
}

/// Where overwriting takes space as well, the header's write may lack it. The commit is refused like any
/// other, no crash brings it back, and the file goes on and can be opened.
#[test]
fn a_full_disk_that_relocates_refuses_and_goes_on() {
    for (seed, room) in (0..40).map(|n| (n, (400 << 10) + n * 1024)) {
        let disk = SimDisk::new(
            SimOptions {
                capacity: Some(room),
                in_place: false,
                // A refused header may have been written whole.
                sector: if seed % 2 == 0 { 4096 } else { 512 },
                ..SimOptions::default()
            },
            seed,
        );
        let last = SimRuntime::run(seed, |rt| {
            let mut file = create(&disk, rt, options());
            let mut last = 0;
            let refused = loop {
                match try_write(&file, last, last + 1) {
                    Ok(_) => last += 1,
                    Err(e) => break e,
                }
            };
            assert_eq!(refused.kind(), ErrorKind::NoSpace, "{refused}");
            if seed % 4 < 2 {
                disk.cut();
                return last;
            }
            // With no sector left, opening writes no header, and reading goes on.
            disk.change(|o| o.capacity = Some(0));
            file.checkpoint().unwrap();
            for _ in 0..2 {
                let refused = try_write(&file, 0, 98).unwrap_err();
                assert_eq!(refused.kind(), ErrorKind::NoSpace, "{refused}");
                assert_eq!(file.snapshot().unwrap().page_count(), last);
                for page in 0..last {
                    assert_eq!(stamp_of(&file, page), page + 1);
                }
                file.close().unwrap();
                file = reopen(&disk, rt);
            }
            disk.change(|o| o.capacity = Some(2 << 20));
            write_all(&file, last..last + 1, last + 1);
            let last = last + 1;
            // Refuses a commit once more, then crashes.
            disk.change(|o| o.capacity = Some(room));
            for page in (0..last).cycle().take(3) {
                if try_write(&file, page, page + 1).is_err() {
                    break;
                }
            }
            let mut last = last;
            for _ in 0..30 {
                match try_write(&file, last, last + 1) {
                    Ok(_) => last += 1,
                    Err(e) => assert_eq!(e.kind(), ErrorKind::NoSpace, "{e}"),
                }
            }
            disk.cut();
            last
        });
        disk.crash(Failure::Power, None, seed);
        disk.change(|o| o.capacity = Some(2 << 20));
        SimRuntime::run(seed, |rt| {
            let file = reopen(&disk, rt);
            assert_eq!(file.snapshot().unwrap().page_count(), last, "room {room}");
            for page in 0..last {
                assert_eq!(stamp_of(&file, page), page + 1);
            }
            write_all(&file, 0..20, 99);
        });
    }
}

/// What was built on a commit that was taken back is refused for the same reason, and who was told
/// that a commit is accepted learns that it is not.
#[test]
fn what_was_accepted_and_taken_back_is_told() {
    let disk = full_disk(400 << 10, true);
    SimRuntime::run(1, |rt| {
        let file = create(&disk, rt, options());
        write_all(&file, 0..10, 1);
        let within = Duration::from_secs(3600);
        let mut tx = file.begin().unwrap();
        for page in 0..100 {
            tx.write(page, &contents(page, 2, 4096)).unwrap();
        }
        let accepted = tx.commit_with(Policy::Interval { within }).unwrap();
        assert_eq!(accepted.guarantee, Guarantee::Nothing);
        let mut built = file.begin().unwrap();
        built.write(500, &contents(500, 3, 4096)).unwrap();
        let view = file.latest().unwrap();
        assert_eq!(view.commit(), accepted.commit);
        // Whoever forces gets the error, and only once.
        assert_eq!(file.checkpoint().unwrap_err().kind(), ErrorKind::NoSpace);
        assert_eq!(file.latest().unwrap().commit(), 1);
        assert_eq!(built.commit().unwrap_err().kind(), ErrorKind::NoSpace);
        // Who looks at it still sees it.
        let mut buf = vec![0; 4096];
        view.read(99, &mut buf).unwrap();
        assert!(buf == contents(99, 2, 4096));
        let nothing = file.begin().unwrap().commit().unwrap();
        assert_eq!(nothing.commit, 1);
        // Begun on what was there before: no conflict with what never came to be.
        assert!(write_all(&file, [5], 4) > accepted.commit);
        // In the background nobody is told, until somebody asks.
        let mut tx = file.begin().unwrap();
        for page in 0..100 {
            tx.write(page, &contents(page, 2, 4096)).unwrap();
        }
        let within = Duration::from_millis(5);
        tx.commit_with(Policy::Interval { within }).unwrap();
        while file.latest().unwrap().page_count() > 10 {
            rt.sleep(Duration::from_millis(1));
        }
        assert_eq!(file.checkpoint().unwrap_err().kind(), ErrorKind::NoSpace);
        file.checkpoint().unwrap();
        assert_eq!(stamp_of(&file, 5), 4);
    });
}

/// A transaction that began before, and on what is still there, commits after the space came back.
#[test]
fn a_transaction_outlives_a_full_disk() {
    let disk = full_disk(400 << 10, true);
    SimRuntime::run(1, |rt| {
        let file = create(&disk, rt, options());
        write_all(&file, 0..10, 1);
        let mut tx = file.begin().unwrap();
        tx.write(5, &contents(5, 9, 4096)).unwrap();
        let mut large = file.begin().unwrap();
        for page in 0..100 {
            large.write(page, &contents(page, 2, 4096)).unwrap();
        }
        assert_eq!(large.commit().unwrap_err().kind(), ErrorKind::NoSpace);
        tx.commit().unwrap();
        assert_eq!((stamp_of(&file, 5), stamp_of(&file, 6)), (9, 1));
    });
}

/// A barrier or the header fails: nothing more is accepted, what is durable can be read, and after
/// reopening one of the two states is there.
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
            // A retry would succeed, and prove nothing.
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

/// One that fails only in the background is told to all that come after.
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

/// All runs fail, some for space and one by the medium: that one counts.
#[test]
fn an_error_of_the_medium_is_not_hidden_by_a_full_disk() {
    let mut poisoned = 0;
    for nth in 0..6 {
        on_disk(|disk, rt| {
            let none = WriteThroughLimit { runs: 0, bytes: 0 };
            let file = create(disk, rt, options().page_size(65536).write_through(none));
            // The file has room from then on.
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
            // Without a failed write, there is space elsewhere in the file.
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
