//! Settings that few programs need.

use std::time::Duration;

/// Settings of a log for [`Options::tuning`](crate::Options::tuning). The defaults suit almost every program.
#[derive(Debug, Clone, Default)]
pub struct Tuning {
    write_unit_size: Option<u64>,
    large_write_size: Option<u64>,
    max_in_flight_writes: Option<usize>,
    max_spare_segments: Option<usize>,
    idle_stamp: Option<Duration>,
    live_stats: Option<bool>,
    device_zeroes: Option<bool>,
}

impl Tuning {
    /// Returns the defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the unit of a device write in bytes, a power of two from 4096 to 65536, where the device
    /// reports it wrong. The log uses the device's unit if that is larger.
    pub fn write_unit_size(mut self, bytes: u64) -> Self {
        self.write_unit_size = Some(bytes);
        self
    }

    /// Sets the size in bytes from which a write counts as large. Default 64 KiB: a smaller write takes about
    /// as long as the smallest one. Several large writes are in flight from the beginning; several small ones
    /// only if measurements show a gain.
    pub fn large_write_size(mut self, bytes: u64) -> Self {
        self.large_write_size = Some(bytes);
        self
    }

    /// Sets the maximum number of device writes in flight, 1 to 1024. Default 16. While commits wait for each
    /// other, the log measures whether they wait less with more or with fewer writes in flight, and adapts.
    /// It arrives at many on a networked volume, and at one on a disk that executes one write after another.
    ///
    /// With one write in flight, the log also measures whether delaying the next write helps. The delay lets
    /// threads whose commits were just acknowledged join that write; it lasts for at most half the time of a
    /// write. With a maximum of 1 the log tries only this delay.
    ///
    /// Methods that need a barrier have one write in flight, as has `dsync` through the page cache. With
    /// several writes there, the system may report the error of one to another, and success to the failed
    /// one.
    pub fn max_in_flight_writes(mut self, count: usize) -> Self {
        self.max_in_flight_writes = Some(count);
        self
    }

    /// Sets the maximum number of truncated segments that are kept for reuse. Default 2.
    pub fn max_spare_segments(mut self, count: usize) -> Self {
        self.max_spare_segments = Some(count);
        self
    }

    /// Sets the time after the last force at which an idle log writes a stamp for it. Default 50 ms, in an
    /// environment 5 s. Before that stamp, recovery cannot distinguish damage to the last records from a torn
    /// write.
    pub fn idle_stamp(mut self, after: Duration) -> Self {
        self.idle_stamp = Some(after);
        self
    }

    /// Sets whether the log writes its statistics into the file `live` of its directory, so that other
    /// processes can read them. The log writes one page at most once a second, only after some activity, and
    /// never forces it. Default true, in an environment false. The log ignores failures of these writes.
    pub fn live_stats(mut self, write: bool) -> Self {
        self.live_stats = Some(write);
        self
    }

    /// Sets whether the device zeroes new segments, where it can, instead of receiving zeroes as writes. Default
    /// false, because no device with such a command was measured or had its power cut so far. Needs Linux 6.17,
    /// ext4, and a device that reports the command (`logforce doctor` shows it); elsewhere the log writes the
    /// zeroes as before. One sync makes the zeroed blocks durable before the log uses the segment.
    pub fn device_zeroes(mut self, tries: bool) -> Self {
        self.device_zeroes = Some(tries);
        self
    }

    /// Returns the core's options with these settings applied.
    pub(crate) fn of(self, core: logforce_core::Options) -> logforce_core::Options {
        let core = set(core, self.write_unit_size, |core, n| {
            core.write_unit_size(n)
        });
        let core = set(core, self.large_write_size, |core, n| {
            core.large_write_size(n)
        });
        let core = set(core, self.max_in_flight_writes, |core, n| {
            core.max_in_flight_writes(n)
        });
        let core = set(core, self.max_spare_segments, |core, n| {
            core.max_spare_segments(n)
        });
        let core = set(core, self.idle_stamp, |core, after| core.idle_stamp(after));
        let core = set(core, self.device_zeroes, |core, tries| {
            core.device_zeroes(tries)
        });
        set(core, self.live_stats, |core, write| core.live_stats(write))
    }
}

fn set<T>(
    core: logforce_core::Options,
    value: Option<T>,
    set: impl FnOnce(logforce_core::Options, T) -> logforce_core::Options,
) -> logforce_core::Options {
    match value {
        Some(value) => set(core, value),
        None => core,
    }
}
