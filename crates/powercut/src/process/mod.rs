//! Faults of processes, while the machine stays up.
//!
//! Processes are killed at random points ([`kill`]), the disk fills up ([`full`]), single
//! operations of the disk fail ([`errors`]), other processes read while files are truncated and
//! recycled ([`readers`]), several contend for one log ([`contention`]), and system calls fail
//! ([`inject`]). Each of them shows that it finds a known fault ([`seam`](crate::subject::seam)).

pub mod contention;
pub mod errors;
mod filler;
pub mod full;
pub mod inject;
pub mod kill;
pub mod readers;

use anyhow::{Context, Result};
use logforce_crashtest::testbed::Filesystem;
use logforce_testkit::Rng;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Filesystems of all parts.
pub const FILESYSTEMS: [Filesystem; 3] = [Filesystem::Ext4, Filesystem::Xfs, Filesystem::Btrfs];

/// Volume of the parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Kills that met a working log.
    pub kills: u64,
    /// Sessions in which an operation of the disk failed.
    pub errors: u64,
    /// Times that the writer is killed beneath its readers, for each filesystem.
    pub readers: u64,
    /// Openings that were won, for each filesystem.
    pub wins: u64,
    /// Volume of failing system calls.
    pub injected: inject::Amount,
    /// True to stop failing system calls after the first finding.
    pub first: bool,
    /// Seed of all random choices.
    pub seed: u64,
}

impl Plan {
    /// Returns the volume of CI.
    pub fn ci(seed: u64) -> Plan {
        Plan {
            kills: 2100,
            errors: 240,
            readers: 20,
            wins: 150,
            injected: inject::Amount::Some(1800),
            first: false,
            seed,
        }
    }
}

/// Counts and findings of a part.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Counted {
    /// Name of the part.
    pub name: String,
    /// The counts.
    pub counts: BTreeMap<&'static str, u64>,
    /// Known faults that it found.
    pub caught: Vec<String>,
    /// Cases that this machine cannot run, with what they need.
    pub skipped: Vec<String>,
    /// Findings.
    pub broken: Vec<String>,
}

impl Counted {
    /// Returns empty counts.
    pub fn new(name: impl Into<String>) -> Counted {
        Counted {
            name: name.into(),
            ..Counted::default()
        }
    }

    /// Adds to a count.
    pub fn add(&mut self, what: &'static str, count: u64) {
        *self.counts.entry(what).or_default() += count;
    }

    /// Returns a count.
    pub fn count(&self, what: &str) -> u64 {
        self.counts.get(what).copied().unwrap_or(0)
    }

    /// Adds a finding. Keeps the first ones, which show the cause: a lost log breaks every rule.
    pub fn breaks(&mut self, what: impl Into<String>) {
        if self.broken.len() < 20 {
            self.broken.push(what.into());
        }
    }

    /// Adds the counts and findings of a part.
    fn take(&mut self, part: &Counted) {
        part.counts.iter().for_each(|(what, n)| self.add(what, *n));
        self.caught.extend(part.caught.iter().cloned());
        self.skipped.extend(part.skipped.iter().cloned());
        part.broken.iter().for_each(|b| self.breaks(b));
    }

    /// Adds a known fault as caught, or its absence from the findings as a finding.
    fn caught(&mut self, fault: &str, found: &[String]) {
        match found.first() {
            Some(first) => self.caught.push(format!("{fault}: {first}")),
            None => self.breaks(format!("not caught: {fault}")),
        }
    }

    /// Adds a finding if a count is too low: the run has shown nothing.
    fn demand(&mut self, what: &'static str, least: u64) {
        let count = self.count(what);
        if count < least {
            self.breaks(format!("{what}: {count}, and {least} were asked for"));
        }
    }
}

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.name)?;
        for (i, (what, count)) in self.counts.iter().enumerate() {
            write!(f, "{} {what} {count}", if i > 0 { "," } else { "" })?;
        }
        for caught in &self.caught {
            write!(f, "\n  caught: {}", shortened(caught))?;
        }
        for skipped in &self.skipped {
            write!(f, "\n  skipped: {skipped}")?;
        }
        for broken in &self.broken {
            write!(f, "\n  BROKEN: {broken}")?;
        }
        Ok(())
    }
}

fn shortened(line: &str) -> String {
    line.chars().take(160).collect()
}

/// Names of the parts.
pub const PARTS: [&str; 6] = ["kill", "full", "errors", "readers", "contention", "inject"];

/// Runs all parts, or one of them, one after the other; calls `report` with each when it is done.
///
/// # Errors
/// Errors of the machine. Findings are in [`Counted::broken`].
pub fn run(
    home: &Path,
    plan: &Plan,
    only: Option<&str>,
    report: &mut dyn FnMut(&Counted),
) -> Result<Vec<Counted>> {
    type Part = fn(&Path, &Plan) -> Result<Vec<Counted>>;
    let parts: [Part; 6] = [
        kill::run,
        full::run,
        errors::run,
        readers::run,
        contention::run,
        inject::run,
    ];
    let mut all = Vec::new();
    for (name, part) in PARTS.into_iter().zip(parts) {
        if only.is_some_and(|only| only != name) {
            continue;
        }
        let began = Instant::now();
        let mut rows = part(home, plan).with_context(|| format!("process faults: {name}"))?;
        if let Some(first) = rows.first_mut() {
            first.add(
                "milliseconds of the part",
                began.elapsed().as_millis() as u64,
            );
        }
        rows.iter().for_each(&mut *report);
        all.extend(rows);
    }
    Ok(all)
}

/// Does each filesystem's work in halves, two at a time, and adds the halves up to a row for each filesystem.
///
/// # Errors
/// The first error of a half.
pub(crate) fn in_halves(
    name: &str,
    seed: u64,
    work: impl Fn(Filesystem, usize, u64) -> Result<Counted> + Sync,
) -> Result<Vec<Counted>> {
    let mut rng = Rng::new(seed);
    let mut tasks = Vec::new();
    for filesystem in FILESYSTEMS {
        for half in 0..2 {
            tasks.push((filesystem, half, rng.bits()));
        }
    }
    let done = two_at_a_time(tasks, |(filesystem, half, seed)| {
        Ok((filesystem, work(filesystem, half, seed)?))
    })?;
    let row = |filesystem: Filesystem| {
        let mut row = Counted::new(format!("{name}, {filesystem}"));
        for (_, half) in done.iter().filter(|d| d.0 == filesystem) {
            row.take(half);
        }
        row
    };
    Ok(FILESYSTEMS.map(row).into())
}

/// Does each task, two at a time. The answers are in the tasks' order.
///
/// # Errors
/// The first error of a task. Later tasks are not begun then.
pub(crate) fn two_at_a_time<T: Send, A: Send>(
    tasks: Vec<T>,
    work: impl Fn(T) -> Result<A> + Sync,
) -> Result<Vec<A>> {
    let tasks = Mutex::new(tasks.into_iter().enumerate());
    let answers = Mutex::new(Vec::new());
    let next = || tasks.lock().unwrap_or_else(PoisonError::into_inner).next();
    std::thread::scope(|scope| -> Result<()> {
        let worker = || -> Result<()> {
            while let Some((place, task)) = next() {
                let answer = work(task).inspect_err(|_| while next().is_some() {})?;
                let mut answers = answers.lock().unwrap_or_else(PoisonError::into_inner);
                answers.push((place, answer));
            }
            Ok(())
        };
        let workers = [scope.spawn(worker), scope.spawn(worker)];
        for worker in workers {
            match worker.join() {
                Ok(ended) => ended?,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok(())
    })?;
    let mut answers = answers.into_inner().unwrap_or_else(PoisonError::into_inner);
    answers.sort_by_key(|(place, _)| *place);
    Ok(answers.into_iter().map(|(_, answer)| answer).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_in_order_and_an_error_ends_it() {
        let doubled = two_at_a_time((0..50).collect(), |n: u32| Ok(n * 2)).unwrap();
        assert_eq!(doubled, (0..50).map(|n| n * 2).collect::<Vec<_>>());
        let begun = Mutex::new(0);
        let failed = two_at_a_time((0..1000).collect(), |n: u32| {
            *begun.lock().unwrap() += 1;
            anyhow::ensure!(n != 3, "three");
            std::thread::sleep(std::time::Duration::from_millis(1));
            Ok(())
        });
        assert!(failed.is_err());
        assert!(*begun.lock().unwrap() < 1000);
    }

    #[test]
    fn what_is_not_caught_or_not_counted_is_broken() {
        let mut counted = Counted::new("x");
        counted.add("kills", 2);
        counted.add("kills", 3);
        counted.demand("kills", 5);
        counted.caught("a fault", &["found".to_owned()]);
        assert!(counted.broken.is_empty());
        assert_eq!(counted.caught, ["a fault: found"]);
        counted.demand("kills", 6);
        counted.caught("another", &[]);
        assert_eq!(counted.broken.len(), 2);
    }
}
