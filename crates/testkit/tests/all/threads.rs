//! Tests of the scheduler: order from a seed, simulated time, deadlocks, panics, and planted races in a toy
//! group commit.

use logforce_device::{AlignedBuf, Barrier, File, JoinHandle, OpenFile, Runtime, Write};
use logforce_testkit::{SimDisk, SimOptions, SimRuntime};
use std::collections::BTreeSet;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn spawn(rt: &SimRuntime, name: &str, body: impl FnOnce() + Send + 'static) -> Box<dyn JoinHandle> {
    rt.spawn(name, Box::new(body)).unwrap()
}

fn panic_text(body: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(body)).expect_err("a panic was expected");
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|s| s.to_string()))
        .unwrap()
}

/// Runs three threads that count with a race. Returns the counts that they saw, and the schedule's
/// fingerprint.
fn race(seed: u64) -> (Vec<u32>, u32, u64) {
    SimRuntime::run(seed, |rt| {
        let (count, seen) = (
            Arc::new(AtomicU32::new(0)),
            Arc::new(Mutex::new(Vec::new())),
        );
        let threads: Vec<_> = (0..3)
            .map(|i| {
                let (rt2, count, seen) = (rt.clone(), count.clone(), seen.clone());
                spawn(rt, &format!("t{i}"), move || {
                    for _ in 0..2 {
                        let old = count.load(SeqCst);
                        rt2.point();
                        count.store(old + 1, SeqCst);
                        seen.lock().unwrap().push(10 * i + old);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
        let seen = seen.lock().unwrap().clone();
        (seen, count.load(SeqCst), rt.steps())
    })
}

#[test]
fn the_order_follows_from_the_seed_and_covers_much() {
    let mut orders = BTreeSet::new();
    let mut counts = BTreeSet::new();
    for seed in 0..500 {
        let run = race(seed);
        assert_eq!(run, race(seed));
        counts.insert(run.1);
        orders.insert(run.0);
    }
    assert!(orders.len() > 100, "{} orders", orders.len());
    assert!(counts.contains(&6) && counts.contains(&2), "{counts:?}");
}

#[test]
fn time_jumps_to_the_next_timeout() {
    SimRuntime::run(3, |rt| {
        let start = rt.now();
        rt.sleep(Duration::from_secs(3600));
        let passed = rt.now() - start;
        assert!(passed >= Duration::from_secs(3600) && passed < Duration::from_secs(3601));
        let rt2 = rt.clone();
        let sleeper = spawn(rt, "sleeper", move || rt2.sleep(Duration::from_secs(60)));
        sleeper.join().unwrap();
        assert!(rt.now() - start >= Duration::from_secs(3660));
        assert_ne!(rt.random(), rt.random());
        let before = rt.process();
        rt.set_process(77);
        assert!(before != 77 && rt.process() == 77);
    });
}

#[test]
fn wake_one_wakes_one_and_wake_all_all() {
    for seed in 0..200 {
        SimRuntime::run(seed, |rt| {
            let word = Arc::new(AtomicU32::new(0));
            let threads: Vec<_> = (0..3)
                .map(|_| {
                    let (rt2, word) = (rt.clone(), word.clone());
                    spawn(rt, "waiter", move || {
                        // Each thread takes one token; a lost wake-up would be a deadlock.
                        loop {
                            match word.load(SeqCst) {
                                0 => rt2.wait(&word, 0, None),
                                n => break word.store(n - 1, SeqCst),
                            }
                        }
                    })
                })
                .collect();
            if seed % 2 == 0 {
                word.store(3, SeqCst);
                rt.wake_all(&word);
            } else {
                for _ in 0..3 {
                    word.fetch_add(1, SeqCst);
                    rt.wake_one(&word);
                }
            }
            threads.into_iter().for_each(|t| t.join().unwrap());
        });
    }
}

#[test]
fn a_deadlock_names_the_threads() {
    let text = panic_text(|| {
        SimRuntime::run(1, |rt| {
            let rt2 = rt.clone();
            let stuck = spawn(rt, "stuck-one", move || {
                loop {
                    rt2.wait(&AtomicU32::new(0), 0, None);
                }
            });
            stuck.join().unwrap();
        })
    });
    assert!(
        text.contains("deadlock") && text.contains("stuck-one: waits on word"),
        "{text}"
    );
    assert!(text.contains("main: joins stuck-one"), "{text}");
}

#[test]
fn threads_left_behind_are_named() {
    let text = panic_text(|| {
        SimRuntime::run(1, |rt| {
            let rt2 = rt.clone();
            spawn(rt, "forgotten", move || {
                loop {
                    rt2.wait(&AtomicU32::new(0), 0, None);
                }
            });
        })
    });
    assert!(
        text.contains("closure had returned") && text.contains("forgotten"),
        "{text}"
    );
    let text = panic_text(|| {
        SimRuntime::run(1, |rt| {
            let rt2 = rt.clone();
            spawn(rt, "ticker", move || {
                loop {
                    rt2.sleep(Duration::from_millis(1));
                }
            });
        })
    });
    assert!(
        text.contains("no end after") && text.contains("ticker"),
        "{text}"
    );
}

#[test]
fn the_first_panic_is_passed_on() {
    for seed in 0..20 {
        // Main waits for ever for the thread that has panicked: the run reports the thread's panic.
        let text = panic_text(|| {
            SimRuntime::run(seed, |rt| {
                spawn(rt, "bad", || panic!("first of all"));
                let word = AtomicU32::new(0);
                loop {
                    rt.wait(&word, 0, None);
                }
            })
        });
        assert_eq!(text, "first of all");
    }
    // A panic of main while another thread waits, and a panic that the test tolerates.
    let text = panic_text(|| {
        SimRuntime::run(1, |rt| {
            let rt2 = rt.clone();
            spawn(rt, "waits", move || {
                loop {
                    rt2.wait(&AtomicU32::new(0), 0, None);
                }
            });
            panic!("the test's own");
        })
    });
    assert_eq!(text, "the test's own");
    SimRuntime::run(1, |rt| {
        rt.tolerate_panics();
        assert!(spawn(rt, "bad", || panic!("expected")).join().is_err());
    });
}

#[test]
fn a_destructor_may_wait_while_unwinding() {
    struct Waits(SimRuntime);
    impl Drop for Waits {
        fn drop(&mut self) {
            // Does the same as a log's drop: starts a call, wakes a thread, waits a while, joins.
            let word = AtomicU32::new(0);
            self.0.wake_all(&word);
            self.0.wait(&word, 0, None);
            let _ = self.0.spawn("late", Box::new(|| ())).map(|t| t.join());
        }
    }
    let text = panic_text(|| {
        SimRuntime::run(1, |rt| {
            let _waits = Waits(rt.clone());
            loop {
                rt.wait(&AtomicU32::new(0), 0, None);
            }
        })
    });
    assert!(text.contains("deadlock"), "{text}");
}

/// A mistake in a group commit.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Race {
    None,
    /// The watermark is read after the barrier, so it wrongly covers writes that happened meanwhile.
    WatermarkAfterBarrier,
    /// The word is read after the state was checked, so a wake-up in between is lost.
    LostWakeup,
    /// The watermark counts written blocks instead of the prefix without a gap.
    GapInPrefix,
}

#[derive(Default)]
struct Group {
    next: u64,
    written: BTreeSet<u64>,
    durable: u64,
    forcing: bool,
    failed: bool,
}

struct Committer {
    rt: SimRuntime,
    file: Arc<dyn File>,
    state: Mutex<Group>,
    word: AtomicU32,
    acked: AtomicU64,
    race: Race,
}

const UNIT: usize = 4096;

impl Committer {
    fn commit(&self) -> io::Result<()> {
        let n = {
            let mut s = self.state.lock().unwrap();
            s.next += 1;
            s.next - 1
        };
        let mut buf = AlignedBuf::zeroed(UNIT, UNIT);
        buf.fill(n as u8 + 1);
        let write = Write {
            offset: n * UNIT as u64,
            buf,
            range: 0..UNIT,
            through: false,
        };
        let ticket = self.file.submit(write);
        let written = self.file.complete(ticket).result;
        let mut s = self.state.lock().unwrap();
        s.failed |= written.is_err();
        s.written.insert(n);
        drop(s);
        self.force(n)
    }

    fn force(&self, n: u64) -> io::Result<()> {
        loop {
            let mut seen = self.word.load(SeqCst);
            let mut s = self.state.lock().unwrap();
            if s.failed {
                drop(s);
                self.word.fetch_add(1, SeqCst);
                self.rt.wake_all(&self.word);
                return Err(io::Error::other("failed"));
            }
            if s.durable > n {
                self.acked.fetch_max(n + 1, SeqCst);
                return Ok(());
            }
            let gap = self.prefix(&s) <= n;
            if s.forcing || gap {
                drop(s);
                if self.race == Race::LostWakeup {
                    self.rt.point();
                    seen = self.word.load(SeqCst);
                }
                self.rt.wait(&self.word, seen, None);
                continue;
            }
            s.forcing = true;
            let mut up_to = self.prefix(&s);
            drop(s);
            let forced = self.file.barrier(Barrier::Data);
            let mut s = self.state.lock().unwrap();
            if self.race == Race::WatermarkAfterBarrier {
                up_to = self.prefix(&s);
            }
            s.forcing = false;
            match forced {
                Ok(()) => s.durable = s.durable.max(up_to),
                Err(_) => s.failed = true,
            }
            drop(s);
            self.word.fetch_add(1, SeqCst);
            self.rt.wake_all(&self.word);
        }
    }

    fn prefix(&self, s: &Group) -> u64 {
        if self.race == Race::GapInPrefix {
            return s.written.last().map_or(0, |n| n + 1);
        }
        (s.durable..)
            .find(|n| !s.written.contains(n))
            .expect("endless")
    }
}

/// Cuts the power while threads commit. Returns true if all acknowledged blocks are there.
fn group_commit(seed: u64, race: Race) -> bool {
    group_commit_on(&SimDisk::new(SimOptions::random(seed), seed), seed, race)
}

fn group_commit_on(disk: &SimDisk, seed: u64, race: Race) -> bool {
    disk.cut_at(3 + seed % 40);
    let acked = SimRuntime::run(seed, |rt| {
        let make = || {
            let dir = disk.system(rt).make_directory(Path::new("/log"))?;
            let file = dir.open("a", OpenFile::CREATE)?;
            dir.sync()?;
            io::Result::Ok(file)
        };
        let Ok(file) = make() else { return 0 };
        let (state, word, acked) = Default::default();
        let all = Arc::new(Committer {
            rt: rt.clone(),
            file,
            state,
            word,
            acked,
            race,
        });
        let threads: Vec<_> = (0..3)
            .map(|i| {
                let all = all.clone();
                spawn(rt, &format!("committer {i}"), move || {
                    let _ = (0..3).try_for_each(|_| all.commit());
                })
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
        all.acked.load(SeqCst)
    });
    disk.reboot(seed);
    let bytes = disk.file_bytes("/log", "a").unwrap_or_default();
    (0..acked as usize).all(|n| {
        let block = bytes.get(n * UNIT..(n + 1) * UNIT);
        block.is_some_and(|b| b.iter().all(|b| *b == n as u8 + 1))
    })
}

#[test]
fn a_correct_group_commit_passes() {
    for seed in 0..2000 {
        assert!(group_commit(seed, Race::None), "seed {seed}");
    }
}

#[test]
fn one_seed_gives_one_history() {
    let history = |seed| {
        let disk = SimDisk::new(SimOptions::random(seed), seed);
        group_commit_on(&disk, seed, Race::None);
        (disk.log(), disk.file_bytes("/log", "a"))
    };
    for seed in 0..100 {
        assert_eq!(history(seed), history(seed));
    }
    assert!(
        history(39).0.contains("committer 2: submit a["),
        "{}",
        history(39).0
    );
}

#[test]
fn planted_races_are_found() {
    for race in [
        Race::WatermarkAfterBarrier,
        Race::GapInPrefix,
        Race::LostWakeup,
    ] {
        let found = (0..1000).find(|&seed| {
            let run = catch_unwind(|| group_commit(seed, race));
            if race == Race::LostWakeup {
                run.is_err()
            } else {
                !run.unwrap()
            }
        });
        println!("{race:?}: {found:?}");
        assert!(found.is_some(), "{race:?} was not found");
    }
}
