//! `cargo xtask test`: everything that can run on this machine, in stages.
//!
//! While the packages are installed, two workers run stages in parallel: one those that use the host's
//! own target folder, the other everything else. `scheduler` has what waits for what.

mod aarch64;
mod benches;
mod budget;
pub mod child;
mod clock;
mod compiling;
mod counts;
mod debian;
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

/// What every stage gets.
#[derive(Debug)]
pub struct Setting {
    pub workspace: Workspace,
    /// A continuous-integration machine, on which everything has to run.
    pub ci: bool,
    /// Where the transcripts of the stages go.
    pub logs: PathBuf,
    pub clock: Clock,
    pub tier: Tier,
}

/// Everything that can run on this machine, in stages, as CI does it. As root on a Debian it installs
/// the system packages that are missing; otherwise it prints the line that would.
///
/// With CI=true in the environment a missing package and a skipped test are failures; elsewhere they
/// are named. LOGFORCE_SCHEDULES=N: so many schedules of each test of interleavings; LOGFORCE_SEED=N
/// runs those of one seed again.
#[derive(Debug, PartialEq, Eq, clap::Args)]
pub struct Options {
    /// All volume instead of that of every change, with fresh seeds, the other systems
    /// whole, and every known bug: about an hour on two cores.
    #[arg(long)]
    deep: bool,
    /// The first seed of the deep run; it follows from the commit otherwise.
    #[arg(long, value_name = "SEED", requires = "deep")]
    from: Option<u64>,
    /// Goes on after a stage that failed.
    #[arg(long)]
    keep_going: bool,
    /// Only this stage; may be given several times.
    #[arg(long, value_name = "STAGE")]
    only: Vec<Stage>,
}

/// The command. True if nothing failed.
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
            "another `cargo xtask test` runs in {}; wait for it, or set CARGO_TARGET_DIR",
            workspace.target.display()
        ),
        Err(TryLockError::Error(e)) => return Err(e).context("locking"),
    }
    // A test that aborts, as some do on purpose, leaves no memory image among the sources.
    #[cfg(unix)]
    without_core_files()?;
    let temp = temporary::path(&workspace);
    end_all_on_ctrl_c(move || {
        if let Err(e) = temporary::clean(&temp) {
            eprintln!("left behind: {e:#}");
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
        workspace,
        ci: std::env::var("CI").is_ok_and(|v| v == "true" || v == "1"),
        logs,
        clock: Clock::start(tier),
        tier,
    };
    let selected = |s: &Stage| match options.only.as_slice() {
        [] => s.is_in(tier),
        only => only.contains(s),
    };
    let reports = scheduler::run(&setting, selected, options.keep_going);
    Ok(scheduler::summary(&setting, &reports))
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
