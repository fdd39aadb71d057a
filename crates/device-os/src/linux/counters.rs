//! Counts of writes and flushes that the block device keeps. Any user may read them.

use super::block::{self, Below, Located};
use super::error::{at, uninterrupted, uninterrupted_io};
use super::mounts;
use super::sysfs::{self, Roots};
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Counts of a block device since it appeared. It counts the requests of all processes, not only of this one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceCounters {
    /// Kernel name of the whole device, such as `nvme0n1`.
    pub device: String,
    /// Number of completed write requests. Adjacent writes may have been merged into one.
    pub writes: u64,
    /// Number of sectors of 512 bytes that were written.
    pub sectors_written: u64,
    /// Number of completed cache flushes. A flush for several requests counts once. `None` if the device does
    /// not count them (kernels before 5.5, mapped and RAID devices). A device without a volatile cache gets
    /// none.
    pub flushes: Option<u64>,
}

/// Counters of a device. They are found once, and a sample is one small read from `/sys`.
#[derive(Debug)]
pub struct Counter {
    device: String,
    path: PathBuf,
    file: File,
    counts_flushes: bool,
}

impl Counter {
    /// Finds the counters of the whole device below the filesystem of `path` (a file or a directory).
    ///
    /// # Errors
    /// `Unsupported`, with the reason, if there is no block device (tmpfs, network filesystems), if the
    /// device cannot be named, or if it keeps no statistics. Otherwise the error of the system.
    pub fn of(path: &Path) -> io::Result<Counter> {
        let roots = Roots::default();
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let fd = uninterrupted(|| rustix::fs::open(path, flags, Mode::empty()))
            .map_err(|e| at(e, "open", path))?;
        let stat = uninterrupted(|| rustix::fs::fstat(&fd)).map_err(|e| at(e, "look at", path))?;
        let mount = mounts::of(fd.as_fd(), path, &roots)?;
        let (major, minor) = (
            rustix::fs::major(stat.st_dev),
            rustix::fs::minor(stat.st_dev),
        );
        let below = block::locate(major, minor, mount.as_ref(), &roots)?;
        let Below::Device(located) = below else {
            let fs = mount.map_or_else(|| "this filesystem".to_owned(), |m| m.filesystem);
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                format!(
                    "no block device to count writes on: {} is on {fs}, which has none or does not name it",
                    path.display()
                ),
            ));
        };
        Counter::of_located(&located)
    }

    /// Finds the counters of the device of this kernel name, such as `dm-0`.
    ///
    /// # Errors
    /// As [`of`](Self::of); `NotFound` if there is no such device.
    pub fn of_device(name: &str) -> io::Result<Counter> {
        match block::by_name(name, &Roots::default())? {
            Some(located) => Counter::of_located(&located),
            None => Err(io::Error::new(
                io::ErrorKind::NotFound,
                format!("there is no device {name} in /sys"),
            )),
        }
    }

    fn of_located(located: &Located) -> io::Result<Counter> {
        if sysfs::line(&located.whole.join("queue/iostats"))?.as_deref() == Some("0") {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                format!(
                    "the device {0} keeps no statistics; `echo 1 > /sys/block/{0}/queue/iostats` turns them on",
                    located.whole_name()
                ),
            ));
        }
        let stat = located.whole.join("stat");
        let file = uninterrupted_io(|| File::open(&stat))
            .map_err(|e| at(e, "read the counters", &stat))?;
        Ok(Counter {
            device: located.whole_name(),
            file,
            path: stat,
            // Only drivers that use the kernel's request queues count flushes. For others the field exists
            // and stays zero.
            counts_flushes: sysfs::exists(&located.whole.join("mq"))?,
        })
    }

    /// Returns the kernel name of the whole device.
    pub fn device(&self) -> &str {
        &self.device
    }

    /// Returns the counts up to now.
    ///
    /// # Errors
    /// The error of the system; `InvalidData` if the counters are not in the known format.
    pub fn sample(&self) -> io::Result<DeviceCounters> {
        let mut buf = [0u8; 512];
        let n = uninterrupted_io(|| self.file.read_at(&mut buf, 0))
            .map_err(|e| at(e, "read the counters", &self.path))?;
        let text = String::from_utf8_lossy(&buf[..n]);
        let (writes, sectors_written, flushes) = parse(&text).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                format!(
                    "{} has an unknown format: {}",
                    self.path.display(),
                    text.trim()
                ),
            )
        })?;
        Ok(DeviceCounters {
            device: self.device.clone(),
            writes,
            sectors_written,
            flushes: flushes.filter(|_| self.counts_flushes),
        })
    }
}

/// Returns the counts of the block device below the filesystem of `path`. To sample more than once, keep a
/// [`Counter`].
///
/// # Errors
/// As [`Counter::of`] and [`Counter::sample`].
pub fn block_device_counters(path: &Path) -> io::Result<DeviceCounters> {
    Counter::of(path)?.sample()
}

/// Returns the writes, the sectors written and (since Linux 5.5) the flushes of a `stat` file.
fn parse(text: &str) -> Option<(u64, u64, Option<u64>)> {
    let numbers: Vec<u64> = text
        .split_whitespace()
        .map_while(|w| w.parse().ok())
        .collect();
    Some((*numbers.get(4)?, *numbers.get(6)?, numbers.get(15).copied()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_where_the_kernel_puts_them() {
        let new = "  50102 7869 4983546 15669 9152 8816 1556936 6967 0 6644 22955 3811 27 986328 284 1054 13\n";
        assert_eq!(parse(new), Some((9152, 1556936, Some(1054))));
        let old = "50102 7869 4983546 15669 9152 8816 1556936 6967 0 6644 22955";
        assert_eq!(parse(old), Some((9152, 1556936, None)));
        assert_eq!(parse("1 2 3"), None);
    }
}
