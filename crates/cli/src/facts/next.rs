//! The method that a log would use in a directory, by what is known and without measuring.

use logforce::disk::calibration::{Calibration, Report};
use logforce::{Guarantee, Verdict, disk::FileState};
use serde::Serialize;

/// Method that a log opened now would use, if its program names none.
#[derive(Debug, Serialize)]
pub struct Next {
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
    /// Builds it from what is known.
    pub fn new(known: &Report) -> Next {
        let method = known.decision.method;
        let assessed = known.facts.assess(method, FileState::Zeroed);
        let live = |c: &Calibration| c.live.map(|l| l.method.name());
        Next {
            method: method.name(),
            decided: known.decision.decided,
            why: known.decision.why.clone(),
            guarantee: assessed.as_ref().map(|a| a.granted().name()),
            verdict: assessed.as_ref().map(|a| a.verdict.name()),
            source: assessed.as_ref().map(|a| a.source.name()),
            is_enough: assessed
                .as_ref()
                .is_some_and(|a| a.meets(Guarantee::PowerLoss, Verdict::Declared)),
            evidence: assessed.map(|a| a.evidence),
            stored_in: known
                .stored_in
                .iter()
                .map(|p| p.display().to_string())
                .collect(),
            seen_in_use: known.calibration.as_ref().and_then(live),
        }
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
