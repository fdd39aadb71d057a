//! Choice of the method by which a log or a file forces, and the guarantee of that method.

use crate::advisor::{Advisor, Observation, Question};
use logforce_device::{
    Assessment, Barrier, Directory, Facts, FileState, ForceBy, Granted, Guarantee, Method, Plan,
    Runtime, Verdict,
};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Method by which a log or a file forces, and its guarantee.
#[derive(Debug, Clone)]
pub struct ForceConfig {
    /// The method.
    pub method: Method,
    /// Operations of the method.
    pub plan: Plan,
    /// Guarantee of a force by the method in this directory.
    pub guarantee: Guarantee,
    /// Verdict on that guarantee.
    pub verdict: Verdict,
    /// Evidence for the verdict, in words.
    pub evidence: String,
    /// Guarantee of data that is written and not forced.
    pub written: Guarantee,
    /// The same for data that is the first to be written to its blocks.
    pub first_written: Guarantee,
    /// True if a barrier is durable here, with whichever method writes are forced.
    pub barrier_is_durable: bool,
}

impl ForceConfig {
    /// Returns true if an unforced write has a stronger guarantee on blocks that were written before.
    #[inline]
    pub fn needs_written(&self) -> bool {
        self.first_written != self.written
    }

    /// Returns the guarantee of a force, marked as doubted if its verdict does not support it.
    #[inline]
    pub fn granted(&self) -> Granted {
        Granted::new(self.guarantee, self.verdict)
    }
}

/// Refusal to open: the requirements cannot be met.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// The guarantee is weaker than required.
    #[error("{}: method {method} guarantees {got} here, {wanted} is required: {evidence}. To accept less, open with Options::require(Guarantee::{got:?})", path.display())]
    Guarantee {
        /// The directory.
        path: PathBuf,
        /// The method.
        method: Method,
        /// The required guarantee.
        wanted: Guarantee,
        /// Guarantee of the method in this directory.
        got: Guarantee,
        /// Evidence for that guarantee.
        evidence: String,
    },
    /// The verdict on the guarantee is below the required one.
    #[error("{}: method {method} guarantees {got} here, but that is only {verdict}, and {wanted} is required: {evidence}. To accept it, open with Options::require_verdict(Verdict::{verdict:?})", path.display())]
    Verdict {
        /// The directory.
        path: PathBuf,
        /// The method.
        method: Method,
        /// Guarantee of the method in this directory.
        got: Guarantee,
        /// Verdict on that guarantee.
        verdict: Verdict,
        /// The required verdict.
        wanted: Verdict,
        /// Evidence for the verdict.
        evidence: String,
    },
    /// The method is not available in this directory.
    #[error("{}: method {method} is not offered here ({why}); choose another with Options::method", path.display())]
    Method {
        /// The directory.
        path: PathBuf,
        /// The method.
        method: Method,
        /// Reason.
        why: String,
    },
}

impl Refused {
    /// Returns the directory.
    pub fn path(&self) -> &Path {
        match self {
            Refused::Guarantee { path, .. }
            | Refused::Verdict { path, .. }
            | Refused::Method { path, .. } => path,
        }
    }
}

/// Requirements of an opening, and the source of advice.
pub struct MethodChoice<'a> {
    /// Directory of the log or file.
    pub dir: &'a Arc<dyn Directory>,
    /// Source of time and random numbers.
    pub runtime: &'a dyn Runtime,
    /// State of the blocks that forces write to.
    pub state: FileState,
    /// Method that the user has named.
    pub method: Option<Method>,
    /// Minimum guarantee of a force.
    pub require: Guarantee,
    /// Minimum verdict on that guarantee.
    pub require_verdict: Verdict,
    /// Source of evidence and of advice.
    pub advisor: Option<&'a dyn Advisor>,
    /// True if the advisor may choose the method. It never does if the user has named one.
    pub calibrate: bool,
    /// Directory in which programs share measurements.
    pub cache: Option<&'a Path>,
}

impl MethodChoice<'_> {
    fn question<'q>(&'q self, facts: &'q Facts, write_unit: u32) -> Question<'q> {
        Question {
            dir: self.dir,
            runtime: self.runtime,
            facts,
            write_unit,
            require: self.require,
            cache: self.cache,
        }
    }

    /// Returns the advisor, unless the user has named a method or turned calibration off.
    fn advisor_to_ask(&self) -> Option<&dyn Advisor> {
        let may_ask = self.calibrate && self.method.is_none();
        self.advisor.filter(|_| may_ask)
    }

    /// Returns the facts about the directory, including the evidence from power-cut tests there.
    ///
    /// # Errors
    /// Errors of the system that keep it from reading the facts.
    pub fn facts(&self) -> io::Result<Facts> {
        let mut facts = self.dir.facts_for_writing()?;
        if let Some(advisor) = self.advisor {
            let evidence = advisor.tried(&self.question(&facts, facts.write_unit()));
            facts.heed(evidence);
        }
        Ok(facts)
    }

    /// Chooses the method that the user has named, else the default one.
    ///
    /// # Errors
    /// [`Refused`] if the guarantee is not available.
    pub fn choose(&self, facts: &Facts) -> Result<ForceConfig, Refused> {
        let method = self.method.unwrap_or_else(|| facts.default_method());
        self.assess(method, (self.require, self.require_verdict), facts)
    }

    /// Returns the advisor's method if the user has named none. Ignores the advice if the method is not
    /// available, or guarantees less than `chosen`.
    pub fn advise(&self, chosen: ForceConfig, facts: &Facts, write_unit: u32) -> ForceConfig {
        let Some(advisor) = self.advisor_to_ask() else {
            return chosen;
        };
        let advised = advisor.method(&self.question(facts, write_unit));
        advised
            .and_then(|method| {
                // A method without a power-cut test counts as good as one that passed the test, but not a
                // doubted one.
                let verdict = chosen
                    .verdict
                    .min(Verdict::Declared)
                    .max(self.require_verdict);
                self.assess(method, (chosen.guarantee, verdict), facts).ok()
            })
            .unwrap_or(chosen)
    }

    /// Reports the measurements of an opening to the advisor, unless the user has named the method or turned
    /// calibration off.
    pub fn observe(&self, write_unit: u32, seen: Observation) {
        if let (Some(advisor), Ok(facts)) = (self.advisor_to_ask(), self.dir.facts_for_writing()) {
            advisor.observe(&self.question(&facts, write_unit), seen);
        }
    }

    /// Assesses one method.
    ///
    /// # Errors
    /// [`Refused`] if it guarantees less than the `minimum`.
    pub(crate) fn assess(
        &self,
        method: Method,
        minimum: (Guarantee, Verdict),
        facts: &Facts,
    ) -> Result<ForceConfig, Refused> {
        let path = || self.dir.path().to_owned();
        let (require, require_verdict) = minimum;
        let Some(assessed) = facts.assess(method, self.state) else {
            return Err(Refused::Method {
                path: path(),
                method,
                why: facts.why_not_offered(method),
            });
        };
        let is_met = assessed.meets(require, require_verdict);
        let Assessment {
            guarantee,
            verdict,
            evidence,
            ..
        } = assessed;
        // A read-only mount is not rejected here: taking the lock fails there, and that error names the
        // remedy.
        if guarantee < require && !facts.read_only {
            return Err(Refused::Guarantee {
                path: path(),
                method,
                wanted: require,
                got: guarantee,
                evidence,
            });
        }
        if !is_met && !facts.read_only {
            return Err(Refused::Verdict {
                path: path(),
                method,
                got: guarantee,
                verdict,
                wanted: require_verdict,
                evidence,
            });
        }
        let plan = method.plan();
        let unforced = Plan {
            direct: plan.direct,
            force: ForceBy::None,
        };
        let written = |state| {
            let assessed = facts.assess_plan(unforced, state);
            let written = assessed.map_or(Guarantee::ProcessCrash, |a| a.guarantee);
            written.min(guarantee)
        };
        // Barriers use this plan with any method.
        let barrier = Plan {
            direct: false,
            force: ForceBy::Barrier(Barrier::Data),
        };
        let barrier_is_durable = facts
            .assess_plan(barrier, FileState::Zeroed)
            .is_some_and(|a| {
                a.guarantee == Guarantee::PowerLoss && a.verdict != Verdict::Contradicted
            });
        Ok(ForceConfig {
            method,
            plan,
            guarantee,
            verdict,
            evidence,
            written: written(FileState::Zeroed),
            first_written: written(FileState::Fallocated),
            barrier_is_durable,
        })
    }
}
