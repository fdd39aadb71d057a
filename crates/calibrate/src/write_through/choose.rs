//! From a filesystem to its crossover: remembered, read, or measured.

use super::decide::decide;
use super::{WriteThroughCalibration, trial};
use crate::evidence::{self, unix_millis};
use crate::memory::{Claimed, Memory};
use crate::{Skip, ValidFor, shortlist, skip};
use logforce_device::{Barrier, Directory, Facts, FileState, ForceBy, Guarantee, Plan, Runtime};
use std::sync::Arc;
use std::time::Duration;

/// A place whose crossover is in question.
#[derive(Clone, Copy)]
pub struct WriteThroughSite<'a> {
    /// Where the trial's file is made.
    pub dir: &'a Arc<dyn Directory>,
    /// Time, threads and random numbers.
    pub runtime: &'a Arc<dyn Runtime>,
    /// The facts of `dir`, as they are now.
    pub facts: &'a Facts,
    /// Where evidence is kept; the first is looked into first.
    pub stores: &'a [Arc<dyn Directory>],
    /// What the process knows.
    pub memory: &'a WriteThroughMemory,
}

/// Crossovers that a process knows, so that its page files on one filesystem measure once.
pub type WriteThroughMemory = Memory<WriteThroughCalibration>;

/// The latest of what is remembered and stored.
pub fn known_write_through(site: &WriteThroughSite<'_>) -> Option<WriteThroughCalibration> {
    let key = key(site);
    evidence::latest(site.memory.get(&key), site.stores, &key)
}

/// What is known, else what measuring shows within `budget`. `None` where neither can be had: then
/// it is [`WriteThroughLimit::UNMEASURED`](super::WriteThroughLimit::UNMEASURED).
pub fn choose_write_through(
    site: &WriteThroughSite<'_>,
    budget: Duration,
) -> Option<WriteThroughCalibration> {
    let key = key(site);
    if let Some(known) = known_write_through(site) {
        site.memory.put(&key, known.clone());
        evidence::keep(site.stores, &**site.runtime, &known);
        return Some(known);
    }
    let is_remote = || reason_not_to(site) == Some(Skip::Remote);
    if site.memory.has_failed(&key) || is_remote() {
        return None;
    }
    measure_write_through(site, budget).ok()
}

/// Why nothing is measured here; a place that cannot say what is free has nothing free.
fn reason_not_to(site: &WriteThroughSite<'_>) -> Option<Skip> {
    let list = shortlist(site.facts, Guarantee::Nothing);
    let free = site.dir.free_space().unwrap_or(0);
    skip(site.facts, &list, free)
}

/// Measures anew, also where the only reason against it is that the files are on another machine: it
/// was asked for.
///
/// # Errors
/// Why not, in words.
pub fn measure_write_through(
    site: &WriteThroughSite<'_>,
    budget: Duration,
) -> Result<WriteThroughCalibration, String> {
    match reason_not_to(site) {
        Some(Skip::Remote) | None => {}
        Some(reason) => return Err(reason.to_string()),
    }
    if !is_write_through_enough(site.facts) {
        return Err("a write through guarantees less than a barrier here: none is used".to_owned());
    }
    let key = key(site);
    let runtime = &**site.runtime;
    // Without waiting: what is so without a measurement does as well for the file that comes meanwhile.
    let Claimed::Mine(claim) = site.memory.claim(&key, runtime, Duration::ZERO) else {
        return Err("another opening in this process was still measuring".to_owned());
    };
    let latest = evidence::latest::<WriteThroughCalibration>(None, site.stores, &key);
    let latest = latest.map_or(0, |c| c.measured_at);
    let began = site.runtime.now();
    let unit = key.write_unit;
    let measured = trial::measure(site.dir, site.runtime, site.facts, unit, budget);
    let pairs = match measured {
        Ok(pairs) => pairs,
        Err(e) => {
            claim.end(None, runtime);
            site.memory.put_failure(&key);
            return Err(format!("measuring failed: {e}"));
        }
    };
    let spent = site.runtime.now().saturating_sub(began);
    let turns = pairs.iter().map(|p| p.times.len()).max().unwrap_or(0);
    let calibration = WriteThroughCalibration {
        decided: decide(&pairs),
        turns: u32::try_from(turns).unwrap_or(u32::MAX),
        // As it is stored.
        spent: Duration::from_millis(u64::try_from(spent.as_millis()).unwrap_or(u64::MAX)),
        // Also where the clock was set back: what is newer has to look newer.
        measured_at: unix_millis().max(latest.saturating_add(1)),
        valid_for: key.clone(),
    };
    claim.end(Some(calibration.clone()), runtime);
    evidence::keep(site.stores, runtime, &calibration);
    Ok(calibration)
}

fn key(site: &WriteThroughSite<'_>) -> ValidFor {
    ValidFor::now(site.facts, site.facts.write_unit())
}

/// Whether a write through is worth as much as a barrier: else a page file never uses it.
fn is_write_through_enough(facts: &Facts) -> bool {
    let worth = |force| {
        let plan = Plan {
            direct: false,
            force,
        };
        facts
            .assess_plan(plan, FileState::Growing)
            .map(|a| a.guarantee)
    };
    worth(ForceBy::Through) >= worth(ForceBy::Barrier(Barrier::Data))
}
