use std::io;
use std::path::Path;

/// Counts of a device's requests, from some moment on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceCounters {
    /// Name of the device, as the system gives it.
    pub device: String,
    /// Number of writes that the device completed.
    pub writes: u64,
    /// Number of sectors of 512 bytes that were written.
    pub sectors_written: u64,
    /// Number of flushes that the device completed; `None` if it does not count them.
    pub flushes: Option<u64>,
}

/// Counters of a device, held open. This system has none, so the type has no values.
#[derive(Debug)]
pub struct Counter(std::convert::Infallible);

impl Counter {
    /// Opens the counters of the device below `path`.
    ///
    /// # Errors
    /// Always of kind `Unsupported` on this system.
    pub fn of(_path: &Path) -> io::Result<Counter> {
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "this system does not count the flushes of a device",
        ))
    }

    /// Opens the counters of the device of this name.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub fn of_device(name: &str) -> io::Result<Counter> {
        Counter::of(Path::new(name))
    }

    /// Reads the counters.
    ///
    /// # Errors
    /// None: there is no such value on this system.
    pub fn sample(&self) -> io::Result<DeviceCounters> {
        match self.0 {}
    }
}

/// Reads the counters of the device below `path`.
///
/// # Errors
/// As [`Counter::of`].
pub fn block_device_counters(path: &Path) -> io::Result<DeviceCounters> {
    Counter::of(path)?.sample()
}
