//! Choice of the method for a directory, by a calibration that is remembered, read or measured.

use crate::evidence::{self, unix_millis};
use crate::memory::Claimed;
use crate::{
    Calibration, Decision, Limits, Live, Memory, Shortlist, Skip, ValidFor, decide, measure,
    shortlist, skip,
};
use logforce_device::{Directory, Facts, Guarantee, Method, Runtime};
use std::sync::Arc;
use std::time::Duration;

/// A directory for which a method is to be chosen.
#[derive(Clone, Copy)]
pub struct Site<'a> {
    /// Directory in which the trial's file is created.
    pub dir: &'a Arc<dyn Directory>,
    /// Source of time and random numbers.
    pub runtime: &'a dyn Runtime,
    /// Present facts of `dir`.
    pub facts: &'a Facts,
    /// Unit of the log's writes, in bytes.
    pub write_unit: u32,
    /// Minimum guarantee of a force.
    pub require: Guarantee,
    /// Directories that keep evidence, read in this order.
    pub stores: &'a [Arc<dyn Directory>],
    /// Evidence that the process remembers.
    pub memory: &'a Memory,
}

/// Origin of a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// Measured just now.
    Measured,
    /// Measured earlier, here or by another log on the same filesystem.
    Known,
    /// Not measured, for this reason.
    Skipped(Skip),
    /// Measuring failed, or another thread took too long to measure.
    Failed(String),
}

/// A decision with its evidence.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// Method to use, with the reason.
    pub decision: Decision,
    /// Evidence; `None` if there is none.
    pub calibration: Option<Calibration>,
    /// Origin of the decision.
    pub origin: Origin,
    /// Methods that were compared.
    pub shortlist: Shortlist,
}

impl Choice {
    fn known(calibration: Calibration, origin: Origin, shortlist: Shortlist) -> Self {
        Choice {
            decision: calibration.decision.clone(),
            calibration: Some(calibration),
            origin,
            shortlist,
        }
    }
}

impl Site<'_> {
    fn key(&self) -> ValidFor {
        ValidFor::now(self.facts, self.write_unit)
    }

    /// Returns the latest calibration that is remembered or stored, if its method is still allowed here.
    pub fn known(&self) -> Option<Calibration> {
        let key = self.key();
        let latest = evidence::latest(self.memory.get(&key), self.stores, &key);
        let allowed = shortlist(self.facts, self.require).methods;
        latest.filter(|c| {
            let was_compared = |m: &Method| c.decision.figures.iter().any(|f| f.method == *m);
            // Rejects a calibration that did not compare all methods that are available now.
            allowed.contains(&c.decision.method)
                && (c.decision.figures.is_empty() || allowed.iter().all(was_compared))
        })
    }

    /// Returns the reason not to measure here, or `None`. Fails if the free space cannot be read.
    fn skip(&self, list: &Shortlist) -> Result<Option<Skip>, Origin> {
        let free = self.dir.free_space();
        let free = free.map_err(|e| Origin::Failed(format!("nothing was measured: {e}")))?;
        Ok(skip(self.facts, list, free))
    }

    fn default_only(&self, list: Shortlist, origin: Origin) -> Choice {
        let why = match &origin {
            Origin::Skipped(skip) => skip.to_string(),
            Origin::Failed(why) => why.clone(),
            _ => String::new(),
        };
        Choice {
            decision: Decision::undecided(self.facts.default_method(), why),
            calibration: None,
            origin,
            shortlist: list,
        }
    }
}

/// Chooses the method by the known calibration, unless the facts or real use contradict it. Otherwise
/// measures within `limits`, unless there is a reason not to measure.
///
/// Never fails: in doubt it returns the default method, marked undecided. Other callers in this process with
/// the same `memory` and conditions wait for the one that measures.
pub fn choose(site: &Site<'_>, limits: Limits) -> Choice {
    let list = shortlist(site.facts, site.require);
    let known = site.known();
    if let Some(known) = known.as_ref().filter(|k| !k.is_stale()) {
        site.memory.put(&known.valid_for, known.clone());
        evidence::keep(site.stores, site.runtime, known);
        return Choice::known(known.clone(), Origin::Known, list);
    }
    let measured = match site.skip(&list) {
        Err(failed) => site.default_only(list, failed),
        Ok(Some(reason)) => site.default_only(list, Origin::Skipped(reason)),
        Ok(None) => claim_and_measure(site, list, limits, known.as_ref()),
    };
    match (known, &measured.calibration) {
        // A stale calibration is better than none.
        (Some(known), None) => Choice::known(known, Origin::Known, measured.shortlist),
        _ => measured,
    }
}

/// Measures like [`choose`], but ignores known calibrations. Also measures if the only reason against it is
/// that the files are on another machine, because the user has requested it.
pub fn measure_anew(site: &Site<'_>, limits: Limits) -> Choice {
    let list = shortlist(site.facts, site.require);
    match site.skip(&list) {
        Err(failed) => site.default_only(list, failed),
        Ok(Some(reason)) if reason != Skip::Remote => {
            site.default_only(list, Origin::Skipped(reason))
        }
        _ => claim_and_measure(site, list, limits, None),
    }
}

fn claim_and_measure(
    site: &Site<'_>,
    list: Shortlist,
    limits: Limits,
    before: Option<&Calibration>,
) -> Choice {
    let key = site.key();
    let claim = match site.memory.claim(&key, site.runtime, limits.budget) {
        Claimed::Mine(claim) => claim,
        Claimed::Done(known) => {
            evidence::keep(site.stores, site.runtime, &*known);
            return Choice::known(*known, Origin::Known, list);
        }
        Claimed::Busy => {
            let why = "another opening in this process was still measuring".to_owned();
            return site.default_only(list, Origin::Failed(why));
        }
    };
    let trial = measure(
        site.dir,
        site.runtime,
        site.facts,
        site.write_unit,
        &list.methods,
        limits,
    );
    if let Some(failure) = trial.failure {
        claim.end(None, site.runtime);
        let why = format!("measuring failed: {failure}");
        return site.default_only(list, Origin::Failed(why));
    }
    let decision = decide(&trial.samples, site.facts.default_method());
    // The new evidence must have the later time, even if the clock was set back.
    let latest = site.known().map_or(0, |k| k.measured_at);
    let same = before.filter(|b| b.decision.method == decision.method);
    let calibration = Calibration {
        valid_for: key,
        pairs: u32::try_from(trial.samples.turns.len()).unwrap_or(u32::MAX),
        // Whole milliseconds, as the time is stored.
        spent: Duration::from_millis(u64::try_from(trial.spent.as_millis()).unwrap_or(u64::MAX)),
        measured_at: unix_millis().max(latest.saturating_add(1)),
        live: None,
        confirmed: same.map_or(0, |b| b.confirmed.saturating_add(1)),
        decision,
    };
    claim.end(Some(calibration.clone()), site.runtime);
    for dir in site.stores {
        // If this fails, a later opening measures again.
        let _ = evidence::write(dir, site.runtime, &calibration);
    }
    Choice::known(calibration, Origin::Measured, list)
}

/// Records the cost of the forces of one opening, so that the next opening knows whether to measure again.
/// Does nothing without a calibration, or if the log used another method.
pub fn observe(site: &Site<'_>, method: Method, forces: u64, p50: Duration) {
    let seen = Live {
        method,
        forces,
        p50,
    };
    let key = site.key();
    if let Some(mut known) = site.memory.get(&key) {
        known.add(seen);
        site.memory.put(&key, known);
    }
    for dir in site.stores {
        let Some(mut known) = evidence::read::<Calibration>(dir, &key) else {
            continue;
        };
        let before = known.live;
        known.add(seen);
        if known.live != before {
            let _ = evidence::write(dir, site.runtime, &known);
        }
    }
}
