//! SIGKILL at random points of one of two processes that write the same database, one of them by stock SQLite.
//! The other goes on.

use super::check::compared;
use super::found::{Found, read};
use super::{Job, Mode, Promises, Sabotage, SqliteCounts};
use crate::ledger::Entry;
use crate::started::{Role, Started, User, ledger_path};
use anyhow::Result;
use logforce_crashtest::testbed::{Filesystem, Mounted};
use logforce_testkit::Rng;
use std::path::Path;
use std::time::Duration;

/// Kills of the processes at one database, before another one is made.
const CHAIN: u64 = 15;
/// Size of the disk, bytes. A log grows while connections that commit without a pause keep it from being reset.
const SIZE: u64 = 256 << 20;
/// Longest session, milliseconds.
const SESSION: u64 = 60_000;

/// Kills until `wanted` of them met a working process, or something broke.
///
/// # Errors
/// Errors of the machine.
pub fn kills(
    filesystem: Filesystem,
    mode: Mode,
    sabotage: Sabotage,
    wanted: u64,
    home: &Path,
    seed: u64,
) -> Result<SqliteCounts> {
    let image = filesystem.make_of(SIZE)?;
    let mounted = Mounted::image(filesystem, &image, home)?;
    let mut rng = Rng::new(seed);
    let mut all = SqliteCounts::default();
    let mut number = 0;
    while all.counts.counted < wanted && all.counts.broken.is_empty() && number < wanted + 50 {
        let dir = mounted.path().join(number.to_string());
        number += 1;
        std::fs::create_dir(&dir)?;
        let mut database = Database {
            dir: &dir,
            mode,
            sabotage,
            promises: Promises::default(),
            running: [None, None],
        };
        for _ in 0..CHAIN.min(wanted) {
            database.kill(&mut rng, &mut all)?;
            if !all.counts.broken.is_empty() {
                break;
            }
        }
        drop(database);
        std::fs::remove_dir_all(&dir)?;
    }
    mounted.unmount()?;
    Ok(all)
}

/// A database and the processes that write it: the first by the VFS `logforce`, the second by stock SQLite.
struct Database<'a> {
    dir: &'a Path,
    mode: Mode,
    sabotage: Sabotage,
    /// Promises of the processes that are killed.
    promises: Promises,
    running: [Option<Started>; 2],
}

impl Database<'_> {
    /// Starts the processes that do not run, kills one of them or both after a while, and checks.
    fn kill(&mut self, rng: &mut Rng, all: &mut SqliteCounts) -> Result<()> {
        for which in 0..2 {
            if self.running[which].is_none() {
                let job = Job {
                    dir: self.dir.to_owned(),
                    ledger: ledger_path(),
                    mode: self.mode,
                    is_stock: which == 1,
                    first_thread: which * self.mode.threads(),
                    seed: rng.bits(),
                    sabotage: self.sabotage,
                    millis: SESSION,
                };
                self.running[which] = Some(Started::new(Role::SqliteWork, &job, User::Root)?);
            }
        }
        std::thread::sleep(Duration::from_micros(rng.below(80_000)));
        let mut wrong = None;
        let mut met = false;
        for victim in rng.pick(&[&[0][..], &[0], &[1], &[0, 1]]) {
            let Some(mut killed) = self.running[*victim].take() else {
                continue;
            };
            if killed.has_ended()? {
                wrong = Some(format!("a process ended by itself: {}", killed.stderr()));
            }
            killed.kill()?;
            let entries = killed.entries()?;
            met |= !entries.iter().all(|thread| thread.is_empty());
            self.promises.add(&entries, &entries, true);
        }
        let claimed = self.entries()?;
        let checked = match read(self.dir, self.mode) {
            Ok(found) => {
                let begun = self.entries()?;
                compared(&found, &self.with(&claimed, &begun))
            }
            Err(e) => {
                let mut checked = compared(&Found::default(), &Promises::default());
                let broken = format!("the database cannot be read: {e}");
                checked.outcome.broken.push(broken);
                checked
            }
        };
        all.take(checked, wrong, 4096, met);
        Ok(())
    }

    /// Returns the entries of the processes that run.
    fn entries(&self) -> Result<Vec<Vec<Vec<Entry>>>> {
        self.running
            .iter()
            .flatten()
            .map(Started::entries)
            .collect()
    }

    /// Returns the promises with those of the processes that run.
    fn with(&self, claimed: &[Vec<Vec<Entry>>], all: &[Vec<Vec<Entry>>]) -> Promises {
        let mut promises = self.promises.clone();
        for (claimed, all) in claimed.iter().zip(all) {
            promises.add(claimed, all, true);
        }
        promises
    }
}
