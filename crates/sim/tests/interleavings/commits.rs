//! Committing threads.

use crate::harness::{explore, explore_by};
use crate::world::{METHODS, Word, World, below, follow, one_in, options, pick, record};
use logforce_core::{Guarantee, Method, Policy, ReplicaOptions};
use logforce_device::Runtime;
use logforce_device::sync::locks_taken_here;
use std::time::Duration;

/// The simplest case: every commit returns, and its record is then durable.
#[test]
fn committers() {
    explore("committers", || {
        let world = World::new();
        let log = world.open(options().method(pick(&METHODS)).max_in_flight_writes(1));
        let threads: Vec<_> = (0..2 + below(3))
            .map(|n| {
                let log = log.clone();
                world.spawn(move |world| {
                    for i in 0..2 {
                        let data = record(10 * n + i, 40);
                        let done = log.commit(&data).expect("nothing fails");
                        assert_eq!(done.guarantee, Guarantee::PowerLoss);
                        assert!(world.watermark(&log) >= done.end);
                        world.acknowledged(&done, &data);
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().expect("no thread panics");
        }
        world.close(log).expect("nothing fails");
    });
}

/// A write waits for the threads whose commits were acknowledged last. Some commit again, some do not, and
/// the thread that would begin the write at the latest may be overtaken.
#[test]
fn gathering() {
    explore_by("gathering", 300, || {
        let world = World::new();
        let log = world.open(options().in_flight_at_first(0));
        // The clock ends the gathering if no commit comes.
        let clock = world.rt.with_clock();
        let threads: Vec<_> = (0..3)
            .map(|n| {
                let log = log.clone();
                world.spawn(move |world| {
                    for i in 0..1 + below(3) {
                        let data = record(10 * n + i, 40);
                        if one_in(4) {
                            let handle = log.submit(&data, Policy::Force).expect("nothing fails");
                            let done = handle.wait().expect("nothing fails");
                            world.acknowledged(&done, &data);
                            continue;
                        }
                        let done = log.commit(&data).expect("nothing fails");
                        assert!(world.watermark(&log) >= done.end);
                        world.acknowledged(&done, &data);
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().expect("no thread panics");
        }
        drop(clock);
        world.close(log).expect("nothing fails");
    });
}

/// Several writes in flight complete in any order, while other threads read.
#[test]
fn flights() {
    explore("flights", || {
        let world = World::new();
        let log = world.open(options());
        let front = log.front_lsn();
        let watching = one_in(2).then(|| {
            let (log, tasks) = (log.clone(), one_in(2));
            world.spawn(move |world| {
                assert_eq!(follow(world, &log, front, tasks).len(), 6);
            })
        });
        let threads: Vec<_> = (0..3)
            .map(|n| {
                let log = log.clone();
                world.spawn(move |world| {
                    for i in 0..2 {
                        let data = record(10 * n + i, 3_000);
                        let before = world.watermark(&log);
                        let at = log.append(&data).expect("there is space");
                        log.force(at.end).expect("nothing fails");
                        world.durable(at.start, at.end, &data);
                        assert!(world.watermark(&log) >= before.max(at.end));
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().expect("no thread panics");
        }
        world.close(log).expect("nothing fails");
        if let Some(watching) = watching {
            watching.join().expect("no thread panics");
        }
    });
}

/// Commits of every policy at once. Time passes when no thread can run.
#[test]
fn policies() {
    explore("policies", || {
        let world = World::new();
        let clock = world.rt.with_clock();
        let log = world.open(options().method(pick(&METHODS)));
        let threads: Vec<_> = (0..3)
            .map(|n| {
                let log = log.clone();
                world.spawn(move |world| {
                    for i in 0..2 {
                        let data = record(10 * n + i, 40);
                        let within = Duration::from_millis(1 + below(3));
                        let policy = match below(3) {
                            0 => Policy::Force,
                            1 => Policy::Write {
                                force_within: within,
                            },
                            _ => Policy::Interval { within },
                        };
                        let done = log.commit_with(&data, policy).expect("nothing fails");
                        world.acknowledged(&done, &data);
                        world.watermark(&log);
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().expect("no thread panics");
        }
        world.close(log).expect("nothing fails");
        drop(clock);
    });
}

/// Records with a deadline become durable by themselves: a follower sees them, and no thread forces.
#[test]
fn deadlines() {
    explore("deadlines", || {
        let world = World::new();
        let clock = world.rt.with_clock();
        let log = world.open(options().method(pick(&METHODS)));
        let within = Duration::from_millis(2);
        let policies = [
            Policy::Interval { within },
            Policy::Write {
                force_within: within,
            },
        ];
        let mut follower = log.follow_lsn(log.durable_lsn()).expect("the end is there");
        for n in 0..2 {
            let data = record(n, 40);
            let began = world.rt.now();
            log.commit_with(&data, pick(&policies))
                .expect("nothing fails");
            if one_in(2) {
                let record = follower.next_blocking().expect("the log goes on");
                world.shown(&record.expect("nothing fails"));
            } else {
                let next = world.block_on(follower.next());
                world.shown(&next.expect("the log goes on").expect("nothing fails"));
            }
            // The log's thread must act at the deadline, not at another event.
            let took = world.rt.now() - began;
            assert!(took < 50 * within, "after {took:?}");
        }
        world.close(log).expect("nothing fails");
        drop(clock);
    });
}

/// A method without a guarantee against loss of power keeps a list of unforced segments, and uses barriers
/// for closing.
#[test]
fn weak_methods() {
    explore("weak_methods", || {
        let world = World::new();
        let method = pick(&[Method::Buffered, Method::Direct]);
        let log = world.open(options().method(method).require(Guarantee::Nothing));
        let threads: Vec<_> = (0..3)
            .map(|n| {
                let log = log.clone();
                world.spawn(move |world| {
                    let data = record(n, 40);
                    let done = log.commit(&data).expect("nothing fails");
                    world.acknowledged(&done, &data);
                })
            })
            .collect();
        for thread in threads {
            thread.join().expect("no thread panics");
        }
        let tail = log.tail_lsn();
        world.close(log).expect("nothing fails");
        let stable =
            crate::medium::Medium::of(&world.disk, crate::world::DIR, crate::medium::Layer::Stable);
        assert!(stable.end >= tail, "closing makes everything durable");
    });
}

/// Number of mutex locks of a commit without competition: the log's twice (to stage the record and take the
/// job, and to publish the written LSN), and the segment's twice (for its handle, and to note the batch's
/// position).
const LOCKS_OF_A_COMMIT: u64 = 4;

/// Number of locks if staging and forcing are two calls: one more of the log.
const LOCKS_OF_TWO_CALLS: u64 = LOCKS_OF_A_COMMIT + 1;

/// A commit takes no more locks than it needs, whatever the log's own threads do meanwhile.
#[test]
fn locks_of_a_commit() {
    explore("locks of a commit", || {
        let world = World::new();
        let log = world.open_alone(options());
        log.commit(&record(0, 40)).expect("nothing fails");
        world.rest();
        for n in 1..4 {
            let before = locks_taken_here();
            log.commit(&record(n, 40)).expect("nothing fails");
            assert_eq!(locks_taken_here() - before, LOCKS_OF_A_COMMIT);
        }
        for n in 4..6 {
            let before = locks_taken_here();
            let at = log.append(&record(n, 40)).expect("nothing fails");
            log.force(at.end).expect("nothing fails");
            assert_eq!(locks_taken_here() - before, LOCKS_OF_TWO_CALLS, "force");
        }
        // The writing thread would lead some of the jobs that the handles wait for.
        let (began, ended) = (Word::new(&world), Word::new(&world));
        let (begins, ends) = (began.clone(), ended.clone());
        let occupy = move |_| {
            begins.add();
            ends.reaches(1);
        };
        log.submit_then(&record(6, 40), Policy::Force, occupy)
            .expect("nothing fails");
        began.reaches(1);
        for n in 7..9 {
            let before = locks_taken_here();
            let handle = log
                .submit(&record(n, 40), Policy::Force)
                .expect("nothing fails");
            handle.wait().expect("nothing fails");
            assert_eq!(locks_taken_here() - before, LOCKS_OF_TWO_CALLS, "wait");
        }
        ended.add();
        world.close(log).expect("nothing fails");
    });
}

/// Waiting for a replica adds one lock to a submission, and one to each look at a record that is durable and
/// not confirmed.
#[test]
fn locks_of_a_replicated_commit() {
    explore_by("locks of a replicated commit", 100, || {
        let world = World::new();
        let log = world.open_alone(options());
        let mut replica = log.replicate(ReplicaOptions::new()).expect("there is none");
        log.commit(&record(0, 40)).expect("nothing fails");
        world.rest();
        let submit = |n, policy| {
            let before = locks_taken_here();
            let handle = log.submit(&record(n, 40), policy).expect("nothing fails");
            let locks = locks_taken_here() - before;
            log.force(handle.end()).expect("nothing fails");
            (handle, locks)
        };
        let (_, alone) = submit(1, Policy::Force);
        let (handle, with_replica) = submit(2, Policy::Replicated);
        assert_eq!(with_replica, alone + 1);
        let before = locks_taken_here();
        assert!(!handle.is_done());
        assert_eq!(locks_taken_here() - before, 1);
        while replica.read(1 << 20).expect("nothing fails").is_some() {}
        replica.confirm(replica.position()).expect("it was read");
        let before = locks_taken_here();
        handle.wait().expect("it is confirmed");
        assert_eq!(locks_taken_here() - before, 0);
        world.close(log).expect("nothing fails");
    });
}
