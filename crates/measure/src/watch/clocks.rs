//! The monotonic clock and the wall clock at one moment.

use super::event::{ClockChange, Late};
use std::time::Duration;

/// Difference between the two clocks from which the wall clock was set, or the machine was suspended.
/// Corrections of the time by NTP are smaller.
const JUMP_NS: i128 = 1_000_000_000;

/// Readings of both clocks.
#[derive(Debug, Clone, Copy, Default)]
pub struct Clocks {
    /// Time since a fixed moment. On Linux and macOS it stands still while the machine is suspended.
    pub monotonic: Duration,
    /// Time since 1970, as people read it.
    pub wall: Duration,
}

impl Clocks {
    /// Returns the change of the wall clock beyond the time that has passed since an earlier reading, if it
    /// is too large for a correction.
    pub fn change_since(self, earlier: Clocks) -> Option<ClockChange> {
        let ns = |time: Duration| i128::try_from(time.as_nanos()).unwrap_or(i128::MAX);
        let wall = ns(self.wall) - ns(earlier.wall);
        let passed = ns(self.monotonic) - ns(earlier.monotonic);
        let by = wall - passed;
        (by.abs() >= JUMP_NS).then(|| ClockChange {
            at: self.wall,
            by_seconds: by as f64 / 1e9,
        })
    }

    /// Returns the delay since the time at which a commit should have begun, if it is at least `least`.
    pub fn late(self, planned: Duration, least: Duration) -> Option<Late> {
        let lasted = self.monotonic.saturating_sub(planned);
        (lasted >= least).then(|| Late {
            at: self.wall.saturating_sub(lasted),
            lasted,
        })
    }
}
