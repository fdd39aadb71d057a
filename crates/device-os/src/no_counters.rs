use std::io;
use std::path::Path;

/// A device's own count of what it was asked for, from some moment on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceCounters {
    /// The system's name of the device.
    pub device: String,
    /// Writes that the device completed.
    pub writes: u64,
    /// Sectors of 512 bytes that they wrote.
    pub sectors_written: u64,
    /// Flushes that the device completed; `None` if it does not count them.
    pub flushes: Option<u64>,
}

/// The counters of a device, held open. There are none on this system: no flushes are counted.
#[derive(Debug)]
pub struct Counter(std::convert::Infallible);

impl Counter {
    /// The counters of the device below `path`.
    ///
    /// # Errors
    /// Of kind `Unsupported`, on this system always.
    pub fn of(_path: &Path) -> io::Result<Counter> {
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "this system counts no flushes of a device",
        ))
    }

    /// Reads them.
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
