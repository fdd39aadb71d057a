//! Slow disk with a filesystem on it.

use super::mounted::How;
use super::process::DiskProcess;
use super::{Filesystem, Image, Mounted};
use crate::disk::{Delays, SlowSetup};
use crate::role::Role;
use anyhow::Result;
use std::path::Path;

/// Filesystem on a slow disk.
#[derive(Debug)]
pub struct SlowDisk {
    // First field: dropped, and so unmounted, before the disk's process ends.
    mounted: Mounted,
    _process: DiskProcess,
}

impl SlowDisk {
    /// Mounts the filesystem in the image. If `delays.flush` is zero, mounts it without flushes, because a loop device
    /// would delay all other requests during a flush even then.
    ///
    /// # Errors
    /// If the disk's process or the mount fails. xfs cannot be mounted without flushes.
    pub fn on(
        filesystem: Filesystem,
        contents: &Image,
        delays: Delays,
        home: &Path,
    ) -> Result<SlowDisk> {
        let process = DiskProcess::start(home, |file| {
            Role::SlowDisk(SlowSetup {
                at: file.to_owned(),
                contents: contents.path(),
                delays,
            })
        })?;
        let how = How {
            direct: true,
            no_flushes: delays.flush.is_zero(),
        };
        let mounted = process.mount(filesystem, how)?;
        Ok(SlowDisk {
            mounted,
            _process: process,
        })
    }

    /// Returns the directory at which the filesystem is mounted.
    pub fn path(&self) -> &Path {
        self.mounted.path()
    }

    /// Unmounts the filesystem and ends the disk's process. Processes that used the filesystem must have ended.
    ///
    /// # Errors
    /// If the filesystem stays busy for about 10 seconds.
    pub fn off(self) -> Result<()> {
        self.mounted.unmount()
    }
}
