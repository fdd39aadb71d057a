//! Filesystem that is mounted until it is dropped.

use super::{Filesystem, Image, stuck};
use anyhow::{Context, Result, bail};
use rustix::fs::{Mode, OFlags};
use rustix::mount::UnmountFlags;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Message of `mount` about a filesystem that it refused. A loop device that is not available is another error.
#[derive(Debug)]
pub struct Unmountable(String);

impl std::fmt::Display for Unmountable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cannot be mounted: {}", self.0)
    }
}

impl std::error::Error for Unmountable {}

/// Creates a directory that nothing else uses: the first of `name`, `name-1`, … that does not exist. While one
/// filesystem is mounted at a time, each is therefore mounted at the same path, as on the machine of a user whose
/// program stores its paths.
pub fn fresh(home: &Path, name: &str) -> Result<PathBuf> {
    let names = (1..).map(|n| format!("{name}-{n}"));
    for name in std::iter::once(name.to_owned()).chain(names) {
        let path = home.join(name);
        match fs::create_dir(&path) {
            Ok(()) => return Ok(path),
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(e).with_context(|| path.display().to_string()),
        }
    }
    unreachable!("an endless sequence")
}

/// Options of the mount of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct How {
    /// True for direct I/O, which bypasses the page cache of the file.
    pub(super) direct: bool,
    /// True to mount without flushes, as on a disk without a volatile cache.
    pub(super) no_flushes: bool,
}

impl How {
    pub(super) const CACHED: How = How {
        direct: false,
        no_flushes: false,
    };
    pub(super) const DIRECT: How = How {
        direct: true,
        no_flushes: false,
    };
}

/// Mounted filesystem. It is unmounted when dropped.
#[derive(Debug)]
pub struct Mounted {
    at: PathBuf,
    device: PathBuf,
    /// Open loop device, so that no other file gets it before the filesystem has released it.
    _open: File,
    gone: bool,
}

impl Mounted {
    /// Mounts the filesystem in an image, over a loop device that goes with the mount. The kernel replays the journal
    /// now if necessary.
    ///
    /// # Errors
    /// [`Unmountable`] with the message of `mount`, for example if a power cut destroyed the filesystem. Another error
    /// if there is no loop device.
    pub fn image(filesystem: Filesystem, image: &Image, home: &Path) -> Result<Mounted> {
        Self::file(filesystem, &image.path(), How::CACHED, home)
    }

    /// Mounts the image that a power cut left, as the next boot would. The inner error is the message of `mount` if the
    /// filesystem did not survive.
    ///
    /// # Errors
    /// Errors of the machine, and if `e2fsck` gives up on a filesystem without a journal.
    pub fn survivor(
        filesystem: Filesystem,
        image: &Image,
        home: &Path,
    ) -> Result<std::result::Result<Mounted, String>> {
        filesystem.check_at_boot(image)?;
        match Mounted::image(filesystem, image, home) {
            Ok(mounted) => Ok(Ok(mounted)),
            Err(e) if e.is::<Unmountable>() => Ok(Err(format!("{e:#}"))),
            Err(e) => Err(e),
        }
    }

    /// Calls `look` with the directory of [`survivor`](Self::survivor), and unmounts it.
    ///
    /// # Errors
    /// Errors of the machine, and of `look`.
    pub fn visit<T>(
        filesystem: Filesystem,
        image: &Image,
        home: &Path,
        look: impl FnOnce(&Path) -> Result<T>,
    ) -> Result<std::result::Result<T, String>> {
        let mounted = match Self::survivor(filesystem, image, home)? {
            Ok(mounted) => mounted,
            Err(why) => return Ok(Err(why)),
        };
        let seen = look(mounted.path());
        mounted.unmount()?;
        seen.map(Ok)
    }

    /// Mounts the filesystem in a file, over a loop device that goes with the mount.
    ///
    /// # Errors
    /// If `losetup` or `mount` fails, with its message.
    pub(super) fn file(
        filesystem: Filesystem,
        file: &Path,
        how: How,
        home: &Path,
    ) -> Result<Mounted> {
        let mut losetup = Command::new("losetup");
        if how.direct {
            losetup.arg("--direct-io=on");
        }
        // Not `mount -o loop`, which reuses a device that still has this file, with cached former contents of the
        // file. Such a device exists now and then: programs that search for a free device open others for a moment,
        // and so delay their release.
        let out = losetup.args(["--find", "--show"]).arg(file).output();
        let out = out.context("losetup")?;
        if !out.status.success() {
            bail!("losetup: {}", String::from_utf8_lossy(&out.stderr).trim());
        }
        let device = String::from_utf8(out.stdout)?.trim().to_owned();
        // A device that is detached while it is open is released at its last close: with the mount, or at the end of
        // this function if `mount` fails. Detached before the mount, because a kill may come at any time and would
        // leave the device behind.
        let open = File::open(&device).with_context(|| device.clone())?;
        let _ = Command::new("losetup").args(["--detach", &device]).output();
        let at = fresh(home, "mnt")?;
        let device = PathBuf::from(device);
        // `-n`: do not write to /run, which belongs to the machine.
        let mut mount = Command::new("mount");
        mount
            .args(["-n", "-t", filesystem.kind(), "-o", filesystem.options()])
            .args(if how.no_flushes {
                &["-o", "nobarrier"][..]
            } else {
                &[]
            })
            .arg(&device)
            .arg(&at);
        let out = stuck::freed(filesystem, &device, || mount.output()).context("mount")?;
        if !out.status.success() {
            let _ = fs::remove_dir(&at);
            let stderr = String::from_utf8_lossy(&out.stderr);
            return Err(Unmountable(format!("{filesystem}: {}", stderr.trim())).into());
        }
        Ok(Mounted {
            at,
            device,
            _open: open,
            gone: false,
        })
    }

    /// Returns the directory at which the filesystem is mounted.
    pub fn path(&self) -> &Path {
        &self.at
    }

    /// Unmounts the filesystem, and waits until it no longer writes to the device.
    ///
    /// # Errors
    /// If the filesystem or the device stays busy for about 10 seconds.
    pub fn unmount(mut self) -> Result<()> {
        unmount(&self.at)?;
        self.gone = true;
        let ended = let_go(&self.device);
        let _ = fs::remove_dir(&self.at);
        ended
    }
}

/// Waits until no filesystem has the device. Another mount namespace, such as that of a process that is starting, may
/// hold a clone of the mount and keep the filesystem alive. The filesystem would write its journal to the image later,
/// while the image is the disk of the next session, and undo writes that the session has forced.
fn let_go(device: &Path) -> Result<()> {
    patiently(device, "cannot release", || {
        let exclusive = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC;
        rustix::fs::open(device, exclusive, Mode::empty()).map(drop)
    })
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if !self.gone {
            if unmount(&self.at).is_err() {
                let _ = rustix::mount::unmount(&self.at, UnmountFlags::DETACH);
            }
            let _ = let_go(&self.device);
            let _ = fs::remove_dir(&self.at);
        }
    }
}

/// Unmounts `at`, and retries while it is busy, because a process that was just killed may still be closing its files.
pub(super) fn unmount(at: &Path) -> Result<()> {
    patiently(at, "cannot unmount", || {
        rustix::mount::unmount(at, UnmountFlags::empty())
    })
}

/// Repeats `attempt` for about 10 seconds while it fails with `EBUSY`.
fn patiently(
    at: &Path,
    what: &str,
    mut attempt: impl FnMut() -> rustix::io::Result<()>,
) -> Result<()> {
    for tries in 0..400 {
        match attempt() {
            Ok(()) => return Ok(()),
            Err(rustix::io::Errno::BUSY) => {
                std::thread::sleep(Duration::from_millis(1 + tries / 8));
            }
            Err(e) => return Err(e).with_context(|| format!("{what} {}", at.display())),
        }
    }
    bail!("{what} {}: still busy after 10 seconds", at.display())
}

#[cfg(test)]
mod tests {
    use super::super::needs;
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Keeps a second mount of the filesystem for longer than unmounting takes, as another mount namespace would.
    #[test]
    fn a_clone_of_the_mount_is_waited_for() {
        let missing = needs::missing(&[Filesystem::Ext4]);
        if !missing.is_empty() {
            logforce_testkit::skip!("{}", missing.join(", "));
            return;
        }
        let home = tempfile::tempdir().unwrap();
        let image = Filesystem::Ext4.make().unwrap();
        let mounted = Mounted::image(Filesystem::Ext4, &image, home.path()).unwrap();
        let clone = home.path().join("clone");
        fs::create_dir(&clone).unwrap();
        rustix::mount::mount_bind(mounted.path(), &clone).unwrap();
        let is_ending = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(300));
                is_ending.store(true, Ordering::SeqCst);
                unmount(&clone).unwrap();
            });
            mounted.unmount().unwrap();
            assert!(
                is_ending.load(Ordering::SeqCst),
                "unmounted while the clone still had the filesystem"
            );
        });
    }
}
