//! Truncation and closing while other threads commit.

use crate::harness::explore;
use crate::world::{METHODS, World, below, follow, one_in, options, pick, point, record};
use logforce_core::{Error, ErrorKind, Log, Policy};

fn allowed(e: &Error, kinds: &[ErrorKind]) {
    assert!(kinds.contains(&e.kind()), "{e}");
}

/// Both ends move while other threads commit and follow.
#[test]
fn truncations() {
    explore("truncations", || {
        let world = World::new();
        let log = world.open(options().method(pick(&METHODS)));
        let from = log.durable_lsn();
        let first = log.commit(&record(1, 40)).expect("nothing fails");
        let watching = one_in(2).then(|| {
            let (log, tasks) = (log.clone(), one_in(2));
            world.spawn(move |world| {
                follow(world, &log, from, tasks);
            })
        });
        let committer = {
            let log = log.clone();
            world.spawn(move |world| {
                for n in 10..12 {
                    let data = record(n, 40);
                    let done = log.commit(&data).expect("nothing fails");
                    world.acknowledged(&done, &data);
                }
            })
        };
        let cutter = {
            let log = log.clone();
            world.spawn(move |world| {
                let done = log.truncate_back(first.end);
                done.expect("the end of a record");
                world.watermark(&log);
            })
        };
        if one_in(2) {
            match log.truncate_front(first.end) {
                Ok(()) => assert!(log.front_lsn() >= first.end),
                // The record that began there was voided.
                Err(e) => allowed(&e, &[ErrorKind::Voided]),
            }
        }
        committer.join().expect("no thread panics");
        cutter.join().expect("no thread panics");
        world.close(log).expect("nothing fails");
        if let Some(watching) = watching {
            watching.join().expect("no thread panics");
        }
    });
}

/// Without prepared space, the batch that voids records waits for it.
#[test]
fn truncation_waits_for_space() {
    explore("truncation_waits_for_space", || {
        let world = World::new();
        let log = world.open(options().max_batch_size(32 << 10).buffer_size(64 << 10));
        let first = log.commit(&record(1, 40)).expect("nothing fails");
        let other = {
            let log = log.clone();
            world.spawn(move |_| {
                for n in 0..2 {
                    log.append(&record(n, 30_000)).expect("nothing fails");
                }
            })
        };
        log.truncate_back(first.end).expect("the end of a record");
        other.join().expect("no thread panics");
        world.close(log).expect("nothing fails");
    });
}

/// Makes one of the calls that may be in flight when the log is closed.
fn busy(world: &World, log: &Log, n: u64) -> Result<(), Error> {
    let data = record(n, if one_in(3) { 5_000 } else { 40 });
    match below(7) {
        0 => world.acknowledged(&log.commit(&data)?, &data),
        1 => drop(log.submit(&data, Policy::Force)?),
        2 => {
            let permit = world.block_on(log.reserve(data.len()))?;
            let handle = permit.submit(&data, Policy::Force)?;
            world.acknowledged(&world.block_on(handle)?, &data);
        }
        3 => {
            let at = log.append(&data)?;
            log.force(at.end)?;
            world.durable(at.start, at.end, &data);
        }
        4 => log
            .truncate_back(log.tail_lsn())
            .or_else(|e| match e.kind() {
                // Other threads append meanwhile, and their batch may end before.
                ErrorKind::InvalidInput | ErrorKind::BeyondEnd => Ok(()),
                _ => Err(e),
            })?,
        5 => log.set_meta(b"something of the owner's")?,
        _ => {
            let within = std::time::Duration::MAX / 8;
            let done = log.commit_with(&data, Policy::Interval { within })?;
            world.acknowledged(&done, &data);
        }
    }
    Ok(())
}

/// Clones are used, closed and dropped at once. Every call returns, and nothing is in flight when the first
/// close returns.
#[test]
fn closing() {
    explore("closing", || {
        let world = World::new();
        let log = world.open(options().buffer_size(8 << 10).method(pick(&METHODS)));
        let from = log.durable_lsn();
        let mut threads: Vec<_> = (0..2)
            .map(|n| {
                let log = log.clone();
                world.spawn(move |world| {
                    for i in 0..2 {
                        if let Err(e) = busy(world, &log, 10 * n + i) {
                            allowed(&e, &[ErrorKind::Closed]);
                            return;
                        }
                    }
                })
            })
            .collect();
        if one_in(2) {
            let (log, tasks) = (log.clone(), one_in(2));
            threads.push(world.spawn(move |world| {
                follow(world, &log, from, tasks);
            }));
        }
        if one_in(2) {
            let log = log.clone();
            threads.push(world.spawn(move |world| {
                world.close(log).expect("nothing fails");
            }));
        }
        for _ in 0..below(4) {
            point(&world);
        }
        world.close(log).expect("nothing fails");
        for thread in threads {
            thread.join().expect("no thread panics");
        }
        // The lock was released, and all records exist.
        if one_in(4) {
            let again = world.open(options());
            assert!(again.recovered().clean);
            world.close(again).expect("nothing fails");
        }
    });
}

/// The log is closed while its writing thread is about to write an idle stamp. The close comes last, and the
/// next opening sees a clean close.
#[test]
fn closing_an_idle_log() {
    explore("closing_an_idle_log", || {
        let world = World::new();
        let idle = options().idle_stamp(std::time::Duration::from_micros(1));
        let log = world.open(idle.method(pick(&METHODS)));
        let done = log.commit(&record(100, 40)).expect("there is space");
        world.acknowledged(&done, &record(100, 40));
        for _ in 0..below(4) {
            point(&world);
        }
        world.close(log).expect("nothing fails");
        let again = world.open(options());
        assert!(again.recovered().clean);
        world.close(again).expect("nothing fails");
    });
}

/// Dropping the last clone also closes the log and releases the lock.
#[test]
fn dropping() {
    explore("dropping", || {
        let world = World::new();
        let log = world.open(options().method(pick(&METHODS)));
        let threads: Vec<_> = (0..2)
            .map(|n| {
                let log = log.clone();
                world.spawn(move |world| {
                    busy(world, &log, n).expect("no thread closes it");
                    drop(log);
                })
            })
            .collect();
        let handle = log
            .submit(&record(100, 40), Policy::Force)
            .expect("there is space");
        drop(log);
        for thread in threads {
            thread.join().expect("no thread panics");
        }
        // The handle outlives the log.
        let done = world.block_on(handle).expect("nothing fails");
        world.acknowledged(&done, &record(100, 40));
        let again = world.open(options());
        assert!(again.recovered().clean);
        world.close(again).expect("nothing fails");
    });
}
