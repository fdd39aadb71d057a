//! The counters and histograms of one opening.

use crate::metrics::calls::CallbackState;
use crate::metrics::counters::Counting;
use crate::metrics::histogram::{Histogram, Sharded};
use crate::policy::Policy;
use crate::state::batch::BatchBuilder;
use logforce_device::Runtime;
use logforce_format::{BATCH_HEADER_LEN, BatchKind};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The counters and histograms of one opening.
pub(crate) struct Metrics {
    /// When the opening began, by the log's clock.
    pub(super) opened: Duration,
    /// The failure was traced: only the first one is.
    pub(crate) failed: AtomicBool,
    pub(crate) counting: Counting,
    pub(super) calls: CallbackState,
    /// Waits of blocking commits for a force, nanoseconds.
    pub(super) commit: Sharded,
    /// All other waits, nanoseconds.
    pub(super) wait: Sharded,
    /// Device writes of batches, nanoseconds.
    pub(super) write: Histogram,
    /// Jobs that force, nanoseconds.
    pub(super) force: Histogram,
    /// Those of them that write a single unit, nanoseconds.
    pub(super) unit_force: Histogram,
    /// The oldest submission of each such job, nanoseconds.
    pub(super) submit: Histogram,
    /// Records that end in a batch.
    pub(super) batch_records: Histogram,
}

impl Metrics {
    pub(crate) fn new(runtime: &dyn Runtime) -> Arc<Self> {
        Arc::new(Metrics {
            opened: runtime.now(),
            failed: AtomicBool::new(false),
            counting: Counting::default(),
            calls: CallbackState::default(),
            commit: Sharded::default(),
            wait: Sharded::default(),
            write: Histogram::default(),
            force: Histogram::default(),
            unit_force: Histogram::default(),
            submit: Histogram::default(),
            batch_records: Histogram::default(),
        })
    }

    /// An append was accepted. Under the log's mutex.
    pub(crate) fn accepted(&self, records: &[&[&[u8]]]) {
        let bytes: usize = records.iter().flat_map(|r| r.iter()).map(|p| p.len()).sum();
        self.counting.appends.add_alone(1);
        self.counting.records.add_alone(records.len() as u64);
        self.counting.record_bytes.add_alone(bytes as u64);
    }

    /// The accepted append is a commit. Under the log's mutex.
    pub(crate) fn committing(&self, policy: Policy) {
        let counter = match policy {
            Policy::Force => &self.counting.commits_force,
            Policy::Write { .. } => &self.counting.commits_write,
            Policy::Interval { .. } => &self.counting.commits_interval,
        };
        counter.add_alone(1);
    }

    /// A blocking commit is done.
    pub(crate) fn committed(&self, policy: Policy, took: Duration) {
        match policy {
            Policy::Force => self.commit.record(nanos(took)),
            _ => self.wait.record(nanos(took)),
        }
    }

    /// Another wait is done.
    pub(crate) fn waited(&self, took: Duration) {
        self.wait.record(nanos(took));
    }

    /// An append has to wait.
    pub(crate) fn waits(&self, for_space: bool) {
        match for_space {
            true => self.counting.segment_waits.add(1),
            false => self.counting.buffer_waits.add(1),
        }
    }

    /// A device write of a batch is done.
    pub(crate) fn wrote(&self, took: Duration) {
        self.write.record(nanos(took));
    }

    /// A segment was prepared.
    pub(crate) fn prepared(&self, recycled: bool) {
        self.counting.segments_prepared.add(1);
        self.counting.segments_recycled.add(u64::from(recycled));
    }

    /// A job that forces is done.
    pub(crate) fn forced(
        &self,
        took: Duration,
        one_unit: bool,
        oldest_submission: Option<Duration>,
    ) {
        self.force.record(nanos(took));
        if one_unit {
            self.unit_force.record(nanos(took));
        }
        if let Some(age) = oldest_submission {
            self.submit.record(nanos(age));
        }
    }

    /// The number of forces of a single unit, and their median duration.
    pub(crate) fn unit_forces(&self) -> (u64, Duration) {
        let forces = self.unit_force.snapshot();
        (forces.count(), Duration::from_nanos(forces.quantile(0.5)))
    }

    /// The batches of a job are written. Under the log's mutex.
    pub(crate) fn job_done(&self, load: &Load, through: bool) {
        let c = &self.counting;
        c.batches.add_alone(load.batches);
        c.batch_bytes.add_alone(load.bytes);
        c.padding_bytes.add_alone(load.padding);
        c.writes.add_alone(load.batches);
        if through {
            c.through_writes.add_alone(load.batches);
        }
        c.stamps.add_alone(u64::from(load.stamp));
    }
}

/// What a job writes.
#[derive(Debug, Default)]
pub(crate) struct Load {
    pub(crate) batches: u64,
    /// Headers, payload and padding.
    pub(crate) bytes: u64,
    padding: u64,
    /// It writes a stamp.
    pub(crate) stamp: bool,
}

impl Load {
    /// Adds up a job's batches before they are written, outside of the mutex.
    pub(crate) fn of(batches: &[BatchBuilder], metrics: &Metrics) -> Load {
        let mut load = Load::default();
        for batch in batches {
            let extent = batch.extent();
            load.batches += 1;
            load.bytes += extent as u64;
            load.padding += (extent - BATCH_HEADER_LEN - batch.payload) as u64;
            load.stamp |= batch.kind == BatchKind::Stamp;
            if batch.kind == BatchKind::Data {
                metrics.batch_records.record(batch.records.into());
            }
        }
        load
    }
}

pub(crate) fn nanos(time: Duration) -> u64 {
    time.as_nanos().min(u64::MAX.into()) as u64
}
