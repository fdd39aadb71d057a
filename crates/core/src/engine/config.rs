//! Configuration of an open log: constant until the log is closed.

use crate::options::Options;
use crate::storage::segment_sizes::SegmentSizes;
use crate::storage::zero_fill::Filling;
use crate::types::RecoveryReport;
use logforce_device::{Granted, Guarantee, Method, Plan, Verdict};
use logforce_format::Epoch;

/// Configuration of an open log. The opening derives it from the options and the directory.
pub(crate) struct Config {
    pub(crate) options: Options,
    pub(crate) epoch: Epoch,
    pub(crate) force: ForceConfig,
    /// Write unit of new segments, bytes.
    pub(crate) unit: u32,
    /// Sizes of new segments.
    pub(crate) sizes: SegmentSizes,
    /// Rule for filling new segments with zeroes.
    pub(crate) filling: Filling,
    /// Result of recovery.
    pub(crate) report: RecoveryReport,
}

/// Method by which the log forces, and its guarantee.
pub(crate) struct ForceConfig {
    pub(crate) method: Method,
    pub(crate) plan: Plan,
    /// Guarantee of a force by the method in this directory.
    pub(crate) guarantee: Guarantee,
    /// Verdict on that guarantee.
    pub(crate) verdict: Verdict,
    /// Evidence for the verdict, in words.
    pub(crate) evidence: String,
    /// Guarantee of a record that is written and not forced.
    pub(crate) written: Guarantee,
    /// The same for a record that is the first to be written to its blocks.
    pub(crate) first_written: Guarantee,
}

impl ForceConfig {
    /// Returns true if an unforced write has a stronger guarantee on blocks that were written before.
    pub(crate) fn needs_written(&self) -> bool {
        self.first_written != self.written
    }

    /// Returns the guarantee of a force, marked as doubted if its verdict does not support it.
    pub(crate) fn granted(&self) -> Granted {
        Granted::new(self.guarantee, self.verdict)
    }
}
