//! Counts of the checks of a test, and its losses.

use crate::parts::Part;
use crate::plan::Plan;
use crate::report::{Loss, Row};
use crate::stage::Checked;
use crate::testbed::Filesystem;
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;

/// Cuts of a disk that ignores flushes after which no more are tried, if they destroy the filesystem or come before the
/// first acknowledgement again and again.
const MOST_CONTROL: u64 = 40;

/// Progress of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress<'a> {
    /// A check was done.
    Checked {
        /// The filesystem.
        filesystem: Filesystem,
        /// The part.
        part: Part,
        /// Checks done of this part.
        done: u64,
        /// Checks to do in this part.
        of: u64,
        /// Checks of this part that failed.
        failed: u64,
    },
    /// The cause of losses is looked for, at this step.
    Explaining(&'a str),
}

/// Collects the cases of a test.
pub(crate) struct Results<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) rows: Vec<Row>,
    pub(crate) losses: Vec<Loss>,
    pub(crate) progress: &'a mut dyn FnMut(Progress<'_>),
}

/// Writes a case into a directory, with a script that runs the check on it.
pub(crate) type Keep<'a> = dyn Fn(&Path, &Loss) -> Result<()> + 'a;

impl<'a> Results<'a> {
    pub(crate) fn new(plan: &'a Plan, progress: &'a mut dyn FnMut(Progress<'_>)) -> Results<'a> {
        Results {
            plan,
            rows: Vec::new(),
            losses: Vec::new(),
            progress,
        }
    }

    /// Takes a check after these acknowledgements in; returns false if its part has enough.
    pub(crate) fn add(
        &mut self,
        (filesystem, part): (Filesystem, Part),
        of: u64,
        acked: &[String],
        checked: &Checked,
        keep: &Keep<'_>,
    ) -> Result<bool> {
        let is_this = |r: &Row| (r.filesystem, r.part) == (filesystem, part);
        let at = match self.rows.iter().position(is_this) {
            Some(at) => at,
            None => {
                self.rows.push(Row::new(filesystem, part));
                self.rows.len() - 1
            }
        };
        let row = &mut self.rows[at];
        row.add(acked.len(), checked);
        let (checks, failed) = (row.checks, row.failed());
        // The disk without flushes often destroys the filesystem, or what was there before the first acknowledgement. Both
        // say nothing about the check.
        let examined = match part {
            Part::Control if checks < MOST_CONTROL => row.with_acks,
            _ => checks,
        };
        if let Checked::Failed(failure, message) = checked
            && part != Part::Control
        {
            let loss = Loss::new(filesystem, part, *failure, message, acked);
            self.loss(loss, keep)?;
        }
        (self.progress)(Progress::Checked {
            filesystem,
            part,
            done: checks,
            of,
            failed,
        });
        Ok(examined < of)
    }

    /// Returns the number of checks on a filesystem that succeeded.
    pub(crate) fn passed(&self, filesystem: Filesystem) -> u64 {
        let rows = self.rows.iter().filter(|r| r.filesystem == filesystem);
        rows.map(|r| r.ran() - r.failed()).sum()
    }

    /// Returns a note if checks failed only before an acknowledgement.
    pub(crate) fn early(&self, filesystem: Filesystem) -> Option<String> {
        let real = |r: &&Row| r.filesystem == filesystem && r.part != Part::Control;
        let sum = |of: fn(&Row) -> u64| self.rows.iter().filter(real).map(of).sum();
        let (failed, early): (u64, u64) = (sum(Row::failed), sum(|r| r.failed_without_acks));
        (failed > 0 && failed == early).then(|| {
            format!(
                "{filesystem}: nothing had been acknowledged before any of the {failed} failed checks, so the program does \
                 not open what a cut leaves of its creation. Create the store with --setup to test only what follows"
            )
        })
    }

    /// Returns the number of checks in a part.
    pub(crate) fn checks(&self, filesystem: Filesystem, part: Part) -> u64 {
        let mut rows = self.rows.iter();
        let row = rows.find(|r| (r.filesystem, r.part) == (filesystem, part));
        row.map_or(0, |row| row.checks)
    }

    /// Adds a loss to those that are like it, and keeps the smallest of them.
    fn loss(&mut self, loss: Loss, keep: &Keep<'_>) -> Result<()> {
        let number = self.losses.iter().position(|known| known.is_like(&loss));
        let at = number.unwrap_or(self.losses.len());
        match number {
            None => self.losses.push(loss),
            Some(at) => {
                let known = &mut self.losses[at];
                known.cases += 1;
                if known.acked <= loss.acked {
                    return Ok(());
                }
                let cases = known.cases;
                *known = loss;
                known.cases = cases;
            }
        }
        if let Some(dir) = &self.plan.keep {
            let dir = dir.join(format!("loss-{}", at + 1));
            let kept = fs::create_dir_all(&dir).map_err(Into::into);
            let kept = kept.and_then(|()| keep(&dir, &self.losses[at]));
            kept.with_context(|| format!("keeping a case in {}", dir.display()))?;
            self.losses[at].kept = Some(dir.display().to_string());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Program;
    use crate::stage::Failure;

    #[test]
    fn the_control_goes_on_until_checks_came_after_acknowledgements() {
        let program = || Program::Shell(String::new());
        let plan = Plan::new(program(), program());
        let progress = &mut |_: Progress<'_>| {};
        let mut results = Results::new(&plan, progress);
        let early = Checked::Failed(Failure::Unopened, "no store".to_owned());
        let destroyed = Checked::FilesystemLost("no superblock".to_owned());
        let mut wants_more = |acked, checked: &Checked| {
            let acked = vec![String::new(); acked];
            let of = (Filesystem::Ext4, Part::Control);
            results.add(of, 2, &acked, checked, &|_, _| Ok(())).unwrap()
        };
        let more = [
            wants_more(0, &early),
            wants_more(3, &destroyed),
            wants_more(1, &Checked::Survived),
            wants_more(0, &early),
            wants_more(1, &Checked::Survived),
        ];
        assert_eq!(more, [true, true, true, true, false]);
    }

    #[test]
    fn of_losses_that_are_alike_the_smallest_is_kept() {
        let program = || Program::Shell(String::new());
        let plan = Plan::new(program(), program());
        let progress = &mut |_: Progress<'_>| {};
        let mut results = Results::new(&plan, progress);
        for acked in [5, 3, 7] {
            let lines = vec![String::new(); acked];
            let failed = Checked::Failed(Failure::Lost, format!("{acked} is missing"));
            let of = (Filesystem::Ext4, Part::Cuts);
            results.add(of, 9, &lines, &failed, &|_, _| Ok(())).unwrap();
        }
        let [loss] = &results.losses[..] else {
            unreachable!("all are alike")
        };
        assert_eq!(
            (loss.acked, loss.cases, &*loss.message),
            (3, 3, "3 is missing")
        );
    }
}
