//! One filesystem with the user's program on it: sessions, and checks of what survived.

use crate::acks::{Acks, Hook, Line};
use crate::counters::Counters;
use crate::finished::Finished;
use crate::plan::Plan;
use crate::program::{Confinement, Places, Running, run, write_lines};
use crate::runs::{Run, Runs, is_full};
use crate::subject::{self, Outcome, Session, Site, Subject};
use crate::testbed::{Filesystem, Image, Mounted};
use crate::writeback::Writeback;
use anyhow::{Context, Result, bail};
use serde::Serialize;
use std::cell::RefCell;
use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Name of the program's directory on the filesystem. It exists before the first session, because creating it is
/// not the program's work.
const DATA: &str = "data";

/// Lines that a program wrote up to a cut.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Promised {
    /// Acknowledged before the cut: must be there.
    pub acked: Vec<String>,
    /// Announced, or acknowledged too late to be sure: may be there.
    pub begun: Vec<String>,
}

/// Class of a failed check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Failure {
    /// The check exited with 1: acknowledged data is missing or wrong.
    Lost,
    /// The check ended in another way: the program does not open what survived.
    Unopened,
    /// The check did not end within its time.
    Hung,
}

/// Result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Checked {
    /// Everything was there.
    Survived,
    /// The check failed, with its last line of output.
    Failed(Failure, String),
    /// The filesystem itself cannot be mounted, which is not the program's fault.
    FilesystemLost(String),
}

/// One filesystem, and what sessions on it need.
pub(crate) struct Stage<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) filesystem: Filesystem,
    pub(crate) home: &'a Path,
    pub(crate) acks: &'a Acks,
    /// A fresh filesystem after `setup`.
    pub(crate) template: Image,
    /// True if every file is synced while the program waits in a rename.
    pub(crate) syncs_before_renames: bool,
    /// Words before the workload: a tracer.
    pub(crate) under: Vec<OsString>,
    /// Makes the hook of a session, if there is one.
    pub(crate) hook: Option<HookFor>,
    /// Sessions so far.
    pub(crate) runs: RefCell<Runs>,
}

/// Makes a hook for acknowledgements of a program in this directory.
pub(crate) type HookFor = Arc<dyn Fn(&Path) -> Hook>;

/// A checked case.
pub(crate) type Case<'a, 's> = subject::Case<'a, Stage<'s>>;

/// A workload that is running.
pub(crate) struct Working {
    dir: PathBuf,
    running: Running,
    _writeback: Option<Writeback>,
}

impl Working {
    pub(crate) fn has_ended(&mut self) -> Result<bool> {
        self.running.has_ended()
    }

    pub(crate) fn kill(self) -> Result<Finished> {
        self.running.kill()
    }
}

/// Returns the directory of the program below a mount point.
pub(crate) fn data(mounted: &Path) -> PathBuf {
    mounted.join(DATA)
}

impl<'a> Stage<'a> {
    /// Makes a filesystem and runs `setup` on it.
    ///
    /// # Errors
    /// Errors of the machine, and if `setup` fails.
    pub(crate) fn new(
        plan: &'a Plan,
        filesystem: Filesystem,
        home: &'a Path,
        acks: &'a Acks,
    ) -> Result<Stage<'a>> {
        let size = plan.size.unwrap_or(0).max(filesystem.size());
        let template = filesystem.make_of(size)?;
        let stage = Stage {
            plan,
            filesystem,
            home,
            acks,
            template,
            syncs_before_renames: false,
            under: Vec::new(),
            hook: None,
            runs: RefCell::default(),
        };
        let mounted = Mounted::image(filesystem, &stage.template, home)?;
        let dir = data(mounted.path());
        fs::create_dir(&dir)?;
        fs::set_permissions(&dir, Permissions::from_mode(0o777))?;
        if let Some(setup) = &plan.setup {
            let places = stage.places(&dir);
            let done = run(setup, places, plan.patience, Confinement::Namespace);
            done.context("the setup failed")?;
        }
        mounted.unmount()?;
        Ok(stage)
    }

    fn places<'b>(&self, dir: &'b Path) -> Places<'b> {
        Places {
            dir,
            acks: None,
            acked: None,
            begun: None,
        }
    }

    /// Starts the workload on a mounted filesystem.
    pub(crate) fn work(&self, mounted: &Path, seed: u64) -> Result<Working> {
        let dir = data(mounted);
        let places = Places {
            acks: Some(self.acks.path()),
            ..self.places(&dir)
        };
        self.acks
            .expect_process(self.hook.as_ref().map(|hook| hook(&dir)));
        let (program, source) = (&self.plan.workload, self.plan.acks);
        let (under, noted) = (&self.under, self.acks.end_of_process()?);
        let within = Confinement::Namespace;
        let running = Running::start(program, places, Some(source), under, within, noted)?;
        let writeback = match (self.syncs_before_renames, self.plan.noise) {
            (true, _) => Some(Writeback::syncing(&dir)),
            (false, true) => Some(Writeback::noise(mounted, &dir, seed)),
            (false, false) => None,
        };
        Ok(Working {
            dir,
            running,
            _writeback: writeback,
        })
    }

    /// Runs the check on a mounted filesystem.
    fn run_check(&self, mounted: &Path, promised: &Promised) -> Result<Checked> {
        let (acked, begun) = (self.home.join("acked"), self.home.join("begun"));
        write_lines(&acked, &promised.acked)?;
        write_lines(&begun, &promised.begun)?;
        let dir = data(mounted);
        let places = Places {
            acked: Some(&acked),
            begun: Some(&begun),
            ..self.places(&dir)
        };
        let within = Confinement::Namespace;
        let running = Running::start(&self.plan.check, places, None, &[], within, || {})?;
        Checked::of(&running.wait(self.plan.patience)?)
    }
}

impl Subject for Stage<'_> {
    type Running = Working;
    type Entry = Line;
    type Promised = Promised;
    type Checked = Checked;

    fn site(&self) -> Site<'_> {
        Site {
            filesystem: self.filesystem,
            template: &self.template,
            counters: self.acks.counters(),
            home: self.home,
        }
    }

    fn begin(&self) -> Result<()> {
        self.acks.begin()
    }

    fn start(&self, mounted: &Path, _: &Promised, seed: u64) -> Result<Working> {
        let mut working = self.work(mounted, seed)?;
        if self.plan.kill && seed.is_multiple_of(3) {
            self.first_ack(&mut working)?;
            std::thread::sleep(Duration::from_millis(seed % 100));
            working.kill()?;
            working = self.work(mounted, seed)?;
        }
        Ok(working)
    }

    fn end(&self, working: Working, sampled: &Counters) -> Result<Option<String>> {
        let is_full = is_full(&working.dir);
        self.runs.borrow_mut().add(&Run {
            ended: working.kill()?,
            had_ended: Acks::had_ended(sampled),
            is_full,
            is_flooded: self.acks.is_flooded(),
        });
        // A program whose disk is gone may end in any way.
        Ok(None)
    }

    fn entries(&self) -> Result<Vec<Vec<Line>>> {
        Ok(vec![self.acks.lines().0])
    }

    fn promise(&self, promised: &mut Promised, session: &Session<'_, Line>) {
        let sure = session.claimed[0].len();
        for (number, line) in session.all[0].iter().enumerate() {
            match number < sure && !line.begun {
                true => promised.acked.push(line.text.clone()),
                false => promised.begun.push(line.text.clone()),
            }
        }
    }

    fn is_promised(promised: &Promised) -> bool {
        !promised.acked.is_empty()
    }

    fn check(&self, mounted: &Path, promised: &Promised) -> Result<(Checked, Option<Promised>)> {
        Ok((self.run_check(mounted, promised)?, None))
    }
}

impl Checked {
    /// Returns the result of a check that has ended, or was ended because it took too long.
    ///
    /// # Errors
    /// If the check cannot be run.
    pub(crate) fn of(ended: &Finished) -> Result<Checked> {
        let failure = match ended.status {
            Some(status) if status.success() => return Ok(Checked::Survived),
            Some(status) if status.code() == Some(1) => Failure::Lost,
            // So a shell says that there is no such command, or that it cannot be run: no finding about the program.
            Some(status) if matches!(status.code(), Some(126 | 127)) => {
                bail!("the check cannot be run: {}", ended.failure())
            }
            Some(_) => Failure::Unopened,
            None => Failure::Hung,
        };
        let line = ended.last_line();
        let reason = if line.is_empty() { ended.how() } else { line };
        Ok(Checked::Failed(failure, reason))
    }
}

impl Checked {
    /// Returns why the test proves nothing, if this check of a directory in which nothing is acknowledged failed, and no
    /// other one succeeded.
    pub(crate) fn never_succeeds(&self) -> Option<String> {
        match self {
            Checked::Failed(_, message) => Some(format!(
                "the check never succeeded, not even on the directory as it is before the first session, with nothing \
                 acknowledged: {message}"
            )),
            _ => None,
        }
    }

    /// Returns why the test proves nothing, if this check succeeded: it compared the directory as it was after the lines
    /// `then` with the lines `now`, some of which came later.
    pub(crate) fn is_blind(&self, then: &[String], now: &[String]) -> Option<String> {
        let then: HashSet<&String> = then.iter().collect();
        let missing = now.iter().filter(|line| !then.contains(line)).count();
        (missing > 0 && self.is_whole()).then(|| {
            format!(
                "the check succeeded on a directory from before the last {missing} acknowledgements; it has to fail if \
                 anything that was acknowledged is missing"
            )
        })
    }
}

impl Outcome for Checked {
    fn filesystem_lost(why: String) -> Checked {
        Checked::FilesystemLost(why)
    }

    fn is_whole(&self) -> bool {
        *self == Checked::Survived
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    #[test]
    fn a_check_that_does_not_miss_later_lines_is_blind() {
        let lines = |lines: &[&str]| lines.iter().map(|l| (*l).to_owned()).collect::<Vec<_>>();
        let (then, now) = (lines(&["1", "2"]), lines(&["1", "2", "3"]));
        assert!(Checked::Survived.is_blind(&then, &now).is_some());
        let lost = Checked::Failed(Failure::Lost, "3 is missing".to_owned());
        assert_eq!(lost.is_blind(&then, &now), None);
        // The workload acknowledged the same again.
        let again = lines(&["1", "2", "1"]);
        assert_eq!(Checked::Survived.is_blind(&then, &again), None);
    }

    #[test]
    fn only_a_check_that_exits_with_0_has_passed() {
        let of = |status: Option<i32>| {
            Checked::of(&Finished {
                status: status.map(ExitStatus::from_raw),
                output: "why\n".to_owned(),
            })
        };
        let failed = |failure| Checked::Failed(failure, "why".to_owned());
        for (status, is) in [
            (Some(0), Checked::Survived),
            (Some(1 << 8), failed(Failure::Lost)),
            (Some(2 << 8), failed(Failure::Unopened)),
            // A signal.
            (Some(11), failed(Failure::Unopened)),
            (None, failed(Failure::Hung)),
        ] {
            assert_eq!(of(status).unwrap(), is, "{status:?}");
        }
        assert!(of(Some(127 << 8)).is_err());
    }
}
