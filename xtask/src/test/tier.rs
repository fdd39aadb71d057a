//! How much a run does: docs/testing.md has the table of what each tier finds.

use crate::workspace::Workspace;
use anyhow::{Context, Result, bail};
use std::process::Command;

/// The variable that makes test programs do all they can.
const DEEP: &str = "LOGFORCE_DEEP";
/// The variable with the first of their seeds.
const FROM: &str = "LOGFORCE_FROM";

/// Seeds below belong to the tests of every change, and to known bugs.
const FIRST_FRESH: u64 = 1_000_000;

/// How much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// What tests every change: each kind of suite, at the volume at which it still finds its own known
    /// bugs. Always the same seeds, so that the change is the cause of a failure.
    Change,
    /// All volume, all systems whole, all known bugs; the seeds begin here. Fresh ones, because the
    /// same seeds would find only regressions after a run that passed.
    Deep { from: u64 },
}

impl Tier {
    /// The deep one, with seeds that follow from the commit unless one is named.
    pub fn deep(workspace: &Workspace, from: Option<u64>) -> Result<Tier> {
        let from = match from {
            Some(from) => from,
            None => fresh(&commit(workspace)?)?,
        };
        Ok(Tier::Deep { from })
    }

    pub fn is_deep(self) -> bool {
        self != Tier::Change
    }

    /// The first seed of a random suite.
    pub fn from(self) -> u64 {
        match self {
            Tier::Change => 0,
            Tier::Deep { from } => from,
        }
    }

    /// Sets the environment of test programs.
    pub fn set_env(self, command: &mut Command) {
        if let Tier::Deep { from } = self {
            command.env(DEEP, "1").env(FROM, from.to_string());
        }
    }
}

/// A commit's seeds: far enough from another's that they hardly meet.
fn fresh(commit: &str) -> Result<u64> {
    let digits = commit.get(..10).context("git names no commit")?;
    let number = u64::from_str_radix(digits, 16).context("git names no commit")?;
    Ok(FIRST_FRESH + number / 1000 * 1000)
}

fn commit(workspace: &Workspace) -> Result<String> {
    let out = Command::new("git")
        .args(["rev-parse", "HEAD"])
        .current_dir(&workspace.root)
        .output();
    match out {
        Ok(out) if out.status.success() => Ok(String::from_utf8_lossy(&out.stdout).into_owned()),
        _ => bail!("git names no commit to take the seeds from; name the first one by --from SEED"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_follow_from_the_commit() {
        let one = fresh("0b3ef2f84aa0c1").unwrap();
        assert_eq!(one, fresh("0b3ef2f84aa0c1").unwrap());
        assert!(one >= FIRST_FRESH && one.is_multiple_of(1000));
        assert_ne!(one, fresh("1b3ef2f84aa0c1").unwrap());
        for wrong in ["", "abc", "zzzzzzzzzzzz"] {
            assert!(fresh(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn test_programs_get_the_tier_and_the_first_seed() {
        let mut command = Command::new("x");
        Tier::Change.set_env(&mut command);
        assert_eq!(command.get_envs().count(), 0);
        Tier::Deep { from: 7 }.set_env(&mut command);
        let names: Vec<_> = command.get_envs().map(|(name, _)| name).collect();
        assert_eq!(names, [DEEP, FROM]);
    }
}
