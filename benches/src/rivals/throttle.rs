//! A loop device that serves as little as a cloud volume: limits of the block I/O controller.
//!
//! The limits are those of the controller's root group. A journal's thread and the write-back threads of
//! the system belong to that group, so everything that reaches the device counts, and a flush counts as a
//! request. The kernel grants both limits in slices of 100 ms: at full speed until the slice is used up,
//! and then nothing until the next one.

use anyhow::{Context, Result, bail};
use logforce_terminal::arguments;
use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::str::FromStr;

/// Files of the controller, and the limit that belongs into each: true for bytes.
const FILES: [(&str, bool); 4] = [
    ("blkio.throttle.write_bps_device", true),
    ("blkio.throttle.read_bps_device", true),
    ("blkio.throttle.write_iops_device", false),
    ("blkio.throttle.read_iops_device", false),
];

/// Limits of a device, for reads and for writes each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Million bytes a second.
    pub megabytes: u64,
    /// Requests a second.
    pub requests: u64,
}

impl FromStr for Limits {
    type Err = String;

    fn from_str(text: &str) -> Result<Limits, String> {
        let (bytes, requests) = text
            .split_once("MBps,")
            .ok_or_else(|| format!("'{text}' is not a throttle: give both, as in 125MBps,3000"))?;
        let number = arguments::within(1, 1_000_000);
        Ok(Limits {
            megabytes: number(bytes)?,
            requests: number(requests)?,
        })
    }
}

impl fmt::Display for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} MB/s, {} requests/s", self.megabytes, self.requests)
    }
}

/// Limits in force; dropping this removes them.
#[derive(Debug)]
pub struct Throttle {
    controller: PathBuf,
    /// Major and minor number, as in `7:3`.
    device: String,
}

impl Throttle {
    /// Limits a block device, given by its name in the kernel, such as `loop3`.
    ///
    /// # Errors
    /// If the controller is missing or refuses a limit.
    pub fn new(device: &str, limits: Limits) -> Result<Throttle> {
        let throttle = Throttle::of(device)?;
        // If one of the limits is refused, the drop removes the others.
        for (file, is_bytes) in FILES {
            let limit = if is_bytes {
                limits.megabytes * 1_000_000
            } else {
                limits.requests
            };
            throttle.set(file, limit)?;
        }
        Ok(throttle)
    }

    /// Returns the limits in force on a device. A run that was killed leaves its limits behind, also for the
    /// next loop device with that number.
    ///
    /// # Errors
    /// If the controller is missing.
    pub fn of(device: &str) -> Result<Throttle> {
        let number = format!("/sys/block/{device}/dev");
        let number = fs::read_to_string(&number).context(number)?;
        Ok(Throttle {
            controller: controller()?,
            device: number.trim().to_owned(),
        })
    }

    /// Returns the limit in a file of the controller.
    fn limit(&self, file: &str) -> Option<String> {
        let text = fs::read_to_string(self.controller.join(file)).ok()?;
        let mut limits = text.lines().filter_map(|line| line.split_once(' '));
        let (_, limit) = limits.find(|(device, _)| *device == self.device)?;
        Some(limit.to_owned())
    }

    fn set(&self, file: &str, limit: u64) -> Result<()> {
        let path = self.controller.join(file);
        fs::write(&path, format!("{} {limit}", self.device))
            .with_context(|| format!("cannot limit {} by {}", self.device, path.display()))
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        for (file, _) in FILES {
            if self.limit(file).is_some()
                && let Err(e) = self.set(file, 0)
            {
                eprintln!("a limit is left behind: {e:#}");
            }
        }
    }
}

/// Returns the directory of the controller's root group.
fn controller() -> Result<PathBuf> {
    let mounts = fs::read_to_string("/proc/mounts").context("/proc/mounts")?;
    let mounted = mounts.lines().find_map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        let [_, at, "cgroup", options, ..] = words[..] else {
            return None;
        };
        let is_it = options.split(',').any(|option| option == "blkio");
        is_it.then(|| PathBuf::from(at))
    });
    let Some(at) = mounted.filter(|at| at.join(FILES[0].0).exists()) else {
        bail!(
            "cannot limit a device: no blkio controller of cgroup v1 is mounted; cgroup v2 has no limits \
             for its root group, to which the journal's threads belong"
        );
    };
    Ok(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use logforce_testkit::loopfs::LoopFs;
    use logforce_testkit::skip;

    #[test]
    fn limits_are_set_and_removed() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let filesystem = match LoopFs::new("ext4", 8, dir.path()) {
            Ok(filesystem) => filesystem,
            Err(e) => return skip!("{e}"),
        };
        if let Err(e) = controller() {
            return skip!("{e}");
        }
        let limits = "7MBps,900".parse().unwrap();
        let throttle = Throttle::new(filesystem.device(), limits).unwrap();
        let found = |throttle: &Throttle| {
            let limits = FILES.map(|(file, _)| throttle.limit(file));
            limits.map(|limit| limit.map_or(0, |limit| limit.parse().unwrap()))
        };
        assert_eq!(found(&throttle), [7_000_000, 7_000_000, 900, 900]);
        // As after a kill.
        std::mem::forget(throttle);
        let left = Throttle::of(filesystem.device()).unwrap();
        assert_eq!(found(&left), [7_000_000, 7_000_000, 900, 900]);
        drop(left);
        assert_eq!(found(&Throttle::of(filesystem.device()).unwrap()), [0; 4]);
    }

    #[test]
    fn a_device_that_does_not_exist_is_refused() {
        assert!(Throttle::new("no-such-device", "7MBps,900".parse().unwrap()).is_err());
    }

    #[test]
    fn both_limits_are_needed() {
        let limits: Limits = "125MBps,3000".parse().unwrap();
        assert_eq!((limits.megabytes, limits.requests), (125, 3000));
        for bad in [
            "125MBps",
            "125,3000",
            "0MBps,3000",
            "125MBps,",
            "1.5MBps,10",
            "",
        ] {
            assert!(bad.parse::<Limits>().is_err(), "{bad}");
        }
    }
}
