//! Choice of the write-through limit, by evidence that is remembered, read or measured.

use super::decide::decide;
use super::{WriteThroughCalibration, trial};
use crate::evidence::{self, unix_millis};
use crate::memory::{Claimed, Memory};
use crate::{Skip, ValidFor, shortlist, skip};
use logforce_device::{Barrier, Directory, Facts, FileState, ForceBy, Guarantee, Plan, Runtime};
use std::sync::Arc;
use std::time::Duration;

/// A directory for which the write-through limit is to be chosen.
#[derive(Clone, Copy)]
pub struct WriteThroughSite<'a> {
    /// Directory in which the trial's file is created.
    pub dir: &'a Arc<dyn Directory>,
    /// Source of time, threads and random numbers.
    pub runtime: &'a Arc<dyn Runtime>,
    /// Present facts of `dir`.
    pub facts: &'a Facts,
    /// Directories that keep evidence, read in this order.
    pub stores: &'a [Arc<dyn Directory>],
    /// Evidence that the process remembers.
    pub memory: &'a WriteThroughMemory,
}

/// Limits that a process remembers, so that its page files on one filesystem measure once.
pub type WriteThroughMemory = Memory<WriteThroughCalibration>;

/// Returns the latest limit that is remembered or stored.
pub fn known_write_through(site: &WriteThroughSite<'_>) -> Option<WriteThroughCalibration> {
    let key = key(site);
    evidence::latest(site.memory.get(&key), site.stores, &key)
}

/// Returns the known limit, or measures it within `budget`. Returns `None` if neither is possible; then
/// [`WriteThroughLimit::UNMEASURED`](super::WriteThroughLimit::UNMEASURED) applies.
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

/// Returns the reason not to measure here, or `None`. If the free space cannot be read, it counts as 0.
fn reason_not_to(site: &WriteThroughSite<'_>) -> Option<Skip> {
    let list = shortlist(site.facts, Guarantee::Nothing);
    let free = site.dir.free_space().unwrap_or(0);
    skip(site.facts, &list, free)
}

/// Measures anew. Also measures if the only reason against it is that the files are on another machine,
/// because the user has requested it.
///
/// # Errors
/// The reason for which nothing was measured, in words.
pub fn measure_write_through(
    site: &WriteThroughSite<'_>,
    budget: Duration,
) -> Result<WriteThroughCalibration, String> {
    match reason_not_to(site) {
        Some(Skip::Remote) | None => {}
        Some(reason) => return Err(reason.to_string()),
    }
    if !is_write_through_enough(site.facts) {
        return Err(
            "a write-through guarantees less than a barrier here: page files never use it"
                .to_owned(),
        );
    }
    let key = key(site);
    let runtime = &**site.runtime;
    // Does not wait for another thread: the default without a measurement is good enough for this file.
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
        // Whole milliseconds, as the time is stored.
        spent: Duration::from_millis(u64::try_from(spent.as_millis()).unwrap_or(u64::MAX)),
        // The new evidence must have the later time, even if the clock was set back.
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

/// Returns true if a write-through guarantees as much as a barrier. Otherwise page files never use it.
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
