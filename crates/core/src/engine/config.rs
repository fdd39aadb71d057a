//! Configuration of an open log: constant until the log is closed.

use crate::options::Options;
use crate::storage::segment_sizes::SegmentSizes;
use crate::storage::zero_fill::{DeviceZeroes, Filling};
use crate::types::RecoveryReport;
use logforce_commit::method::ForceConfig;
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
    /// Zeroes by the device for that.
    pub(crate) zeroes: DeviceZeroes,
    /// Result of recovery.
    pub(crate) report: RecoveryReport,
}
