//! Tests of copy-on-write files without failures.

use logforce_core::{Guarantee, OpenMode, Policy};
use logforce_device::Runtime;
use logforce_pages::{CommitMode, Error, Options, PageFile};
use logforce_testkit::{SimDisk, SimOptions, SimRuntime};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::task::{Context, Poll, Wake};
use std::time::Duration;

pub fn options() -> Options {
    Options::new().mode(CommitMode::CopyOnWrite).writers(2)
}

pub fn create(disk: &SimDisk, rt: &SimRuntime, options: Options) -> PageFile {
    PageFile::open(&*disk.system(rt), "/db", OpenMode::CreateNew, options).unwrap()
}

pub fn reopen(disk: &SimDisk, rt: &SimRuntime) -> PageFile {
    let options = Options::new().writers(2);
    PageFile::open(&*disk.system(rt), "/db", OpenMode::OpenExisting, options).unwrap()
}

/// Runs `body` on a new disk.
pub fn on_disk(body: impl FnOnce(&SimDisk, &SimRuntime)) {
    let disk = SimDisk::new(SimOptions::default(), 1);
    SimRuntime::run(1, |rt| body(&disk, rt));
}

/// Returns a page's contents: its number and a stamp, in every 16 bytes.
pub fn contents(page: u64, stamp: u64, size: u32) -> Vec<u8> {
    let mut unit = page.to_le_bytes().to_vec();
    unit.extend(stamp.to_le_bytes());
    unit.repeat(size as usize / 16)
}

fn write(file: &PageFile, page: u64, stamp: u64) -> u64 {
    let mut tx = file.begin().unwrap();
    tx.write(page, &contents(page, stamp, file.page_size()))
        .unwrap();
    tx.commit().unwrap().commit
}

#[track_caller]
fn assert_page(file: &PageFile, page: u64, stamp: u64) {
    let size = file.page_size();
    let mut buf = vec![0; size as usize];
    file.snapshot().unwrap().read(page, &mut buf).unwrap();
    let expected = match stamp {
        0 => vec![0; size as usize],
        _ => contents(page, stamp, size),
    };
    assert!(buf == expected, "page {page}");
}

/// Also if the commit is not durable, and no header was written since the last view.
#[test]
fn a_new_view_shows_every_commit_before_it() {
    on_disk(|disk, rt| {
        let file = create(disk, rt, options());
        let within = Duration::from_secs(3600);
        for stamp in 1..4 {
            let mut tx = file.begin().unwrap();
            tx.write(0, &contents(0, stamp, file.page_size())).unwrap();
            let committed = tx.commit_with(Policy::Interval { within }).unwrap();
            assert_eq!(file.latest().unwrap().commit(), committed.commit);
        }
        assert_eq!(file.stats().headers, 0);
    });
}

#[test]
fn every_page_size_and_far_numbers() {
    for page_size in [512, 1024, 2048, 4096, 8192, 16384, 32768, 65536] {
        on_disk(|disk, rt| {
            let file = create(disk, rt, options().page_size(page_size));
            let far = [0, 1, 31, 32, 4095, 4096, 1 << 33, 1 << 40, (1 << 48) - 1];
            for (n, page) in far.into_iter().enumerate() {
                assert_eq!(write(&file, page, 100 + page), n as u64 + 1);
                assert_eq!(file.snapshot().unwrap().page_count(), page + 1);
            }
            let check = |file: &PageFile| {
                for page in far {
                    assert_page(file, page, 100 + page);
                }
                for hole in [2, 30, 33, 1 << 20, (1 << 40) - 1, (1 << 40) + 1] {
                    assert_page(file, hole, 0);
                }
            };
            check(&file);
            file.close().unwrap();
            let file = reopen(disk, rt);
            assert_eq!(
                (file.page_size(), file.mode()),
                (page_size, CommitMode::CopyOnWrite)
            );
            check(&file);
            // The file is sparse: it holds what was written, not the pages in between.
            let len = disk.file_bytes("/db", "pages").unwrap().len() as u64;
            assert!(len < (128 << 10) + 300 * u64::from(page_size), "{len}");
            let mut tx = file.begin().unwrap();
            tx.set_page_count(33).unwrap();
            tx.commit().unwrap();
            let mut tx = file.begin().unwrap();
            tx.set_page_count(1 << 41).unwrap();
            tx.commit().unwrap();
            for page in [0, 1, 31, 32] {
                assert_page(&file, page, 100 + page);
            }
            for hole in [33, 4095, 4096, 1 << 33, 1 << 40] {
                assert_page(&file, hole, 0);
            }
        });
    }
}

#[test]
fn a_transaction_sees_itself_and_its_beginning() {
    on_disk(|disk, rt| {
        let file = create(disk, rt, options().page_size(512));
        let size = file.page_size();
        for page in 0..30 {
            write(&file, page, 7);
        }
        let mut tx = file.begin().unwrap();
        let mut buf = vec![0; 512];
        write(&file, 3, 8);
        tx.read(3, &mut buf).unwrap();
        assert_eq!(buf, contents(3, 7, size));
        tx.page_mut(4).unwrap()[0] = 99;
        tx.discard(5).unwrap();
        tx.read(4, &mut buf).unwrap();
        assert_eq!((buf[0], buf[1]), (99, contents(4, 7, size)[1]));
        tx.read(5, &mut buf).unwrap();
        assert!(buf.iter().all(|b| *b == 0));
        // Pages that were cut off are zeroes, even after the file grows again.
        tx.set_page_count(20).unwrap();
        tx.set_page_count(25).unwrap();
        tx.write(28, &contents(28, 9, size)).unwrap();
        for page in [20, 24, 26] {
            tx.read(page, &mut buf).unwrap();
            assert!(buf.iter().all(|b| *b == 0), "page {page}");
        }
        assert!(tx.page_mut(21).unwrap().iter().all(|b| *b == 0));
        tx.commit().unwrap();
        for (page, stamp) in [
            (19, 7),
            (20, 0),
            (21, 0),
            (24, 0),
            (26, 0),
            (27, 0),
            (28, 9),
            (3, 8),
        ] {
            assert_page(&file, page, stamp);
        }
        assert_eq!(file.snapshot().unwrap().page_count(), 29);
    });
}

#[test]
fn the_later_of_two_that_write_a_page_is_told() {
    on_disk(|disk, rt| {
        let file = create(disk, rt, options());
        let size = file.page_size();
        write(&file, 9, 1);
        let begin = |page: u64| {
            let mut tx = file.begin().unwrap();
            tx.write(page, &contents(page, 5, size)).unwrap();
            tx
        };
        let (a, b, other) = (begin(3), begin(3), begin(4));
        a.commit().unwrap();
        let told = b.commit().unwrap_err();
        assert!(matches!(told, Error::Conflict { page: 3 }), "{told}");
        other.commit().unwrap();
        assert_eq!(file.stats().conflicts, 1);
        // Cutting pages off counts as writing them.
        let late = begin(8);
        let mut cut = file.begin().unwrap();
        cut.set_page_count(5).unwrap();
        cut.commit().unwrap();
        assert!(matches!(late.commit(), Err(Error::Conflict { page: 8 })));
        let mut cut = file.begin().unwrap();
        cut.set_page_count(2).unwrap();
        begin(30).commit().unwrap();
        assert!(matches!(cut.commit(), Err(Error::Conflict { page: 30 })));
        // In the opposite order nothing is lost.
        assert_eq!(file.snapshot().unwrap().page_count(), 31);
        assert_page(&file, 3, 5);
    });
}

#[test]
fn a_view_stays_as_it_is() {
    on_disk(|disk, rt| {
        let file = create(disk, rt, options().page_size(512).cache(16 << 10));
        let size = file.page_size();
        let mut held = Vec::new();
        let mut now = [0u64; 10];
        for n in 1..3000u64 {
            if n % 300 == 1 {
                held.push((file.snapshot().unwrap(), now));
                held.push((file.latest().unwrap(), now));
            }
            if n % 700 == 0 {
                held.remove(0);
            }
            let page = n * 7 % 10;
            write(&file, page, n);
            now[page as usize] = n;
        }
        let mut buf = vec![0; size as usize];
        for (view, then) in held {
            for page in 0..view.page_count() {
                view.read(page, &mut buf).unwrap();
                let expected = match then[page as usize] {
                    0 => vec![0; size as usize],
                    stamp => contents(page, stamp, size),
                };
                assert!(buf == expected, "page {page} of commit {}", view.commit());
            }
        }
        // Places that were written and freed while the views were held were reused all the same. 3000 commits
        // took 12 MiB, because a commit is written where it shares its 4 KiB with no other.
        let len = disk.file_bytes("/db", "pages").unwrap().len() as u64;
        assert!(len < 1 << 20, "{len} bytes");
    });
}

#[derive(Default)]
struct Woken(AtomicU32);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[test]
fn a_submitted_commit_is_carried_by_the_file() {
    on_disk(|disk, rt| {
        let file = create(disk, rt, options());
        let mut tx = file.begin().unwrap();
        tx.write(0, &contents(0, 1, 4096)).unwrap();
        let mut handle = tx.submit().unwrap();
        let woken = Arc::new(Woken::default());
        let waker = woken.clone().into();
        let mut context = Context::from_waker(&waker);
        let mut polls = 0;
        let committed = loop {
            polls += 1;
            match Pin::new(&mut handle).poll(&mut context) {
                Poll::Ready(result) => break result.unwrap(),
                Poll::Pending => {
                    while woken.0.swap(0, SeqCst) == 0 {
                        rt.sleep(Duration::from_micros(50));
                    }
                }
            }
        };
        assert!(polls <= 2);
        assert_eq!(
            (committed.commit, committed.guarantee),
            (1, Guarantee::PowerLoss.into())
        );
        assert_page(&file, 0, 1);
        // Once the view is dropped, commits continue.
        let mut tx = file.begin().unwrap();
        tx.write(0, &contents(0, 2, 4096)).unwrap();
        drop(tx.submit().unwrap());
        while file.snapshot().unwrap().commit() < 2 {
            rt.sleep(Duration::from_micros(50));
        }
        assert_page(&file, 0, 2);
    });
}

#[test]
fn an_interval_is_kept_and_nothing_is_waited_for() {
    on_disk(|disk, rt| {
        let file = create(disk, rt, options());
        for policy in [
            Policy::Interval {
                within: Duration::from_millis(40),
            },
            Policy::Write {
                force_within: Duration::from_millis(40),
            },
        ] {
            let headers = file.stats().headers;
            let mut last = 0;
            for n in 1..20 {
                let mut tx = file.begin().unwrap();
                tx.write(n % 3, &contents(n % 3, n, 4096)).unwrap();
                let committed = tx.commit_with(policy).unwrap();
                assert_eq!(committed.guarantee, Guarantee::Nothing);
                last = committed.commit;
            }
            assert_eq!(file.latest().unwrap().commit(), last);
            let end = rt.now() + Duration::from_millis(40);
            while file.snapshot().unwrap().commit() < last {
                assert!(rt.now() < end, "the interval was not kept");
                rt.sleep(Duration::from_millis(1));
            }
            assert!(file.stats().headers - headers <= 2, "one force for all");
        }
        // An empty transaction waits until what it has seen is durable.
        let mut tx = file.begin().unwrap();
        tx.write(0, &contents(0, 77, 4096)).unwrap();
        let within = Duration::from_secs(3600);
        tx.commit_with(Policy::Interval { within }).unwrap();
        let last = file.latest().unwrap().commit();
        let nothing = file.begin().unwrap().commit().unwrap();
        assert_eq!(
            (nothing.commit, nothing.guarantee),
            (last, Guarantee::PowerLoss.into())
        );
        assert_page(&file, 0, 77);
        // Closing forces the remaining commits.
        let mut tx = file.begin().unwrap();
        tx.write(0, &contents(0, 78, 4096)).unwrap();
        tx.commit_with(Policy::Interval { within }).unwrap();
        file.close().unwrap();
        assert_page(&reopen(disk, rt), 0, 78);
    });
}

#[test]
fn memory_that_waits_to_be_written_is_bounded() {
    on_disk(|disk, rt| {
        let file = create(disk, rt, options().cache(1 << 20));
        let within = Duration::from_secs(3600);
        for n in 0..3000u64 {
            let mut tx = file.begin().unwrap();
            tx.write(n, &contents(n, n + 1, 4096)).unwrap();
            tx.commit_with(Policy::Interval { within }).unwrap();
            assert!(file.stats().memory < 4 << 20, "{:?}", file.stats());
        }
        let stats = file.stats();
        assert!(stats.waits > 2 && stats.headers < 100, "{stats:?}");
        assert_eq!((stats.commits, stats.pages_committed), (3000, 3000));
    });
}

#[test]
fn a_fork_is_refused() {
    on_disk(|disk, rt| {
        let file = create(disk, rt, options());
        write(&file, 0, 1);
        let (view, mut tx) = (file.snapshot().unwrap(), file.begin().unwrap());
        tx.write(1, &contents(1, 1, 4096)).unwrap();
        rt.set_process(2);
        let ops = disk.ops();
        let mut buf = vec![0; 4096];
        assert!(matches!(file.begin(), Err(Error::Forked)));
        assert!(matches!(view.read(0, &mut buf), Err(Error::Forked)));
        assert!(matches!(tx.commit(), Err(Error::Forked)));
        assert!(matches!(file.clone().close(), Err(Error::Forked)));
        assert_eq!(disk.ops(), ops);
        rt.set_process(1);
        file.close().unwrap();
    });
}
