//! Power cuts of a node.

use super::model::{Contents, Life};
use super::open;
use logforce_testkit::{Rng, SimDisk, SimOptions, SimRuntime};

/// Lives of a store on one disk.
const LIVES: u64 = 3;

/// Runs a store on a disk whose power is cut in each life, and returns the first contradiction.
fn cuts(seed: u64) -> Result<u64, String> {
    let mut rng = Rng::new(seed);
    let disk = SimDisk::new(SimOptions::random(seed), seed);
    let mut life: Option<Life> = None;
    let mut calls = 0;
    for number in 0..LIVES {
        let last = number + 1 == LIVES;
        if !last {
            let within = rng.pick(&[60, 300, 800]);
            disk.cut_at(rng.below(within));
        }
        let ran = SimRuntime::run(rng.bits(), |runtime| {
            let mut store = match open(runtime, &disk) {
                Ok(store) => store,
                Err(_) if disk.is_cut() => return Ok(()),
                Err(e) => return Err(format!("is not opened: {e}")),
            };
            let found = match Contents::of(runtime, &store) {
                Ok(found) => found,
                Err(_) if disk.is_cut() => return Ok(()),
                Err(e) => return Err(format!("is not read: {e}")),
            };
            if let Some(life) = &life {
                life.check(&found)?;
            }
            let mut new = Life::new(found);
            let ran = new.run(runtime, &mut store, &mut rng, 40);
            calls += new.after.len() as u64;
            life = Some(new);
            match ran {
                Err(e) if !disk.is_cut() => Err(format!("fails: {e}")),
                _ => Ok(()),
            }
        });
        ran.map_err(|e| format!("seed {seed}, life {number}: the store {e}"))?;
        if !last {
            disk.reboot(rng.bits());
        }
    }
    Ok(calls)
}

#[test]
fn a_power_cut_loses_nothing_acknowledged() {
    let calls: u64 = (0..150).map(|seed| cuts(seed).unwrap()).sum();
    // Otherwise most lives ended in the opening.
    assert!(calls > 150 * 20, "only {calls} calls");
}

#[test]
#[ignore = "deep: thousands of seeds"]
fn many_power_cuts_lose_nothing_acknowledged() {
    for seed in 1000..11_000 {
        cuts(seed).unwrap();
    }
}
