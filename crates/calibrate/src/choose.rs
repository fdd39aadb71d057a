//! From a place to its calibration: remembered, read, or measured.

use crate::evidence::{self, unix_millis};
use crate::memory::Claimed;
use crate::{
    Calibration, Decision, Limits, Live, Memory, Shortlist, Skip, ValidFor, decide, measure,
    shortlist, skip,
};
use logforce_device::{Directory, Facts, Guarantee, Method, Runtime};
use std::sync::Arc;
use std::time::Duration;

/// A place whose methods are in question.
#[derive(Clone, Copy)]
pub struct Site<'a> {
    /// Where the trial's file is made.
    pub dir: &'a Arc<dyn Directory>,
    /// Time and random numbers.
    pub runtime: &'a dyn Runtime,
    /// The facts of `dir`, as they are now.
    pub facts: &'a Facts,
    /// The unit of the log's writes, in bytes.
    pub write_unit: u32,
    /// The least that a force must guarantee.
    pub require: Guarantee,
    /// Where evidence is kept; the first is looked into first.
    pub stores: &'a [Arc<dyn Directory>],
    /// What the process knows.
    pub memory: &'a Memory,
}

/// Where an answer comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// Measured just now.
    Measured,
    /// Measured earlier, here or by another log on the same filesystem.
    Known,
    /// Nothing was measured: there is a reason not to.
    Skipped(Skip),
    /// Measuring failed, or another thread was at it for too long.
    Failed(String),
}

/// An answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// Which method to use, and why.
    pub decision: Decision,
    /// The evidence; `None` where there is none.
    pub calibration: Option<Calibration>,
    /// Where it comes from.
    pub origin: Origin,
    /// What was compared.
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

    /// The latest of what is remembered and stored, if its method may still be used here.
    pub fn known(&self) -> Option<Calibration> {
        let key = self.key();
        let latest = evidence::latest(self.memory.get(&key), self.stores, &key);
        let allowed = shortlist(self.facts, self.require).methods;
        latest.filter(|c| {
            let was_compared = |m: &Method| c.decision.figures.iter().any(|f| f.method == *m);
            // One that was made when less was offered, or seen, is no answer to today's question.
            allowed.contains(&c.decision.method)
                && (c.decision.figures.is_empty() || allowed.iter().all(was_compared))
        })
    }

    /// Why nothing is measured here; the error of asking for the free space, which is no answer.
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

/// Which method to use: what is known, unless the facts or real use contradict it; else what
/// measuring shows within `limits`, unless there is a reason not to measure.
///
/// Never fails: in doubt it is the default method, marked undecided. Other callers in this process
/// with the same `memory` and place wait for the one that measures.
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
        // Better than nothing, though real use was worse.
        (Some(known), None) => Choice::known(known, Origin::Known, measured.shortlist),
        _ => measured,
    }
}

/// As [`choose`], without looking at what is known, and where the only reason against measuring is
/// that the files are on another machine, all the same: it was asked for.
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
    // Also where the clock was set back: what is newer has to look newer.
    let latest = site.known().map_or(0, |k| k.measured_at);
    let same = before.filter(|b| b.decision.method == decision.method);
    let calibration = Calibration {
        valid_for: key,
        pairs: u32::try_from(trial.samples.turns.len()).unwrap_or(u32::MAX),
        // As it is stored.
        spent: Duration::from_millis(u64::try_from(trial.spent.as_millis()).unwrap_or(u64::MAX)),
        measured_at: unix_millis().max(latest.saturating_add(1)),
        live: None,
        confirmed: same.map_or(0, |b| b.confirmed.saturating_add(1)),
        decision,
    };
    claim.end(Some(calibration.clone()), site.runtime);
    for dir in site.stores {
        // That may fail: then it is measured again one day.
        let _ = evidence::write(dir, site.runtime, &calibration);
    }
    Choice::known(calibration, Origin::Measured, list)
}

/// Takes down what the forces of an opening cost, so that the next one knows whether to measure
/// again. Where nothing was calibrated, or for another method, nothing happens.
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
