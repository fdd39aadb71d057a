//! Counts of one connection.

use logforce_device_os::{Counter, DeviceCounters};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// Counts of a connection since it was opened.
#[derive(Default)]
pub struct Stats {
    commits: AtomicU64,
    syncs: AtomicU64,
    bytes: AtomicU64,
    /// Counters of the device, and their values when they were first asked for.
    device: Mutex<Option<(Counter, DeviceCounters)>>,
}

impl Stats {
    pub fn committed(&self) {
        self.commits.fetch_add(1, Relaxed);
    }

    pub fn synced(&self) {
        self.syncs.fetch_add(1, Relaxed);
    }

    pub fn wrote(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Relaxed);
    }

    /// Returns the number of committed transactions.
    pub fn commits(&self) -> u64 {
        self.commits.load(Relaxed)
    }

    /// Returns the counts as JSON. Those of the device are of all programs, and begin with the first call: to
    /// find the device takes as long as several commits.
    pub fn json(&self, path: &Path, log_syncs: u64) -> String {
        let mut device = self.device.lock().unwrap_or_else(PoisonError::into_inner);
        if device.is_none() {
            *device = Counter::of(path).ok().and_then(|counter| {
                let first = counter.sample().ok()?;
                Some((counter, first))
            });
        }
        let now = device.as_ref().and_then(|(counter, first)| {
            let now = counter.sample().ok()?;
            let flushes = now.flushes.zip(first.flushes);
            Some(serde_json::json!({
                "name": now.device,
                "flushes": flushes.map(|(now, first)| now.saturating_sub(first)),
                "bytes_written": now.sectors_written.saturating_sub(first.sectors_written) * 512,
            }))
        });
        serde_json::json!({
            "commits": self.commits(),
            "syncs": self.syncs.load(Relaxed),
            "log_syncs": log_syncs,
            "bytes_written": self.bytes.load(Relaxed),
            "device_since_first_call": now,
        })
        .to_string()
    }
}
