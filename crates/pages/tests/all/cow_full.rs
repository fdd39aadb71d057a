//! Tests of a copy-on-write file on a full disk. Any change that fits is committed, and pages can always be
//! overwritten and dropped.

use crate::cow_basics::{contents, create, options, reopen};
use logforce_core::Policy;
use logforce_device::Runtime;
use logforce_pages::{Error, ErrorKind, PageFile};
use logforce_testkit::{Rng, SimDisk, SimOptions, SimRuntime};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

fn full_disk(capacity: u64, seed: u64) -> SimDisk {
    let options = SimOptions {
        capacity: Some(capacity),
        log_lines: 0,
        ..SimOptions::default()
    };
    SimDisk::new(options, seed)
}

fn write(file: &PageFile, pages: impl IntoIterator<Item = u64>, stamp: u64) -> Result<u64, Error> {
    let mut tx = file.begin()?;
    for page in pages {
        tx.write(page, &contents(page, stamp, file.page_size()))?;
    }
    Ok(tx.commit()?.commit)
}

fn discard(file: &PageFile, pages: impl IntoIterator<Item = u64>) -> Result<u64, Error> {
    let mut tx = file.begin()?;
    pages.into_iter().try_for_each(|page| tx.discard(page))?;
    Ok(tx.commit()?.commit)
}

fn drop_from(file: &PageFile, page_count: u64) -> Result<u64, Error> {
    let mut tx = file.begin()?;
    tx.set_page_count(page_count)?;
    Ok(tx.commit()?.commit)
}

/// Adds pages, each with a commit, until there is no space. Returns the number of pages.
fn fill(file: &PageFile) -> u64 {
    let begin = file.latest().unwrap().page_count();
    for page in begin.. {
        match write(file, [page], 1) {
            Ok(_) => {}
            Err(e) => {
                assert_eq!(e.kind(), ErrorKind::NoSpace, "{e}");
                return page;
            }
        }
    }
    unreachable!()
}

fn shuffled(pages: u64, rng: &mut Rng) -> Vec<u64> {
    let mut order: Vec<u64> = (0..pages).collect();
    for n in (1..order.len()).rev() {
        order.swap(n, rng.below(n as u64 + 1) as usize);
    }
    order
}

#[track_caller]
fn assert_pages(file: &PageFile, pages: impl IntoIterator<Item = u64>, stamp: u64) {
    let view = file.snapshot().unwrap();
    for page in pages {
        let expected = contents(page, stamp, file.page_size());
        assert!(view.page(page).unwrap()[..] == expected[..], "page {page}");
    }
}

/// Fills the file to the last block, also after a new opening. Then each page can be overwritten and
/// discarded, in any order.
#[test]
fn a_full_file_is_overwritten_and_emptied() {
    for (page_size, capacity) in [(4096, 1 << 20), (65536, 4 << 20), (4096, 300 << 10)] {
        for seed in 0..4 {
            let disk = full_disk(capacity + seed * 1024, seed);
            SimRuntime::run(seed, |rt| {
                let mut rng = Rng::new(seed);
                let mut file = create(&disk, rt, options().page_size(page_size));
                let pages = fill(&file);
                assert!(pages > 15, "{pages}");
                for stamp in 2..4 {
                    if stamp == 3 {
                        file.close().unwrap();
                        file = reopen(&disk, rt);
                    }
                    for page in shuffled(pages, &mut rng) {
                        write(&file, [page], stamp).unwrap();
                    }
                    assert_pages(&file, 0..pages, stamp);
                }
                for page in shuffled(pages, &mut rng) {
                    discard(&file, [page]).unwrap();
                }
                // The refused commits used no space.
                write(&file, 0..pages - 8, 4).unwrap();
                assert_pages(&file, 0..pages - 8, 4);
                file.close().unwrap();
                assert_pages(&reopen(&disk, rt), 0..pages - 8, 4);
            });
        }
    }
}

/// If pages share a granule that a power cut during a later write may tear, only dropping pages from the end
/// is sure to give space back.
#[test]
fn a_full_file_of_small_pages_is_shortened() {
    let disk = full_disk(400 << 10, 1);
    SimRuntime::run(1, |rt| {
        let file = create(&disk, rt, options().page_size(512));
        // Many pages of a commit share granules, so writing them one by one frees few granules.
        let mut begin = 0;
        while write(&file, begin..begin + 40, 1).is_ok() {
            begin += 40;
        }
        let pages = fill(&file);
        // Scattered writes may use up blocks. That does not prevent dropping.
        let mut rng = Rng::new(1);
        let at_random = |file: &PageFile, rng: &mut Rng| {
            let order = shuffled(pages, rng);
            let done = order.iter().map(|page| match page % 2 {
                0 => write(file, [*page], 2),
                _ => discard(file, [*page]),
            });
            done.filter(Result::is_err).count()
        };
        let refused: usize = (0..8).map(|_| at_random(&file, &mut rng)).sum();
        assert!(refused > 0, "there was space for all of it");
        file.close().unwrap();
        let file = reopen(&disk, rt);
        at_random(&file, &mut rng);
        drop_from(&file, pages / 2).unwrap();
        for page_count in (0..pages / 2).rev() {
            drop_from(&file, page_count).unwrap();
        }
        assert!(fill(&file) > 0);
    });
}

/// The free space lies in single places across the file.
#[test]
fn a_commit_fits_in_any_number_of_runs() {
    for seed in 0..4 {
        let disk = full_disk(1 << 20, seed);
        SimRuntime::run(seed, |rt| {
            let file = create(&disk, rt, options());
            let pages = fill(&file);
            let every_third = (0..pages).step_by(3);
            for page in every_third.clone() {
                discard(&file, [page]).unwrap();
            }
            let before = file.stats().headers;
            write(&file, every_third.clone(), 2).unwrap();
            assert!(file.stats().headers - before <= 2);
            assert_pages(&file, every_third.clone(), 2);
            // Discards and overwrites these pages, each in one commit.
            discard(&file, every_third.clone()).unwrap();
            write(&file, every_third, 3).unwrap();
            assert_eq!(
                write(&file, [pages], 1).unwrap_err().kind(),
                ErrorKind::NoSpace
            );
        });
    }
}

/// Half of the pages were dropped, but the previous header still refers to them.
#[test]
fn what_the_older_header_reaches_is_free_when_it_is_needed() {
    let disk = full_disk(1 << 20, 1);
    SimRuntime::run(1, |rt| {
        let file = create(&disk, rt, options());
        let pages = fill(&file);
        drop_from(&file, pages / 2).unwrap();
        let headers = file.stats().headers;
        write(&file, pages / 2..pages / 2 + 60, 2).unwrap();
        assert_eq!(file.stats().headers - headers, 2);
        // A reader holds the state, so replacing the older slot's header does not free the pages.
        let held = file.snapshot().unwrap();
        let rest = pages / 2 + 60;
        drop_from(&file, 4).unwrap();
        let full = write(&file, 4..rest, 3).unwrap_err();
        assert_eq!(full.kind(), ErrorKind::NoSpace);
        assert!(held.page(rest - 1).unwrap()[..] == contents(rest - 1, 2, 4096)[..]);
        drop(held);
        write(&file, 4..rest, 3).unwrap();
    });
}

/// Growing commits are refused. Shrinking commits in the same group are not.
#[test]
fn a_commit_that_fits_is_not_refused_because_of_another() {
    for seed in 0..12 {
        let disk = full_disk(1 << 20, seed);
        SimRuntime::run(seed, |rt| {
            let file = create(&disk, rt, options());
            let pages = fill(&file);
            let ended = Arc::new(AtomicBool::new(false));
            let growing: Vec<_> = (0..2)
                .map(|n| {
                    let (file, ended) = (file.clone(), ended.clone());
                    let body = move || {
                        while !ended.load(SeqCst) {
                            // Needs too much space, whatever is dropped.
                            let far = 1000 * (n + 1);
                            let told = write(&file, far..far + 250, 1).unwrap_err();
                            assert_eq!(told.kind(), ErrorKind::NoSpace, "{told}");
                        }
                    };
                    rt.spawn("growing", Box::new(body)).unwrap()
                })
                .collect();
            // Commits share a force again after many forces in a row that had space. Commits on top of a
            // refused one are then refused as well, once.
            let mut refused = 0;
            for page in 0..pages {
                while discard(&file, [page]).is_err() {
                    refused += 1;
                }
            }
            assert!(refused <= 1 + pages / 64, "{refused}");
            ended.store(true, SeqCst);
            growing.into_iter().for_each(|t| t.join().unwrap());
            write(&file, 0..pages - 8, 2).unwrap();
        });
    }
}

/// An attempt to grow has failed halfway: the file is longer than its blocks.
#[test]
fn holes_are_not_taken_for_free_space() {
    for seed in 0..8 {
        let disk = full_disk(1 << 20, seed);
        SimRuntime::run(seed, |rt| {
            let file = create(&disk, rt, options());
            let pages = fill(&file);
            // Writes much more than fits, so that several writes are in flight, and any of them may succeed.
            for _ in 0..4 {
                write(&file, 2000..4000, 1).unwrap_err();
            }
            file.close().unwrap();
            let file = reopen(&disk, rt);
            for page in 0..pages {
                write(&file, [page], 2).unwrap();
            }
            for page in 0..pages {
                discard(&file, [page]).unwrap();
            }
        });
    }
}

/// A commit that returned without waiting is not rolled back together with one that does not fit.
#[test]
fn what_was_accepted_is_forced_by_itself_once_the_disk_is_full() {
    let disk = full_disk(1 << 20, 1);
    SimRuntime::run(1, |rt| {
        let file = create(&disk, rt, options());
        let pages = fill(&file);
        let within = Duration::from_secs(3600);
        for page in 0..20 {
            let mut tx = file.begin().unwrap();
            tx.discard(page).unwrap();
            tx.commit_with(Policy::Interval { within }).unwrap();
        }
        let grown = write(&file, 1000..1250, 1).unwrap_err();
        assert_eq!(grown.kind(), ErrorKind::NoSpace);
        file.checkpoint().unwrap();
        assert!(pages > 20);
        write(&file, 0..20, 2).unwrap();
    });
}

/// A checkpoint leaves the same state in both slots, and writes nothing if they have it already.
#[test]
fn a_checkpoint_fills_both_slots() {
    let disk = full_disk(1 << 20, 1);
    SimRuntime::run(1, |rt| {
        let file = create(&disk, rt, options());
        write(&file, [0], 1).unwrap();
        let headers = |file: &PageFile| file.stats().headers;
        let before = headers(&file);
        file.checkpoint().unwrap();
        assert_eq!(headers(&file) - before, 1);
        file.checkpoint().unwrap();
        assert_eq!(headers(&file) - before, 1);
    });
}
