//! `cargo xtask test`: everything that can run on this machine, in stages.
//!
//! While one worker installs packages, two others run stages in parallel: one the stages that use the
//! host's target folder, the other everything else. `scheduler` has the dependencies between stages.

mod aarch64;
mod archive;
mod benches;
mod budget;
pub mod child;
mod clock;
mod compiling;
mod counts;
mod debian;
mod engines;
mod fuzzing;
mod host;
mod interleavings;
mod leaks;
mod macos;
mod miri;
mod packages;
mod powercut;
mod publish;
mod scheduler;
mod simulation;
mod sqlite;
mod sqlite_suite;
mod stage;
mod suites;
mod temporary;
mod tier;
pub mod transcript;
mod windows;

pub use budget::Budget;
pub use child::end_all_on_ctrl_c;
pub use counts::Counts;
pub use debian::TESTED as PORTABLE;
use stage::Stage;
pub use tier::Tier;
pub use transcript::SuiteResult;

use crate::workspace::Workspace;
use anyhow::{Context, Result, bail};
use clock::Clock;
use std::fs::{File, TryLockError};
use std::path::PathBuf;

/// Settings that every stage gets.
#[derive(Debug)]
pub struct Setting {
    pub workspace: Workspace,
    /// True on a continuous-integration machine, where everything has to run.
    pub ci: bool,
    /// Directory for the transcripts of the stages.
    pub logs: PathBuf,
    pub clock: Clock,
    pub tier: Tier,
    /// Turn of this commit.
    pub turn: u64,
}

/// Runs everything that can run on this machine, in stages, as CI does. As root on Debian it installs
/// missing system packages; otherwise it prints the command for that.
///
/// With CI=true in the environment, a missing package and a skipped test are failures; otherwise they
/// are listed. LOGFORCE_SCHEDULES=N sets the number of schedules of each interleaving test;
/// LOGFORCE_SEED=N repeats those of one seed.
#[derive(Debug, PartialEq, Eq, clap::Args)]
pub struct Options {
    /// Full volume instead of that for every change, with fresh seeds, the other systems in full, and
    /// every known bug: one to two hours on two cores.
    #[arg(long)]
    deep: bool,
    /// First seed of the deep run [default: derived from the commit].
    #[arg(long, value_name = "SEED", requires = "deep")]
    from: Option<u64>,
    /// Continues after a failed stage.
    #[arg(long)]
    keep_going: bool,
    /// Runs only this stage; can be given several times.
    #[arg(long, value_name = "STAGE")]
    only: Vec<Stage>,
}

/// Runs the command. Returns true if nothing failed.
pub fn command(options: &Options) -> Result<bool> {
    let mut workspace = Workspace::find()?;
    let logs = workspace.target.join("xtask");
    std::fs::create_dir_all(&logs).with_context(|| logs.display().to_string())?;
    // The kernel names mounts and loop devices by paths without links.
    workspace.target = workspace.target.canonicalize()?;
    let lock = File::create(logs.join("lock"))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => bail!(
            "another `cargo xtask test` is running in {}: wait for it, or set CARGO_TARGET_DIR",
            workspace.target.display()
        ),
        Err(TryLockError::Error(e)) => return Err(e).context("locking"),
    }
    // Tests that abort, some on purpose, must leave no core file among the sources.
    #[cfg(unix)]
    without_core_files()?;
    let temp = temporary::path(&workspace);
    let of_suite = temporary::of_suite(&workspace);
    end_all_on_ctrl_c(move || {
        for dir in of_suite.iter().chain([&temp]) {
            if let Err(e) = temporary::clean(dir) {
                eprintln!("left behind: {e:#}");
            }
        }
    })?;
    let tier = match options.deep {
        true => Tier::deep(&workspace, options.from)?,
        false => Tier::Change,
    };
    if let Tier::Deep { from } = tier {
        println!("deep: seeds from {from}; again: cargo xtask test --deep --from {from}");
    }
    let setting = Setting {
        turn: tier::turn(&workspace),
        workspace,
        ci: std::env::var("CI").is_ok_and(|v| v == "true" || v == "1"),
        logs,
        clock: Clock::start(tier),
        tier,
    };
    if !tier.is_deep() && options.only.is_empty() {
        let left_out = Stage::left_out(setting.turn).name();
        println!("{left_out}: not in this commit's turn; cargo xtask test --only {left_out}");
    }
    let selected = |s: &Stage| match options.only.as_slice() {
        [] => s.is_in(&setting),
        only => only.contains(s),
    };
    let reports = scheduler::run(&setting, selected, options.keep_going);
    Ok(scheduler::summary(&setting, &reports))
}

/// Disables core files for this process and its children.
#[cfg(unix)]
fn without_core_files() -> Result<()> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let none = Rlimit {
        current: Some(0),
        ..getrlimit(Resource::Core)
    };
    setrlimit(Resource::Core, none).context("no core files")
}
