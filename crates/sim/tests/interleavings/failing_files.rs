//! Failures of a durable file: no wrong acknowledgement, no thread or task that waits for ever, and no call
//! after the failure.

use crate::files::{DIR, NAME, Slots, acknowledged, finish, options};
use crate::harness::explore;
use crate::world::{Word, World, below, one_in};
use logforce_commit::file::{Error, ErrorKind, Result};
use logforce_core::Method;
use logforce_device::{Barrier, OpenFile};
use logforce_testkit::Fault;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

/// Checks the error of a failed file.
fn poisoned(e: &Error) {
    assert_eq!(e.kind(), ErrorKind::Poisoned, "{e}");
}

/// Makes one call and checks what it acknowledges.
fn step(world: &World, slots: &Slots, slot: u64) -> Result<()> {
    match below(5) {
        0 => slots.write_commit(world, slot),
        1 => {
            let (handle, covers) = slots.submit(slot)?;
            if let Some(done) = finish(world, handle) {
                acknowledged(world, done?, &covers);
            }
            Ok(())
        }
        2 => {
            slots.write(slot)?;
            slots.commit_async(world)
        }
        _ => {
            slots.write(slot)?;
            slots.commit(world)
        }
    }
}

/// Checks that no call succeeds.
fn refuses(world: &World, slots: &Slots) {
    poisoned(&slots.write(80).expect_err("it has failed"));
    poisoned(&slots.commit(world).expect_err("it has failed"));
    poisoned(&slots.write_commit(world, 81).expect_err("it has failed"));
    poisoned(&slots.submit(82).expect_err("it has failed"));
    poisoned(&slots.commit_async(world).expect_err("it has failed"));
}

/// Runs `body`. Returns `None` if the device's panic came through, which is part of the test.
fn survive<T>(body: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(body)).ok()
}

/// Works in some threads while one of the next operations fails.
fn work_and_fail(fault: Fault) {
    let world = World::new();
    let slots = Slots::open(&world, options());
    world.disk.fail_at(world.disk.ops() + below(14), fault);
    let threads: Vec<_> = (0..2 + below(3))
        .map(|n| {
            let slots = slots.clone();
            world.spawn(move |world| {
                for i in 0..2 {
                    match survive(|| step(world, &slots, 10 * n + i)) {
                        None => return,
                        Some(Ok(())) => {}
                        Some(Err(e)) => {
                            poisoned(&e);
                            refuses(world, &slots);
                            return;
                        }
                    }
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("no thread panics");
    }
    let file = Arc::into_inner(slots.file).expect("the last one");
    if let Some(Err(e)) = survive(|| file.close()) {
        poisoned(&e);
    }
}

/// An operation fails: all waiters get the error, and nothing is acknowledged after it.
#[test]
fn file_fails() {
    explore("file_fails", || work_and_fail(Fault::Io));
}

/// An operation panics in the thread that makes it: all other waiters get an error.
#[test]
fn file_panics() {
    explore("file_panics", || work_and_fail(Fault::Panic));
}

/// A sync panics while other threads begin to commit. Only the failure itself can wake them.
#[test]
fn file_fails_beside_committers() {
    explore("file_fails_beside_committers", || {
        let world = World::new();
        let slots = Slots::open(&world, options().method(Method::Fdatasync));
        world
            .disk
            .fail_at(world.disk.ops() + 2 + below(5), Fault::Panic);
        let threads: Vec<_> = (0..2 + below(2))
            .map(|n| {
                let slots = slots.clone();
                world.spawn(move |world| {
                    let done = survive(|| {
                        slots.write(n)?;
                        slots.commit(world)
                    });
                    if let Some(Err(e)) = done {
                        poisoned(&e);
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().expect("no thread panics");
        }
        slots.drop();
    });
}

/// A task awaits a submission that no sync covers, and a write of another thread fails.
#[test]
fn file_fails_before_a_task() {
    explore("file_fails_before_a_task", || {
        let world = World::new();
        let slots = Slots::open(&world, options());
        let tasks: Vec<_> = (0..2)
            .map(|n| {
                let slots = slots.clone();
                world.spawn(move |world| {
                    let submitted = slots.submit(n);
                    let done = submitted.and_then(|(handle, covers)| {
                        let done = world.block_on(handle)?;
                        acknowledged(world, done, &covers);
                        Ok(())
                    });
                    if let Err(e) = done {
                        poisoned(&e);
                    }
                })
            })
            .collect();
        world.disk.fail_at(world.disk.ops() + below(6), Fault::Io);
        if let Err(e) = slots.write(9) {
            poisoned(&e);
        }
        for task in tasks {
            task.join().expect("no thread panics");
        }
        slots.drop();
    });
}

/// A write-back fails before any sync, and another open file gets the report first. No commit of the file
/// acknowledges what was lost.
#[test]
fn file_loses_a_write_back() {
    explore("file_loses_a_write_back", || {
        let world = World::new();
        let method = match one_in(2) {
            true => Method::Dsync,
            false => Method::Fdatasync,
        };
        let slots = Slots::open(&world, options().method(method));
        let dir = world.disk.system(&world.rt).directory(Path::new(DIR));
        let dir = dir.expect("it is there");
        let other = dir.open(NAME, OpenFile::WRITE).expect("it is there");
        let lost = Word::new(&world);
        let threads: Vec<_> = (0..2)
            .map(|n| {
                let (slots, lost) = (slots.clone(), lost.clone());
                world.spawn(move |world| {
                    let written = slots.write(n);
                    if n == 0 && world.disk.fail_write_back(DIR, NAME, 0..u64::MAX) > 0 {
                        lost.add();
                    }
                    let done = written.and_then(|()| match one_in(2) {
                        true => slots.commit(world),
                        false => slots.write_commit(world, 10 + n),
                    });
                    if let Err(e) = done {
                        poisoned(&e);
                    }
                })
            })
            .collect();
        let reported = one_in(2) && other.barrier(Barrier::Data).is_err();
        for thread in threads {
            thread.join().expect("no thread panics");
        }
        // The next force reports the loss, also if the other open file has reported it before.
        let done = slots.write(20).and_then(|()| slots.commit(&world));
        match done {
            Ok(()) => assert!(lost.count() == 0 && !reported, "a loss was not reported"),
            Err(e) => poisoned(&e),
        }
        slots.drop();
    });
}
