//! Crash tests in Rust: a test whose program is the test itself.

use crate::plan::Plan;
use crate::program::{ACKED, ACKS, AckSource, BEGUN, DIR, Program};
use crate::report::Verdict;
use crate::role;
use crate::test::{self, Progress};
use crate::testbed::{Filesystem, enclosure, needs};
use std::any::Any;
use std::error::Error;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::exit;

/// Set to `1`, it makes a test fail whose machine lacks something, instead of skipping it.
const REQUIRED: &str = "CRASHTEST_REQUIRED";
/// Variable with the task of a process inside: `workload` or `check`.
const TASK: &str = "LOGFORCE_CRASHTEST_TASK";

/// Result of a workload and of a check.
pub type TaskResult = Result<(), Box<dyn Error + Send + Sync>>;

/// The acknowledgements of a workload.
#[derive(Debug)]
pub struct Acknowledger(File);

impl Acknowledger {
    /// Acknowledges an operation: from now on it must survive a power cut. Returns after the harness has counted it.
    /// `what` is for the check, and has no newline.
    ///
    /// # Errors
    /// I/O errors of the write.
    pub fn ack(&mut self, what: impl std::fmt::Display) -> std::io::Result<()> {
        self.0.write_all(format!("{what}\n").as_bytes())
    }

    /// Announces an operation: after a cut it may be there or not.
    ///
    /// # Errors
    /// I/O errors of the write.
    pub fn begin(&mut self, what: impl std::fmt::Display) -> std::io::Result<()> {
        self.0.write_all(format!("?{what}\n").as_bytes())
    }
}

/// The lines that a workload wrote before the cuts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Acknowledged {
    /// Acknowledged operations, in order: they must be there.
    pub acked: Vec<String>,
    /// Announced operations, in order: each may be there or not.
    pub begun: Vec<String>,
}

impl Acknowledged {
    /// Returns the acknowledged lines as numbers.
    ///
    /// # Errors
    /// If a line is not a number.
    pub fn numbers(&self) -> Result<Vec<u64>, std::num::ParseIntError> {
        self.acked.iter().map(|line| line.parse()).collect()
    }
}

type Workload = Box<dyn Fn(&Path, &mut Acknowledger) -> TaskResult>;
type Check = Box<dyn Fn(&Path, &Acknowledged) -> TaskResult>;

/// A crash test, run by a `#[test]` function.
///
/// The test's own program is started again in each role: as the workload, as the check, as the disk. So the function
/// must reach [`run`](Self::run) each time, without side effects before it, and must be found by its name alone: it is
/// not generic, and its binary uses the standard test harness.
pub struct Crashtest {
    plan: Plan,
    workload: Option<Workload>,
    check: Option<Check>,
    name: Option<String>,
}

impl Default for Crashtest {
    fn default() -> Self {
        Self::new()
    }
}

impl Crashtest {
    /// Returns a test of 30 cuts and 300 states on ext4 and on xfs.
    pub fn new() -> Crashtest {
        let own = Program::Arguments(Vec::new());
        Crashtest {
            plan: Plan {
                acks: AckSource::File,
                ..Plan::new(own.clone(), own)
            },
            workload: None,
            check: None,
            name: None,
        }
    }

    /// Sets the workload. It gets a directory with what earlier sessions left, and works until it is killed.
    #[must_use]
    pub fn workload<F>(mut self, workload: F) -> Self
    where
        F: Fn(&Path, &mut Acknowledger) -> TaskResult + 'static,
    {
        self.name = test_name(std::any::type_name::<F>());
        self.workload = Some(Box::new(workload));
        self
    }

    /// Sets the check. It gets the directory after a cut, and must return an error or panic if something acknowledged
    /// is missing.
    #[must_use]
    pub fn check<F>(mut self, check: F) -> Self
    where
        F: Fn(&Path, &Acknowledged) -> TaskResult + 'static,
    {
        self.check = Some(Box::new(check));
        self
    }

    /// Sets the number of live cuts on each filesystem.
    #[must_use]
    pub fn cuts(mut self, cuts: u64) -> Self {
        self.plan.cuts = cuts;
        self
    }

    /// Sets the number of replayed states on each filesystem.
    #[must_use]
    pub fn states(mut self, states: u64) -> Self {
        self.plan.states = states;
        self
    }

    /// Sets the filesystems.
    #[must_use]
    pub fn filesystems(mut self, filesystems: &[Filesystem]) -> Self {
        self.plan.filesystems = filesystems.to_vec();
        self
    }

    /// Sets the size of the disk in bytes; the smallest that each filesystem works with is the default.
    #[must_use]
    pub fn size(mut self, bytes: u64) -> Self {
        self.plan.size = Some(bytes);
        self
    }

    /// Sets whether the cause of a loss is looked for, which takes up to a few minutes. It is by default.
    #[must_use]
    pub fn explain(mut self, explain: bool) -> Self {
        self.plan.explain = explain;
        self
    }

    /// Sets the seed of all random choices.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.plan.seed = seed;
        self
    }

    /// Runs the test. Prints its report.
    ///
    /// # Panics
    /// If workload or check are missing, and if the machine fails.
    pub fn run(self) -> Outcome {
        if let Some(played) = role::play() {
            end(played.map_err(Into::into));
        }
        if let Ok(task) = std::env::var(TASK) {
            self.perform(&task);
        }
        let name = self.name.clone().expect("a crash test has a workload");
        assert!(self.check.is_some(), "a crash test has a check");
        if enclosure::is_inside() {
            exit(i32::from(self.inside(&name)));
        }
        let missing = needs::missing(&self.plan.filesystems);
        if !missing.is_empty() {
            let missing = missing.join(", ");
            let required = std::env::var(REQUIRED).is_ok_and(|v| v == "1");
            assert!(!required, "the crash test cannot run here: {missing}");
            eprintln!("SKIPPED: the crash test cannot run here: {missing}");
            return Outcome(None);
        }
        let status = enclosure::run_inside(&arguments(&name)).expect("the enclosure starts");
        Outcome(match status {
            0 => Some(Verdict::Survived),
            1 => Some(Verdict::Lost),
            3 => Some(Verdict::Inconclusive),
            other => {
                panic!("the crash test could not be run (status {other}); its output says why")
            }
        })
    }

    /// Performs a task of a process inside, and ends the process.
    fn perform(self, task: &str) -> ! {
        let done = catch_unwind(AssertUnwindSafe(|| -> TaskResult {
            let dir = std::env::var_os(DIR).ok_or("no directory")?;
            match task {
                "workload" => {
                    let acks = std::env::var_os(ACKS).ok_or("no file for acknowledgements")?;
                    let mut acks = Acknowledger(OpenOptions::new().append(true).open(acks)?);
                    let workload = self.workload.ok_or("no workload")?;
                    workload(Path::new(&dir), &mut acks)
                }
                _ => {
                    let lines = |variable| -> Result<Vec<String>, Box<dyn Error + Send + Sync>> {
                        let text = std::fs::read_to_string(std::env::var(variable)?)?;
                        Ok(text.lines().map(str::to_owned).collect())
                    };
                    let acknowledged = Acknowledged {
                        acked: lines(ACKED)?,
                        begun: lines(BEGUN)?,
                    };
                    self.check.ok_or("no check")?(Path::new(&dir), &acknowledged)
                }
            }
        }));
        end(done.unwrap_or_else(|panic| Err(message(&*panic).into())))
    }

    /// Runs the test inside the enclosure; returns the exit status.
    fn inside(self, name: &str) -> u8 {
        let task = |task: &str| {
            let own = std::env::current_exe().unwrap_or_default();
            let words = [
                "env".into(),
                format!("{TASK}={task}").into(),
                own.into_os_string(),
            ];
            let words: Vec<OsString> = words.into_iter().chain(arguments(name)).collect();
            Program::Arguments(words)
        };
        let plan = Plan {
            workload: task("workload"),
            check: task("check"),
            ..self.plan
        };
        let quiet = &mut |_: Progress<'_>| {};
        match enclosure::enter().and_then(|home| test::run(&plan, &home, quiet)) {
            Ok(report) => {
                eprintln!("{report}");
                match report.verdict {
                    Verdict::Survived => 0,
                    Verdict::Lost => 1,
                    Verdict::Inconclusive => 3,
                }
            }
            Err(e) => {
                eprintln!("error: {e:#}");
                2
            }
        }
    }
}

/// Ends the process of a task: 0, or 1 with the reason in the last line.
fn end(done: TaskResult) -> ! {
    if let Err(e) = &done {
        eprintln!("{}", e.to_string().replace('\n', " "));
    }
    exit(i32::from(done.is_err()))
}

/// Returns the message of a panic.
fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "a panic".to_owned())
}

/// Returns the arguments with which the standard test harness runs one test.
fn arguments(name: &str) -> [OsString; 3] {
    ["--exact", name, "--nocapture"].map(OsString::from)
}

/// Returns the name of the test function that contains a closure, as the test harness knows it: without the crate.
fn test_name(closure: &str) -> Option<String> {
    let function = closure.split("::{{closure}}").next()?;
    let (_crate, name) = function.split_once("::")?;
    Some(name.to_owned())
}

/// Result of a crash test in Rust.
#[derive(Debug)]
#[must_use]
pub struct Outcome(Option<Verdict>);

impl Outcome {
    /// Returns the verdict; `None` if the test was skipped.
    pub fn verdict(&self) -> Option<Verdict> {
        self.0
    }

    /// Asserts that nothing was lost, or that the test was skipped.
    ///
    /// # Panics
    /// If something was lost, and if the test proves nothing.
    pub fn assert_survived(self) {
        let survived = matches!(self.0, None | Some(Verdict::Survived));
        assert!(
            survived,
            "the crash test ended with {:?}; its report is above",
            self.0
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_test_is_that_of_its_closure() {
        let name = test_name(std::any::type_name_of_val(&|| ()));
        let here = "library::tests::the_name_of_a_test_is_that_of_its_closure";
        assert_eq!(name.as_deref(), Some(here));
    }
}
