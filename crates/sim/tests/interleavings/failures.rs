//! Failures and panics of the device: every waiter gets the error, no commit is acknowledged wrongly, and
//! the lock is released once nothing is in flight.

use crate::harness::explore;
use crate::world::{DIR, METHODS, Word, World, below, follow, one_in, options, pick, record};
use logforce_core::{Acknowledged, Batch, Error, ErrorKind, Guarantee, Log, Method, Policy};
use logforce_device::Whereabouts;
use logforce_testkit::{Failure, Fault, Survival};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Checks that a failing log may return this error.
fn expected(e: &Error) {
    // `Io` occurs if a segment could not be prepared; then the log accepted nothing.
    let kinds = [ErrorKind::Poisoned, ErrorKind::Closed, ErrorKind::Io];
    assert!(kinds.contains(&e.kind()), "{e}");
}

fn step(world: &World, log: &Log, n: u64, called: &Arc<Word>) -> Result<u32, Error> {
    let data = record(n, pick(&[40, 3_000, 5_000]));
    let done: Acknowledged = match below(7) {
        0 | 1 => log.commit(&data)?,
        2 => log.submit(&data, Policy::Force)?.wait()?,
        3 => world.block_on(log.commit_async(&data))?,
        4 => {
            let at = log.append(&data)?;
            world.block_on(log.submit(Batch::new(), Policy::Force)?)?;
            world.durable(at.start, at.end, &data);
            return Ok(0);
        }
        5 => {
            let (world, called, data) = (world.clone(), called.clone(), data.clone());
            let expect = data.clone();
            log.submit_then(&data, Policy::Force, move |done| {
                match done {
                    Ok(done) => world.acknowledged(&done, &expect),
                    Err(e) => expected(&e),
                }
                called.add();
            })?;
            return Ok(1);
        }
        _ => {
            let force_within = std::time::Duration::MAX / 8;
            let done = log.submit(&data, Policy::Write { force_within })?;
            world.block_on(done)?
        }
    };
    world.acknowledged(&done, &data);
    Ok(0)
}

/// Runs `body`. Returns `None` if the device's panic came through, which is part of the test.
fn survive<T>(body: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(body)).ok()
}

fn end(world: &World, log: Log) {
    if let Some(Err(e)) = survive(|| world.close(log)) {
        expected(&e);
    }
}

/// Works while one of the next operations fails.
fn work_and_fail(fault: Fault) {
    let mut world = World::new();
    world.failing = true;
    let log = world.open(options().buffer_size(8 << 10).method(pick(&METHODS)));
    let from = log.durable_lsn();
    world.disk.fail_at(world.disk.ops() + below(16), fault);
    let called = Word::new(&world);
    let threads: Vec<_> = (0..3)
        .map(|n| {
            let (log, called) = (log.clone(), called.clone());
            shuttle::thread::spawn({
                let world = world.clone();
                move || {
                    let mut callbacks = 0;
                    for i in 0..2 {
                        let Some(done) = survive(|| step(&world, &log, 10 * n + i, &called)) else {
                            break;
                        };
                        match done {
                            Ok(more) => callbacks += more,
                            Err(e) => {
                                expected(&e);
                                break;
                            }
                        }
                    }
                    callbacks
                }
            })
        })
        .collect();
    let watching: Vec<_> = (0..2)
        .filter(|_| one_in(2))
        .map(|n| {
            let log = log.clone();
            world.spawn(move |world| {
                follow(world, &log, from, n == 0);
            })
        })
        .collect();
    let closer = one_in(2).then(|| {
        let log = log.clone();
        world.spawn(move |world| {
            end(world, log);
        })
    });
    let mut callbacks = 0;
    for thread in threads {
        callbacks += thread.join().expect("no thread panics");
    }
    // A failed log calls all callbacks even without a close.
    if one_in(2) {
        called.reaches(callbacks);
    }
    end(&world, log);
    called.reaches(callbacks);
    for thread in watching.into_iter().chain(closer) {
        thread.join().expect("no thread panics");
    }
    assert!(!world.is_locked(), "a closed log keeps the lock");
    // After a power cut now, all acknowledged records exist, and no opening reports damage.
    let lost = Some(Survival::Lost);
    world.disk.crash(Failure::Power, lost, below(1 << 20));
    if one_in(2) {
        let again = world.open(options());
        world.close(again).expect("nothing fails now");
    }
    world.all_there();
}

/// A write, a barrier or any other operation fails.
#[test]
fn failing() {
    explore("failing", || work_and_fail(Fault::Io));
}

/// An operation panics, and the calling thread unwinds.
#[test]
fn panicking() {
    explore("panicking", || work_and_fail(Fault::Panic));
}

/// One of several writes in flight fails, of one job or of several, while a callback waits for one of them
/// and the log is closed. The lock is not released before all writes have completed.
#[test]
fn failing_in_flight_writes() {
    explore("failing_in_flight_writes", || {
        let mut world = World::new();
        world.failing = true;
        world.disk.change(|disk| disk.blocking = false);
        let methods = [Method::DirectDsync, Method::Dsync];
        let options = options().buffer_size(64 << 10).method(pick(&methods));
        // With a limit of one, a committer claims the next job, and the log's thread sleeps.
        let log = world.open(options.max_in_flight_writes(pick(&[1, 3])));
        if one_in(2) {
            // The preallocator wakes others when it is done.
            world.rest();
        }
        world.disk.fail_at(world.disk.ops() + below(8), Fault::Io);
        let called = Word::new(&world);
        let threads: Vec<_> = (0..3)
            .map(|n| {
                let log = log.clone();
                world.spawn(move |world| {
                    let data = record(10 * n, 5_000);
                    let end = match log.append(&data) {
                        // Two batches, so that one job has two writes.
                        Ok(first) => log.append(&record(10 * n + 1, 5_000)).map(|l| (first, l)),
                        Err(e) => Err(e),
                    };
                    let forced = end.and_then(|(first, last)| {
                        log.force(last.end)?;
                        world.durable(first.start, last.end, &data);
                        Ok(())
                    });
                    if let Err(e) = forced {
                        expected(&e);
                    }
                })
            })
            .collect();
        let counter = called.clone();
        let submitted = log.submit_then(&record(99, 40), Policy::Force, move |_| counter.add());
        if submitted.is_ok() && one_in(2) {
            called.reaches(1);
        }
        end(&world, log);
        if submitted.is_ok() {
            called.reaches(1);
        }
        for thread in threads {
            thread.join().expect("no thread panics");
        }
    });
}

/// The log's directory is moved away while nothing is to be prepared. The next completed write makes the
/// writing thread check it, and every waiter gets the error without another call.
#[test]
fn displaced() {
    explore("displaced", || {
        let world = World::new();
        // The last method has no stamps, which would make the thread check.
        let method = pick(&[Method::DirectDsync, Method::Fdatasync, Method::Buffered]);
        let log = world.open(options().method(method).require(Guarantee::Nothing));
        let from = log.durable_lsn();
        world.rest();
        world
            .disk
            .displace(DIR, pick(&[Whereabouts::Gone, Whereabouts::Replaced]));
        let threads: Vec<_> = (0..1 + below(3))
            .map(|n| {
                let log = log.clone();
                world.spawn(move |_| match log.commit(&record(n, 40)) {
                    Ok(_) => {}
                    Err(e) => expected(&e),
                })
            })
            .collect();
        // Records that a weak method acknowledges are not on the medium, so they are not checked there.
        if let Ok(mut follower) = log.follow_lsn(from) {
            match one_in(2) {
                true => while follower.next_blocking().is_some() {},
                false => while world.block_on(follower.next()).is_some() {},
            }
        }
        for thread in threads {
            thread.join().expect("no thread panics");
        }
        let Err(Error::Poisoned { cause, .. }) = log.commit(b"more") else {
            panic!("the log goes on");
        };
        assert_eq!(cause.kind(), ErrorKind::Displaced, "{cause}");
        expected(&world.close(log).expect_err("the log has failed"));
        assert!(!world.is_locked(), "a closed log keeps the lock");
    });
}
