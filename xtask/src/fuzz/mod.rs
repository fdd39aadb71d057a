//! `cargo xtask fuzz`: builds the fuzz targets as cargo-fuzz would, replays the kept inputs, and fuzzes
//! each target for a while.
//!
//! This works with the pinned compiler and without cargo-fuzz: nothing in the targets is `unsafe`, so no
//! sanitizer is needed, and LLVM does the instrumentation. libFuzzer also needs a C++ compiler.

mod build;
mod known_bugs;
mod target;

use crate::test::{Budget, end_all_on_ctrl_c};
use crate::workspace::Workspace;
use anyhow::Result;
pub use build::Build;
use std::path::PathBuf;
use std::time::Duration;
pub use target::{TARGETS, Target};

/// Default fuzzing time of each target.
pub const SHORT: Duration = Duration::from_secs(20);

/// Directories of the fuzzing.
#[derive(Debug)]
pub struct Places {
    /// Root of the repository.
    pub root: PathBuf,
    /// Target folder of the fuzzing.
    pub target: PathBuf,
}

impl Places {
    pub fn of(workspace: &Workspace) -> Places {
        Places {
            root: workspace.root.clone(),
            target: workspace.target.join("fuzz"),
        }
    }

    /// Returns the folder in the repository with a target's kept inputs.
    pub fn kept(&self, what: &str, target: Target) -> PathBuf {
        self.root.join("fuzz").join(what).join(target.name)
    }

    /// Returns the folder for a run's findings.
    pub fn found(&self, what: &str, target: Target) -> PathBuf {
        self.target.join(what).join(target.name)
    }
}

/// Builds the fuzz targets, replays the inputs kept in fuzz/, and fuzzes each target. Needs neither
/// cargo-fuzz nor a nightly compiler. Writes only below target/fuzz.
#[derive(Debug, Default, PartialEq, Eq, clap::Args)]
pub struct Options {
    /// Targets to fuzz [default: all].
    #[arg(value_name = "TARGET", value_parser = target_named)]
    targets: Vec<Target>,
    /// Minutes per target, instead of 20 seconds.
    // 32 bits, so that the number of seconds cannot overflow.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    minutes: Option<u32>,
    /// Afterwards replaces fuzz/corpus by the smallest corpus with the same coverage.
    #[arg(long)]
    minimise: bool,
    /// Checks that each known bug is found within a bounded number of executions.
    #[arg(long, conflicts_with_all = ["targets", "minutes", "minimise"])]
    planted: bool,
}

fn target_named(name: &str) -> Result<Target, String> {
    let target = TARGETS.into_iter().find(|t| t.name == name);
    target.ok_or_else(|| format!("known targets: {}", TARGETS.map(|t| t.name).join(", ")))
}

/// Runs the command. Returns true if no bug was found.
pub fn command(options: &Options) -> Result<bool> {
    let mut workspace = Workspace::find()?;
    std::fs::create_dir_all(&workspace.target)?;
    workspace.target = workspace.target.canonicalize()?;
    let places = Places::of(&workspace);
    end_all_on_ctrl_c(|| {})?;
    let budget = Budget::unlimited();
    if options.planted {
        return known_bugs::command(&places, &budget);
    }
    let build = Build::make(&places, false, &budget)?;
    let mut well = true;
    let time = options
        .minutes
        .map(|m| Duration::from_secs(60 * u64::from(m)));
    let targets = match options.targets.as_slice() {
        [] => &TARGETS[..],
        some => some,
    };
    for target in targets.iter().copied() {
        let found = target.test(&places, &build, time.unwrap_or(SHORT), &budget)?;
        for line in &found.lines {
            println!("{line}");
        }
        well &= found.well;
        if options.minimise && found.well {
            println!("{}", target.minimise(&places, &build, &budget)?);
        }
    }
    Ok(well)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_named() {
        assert!(target_named("decoders").is_ok());
        let error = target_named("no-such").expect_err("wrong");
        assert!(error.contains("mutated_log"), "{error}");
    }
}
