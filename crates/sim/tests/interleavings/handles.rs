//! Submitted records: handles that are waited for, polled, awaited, and dropped in every state; callbacks;
//! followers as tasks.

use crate::harness::explore;
use crate::world::{METHODS, Word, World, below, follow, one_in, options, pick, point, record};
use logforce_core::{Acknowledged, Batch, CommitHandle, Error, ErrorKind, Guarantee, Log, Policy};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

/// Polls once, with a waker that wakes nothing.
fn poll_once(world: &World, handle: &mut CommitHandle) -> Poll<Result<Acknowledged, Error>> {
    let waker = Word::new(world).into();
    Pin::new(handle).poll(&mut Context::from_waker(&waker))
}

/// Ends a handle in one of several ways.
fn finish(world: &World, log: &Log, mut handle: CommitHandle, data: &[u8]) {
    let done = match below(6) {
        0 => handle.wait(),
        1 => world.block_on(handle),
        2 => {
            // First with another task's waker; the last waker counts.
            match poll_once(world, &mut handle) {
                Poll::Ready(done) => done,
                Poll::Pending => world.block_on(handle),
            }
        }
        // Dropped at once, after a poll, or later.
        3 => return,
        4 => {
            let _ = poll_once(world, &mut handle);
            return;
        }
        _ => {
            let forcing = log
                .submit(Batch::new(), Policy::Force)
                .expect("nothing fails");
            let forced = if one_in(2) {
                forcing.wait()
            } else {
                world.block_on(forcing)
            };
            assert_eq!(
                forced.expect("nothing fails").guarantee,
                Guarantee::PowerLoss
            );
            handle.try_result().expect("it is durable")
        }
    };
    world.acknowledged(&done.expect("nothing fails"), data);
}

/// If no thread commits, the writing thread does all jobs.
#[test]
fn handles() {
    explore("handles", || {
        let world = World::new();
        let log = world.open(options().method(pick(&METHODS)));
        let threads: Vec<_> = (0..2 + below(2))
            .map(|n| {
                let log = log.clone();
                world.spawn(move |world| {
                    let mut open = Vec::new();
                    for i in 0..2 {
                        let data = record(10 * n + i, 40);
                        open.push((
                            log.submit(&data, Policy::Force).expect("there is space"),
                            data,
                        ));
                    }
                    for (handle, data) in open {
                        finish(world, &log, handle, &data);
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().expect("no thread panics");
        }
        // The records of dropped handles are durable after this too.
        let tail = log.tail_lsn();
        world.close(log).expect("nothing fails");
        let medium =
            crate::medium::Medium::of(&world.disk, crate::world::DIR, crate::medium::Layer::Stable);
        assert!(medium.end >= tail);
    });
}

/// A single handle is awaited while no other thread works, so only one wake can reach it.
#[test]
fn one_handle() {
    explore("one_handle", || {
        let world = World::new();
        let clock = world.rt.with_clock();
        let log = world.open(options().method(pick(&METHODS)));
        // The second size fills a batch to its last byte: the handle waits for exactly the LSN that is
        // reached.
        let data = record(1, pick(&[40, 4096 - 128 - 8]));
        let within = std::time::Duration::MAX / 8;
        let policy = match one_in(2) {
            true => Policy::Force,
            false => Policy::Write {
                force_within: within,
            },
        };
        let handle = log.submit(&data, policy).expect("there is space");
        let forcing = one_in(4).then(|| {
            log.submit(Batch::new(), Policy::Force)
                .expect("nothing fails")
        });
        let done = world.block_on(handle).expect("nothing fails");
        world.acknowledged(&done, &data);
        if let Some(forcing) = forcing {
            world.block_on(forcing).expect("nothing fails");
            world.durable(done.start, done.end, &data);
        }
        let at = log.append(&record(2, 40)).expect("there is space");
        let forcing = log
            .submit(Batch::new(), Policy::Force)
            .expect("nothing fails");
        world.block_on(forcing).expect("nothing fails");
        world.durable(at.start, at.end, &record(2, 40));
        world.close(log).expect("nothing fails");
        drop(clock);
    });
}

/// Handles beside committing threads: either may lead a job.
#[test]
fn handles_and_committers() {
    explore("handles_and_committers", || {
        let world = World::new();
        let log = world.open(options().method(pick(&METHODS)));
        let committer = {
            let log = log.clone();
            world.spawn(move |world| {
                for i in 0..3 {
                    let data = record(i, 40);
                    let done = log.commit(&data).expect("nothing fails");
                    world.acknowledged(&done, &data);
                }
            })
        };
        let submitter = {
            let log = log.clone();
            world.spawn(move |world| {
                for i in 10..12 {
                    let data = record(i, 40);
                    let handle = log.submit(&data, Policy::Force).expect("there is space");
                    finish(world, &log, handle, &data);
                }
            })
        };
        committer.join().expect("no thread panics");
        submitter.join().expect("no thread panics");
        world.close(log).expect("nothing fails");
    });
}

/// Each callback is called once, in the order of the records, when the record has the state that its policy
/// demands. One callback submits again, one is dropped with the log.
#[test]
fn callbacks() {
    explore("callbacks", || {
        let world = World::new();
        let never = std::time::Duration::MAX / 8;
        let policy = pick(&[
            Policy::Force,
            Policy::Write {
                force_within: never,
            },
            Policy::Interval { within: never },
        ]);
        let log = world.open(options().method(pick(&METHODS)));
        let called = Word::new(&world);
        let order: Arc<Mutex<Vec<u64>>> = Arc::default();
        let last = 3;
        for number in 0..last {
            let data = record(number, 40);
            let (called, order, inner) = (called.clone(), order.clone(), world.clone());
            let again = (number == 0).then(|| log.clone());
            let expected = data.clone();
            let submitted = log.submit_then(&data, policy, move |done| {
                inner.acknowledged(&done.expect("nothing fails"), &expected);
                order.lock().expect("no panic").push(number);
                if let Some(log) = again {
                    // In the log's own thread, which must write for itself.
                    if let Err(e) = log.commit(&record(100, 40)) {
                        assert_eq!(e.kind(), ErrorKind::Closed, "{e}");
                    }
                }
                called.add();
            });
            submitted.expect("there is space");
        }
        let waits = one_in(2);
        if waits {
            called.reaches(last as u32);
        }
        if one_in(2) {
            world.close(log).expect("nothing fails");
        } else {
            drop(log);
        }
        called.reaches(last as u32);
        let order = order.lock().expect("no panic");
        assert!(
            order.is_sorted() && order.len() == last as usize,
            "{order:?}"
        );
    });
}

/// The job of another thread writes the record of a callback, and nothing else happens afterwards.
#[test]
fn a_callback_beside_committers() {
    explore("a_callback_beside_committers", || {
        let world = World::new();
        let log = world.open(options().method(pick(&METHODS)));
        let threads: Vec<_> = (0..2)
            .map(|n| {
                let log = log.clone();
                world.spawn(move |_| {
                    log.commit(&record(n, 40)).expect("nothing fails");
                })
            })
            .collect();
        let called = Word::new(&world);
        let counter = called.clone();
        let submitted = log.submit_then(&record(9, 40), Policy::Force, move |done| {
            done.expect("nothing fails");
            counter.add();
        });
        submitted.expect("there is space");
        called.reaches(1);
        for thread in threads {
            thread.join().expect("no thread panics");
        }
        world.close(log).expect("nothing fails");
    });
}

/// Followers in tasks and blocking followers, while records come one at a time.
#[test]
fn followers() {
    explore("followers", || {
        let world = World::new();
        let log = world.open(options().method(pick(&METHODS)));
        let from = log.durable_lsn();
        let watching: Vec<_> = [false, true]
            .map(|tasks| {
                let log = log.clone();
                world.spawn(move |world| {
                    let seen = follow(world, &log, from, tasks);
                    assert_eq!(seen.len(), 3, "a follower misses nothing");
                })
            })
            .into_iter()
            .collect();
        for number in 0..3 {
            let data = record(number, 40);
            let done = log.commit(&data).expect("nothing fails");
            world.acknowledged(&done, &data);
            point(&world);
        }
        world.close(log).expect("nothing fails");
        for thread in watching {
            thread.join().expect("no thread panics");
        }
    });
}

/// A follower shows each record before the next comes, so that each needs its own wake.
#[test]
fn followers_in_step() {
    explore("followers_in_step", || {
        let world = World::new();
        let log = world.open(options());
        let from = log.durable_lsn();
        let shown = Word::new(&world);
        let tasks = one_in(2);
        let watching = {
            let (log, shown) = (log.clone(), shown.clone());
            world.spawn(move |world| {
                let mut follower = log.follow_lsn(from).expect("the end is there");
                for _ in 0..3 {
                    let next = match tasks {
                        false => follower.next_blocking(),
                        true => world.block_on(follower.next()),
                    };
                    world.shown(&next.expect("the log goes on").expect("nothing fails"));
                    shown.add();
                }
            })
        };
        for number in 0..3 {
            log.commit(&record(number, 40)).expect("nothing fails");
            shown.reaches(number as u32 + 1);
        }
        watching.join().expect("no thread panics");
        world.close(log).expect("nothing fails");
    });
}
