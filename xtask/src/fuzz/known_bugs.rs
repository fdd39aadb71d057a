//! Check that the fuzzers find known bugs, one at a time, from an empty corpus.

use super::target::Stats;
use super::{Build, Places, TARGETS, Target};
use crate::test::Budget;
use anyhow::{Context, Result};

/// A known bug of `crates/sim/src/known_bugs/tools.rs`, the target that has to find it, and the maximum
/// number of executions for that.
#[derive(Debug)]
struct KnownBug {
    name: &'static str,
    target: &'static str,
    executions: u64,
}

const fn bug(name: &'static str, target: &'static str, executions: u64) -> KnownBug {
    KnownBug {
        name,
        target,
        executions,
    }
}

const KNOWN_BUGS: &[KnownBug] = &[
    bug("length-before-checksum", "decoders", 1_000_000),
    bug("frame-beyond-payload", "decoders", 1_000_000),
    bug("control-checksum-ignored", "decoders", 1_000_000),
    bug("payload-checksum-ignored", "mutated_log", 50_000),
    bug("stamps-not-searched", "mutated_log", 50_000),
    // Found after 200,000 to 700,000 executions. (`mutated_log` needs 11,000 to more than 100,000, but
    // slower ones.)
    bug("void-list-endless", "decoders", 4_000_000),
];

/// Fuzzes with each bug. Returns true if each was found.
pub fn command(places: &Places, budget: &Budget) -> Result<bool> {
    let build = Build::make(places, true, budget)?;
    let mut well = true;
    for bug in KNOWN_BUGS {
        let (found, line) = bug.find(places, &build, budget)?;
        well &= found;
        println!("{line}");
    }
    Ok(well)
}

impl KnownBug {
    fn find(&self, places: &Places, build: &Build, budget: &Budget) -> Result<(bool, String)> {
        let target = TARGETS.into_iter().find(|t| t.name == self.target);
        let target: Target = target.with_context(|| format!("no target {}", self.target))?;
        // Its findings are not bugs of the shipped log, so they go to a separate folder.
        let places = Places {
            root: places.root.clone(),
            target: places.target.join("known-bugs").join(self.name),
        };
        if places.target.exists() {
            std::fs::remove_dir_all(&places.target)?;
        }
        let corpus = places.found("corpus", target);
        std::fs::create_dir_all(&corpus)?;
        std::fs::create_dir_all(places.found("artifacts", target))?;
        let mut command = target.program(&places, build);
        command
            .env("LOGFORCE_PLANTED", self.name)
            .args(["-seed=1", &format!("-runs={}", self.executions)])
            .arg(&corpus);
        let ended = budget.run(&mut command, &places.target.join("log"))?;
        let text = ended.text();
        let executions = Stats::read(&text).executions;
        let error = text.lines().find(|l| l.contains("ERROR: libFuzzer"));
        let line = match error {
            Some(error) => {
                let how = error.split("libFuzzer: ").last().unwrap_or(error);
                format!(
                    "{}: found by {} after {executions} executions ({how})",
                    self.name, self.target
                )
            }
            None => format!(
                "{}: NOT found by {} in {executions} executions: {}",
                self.name, self.target, ended.how
            ),
        };
        Ok((error.is_some() && !ended.ok, line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn the_known_bugs_are_those_of_the_list() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let text = std::fs::read_to_string(root.join("crates/sim/src/known_bugs/tools.rs"));
        let text = text.expect("the list of known bugs");
        let list = text.split("pub const FUZZING").nth(1).expect("the list");
        let list = list.split("];").next().expect("its end");
        let names: Vec<&str> = list.split('"').skip(1).step_by(4).collect();
        let ours: Vec<&str> = KNOWN_BUGS.iter().map(|p| p.name).collect();
        assert_eq!(names, ours);
        assert!(
            KNOWN_BUGS
                .iter()
                .all(|p| TARGETS.iter().any(|t| t.name == p.target))
        );
    }
}
