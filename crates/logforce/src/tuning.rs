//! Settings that few programs need.

use std::time::Duration;

/// Settings of a log for [`Options::tuning`](crate::Options::tuning). What is not set here keeps its default,
/// which suits almost every program.
#[derive(Debug, Clone, Default)]
pub struct Tuning {
    write_unit_size: Option<u64>,
    large_write_size: Option<u64>,
    max_in_flight_writes: Option<usize>,
    max_spare_segments: Option<usize>,
    idle_stamp: Option<Duration>,
    live_stats: Option<bool>,
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

    /// Sets the bytes from which a write is a large one. Default 64 KiB: below that size a write costs about as
    /// much as the smallest one. Of large writes several are in flight from the beginning, of small ones
    /// only where that was measured to pay.
    pub fn large_write_size(mut self, bytes: u64) -> Self {
        self.large_write_size = Some(bytes);
        self
    }

    /// Sets how many device writes may be in flight at once at most, 1 to 1024. Default 16. While commits wait
    /// for each other, the log tries whether they wait less with more writes in flight or with fewer, and
    /// goes by that: on a networked volume it finds many, on a disk that does one after another one.
    /// With one in flight, it also tries to let the next write wait, for half of what a write takes at most,
    /// for the threads whose commits were just acknowledged. With 1 that is all it tries.
    /// Methods that need a barrier have one write in flight, and so has `dsync` through the page cache:
    /// of several there, one may get another's error, and the failed one report success.
    pub fn max_in_flight_writes(mut self, count: usize) -> Self {
        self.max_in_flight_writes = Some(count);
        self
    }

    /// Sets how many truncated segments to keep for reuse. Default 2.
    pub fn max_spare_segments(mut self, count: usize) -> Self {
        self.max_spare_segments = Some(count);
        self
    }

    /// Sets how long after the last force an idle log writes a stamp for it. Default 50 ms, in an environment
    /// 5 s. Until then, recovery cannot tell damage of the last records from a torn write.
    pub fn idle_stamp(mut self, after: Duration) -> Self {
        self.idle_stamp = Some(after);
        self
    }

    /// Sets whether the log writes its statistics into the file `live` of its directory, for other
    /// processes to read: one page, never forced, at most once a second and only after some
    /// activity. Default true, in an environment false. Failures to write it are ignored.
    pub fn live_stats(mut self, write: bool) -> Self {
        self.live_stats = Some(write);
        self
    }

    /// Sets what is set here in the options of the core.
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
