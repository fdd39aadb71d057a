//! The latencies of the present minute.

use super::clocks::Clocks;
use super::event::{Event, Minute};
use crate::counters::{Delta, Reading};
use crate::recorder::Latencies;
use std::time::Duration;

/// Length of a window.
const MINUTE: Duration = Duration::from_secs(60);

/// A minute that has begun.
pub struct Window {
    began: Clocks,
    device: Option<Reading>,
    latencies: Latencies,
    stalls: u64,
}

impl Window {
    /// Begins a minute.
    pub fn begin(now: Clocks, device: Option<Reading>) -> Window {
        Window {
            began: now,
            device,
            latencies: Latencies::default(),
            stalls: 0,
        }
    }

    /// Counts a commit.
    pub fn record(&mut self, took: Duration, is_stall: bool) {
        self.latencies.record(took);
        self.stalls += u64::from(is_stall);
    }

    /// Returns true if a minute has passed.
    pub fn is_over(&self, now: Clocks) -> bool {
        now.monotonic.saturating_sub(self.began.monotonic) >= MINUTE
    }

    /// Reports the minute up to now, unless it has no commit.
    pub fn end(&self, now: Clocks, device: Option<Reading>, tell: &mut dyn FnMut(Event)) {
        let latencies = &self.latencies;
        if latencies.count() == 0 {
            return;
        }
        let device_bytes = self.device.zip(device);
        tell(Event::Minute(Minute {
            at: self.began.wall,
            lasted: now.monotonic.saturating_sub(self.began.monotonic),
            commits: latencies.count(),
            p50_us: latencies.quantile_us(0.5),
            p90_us: latencies.quantile_us(0.9),
            p99_us: latencies.quantile_us(0.99),
            max_us: latencies.max_us(),
            stalls: self.stalls,
            device_bytes: device_bytes.map(|(a, b)| Delta::between(a, b).bytes),
        }));
    }
}
