//! Shortage of buffer space and of prepared segments: every waiter is woken.

use crate::harness::{explore, explore_by};
use crate::world::{METHODS, Word, World, below, one_in, options, pick, record};
use logforce_core::{
    CommitHandle, Environment, EnvironmentOptions, Error, ErrorKind, Log, Options, Policy,
};
use std::sync::Arc;

/// Returns options with buffer space for only two batches.
fn narrow() -> Options {
    options().buffer_size(8 << 10).method(pick(&METHODS))
}

/// Waits for space in a task, then appends.
fn submit_async(world: &World, log: &Log, data: &[u8]) -> Result<CommitHandle, Error> {
    // Sometimes reserves more than is needed.
    let permit = world.block_on(log.reserve(data.len() + pick(&[0, 100])))?;
    permit.submit(data, Policy::Force)
}

fn place(world: &World, log: &Log, data: &[u8]) -> Result<(), Error> {
    match below(4) {
        0 => log.append(data).map(|_| ()),
        1 => submit_async(world, log, data).map(drop),
        2 => match log
            .try_reserve(data.len())
            .and_then(|permit| permit.submit(data, Policy::Force))
        {
            Ok(handle) => {
                let done = world.block_on(handle)?;
                world.acknowledged(&done, data);
                Ok(())
            }
            Err(Error::WouldBlock) => log.submit(data, Policy::Force).map(drop),
            Err(e) => Err(e),
        },
        _ => {
            let done = log.commit(data)?;
            world.acknowledged(&done, data);
            Ok(())
        }
    }
}

/// With a mostly full buffer, threads and tasks wait for space in it.
#[test]
fn full_buffer() {
    explore("full_buffer", || {
        let world = World::new();
        let log = world.open(narrow());
        let threads: Vec<_> = (0..3)
            .map(|n| {
                let log = log.clone();
                world.spawn(move |world| {
                    for i in 0..2 {
                        place(world, &log, &record(10 * n + i, 5_000)).expect("nothing fails");
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

/// If no thread forces, the writing thread alone writes full batches to make space.
#[test]
fn appends_alone() {
    explore("appends_alone", || {
        let world = World::new();
        let log = world.open(narrow());
        let tasks = one_in(2);
        for n in 0..5 {
            let data = record(n, 5_000);
            if tasks {
                drop(submit_async(&world, &log, &data).expect("nothing fails"));
            } else {
                log.append(&data).expect("nothing fails");
            }
        }
        world.close(log).expect("nothing fails");
    });
}

/// A task waits for buffer space beside records that are never submitted or forced. Only the thread that
/// frees space wakes it.
#[test]
fn a_task_waits_for_room() {
    explore("a_task_waits_for_room", || {
        let world = World::new();
        let log = world.open(narrow());
        let appender = {
            let log = log.clone();
            world.spawn(move |_| {
                for n in 0..3 {
                    log.append(&record(n, 5_000)).expect("nothing fails");
                }
            })
        };
        let data = record(9, 5_000);
        let handle = submit_async(&world, &log, &data).expect("nothing fails");
        drop(handle);
        appender.join().expect("no thread panics");
        world.close(log).expect("nothing fails");
    });
}

/// Permits hold the space of the buffer. Some are used, some dropped, and waiters get the space either
/// way.
#[test]
fn permits() {
    explore("permits", || {
        let world = World::new();
        let log = world.open(narrow());
        let held: Vec<_> = (0..2)
            .map(|_| world.block_on(log.reserve(3_000)).expect("there is space"))
            .collect();
        let waits = {
            let log = log.clone();
            let in_task = one_in(2);
            world.spawn(move |world| {
                let data = record(9, 5_000);
                match in_task {
                    true => drop(submit_async(world, &log, &data).expect("nothing fails")),
                    false => drop(log.append(&data).expect("nothing fails")),
                }
            })
        };
        for (n, permit) in held.into_iter().enumerate() {
            match one_in(2) {
                true => drop(permit),
                // No write follows a dropped permit, so only the drop wakes the waiters.
                false => {
                    let within = std::time::Duration::MAX / 8;
                    let data = record(n as u64, 40);
                    let handle = permit.submit(&data, Policy::Interval { within });
                    drop(handle.expect("it has its space"));
                }
            }
        }
        waits.join().expect("no thread panics");
        world.close(log).expect("nothing fails");
    });
}

/// Permits hold the last space below the cap. Each can be used, although earlier appends are forced
/// meanwhile, in batches that end at unplanned points.
#[test]
fn permits_at_the_cap() {
    explore("permits_at_the_cap", || {
        let world = World::new();
        let options = options().max_batch_size(32 << 10).buffer_size(256 << 10);
        let log = world.open_alone(options.max_log_size(3 * (128 << 10)));
        for _ in 0..8 {
            log.commit(&record(1, 30_000)).expect("there is space");
        }
        log.append(&record(2, 40)).expect("a small one has space");
        let mut held = Vec::new();
        let full = loop {
            match world.block_on(log.reserve(1_000)) {
                Ok(permit) => held.push(permit),
                Err(e) => break e,
            }
        };
        assert_eq!(full.kind(), ErrorKind::Full, "{full}");
        assert!(!held.is_empty());
        let forces = {
            let log = log.clone();
            world.spawn(move |_| {
                log.force(log.tail_lsn()).expect("nothing fails");
            })
        };
        for (n, permit) in held.into_iter().enumerate() {
            let handle = permit.submit(record(10 + n as u64, 1_000), Policy::Force);
            let handle = handle.expect("it has its space");
            if one_in(2) {
                world.block_on(handle).expect("nothing fails");
            }
        }
        forces.join().expect("no thread panics");
        world.close(log).expect("nothing fails");
    });
}

/// Appends of more than the prepared segments hold wait for the preallocator.
#[test]
fn new_segments() {
    explore("new_segments", || {
        let world = World::new();
        let log = world.open(options().max_batch_size(32 << 10).buffer_size(64 << 10));
        let threads: Vec<_> = (0..2)
            .map(|n| {
                let log = log.clone();
                world.spawn(move |world| {
                    for i in 0..4 {
                        place(world, &log, &record(10 * n + i, 30_000)).expect("nothing fails");
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

/// A callback in the writing thread that appends more than the buffer holds makes the space itself.
#[test]
fn a_callback_fills_up() {
    explore("a_callback_fills_up", || {
        let world = World::new();
        let log = world.open(narrow());
        let inner = log.clone();
        let called = Word::new(&world);
        let counter = called.clone();
        let submitted = log.submit_then(&record(1, 40), Policy::Force, move |done| {
            done.expect("nothing fails");
            for n in 0..3 {
                inner.append(&record(10 + n, 5_000)).expect("nothing fails");
            }
            drop(inner);
            counter.add();
        });
        submitted.expect("there is space");
        log.append(&record(2, 5_000)).expect("nothing fails");
        called.reaches(1);
        world.close(log).expect("nothing fails");
    });
}

/// A callback in the writing thread waits for futures that wait for that thread: they do its work.
#[test]
fn a_callback_awaits() {
    explore("a_callback_awaits", || {
        let world = World::new();
        let log = world.open(narrow());
        let (inner, own) = (log.clone(), world.clone());
        let called = Word::new(&world);
        let counter = called.clone();
        let closes = pick(&[false, true]);
        let submitted = log.submit_then(&record(1, 40), Policy::Force, move |done| {
            done.expect("nothing fails");
            for n in 0..3 {
                let data = record(10 + n, 5_000);
                let permit = own.block_on(inner.reserve(data.len()));
                let handle = permit.and_then(|permit| permit.submit(&data, Policy::Force));
                drop(handle.expect("nothing fails"));
            }
            let committed = own.block_on(inner.commit_async(record(20, 40)));
            committed.expect("nothing fails");
            if closes {
                own.block_on(inner.blocking(|log| log.close()))
                    .expect("nothing fails");
            }
            counter.add();
        });
        submitted.expect("there is space");
        called.reaches(1);
        world.close(log).expect("nothing fails");
    });
}

/// Callbacks of two logs fill a third log of their environment, which has two threads. One thread is left to
/// prepare a segment for it.
#[test]
fn callbacks_fill_another_log() {
    explore_by("callbacks_fill_another_log", 200, || {
        let world = World::new();
        // A pause in filling a segment for another log delays them, and the clock ends it.
        let clock = world.rt.with_clock();
        let shared = EnvironmentOptions::new().threads(2);
        let environment = Environment::start(Arc::new(world.rt.clone()), &shared);
        let environment = environment.expect("threads start");
        let small = || {
            narrow()
                .segment_size(32 << 10)
                .first_segment_size(32 << 10)
                .environment(&environment)
        };
        let to = world.open_in("/to", small());
        let from = [world.open_in("/a", small()), world.open_in("/b", small())];
        let called = Word::new(&world);
        for log in &from {
            let (to, counter) = (to.clone(), called.clone());
            let submitted = log.submit_then(&record(1, 40), Policy::Force, move |done| {
                done.expect("nothing fails");
                for n in 0..8 {
                    to.append(&record(10 + n, 5_000)).expect("nothing fails");
                }
                drop(to);
                counter.add();
            });
            submitted.expect("there is space");
        }
        called.reaches(2);
        for log in from.into_iter().chain([to]) {
            log.close().expect("nothing fails");
        }
        drop(clock);
    });
}

/// At the cap the owner gets requests for checkpoints, in a thread or in a task, until the log closes.
#[test]
fn a_checkpoint_makes_room() {
    explore("a_checkpoint_makes_room", || {
        let world = World::new();
        let options = options()
            .max_batch_size(32 << 10)
            .buffer_size(64 << 10)
            .max_log_size(3 * (128 << 10));
        let log = world.open(options);
        let (owned, in_task) = (log.clone(), one_in(2));
        let owner = world.spawn(move |world| {
            let mut requests = owned.checkpoint_requests();
            let mut made = 0;
            loop {
                let due = match in_task {
                    true => world.block_on(requests.next()),
                    false => requests.next_blocking(),
                };
                let Some(due) = due else { break };
                made += 1;
                match owned.truncate_front(due.durable) {
                    Ok(()) => {}
                    Err(e) => assert_eq!(e.kind(), ErrorKind::Closed, "{e}"),
                }
            }
            assert!(made > 0, "there was no request");
        });
        let threads: Vec<_> = (0..2)
            .map(|thread| {
                let log = log.clone();
                world.spawn(move |_| {
                    for n in 0..8 {
                        let data = record(10 * thread + n, 30_000);
                        // Only the owner makes space, when it gets a request.
                        while let Err(e) = log.commit(&data) {
                            assert_eq!(e.kind(), ErrorKind::Full, "{e}");
                            shuttle::thread::yield_now();
                        }
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().expect("no thread panics");
        }
        world.close(log).expect("nothing fails");
        owner.join().expect("no thread panics");
    });
}

/// A pin is dropped and the front follows by itself, which makes space for the waiters at the cap.
#[test]
fn a_pin_gives_room() {
    explore("a_pin_gives_room", || {
        let world = World::new();
        let log = world.open(options().max_batch_size(32 << 10).buffer_size(64 << 10));
        let pin = log.pin(log.durable_lsn()).expect("the end is there");
        let front = log.front_lsn();
        for n in 0..3 {
            log.commit(&record(n, 30_000)).expect("nothing fails");
        }
        let to = log.durable_lsn();
        log.truncate_front(to).expect("nothing fails");
        assert!(log.front_lsn() <= pin.lsn().max(front));
        match one_in(2) {
            true => pin.advance(to).expect("the end is there"),
            false => drop(pin),
        }
        // No other event wakes the preallocator, and time does not pass.
        while log.front_lsn() < to {
            shuttle::thread::yield_now();
        }
        world.close(log).expect("nothing fails");
    });
}
