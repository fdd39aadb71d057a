//! The counters and histograms of one opening.

use crate::metrics::calls::CallbackState;
use crate::metrics::counters::CounterSet;
use crate::policy::Policy;
use crate::state::batch::BatchBuilder;
use logforce_commit::metrics::histogram::{Histogram, Sharded};
use logforce_device::Runtime;
use logforce_format::{BATCH_HEADER_LEN, BatchKind};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The counters and histograms of one opening.
pub(crate) struct Metrics {
    /// Time at which the opening began, by the log's clock.
    pub(super) opened: Duration,
    /// True if a failure was traced. Only the first failure is.
    pub(crate) failed: AtomicBool,
    pub(crate) counted: CounterSet,
    pub(super) calls: CallbackState,
    /// Durations of commits that waited for a force, nanoseconds.
    pub(super) commit: Sharded,
    /// Durations of commits that waited for the replica, nanoseconds.
    pub(super) replicated: Sharded,
    /// Durations of all other waits, nanoseconds.
    pub(super) wait: Sharded,
    /// Durations of device writes of batches, nanoseconds.
    pub(super) write: Histogram,
    /// Durations of jobs that force, nanoseconds.
    pub(super) force: Histogram,
    /// Durations of jobs that force and write a single unit, nanoseconds.
    pub(super) unit_force: Histogram,
    /// Age of the oldest submission in each job that forces, nanoseconds.
    pub(super) submit: Histogram,
    /// Numbers of records that end in a batch.
    pub(super) batch_records: Histogram,
}

impl Metrics {
    pub(crate) fn new(runtime: &dyn Runtime) -> Arc<Self> {
        Arc::new(Metrics {
            opened: runtime.now(),
            failed: AtomicBool::new(false),
            counted: CounterSet::default(),
            calls: CallbackState::default(),
            commit: Sharded::default(),
            replicated: Sharded::default(),
            wait: Sharded::default(),
            write: Histogram::default(),
            force: Histogram::default(),
            unit_force: Histogram::default(),
            submit: Histogram::default(),
            batch_records: Histogram::default(),
        })
    }

    /// Counts an accepted append. Call it under the log's mutex.
    pub(crate) fn accepted(&self, records: &[&[&[u8]]]) {
        let bytes: usize = records.iter().flat_map(|r| r.iter()).map(|p| p.len()).sum();
        self.counted.appends.add_locked(1);
        self.counted.records.add_locked(records.len() as u64);
        self.counted.record_bytes.add_locked(bytes as u64);
    }

    /// Counts an accepted append as a commit. Call it under the log's mutex.
    pub(crate) fn committing(&self, policy: Policy) {
        let counter = match policy {
            Policy::Force => &self.counted.commits_force,
            Policy::Write { .. } => &self.counted.commits_write,
            Policy::Interval { .. } => &self.counted.commits_interval,
            Policy::Replicated => &self.counted.commits_replicated,
        };
        counter.add_locked(1);
    }

    /// Records the duration of a blocking commit.
    pub(crate) fn committed(&self, policy: Policy, took: Duration) {
        match policy {
            Policy::Force => self.commit.record(nanos(took)),
            Policy::Replicated => self.replicated.record(nanos(took)),
            _ => self.wait.record(nanos(took)),
        }
    }

    /// Records the duration of another wait.
    pub(crate) fn waited(&self, took: Duration) {
        self.wait.record(nanos(took));
    }

    /// Counts an append that has to wait, for prepared space (`for_space`) or for buffer space.
    pub(crate) fn waits(&self, for_space: bool) {
        match for_space {
            true => self.counted.segment_waits.add(1),
            false => self.counted.buffer_waits.add(1),
        }
    }

    /// Records the duration of a device write of a batch.
    pub(crate) fn wrote(&self, took: Duration) {
        self.write.record(nanos(took));
    }

    /// Counts a prepared segment.
    pub(crate) fn prepared(&self, recycled: bool, unwritten: bool) {
        self.counted.segments_prepared.add(1);
        self.counted.segments_recycled.add(u64::from(recycled));
        self.counted.segments_unfilled.add(u64::from(unwritten));
    }

    /// Records the duration of a job that forces.
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

    /// Returns the number of forces of a single unit, and their median duration.
    pub(crate) fn unit_forces(&self) -> (u64, Duration) {
        let forces = self.unit_force.snapshot();
        (forces.count(), Duration::from_nanos(forces.quantile(0.5)))
    }

    /// Counts the written batches of a job. Call it under the log's mutex.
    pub(crate) fn job_done(&self, load: &Load, through: bool) {
        let c = &self.counted;
        c.batches.add_locked(load.batches);
        c.batch_bytes.add_locked(load.bytes);
        c.padding_bytes.add_locked(load.padding);
        c.writes.add_locked(load.batches);
        if through {
            c.through_writes.add_locked(load.batches);
        }
        c.stamps.add_locked(u64::from(load.stamp));
    }
}

/// Contents that a job writes.
#[derive(Debug, Default)]
pub(crate) struct Load {
    pub(crate) batches: u64,
    /// Bytes of headers, payload and padding.
    pub(crate) bytes: u64,
    padding: u64,
    /// True if the job writes a stamp.
    pub(crate) stamp: bool,
}

impl Load {
    /// Adds up a job's batches before they are written. Call it without the mutex.
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
