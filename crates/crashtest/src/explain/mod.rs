//! The cause of a loss: which files are not on the disk at an acknowledgement, and which one
//! additional sync stops the losses.
//!
//! The program waits in each acknowledgement until the harness has counted it. Meanwhile the harness asks the kernel
//! which files have dirty pages, or syncs one object on the program's behalf, and repeats the cuts.

mod conclusion;
mod least;
mod minimise;
mod object;
mod page_cache;
mod place;
mod stack;
mod symbols;

use crate::acks::Hook;
use crate::live;
use crate::parts::{Part, Rehearsal};
use crate::stage::{Case, Checked, HookFor, Stage};
use crate::states;
use crate::testbed::Filesystem;
use crate::testbed::programs::in_path;
use crate::writeback::RENAMES_WAIT;
use anyhow::Result;
use conclusion::conclusion;
pub use least::{Least, LostWrite, Mark, MarkKind};
pub(crate) use least::{push_joined, shown};
pub(crate) use minimise::minimise;
pub use object::Object;
pub(crate) use object::numberless;
use object::sync;
pub use page_cache::Dirty;
use page_cache::Seen;
pub use place::Region;
use serde::Serialize;
pub use stack::Stack;
use stack::stacks;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Times that the program is killed without a cut.
const KILLS: u64 = 8;
/// Largest number of objects that are tried again, because all of them help.
const MOST_SURE: usize = 4;
/// Failed checks of the program as it is below which a cause is not looked for: with fewer, an object that does not help
/// would look as if it did in more than one of twenty tests.
const FEWEST: u64 = 3;
/// Probability with which an object that does not help may look as if it did.
const DOUBT: f64 = 0.01;

/// The cuts repeated with one additional sync before each acknowledgement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Experiment {
    /// The object that the harness synced.
    pub object: Object,
    /// Number of checks.
    pub checks: u64,
    /// Checks that failed.
    pub failed: u64,
}

impl Experiment {
    /// Returns true if nothing was lost. Without a check that shows nothing.
    pub(crate) fn stops_losses(&self) -> bool {
        self.checks > 0 && self.failed == 0
    }

    /// Returns true for the program as it is, if it loses so rarely that an experiment without a loss shows nothing.
    fn is_rare(&self) -> bool {
        self.object == Object::Nothing && self.failed < FEWEST
    }

    /// Returns true if one sync before the acknowledgement stops the losses.
    pub(crate) fn names_the_sync(&self) -> bool {
        matches!(self.object, Object::File(_) | Object::Directory(_)) && self.stops_losses()
    }
}

/// The findings about a loss.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// The filesystem of the experiments.
    pub filesystem: Filesystem,
    /// Acknowledgements at which the page cache was examined; 0 if the kernel has no `cachestat` (before Linux 6.5).
    pub examined: u64,
    /// Files that were dirty at some of them.
    pub dirty: Vec<Dirty>,
    /// Part that was repeated: live cuts or states.
    pub repeated: Part,
    /// The experiments, that of nothing first.
    pub experiments: Vec<Experiment>,
    /// Times that the program was ended by `kill -9` while the disk kept its power; 0 if one sync stops the losses.
    pub kills: u64,
    /// Checks that failed after those.
    pub lost_by_kill: u64,
    /// The smallest loss; `None` if no replayed state failed.
    pub least: Option<Least>,
    /// The last change of each object that is missing, before an acknowledgement; empty without `strace`.
    pub stacks: Vec<Stack>,
    /// The conclusion, in words.
    pub conclusion: String,
}

impl Explanation {
    /// Adds the conclusion.
    pub(crate) fn concluded(mut self) -> Explanation {
        self.conclusion = conclusion(&self);
        self
    }
}

/// Looks for the cause of losses. `rate` is the share of the checks of `part` that failed.
pub(crate) fn explain(
    stage: &mut Stage<'_>,
    rehearsal: &Rehearsal,
    part: Part,
    rate: f64,
    progress: &mut dyn FnMut(&str),
) -> Result<Explanation> {
    let seen = Arc::new(Mutex::new(Seen::default()));
    let looking = seen.clone();
    progress("looking at the page cache");
    stage.hook = Some(at_each_ack(move |dir| {
        let mut seen = looking.lock().unwrap_or_else(PoisonError::into_inner);
        seen.examine(dir);
    }));
    let again = stage.rehearse(&mut |_| Ok(true));
    stage.hook = None;
    // A workload that acknowledges nothing this time leaves no objects; the experiments with all files remain.
    let _ = again?;
    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    let objects = std::mem::take(&mut seen.objects);
    let (examined, dirty) = (seen.examined, std::mem::take(&mut seen.files));
    drop(seen);
    let mut wanted = enough(part, rate);
    let tried = std::iter::once(Object::Nothing)
        .chain(objects)
        .chain([Object::Everything, Object::FilesBeforeRenames]);
    let mut experiments: Vec<Experiment> = Vec::new();
    for object in tried {
        // Slow, and of use only where no single sync before the acknowledgement helps.
        let is_mended = experiments.iter().any(Experiment::names_the_sync);
        if object == Object::FilesBeforeRenames && (is_mended || !in_path("strace")) {
            continue;
        }
        progress(&format!("cuts again, with {object}"));
        let is_first = object == Object::Nothing;
        let (checks, failed) =
            repeat(stage, rehearsal, part, &object, wanted, |checks, failed| {
                checks < wanted || (is_first && failed < FEWEST && checks < most_checks(part))
            })?;
        if is_first {
            // Chance may have made the first share too high.
            wanted = wanted.max(enough(part, failed as f64 / checks.max(1) as f64));
        }
        experiments.push(Experiment {
            object,
            checks,
            failed,
        });
        if is_first && failed < FEWEST {
            break;
        }
    }
    let is_rare = experiments.iter().any(Experiment::is_rare);
    for experiment in doubtful(&mut experiments) {
        let object = experiment.object.clone();
        progress(&format!("more cuts, with {object}"));
        let more = |checks, failed| checks < 4 * wanted && failed == 0;
        let (checks, failed) = repeat(stage, rehearsal, part, &object, 4 * wanted, more)?;
        experiment.checks += checks;
        experiment.failed += failed;
    }
    let mut kills = (0, 0);
    if !is_rare && !experiments.iter().any(Experiment::names_the_sync) {
        progress("kill -9 without a cut");
        for _ in 0..KILLS {
            let _ = stage.rehearse(&mut |case| {
                kills.0 += 1;
                kills.1 += u64::from(matches!(case.checked, Checked::Failed(..)));
                Ok(true)
            })?;
        }
    }
    progress("searching the smallest loss");
    let least = least::least(stage, rehearsal)?;
    progress("looking for the function");
    let named = experiments.iter().filter(|e| e.names_the_sync());
    let named: Vec<Object> = named.map(|e| e.object.clone()).collect();
    let stacks = stacks(stage, &named)?;
    let explanation = Explanation {
        filesystem: stage.filesystem,
        examined,
        kills: kills.0,
        lost_by_kill: kills.1,
        conclusion: String::new(),
        dirty: dirty.into_values().collect(),
        least,
        stacks,
        repeated: part,
        experiments,
    };
    Ok(explanation.concluded())
}

/// Returns the experiments with objects that help, if there are several: some may do so by chance.
fn doubtful(experiments: &mut [Experiment]) -> Vec<&mut Experiment> {
    let named = experiments.iter_mut().filter(|e| e.names_the_sync());
    let named: Vec<&mut Experiment> = named.collect();
    match named.len() {
        2..=MOST_SURE => named,
        _ => Vec::new(),
    }
}

/// Has `action` called with the program's directory in each acknowledgement.
fn at_each_ack(action: impl Fn(&Path) + Clone + Send + 'static) -> HookFor {
    Arc::new(move |dir: &Path| -> Hook {
        let (action, dir) = (action.clone(), dir.to_owned());
        Box::new(move || action(&dir))
    })
}

/// Returns the number of checks after which a loss in this share of them would have shown.
fn enough(part: Part, rate: f64) -> u64 {
    let checks = DOUBT.ln() / (1.0 - rate.clamp(0.01, 0.9)).ln();
    (checks.ceil() as u64).clamp(12, most_checks(part))
}

/// Returns the largest number of checks of an experiment.
fn most_checks(part: Part) -> u64 {
    match part {
        Part::States => 300,
        _ => 60,
    }
}

/// Repeats a part with an additional sync, about `wanted` times, while `goes_on`, which gets the number of checks after
/// an acknowledgement and of failed ones; returns both.
fn repeat(
    stage: &mut Stage<'_>,
    rehearsal: &Rehearsal,
    part: Part,
    object: &Object,
    wanted: u64,
    goes_on: impl Fn(u64, u64) -> bool,
) -> Result<(u64, u64)> {
    stage.syncs_before_renames = *object == Object::FilesBeforeRenames;
    if stage.syncs_before_renames {
        stage.under = RENAMES_WAIT.map(Into::into).to_vec();
    }
    let synced = object.clone();
    stage.hook = Some(at_each_ack(move |dir| sync(&synced, dir)));
    let mut rehearsal = rehearsal.clone();
    if stage.syncs_before_renames {
        // Several renames, each delayed, before the first acknowledgement.
        rehearsal.first_ack_ms += 500;
    }
    let (rehearsal, seed) = (&rehearsal, stage.plan.seed);
    let (mut tried, mut checks, mut failed) = (0, 0, 0);
    let mut count = |case: Case<'_, '_>| {
        tried += 1;
        // Before an acknowledgement the sync has not been made.
        if !case.promised.acked.is_empty() {
            checks += 1;
            failed += u64::from(matches!(case.checked, Checked::Failed(..)));
        }
        Ok(goes_on(checks, failed) && tried < 4 * most_checks(part))
    };
    let repeated = match part {
        Part::States => states::states(stage, &rehearsal.recordings(wanted), seed, &mut count),
        _ => live::cuts(stage, &rehearsal.cuts(part), seed ^ part as u64, &mut count),
    };
    stage.syncs_before_renames = false;
    stage.under.clear();
    stage.hook = None;
    repeated?;
    Ok((checks, failed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_objects_that_help_each_is_tried_again() {
        let doubtful_of = |helping: usize| {
            let failed = |number| u64::from(number >= helping);
            let experiment = |number| Experiment {
                object: Object::File(format!("{number}")),
                checks: 12,
                failed: failed(number),
            };
            let mut experiments: Vec<Experiment> = (0..6).map(experiment).collect();
            doubtful(&mut experiments).len()
        };
        assert_eq!([0, 1, 2, 4, 5].map(doubtful_of), [0, 0, 2, 4, 0]);
    }
}
