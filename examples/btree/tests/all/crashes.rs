//! Power cuts at any operation of the simulated disk. The state afterwards is that of one of the
//! commits, and not older than the last acknowledged one.

use crate::common::{Map, open_simulated, try_shown};
use logforce_btree::{Result, Tree};
use logforce_testkit::{Rng, SimDisk, SimOptions, SimRuntime};
use std::collections::BTreeMap;

/// States after each commit, by its number, and the last acknowledged commit.
struct Known {
    history: BTreeMap<u64, Map>,
    acknowledged: u64,
}

impl Known {
    fn recovered(&mut self, tree: &Tree, what: &str) -> Result<()> {
        let view = tree.snapshot()?;
        let (shown, commit) = (try_shown(&view)?, view.commit());
        if self.history.is_empty() {
            // State after the commit that creates the tree.
            assert!(shown.is_empty(), "{what}");
            self.history.insert(commit, shown);
            return Ok(());
        }
        assert!(commit >= self.acknowledged, "{what}: {commit} is the last");
        assert!(self.history.get(&commit) == Some(&shown), "{what}");
        self.history.retain(|number, _| *number <= commit);
        Ok(())
    }

    fn last(&self) -> Map {
        self.history.last_key_value().unwrap().1.clone()
    }
}

/// Makes many commits, some of them in flight at the same time.
fn work(tree: &Tree, known: &mut Known, rng: &mut Rng, commits: u64) -> Result<()> {
    let mut handles = Vec::new();
    for _ in 0..commits {
        let mut write = tree.begin()?;
        let mut next = known.last();
        for _ in 0..1 + rng.below(12) {
            let key = format!("{:04}", rng.below(150)).into_bytes();
            if rng.one_in(3) {
                write.delete(&key)?;
                next.remove(&key);
            } else {
                let len = match rng.one_in(10) {
                    true => rng.below(2000),
                    false => rng.below(60),
                };
                let value = vec![rng.below(256) as u8; len as usize];
                write.put(&key, &value)?;
                next.insert(key, value);
            }
        }
        let handle = write.submit()?;
        known.history.insert(handle.commit(), next);
        handles.push(handle);
        if rng.one_in(3) {
            for handle in handles.drain(..) {
                known.acknowledged = handle.wait()?.commit;
            }
        }
    }
    for handle in handles {
        known.acknowledged = handle.wait()?.commit;
    }
    Ok(())
}

/// Opens the tree, compares its state and makes commits, until a power cut or to the end.
fn boot(disk: &SimDisk, known: &mut Known, seed: u64, commits: u64) -> bool {
    let mut rng = Rng::new(seed);
    let result = SimRuntime::run(seed, |rt| -> Result<()> {
        let tree = open_simulated(rt, disk)?;
        known.recovered(&tree, &format!("seed {seed}"))?;
        work(&tree, known, &mut rng, commits)?;
        if rng.one_in(2) {
            tree.close()?;
        }
        Ok(())
    });
    if let Err(e) = &result {
        assert!(disk.is_cut(), "seed {seed}: {e}");
    }
    result.is_ok()
}

#[test]
fn power_cuts() {
    let runs: u64 = std::env::var("LOGFORCE_SEEDS").map_or(150, |n| n.parse().unwrap());
    let mut cuts = 0;
    for seed in 0..runs {
        let mut rng = Rng::new(seed);
        let disk = SimDisk::new(SimOptions::default(), seed);
        let mut known = Known {
            history: BTreeMap::new(),
            acknowledged: 0,
        };
        for number in 0..4 {
            disk.cut_at(rng.below(250));
            cuts += u64::from(!boot(&disk, &mut known, seed * 10 + number, 40));
            disk.reboot(seed ^ number);
        }
        assert!(boot(&disk, &mut known, seed, 0), "seed {seed}");
    }
    assert!(cuts > runs, "{cuts} cuts in {runs} runs");
}
