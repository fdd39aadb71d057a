//! State of an opening.

use crate::error::{Damage, Error};
use crate::metrics::Metrics;
use crate::options::Options;
use crate::storage::builder::{Fill, SegmentBuilder};
use crate::storage::segment_sizes::SegmentSizes;
use crate::storage::zero_fill::{DeviceZeroes, Filling};
use logforce_commit::method::ForceConfig;
use logforce_device::{Directory, Runtime};
use logforce_format::{Epoch, LogId, Lsn, RecoveryCase};
use std::sync::Arc;

/// An opening: the locked directory, and the settings that were chosen before the log is read.
pub(super) struct Opening {
    pub(super) dir: Arc<dyn Directory>,
    pub(super) runtime: Arc<dyn Runtime>,
    pub(super) options: Options,
    pub(super) unit: u32,
    pub(super) sizes: SegmentSizes,
    pub(super) force: ForceConfig,
    pub(super) filling: Filling,
    pub(super) zeroes: DeviceZeroes,
    pub(super) metrics: Arc<Metrics>,
}

impl Opening {
    pub(super) fn builder(&self, log_id: LogId, epoch: Epoch) -> SegmentBuilder<'_> {
        SegmentBuilder {
            dir: &self.dir,
            log_id,
            epoch,
            direct: self.force.plan.direct,
            fill: self.filling.begins(),
            zeroes: &self.zeroes,
            needs_blocks: self.filling.begins(),
            needs_written: self.force.needs_written(),
            stop: None,
            pace: &|_| Fill::InHaste,
            runtime: &*self.runtime,
        }
    }

    pub(super) fn no_space(&self, e: Error) -> Error {
        match e {
            Error::Io { ref source, .. } if e.is_full() => Error::NoSpace {
                path: self.dir.path().to_owned(),
                need: self.sizes.first,
                source: source.clone(),
            },
            other => other,
        }
    }

    pub(super) fn no_segment_at(&self, at: Lsn) -> Error {
        Error::Damaged(Box::new(Damage {
            lsn: at,
            case: RecoveryCase::SegmentLost,
            path: self.dir.path().to_owned(),
            file: None,
            offset: 0,
            found: "no segment contains the end of the log".to_owned(),
            durable_to: at,
            in_reading: false,
            repairable: false,
            needed_from: None,
        }))
    }
}
