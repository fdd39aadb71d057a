//! Running commands in the time that is left.

use super::child::{self, Ended};
use super::clock::Clock;
use anyhow::Result;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// How long commands may take, all of them together.
#[derive(Debug)]
pub struct Budget<'c>(Option<&'c Clock>);

impl<'c> Budget<'c> {
    /// What is left of a run of the stages.
    pub fn of(clock: &'c Clock) -> Budget<'c> {
        Budget(Some(clock))
    }

    /// For a command that a user waits for, and can end.
    pub fn unlimited() -> Budget<'static> {
        Budget(None)
    }

    /// Runs the command, its output in the file `log`.
    pub fn run(&self, command: &mut Command, log: &Path) -> Result<Ended> {
        let limit = self.0.map_or(Duration::MAX, Clock::limit);
        child::run(command, log, limit)
    }
}
