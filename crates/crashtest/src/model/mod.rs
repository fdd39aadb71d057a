//! Crash states without root: the workload runs once under `strace`, and a model of its files says what a power cut may
//! lose.
//!
//! The directory as it is before the workload starts is durable. The rules of the model are those of POSIX, read strictly:
//!
//! - `fsync` and `fdatasync` of a file make its data and its length durable, not its name. `O_DSYNC`, `O_SYNC` and
//!   `RWF_DSYNC` do so for one write. `sync` and `syncfs` make everything durable, `sync_file_range` nothing. A sync
//!   covers what had returned when it was called, and counts from its return.
//! - `fsync` of a directory makes its names durable. A file or directory without a durable name does not exist.
//! - Of a file's unsynced data any pieces of 512 or 4096 bytes may be lost; a piece holds one of its contents since the
//!   last sync. Its length may be any since then. A length that is kept without the data reads as zeroes. Where a
//!   truncation is lost, what was written after it is too.
//! - The unsynced steps of a directory survive up to one of them. A rename within a directory is one step. One between
//!   two directories is a step in each, and each directory is lost or kept by itself: the file may have both names or
//!   none.
//!
//! `record` runs the workload. `follow` reads its calls (`line`), `tasks` has threads, descriptors and paths, `calls` and
//! `names` apply the calls to the `history` of the files (`content`), `compare` compares it with the directory. `cut`
//! builds a state, `cause` looks for the missing sync.

mod calls;
mod cause;
mod compare;
mod content;
mod cut;
mod follow;
mod history;
mod line;
mod names;
mod record;
mod tasks;
#[cfg(test)]
mod tests;

use crate::kept;
use crate::parts::{Part, Rehearsal};
use crate::plan::Plan;
use crate::program::{Confinement, Places, Running, run as run_program, write_lines};
use crate::rehearsal::no_ack;
use crate::report::{Loss, Report};
use crate::results::{Progress, Results};
use crate::stage::Checked;
use crate::subject::Outcome;
use crate::testbed::Filesystem;
use crate::testbed::enclosure::{
    catch_interrupts, home, is_interrupted, new_suite, remove_directories,
};
use crate::verdict::finished;
use anyhow::{Context, Result, bail};
use cut::{Cut, Lost};
use history::{History, NEVER, Tick};
pub use record::missing;
use record::{Recorded, record};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// States of the control, in which every sync is ignored.
const CONTROL: u64 = 10;

/// A directory for a test, removed at the end, with those of tests that were killed.
struct Home {
    suite: String,
    path: PathBuf,
}

impl Home {
    fn new() -> Result<Home> {
        catch_interrupts();
        let suite = new_suite()? + "-model";
        let path = home(&suite);
        fs::create_dir(&path).with_context(|| format!("creating {}", path.display()))?;
        let path = path.canonicalize()?;
        Ok(Home { suite, path })
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        remove_directories(&self.suite);
    }
}

/// A recorded run, and the directory in which its states are checked.
struct Bench<'a> {
    plan: &'a Plan,
    home: &'a Path,
    history: History,
}

impl Bench<'_> {
    /// Returns the directory of the program. All states are built there, because programs write its path into files.
    fn dir(&self) -> PathBuf {
        self.home.join("data")
    }

    /// Returns the moment of each change's sync in the run.
    fn traced(&self) -> Vec<Tick> {
        self.history.ops.iter().map(|op| op.synced).collect()
    }

    /// Builds a state and runs the check on it.
    fn check(&self, cut: &Cut, lost: &[Lost]) -> Result<Checked> {
        let dir = self.dir();
        fs::remove_dir_all(&dir).with_context(|| format!("removing {}", dir.display()))?;
        fs::create_dir(&dir)?;
        cut.write(&self.history, lost, &dir)?;
        self.check_present(cut.at)
    }

    /// Returns why the test proves nothing, if the check accepts the state in the middle of the run, with the lines of the
    /// whole run.
    fn is_blind(&self) -> Result<Option<String>> {
        let acks: Vec<Tick> = self.history.acks().collect();
        let middle = Cut {
            at: acks.get(acks.len() / 2).copied().unwrap_or_default(),
            ..Cut::choose(&self.history, self.plan.seed)
        };
        if !self.check(&middle, &[])?.is_whole() {
            return Ok(None);
        }
        let end = self.history.now();
        let lines = |until| self.history.lines_until(until).0;
        Ok(self
            .check_present(end)?
            .is_blind(&lines(middle.at), &lines(end)))
    }

    /// Runs the check on the directory as it is.
    fn check_present(&self, until: Tick) -> Result<Checked> {
        if is_interrupted() {
            bail!("interrupted");
        }
        let (dir, acked, begun) = (self.dir(), self.home.join("acked"), self.home.join("begun"));
        let lines = self.history.lines_until(until);
        write_lines(&acked, &lines.0)?;
        write_lines(&begun, &lines.1)?;
        let places = Places {
            dir: &dir,
            acks: None,
            acked: Some(&acked),
            begun: Some(&begun),
        };
        let running = Running::start(
            &self.plan.check,
            places,
            None,
            &[],
            Confinement::Group,
            || {},
        )?;
        Checked::of(&running.wait(self.plan.patience)?)
    }

    /// Returns the message of the check if it fails in a state.
    fn fails(&self, cut: &Cut, lost: &[Lost]) -> Result<Option<String>> {
        Ok(match self.check(cut, lost)? {
            Checked::Failed(_, message) => Some(message),
            _ => None,
        })
    }

    /// Keeps a state.
    fn keep(&self, cut: &Cut, lost: &[Lost], dir: &Path, loss: &Loss) -> Result<()> {
        let data = dir.join("data");
        let _ = fs::remove_dir_all(&data);
        fs::create_dir(&data)?;
        cut.write(&self.history, lost, &data)?;
        kept::write(
            dir,
            &self.history.lines_until(cut.at),
            loss,
            self.plan,
            "cp -a \"$here/data\" \"$work/data\"",
            "data",
        )
    }
}

/// Runs a test.
///
/// # Errors
/// Errors of the machine, and if the setup fails. A program that cannot be tested is a verdict.
pub fn run(plan: &Plan, progress: &mut dyn FnMut(Progress<'_>)) -> Result<Report> {
    let began = Instant::now();
    let home = Home::new()?;
    let dir = home.path.join("data");
    fs::create_dir(&dir)?;
    if let Some(setup) = &plan.setup {
        let places = Places {
            dir: &dir,
            acks: None,
            acked: None,
            begun: None,
        };
        run_program(setup, places, plan.patience, Confinement::Group)
            .context("the setup failed")?;
    }
    let recorded = record(plan, &dir, &home.path)?;
    if is_interrupted() {
        bail!("interrupted");
    }
    let mut results = Results::new(plan, progress);
    let mut found = Report::new(plan);
    let mut check_is_broken = false;
    if recorded.ended.status.is_some_and(|s| !s.success()) {
        found.notes.push(format!(
            "the workload failed by itself: it {}",
            recorded.ended.failure()
        ));
    }
    match refusal(&recorded) {
        Some(reason) => found.reasons.push(reason),
        None => {
            found.rehearsals.push(rehearsal(&recorded));
            let bench = Bench {
                plan,
                home: &home.path,
                history: recorded.history,
            };
            let mut failing = states(&bench, &mut results)?;
            found.reasons.extend(bench.is_blind()?);
            if results.passed(Filesystem::Model) == 0 {
                let before = Cut {
                    at: 0,
                    ..Cut::choose(&bench.history, plan.seed)
                };
                let reason = bench.check(&before, &[])?.never_succeeds();
                check_is_broken = reason.is_some();
                found.reasons.extend(reason);
            }
            found.notes.extend(results.early(Filesystem::Model));
            // No sync of the program's can help before it has acknowledged something.
            failing.retain(|cut| !bench.history.lines_until(cut.at).0.is_empty());
            if plan.explain && !check_is_broken && !failing.is_empty() {
                let progress = &mut *results.progress;
                let mut doing = |what: &str| progress(Progress::Explaining(what));
                found.explanation = Some(cause::explain(&bench, &failing, &mut doing)?);
            }
        }
    }
    Ok(finished(
        found,
        results.rows,
        results.losses,
        check_is_broken,
        began.elapsed(),
    ))
}

/// Returns the reason why a run cannot be tested, if there is one.
fn refusal(recorded: &Recorded) -> Option<String> {
    let acked = recorded.history.acks().next().is_some();
    let lines = !recorded.history.lines.is_empty();
    let no_ack = || {
        no_ack(
            &recorded.ended,
            lines,
            Some(&*recorded.rest).filter(|r| !r.is_empty()),
            recorded.worked,
        )
    };
    recorded.refused.clone().or_else(|| (!acked).then(no_ack))
}

fn rehearsal(recorded: &Recorded) -> Rehearsal {
    let (history, first) = (&recorded.history, recorded.first_ack.unwrap_or_default());
    let count = |kind| history.events.iter().filter(|(_, k)| *k == kind).count() as u64;
    let acks = history.acks().count() as u64;
    Rehearsal {
        filesystem: Filesystem::Model,
        first_ack_ms: first.as_millis() as u64,
        acks_per_second: acks as f64 / (recorded.worked - first).as_secs_f64().max(0.001),
        flushes: count(crate::explain::MarkKind::Flush),
        writes: count(crate::explain::MarkKind::Write),
        acks,
    }
}

/// Checks the directory as the run left it, the control and the states. Returns the cuts of states that failed.
fn states(bench: &Bench<'_>, results: &mut Results<'_>) -> Result<Vec<Cut>> {
    let (plan, end) = (bench.plan, bench.history.now());
    let of = |part| (Filesystem::Model, part);
    let killed = bench.check_present(end)?;
    let acked = bench.history.lines_until(end).0;
    let as_it_is = Cut {
        at: end,
        ..Cut::choose(&bench.history, plan.seed)
    };
    let keep = |dir: &Path, loss: &Loss| bench.keep(&as_it_is, &[], dir, loss);
    results.add(of(Part::Kill), 1, &acked, &killed, &keep)?;
    let (never, traced) = (vec![NEVER; bench.history.ops.len()], bench.traced());
    let mut failing = Vec::new();
    for (part, count, syncs) in [
        (Part::Control, CONTROL, &never),
        (Part::States, plan.states, &traced),
    ] {
        for number in 0..count {
            let seed = plan.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (part as u64) << 32 ^ number;
            let cut = Cut::choose(&bench.history, seed);
            let lost = cut.lose(&cut.pending(&bench.history, syncs));
            let checked = bench.check(&cut, &lost)?;
            if part == Part::States && matches!(checked, Checked::Failed(..)) {
                failing.push(cut);
            }
            let keep = |dir: &Path, loss: &Loss| bench.keep(&cut, &lost, dir, loss);
            let acked = bench.history.lines_until(cut.at).0;
            results.add(of(part), count, &acked, &checked, &keep)?;
        }
    }
    Ok(failing)
}
