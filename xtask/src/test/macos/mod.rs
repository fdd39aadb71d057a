//! Stage `macos`, on Debian. The macOS code is linked for Apple's processors, and checked by clippy and
//! the compiler for Intel's. It cannot be run here.

mod executables;
mod linker;

use super::counts::Counts;
use super::debian::{self, Needed};
use super::stage::StageOutcome;
use super::{Setting, Tier, child, host, transcript};
use anyhow::Result;
use linker::Linker;

const ARM: &str = "aarch64-apple-darwin";
const INTEL: &str = "x86_64-apple-darwin";

/// Files needed in addition to the toolchain. The linker itself comes from PyPI.
const NEEDED: [Needed; 2] = [
    ("/usr/bin/python3", "python3"),
    ("/usr/share/python-wheels", "python3-venv"),
];

/// Runs the steps. Each runs only if the previous ones passed, because an error would be printed twice.
pub fn run(setting: &Setting) -> Result<StageOutcome> {
    let needed = match setting.tier {
        Tier::Change => &[][..],
        Tier::Deep { .. } => &NEEDED,
    };
    if let Some(refused) = debian::refused("macOS", needed) {
        return Ok(refused);
    }
    // The code does not depend on the processor. It is checked for Intel in any case, so its
    // dependencies are checked once.
    let which = match setting.tier {
        Tier::Change => "--lib",
        // The tests have additional dependencies.
        Tier::Deep { .. } => "--all-targets",
    };
    let mut clippy = debian::clippy(setting, INTEL, debian::BACKENDS, &[which])?;
    let mut all = host::step(setting, "macos", &mut clippy)?;
    let steps: &[fn(&Setting) -> Result<StageOutcome>] = match setting.tier {
        Tier::Change => &[],
        Tier::Deep { .. } => &[check_intel, link],
    };
    for step in steps {
        if all.counts.failed > 0 {
            break;
        }
        all += step(setting)?;
    }
    Ok(all)
}

/// Links the command and the test programs, and checks the result.
fn link(setting: &Setting) -> Result<StageOutcome> {
    let linker = match Linker::get(setting)? {
        Ok(linker) => linker,
        Err(why) => return Ok(StageOutcome::skipped(why)),
    };
    let mut build = linker.cargo(setting)?;
    debian::for_target(setting, &mut build, ARM, debian::TESTED);
    build
        .args(debian::NOT_OPTIMISED)
        .args(["--tests", "--bins"])
        .args(["--message-format", "json-render-diagnostics"]);
    let log = setting.logs.join("macos-link.log");
    let ended = child::run(&mut build, &log, setting.clock.limit())?;
    let text = ended.text();
    if !ended.ok {
        let (_, said): (Vec<String>, Vec<String>) = transcript::without_progress(&text)
            .into_iter()
            .partition(|line| line.starts_with('{'));
        let lines = said.into_iter().chain([ended.how]).collect();
        return Ok(StageOutcome::of(Counts::FAILED, lines));
    }
    let linked = executables::of(&text);
    let wrong = executables::wrong(&linked);
    Ok(match wrong.as_slice() {
        [] => StageOutcome::of(
            Counts::of(linked.len() as u64, 0, 0),
            vec![format!("linked for {ARM}: {} programs", linked.len())],
        ),
        _ => StageOutcome::of(Counts::FAILED, wrong),
    })
}

/// Type-checks the command for Intel's processors, and with it all crates that users get.
fn check_intel(setting: &Setting) -> Result<StageOutcome> {
    let mut check = debian::cargo(setting)?;
    check.arg("check");
    debian::for_target(setting, &mut check, INTEL, &["logforce-cli"]);
    check.args(debian::NOT_OPTIMISED);
    host::step(setting, "macos-intel", &mut check)
}
