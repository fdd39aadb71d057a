//! Replicas: commits, tasks, callbacks and followers that wait for the second watermark, while the replica
//! reads, confirms, fails, is deposed or replaced, and the log is truncated, fails or is closed.

use crate::harness::explore_by;
use crate::world::{METHODS, Word, World, below, one_in, options, pick, point, record};
use logforce_core::ReplicaOptions;
use logforce_core::{
    Acknowledged, Error, ErrorKind, Follower, Guarantee, Log, LogChunk, Lsn, Policy, Record,
    ReplicaWait, Replication,
};
use logforce_format::frame::FRAME_HEADER_LEN;
use logforce_testkit::Fault;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Chunks in the replica, as this test knows them.
#[derive(Default)]
struct Kept {
    chunks: Vec<LogChunk>,
    /// End of the whole chunks that the replica has confirmed, or is about to.
    confirmed: Lsn,
}

/// A log with a replica, in one schedule.
#[derive(Clone)]
struct Scene {
    world: World,
    log: Log,
    kept: Arc<Mutex<Kept>>,
    /// Number of callbacks that were called.
    called: Arc<Word>,
    /// Records that were refused for lack of a replica.
    refused: Arc<Mutex<Vec<Vec<u8>>>>,
    /// True once the log was deposed.
    deposed: Arc<AtomicBool>,
    /// True if the log may be closed while its threads work.
    closes: bool,
}

impl Scene {
    fn new(world: World) -> Scene {
        let log = world.open(options().method(pick(&METHODS)));
        Scene {
            called: Word::new(&world),
            world,
            log,
            kept: Arc::default(),
            refused: Arc::default(),
            deposed: Arc::default(),
            closes: false,
        }
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().expect("no panic")
    }

    fn will_confirm(&self, to: Lsn) {
        let mut kept = self.kept();
        kept.confirmed = to.max(kept.confirmed);
    }

    /// Checks that the replica has confirmed a record, and has it.
    fn confirmed(&self, start: Lsn, end: Lsn, data: &[u8]) {
        let kept = self.kept();
        let confirmed = kept.confirmed;
        assert!(end <= confirmed, "up to {end}, confirmed up to {confirmed}");
        let holds = kept.chunks.iter().any(|chunk| {
            let at = start.since(chunk.from) as usize + FRAME_HEADER_LEN;
            chunk.from <= start && chunk.bytes.get(at..at + 8) == Some(&data[..8])
        });
        assert!(holds, "the replica lacks the record at {start}");
    }

    /// Checks a result. `deposed`: the log was deposed before the commit began.
    fn check(&self, done: Result<Acknowledged, Error>, policy: Policy, data: &[u8], deposed: bool) {
        match done {
            Ok(done) => {
                assert!(!deposed, "acknowledged by {policy:?} after it was deposed");
                self.world.durable(done.start, done.end, data);
                if policy == Policy::Replicated {
                    assert_eq!(done.guarantee, Guarantee::MachineLoss);
                    self.confirmed(done.start, done.end, data);
                }
            }
            Err(e) => self.check_error(&e, data),
        }
    }

    fn check_error(&self, e: &Error, data: &[u8]) {
        let is_down = self.world.failing || self.deposed.load(SeqCst);
        match e.kind() {
            ErrorKind::NoReplica => self.refused.lock().expect("no panic").push(data.to_vec()),
            ErrorKind::ReplicaLost if self.closes => {}
            ErrorKind::ReplicaLost => assert!(self.records().iter().any(|r| r.data == data)),
            ErrorKind::Closed => assert!(self.closes, "{e}"),
            // Another thread may see the failure before the one that deposes has returned.
            ErrorKind::Poisoned => assert!(is_down || e.to_string().contains("machine b"), "{e}"),
            // A segment could not be prepared.
            ErrorKind::Io => assert!(self.world.failing, "{e}"),
            kind => panic!("{kind:?}: {e}"),
        }
    }

    /// Commits in one of several ways. Returns the number of callbacks that it has registered.
    fn commit(&self, n: u64, policy: Policy) -> u32 {
        let (log, data) = (&self.log, record(n, pick(&[40, 40, 3_000])));
        let deposed = self.deposed.load(SeqCst);
        let done = match below(4) {
            0 => log.commit_with(&data, policy),
            1 => log.submit(&data, policy).and_then(|handle| handle.wait()),
            2 => match log.submit(&data, policy) {
                Ok(handle) => self.world.block_on(handle),
                Err(e) => Err(e),
            },
            _ => {
                let (scene, expect) = (self.clone(), data.clone());
                let submitted = log.submit_then(&data, policy, move |done| {
                    scene.check(done, policy, &expect, deposed);
                    scene.called.add();
                });
                match submitted {
                    Ok(_) => return 1,
                    Err(e) => Err(e),
                }
            }
        };
        self.check(done, policy, &data, deposed);
        0
    }

    /// Starts threads that commit, mostly by `Replicated`. They return the number of their callbacks.
    fn committers(&self, count: u64, each: u64) -> Vec<shuttle::thread::JoinHandle<u32>> {
        (0..count)
            .map(|n| {
                let scene = self.clone();
                shuttle::thread::spawn(move || {
                    let commit = |i| {
                        let policy = match one_in(4) {
                            true => Policy::Force,
                            false => Policy::Replicated,
                        };
                        scene.commit(10 * n + i, policy)
                    };
                    (0..each).map(commit).sum()
                })
            })
            .collect()
    }

    /// Reads and confirms until the log has ended.
    fn replicate(&self, replica: &mut Replication) {
        let tasks = one_in(2);
        loop {
            let wait = match tasks {
                true => self.world.block_on(replica.changed()),
                false => replica.wait(None).expect("no waker runs"),
            };
            match wait {
                ReplicaWait::Ready => self.keep(replica),
                ReplicaWait::Closed | ReplicaWait::Failed(_) => return,
                other => panic!("without a timeout: {other:?}"),
            }
        }
    }

    /// Looks a few times for bytes to read and confirm, without waiting for them.
    fn replicate_a_little(&self, replica: &mut Replication) {
        for _ in 0..below(6) {
            match replica.wait(Some(Duration::ZERO)).expect("no waker runs") {
                ReplicaWait::Ready => self.keep(replica),
                _ => point(&self.world),
            }
        }
    }

    /// Reads a chunk, and confirms it in one of several ways.
    fn keep(&self, replica: &mut Replication) {
        let Some(chunk) = replica.read(pick(&[1, 1 << 20])).expect("it is pinned") else {
            return;
        };
        let (from, to) = (chunk.from, chunk.to);
        self.kept().chunks.push(chunk);
        if one_in(3) {
            // A part of a chunk does not count.
            self.will_confirm(from);
            let within = Lsn(to.0 - 1 - below(to.since(from)));
            replica.confirm(within).expect("it was read");
        }
        if one_in(4) && self.log.durable_lsn() > to {
            // Confirmed with the next chunk.
            return;
        }
        self.will_confirm(to);
        replica.confirm(to).expect("it was read");
    }

    /// Follows until the log has ended. Returns the records.
    fn follow(&self, mut follower: Follower) -> Vec<Record> {
        let (tasks, mut seen) = (one_in(2), Vec::new());
        loop {
            let next = match tasks {
                true => self.world.block_on(follower.next()),
                false => follower.next_blocking(),
            };
            match next {
                None => return seen,
                Some(Ok(record)) => {
                    self.confirmed(record.start, record.end, &record.data);
                    seen.push(record);
                }
                // A range was voided, or the log has failed.
                Some(Err(_)) => {}
            }
        }
    }

    fn watch(&self) -> shuttle::thread::JoinHandle<()> {
        let from = self.log.front_lsn();
        let follower = self.log.follow_lsn(from).expect("the front is there");
        let (scene, follower) = (self.clone(), follower.replicated());
        shuttle::thread::spawn(move || drop(scene.follow(follower)))
    }

    /// Checks that nothing was accepted that was refused.
    fn check_refused(&self) {
        let records = self.records();
        for data in &*self.refused.lock().expect("no panic") {
            assert!(
                records.iter().all(|r| r.data != *data),
                "refused, but there"
            );
        }
    }

    /// Returns the durable records.
    fn records(&self) -> Vec<Record> {
        let reader = self.log.read_from(self.log.front_lsn());
        reader.expect("the front is there").flatten().collect()
    }
}

fn joined(threads: Vec<shuttle::thread::JoinHandle<u32>>) -> u32 {
    let callbacks = threads
        .into_iter()
        .map(|t| t.join().expect("no thread panics"));
    callbacks.sum()
}

/// Every commit is confirmed, and every waiter returns, while both ends of the log move.
#[test]
fn replicated() {
    explore_by("replicated", 300, || {
        let scene = Scene::new(World::new());
        let mut replica = scene
            .log
            .replicate(ReplicaOptions::new())
            .expect("there is none");
        let watching = one_in(2).then(|| scene.watch());
        let keeper = {
            let scene = scene.clone();
            shuttle::thread::spawn(move || scene.replicate(&mut replica))
        };
        let threads = scene.committers(1 + below(2), 2);
        if one_in(3) {
            let done = scene.log.commit(&record(90, 40)).expect("nothing fails");
            let cut = match one_in(2) {
                true => scene.log.truncate_front(done.end),
                false => scene.log.truncate_back(done.end),
            };
            if let Err(e) = cut {
                assert_eq!(e.kind(), ErrorKind::Voided, "{e}");
            }
        }
        let callbacks = joined(threads);
        scene.called.reaches(callbacks);
        assert!(scene.refused.lock().expect("no panic").is_empty());
        scene.world.close(scene.log.clone()).expect("nothing fails");
        keeper.join().expect("no thread panics");
        if let Some(watching) = watching {
            watching.join().expect("no thread panics");
        }
    });
}

/// A single commit waits, so only one wake can reach it: that of a confirmation, or of the replica's end.
#[test]
fn one_replicated_commit() {
    explore_by("one_replicated_commit", 300, || {
        let scene = Scene::new(World::new());
        let mut replica = scene
            .log
            .replicate(ReplicaOptions::new())
            .expect("there is none");
        let watching = one_in(3).then(|| scene.watch());
        let committer = {
            let scene = scene.clone();
            shuttle::thread::spawn(move || scene.commit(1, Policy::Replicated))
        };
        match one_in(2) {
            // Perhaps before the record is durable.
            true => replica.fail("it is full"),
            false => {
                while scene.kept().chunks.iter().all(|chunk| chunk.frames == 0) {
                    replica.wait(None).expect("no waker runs");
                    if let Some(chunk) = replica.read(1).expect("it is pinned") {
                        scene.kept().chunks.push(chunk);
                    }
                }
                let end = replica.position();
                scene.will_confirm(end);
                replica.confirm(end).expect("it was read");
            }
        }
        let callbacks = committer.join().expect("no thread panics");
        scene.called.reaches(callbacks);
        scene.check_refused();
        scene.world.close(scene.log.clone()).expect("nothing fails");
        if let Some(watching) = watching {
            watching.join().expect("no thread panics");
        }
    });
}

/// The replica ends while commits wait, another one may be attached, the device may fail, and the log may be
/// closed meanwhile. Every waiter returns.
#[test]
fn replicas_end() {
    explore_by("replicas_end", 400, || {
        let mut scene = Scene::new(World::new());
        let mut replica = scene
            .log
            .replicate(ReplicaOptions::new())
            .expect("there is none");
        scene.world.failing = one_in(4);
        if scene.world.failing {
            let disk = &scene.world.disk;
            disk.fail_at(disk.ops() + below(16), Fault::Io);
        }
        scene.closes = one_in(4);
        let deposes = one_in(3);
        let watching = one_in(3).then(|| scene.watch());
        let threads = scene.committers(2, 2);
        let closer = scene.closes.then(|| {
            let scene = scene.clone();
            shuttle::thread::spawn(move || drop(scene.world.close(scene.log.clone())))
        });
        let successor = one_in(2).then(|| {
            let scene = scene.clone();
            shuttle::thread::spawn(move || {
                let attached = (0..2).find_map(|_| scene.log.replicate(ReplicaOptions::new()).ok());
                if let Some(mut replica) = attached {
                    assert!(!deposes, "attached to a log that was deposed");
                    scene.replicate_a_little(&mut replica);
                }
            })
        });
        scene.replicate_a_little(&mut replica);
        match deposes {
            true => {
                assert_eq!(replica.deposed("machine b").kind(), ErrorKind::Deposed);
                scene.deposed.store(true, SeqCst);
                for policy in [Policy::Force, Policy::Replicated] {
                    let done = scene.log.commit_with(&record(80, 40), policy);
                    scene.check(done, policy, &record(80, 40), true);
                }
            }
            false if one_in(2) => replica.fail("the bucket is gone"),
            false => drop(replica),
        }
        let callbacks = joined(threads);
        if let Some(successor) = successor {
            successor.join().expect("no thread panics");
        }
        scene.called.reaches(callbacks);
        if !scene.world.failing {
            scene.check_refused();
        }
        let _ = scene.world.close(scene.log.clone());
        if let Some(watching) = watching {
            watching.join().expect("no thread panics");
        }
        if let Some(closer) = closer {
            closer.join().expect("no thread panics");
        }
        scene.world.all_there();
    });
}
