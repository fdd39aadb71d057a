//! Stage `fuzz`: each fuzz target for a short while.

use super::budget::Budget;
use super::counts::Counts;
use super::stage::StageOutcome;
use super::{Setting, packages};
use crate::fuzz::{Build, Places, SHORT, TARGETS};
use anyhow::Result;

/// Replays the kept inputs and fuzzes each target.
pub fn run(setting: &Setting) -> Result<StageOutcome> {
    if !packages::is_there("c++") {
        return Ok(StageOutcome::skipped(
            "libFuzzer needs a C++ compiler (g++)",
        ));
    }
    let places = Places::of(&setting.workspace);
    let budget = Budget::of(&setting.clock);
    let build = Build::make(&places, false, &budget)?;
    let mut outcome = StageOutcome::default();
    for target in TARGETS {
        let found = target.test(&places, &build, SHORT, &budget)?;
        outcome.counts += match found.well {
            true => Counts::PASSED,
            false => Counts::FAILED,
        };
        outcome.lines.extend(found.lines);
    }
    Ok(outcome)
}
