//! Commands within the remaining time.

use super::child::{self, Ended};
use super::clock::Clock;
use anyhow::Result;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Time limit for all commands together.
#[derive(Debug)]
pub struct Budget<'c>(Option<&'c Clock>);

impl<'c> Budget<'c> {
    /// Returns the remaining time of a run of the stages.
    pub fn of(clock: &'c Clock) -> Budget<'c> {
        Budget(Some(clock))
    }

    /// Returns a budget without a limit, for a command that the user waits for and can interrupt.
    pub fn unlimited() -> Budget<'static> {
        Budget(None)
    }

    /// Runs the command and writes its output to the file `log`.
    pub fn run(&self, command: &mut Command, log: &Path) -> Result<Ended> {
        let limit = self.0.map_or(Duration::MAX, Clock::limit);
        child::run(command, log, limit)
    }
}
