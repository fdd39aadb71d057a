//! Tests of full disks and sparse files. What could not be written is written later, what does not fit is
//! refused, and holes cost nothing.

use crate::common::{PAGE, PATH, disk, open, options, page};
use logforce_device::Runtime as _;
use logforce_pages::{CommitMode, Error, ErrorKind, Inspector, PageFile};
use logforce_testkit::{Fault, SimDisk, SimOptions, SimRuntime};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

/// The log has space for a commit and the data file has none. The commit could never be applied, and the log
/// never be truncated.
#[test]
fn a_commit_without_room_in_the_data_file_is_refused() {
    let disk = disk(1);
    SimRuntime::run(1, |rt| {
        let file = open(rt, &disk, options(CommitMode::Logged)).unwrap();
        let commit = |number: u64| {
            let mut txn = file.begin()?;
            txn.write(number, &page(number))?;
            txn.commit()
        };
        commit(1).unwrap();
        file.checkpoint().unwrap();
        disk.fill();
        let error = commit(5000).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
        assert_eq!(file.latest().unwrap().page_count(), 2);
        commit(0).expect("there is space for this page");
        disk.change(|o| o.capacity = None);
        commit(5000).unwrap();
        file.close().unwrap();
    });
}

/// A commit that makes the file grow takes blocks around pages that the checkpointer is writing, and the filesystem
/// says that those have none yet.
#[test]
fn growth_leaves_pages_alone_that_are_being_written() {
    const APART: u64 = 40;
    for seed in 0..40 {
        let disk = SimDisk::new(
            SimOptions {
                allocates_late: true,
                ..SimOptions::default()
            },
            seed,
        );
        SimRuntime::run(seed, |rt| {
            let file = open(rt, &disk, options(CommitMode::Logged)).unwrap();
            let commit = |pages: &mut dyn Iterator<Item = u64>| {
                let mut txn = file.begin().unwrap();
                pages.for_each(|n| txn.write(n, &page(n + 1)).unwrap());
                txn.commit().unwrap();
            };
            // The first step ends before them, and the second one behind.
            commit(&mut (0..APART).map(|n| 150 + 2 * n));
            let own = file.clone();
            let body = move || own.checkpoint().unwrap();
            let checkpointer = rt.spawn("checkpointer", Box::new(body)).unwrap();
            commit(&mut [1].into_iter());
            commit(&mut [140].into_iter());
            checkpointer.join().unwrap();
            file.checkpoint().unwrap();
            file.close().unwrap();
            let file = open(rt, &disk, options(CommitMode::Logged)).unwrap();
            let snapshot = file.snapshot().unwrap();
            for n in (0..APART).map(|n| 150 + 2 * n).chain([1, 140]) {
                let read = snapshot
                    .page(n)
                    .unwrap_or_else(|e| panic!("seed {seed}: {e}"));
                assert!(read[..] == page(n + 1)[..], "seed {seed}: page {n}");
            }
            drop(snapshot);
            file.close().unwrap();
        });
    }
}

/// No file can be created on a full disk.
#[test]
fn opening_makes_no_file() {
    let disk = disk(1);
    let names = |disk: &SimDisk| disk.names(PATH).into_keys().collect::<Vec<_>>();
    SimRuntime::run(1, |rt| {
        let file = open(rt, &disk, options(CommitMode::Logged)).unwrap();
        let mut txn = file.begin().unwrap();
        txn.write(0, &page(1)).unwrap();
        txn.commit().unwrap();
        file.checkpoint().unwrap();
        file.close().unwrap();
        let before = names(&disk);
        assert!(!before.contains(&"versions".to_owned()), "{before:?}");
        let file = open(rt, &disk, options(CommitMode::Logged)).unwrap();
        assert_eq!(names(&disk), before);
        // A reader of an overwritten version needs the file.
        let held = file.snapshot().unwrap();
        let mut txn = file.begin().unwrap();
        txn.write(0, &page(2)).unwrap();
        txn.commit().unwrap();
        file.checkpoint().unwrap();
        assert!(names(&disk).contains(&"versions".to_owned()));
        assert!(held.page(0).unwrap()[..] == page(1)[..]);
        drop(held);
        file.close().unwrap();
    });
}

#[test]
fn older_versions_give_their_space_back_when_nobody_reads_them() {
    let disk = disk(1);
    SimRuntime::run(1, |rt| {
        let file = open(rt, &disk, options(CommitMode::Logged)).unwrap();
        let write_all = |tag: u64| {
            let mut txn = file.begin().unwrap();
            (0..10).for_each(|n| txn.write(n, &page(tag + n)).unwrap());
            txn.commit().unwrap();
            file.checkpoint().unwrap();
        };
        let has_versions = || {
            rt.sleep(Duration::from_millis(1));
            disk.names(PATH).contains_key("versions")
        };
        for round in 0..3 {
            let tag = round * 100;
            write_all(tag + 10);
            let older = file.snapshot().unwrap();
            write_all(tag + 20);
            let newer = file.snapshot().unwrap();
            write_all(tag + 30);
            assert!(has_versions());
            drop(older);
            assert!(has_versions(), "a reader needs them");
            assert!(newer.page(3).unwrap()[..] == page(tag + 23)[..]);
            // Views of the newest state need no older versions, and may stay.
            let newest = file.snapshot().unwrap();
            drop(newer);
            assert!(!has_versions(), "without another commit");
            assert!(newest.page(3).unwrap()[..] == page(tag + 33)[..]);
        }
        file.close().unwrap();
    });
}

#[test]
fn what_a_sparse_file_leaves_out_is_not_read() {
    const FAR: u64 = 1 << 31;
    let disk = disk(1);
    SimRuntime::run(1, |rt| {
        let file = open(rt, &disk, options(CommitMode::Logged)).unwrap();
        let mut txn = file.begin().unwrap();
        txn.write(FAR, &page(9)).unwrap();
        txn.commit().unwrap();
        file.checkpoint().unwrap();
        let before = disk.counters();
        for count in [2000, 1000] {
            let mut txn = file.begin().unwrap();
            txn.set_page_count(count).unwrap();
            txn.commit().unwrap();
            file.checkpoint().unwrap();
        }
        file.close().unwrap();
        let inspector = Inspector::open(disk.system(rt), PATH).unwrap();
        assert_eq!(inspector.walk(&mut |_| true).unwrap().damages, 0);
        let now = disk.counters();
        let read = now.bytes_read - before.bytes_read;
        // The map alone has 17 GB.
        assert!(read < 8 << 20, "{read} bytes");
        assert!(now.reads - before.reads < 1000, "{now:?}");
    });
}

#[test]
fn dropped_pages_stay_dropped_where_a_write_met_a_full_disk() {
    let mut refused = 0;
    // Runs with several orders of the threads, which leave different parts unwritten.
    for (seed, op) in (0..8).flat_map(|seed| (0..16).map(move |op| (seed, op))) {
        let disk = disk(seed);
        SimRuntime::run(seed, |rt| {
            let file = open(rt, &disk, options(CommitMode::Logged)).unwrap();
            let mut txn = file.begin().unwrap();
            (0..10).for_each(|n| txn.write(n, &page(n + 1)).unwrap());
            txn.commit().unwrap();
            file.checkpoint().unwrap();
            let dropped = file.transact(|txn| match seed % 3 {
                0 => txn.set_page_count(2),
                1 => (2..10).try_for_each(|n| txn.discard(n)),
                _ => {
                    txn.set_page_count(2)?;
                    txn.set_page_count(10)
                }
            });
            dropped.unwrap();
            disk.fail_at(disk.ops() + op, Fault::NoSpace);
            match file.checkpoint() {
                Err(e) if e.kind() == ErrorKind::NoSpace => refused += 1,
                // A header that could not be written fails the file. Everything committed is in the log.
                Err(e) => assert_eq!(e.kind(), ErrorKind::Poisoned, "{op}: {e}"),
                Ok(()) => {}
            }
            let grow = || {
                let mut txn = file.begin()?;
                txn.set_page_count(10)?;
                txn.commit()?;
                file.checkpoint()
            };
            if let Err(e) = grow() {
                let kind = e.kind();
                let fits = matches!(kind, ErrorKind::Poisoned | ErrorKind::NoSpace);
                assert!(fits, "{op}, {kind:?}: {e}");
            }
        });
        SimRuntime::run(2, |rt| {
            let file = open(rt, &disk, options(CommitMode::Logged)).unwrap();
            let snapshot = file.snapshot().unwrap();
            let mut bytes = vec![0; PAGE];
            for n in 0..snapshot.page_count() {
                snapshot.read(n, &mut bytes).unwrap();
                let expected = if n < 2 { page(n + 1) } else { page(0) };
                assert!(bytes == expected, "operation {op}: page {n}");
            }
        });
    }
    assert!(refused > 0);
}

/// Freeing the space that the error names is enough.
#[test]
fn a_full_disk_says_how_much_is_needed() {
    let mut needs = BTreeSet::new();
    for op in 0..32 {
        let disk = disk(1);
        SimRuntime::run(1, |rt| {
            let file = open(rt, &disk, options(CommitMode::Logged)).unwrap();
            let write_all = |tag: u64| {
                let mut txn = file.begin().unwrap();
                (0..10).for_each(|n| txn.write(n, &page(tag + n)).unwrap());
                txn.commit().unwrap();
            };
            write_all(10);
            file.checkpoint().unwrap();
            // The snapshot's versions are kept in a separate file.
            let held = file.snapshot().unwrap();
            write_all(20);
            disk.fail_at(disk.ops() + op, Fault::NoSpace);
            match file.checkpoint() {
                Err(e @ Error::NoSpace { .. }) => {
                    let text = e.to_string();
                    assert_eq!(text.matches("/file").count(), 1, "{text}");
                    let Error::NoSpace { path, need, .. } = e else {
                        unreachable!()
                    };
                    needs.insert((path, need));
                    file.checkpoint().expect("there is space again");
                }
                Err(e) => assert_eq!(e.kind(), ErrorKind::Poisoned, "{e}"),
                Ok(()) => {}
            }
            drop(held);
        });
    }
    let pages = |name: &str, count: u64| (Path::new(PATH).join(name), count * PAGE as u64);
    for need in [
        pages("pages", 10),
        pages("versions", 10),
        pages("versions", 9),
        pages("map", 1),
    ] {
        assert!(needs.contains(&need), "{need:?} in {needs:?}");
    }
}

/// Acknowledged pages, and pages that exist, cost no further space: far behind the end, in holes of a sparse
/// file, and after reopening.
#[test]
fn what_is_acknowledged_needs_no_more_space() {
    const FAR: u64 = 5000;
    let disk = disk(1);
    let commit = |file: &PageFile, pages: &[u64], tag: u64| {
        let mut txn = file.begin()?;
        pages.iter().try_for_each(|n| txn.write(*n, &page(tag)))?;
        txn.commit()
    };
    let refused = |file: &PageFile, pages: &[u64]| {
        let error = commit(file, pages, 9).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
    };
    SimRuntime::run(1, |rt| {
        let file = open(rt, &disk, options(CommitMode::Logged)).unwrap();
        commit(&file, &[0, 1, 2], 1).unwrap();
        let mut txn = file.begin().unwrap();
        [FAR, FAR + 200, FAR + 400]
            .iter()
            .for_each(|n| txn.write(*n, &page(1)).unwrap());
        txn.set_page_count(2 * FAR).unwrap();
        txn.commit().unwrap();
        let everything = |file: &PageFile, tag: u64| {
            disk.fill();
            // Nothing was ever written there.
            refused(file, &[FAR - 1000]);
            refused(file, &[0, 2000, 1]);
            refused(file, &[2 * FAR]);
            commit(file, &[0, 1, 2, FAR], tag).unwrap();
            file.checkpoint().unwrap();
            let mut txn = file.begin().unwrap();
            [1, FAR].iter().for_each(|n| txn.discard(*n).unwrap());
            txn.commit().unwrap();
            file.checkpoint().unwrap();
            commit(file, &[1, FAR], tag + 1).unwrap();
            file.checkpoint().unwrap();
            let snapshot = file.snapshot().unwrap();
            assert!(snapshot.page(FAR).unwrap()[..] == page(tag + 1)[..]);
            assert!(snapshot.page(FAR - 1000).unwrap().iter().all(|b| *b == 0));
            disk.change(|o| o.capacity = None);
        };
        everything(&file, 10);
        file.close().unwrap();
        let file = open(rt, &disk, options(CommitMode::Logged)).unwrap();
        everything(&file, 20);
        commit(&file, &[FAR - 1000], 30).unwrap();
        file.close().unwrap();
    });
}

/// A copy that leaves zeroes out has no blocks for pages of zeroes.
#[test]
fn holes_of_a_sparse_copy_are_no_space() {
    let disk = disk(1);
    SimRuntime::run(1, |rt| {
        let file = open(rt, &disk, options(CommitMode::Logged)).unwrap();
        let mut txn = file.begin().unwrap();
        for n in 0..40 {
            txn.write(n, &page(n % 2)).unwrap();
        }
        txn.commit().unwrap();
        file.checkpoint().unwrap();
        file.close().unwrap();
        disk.copy_sparsely(PATH);
        let file = open(rt, &disk, options(CommitMode::Logged)).unwrap();
        let write = |number: u64, tag: u64| {
            let mut txn = file.begin()?;
            txn.write(number, &page(tag))?;
            txn.commit()
        };
        // The log has the segments that it uses alternately.
        for tag in 0..400 {
            write(5000, tag).unwrap();
        }
        file.checkpoint().unwrap();
        disk.fill();
        for number in 0..40 {
            match write(number, 7) {
                Ok(_) => assert_eq!(number % 2, 1, "{number}"),
                Err(e) => assert_eq!((e.kind(), number % 2), (ErrorKind::NoSpace, 0), "{e}"),
            }
            file.checkpoint().unwrap();
        }
        disk.change(|o| o.capacity = None);
        (0..40).for_each(|number| assert!(write(number, 8).is_ok()));
        file.close().unwrap();
    });
}

/// A checkpoint clears the places of dropped pages that are added again. This takes space if a copy left out
/// part of such a place.
#[test]
fn dropped_pages_that_are_added_again_take_their_space() {
    const LARGE: usize = 2 * PAGE;
    let disk = disk(1);
    let options = || options(CommitMode::Logged).page_size(LARGE as u32);
    SimRuntime::run(1, |rt| {
        let file = open(rt, &disk, options()).unwrap();
        let mut begins_only = vec![0; LARGE];
        begins_only[..PAGE].fill(1);
        let written = file.transact(|txn| (0..20).try_for_each(|n| txn.write(n, &begins_only)));
        written.unwrap();
        file.checkpoint().unwrap();
        file.close().unwrap();
        disk.copy_sparsely(PATH);
        let file = open(rt, &disk, options()).unwrap();
        let resize = |counts: &[u64]| {
            let mut txn = file.begin()?;
            counts.iter().try_for_each(|n| txn.set_page_count(*n))?;
            txn.commit()
        };
        let refused = |counts: &[u64], places: u64| {
            let Err(Error::NoSpace { path, need, .. }) = resize(counts) else {
                panic!("{counts:?} was accepted");
            };
            assert!(path.ends_with("pages"));
            assert_eq!(need, places * LARGE as u64);
            file.checkpoint().unwrap();
        };
        disk.fill();
        refused(&[5, 20], 15);
        resize(&[5]).expect("dropping takes no space");
        refused(&[8], 3);
        file.checkpoint().unwrap();
        refused(&[8], 3);
        disk.change(|o| o.capacity = None);
        resize(&[8]).unwrap();
        disk.fill();
        file.checkpoint().expect("it was taken before");
        let snapshot = file.snapshot().unwrap();
        assert!(snapshot.page(4).unwrap()[..] == begins_only[..]);
        assert!(snapshot.page(7).unwrap().iter().all(|b| *b == 0));
        drop(snapshot);
        disk.change(|o| o.capacity = None);
        file.close().unwrap();
    });
}

/// Dropping pages changes the map. This takes space in a copy that shares its blocks with the original.
#[test]
fn pages_of_a_shared_copy_are_dropped_with_space_for_the_map() {
    let disk = disk(1);
    SimRuntime::run(1, |rt| {
        let file = open(rt, &disk, options(CommitMode::Logged)).unwrap();
        let written = file.transact(|txn| (0..20).try_for_each(|n| txn.write(n, &page(n + 1))));
        written.unwrap();
        file.checkpoint().unwrap();
        file.close().unwrap();
        disk.copy_by_reference(PATH);
        let file = open(rt, &disk, options(CommitMode::Logged)).unwrap();
        let resize = |count: u64| file.transact(|txn| txn.set_page_count(count));
        disk.fill();
        let error = resize(5).unwrap_err();
        let map = Path::new(PATH).join("map").display().to_string();
        assert!(error.to_string().contains(&map), "{error}");
        assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
        file.checkpoint().unwrap();
        disk.change(|o| o.capacity = None);
        resize(5).unwrap();
        disk.fill();
        file.checkpoint().expect("it was taken before");
        let error = resize(20).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
        disk.change(|o| o.capacity = None);
        resize(20).unwrap();
        disk.fill();
        file.checkpoint().expect("it was taken before");
        disk.change(|o| o.capacity = None);
        file.close().unwrap();
    });
}

/// Adding dropped pages changes the map, even if their places are holes.
#[test]
fn pages_of_a_shared_copy_are_added_with_space_for_the_map() {
    let disk = disk(1);
    SimRuntime::run(1, |rt| {
        let file = open(rt, &disk, options(CommitMode::Logged)).unwrap();
        let written = file.transact(|txn| (0..20).try_for_each(|n| txn.write(n, &page(0))));
        written.unwrap();
        let resize = |file: &PageFile, count| file.transact(|txn| txn.set_page_count(count));
        resize(&file, 5).unwrap();
        file.checkpoint().unwrap();
        file.transact(|txn| txn.write(0, &page(1))).unwrap();
        file.checkpoint().unwrap();
        file.close().unwrap();
        disk.copy_by_reference(PATH);
        let file = open(rt, &disk, options(CommitMode::Logged)).unwrap();
        disk.fill();
        let error = resize(&file, 20).unwrap_err();
        let map = Path::new(PATH).join("map").display().to_string();
        assert!(error.to_string().contains(&map), "{error}");
        assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
        disk.change(|o| o.capacity = None);
        resize(&file, 20).unwrap();
        disk.fill();
        file.checkpoint().expect("it was taken before");
        disk.change(|o| o.capacity = None);
        file.close().unwrap();
    });
}
