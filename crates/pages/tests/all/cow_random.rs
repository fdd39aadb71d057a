//! Random lives of a copy-on-write file, against a model: several threads, transactions of all kinds,
//! snapshots that are held, failures of the disk, power cuts, and the next life.

use crate::model::{Done, History, State, Step, look, perform, steps};
use logforce_core::{Guarantee, OpenMode, Policy};
use logforce_device::Runtime;
use logforce_pages::{CommitMode, Error, ErrorKind, Options, PageFile, Snapshot, WriteThrough};
use logforce_testkit::{Fault, Rng, SimDisk, SimOptions, SimRuntime};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What the threads of a life have noted down.
#[derive(Default)]
struct Notes {
    history: History,
    /// The highest commit that was acknowledged as durable.
    acknowledged: u64,
    /// Transactions of which nobody knows whether they are committed: their numbers are unknown.
    unknown: Vec<Done>,
    /// Snapshots: the commit and what they showed, to be compared when all numbers are known.
    seen: Vec<(u64, State, &'static str)>,
    stamp: u64,
}

struct Life {
    file: PageFile,
    notes: Mutex<Notes>,
    size: u32,
    /// The disk may be full: a commit that was only accepted may be taken back.
    may_be_full: bool,
}

impl Life {
    /// One thread's transactions.
    fn work(&self, seed: u64, count: u64) {
        let mut rng = Rng::new(seed);
        let mut held: Vec<(Snapshot, State)> = Vec::new();
        for _ in 0..count {
            match rng.below(10) {
                0 => {
                    let (view, kind) = match rng.one_in(2) {
                        true => (self.file.snapshot(), "a durable snapshot"),
                        false => (self.file.latest(), "a latest snapshot"),
                    };
                    let Ok(view) = view else { return };
                    let Some(state) = self.look(&view) else {
                        return;
                    };
                    self.note_view(&view, &state, kind);
                    held.push((view, state));
                }
                1 if !held.is_empty() => {
                    let nth = rng.below(held.len() as u64) as usize;
                    let (view, then) = held.swap_remove(nth);
                    let Some(now) = self.look(&view) else { return };
                    assert_eq!(now, then, "commit {} has changed", view.commit());
                }
                _ => {
                    if !self.transact(&mut rng) {
                        return;
                    }
                }
            }
        }
        for (view, then) in held {
            let Some(now) = self.look(&view) else { return };
            assert_eq!(now, then, "commit {} has changed", view.commit());
        }
    }

    /// What a view shows, unless reads fail because the power is cut: nothing is damaged.
    fn look(&self, view: &Snapshot) -> Option<State> {
        match State::of(view, self.size, "a view") {
            Ok(state) => Some(state),
            Err(e) => {
                assert_eq!(e.kind(), ErrorKind::Io, "{e}");
                None
            }
        }
    }

    fn note_view(&self, view: &Snapshot, state: &State, kind: &'static str) {
        let mut notes = self.notes.lock().unwrap();
        notes.seen.push((view.commit(), state.clone(), kind));
    }

    /// One transaction. `false`: the file has failed.
    fn transact(&self, rng: &mut Rng) -> bool {
        let Ok(mut tx) = self.file.begin() else {
            return false;
        };
        let steps = steps(rng, tx.page_count());
        let mut done = {
            let mut notes = self.notes.lock().unwrap();
            notes.stamp += 1;
            Done::new(notes.stamp, &steps)
        };
        let built =
            look(&tx, &mut done, self.size).and_then(|()| perform(&mut tx, &done, self.size));
        if let Err(e) = built {
            assert_eq!(e.kind(), ErrorKind::Io, "{e}");
            return false;
        }
        let within = Duration::from_micros(rng.below(2000));
        let policy = match rng.below(6) {
            0 if !self.may_be_full => Policy::Interval { within },
            1 if !self.may_be_full => Policy::Write {
                force_within: within,
            },
            _ => Policy::Force,
        };
        let result = if rng.one_in(2) {
            match tx.submit_with(policy) {
                Ok(handle) => {
                    let number = handle.commit();
                    let mut notes = self.notes.lock().unwrap();
                    notes.history.done.insert(number, done.clone());
                    drop(notes);
                    if !self.may_be_full && rng.one_in(8) {
                        // Nobody waits for it, and it is carried out.
                        return true;
                    }
                    let result = handle.wait();
                    if let Err(Error::NoSpace { .. }) = &result {
                        let mut notes = self.notes.lock().unwrap();
                        notes.history.done.remove(&number);
                    }
                    result
                }
                Err(e) => Err(e),
            }
        } else {
            tx.commit_with(policy)
        };
        let mut notes = self.notes.lock().unwrap();
        match result {
            Ok(committed) => {
                notes.history.done.insert(committed.commit, done);
                match committed.guarantee {
                    Guarantee::PowerLoss => {
                        notes.acknowledged = notes.acknowledged.max(committed.commit);
                    }
                    other => {
                        assert_eq!(other, Guarantee::Nothing);
                        assert_ne!(policy, Policy::Force);
                    }
                }
                true
            }
            Err(e) => match e.kind() {
                ErrorKind::Conflict => true,
                ErrorKind::NoSpace => {
                    assert!(self.may_be_full, "{e}");
                    true
                }
                // Reading what the commit builds on, and then it was not accepted; or writing.
                ErrorKind::Poisoned | ErrorKind::Io => {
                    if !notes.history.done.values().any(|d| d.stamp == done.stamp) {
                        notes.unknown.push(done);
                    }
                    false
                }
                _ => panic!("{e}"),
            },
        }
    }
}

/// The state after `commit`, which the file shows as `found`: with those transactions of unknown
/// outcome in the gaps that make it so. `None` if none do.
fn explain(notes: &Notes, commit: u64, found: &State) -> Option<History> {
    let known = &notes.history;
    if known.at(commit) == *found {
        return Some(known.clone());
    }
    let gaps: Vec<u64> = (known.base_commit + 1..=commit)
        .filter(|n| !known.done.contains_key(n))
        .collect();
    fn fill(
        history: &History,
        left: &[Done],
        gaps: &[u64],
        commit: u64,
        found: &State,
    ) -> Option<History> {
        let [first, left @ ..] = left else {
            return (history.at(commit) == *found).then(|| history.clone());
        };
        let absent = fill(history, left, gaps, commit, found);
        absent.or_else(|| {
            gaps.iter().find_map(|gap| {
                let mut with = history.clone();
                if with.done.contains_key(gap) {
                    return None;
                }
                with.done.insert(*gap, first.clone());
                fill(&with, left, gaps, commit, found)
            })
        })
    }
    // The last ones: earlier gaps are of commits that were refused for lack of space.
    let gaps = &gaps[gaps.len().saturating_sub(6)..];
    fill(known, &notes.unknown, gaps, commit, found)
}

fn options(rng: &mut Rng) -> Options {
    let mut options = Options::new()
        .mode(CommitMode::CopyOnWrite)
        .page_size(rng.pick(&[512, 512, 4096, 4096, 16384, 65536]))
        .checksums(rng.one_in(2))
        .cache(rng.pick(&[0, 64 << 10, 1 << 20, 256 << 20]))
        .writers(rng.pick(&[1, 2, 4]));
    if rng.one_in(2) {
        options = options.write_through(WriteThrough {
            runs: rng.below(6) as usize,
            bytes: rng.pick(&[0, 8192, 1 << 20]),
        });
    }
    options
}

/// Some lives of one file. Returns how many ended in a failure of some kind.
fn lives(seed: u64) -> u64 {
    let mut rng = Rng::new(seed);
    let disk = SimDisk::new(
        SimOptions {
            capacity: rng.one_in(3).then(|| (400 << 10) + rng.below(1 << 20)),
            ..SimOptions::random(rng.bits())
        },
        rng.bits(),
    );
    let may_be_full = disk.options().capacity.is_some();
    let first = options(&mut rng);
    let mut base = State::default();
    let mut base_commit = 0;
    let mut failures = 0;
    let mut stamp = 0;
    for life in 0..rng.below(4) + 2 {
        let what = format!("seed {seed}, life {life}");
        // The disk may be full from the start on; what was fixed at creation stays.
        let plan = rng.below(5);
        let at = rng.below(400);
        match plan {
            0 | 1 => disk.cut_at(at),
            2 => disk.fail_at(at, Fault::Io),
            3 if may_be_full => disk.fail_at(at, Fault::NoSpace),
            _ => {}
        }
        let threads = rng.below(4) + 1;
        let count = rng.below(30) + 1;
        let (life_seed, closes) = (rng.bits(), rng.one_in(2));
        let notes = SimRuntime::run(rng.bits(), |rt| {
            let system = disk.system(rt);
            let opened = PageFile::open(&*system, "/db", OpenMode::OpenOrCreate, first.clone());
            let file = match opened {
                Ok(file) => file,
                Err(e) => {
                    let kind = e.kind();
                    // A fault hit the opening, or there is no room for a new file.
                    let is_expected = matches!(kind, ErrorKind::Io);
                    assert!(is_expected, "{what}: {e}\n{}", disk.log());
                    return None;
                }
            };
            let size = file.page_size();
            let snapshot = file.snapshot().unwrap();
            if let Ok(found) = State::of(&snapshot, size, &what) {
                assert_eq!(found, base, "{what}: at its opening\n{}", disk.log());
                assert_eq!(snapshot.commit(), base_commit, "{what}");
            }
            drop(snapshot);
            let life = Arc::new(Life {
                file,
                size,
                may_be_full,
                notes: Mutex::new(Notes {
                    history: History {
                        base: base.clone(),
                        base_commit,
                        ..History::default()
                    },
                    stamp,
                    ..Notes::default()
                }),
            });
            let threads: Vec<_> = (0..threads)
                .map(|n| {
                    let life = life.clone();
                    let body = Box::new(move || life.work(life_seed ^ n, count));
                    rt.spawn("worker", body).unwrap()
                })
                .collect();
            for thread in threads {
                thread.join().unwrap();
            }
            let closed = closes.then(|| life.file.clone().close());
            if let Some(Ok(())) = closed {
                // Closing has made everything durable.
                let mut notes = life.notes.lock().unwrap();
                let last = notes.history.done.keys().next_back().copied();
                notes.acknowledged = notes.acknowledged.max(last.unwrap_or(0));
            }
            if !closes {
                // Killed: the file is not closed in an orderly way, and its threads must end.
                disk.cut();
            }
            let notes = std::mem::take(&mut *life.notes.lock().unwrap());
            Some(notes)
        });
        let had_trouble = disk.is_cut() || disk.barrier_failed();
        failures += u64::from(had_trouble);
        let reboot = rng.bits();
        disk.reboot(reboot);
        // An opening that is cut off is another crash.
        if rng.one_in(4) {
            disk.cut_at(rng.below(12));
            SimRuntime::run(rng.bits(), |rt| {
                let system = disk.system(rt);
                let _ = PageFile::open(&*system, "/db", OpenMode::OpenOrCreate, first.clone());
            });
            disk.reboot(rng.bits());
        }
        let notes = notes.unwrap_or_else(|| Notes {
            history: History {
                base: base.clone(),
                base_commit,
                ..History::default()
            },
            stamp,
            ..Notes::default()
        });
        stamp = notes.stamp;
        let log = disk.log();
        (base, base_commit) = SimRuntime::run(rng.bits(), |rt| {
            let system = disk.system(rt);
            disk.change(|o| o.capacity = o.capacity.map(|c| c + (300 << 10)));
            let opened = PageFile::open(&*system, "/db", OpenMode::OpenOrCreate, first.clone());
            let file = opened.unwrap_or_else(|e| panic!("{what}: {e}\n{log}"));
            let snapshot = file.snapshot().unwrap();
            let commit = snapshot.commit();
            let found = State::of(&snapshot, file.page_size(), &what);
            let found = found.unwrap_or_else(|e| panic!("{what}: {e}\n{log}"));
            assert!(
                commit >= notes.acknowledged,
                "{what}: commit {} was acknowledged, and {commit} is the last one\n{log}",
                notes.acknowledged
            );
            let explained = explain(&notes, commit, &found);
            let Some(history) = explained else {
                panic!(
                    "{what}: no prefix of the commits is what commit {commit} holds:\n{found:?}\nand not\n{:?}\n{:#?}\n{log}",
                    notes.history.at(commit),
                    notes.unknown
                );
            };
            // What snapshots showed, where all numbers up to theirs are known.
            let known = history.done.range(..=commit).map(|(number, _)| *number);
            let known: BTreeSet<u64> = known.collect();
            if known.len() as u64 == commit - base_commit {
                let mut history = history.clone();
                history.done.retain(|number, _| *number <= commit);
                history.check_isolation(&what);
            }
            for (number, state, kind) in &notes.seen {
                let is_known =
                    may_be_full || (base_commit + 1..=*number).all(|n| known.contains(&n));
                if is_known && !may_be_full {
                    assert_eq!(*state, history.at(*number), "{what}: {kind} of {number}");
                }
                if kind.contains("durable") {
                    assert!(
                        *number <= commit,
                        "{what}: {kind} of {number}, {commit} is left"
                    );
                }
            }
            file.close().unwrap();
            (found, commit)
        });
    }
    failures
}

#[test]
fn random_lives() {
    let seeds = 0..std::env::var("PAGES_SEEDS").map_or(300, |n| n.parse().unwrap());
    let failures: u64 = seeds.clone().map(lives).sum();
    assert!(
        failures > (seeds.end - seeds.start) / 4,
        "{failures} lives ended in trouble"
    );
}

/// The model itself: a step more or less is seen.
#[test]
fn the_model_tells_states_apart() {
    let mut history = History::default();
    let done = Done::new;
    history.done.insert(1, done(1, &[Step::Write(3)]));
    history
        .done
        .insert(2, done(2, &[Step::Write(3), Step::Write(4)]));
    history
        .done
        .insert(3, done(3, &[Step::Count(4), Step::Count(9)]));
    assert_eq!(
        history.at(3).pages.into_iter().collect::<Vec<_>>(),
        [(3, 2)]
    );
    assert_eq!(history.at(3).count, 9);
    assert_ne!(history.at(1), history.at(2));
    let notes = Notes {
        unknown: vec![history.done.remove(&2).unwrap()],
        history,
        ..Notes::default()
    };
    let mut found = State {
        count: 9,
        ..State::default()
    };
    found.pages.insert(3, 2);
    assert!(explain(&notes, 3, &found).is_some());
    found.pages.insert(3, 1);
    assert!(explain(&notes, 3, &found).is_some());
    found.pages.insert(3, 9);
    assert!(explain(&notes, 3, &found).is_none());
}

/// Views of what is committed and on its way to the file, held while it gets there, is freed, and
/// written over.
#[test]
fn views_of_what_is_in_flight_stay_as_they_are() {
    for seed in 0..30 {
        let disk = SimDisk::new(
            SimOptions {
                log_lines: 0,
                ..SimOptions::default()
            },
            seed,
        );
        SimRuntime::run(seed, |rt| {
            let options = Options::new()
                .mode(CommitMode::CopyOnWrite)
                .page_size(4096)
                .writers(1)
                .cache(0);
            let system = disk.system(rt);
            let file = PageFile::open(&*system, "/db", OpenMode::CreateNew, options).unwrap();
            let size = file.page_size();
            let threads: Vec<_> = (0..4u64)
                .map(|thread| {
                    let file = file.clone();
                    let body = move || {
                        let mut rng = Rng::new(seed * 100 + thread);
                        let mut held: std::collections::VecDeque<(Snapshot, State)> =
                            Default::default();
                        for n in 0..60 {
                            let mut tx = file.begin().unwrap();
                            let page = thread * 3 + rng.below(3);
                            let done = Done::new(thread * 1000 + n + 1, &[Step::Write(page)]);
                            perform(&mut tx, &done, size).unwrap();
                            tx.submit().unwrap().wait().unwrap();
                            if rng.one_in(4) {
                                let view = file.latest().unwrap();
                                let state = State::of(&view, size, "at first").unwrap();
                                held.push_back((view, state));
                            }
                            if held.len() > 3 {
                                let (view, then) = held.pop_front().unwrap();
                                let now = State::of(&view, size, "later").unwrap();
                                assert_eq!(now, then, "seed {seed}");
                            }
                        }
                    };
                    rt.spawn("holder", Box::new(body)).unwrap()
                })
                .collect();
            for thread in threads {
                thread.join().unwrap();
            }
        });
    }
}
