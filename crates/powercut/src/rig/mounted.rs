//! A filesystem that is mounted until it is dropped.

use super::{Filesystem, Image};
use anyhow::{Context, Result, bail};
use rustix::mount::UnmountFlags;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A directory that nobody else in this process uses, below the enclosure's.
pub(super) fn fresh(home: &Path) -> Result<PathBuf> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let path = home.join(NEXT.fetch_add(1, Ordering::Relaxed).to_string());
    fs::create_dir(&path).with_context(|| path.display().to_string())?;
    Ok(path)
}

/// A mounted filesystem; unmounted when dropped.
#[derive(Debug)]
pub struct Mounted {
    at: PathBuf,
    gone: bool,
}

impl Mounted {
    /// Mounts the filesystem in an image, over a loop device that goes with it. Its journal is
    /// replayed now if it needs to be.
    ///
    /// # Errors
    /// With what `mount` says: a filesystem that a cut destroyed, or no loop device.
    pub fn image(filesystem: Filesystem, image: &Image, home: &Path) -> Result<Mounted> {
        let options = format!("loop,{}", filesystem.options());
        Self::new(filesystem, &image.path(), &options, home)
    }

    /// Mounts the filesystem on a device.
    ///
    /// # Errors
    /// With what `mount` says.
    pub fn device(filesystem: Filesystem, device: &Path, home: &Path) -> Result<Mounted> {
        Self::new(filesystem, device, filesystem.options(), home)
    }

    fn new(filesystem: Filesystem, source: &Path, options: &str, home: &Path) -> Result<Mounted> {
        let at = fresh(home)?;
        // util-linux finds a free loop device and sets it to go with the mount; `-n`: nothing is
        // written below /run, which is not ours.
        let out = Command::new("mount")
            .args(["-n", "-t", filesystem.kind(), "-o", options])
            .arg(source)
            .arg(&at)
            .output()
            .context("mount")?;
        if !out.status.success() {
            let _ = fs::remove_dir(&at);
            let said = String::from_utf8_lossy(&out.stderr);
            bail!("{filesystem} cannot be mounted: {}", said.trim());
        }
        Ok(Mounted { at, gone: false })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.at
    }

    /// Unmounts it.
    ///
    /// # Errors
    /// If somebody keeps it busy for seconds.
    pub fn unmount(mut self) -> Result<()> {
        self.gone = true;
        let ended = unmount(&self.at);
        let _ = fs::remove_dir(&self.at);
        ended
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if !self.gone {
            if unmount(&self.at).is_err() {
                let _ = rustix::mount::unmount(&self.at, UnmountFlags::DETACH);
            }
            let _ = fs::remove_dir(&self.at);
        }
    }
}

/// Unmounts, with patience: a process that was just killed may still be closing its files.
pub(super) fn unmount(at: &Path) -> Result<()> {
    for attempt in 0..400 {
        match rustix::mount::unmount(at, UnmountFlags::empty()) {
            Ok(()) => return Ok(()),
            Err(rustix::io::Errno::BUSY) => {
                std::thread::sleep(Duration::from_millis(1 + attempt / 8));
            }
            Err(e) => return Err(e).with_context(|| format!("unmounting {}", at.display())),
        }
    }
    bail!("{} stays busy", at.display())
}
