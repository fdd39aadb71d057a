//! Which method a log would use in a place, by what is known and without measuring.

use logforce::disk::calibration::{Calibration, Report};
use logforce::{Guarantee, Verdict, disk::FileState};
use serde::Serialize;

/// The method that a log opened now would use, if its program names none.
#[derive(Debug, Serialize)]
pub struct Next {
    /// The method.
    pub method: &'static str,
    /// Whether measuring has decided it; else it is the default.
    pub decided: bool,
    /// Why this one.
    pub why: String,
    /// Name of the guarantee of a force, with its doubt; null where the method is not offered.
    pub guarantee: Option<&'static str>,
    /// How far that is to be believed.
    pub verdict: Option<&'static str>,
    /// The party that the verdict rests on.
    pub source: Option<&'static str>,
    /// Why.
    pub evidence: Option<String>,
    /// Whether a log that asks for power-loss, declared at least, which is the default, can be opened.
    pub is_enough: bool,
    /// The files that hold what was measured.
    pub stored_in: Vec<String>,
    /// The method of the forces that logs were seen to make in real use; null if none is known.
    pub seen_in_use: Option<&'static str>,
}

impl Next {
    /// From what is known.
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

    /// The method, how it was chosen, and what it is worth, in sentences.
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
                " A log that asks for power-loss, declared at least, as logs do by default, is refused here.",
            );
        }
        text
    }
}
