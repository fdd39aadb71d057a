//! The scenarios. The options of each know how to measure, to draw the conclusion and to print the results.

pub mod group;
pub mod inserts;
pub mod journal;
pub mod map;
pub mod pages;
pub mod preflight;
pub mod sweep;

use crate::MeasureError;
use crate::result::legend::Shown;
use crate::result::machine::Machine;
use crate::result::{Document, Kind, Row};
use crate::run::Setup;
use crate::run::cpu::CpuCounters;
use logforce_device::Method;

/// Results of a run.
pub struct ScenarioOutcome<M = ()> {
    /// The rows.
    pub rows: Vec<Row>,
    /// Notes on the method, for the reader, in sentences.
    pub notes: Vec<String>,
    /// True if the user interrupted the run: the rows hold what was complete by then.
    pub interrupted: bool,
    /// Results beside the rows.
    pub more: M,
}

/// Conclusions from a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Conclusion {
    /// Text, in sentences.
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

/// A scenario, represented by its options.
pub trait Scenario {
    /// Kind of the scenario.
    const KIND: Kind;

    /// Results of a run beside its rows.
    type More;

    /// Runs the measurement.
    ///
    /// # Errors
    /// Nothing was measured.
    fn run(&self, setup: &Setup) -> Result<ScenarioOutcome<Self::More>, MeasureError>;

    /// Draws the conclusion from the measurements on `machine`.
    fn conclude(&self, outcome: &ScenarioOutcome<Self::More>, machine: &Machine) -> Conclusion;

    /// Returns the notes for the reader, in sentences.
    fn notes(&self, outcome: &ScenarioOutcome<Self::More>) -> Vec<String>;

    /// Puts the results beside the rows into the document.
    fn add(_: Self::More, _: &mut Document) {}

    /// Returns the report for a terminal of `width` characters: the conclusion, then what is to be shown.
    fn text(&self, document: &Document, shown: Shown, width: usize) -> String;
}

/// Runs the measurement and fills the document.
///
/// # Errors
/// Nothing was measured.
pub fn measure<S: Scenario>(
    scenario: &S,
    setup: &Setup,
    document: &mut Document,
) -> Result<(), MeasureError> {
    let before = CpuCounters::now();
    let outcome = scenario.run(setup)?;
    document.cpu = CpuCounters::now().since(&before);
    fill(scenario, outcome, document);
    document
        .notes
        .extend(document.cpu.and_then(|cpu| cpu.note()));
    Ok(())
}

/// Fills the document with the results of a run.
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
