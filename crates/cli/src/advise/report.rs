//! Output of `logforce advise` as JSON. Field names are kept compatible; see `docs/cli-json.md`.

use serde::Serialize;

/// One run of the command.
#[derive(Debug, Serialize)]
pub struct AdviceReport {
    pub schema: &'static str,
    pub version: u32,
    pub command: String,
    pub system: &'static str,
    /// Guarantee that was asked for.
    pub asked: &'static str,
    /// `enough`, `below` or `doubtful`: of the settings in force, or of the advice if none were read.
    pub answer: &'static str,
    /// The answer in one sentence.
    pub sentence: String,
    /// Directory whose disk was examined.
    pub directory: Option<String>,
    pub filesystem: Option<String>,
    pub device: Option<String>,
    /// Reason why no disk was examined.
    pub disk_unseen: Option<String>,
    /// File or server whose settings were read.
    pub read_from: Option<String>,
    /// Settings in force, unsafe ones first. Null if none were read.
    pub in_force: Option<Vec<InForce>>,
    /// Settings to use.
    pub advice: Vec<Advice>,
    /// The advice as text to paste, with comments.
    pub snippet: String,
    /// Reason why no times were measured.
    pub not_measured: Option<String>,
    /// Parts of the configuration that were not understood.
    pub unread: Vec<String>,
    pub notes: Vec<String>,
}

/// A setting in force.
#[derive(Debug, Serialize)]
pub struct InForce {
    pub name: &'static str,
    pub value: String,
    /// File and line, or server; null for the default.
    pub place: Option<String>,
    pub answer: &'static str,
    /// Null if the value is not known.
    pub survives: Option<Survives>,
    pub note: Option<String>,
    /// Line to use instead.
    pub change: Option<String>,
    /// True if removing the line helps, because the default gives more.
    pub remove: bool,
    pub manual: &'static str,
}

/// A setting to use.
#[derive(Debug, Serialize)]
pub struct Advice {
    pub name: &'static str,
    pub value: &'static str,
    /// Line to paste; null to leave the setting unset.
    pub line: Option<String>,
    pub answer: &'static str,
    pub survives: Survives,
    pub cost: Cost,
    pub default: &'static str,
    /// Measured reason for a value other than the default.
    pub why: Option<String>,
    pub manual: &'static str,
}

/// Failures that an acknowledged commit survives.
#[derive(Debug, Serialize)]
pub struct Survives {
    /// Guarantee here, with `?` if it is doubted.
    pub guarantee: &'static str,
    /// Guarantee by the manual.
    pub promised: &'static str,
    pub verdict: Option<&'static str>,
    pub source: Option<&'static str>,
    pub evidence: Option<String>,
    /// Result of a stronger failure: `loses` or `damages`.
    pub beyond: Option<&'static str>,
    pub beyond_words: Option<&'static str>,
}

/// Cost of a setting.
#[derive(Debug, Default, Serialize)]
pub struct Cost {
    /// Cost other than forces, in words.
    pub words: Option<&'static str>,
    pub forces_per_commit: u32,
    /// The force: size, method and state of the file.
    pub force: Option<String>,
    pub ms_per_commit: Option<f64>,
    pub ms_per_commit_p10: Option<f64>,
    pub ms_per_commit_p90: Option<f64>,
}
