//! SIGKILL at random points: while starting, while recovering what the last kill left, and while the
//! threads commit.

use super::{Job, Promises, Tally, check};
use crate::ledger::Ledger;
use crate::live::spawn;
use crate::subject::seam::Fault;
use crate::testbed::{Filesystem, Mounted};
use anyhow::Result;
use logforce_testkit::Rng;
use std::path::Path;
use std::time::{Duration, Instant};

/// Kills of one page file, before another one is made.
const CHAIN: u64 = 20;
/// Longest wait for a subject to get somewhere.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Kills until `wanted` of them met a working page file, or something broke.
///
/// # Errors
/// Of the machine.
pub fn kills(
    filesystem: Filesystem,
    copy_on_write: bool,
    fault: Fault,
    wanted: u64,
    home: &Path,
    seed: u64,
) -> Result<Tally> {
    let image = filesystem.make()?;
    let mounted = Mounted::image(filesystem, &image, home)?;
    let mut rng = Rng::new(seed);
    let mut tally = Tally::default();
    let mut number = 0;
    let most = 10 * wanted + 50;
    while tally.counted < wanted && tally.counted + tally.empty < most && tally.broken.is_empty() {
        let dir = mounted.path().join(number.to_string());
        number += 1;
        let mut promises = Promises::default();
        for _ in 0..CHAIN.min(wanted) {
            session(
                &dir,
                copy_on_write,
                fault,
                &mut promises,
                &mut rng,
                &mut tally,
            )?;
            if !tally.broken.is_empty() {
                break;
            }
        }
        std::fs::remove_dir_all(&dir)?;
    }
    mounted.unmount()?;
    Ok(tally)
}

fn session(
    dir: &Path,
    copy_on_write: bool,
    fault: Fault,
    promises: &mut Promises,
    rng: &mut Rng,
    tally: &mut Tally,
) -> Result<()> {
    let ledger = Ledger::new()?;
    let job = Job {
        dir: dir.to_owned(),
        ledger: ledger.path(),
        copy_on_write,
        seed: rng.bits(),
        fault,
    };
    let mut subject = spawn("page-work", &serde_json::to_string(&job)?)?;
    if rng.one_in(3) {
        std::thread::sleep(Duration::from_micros(rng.below(9000)));
    } else {
        let enough = 1 + rng.below(200);
        let until = Instant::now() + TIMEOUT;
        while ledger.counters()?.iter().sum::<u64>() < enough && subject.try_wait()?.is_none() {
            if Instant::now() > until {
                tally.broken.push("a session hung".to_owned());
                break;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    }
    if let Some(status) = subject.try_wait()? {
        tally
            .broken
            .push(format!("a session that nobody ended: {status}"));
    }
    subject.kill()?;
    subject.wait()?;
    let entries = ledger.entries(&ledger.counters()?)?;
    promises.add(&entries, &entries);
    std::fs::create_dir_all(dir)?;
    let found = check(dir, copy_on_write, promises);
    tally.take(found, entries.iter().any(|lane| !lane.is_empty()), 4096);
    Ok(())
}
