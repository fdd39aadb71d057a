//! What every report begins with.

use crate::machine::Machine;
use serde::Serialize;

/// The first fields of a report, in this order.
#[derive(Debug, Clone, Serialize)]
pub struct Head {
    /// Which report it is.
    pub schema: &'static str,
    /// Grows only when a field changes its meaning or goes.
    pub version: u32,
    /// The command line.
    pub command: String,
    /// When it started: RFC 3339, UTC.
    pub started: String,
    /// Whether the user stopped it: rows hold what was measured until then.
    pub interrupted: bool,
    /// What it ran on.
    pub machine: Machine,
}

/// One run of a scenario, with what follows from it.
#[derive(Debug, Clone, Serialize)]
pub struct Report<R> {
    /// What it begins with.
    #[serde(flatten)]
    pub head: Head,
    /// What follows, in sentences.
    pub conclusion: String,
    /// How it was measured.
    pub notes: Vec<String>,
    /// What was measured.
    pub rows: Vec<R>,
}
