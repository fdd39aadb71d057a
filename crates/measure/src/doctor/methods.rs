//! Guarantee of each commit method, by the facts of a directory.

use logforce_device::{Assessment, CutResult, Facts, FileState, Method};
use serde::Serialize;

/// One method.
#[derive(Debug, Serialize)]
pub struct MethodLine {
    /// Name of the method.
    pub method: &'static str,
    /// True for the method that is used without measuring.
    pub is_default: bool,
    /// Reason for which it is not offered. Null if it is offered; then all following fields but
    /// `unprepared` are set.
    pub why_not: Option<String>,
    /// Guarantee of a force, with `?` if it is doubted.
    pub guarantee: Option<&'static str>,
    /// Verdict on that guarantee.
    pub verdict: Option<&'static str>,
    /// Party that the verdict rests on.
    pub source: Option<&'static str>,
    /// Evidence for the verdict.
    pub evidence: Option<String>,
    /// Guarantee on a file that was not filled beforehand; null if it is the same.
    pub unprepared: Option<Worth>,
}

/// Guarantee of a force, with the verdict and its evidence.
#[derive(Debug, Clone, Serialize)]
pub struct Worth {
    /// Guarantee of a force, with `?` if it is doubted.
    pub guarantee: &'static str,
    /// Verdict on that guarantee.
    pub verdict: &'static str,
    /// The party that the verdict rests on.
    pub source: &'static str,
    /// The same party, as the end of a sentence.
    #[serde(skip)]
    pub by: &'static str,
    /// Evidence for the verdict.
    pub evidence: String,
}

/// Results of power cuts with one method.
#[derive(Debug, Serialize)]
pub struct Cuts {
    /// Name of the method.
    pub method: &'static str,
    /// True if nothing was lost.
    pub kept: bool,
    /// Evidence for the verdict.
    pub evidence: String,
}

impl From<Assessment> for Worth {
    fn from(a: Assessment) -> Worth {
        Worth {
            guarantee: a.granted().name(),
            verdict: a.verdict.name(),
            source: a.source.name(),
            by: a.source.by(),
            evidence: a.evidence,
        }
    }
}

impl MethodLine {
    /// Assesses a method.
    pub fn new(facts: &Facts, method: Method) -> MethodLine {
        let prepared = facts.assess(method, FileState::Zeroed).map(Worth::from);
        // The weakest guarantee among the file states that a log's files are never in.
        let other = FileState::ALL
            .into_iter()
            .filter(|s| !s.is_written())
            .filter_map(|s| facts.assess(method, s))
            .min_by_key(|a| a.guarantee)
            .map(Worth::from);
        let same = |a: &Worth, b: &Worth| (a.guarantee, a.verdict) == (b.guarantee, b.verdict);
        let unprepared = other.filter(|o| prepared.as_ref().is_some_and(|p| !same(p, o)));
        let known = prepared.as_ref();
        MethodLine {
            method: method.name(),
            is_default: method == facts.default_method(),
            why_not: prepared.is_none().then(|| facts.why_not_offered(method)),
            guarantee: known.map(|p| p.guarantee),
            verdict: known.map(|p| p.verdict),
            source: known.map(|p| p.source),
            evidence: known.map(|p| p.evidence.clone()),
            unprepared,
        }
    }
}

impl Cuts {
    /// Returns the results of the power cuts that are recorded for these facts.
    pub fn of(facts: &Facts) -> Vec<Cuts> {
        let cuts = |t: &CutResult| Cuts {
            method: t.method.name(),
            kept: t.kept,
            evidence: t.evidence.clone(),
        };
        facts.tried.iter().map(cuts).collect()
    }
}
