//! Runs one subject once: append, read from a cold cache, read from a warm one.

use super::subjects::Subject;
use crate::rivals::apart::{PartDone, Process, Task, Work};
use crate::rivals::place::Ground;
use crate::rivals::records::BULK_RECORD;
use anyhow::{Context, Result};
use logforce_measure::Interrupt;
use serde::{Deserialize, Serialize};

/// Measurements of one run of a subject.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct BulkRun {
    /// Result of appending.
    pub append: PartDone,
    /// Result of reading without the system's cache.
    pub cold: PartDone,
    /// Result of reading again.
    pub warm: PartDone,
}

/// Runs a subject in a new directory, which is removed afterwards.
///
/// # Errors
/// Returns the rival's error, or an error if the run was interrupted.
pub fn run(
    subject: &Subject,
    ground: &Ground,
    count: u64,
    interrupt: &Interrupt,
) -> Result<BulkRun> {
    let dir = ground.fresh("bulk")?;
    let part = |work| {
        let task = Task {
            work,
            log: subject.name.to_owned(),
            dir: dir.path().to_owned(),
            record: BULK_RECORD,
            threads: 1,
            warm_up: 0,
            seconds: 0.0,
            commits: count,
        };
        Process::start(subject.command(), &task)?.done::<PartDone>(interrupt)
    };
    ground.settle().context("syncing the filesystem")?;
    let append = part(Work::Append).context("append")?;
    ground
        .forget(dir.path())
        .context("emptying the system's cache")?;
    let cold = part(Work::Read).context("read back, cold")?;
    let warm = part(Work::Read).context("read back, warm")?;
    Ok(BulkRun { append, cold, warm })
}

#[cfg(all(test, feature = "go"))]
mod tests {
    use super::*;
    use crate::rivals::bulk::of;
    use crate::rivals::rival::{ETCD_WAL, Entry, RAFT_WAL};
    use crate::rivals::subjects::all;
    use std::path::Path;

    #[test]
    fn the_go_programs_show_all_that_they_appended() {
        let mut rivals = Vec::new();
        for entry in all() {
            match entry {
                Entry::Here(rival) if [ETCD_WAL, RAFT_WAL].contains(&rival.name()) => {
                    rivals.push(rival);
                }
                Entry::Absent { name, why } => println!("skipped: {name}: {why}"),
                Entry::Here(_) => {}
            }
        }
        let rivals: Vec<_> = rivals.iter().map(|r| &**r).collect();
        let program = std::env::current_exe().unwrap();
        // The directory is beside this program, because the temporary directory is often in memory.
        let home = tempfile::tempdir_in(program.parent().unwrap()).unwrap();
        let ground = Ground::new(home.path(), None).unwrap();
        let subjects = of(&rivals, Path::new("no program"));
        assert_eq!(subjects.len(), rivals.len());
        for subject in subjects {
            // More than one StoreLogs call, and not a multiple of one.
            let seen = run(&subject, &ground, 10_000, &Interrupt::new())
                .unwrap_or_else(|e| panic!("{}: {e:#}", subject.name));
            for read in [seen.cold, seen.warm] {
                assert_eq!((read.missing, read.foreign), (0, 0), "{}", subject.name);
            }
            assert!(seen.append.peak_kib > Some(0), "{}", subject.name);
        }
    }
}
