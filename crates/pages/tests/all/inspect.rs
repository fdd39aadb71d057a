//! Tests of the inspector. Its report on a file agrees with an opening, whatever a crash left of the file.
//! Damage is reported with its page, and a page that is being written is never called damaged.

use crate::common::{MODES, PAGE, PATH, disk, interrupted, open, options, page};
use logforce_core::{OpenMode, RepairOptions, repair};
use logforce_device::{Method, Runtime};
use logforce_format::{Lsn, MapEntry, MapSector};
use logforce_pages::{
    CommitMode, CopyOnWriteRoot, Damage, Error, ErrorKind, Held, Inspector, LoggedState,
    NextOpening, PageFile, PageFileHeader, PageFileKind, PageSource, VerifyReport, Visit,
};
use logforce_testkit::{Failure, Rng, SimDisk, SimRuntime, Survival};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const DATA: u64 = 128 << 10;

/// Parts that a walk visited.
#[derive(Default)]
struct Seen {
    pages: BTreeMap<u64, Held>,
    nodes: u64,
    commits: u64,
    damages: Vec<Damage>,
}

fn look(inspector: &Inspector) -> (VerifyReport, Seen) {
    let mut seen = Seen::default();
    let report = inspector.walk(&mut |visit| {
        match visit {
            Visit::Page(p) => assert!(seen.pages.insert(p.page, p.held).is_none(), "{p:?}"),
            Visit::Node(_) => seen.nodes += 1,
            Visit::Redo(_) => seen.commits += 1,
            Visit::Damage(d) => seen.damages.push(d.clone()),
            Visit::Header(_) => {}
        }
        true
    });
    let report = report.unwrap();
    assert_eq!(report.damages, seen.damages.len() as u64);
    (report, seen)
}

fn inspect(rt: &SimRuntime, disk: &SimDisk) -> logforce_pages::Result<Inspector> {
    Inspector::open(disk.system(rt), PATH)
}

/// Makes random commits.
fn work(file: &PageFile, rng: &mut Rng, count: u64) {
    for _ in 0..count {
        let mut txn = file.begin().unwrap();
        match rng.below(8) {
            0 => {
                let page_count = rng.below(90);
                txn.set_page_count(page_count).unwrap();
            }
            1 if txn.page_count() > 0 => txn.discard(rng.below(txn.page_count())).unwrap(),
            2..=4 if txn.page_count() > 0 => {
                let n = rng.below(txn.page_count());
                txn.page_mut(n).unwrap()[rng.below(PAGE as u64) as usize] = rng.bits() as u8;
            }
            _ => {
                for n in 0..1 + rng.below(6) {
                    let at = (rng.below(70) + n * 97) % 80;
                    let _ = txn.write(at, &page(rng.bits()));
                }
            }
        }
        txn.commit().unwrap();
        if rng.one_in(9) {
            file.checkpoint().unwrap();
        }
    }
}

/// A transaction that drops a page and writes to it logs the whole page. Ranges would be relative to an image
/// that the log does not hold.
#[test]
fn a_page_that_is_dropped_and_changed_by_one_commit_is_whole_in_the_log() {
    let disk = disk(1);
    SimRuntime::run(1, |rt| {
        let file = open(rt, &disk, options(CommitMode::Logged)).unwrap();
        let mut txn = file.begin().unwrap();
        // Writes few enough bytes that the difference would be ranges.
        (0..9).for_each(|n| txn.page_mut(n).unwrap()[3] = 3);
        txn.commit().unwrap();
        let mut txn = file.begin().unwrap();
        txn.set_page_count(5).unwrap();
        txn.page_mut(5).unwrap()[7] = 7;
        txn.commit().unwrap();
        file.close().unwrap();
        let inspector = inspect(rt, &disk).unwrap();
        let (report, seen) = look(&inspector);
        assert_eq!((seen.damages, report.page_count), (vec![], 6));
        let mut expected = vec![0; PAGE];
        expected[7] = 7;
        assert!(inspector.page(5).unwrap().bytes.unwrap() == expected);
        let file = open(rt, &disk, options(CommitMode::Logged)).unwrap();
        assert!(file.snapshot().unwrap().page(5).unwrap()[..] == expected);
        file.close().unwrap();
    });
}

#[test]
fn it_shows_what_an_opening_shows_after_any_crash() {
    let (mut redone, mut in_log, mut closed) = (0, 0, 0);
    for seed in 0..120 {
        let mode = MODES[seed as usize % 2];
        let mut rng = Rng::new(seed);
        let disk = disk(seed);
        let checksums = !rng.one_in(4);
        let options = options(mode).checksums(checksums);
        let is_closed = rng.one_in(4);
        SimRuntime::run(seed, |rt| {
            let file = open(rt, &disk, options.clone()).unwrap();
            let commits = rng.below(40);
            work(&file, &mut rng, commits);
            match is_closed {
                true => file.close().unwrap(),
                false => {
                    disk.cut();
                    drop(file.close());
                }
            }
        });
        closed += u64::from(is_closed);
        let failure = rng.pick(&[Failure::Process, Failure::Os, Failure::Power]);
        disk.crash(failure, None, seed);
        SimRuntime::run(seed + 1, |rt| {
            let before = disk.ops();
            let inspector = inspect(rt, &disk).unwrap();
            let (report, seen) = look(&inspector);
            let summary = inspector.summary().unwrap();
            assert!(!summary.in_use);
            assert_eq!(seen.damages, [], "seed {seed}");
            let shown: Vec<_> = (0..report.page_count)
                .map(|n| inspector.page(n).unwrap())
                .collect();
            assert_eq!(disk.ops(), before, "the walk changed the disk");
            let kind = inspector.page(report.page_count).unwrap_err().kind();
            assert_eq!(kind, ErrorKind::InvalidInput);
            match report.next_opening {
                NextOpening::Ready => assert_eq!(seen.commits, 0),
                NextOpening::Redoes { commits, .. } => {
                    redone += 1;
                    assert_eq!(seen.commits, commits);
                }
                NextOpening::Refused(why) => panic!("seed {seed}: {why}"),
            }
            let file = open(rt, &disk, options.clone()).unwrap();
            let snapshot = file.snapshot().unwrap();
            assert_eq!(
                (report.commit, report.page_count),
                (snapshot.commit(), snapshot.page_count()),
                "seed {seed}"
            );
            let mut present = 0;
            for (n, found) in (0..).zip(&shown) {
                let read = snapshot.page(n).unwrap();
                assert_eq!(found.damage, None);
                let held = seen.pages.get(&n).copied();
                match &found.source {
                    PageSource::Absent => {
                        assert!(found.bytes.is_none() && read.iter().all(|b| *b == 0));
                        assert!(matches!(held, None | Some(Held::Dropped)), "{held:?}");
                        continue;
                    }
                    PageSource::Data(at) => assert_eq!(Some(at.held), held),
                    PageSource::Log(_) => {
                        in_log += 1;
                        assert_eq!(held, Some(Held::InLog));
                    }
                }
                present += 1;
                assert!(
                    found.bytes.as_deref() == Some(&read),
                    "seed {seed}: page {n}"
                );
            }
            assert_eq!(report.present, present, "seed {seed}");
            assert_eq!(report.in_use, 0);
            if let Some(table) = report.table {
                let used = table.nodes + report.present;
                assert_eq!(table.free, Some(table.places - used), "seed {seed}");
            }
            file.close().unwrap();
        });
    }
    assert!(
        redone > 20 && in_log > 300 && closed > 10,
        "{redone} {in_log} {closed}"
    );
}

/// Makes a closed file with ten pages in its data file.
fn written(mode: CommitMode) -> SimDisk {
    let disk = disk(1);
    SimRuntime::run(1, |rt| {
        let file = open(rt, &disk, options(mode)).unwrap();
        let mut txn = file.begin().unwrap();
        (0..10).for_each(|n| txn.write(n, &page(n + 1)).unwrap());
        txn.commit().unwrap();
        file.checkpoint().unwrap();
        file.close().unwrap();
    });
    disk
}

/// Walks this disk. Returns what was visited, and if an opening fails.
fn checked(disk: &SimDisk, mode: CommitMode) -> (VerifyReport, Seen) {
    let (report, seen) = SimRuntime::run(2, |rt| look(&inspect(rt, disk).unwrap()));
    let is_refused = SimRuntime::run(3, |rt| {
        let file = PageFile::open(
            &*disk.system(rt),
            PATH,
            OpenMode::OpenExisting,
            options(mode),
        );
        file.is_err()
    });
    assert_eq!(
        matches!(report.next_opening, NextOpening::Refused(_)),
        is_refused,
        "{report:?}"
    );
    (report, seen)
}

#[track_caller]
fn only(seen: &Seen) -> &Damage {
    assert_eq!(seen.damages.len(), 1, "{:?}", seen.damages);
    &seen.damages[0]
}

/// Returns the offset of each page, and of the nodes.
fn places(disk: &SimDisk) -> (BTreeMap<u64, u64>, Vec<u64>) {
    SimRuntime::run(2, |rt| {
        let (mut pages, mut nodes) = (BTreeMap::new(), Vec::new());
        let inspector = inspect(rt, disk).unwrap();
        let report = inspector.walk(&mut |visit| {
            match visit {
                Visit::Page(p) => drop(pages.insert(p.page, p.offset)),
                Visit::Node(n) => nodes.push(n.offset),
                _ => {}
            }
            true
        });
        assert_eq!(report.unwrap().damages, 0);
        (pages, nodes)
    })
}

#[test]
fn a_damaged_page_is_named_and_the_others_are_whole() {
    for mode in MODES {
        for is_lost in [false, true] {
            let disk = written(mode);
            let offset = places(&disk).0[&4];
            match is_lost {
                true => assert!(disk.make_unreadable(PATH, "pages", offset)),
                false => assert!(disk.flip_bit(PATH, "pages", offset + 100, 3)),
            }
            let (report, seen) = checked(&disk, mode);
            let damage = only(&seen);
            assert_eq!((damage.page, damage.offset), (Some(4), offset));
            assert_eq!((&damage.file[..], damage.refused), ("pages", false));
            assert_eq!((report.present, report.in_use), (10, 0));
            for (n, held) in &seen.pages {
                let expected = if *n == 4 { Held::Damaged } else { Held::Whole };
                assert_eq!(*held, expected, "page {n}");
            }
            SimRuntime::run(4, |rt| {
                let inspector = inspect(rt, &disk).unwrap();
                let found = inspector.page(4).unwrap();
                assert_eq!(found.damage.as_ref(), Some(damage));
                assert_eq!(found.bytes, None);
                assert_eq!(inspector.page(5).unwrap().bytes, Some(page(6)));
            });
        }
    }
}

#[test]
fn damage_of_the_table_is_named_and_a_short_file_stays_closed() {
    let disk = written(CommitMode::CopyOnWrite);
    let root = places(&disk).1[0];
    assert!(disk.flip_bit(PATH, "pages", root + 3, 1));
    let (report, seen) = checked(&disk, CommitMode::CopyOnWrite);
    let damage = only(&seen);
    assert_eq!((damage.page, damage.offset), (None, root));
    assert!(
        !damage.refused && damage.what.contains("page table"),
        "{damage}"
    );
    assert_eq!((report.present, report.table.unwrap().free), (0, None));

    let disk = written(CommitMode::CopyOnWrite);
    let bytes = disk.file_bytes(PATH, "pages").unwrap();
    disk.put_file(PATH, "pages", &bytes[..DATA as usize + 700]);
    let (_, seen) = checked(&disk, CommitMode::CopyOnWrite);
    assert!(seen.damages[0].what == "file" && seen.damages[0].refused);
    assert!(seen.damages.len() > 1);
}

#[test]
fn damage_of_the_map_is_named() {
    let disk = written(CommitMode::Logged);
    assert!(disk.flip_bit(PATH, "map", 12, 3));
    let (_, seen) = checked(&disk, CommitMode::Logged);
    let damage = only(&seen);
    assert_eq!((&damage.file[..], damage.offset), ("map", 0));
    assert!(damage.what.contains("pages from 0"), "{damage}");

    let disk = written(CommitMode::Logged);
    assert!(disk.remove_file(PATH, "map"));
    let (_, seen) = checked(&disk, CommitMode::Logged);
    assert!(only(&seen).refused && only(&seen).found.contains("missing"));
}

#[test]
fn one_slot_of_the_header_is_enough_and_none_is_damage() {
    for mode in MODES {
        for slot in [0, 1] {
            let disk = written(mode);
            assert!(disk.flip_bit(PATH, "pages", slot * (64 << 10) + 200, 0));
            SimRuntime::run(2, |rt| {
                let inspector = inspect(rt, &disk).unwrap();
                let slots = inspector.summary().unwrap().slots;
                assert!(slots[slot as usize].header.is_err());
                assert!(slots[1 - slot as usize].in_force);
                assert_eq!(look(&inspector).1.damages, []);
            });
        }
        let disk = written(mode);
        assert!(disk.flip_bit(PATH, "pages", 200, 0));
        assert!(disk.flip_bit(PATH, "pages", (64 << 10) + 200, 0));
        SimRuntime::run(2, |rt| {
            let error = inspect(rt, &disk).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Damaged);
        });
        disk.put_file(PATH, "pages", &[7; 300_000]);
        SimRuntime::run(2, |rt| {
            assert!(matches!(
                inspect(rt, &disk),
                Err(Error::NotAPageFile { .. })
            ));
        });
        assert!(disk.remove_file(PATH, "pages"));
        SimRuntime::run(2, |rt| {
            assert!(matches!(inspect(rt, &disk), Err(Error::NoPageFile { .. })));
        });
    }
}

#[test]
fn a_log_that_does_not_belong_there_is_reported() {
    const LOG: &str = "/file/log";
    let refusals = |disk: &SimDisk| checked(disk, CommitMode::Logged).1.damages;
    let (disk, other) = (written(CommitMode::Logged), disk(99));
    SimRuntime::run(99, |rt| {
        let file = open(rt, &other, options(CommitMode::Logged)).unwrap();
        file.close().unwrap();
    });
    disk.put_file(PATH, "pages", &other.file_bytes(PATH, "pages").unwrap());
    assert!(refusals(&disk)[0].found.contains("names the log"));

    let disk = written(CommitMode::Logged);
    let old = disk.file_bytes(PATH, "pages").unwrap();
    SimRuntime::run(2, |rt| {
        let file = open(rt, &disk, options(CommitMode::Logged)).unwrap();
        for round in 0..200 {
            let mut txn = file.begin().unwrap();
            (0..10).for_each(|n| txn.write(n, &page(round * 100 + n)).unwrap());
            txn.commit().unwrap();
        }
        file.checkpoint().unwrap();
        file.close().unwrap();
    });
    disk.put_file(PATH, "pages", &old);
    assert!(refusals(&disk)[0].found.contains("older than the log"));

    let disk = written(CommitMode::Logged);
    for name in disk.names(LOG).into_keys() {
        assert!(disk.remove_file(LOG, &name));
    }
    assert!(refusals(&disk)[0].found.contains("missing"));
}

#[test]
fn what_the_log_holds_of_a_damaged_page_counts() {
    let disk = disk(1);
    SimRuntime::run(1, |rt| {
        let file = open(rt, &disk, options(CommitMode::Logged)).unwrap();
        let mut txn = file.begin().unwrap();
        (0..10).for_each(|n| txn.write(n, &page(n + 1)).unwrap());
        txn.commit().unwrap();
        file.checkpoint().unwrap();
        let mut txn = file.begin().unwrap();
        txn.write(4, &page(44)).unwrap();
        txn.commit().unwrap();
        file.close().unwrap();
    });
    assert!(disk.flip_bit(PATH, "pages", DATA + 4 * PAGE as u64 + 9, 1));
    let (report, seen) = SimRuntime::run(2, |rt| {
        let inspector = inspect(rt, &disk).unwrap();
        assert_eq!(inspector.page(4).unwrap().bytes, Some(page(44)));
        look(&inspector)
    });
    assert_eq!((seen.damages, seen.pages[&4]), (vec![], Held::InLog));
    assert_eq!(report.redo.unwrap().pages, 1);
}

/// Number of pages of a file that takes a while to inspect.
const MANY: u64 = 500;

#[test]
fn beside_a_writer_nothing_is_called_damage_but_what_is() {
    let (mut looks, mut in_use) = (0, 0);
    for seed in 0..32 {
        let mode = MODES[seed as usize % 2];
        let disk = disk(seed);
        SimRuntime::run(seed, |rt| {
            let file = open(rt, &disk, options(mode)).unwrap();
            let mut txn = file.begin().unwrap();
            (0..MANY).for_each(|n| txn.write(n, &page(n + 1)).unwrap());
            txn.commit().unwrap();
            file.checkpoint().unwrap();
            let stop = Arc::new(AtomicBool::new(false));
            let (own, ended) = (file.clone(), stop.clone());
            let body = move || {
                let mut rng = Rng::new(seed);
                while !ended.load(Ordering::SeqCst) {
                    let mut txn = own.begin().unwrap();
                    let first = rng.below(MANY);
                    for n in 0..8 {
                        match rng.below(8) {
                            0 => txn.discard((first + n * 71) % MANY).unwrap(),
                            _ => txn
                                .write((first + n * 71) % MANY, &page(rng.bits()))
                                .unwrap(),
                        }
                    }
                    txn.commit().unwrap();
                    if rng.one_in(3) {
                        own.checkpoint().unwrap();
                    }
                }
            };
            let writer = rt.spawn("writer", Box::new(body)).unwrap();
            for _ in 0..3 {
                let inspector = inspect(rt, &disk).unwrap();
                assert!(inspector.summary().unwrap().in_use);
                let (report, seen) = look(&inspector);
                assert_eq!(seen.damages, [], "seed {seed}, {mode:?}");
                assert!(!matches!(report.next_opening, NextOpening::Refused(_)));
                looks += 1;
                in_use += report.in_use;
                if report.page_count > 0 {
                    match inspector.page(report.page_count / 2) {
                        Ok(found) => assert_eq!(found.damage, None, "seed {seed}"),
                        Err(e) => assert_eq!(e.kind(), ErrorKind::InvalidInput, "{e}"),
                    }
                }
            }
            stop.store(true, Ordering::SeqCst);
            writer.join().unwrap();
            // Damage of a page that no thread changes is found while the file is open.
            let mut txn = file.begin().unwrap();
            (0..10).for_each(|n| txn.write(n, &page(n + 1)).unwrap());
            txn.commit().unwrap();
            file.checkpoint().unwrap();
            file.checkpoint().unwrap();
            let mut offset = None;
            let walked = inspect(rt, &disk).unwrap().walk(&mut |visit| {
                if let Visit::Page(p) = visit
                    && p.page == 4
                {
                    offset = Some((p.offset, p.held));
                }
                true
            });
            walked.unwrap();
            let Some((offset, Held::Whole)) = offset else {
                panic!("seed {seed}: {offset:?}");
            };
            assert!(disk.flip_bit(PATH, "pages", offset + 9, 1));
            let (_, seen) = look(&inspect(rt, &disk).unwrap());
            assert_eq!(only(&seen).page, Some(4));
            drop(file.close());
        });
    }
    // Pages in use are possible but rare.
    assert!(in_use < looks * 20, "{looks} looks, {in_use} places in use");
    println!("{looks} looks, {in_use} places in use");
}

/// Records are missing then, and the log holds parts of pages without their images.
#[test]
fn a_log_that_is_truncated_while_it_is_read_is_not_damage() {
    const COMMITS: u64 = 8;
    for is_closed in [false, true] {
        let mut truncated = 0;
        for n in 0.. {
            let disk = disk(n);
            let was_read = SimRuntime::run(n, |rt| {
                let options = options(CommitMode::Logged).checkpoint_distance(1 << 20);
                let file = open(rt, &disk, options).unwrap();
                for round in 0..COMMITS {
                    let mut txn = file.begin().unwrap();
                    // The first round logs the whole page, the others a part of it.
                    txn.page_mut(0).unwrap()[round as usize] = 1;
                    // More than half a segment.
                    (1..90).for_each(|n| txn.write(n, &page(round * 100 + n)).unwrap());
                    txn.commit().unwrap();
                }
                let own = file.clone();
                let act = move || {
                    own.checkpoint().unwrap();
                    if is_closed {
                        own.clone().close().unwrap();
                    }
                };
                let (system, calls) = interrupted(disk.system(rt), act);
                calls.act_after(n);
                let inspector = Inspector::open(system, PATH).unwrap();
                let (report, seen) = look(&inspector);
                assert_eq!(seen.damages, [], "call {n}");
                assert!(!matches!(report.next_opening, NextOpening::Refused(_)));
                assert_eq!((report.commit, report.in_use), (COMMITS, 0), "call {n}");
                let was_read = calls.has_acted();
                if !is_closed {
                    file.close().unwrap();
                }
                was_read
            });
            if !was_read {
                break;
            }
            truncated += 1;
        }
        assert!(truncated > 10, "{truncated}");
    }
}

#[test]
fn what_an_opening_gave_up_is_reported() {
    const LOG: &str = "/file/log";
    let disk = disk(1);
    let truncating = || {
        let log = logforce_core::Options::new()
            .method(Method::DirectDsync)
            .segment_size(64 << 10)
            .max_batch_size(16 << 10)
            .buffer_size(16 << 10)
            .live_stats(false);
        options(CommitMode::Logged).log(log)
    };
    SimRuntime::run(1, |rt| {
        let file = open(rt, &disk, truncating()).unwrap();
        for tag in 1..9 {
            let mut txn = file.begin().unwrap();
            txn.write(tag, &page(tag)).unwrap();
            txn.commit().unwrap();
        }
        // An opening reads the log from where it was closed.
        disk.cut();
        drop(file.close());
    });
    disk.crash(Failure::Process, Some(Survival::Kept), 1);
    let (name, at) = disk
        .names(LOG)
        .into_keys()
        .find_map(|name| {
            let bytes = disk.file_bytes(LOG, &name)?;
            let at = bytes.windows(PAGE).position(|w| w == page(5))?;
            Some((name, at as u64))
        })
        .unwrap();
    assert!(disk.flip_bit(LOG, &name, at + 9, 1));
    SimRuntime::run(2, |rt| {
        let (report, seen) = look(&inspect(rt, &disk).unwrap());
        assert!(
            only(&seen).file.starts_with("log/"),
            "{seen:?}",
            seen = seen.damages
        );
        assert!(matches!(report.next_opening, NextOpening::Refused(_)));
        let system = disk.system(rt);
        let repaired = repair(&*system, Path::new(LOG), &RepairOptions::new()).unwrap();
        assert_eq!(repaired.cut.unwrap().damage.file, Some(name.clone()));
        let file = open(rt, &disk, truncating()).unwrap();
        assert_eq!(file.snapshot().unwrap().commit(), 4);
        file.checkpoint().unwrap();
        file.close().unwrap();
        let (report, seen) = look(&inspect(rt, &disk).unwrap());
        assert_eq!((seen.damages, report.commit), (vec![], 4));
    });
}

/// Any bytes get an answer: neither a panic nor an endless walk.
#[test]
fn no_bytes_make_it_panic() {
    let (mut opened, mut damaged, mut refused) = (0, 0, 0);
    for seed in 0..600 {
        let mode = MODES[seed as usize % 2];
        let mut rng = Rng::new(seed);
        let disk = written(mode);
        let mut bytes = disk.file_bytes(PATH, "pages").unwrap();
        match rng.below(4) {
            // A header with a correct checksum.
            0 | 1 => {
                let mut header = PageFileHeader::decode(&bytes[64 << 10..]).unwrap();
                let mut any = |old: u64| {
                    let one = 1 << rng.below(64);
                    let values = [0, 1, 9, 1 << 48, u64::MAX, u64::MAX - 3, old + 1, old ^ one];
                    rng.pick(&values)
                };
                match any(0) % 3 {
                    0 => header.page_count = any(header.page_count),
                    1 => header.commit = any(header.commit),
                    _ => header.page_size = 512 << (any(0) % 8),
                }
                header.kind = match header.kind {
                    PageFileKind::CopyOnWrite(root) => PageFileKind::CopyOnWrite(CopyOnWriteRoot {
                        place: root.place.map(&mut any),
                        depth: (any(1) % 17) as u32,
                        places_end: any(root.places_end),
                        ..root
                    }),
                    PageFileKind::Logged(state) => PageFileKind::Logged(LoggedState {
                        redo_from: Lsn(any(state.redo_from.0)),
                        ..state
                    }),
                };
                for at in [0, 64 << 10] {
                    bytes[at..at + 4096].copy_from_slice(&header.encode());
                }
            }
            2 => bytes.truncate(rng.below(bytes.len() as u64) as usize),
            _ => {
                for _ in 0..1 + rng.below(200) {
                    let at = DATA + rng.below(bytes.len() as u64 - DATA);
                    bytes[at as usize] = rng.bits() as u8;
                }
            }
        }
        disk.put_file(PATH, "pages", &bytes);
        if mode == CommitMode::Logged && rng.one_in(3) {
            let mut map = disk.file_bytes(PATH, "map").unwrap();
            let sector = MapSector {
                entries: std::array::from_fn(|n| match rng.below(3) {
                    0 => MapEntry::Absent,
                    _ => MapEntry::Present { crc: n as u32 },
                }),
            };
            let number = rng.pick(&[0, 1, 40]);
            map.resize(512 * (number as usize + 1), 0);
            map[512 * number as usize..].copy_from_slice(&sector.encode(number));
            disk.put_file(PATH, "map", &map);
        }
        SimRuntime::run(seed, |rt| {
            let Ok(inspector) = inspect(rt, &disk) else {
                refused += 1;
                return;
            };
            opened += 1;
            inspector.summary().unwrap();
            let (report, seen) = look(&inspector);
            damaged += u64::from(!seen.damages.is_empty());
            for n in [0, 4, report.page_count.saturating_sub(1), u64::MAX] {
                let _ = inspector.page(n);
            }
        });
    }
    assert!(
        opened > 300 && damaged > 200 && refused > 4,
        "{opened} {damaged} {refused}"
    );
}
