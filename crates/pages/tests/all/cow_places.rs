//! Tests of the cost of a commit, and of the reuse of places.

use crate::cow_basics::{contents, create, on_disk, options, reopen};
use logforce_core::{OpenMode, Policy};
use logforce_device::Runtime;
use logforce_pages::{PageFile, WriteThroughAdvisor, WriteThroughLimit, WriteThroughQuestion};
use logforce_testkit::{Rng, SimDisk, SimOptions, SimRuntime};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn write_all(file: &PageFile, pages: impl IntoIterator<Item = u64>, stamp: u64) {
    let mut tx = file.begin().unwrap();
    for page in pages {
        tx.write(page, &contents(page, stamp, file.page_size()))
            .unwrap();
    }
    tx.commit().unwrap();
}

fn file_len(disk: &SimDisk) -> u64 {
    disk.file_bytes("/db", "pages").unwrap().len() as u64
}

/// The number of writes and flushes is exact.
#[test]
fn a_commit_costs_one_write_of_what_is_contiguous_one_barrier_and_the_header() {
    let none = WriteThroughLimit { runs: 0, bytes: 0 };
    let one = WriteThroughLimit {
        runs: 1,
        bytes: 1 << 20,
    };
    // Each entry: pages, write-through limit, then the disk's writes, write-throughs and barriers.
    for (pages, upto, expected) in [
        (1, none, (2, 1, 1)),
        (80, none, (2, 1, 1)),
        (1, one, (2, 2, 0)),
        (80, one, (2, 2, 0)),
        // With its nodes this is more than 1 MiB: two runs.
        (256, one, (3, 1, 1)),
    ] {
        on_disk(|disk, rt| {
            let file = create(disk, rt, options().write_through(upto));
            // The first commit makes the file grow, so that later ones find space.
            (1..5).for_each(|stamp| write_all(&file, 0..pages, stamp));
            let before = disk.counters();
            let stats = file.stats();
            write_all(&file, 0..pages, 5);
            let now = disk.counters();
            let cost = (
                now.writes - before.writes,
                now.through_writes - before.through_writes,
                now.barriers - before.barriers,
            );
            assert_eq!(cost, expected, "{pages} pages, {upto:?}");
            let nodes = pages.div_ceil(256);
            assert_eq!(now.bytes - before.bytes, (pages + nodes + 1) * 4096);
            let did = file.stats();
            assert_eq!(
                did.bytes_written - stats.bytes_written,
                (pages + nodes) * 4096
            );
            assert_eq!(did.writes - stats.writes, expected.0 - 1);
            assert_eq!(did.headers - stats.headers, 1);
            // The header is forced separately.
            assert_eq!(did.barriers - stats.barriers, expected.2 + 1);
            assert_eq!(did.commits - stats.commits, 1);
            assert_eq!(did.pages_committed - stats.pages_committed, pages);
            // The first call writes the other slot, the second writes nothing.
            file.checkpoint().unwrap();
            file.checkpoint().unwrap();
            file.begin().unwrap().commit().unwrap();
            assert_eq!(disk.counters().writes, now.writes + 1);
        });
    }
}

/// Threads that commit at the same time share the force.
#[test]
fn commits_of_many_threads_share_forces() {
    on_disk(|disk, rt| {
        let file = create(disk, rt, options());
        let threads: Vec<_> = (0..16)
            .map(|n| {
                let file = file.clone();
                let body = move || {
                    for stamp in 1..=20 {
                        write_all(&file, [n], stamp);
                    }
                };
                rt.spawn("committer", Box::new(body)).unwrap()
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
        let stats = file.stats();
        assert_eq!((stats.commits, stats.conflicts), (320, 0));
        assert!(stats.headers < 160, "{stats:?}");
    });
}

/// A file that grew with each commit would make the filesystem write metadata for each. So the file grows by
/// steps, which become larger with the file.
#[test]
fn a_file_grows_by_steps() {
    on_disk(|disk, rt| {
        let file = create(disk, rt, options());
        let (mut grown, mut len) = (0, file_len(disk));
        for page in 0..1000 {
            let written = disk.counters().bytes;
            write_all(&file, page..page + 1, 1);
            let now = file_len(disk);
            grown += u32::from(now > len);
            let most = 64 * 4096 + now / 16;
            assert!(disk.counters().bytes - written < most, "page {page}");
            assert!(now >= len && now - len <= most, "page {page}");
            len = now;
        }
        assert!((20..90).contains(&grown), "{grown} steps");
        // The bytes behind the pages exist and mean nothing.
        file.close().unwrap();
        let file = reopen(disk, rt);
        assert_eq!(file_len(disk), len);
        let mut last = vec![0; 4096];
        file.snapshot().unwrap().read(999, &mut last).unwrap();
        assert_eq!(last, contents(999, 1, 4096));
    });
}

/// The file takes the space that is in use, that two headers refer to, and some for writing in one piece.
#[test]
fn rewriting_does_not_grow_the_file() {
    for (page_size, pages, at_once, limit) in [
        // Limits relative to the space in use. A page of 512 bytes has 4 KiB for itself in the worst case.
        (4096, 600, 8, 200),
        (65536, 40, 3, 250),
        (512, 300, 4, 900),
    ] {
        let disk = SimDisk::new(
            SimOptions {
                log_lines: 0,
                ..SimOptions::default()
            },
            1,
        );
        SimRuntime::run(1, |rt| {
            let file = create(&disk, rt, options().page_size(page_size));
            write_all(&file, 0..pages, 1);
            let in_use = file_len(&disk) - (128 << 10);
            let mut rng = Rng::new(9);
            let mut rewrite = |file: &PageFile, count: u64| {
                for n in 0..count {
                    let random = (0..at_once).map(|_| rng.below(pages));
                    let random: std::collections::BTreeSet<u64> = random.collect();
                    write_all(file, random, n + 2);
                }
            };
            rewrite(&file, 1500);
            let then = file_len(&disk);
            assert!(
                then - (128 << 10) < in_use * limit / 100,
                "{page_size}: {in_use} bytes are in use, the file has {then}"
            );
            rewrite(&file, 1500);
            let len = file_len(&disk);
            assert!(len <= then + then / 20, "{page_size}: from {then} to {len}");
            file.close().unwrap();
            // The opening finds as much free space.
            let file = reopen(&disk, rt);
            rewrite(&file, 500);
            let len = file_len(&disk);
            assert!(len <= then + then / 10, "{page_size}: from {then} to {len}");
        });
    }
}

/// All pages are dropped, and all space is reused.
#[test]
fn what_is_dropped_is_free() {
    on_disk(|disk, rt| {
        let file = create(disk, rt, options().page_size(4096));
        let mut longest = 0;
        for round in 0..20u64 {
            write_all(&file, 0..500, round + 1);
            match round % 3 {
                0 => {
                    let mut tx = file.begin().unwrap();
                    tx.set_page_count(0).unwrap();
                    tx.commit().unwrap();
                }
                1 => {
                    let mut tx = file.begin().unwrap();
                    (0..500).for_each(|page| tx.discard(page).unwrap());
                    tx.commit().unwrap();
                }
                _ => {
                    // The table becomes deeper and shallower again.
                    write_all(&file, [1 << 40], 1);
                    let mut tx = file.begin().unwrap();
                    tx.set_page_count(3).unwrap();
                    tx.commit().unwrap();
                }
            }
            // Stores headers until none refers to what was dropped.
            for _ in 0..3 {
                write_all(&file, [0], 1000 + round);
            }
            if round == 5 {
                longest = file_len(disk);
            }
        }
        assert!(file_len(disk) <= longest, "{longest}, {}", file_len(disk));
        assert!(longest < (128 << 10) + 3 * 503 * 4096);
    });
}

/// A view keeps what it shows, and not what was written and freed since.
#[test]
fn a_view_that_is_held_costs_what_it_shows() {
    on_disk(|disk, rt| {
        let file = create(disk, rt, options().page_size(4096));
        write_all(&file, 0..100, 1);
        let view = file.snapshot().unwrap();
        for n in 0..500 {
            write_all(&file, 0..100, n + 2);
        }
        let len = file_len(disk) - (128 << 10);
        assert!(len < 8 * 101 * 4096, "{len} bytes");
        let mut buf = vec![0; 4096];
        for page in 0..100 {
            view.read(page, &mut buf).unwrap();
            assert!(buf == contents(page, 1, 4096));
        }
        drop(view);
        for n in 0..100 {
            write_all(&file, 0..100, n + 2);
        }
        assert!(file_len(disk) - (128 << 10) <= len);
    });
}

/// Advisor that returns a given answer and records the question.
#[derive(Debug)]
struct Knows {
    upto: Option<WriteThroughLimit>,
    asked: Mutex<Vec<bool>>,
}

impl WriteThroughAdvisor for Knows {
    fn write_through(&self, question: &WriteThroughQuestion<'_>) -> Option<WriteThroughLimit> {
        self.asked.lock().unwrap().push(question.is_new);
        self.upto
    }
}

/// A thread that has read leaves a hold in its lane, which ends with the next header.
#[test]
fn a_reader_that_has_ended_keeps_no_places() {
    let rewritten = |reads: bool| {
        let mut len = 0;
        on_disk(|disk, rt| {
            let file = create(disk, rt, options());
            write_all(&file, 0..80, 1);
            if reads {
                let mut page = vec![0; file.page_size() as usize];
                file.snapshot().unwrap().read(7, &mut page).unwrap();
                assert_eq!(page, contents(7, 1, file.page_size()));
            }
            (2..10).for_each(|stamp| write_all(&file, 0..80, stamp));
            len = file_len(disk);
        });
        len
    };
    assert_eq!(rewritten(true), rewritten(false));
}

/// Nor does one that reads between commits that write no header. Each of its reads replaces a hold.
#[test]
fn a_reader_between_commits_keeps_no_places() {
    let rewritten = |commits: u64| {
        let mut pages = 0;
        on_disk(|disk, rt| {
            let file = create(disk, rt, options());
            write_all(&file, 0..80, 1);
            let within = Duration::from_secs(3600);
            for stamp in 2..2 + commits {
                let mut tx = file.begin().unwrap();
                tx.write(0, &contents(0, stamp, file.page_size())).unwrap();
                tx.commit_with(Policy::Interval { within }).unwrap();
                drop(file.latest().unwrap());
            }
            (10..18).for_each(|stamp| write_all(&file, 0..80, stamp));
            pages = file_len(disk) / u64::from(file.page_size());
        });
        pages
    };
    let (with, without) = (rewritten(4), rewritten(0));
    assert!(with <= without + 40, "{with} pages, not {without}");
}

#[test]
fn where_no_option_says_it_the_advisor_is_asked_once_for_each_opening() {
    let never = WriteThroughLimit { runs: 0, bytes: 0 };
    let log = logforce_core::Options::new;
    // Each entry: the advisor's answer, the options, the question, and the barriers of a commit of one run.
    for (upto, named, calibrate, asked, barriers) in [
        (Some(never), None, true, &[true, false][..], 1),
        (None, None, true, &[true, false], 0),
        (
            Some(never),
            Some(WriteThroughLimit {
                runs: 9,
                bytes: 1 << 20,
            }),
            true,
            &[],
            0,
        ),
        (Some(never), None, false, &[], 0),
    ] {
        on_disk(|disk, rt| {
            let asked_of = Mutex::default();
            let knows = Arc::new(Knows {
                upto,
                asked: asked_of,
            });
            let mut with = options()
                .default_write_through_advisor(knows.clone())
                .log(log().calibrate(calibrate));
            if let Some(named) = named {
                with = with.write_through(named);
            }
            let file = create(disk, rt, with.clone());
            // The first commit makes the file grow, so that later ones find space.
            (1..5).for_each(|stamp| write_all(&file, 0..1, stamp));
            file.close().unwrap();
            let path = "/db";
            let file =
                PageFile::open(&*disk.system(rt), path, OpenMode::OpenExisting, with).unwrap();
            let before = disk.counters().barriers;
            write_all(&file, 0..1, 1);
            assert_eq!(disk.counters().barriers - before, barriers);
            assert_eq!(*knows.asked.lock().unwrap(), asked);
        });
    }
}
