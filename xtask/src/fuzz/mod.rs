//! `cargo xtask fuzz`: builds the fuzz targets as cargo-fuzz would, replays what is kept, and
//! fuzzes each for a while.
//!
//! With the pinned compiler and without cargo-fuzz: nothing in the targets is `unsafe`, so no
//! sanitizer is needed, and the instrumentation is LLVM's. What it needs besides is a C++ compiler,
//! for libFuzzer.

mod build;
mod planted;
mod target;

use crate::test::{Budget, end_all_on_ctrl_c};
use crate::workspace::Workspace;
use anyhow::{Context, Result, bail};
pub use build::Build;
use std::path::PathBuf;
use std::time::Duration;
pub use target::{TARGETS, Target};

/// For how long each target is fuzzed where nobody says otherwise.
pub const SHORT: Duration = Duration::from_secs(20);

/// Where everything is.
#[derive(Debug)]
pub struct Places {
    /// The root of the repository.
    pub root: PathBuf,
    /// Where cargo builds to, for this alone.
    pub target: PathBuf,
}

impl Places {
    pub fn of(workspace: &Workspace) -> Places {
        Places {
            root: workspace.root.clone(),
            target: workspace.target.join("fuzz"),
        }
    }

    /// What is kept in the repository for a target.
    pub fn kept(&self, what: &str, target: Target) -> PathBuf {
        self.root.join("fuzz").join(what).join(target.name)
    }

    /// What a run finds.
    pub fn found(&self, what: &str, target: Target) -> PathBuf {
        self.target.join(what).join(target.name)
    }
}

/// What was asked for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    targets: Vec<Target>,
    time: Option<Duration>,
    minimise: bool,
    planted: bool,
}

impl Options {
    fn read(words: &[&str]) -> Result<Options> {
        let mut options = Options::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match *word {
                "--minutes" => {
                    let minutes = words.next().context("--minutes needs a number")?;
                    // In 32 bits, so that no number of seconds overflows.
                    let number = minutes.parse::<u32>().ok().filter(|n| *n > 0);
                    let number =
                        number.with_context(|| format!("'{minutes}' is no number of minutes"))?;
                    options.time = Some(Duration::from_secs(60 * u64::from(number)));
                }
                "--minimise" => options.minimise = true,
                "--planted" => options.planted = true,
                flag if flag.starts_with('-') => {
                    bail!("no option '{flag}'; there are --minutes M, --minimise and --planted")
                }
                name => {
                    let target = TARGETS.into_iter().find(|t| t.name == name);
                    options.targets.push(target.with_context(|| {
                        let names = TARGETS.map(|t| t.name).join(", ");
                        format!("no target '{name}'; there are {names}")
                    })?);
                }
            }
        }
        let others = options.time.is_some() || options.minimise || !options.targets.is_empty();
        if options.planted && others {
            bail!("--planted takes nothing else: the executions are bounded, not the time");
        }
        if options.targets.is_empty() {
            options.targets = TARGETS.to_vec();
        }
        Ok(options)
    }
}

/// The command. True if nothing was found.
pub fn command(words: &[&str]) -> Result<bool> {
    let options = Options::read(words)?;
    let mut workspace = Workspace::find()?;
    std::fs::create_dir_all(&workspace.target)?;
    workspace.target = workspace.target.canonicalize()?;
    let places = Places::of(&workspace);
    end_all_on_ctrl_c(|| {})?;
    let budget = Budget::unlimited();
    if options.planted {
        return planted::command(&places, &budget);
    }
    let build = Build::make(&places, false, &budget)?;
    let mut well = true;
    for target in options.targets {
        let found = target.test(&places, &build, options.time.unwrap_or(SHORT), &budget)?;
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
    fn options_are_read() {
        let read = |words: &[&str]| Options::read(words).map_err(|e| e.to_string());
        assert_eq!(read(&[]).map(|o| o.targets.len()), Ok(TARGETS.len()));
        let one = read(&["decoders", "--minutes", "3", "--minimise"]);
        let one = one.expect("right");
        assert_eq!(one.targets.len(), 1);
        assert_eq!(one.time, Some(Duration::from_secs(180)));
        assert!(one.minimise && !one.planted);
        for (words, said) in [
            (&["--minutes"][..], "needs a number"),
            (&["--minutes", "x"], "no number"),
            (&["--minutes", "0"], "no number"),
            (&["--minutes", "18446744073709551615"], "no number"),
            (&["no-such"], "mutated_log"),
            (&["--minimize"], "--minimise"),
            (&["--planted", "decoders"], "bounded"),
            (&["--planted", "--minutes", "1"], "bounded"),
        ] {
            let error = read(words).expect_err("wrong");
            assert!(error.contains(said), "{error}");
        }
    }
}
