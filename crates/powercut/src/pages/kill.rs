//! SIGKILL at random points: while starting, while recovering what the last kill left, and while the
//! threads commit.

use super::{Counts, Job, Promises, check};
use crate::started::{Role, Started, User, ledger_path};
use crate::subject::seam::Fault;
use anyhow::Result;
use logforce_crashtest::testbed::{Filesystem, Mounted};
use logforce_testkit::Rng;
use std::path::Path;

/// Kills of one page file, before another one is made.
const CHAIN: u64 = 20;

/// Kills until `wanted` of them met a working page file, or something broke.
///
/// # Errors
/// Errors of the machine.
pub fn kills(
    filesystem: Filesystem,
    copy_on_write: bool,
    fault: Fault,
    wanted: u64,
    home: &Path,
    seed: u64,
) -> Result<Counts> {
    let image = filesystem.make()?;
    let mounted = Mounted::image(filesystem, &image, home)?;
    let mut rng = Rng::new(seed);
    let mut counts = Counts::default();
    let mut number = 0;
    let most = 10 * wanted + 50;
    while counts.counted < wanted
        && counts.counted + counts.empty < most
        && counts.broken.is_empty()
    {
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
                &mut counts,
            )?;
            if !counts.broken.is_empty() {
                break;
            }
        }
        std::fs::remove_dir_all(&dir)?;
    }
    mounted.unmount()?;
    Ok(counts)
}

fn session(
    dir: &Path,
    copy_on_write: bool,
    fault: Fault,
    promises: &mut Promises,
    rng: &mut Rng,
    counts: &mut Counts,
) -> Result<()> {
    let job = Job {
        dir: dir.to_owned(),
        ledger: ledger_path(),
        copy_on_write,
        seed: rng.bits(),
        fault,
    };
    let mut subject = Started::new(Role::PageWork, &job, User::Root)?;
    counts.broken.extend(subject.kill_anywhere(rng, 200)?);
    let entries = subject.entries()?;
    promises.add(&entries, &entries);
    std::fs::create_dir_all(dir)?;
    let found = check(dir, copy_on_write, promises);
    let met = entries.iter().any(|thread| !thread.is_empty());
    counts.take(found.after_cut(None, 4096), met);
    Ok(())
}
