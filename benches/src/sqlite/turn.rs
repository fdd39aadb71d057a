//! One turn of a contender: its work and its measurements.

use super::database::Database;
use crate::rivals::place::Ground;
use anyhow::Result;
use logforce_device_os::process_times;
use logforce_measure::{Limit, MeasureError, Recorder};
use std::time::Duration;

/// Amount of work of a turn.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    /// Duration of the timed part, if `operations` is `None`. It has at least one operation.
    pub time: Duration,
    /// Number of operations instead.
    pub operations: Option<u64>,
    /// Rows of the table for reads and bulk loads.
    pub rows: u32,
}

impl Effort {
    /// Returns the end of the timed part.
    pub(super) fn limit(&self) -> Limit {
        Limit {
            commits: self.operations.unwrap_or(u64::MAX),
            time: self.operations.is_none().then_some(self.time),
        }
    }
}

/// Measurements of a turn.
#[derive(Debug, Clone, Copy)]
pub struct Run {
    /// Number of operations.
    pub operations: u64,
    /// Duration of the timed parts.
    pub time: Duration,
    /// Processor time of all threads in the timed parts.
    pub cpu: Duration,
    /// Device flushes.
    pub flushes: Option<u64>,
    /// Bytes that the device wrote.
    pub bytes: Option<u64>,
}

impl Run {
    /// Returns the operations per second.
    pub fn rate(&self) -> f64 {
        self.operations as f64 / self.time.as_secs_f64()
    }

    /// Returns the processor time per operation, microseconds.
    pub fn cpu_us(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.operations as f64
    }

    /// Returns `amount` per operation.
    pub fn per_operation(&self, amount: Option<u64>) -> Option<f64> {
        amount.map(|amount| amount as f64 / self.operations as f64)
    }
}

/// State of a turn.
pub(super) struct Turn<'a> {
    pub(super) database: Database<'a>,
    pub(super) ground: &'a Ground,
    pub(super) effort: Effort,
    pub(super) recorder: Recorder,
    cpu: Duration,
}

impl<'a> Turn<'a> {
    /// Returns a turn without measurements.
    pub(super) fn new(
        database: Database<'a>,
        ground: &'a Ground,
        effort: Effort,
        mut recorder: Recorder,
    ) -> Turn<'a> {
        recorder.begin_slice();
        Turn {
            database,
            ground,
            effort,
            recorder,
            cpu: Duration::ZERO,
        }
    }

    /// Runs a timed part once earlier writes are on the disk, and adds the processor time of the process.
    pub(super) fn counted<T>(
        &mut self,
        timed: impl FnOnce(&mut Recorder) -> Result<T, MeasureError>,
    ) -> Result<T> {
        self.ground.settle()?;
        let before = process_times();
        let result = timed(&mut self.recorder)?;
        if let Some((before, after)) = before.zip(process_times()) {
            self.cpu += (after.user + after.system).saturating_sub(before.user + before.system);
        }
        Ok(result)
    }

    /// Returns the measurements.
    pub(super) fn end(self) -> Run {
        let device = self.recorder.device();
        Run {
            operations: self.recorder.commits(),
            time: self.recorder.time(),
            cpu: self.cpu,
            flushes: device.and_then(|d| d.flushes),
            bytes: device.map(|d| d.bytes),
        }
    }
}

/// Returns an error in the words of the measuring loop.
pub(super) fn failed(error: impl Into<anyhow::Error>) -> MeasureError {
    MeasureError::NotOffered(format!("{:#}", error.into()))
}
