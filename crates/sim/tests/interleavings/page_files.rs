//! Page files with committing threads, a thread that holds a snapshot, and checkpoints.

use crate::harness::explore_by;
use crate::world::{World, below, one_in, options, pick};
use logforce_core::{Guarantee, Method, OpenMode};
use logforce_pages::{CommitMode, ErrorKind, Options, PageFile, Snapshot, WriteThroughLimit};
use logforce_testkit::{Failure, Snapshot as Image, Survival};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

const PATH: &str = "/file";
const PAGE: usize = 512;
/// Default number of schedules of a test. Each is several times as long as a schedule of the log.
const USUAL: u64 = 200;

/// Acknowledged commits: page, tag, commit number, and the disk at that moment.
type Acknowledged = Arc<Mutex<Vec<(u64, u64, u64, Image)>>>;

fn page_options(mode: CommitMode) -> Options {
    let log = options()
        .segment_size(64 << 10)
        .method(pick(&[Method::DirectDsync, Method::Fdatasync]));
    Options::new()
        .mode(mode)
        .page_size(PAGE as u32)
        .writers(1)
        .cache(pick(&[0, 64 << 10, 1 << 20]))
        .checkpoint_distance(16 * PAGE as u64)
        .write_through(WriteThroughLimit {
            runs: pick(&[0, 4]),
            bytes: 1 << 20,
        })
        .log(log)
}

fn open(world: &World, options: Options) -> PageFile {
    let system = world.disk.system(&world.rt);
    PageFile::open(&*system, PATH, OpenMode::OpenOrCreate, options).expect("nothing fails")
}

fn tag(snapshot: &Snapshot, page: u64) -> u64 {
    if page >= snapshot.page_count() {
        return 0;
    }
    let mut bytes = vec![0; PAGE];
    snapshot.read(page, &mut bytes).expect("nothing fails");
    let tag = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
    assert!(bytes == tag.to_le_bytes().repeat(PAGE / 8), "not whole");
    tag
}

/// Commits a page that only this thread writes, and one that all write. Returns the number of conflicts.
fn commit(world: &World, file: &PageFile, n: u64, i: u64, all: &Acknowledged) -> u64 {
    let tag = 100 * n + i + 1;
    let image = tag.to_le_bytes().repeat(PAGE / 8);
    let before = file.latest().expect("nothing fails").commit();
    let mut txn = file.begin().expect("nothing fails");
    txn.write(n, &image).expect("nothing fails");
    let shares = one_in(2);
    if shares {
        txn.write(9, &image).expect("nothing fails");
    }
    let done = match one_in(2) {
        true => txn.commit(),
        false => txn.submit().and_then(|handle| match one_in(2) {
            true => handle.wait(),
            false => world.block_on(handle),
        }),
    };
    match done {
        Ok(done) => {
            assert_eq!(done.guarantee, Guarantee::PowerLoss);
            let durable = file.snapshot().expect("nothing fails");
            assert!(durable.commit() >= done.commit);
            assert_eq!(
                self::tag(&durable, n),
                tag,
                "no other thread writes this page"
            );
            let disk = world.disk.snapshot();
            let mut all = all.lock().expect("no panic");
            all.push((n, tag, done.commit, disk));
            0
        }
        Err(e) => {
            assert!(shares && e.kind() == ErrorKind::Conflict, "{e}");
            // A transaction that begins again sees the commit that came first, and does not conflict with
            // it again.
            assert!(file.latest().expect("nothing fails").commit() > before);
            1
        }
    }
}

/// Reads states while others commit. Each state stays unchanged, and none is older than one that any thread
/// read before.
fn look(file: &PageFile, latest: &AtomicU64) {
    let mut last = 0;
    for _ in 0..4 {
        let is_latest = !one_in(3);
        let before = latest.load(SeqCst);
        let state = match is_latest {
            true => file.latest(),
            false => file.snapshot(),
        };
        let state = state.expect("nothing fails");
        if is_latest {
            assert!(state.commit() >= before, "the latest state went back");
            latest.fetch_max(state.commit(), SeqCst);
        } else {
            assert!(state.commit() >= last, "a durable state went back");
            last = state.commit();
        }
        if one_in(2) {
            let tags = || [0, 1, 9].map(|page| tag(&state, page));
            assert_eq!(tags(), tags(), "a state changed while it was read");
        }
    }
}

fn work(mode: CommitMode) {
    let world = World::new();
    let options = page_options(mode);
    let file = open(&world, options.clone());
    let all = Acknowledged::default();
    let threads: Vec<_> = (0..2 + below(2))
        .map(|n| {
            let (file, all) = (file.clone(), all.clone());
            world.spawn(move |world| {
                for i in 0..2 {
                    commit(world, &file, n, i, &all);
                }
                if n == 0 && one_in(2) {
                    file.checkpoint().expect("nothing fails");
                }
            })
        })
        .collect();
    let latest = Arc::new(AtomicU64::new(0));
    let readers: Vec<_> = (0..below(3))
        .map(|_| {
            let (file, latest) = (file.clone(), latest.clone());
            world.spawn(move |_| look(&file, &latest))
        })
        .collect();
    // Contents to show, and enough commits for a checkpoint to overwrite them.
    let held = match one_in(2) {
        true => file.snapshot(),
        false => file.latest(),
    };
    let held = held.expect("nothing fails");
    let shown: Vec<u64> = (0..10).map(|page| tag(&held, page)).collect();
    for thread in threads.into_iter().chain(readers) {
        thread.join().expect("no thread panics");
    }
    let now: Vec<u64> = (0..10).map(|page| tag(&held, page)).collect();
    assert_eq!(now, shown, "a held snapshot changed");
    drop(held);
    file.close().expect("nothing fails");
    assert_eq!(world.disk.max_in_flight_writes(), 0);
    // A power cut at the moment of an acknowledgement keeps that commit and all earlier ones.
    let all = std::mem::take(&mut *all.lock().expect("no panic"));
    if all.is_empty() {
        return;
    }
    let (page, own, number, image) = &all[below(all.len() as u64) as usize];
    world.disk.restore(image);
    world
        .disk
        .crash(Failure::Power, Some(Survival::Lost), below(1 << 20));
    let file = open(&world, options);
    let snapshot = file.snapshot().expect("nothing fails");
    assert!(
        snapshot.commit() >= *number,
        "commit {number} was acknowledged, but {} is the last one",
        snapshot.commit()
    );
    let there = tag(&snapshot, *page);
    // The thread's next commit may exist too.
    assert!(
        there == *own || there == own + 1,
        "{there} in place of {own}"
    );
    drop(snapshot);
    file.close().expect("nothing fails");
}

/// Logged page files, with the thread that applies commits.
#[test]
fn logged_page_files() {
    explore_by("logged_page_files", USUAL, || work(CommitMode::Logged));
}

/// Copy-on-write page files, with the background flusher.
#[test]
fn copy_on_write_page_files() {
    explore_by("copy_on_write_page_files", USUAL, || {
        work(CommitMode::CopyOnWrite)
    });
}
