//! Power cuts at every operation, and random runs with cuts, held snapshots and full disks: a page file
//! shows exactly the state after one of its commits, not older than the last acknowledged one.

use crate::common::{MODES, disk, open, options};
use crate::states::{State, Step, random_steps, take};
use logforce_core::Policy;
use logforce_pages::{CommitMode, ErrorKind, PageFile, Result, Snapshot};
use logforce_testkit::{Fault, Rng, SimDisk, SimRuntime};
use std::collections::BTreeMap;
use std::time::Duration;

/// What a run knows: the state after each commit, by its number.
struct Known {
    history: BTreeMap<u64, State>,
    acknowledged: u64,
}

impl Known {
    fn new() -> Known {
        Known {
            history: [(0, State::default())].into(),
            acknowledged: 0,
        }
    }

    fn latest(&self) -> &State {
        self.history.last_key_value().unwrap().1
    }

    /// Compares a snapshot with the state after its commit.
    fn check(&self, snapshot: &Snapshot, what: &str) -> Result<()> {
        let shown = State::of(snapshot)?;
        let commit = snapshot.commit();
        let expected = self.history.get(&commit);
        let expected = expected.unwrap_or_else(|| panic!("{what}: commit {commit} never was"));
        if let Some(difference) = shown.difference(expected) {
            panic!("{what}: commit {commit}: {difference}");
        }
        Ok(())
    }

    /// What a page file shows after a crash: from now on that is the history.
    fn recovered(&mut self, file: &PageFile, what: &str) -> Result<()> {
        let snapshot = file.snapshot()?;
        self.check(&snapshot, what)?;
        let commit = snapshot.commit();
        assert!(
            commit >= self.acknowledged,
            "{what}: commit {} was acknowledged, and {commit} is the last",
            self.acknowledged
        );
        assert_eq!(file.latest()?.commit(), commit, "{what}");
        self.history.retain(|number, _| *number <= commit);
        self.acknowledged = commit;
        Ok(())
    }
}

/// One commit of the model's and the file's. The steps count as committed if it may have been.
fn commit(file: &PageFile, known: &mut Known, steps: &[Step], policy: Policy) -> Result<()> {
    let mut txn = file.begin()?;
    take(&mut txn, steps)?;
    let next = known.latest().after(steps);
    let handle = txn.submit_with(policy)?;
    let before = known.history.insert(handle.commit(), next);
    assert!(before.is_none(), "two commits with one number");
    let done = handle.wait()?;
    if policy == Policy::Force {
        known.acknowledged = done.commit;
    }
    Ok(())
}

fn hold(snapshot: Snapshot) -> Result<(Snapshot, State)> {
    let shown = State::of(&snapshot)?;
    Ok((snapshot, shown))
}

fn still_shows((snapshot, before): &(Snapshot, State)) -> Result<()> {
    if let Some(difference) = State::of(snapshot)?.difference(before) {
        panic!(
            "a held snapshot of commit {} changed: {difference}",
            snapshot.commit()
        );
    }
    Ok(())
}

fn work(file: &PageFile, known: &mut Known, rng: &mut Rng, commits: u64) -> Result<()> {
    // With what each showed: a full disk may take a commit back that was not durable, and its number
    // is then another one's.
    let mut held: Vec<(Snapshot, State)> = Vec::new();
    for _ in 0..commits {
        let steps = random_steps(rng, known.latest().page_count);
        let policy = match rng.below(4) {
            0 => Policy::Interval {
                within: Duration::from_millis(1 + rng.below(20)),
            },
            _ => Policy::Force,
        };
        match commit(file, known, &steps, policy) {
            // Refused, or taken back with all that was committed on top of what is durable.
            Err(e) if e.kind() == ErrorKind::NoSpace => {
                let latest = file.latest()?.commit();
                known.history.retain(|number, _| *number <= latest);
            }
            other => other?,
        }
        match rng.below(12) {
            0 => held.push(hold(file.snapshot()?)?),
            1 => held.push(hold(file.latest()?)?),
            2 if !held.is_empty() => {
                let at = rng.below(held.len() as u64) as usize;
                still_shows(&held.swap_remove(at))?;
            }
            3 => match file.checkpoint() {
                Err(e) if e.kind() == ErrorKind::NoSpace => {}
                other => other?,
            },
            _ => {}
        }
    }
    held.iter().try_for_each(still_shows)
}

/// Works until `ends` says so, or to the end; then crashes, and opens again.
fn life(mode: CommitMode, disk: &SimDisk, known: &mut Known, seed: u64, commits: u64) {
    let mut rng = Rng::new(seed);
    let result = SimRuntime::run(seed, |rt| -> Result<()> {
        let file = open(rt, disk, options(mode))?;
        known.recovered(&file, &format!("seed {seed}"))?;
        work(&file, known, &mut rng, commits)?;
        if rng.one_in(2) {
            file.close()?;
            known.acknowledged = *known.history.last_key_value().unwrap().0;
        }
        Ok(())
    });
    if let Err(e) = result {
        assert!(disk.is_cut() || disk.ops() > 0, "seed {seed}: {e}");
        let injected = disk.is_cut() || e.kind() != ErrorKind::InvalidInput;
        assert!(injected, "seed {seed}: {e}");
    }
}

#[test]
fn a_power_cut_at_any_operation() {
    for mode in MODES {
        let whole = disk(1);
        life(mode, &whole, &mut Known::new(), 7, 30);
        let ops = whole.ops();
        assert!(ops > 50, "{ops}");
        for op in 0..ops {
            let disk = disk(1);
            disk.cut_at(op);
            let mut known = Known::new();
            life(mode, &disk, &mut known, 7, 30);
            disk.reboot(op);
            life(mode, &disk, &mut known, op, 3);
        }
    }
}

#[test]
fn random_runs() {
    let runs: u64 = std::env::var("LOGFORCE_SEEDS").map_or(150, |n| n.parse().unwrap());
    let one = std::env::var("LOGFORCE_SEED")
        .ok()
        .map(|s| s.parse().unwrap());
    for seed in one.map_or(0..runs, |seed: u64| seed..seed + 1) {
        for mode in MODES {
            run(mode, seed);
        }
    }
}

fn run(mode: CommitMode, seed: u64) {
    let mut rng = Rng::new(seed);
    let disk = disk(seed);
    let mut known = Known::new();
    for boot in 0..5 {
        if !rng.one_in(3) {
            disk.cut_at(rng.below(600));
        }
        if rng.one_in(4) {
            let fault = rng.pick(&[Fault::Io, Fault::Io, Fault::NoSpace]);
            disk.fail_at(rng.below(400), fault);
        }
        if rng.one_in(5) {
            disk.change(|o| o.capacity = Some(300 << 10));
        }
        life(mode, &disk, &mut known, seed * 10 + boot, 40);
        disk.change(|o| o.capacity = None);
        disk.reboot(seed ^ boot);
    }
    SimRuntime::run(seed, |rt| {
        let file = open(rt, &disk, options(mode)).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        known
            .recovered(&file, &format!("seed {seed}, at the end"))
            .unwrap();
        file.close().unwrap();
    });
}
