//! Damaged places of a copy-on-write file: reported with their pages, and never returned as contents.

use crate::cow_basics::{contents, create, on_disk, options, reopen};
use crate::cow_trouble::{failing, newest_header, stamp_of, try_open, try_write, write_all};
use logforce_core::Guarantee;
use logforce_format::{
    CopyOnWriteRoot, PAGE_DATA_OFFSET, PAGE_HEADER_LEN, PAGE_HEADER_OFFSETS, PageFileHeader,
    PageFileKind, TableEntry, place_crc, place_offset, set_table_entry, table_entries,
};
use logforce_pages::{Error, ErrorKind, PageFile};
use logforce_testkit::{Call, Misread, Refusal, Rng, SectorFault};

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
                                // The other pages of the node are unknown.
                                let told = try_write(&file, page, 99).unwrap_err();
                                assert_eq!(told.kind(), ErrorKind::Damaged, "{told}");
                            }
                            Err(e) => {
                                pages_hit += 1;
                                assert_eq!(told(&e), format!("page {page}"));
                                assert!(buf.iter().all(|b| *b == 0 || *b == 7), "given out");
                                // The error is returned again, and to a transaction as well.
                                assert!(view.read(page, &mut buf).is_err());
                                let mut tx = file.begin().unwrap();
                                assert!(tx.page_mut(page).is_err());
                                // Writing the page anew repairs it.
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

/// A lost node, whichever it is, makes nothing else unusable. Other pages are read and written. Pages below
/// the node are not overwritten, and dropping those repairs the file. Without a commit the header slots stay
/// as they are.
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
                let backed_up = file.snapshot().unwrap().backup(
                    "/copy",
                    logforce_core::BackupOptions::new().require(Guarantee::ProcessCrash),
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
                    // A single misread must not fail an opening, not even one of a header slot.
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

/// Reads that fail for lack of a resource say nothing about the pages.
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

/// Bytes that pass all checksums but are impossible are refused.
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
        // Changes a leaf, and corrects all checksums above it.
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
        // The file is too short.
        disk.put_file("/db", "pages", &bytes[..at(root.places_end) - 512]);
        let told = try_open(disk, rt, options()).unwrap_err().to_string();
        assert!(told.contains("damaged file at byte"), "{told}");
        disk.put_file("/db", "pages", &bytes);
        assert_eq!(stamp_of(&reopen(disk, rt), 99), 1);
    });
}
