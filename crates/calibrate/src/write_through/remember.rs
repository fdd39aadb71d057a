//! From a place to its crossover: remembered, read, or measured.

use super::decide::decide;
use super::{WriteThroughCalibration, trial};
use crate::evidence::{self, unix_millis};
use crate::{Skip, ValidFor, shortlist, skip};
use logforce_device::{Barrier, Directory, Facts, FileState, ForceBy, Guarantee, Plan, Runtime};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Places that are remembered.
const MOST: usize = 64;

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

/// What a process knows, so that its page files on one filesystem measure once.
#[derive(Debug, Default)]
pub struct WriteThroughMemory {
    slots: Mutex<Vec<(ValidFor, Slot)>>,
}

#[derive(Debug, Clone)]
enum Slot {
    /// Being measured by this process.
    Running(u64),
    /// Measured; `None` where it failed, which is not tried again.
    Known(Option<Box<WriteThroughCalibration>>),
}

impl WriteThroughMemory {
    /// Knows nothing.
    pub const fn new() -> Self {
        WriteThroughMemory {
            slots: Mutex::new(Vec::new()),
        }
    }

    fn slots(&self) -> MutexGuard<'_, Vec<(ValidFor, Slot)>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, key: &ValidFor) -> Option<Slot> {
        let slots = self.slots();
        slots.iter().find(|(k, _)| k == key).map(|(_, s)| s.clone())
    }

    fn put(&self, key: &ValidFor, slot: Slot) {
        let mut slots = self.slots();
        slots.retain(|(k, _)| k != key);
        if slots.len() >= MOST {
            slots.remove(0);
        }
        slots.push((key.clone(), slot));
    }

    /// Whether the caller is the one to measure. Nobody waits: what is so without a measurement does
    /// as well for the file that comes meanwhile.
    fn claim(&self, key: &ValidFor, process: u64) -> bool {
        let mut slots = self.slots();
        let running = |s: &Slot| matches!(s, Slot::Running(by) if *by == process);
        if slots.iter().any(|(k, s)| k == key && running(s)) {
            return false;
        }
        slots.retain(|(k, _)| k != key);
        slots.push((key.clone(), Slot::Running(process)));
        true
    }
}

/// The latest of what is remembered and stored.
pub fn known_write_through(site: &WriteThroughSite<'_>) -> Option<WriteThroughCalibration> {
    let key = key(site);
    let remembered = match site.memory.get(&key) {
        Some(Slot::Known(known)) => known.map(|k| *k),
        _ => None,
    };
    evidence::latest(remembered, site.stores, &key)
}

/// What is known, else what measuring shows within `budget`. `None` where neither can be had: then
/// it is [`WriteThroughLimit::UNMEASURED`](super::WriteThroughLimit::UNMEASURED).
pub fn choose_write_through(
    site: &WriteThroughSite<'_>,
    budget: Duration,
) -> Option<WriteThroughCalibration> {
    let key = key(site);
    if let Some(known) = known_write_through(site) {
        site.memory
            .put(&key, Slot::Known(Some(Box::new(known.clone()))));
        evidence::keep(site.stores, &**site.runtime, &known);
        return Some(known);
    }
    match site.memory.get(&key) {
        Some(Slot::Known(None)) => None,
        _ if reason_not_to(site).is_some_and(|r| r == Skip::Remote) => None,
        _ => measure_write_through(site, budget).ok(),
    }
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
    if !site.memory.claim(&key, site.runtime.process()) {
        return Err("another opening in this process was still measuring".to_owned());
    }
    let latest = evidence::latest::<WriteThroughCalibration>(None, site.stores, &key);
    let latest = latest.map_or(0, |c| c.measured_at);
    let began = site.runtime.now();
    let unit = key.write_unit;
    let measured = trial::measure(site.dir, site.runtime, site.facts, unit, budget);
    let pairs = match measured {
        Ok(pairs) => pairs,
        Err(e) => {
            site.memory.put(&key, Slot::Known(None));
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
    site.memory
        .put(&key, Slot::Known(Some(Box::new(calibration.clone()))));
    evidence::keep(site.stores, &**site.runtime, &calibration);
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
