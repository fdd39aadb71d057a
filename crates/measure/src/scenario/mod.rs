//! The scenarios. Each has its options, which know how to measure, what follows, and how it is told.

pub mod group;
pub mod inserts;
pub mod journal;
pub mod map;
pub mod pages;
pub mod sweep;

use crate::MeasureError;
use crate::result::machine::Machine;
use crate::result::{Document, Kind, Row};
use crate::run::Setup;
use logforce_device::Method;

/// Results of a run.
pub struct ScenarioOutcome<M = ()> {
    /// The rows.
    pub rows: Vec<Row>,
    /// Notes on the method, for the reader, in sentences.
    pub notes: Vec<String>,
    /// The user interrupted: rows hold what was whole until then.
    pub interrupted: bool,
    /// Results beside the rows.
    pub more: M,
}

/// Conclusions from a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Conclusion {
    /// In sentences.
    pub text: String,
    /// The method to use; `None` if none can be recommended.
    pub recommended: Option<Method>,
}

impl From<String> for Conclusion {
    fn from(text: String) -> Conclusion {
        Conclusion {
            text,
            recommended: None,
        }
    }
}

/// A scenario, as its options.
pub trait Scenario {
    /// Kind of the scenario.
    const KIND: Kind;

    /// Results of a run beside its rows.
    type More;

    /// Measures.
    ///
    /// # Errors
    /// Nothing could be measured.
    fn run(&self, setup: &Setup) -> Result<ScenarioOutcome<Self::More>, MeasureError>;

    /// Draws the conclusion of what was measured on `machine`.
    fn conclude(&self, outcome: &ScenarioOutcome<Self::More>, machine: &Machine) -> Conclusion;

    /// Returns what the reader should know, in sentences.
    fn notes(&self, outcome: &ScenarioOutcome<Self::More>) -> Vec<String>;

    /// Puts what there is beside the rows into the document.
    fn add(_: Self::More, _: &mut Document) {}

    /// Returns all of it for a terminal of `width` characters.
    fn text(&self, document: &Document, width: usize) -> String;
}

/// Measures, and fills the document of the run.
///
/// # Errors
/// Nothing could be measured.
pub fn measure<S: Scenario>(
    scenario: &S,
    setup: &Setup,
    document: &mut Document,
) -> Result<(), MeasureError> {
    let outcome = scenario.run(setup)?;
    fill(scenario, outcome, document);
    Ok(())
}

/// Fills the document of a run that measured this.
pub fn fill<S: Scenario>(scenario: &S, outcome: ScenarioOutcome<S::More>, document: &mut Document) {
    let Conclusion { text, recommended } = scenario.conclude(&outcome, &document.machine);
    document.interrupted = outcome.interrupted;
    document.conclusion = match text.is_empty() {
        true => text,
        false => document.machine.concluded(text, outcome.interrupted),
    };
    document.recommended = recommended.into();
    document.notes = scenario.notes(&outcome);
    document.rows = outcome.rows;
    S::add(outcome.more, document);
}
