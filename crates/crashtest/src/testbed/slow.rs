//! A slow disk with a filesystem on it.

use super::mounted::How;
use super::process::DiskProcess;
use super::{Filesystem, Image, Mounted};
use crate::disk::{Delays, SlowSetup};
use crate::role::Role;
use anyhow::Result;
use std::path::Path;

/// A filesystem on a disk that takes its time.
#[derive(Debug)]
pub struct SlowDisk {
    // Dropped, and so unmounted, before the disk goes.
    mounted: Mounted,
    _process: DiskProcess,
}

impl SlowDisk {
    /// Mounts what is in the image; without flushes if they take no time. (A loop device would hold up
    /// all else while it carries one out, even so.)
    ///
    /// # Errors
    /// If the disk's process or the mount fails: only ext4 can be mounted without flushes.
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

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.mounted.path()
    }

    /// Unmounts it and ends the disk's process. Processes that used it must have ended.
    ///
    /// # Errors
    /// If it stays busy.
    pub fn off(self) -> Result<()> {
        self.mounted.unmount()
    }
}
