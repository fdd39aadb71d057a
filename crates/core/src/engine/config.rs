//! What an opening decides: constant until the log is closed.

use crate::options::Options;
use crate::storage::segment_sizes::SegmentSizes;
use crate::storage::zero_fill::Filling;
use crate::types::RecoveryReport;
use logforce_device::{Granted, Guarantee, Method, Plan, Verdict};
use logforce_format::Epoch;

/// What an opening decides.
pub(crate) struct Config {
    pub(crate) options: Options,
    pub(crate) epoch: Epoch,
    /// How the log forces.
    pub(crate) force: ForceConfig,
    /// Write unit of new segments, bytes.
    pub(crate) unit: u32,
    /// Sizes of new segments.
    pub(crate) sizes: SegmentSizes,
    /// When new segments are filled with zeroes.
    pub(crate) filling: Filling,
    /// What the opening found.
    pub(crate) report: RecoveryReport,
}

/// How the log forces, and what it is worth.
pub(crate) struct ForceConfig {
    pub(crate) method: Method,
    pub(crate) plan: Plan,
    /// What a force by the method guarantees here.
    pub(crate) guarantee: Guarantee,
    /// How far to believe that.
    pub(crate) verdict: Verdict,
    /// The evidence for the verdict, in words.
    pub(crate) evidence: String,
    /// What a written record survives that was not forced.
    pub(crate) written: Guarantee,
    /// The same where it was the first to be written to its blocks.
    pub(crate) first_written: Guarantee,
}

impl ForceConfig {
    /// Returns true if a write without a force guarantees more on blocks that were written before.
    pub(crate) fn needs_written(&self) -> bool {
        self.first_written != self.written
    }

    /// Returns the guarantee of a force, marked as doubted if its verdict does not support it.
    pub(crate) fn granted(&self) -> Granted {
        Granted::new(self.guarantee, self.verdict)
    }
}
