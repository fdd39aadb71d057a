//! What an opening has decided, and nothing changes until the log is closed.

use crate::options::Options;
use crate::types::RecoveryReport;
use logforce_device::{Guarantee, Method, Plan, Verdict};
use logforce_format::Epoch;

/// What an opening has decided.
pub(crate) struct Config {
    pub(crate) options: Options,
    pub(crate) epoch: Epoch,
    /// How a force is done.
    pub(crate) forcing: Forcing,
    /// Write unit of new segments, bytes.
    pub(crate) unit: u32,
    /// New segments are filled with zeroes.
    pub(crate) fill: bool,
    /// What the opening found.
    pub(crate) report: RecoveryReport,
}

/// How a force is done, and what it is worth.
pub(crate) struct Forcing {
    pub(crate) method: Method,
    pub(crate) plan: Plan,
    /// What a force by the method guarantees here.
    pub(crate) guarantee: Guarantee,
    /// How far that is to be believed.
    pub(crate) verdict: Verdict,
    /// Why, in words.
    pub(crate) evidence: String,
    /// What is written and not forced survives.
    pub(crate) written: Guarantee,
}
