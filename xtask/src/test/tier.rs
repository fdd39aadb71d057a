//! Tiers: the volume of a run. docs/testing.md has the table of what each tier finds.

use crate::workspace::Workspace;
use anyhow::{Context, Result, bail};
use std::process::Command;

/// Environment variable that makes test programs run at full volume.
const DEEP: &str = "LOGFORCE_DEEP";
/// Environment variable with their first seed.
const FROM: &str = "LOGFORCE_FROM";

/// First seed of deep runs. Lower seeds belong to the tests of every change, and to known bugs.
const FIRST_FRESH: u64 = 1_000_000;

/// Volume of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// Tier for every change: each kind of suite, at the volume at which it still finds its known bugs.
    /// The seeds are always the same, so that the change is the cause of a failure.
    Change,
    /// Full volume, all systems in full, all known bugs; `from` is the first seed. The seeds are fresh:
    /// after a run that passed, the same seeds would find only regressions.
    Deep { from: u64 },
}

impl Tier {
    /// Returns the deep tier. Its first seed is `from`, or is derived from the commit.
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

    /// Returns the first seed of a random suite.
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

/// Returns a number that differs between commits: what is too much for every change is run in turns. Zero
/// without git.
pub fn turn(workspace: &Workspace) -> u64 {
    Tier::deep(workspace, None).map_or(0, Tier::from) / 1000
}

/// Returns the first seed of a commit. Seeds of different commits are far apart, so they hardly overlap.
fn fresh(commit: &str) -> Result<u64> {
    let digits = commit.get(..10).context("git reports no commit")?;
    let number = u64::from_str_radix(digits, 16).context("git reports no commit")?;
    Ok(FIRST_FRESH + number / 1000 * 1000)
}

fn commit(workspace: &Workspace) -> Result<String> {
    let out = Command::new("git")
        .args(["rev-parse", "HEAD"])
        .current_dir(&workspace.root)
        .output();
    match out {
        Ok(out) if out.status.success() => Ok(String::from_utf8_lossy(&out.stdout).into_owned()),
        _ => bail!(
            "git reports no commit to derive the seeds from: give the first seed by --from SEED"
        ),
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
