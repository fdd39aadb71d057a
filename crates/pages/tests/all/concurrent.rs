//! Several threads that commit, read and hold snapshots at once, with power cuts: whatever anybody was
//! shown is the state after some commit, in one order that all agree on.

use crate::common::{MODES, disk, open, options};
use crate::states::{State, Step, random_steps, take};
use logforce_core::Policy;
use logforce_device::Runtime;
use logforce_pages::{CommitMode, ErrorKind, PageFile, Result, Snapshot};
use logforce_testkit::{Rng, SimDisk, SimRuntime};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What the threads report; looked at when all have ended.
#[derive(Default)]
struct Seen {
    /// What each commit did, by its number.
    commits: BTreeMap<u64, Vec<Step>>,
    acknowledged: u64,
    /// What snapshots showed, with the number of their last commit.
    shown: Vec<(u64, State)>,
    conflicts: u64,
}

fn work(file: &PageFile, seen: &Mutex<Seen>, rng: &mut Rng) -> Result<()> {
    let mut held: Vec<Snapshot> = Vec::new();
    for _ in 0..12 {
        let mut txn = file.begin()?;
        let steps = random_steps(rng, txn.page_count());
        take(&mut txn, &steps)?;
        if rng.one_in(8) {
            show(&file.latest()?, seen)?;
        }
        let policy = match rng.below(3) {
            0 => Policy::Interval {
                within: Duration::from_millis(5),
            },
            _ => Policy::Force,
        };
        match txn.submit_with(policy) {
            Ok(handle) => {
                let commit = handle.commit();
                let before = seen.lock().unwrap().commits.insert(commit, steps);
                assert!(before.is_none(), "two commits have the number {commit}");
                handle.wait()?;
                if policy == Policy::Force {
                    let mut seen = seen.lock().unwrap();
                    seen.acknowledged = seen.acknowledged.max(commit);
                }
            }
            Err(e) if e.kind() == ErrorKind::Conflict => seen.lock().unwrap().conflicts += 1,
            Err(e) => return Err(e),
        }
        match rng.below(8) {
            0 => held.push(file.snapshot()?),
            1 if !held.is_empty() => show(&held.swap_remove(0), seen)?,
            2 => file.checkpoint()?,
            _ => {}
        }
    }
    held.iter().try_for_each(|s| show(s, seen))
}

fn show(snapshot: &Snapshot, seen: &Mutex<Seen>) -> Result<()> {
    let state = State::of(snapshot)?;
    seen.lock().unwrap().shown.push((snapshot.commit(), state));
    Ok(())
}

/// The states after the commits, from the first on; none may be missing.
fn history(seen: &Seen, first: State) -> Vec<State> {
    let mut history = vec![first];
    for (number, steps) in &seen.commits {
        assert_eq!(*number, history.len() as u64, "a number without a commit");
        let next = history.last().unwrap().after(steps);
        history.push(next);
    }
    history
}

fn check(history: &[State], commit: u64, state: &State, what: &str) {
    let expected = history.get(commit as usize);
    let expected = expected.unwrap_or_else(|| panic!("{what}: commit {commit} never was"));
    if let Some(difference) = state.difference(expected) {
        panic!("{what}: commit {commit}: {difference}");
    }
}

/// One file, one boot of several threads, a cut, and what is there afterwards.
fn run(mode: CommitMode, seed: u64) -> u64 {
    let mut rng = Rng::new(seed);
    let disk: SimDisk = disk(seed);
    let seen = Arc::new(Mutex::new(Seen::default()));
    if !rng.one_in(3) {
        disk.cut_at(200 + rng.below(1500));
    }
    SimRuntime::run(seed, |rt| {
        let Ok(file) = open(rt, &disk, options(mode)) else {
            return;
        };
        let threads: Vec<_> = (0..3)
            .map(|n| {
                let (file, seen) = (file.clone(), seen.clone());
                let mut rng = Rng::new(seed * 7 + n);
                let disk = disk.clone();
                let body = move || {
                    if let Err(e) = work(&file, &seen, &mut rng) {
                        assert!(disk.is_cut(), "seed {seed}: {e}");
                    }
                };
                rt.spawn("committer", Box::new(body)).unwrap()
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        let closed = file.close();
        assert!(closed.is_ok() || disk.is_cut(), "seed {seed}: {closed:?}");
    });
    disk.reboot(seed);
    let seen = seen.lock().unwrap();
    let history = history(&seen, State::default());
    for (commit, state) in &seen.shown {
        check(&history, *commit, state, &format!("seed {seed}, shown"));
    }
    SimRuntime::run(seed, |rt| {
        let file = open(rt, &disk, options(mode)).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        let snapshot = file.snapshot().unwrap();
        let (commit, acknowledged) = (snapshot.commit(), seen.acknowledged);
        assert!(
            commit >= acknowledged,
            "seed {seed}: {commit} of {acknowledged}"
        );
        let state = State::of(&snapshot).unwrap();
        check(&history, commit, &state, &format!("seed {seed}, recovered"));
    });
    seen.conflicts
}

#[test]
fn several_threads() {
    let runs: u64 = std::env::var("LOGFORCE_SEEDS").map_or(150, |n| n.parse().unwrap());
    let one = std::env::var("LOGFORCE_SEED")
        .ok()
        .map(|s| s.parse().unwrap());
    for mode in MODES {
        let mut conflicts = 0;
        for seed in one.map_or(0..runs, |seed: u64| seed..seed + 1) {
            conflicts += run(mode, seed);
        }
        assert!(conflicts > 0 || one.is_some(), "no two transactions met");
    }
}
