//! Shows that the fuzzers find something: known bugs, one at a time, from an empty corpus.

use super::target::Stats;
use super::{Build, Places, TARGETS, Target};
use crate::test::Budget;
use anyhow::{Context, Result};

/// A known bug of `crates/sim/src/plants.rs`, the target that has to find it, and within how many
/// executions.
#[derive(Debug)]
struct Plant {
    name: &'static str,
    target: &'static str,
    executions: u64,
}

const fn plant(name: &'static str, target: &'static str, executions: u64) -> Plant {
    Plant {
        name,
        target,
        executions,
    }
}

const PLANTS: &[Plant] = &[
    plant("length-before-checksum", "decoders", 1_000_000),
    plant("frame-beyond-payload", "decoders", 1_000_000),
    plant("control-checksum-ignored", "decoders", 1_000_000),
    plant("payload-checksum-ignored", "mutated_log", 50_000),
    plant("stamps-not-searched", "mutated_log", 50_000),
    plant("void-list-endless", "mutated_log", 100_000),
];

/// Tries all of them. True if each was found.
pub fn command(places: &Places, budget: &Budget) -> Result<bool> {
    let build = Build::make(places, true, budget)?;
    let mut well = true;
    for plant in PLANTS {
        let (found, line) = plant.find(places, &build, budget)?;
        well &= found;
        println!("{line}");
    }
    Ok(well)
}

impl Plant {
    fn find(&self, places: &Places, build: &Build, budget: &Budget) -> Result<(bool, String)> {
        let target = TARGETS.into_iter().find(|t| t.name == self.target);
        let target: Target = target.with_context(|| format!("no target {}", self.target))?;
        // What it finds is no crash of ours: it stays apart.
        let places = Places {
            root: places.root.clone(),
            target: places.target.join("plants").join(self.name),
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
    fn the_plants_are_those_of_the_list() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let text = std::fs::read_to_string(root.join("crates/sim/src/plants.rs"));
        let text = text.expect("the list of plants");
        let list = text.split("pub const FUZZING").nth(1).expect("the list");
        let list = list.split("];").next().expect("its end");
        let names: Vec<&str> = list.split('"').skip(1).step_by(4).collect();
        let ours: Vec<&str> = PLANTS.iter().map(|p| p.name).collect();
        assert_eq!(names, ours);
        assert!(
            PLANTS
                .iter()
                .all(|p| TARGETS.iter().any(|t| t.name == p.target))
        );
    }
}
