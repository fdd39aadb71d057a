//! The method that a log would use in a directory, by the stored results and without measuring.

use logforce::disk::calibration::{Calibration, Report};
use logforce::{
    Guarantee, Method, Verdict,
    disk::{Assessment, Facts, FileState},
};
use serde::Serialize;

/// Method that a log opened now would use, if its program names none.
#[derive(Debug, Serialize)]
pub struct Next {
    /// The method itself.
    #[serde(skip)]
    kind: Method,
    /// Name of the method.
    pub method: &'static str,
    /// True if measuring has decided it; otherwise it is the default.
    pub decided: bool,
    /// Reason for this method.
    pub why: String,
    /// Guarantee of a force, with `?` if it is doubted; null if the method is not offered.
    pub guarantee: Option<&'static str>,
    /// Verdict on that guarantee.
    pub verdict: Option<&'static str>,
    /// Party that the verdict rests on.
    pub source: Option<&'static str>,
    /// Evidence for the verdict.
    pub evidence: Option<String>,
    /// True if a log can be opened with the default requirement: power-loss, at least declared.
    pub is_enough: bool,
    /// Files that hold the measured results.
    pub stored_in: Vec<String>,
    /// Method of the forces that logs made in real use; null if none is known.
    pub seen_in_use: Option<&'static str>,
}

impl Next {
    /// Builds it from the stored results.
    pub fn new(known: &Report) -> Next {
        let decision = &known.decision;
        let mut next = Next::of(
            &known.facts,
            decision.method,
            decision.decided,
            decision.why.clone(),
        );
        let stored = known.stored_in.iter();
        next.stored_in = stored.map(|p| p.display().to_string()).collect();
        let live = |c: &Calibration| c.live.map(|l| l.method.name());
        next.seen_in_use = known.calibration.as_ref().and_then(live);
        next
    }

    fn of(facts: &Facts, method: Method, decided: bool, why: String) -> Next {
        let assessed = facts.assess(method, FileState::Zeroed);
        let is_enough = |a: &Assessment| a.meets(Guarantee::PowerLoss, Verdict::Declared);
        Next {
            kind: method,
            method: method.name(),
            decided,
            why,
            guarantee: assessed.as_ref().map(|a| a.granted().name()),
            verdict: assessed.as_ref().map(|a| a.verdict.name()),
            source: assessed.as_ref().map(|a| a.source.name()),
            is_enough: assessed.as_ref().is_some_and(is_enough),
            evidence: assessed.map(|a| a.evidence),
            stored_in: Vec::new(),
            seen_in_use: None,
        }
    }

    /// Returns the method.
    pub fn method(&self) -> Method {
        self.kind
    }

    /// Makes it from the facts alone, for a place where no log can be opened.
    pub fn unmeasured(facts: &Facts) -> Next {
        let method = facts.default_method();
        Next::of(facts, method, false, facts.why_default())
    }

    /// Returns the method, how it was chosen and what it guarantees, in sentences.
    pub fn sentences(&self) -> String {
        let chosen = match (self.decided, self.stored_in.is_empty()) {
            (true, _) => "chosen by measuring",
            (false, true) => "the default, not measured",
            (false, false) => "the default, measuring did not decide",
        };
        let mut text = format!("{} ({chosen}): {}.", self.method, self.why);
        match (self.guarantee, self.verdict, &self.evidence) {
            (Some(guarantee), Some(verdict), Some(evidence)) => {
                text.push_str(&format!(
                    " A force survives {guarantee}, {verdict}: {evidence}."
                ));
            }
            _ => text.push_str(" It is not offered here."),
        }
        if !self.is_enough {
            text.push_str(
                " A log with the default requirement (power-loss, at least declared) is refused here.",
            );
        }
        text
    }
}
