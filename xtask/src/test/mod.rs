//! `cargo xtask test`: everything that can run on this machine, in stages.
//!
//! Two lanes run beside each other: what is done in the host's own target folder, and everything
//! else. `lanes` says what waits for what.

mod aarch64;
mod budget;
pub mod child;
mod clock;
mod counts;
mod debian;
mod excuses;
mod fuzzing;
mod host;
mod interleavings;
mod lanes;
mod leftovers;
mod lives;
mod macos;
mod packages;
mod powercut;
mod stage;
mod suites;
pub mod transcript;
mod windows;

pub use budget::Budget;
pub use child::end_all_on_ctrl_c;
pub use counts::Counts;
pub use debian::TESTED as PORTABLE;
pub use stage::Stage;
pub use transcript::SuiteResult;

use crate::workspace::Workspace;
use anyhow::{Context, Result, bail};
use clock::Clock;
use std::fs::{File, TryLockError};
use std::path::PathBuf;

/// What every stage needs to know.
#[derive(Debug)]
pub struct Setting {
    pub workspace: Workspace,
    /// A continuous-integration machine: there everything has to run.
    pub ci: bool,
    /// Where the transcripts of the stages go.
    pub logs: PathBuf,
    pub clock: Clock,
}

/// What was asked for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    keep_going: bool,
    only: Vec<Stage>,
}

impl Options {
    fn read(words: &[&str]) -> Result<Options> {
        let mut options = Options::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match *word {
                "--keep-going" => options.keep_going = true,
                "--only" => {
                    let name = words.next().context("--only needs the name of a stage")?;
                    let stage = Stage::ALL.into_iter().find(|s| s.name() == *name);
                    options.only.push(stage.with_context(|| {
                        let names = Stage::ALL.map(Stage::name).join(", ");
                        format!("no stage '{name}'; there are {names}")
                    })?);
                }
                other => bail!("no such option: {other}; `cargo xtask` prints what there is"),
            }
        }
        Ok(options)
    }
}

/// The command. True if nothing failed.
pub fn command(words: &[&str]) -> Result<bool> {
    let options = Options::read(words)?;
    let mut workspace = Workspace::find()?;
    let logs = workspace.target.join("xtask");
    std::fs::create_dir_all(&logs).with_context(|| logs.display().to_string())?;
    // The kernel names mounts and loop devices by paths without links.
    workspace.target = workspace.target.canonicalize()?;
    let lock = File::create(logs.join("lock"))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => bail!(
            "another `cargo xtask test` runs in {}; wait for it, or set CARGO_TARGET_DIR",
            workspace.target.display()
        ),
        Err(TryLockError::Error(e)) => return Err(e).context("locking"),
    }
    // A test that aborts, as some do on purpose, leaves no memory image among the sources.
    #[cfg(unix)]
    without_core_files()?;
    let temp = suites::temporary(&workspace);
    end_all_on_ctrl_c(move || {
        if let Err(e) = leftovers::clean(&temp) {
            eprintln!("left behind: {e:#}");
        }
    })?;
    let setting = Setting {
        workspace,
        ci: std::env::var("CI").is_ok_and(|v| v == "true" || v == "1"),
        logs,
        clock: Clock::start(),
    };
    let selected = |s: &Stage| options.only.is_empty() || options.only.contains(s);
    let reports = lanes::run(&setting, selected, options.keep_going);
    Ok(lanes::summary(&setting, &reports))
}

/// For this process and all that it starts.
#[cfg(unix)]
fn without_core_files() -> Result<()> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let none = Rlimit {
        current: Some(0),
        ..getrlimit(Resource::Core)
    };
    setrlimit(Resource::Core, none).context("no core files")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        let read = |words: &[&str]| Options::read(words).map_err(|e| e.to_string());
        assert_eq!(read(&[]), Ok(Options::default()));
        let both = read(&["--only", "fmt", "--keep-going", "--only", "tests"]).unwrap();
        assert_eq!(both.only, [Stage::Fmt, Stage::Tests]);
        assert!(both.keep_going);
        for (words, said) in [
            (&["--only"][..], "needs the name"),
            (&["--only", "x"], "packages"),
            (&["x"], "no such option"),
        ] {
            let error = read(words).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }
}
