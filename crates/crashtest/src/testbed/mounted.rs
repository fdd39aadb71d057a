//! A filesystem that is mounted until it is dropped.

use super::{Filesystem, Image, stuck};
use anyhow::{Context, Result, bail};
use rustix::fs::{Mode, OFlags};
use rustix::mount::UnmountFlags;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// What `mount` said of a filesystem that it refused. A device that cannot be had is another error.
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

/// How a file is mounted.
#[derive(Debug, Clone, Copy)]
pub(super) struct How {
    /// Past the cache of the file.
    pub(super) direct: bool,
    /// Without flushes, as where no cache is volatile.
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

/// A mounted filesystem; unmounted when dropped.
#[derive(Debug)]
pub struct Mounted {
    at: PathBuf,
    device: PathBuf,
    /// Keeps the loop device from becoming another file's before the filesystem has let go of it.
    _open: File,
    gone: bool,
}

impl Mounted {
    /// Mounts the filesystem in an image, over a loop device that goes with it. Its journal is
    /// replayed now if it needs to be.
    ///
    /// # Errors
    /// With what `mount` says: a filesystem that a cut destroyed, or no loop device.
    pub fn image(filesystem: Filesystem, image: &Image, home: &Path) -> Result<Mounted> {
        Self::file(filesystem, &image.path(), How::CACHED, home)
    }

    /// Mounts what a cut left, as the next boot would. The inner error is a filesystem that did not
    /// survive, in its words.
    ///
    /// # Errors
    /// Of the machine.
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

    /// Mounts the filesystem in a file, over a loop device that goes with it.
    ///
    /// # Errors
    /// With what `losetup` or `mount` says.
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
        // Not `mount -o loop`: that takes a device which still has this file, and with it what it
        // remembers of the file's former contents. It does, now and then, because programs that
        // look for a free device hold others open for a moment, and so keep them from going.
        let out = losetup.args(["--find", "--show"]).arg(file).output();
        let out = out.context("losetup")?;
        if !out.status.success() {
            bail!("losetup: {}", String::from_utf8_lossy(&out.stderr).trim());
        }
        let device = String::from_utf8(out.stdout)?.trim().to_owned();
        // A device that is detached while it is open goes when it is closed the last time: with the
        // mount, or now if there will be none. Done first, since a kill may come at any time.
        let open = File::open(&device).with_context(|| device.clone())?;
        let _ = Command::new("losetup").args(["--detach", &device]).output();
        let at = fresh(home, "mnt")?;
        let device = PathBuf::from(device);
        // `-n`: nothing is written below /run, which is not ours.
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

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.at
    }

    /// Unmounts it, and waits until nothing of it writes to the device any more.
    ///
    /// # Errors
    /// If a process keeps it busy for seconds.
    pub fn unmount(mut self) -> Result<()> {
        unmount(&self.at)?;
        self.gone = true;
        let ended = let_go(&self.device);
        let _ = fs::remove_dir(&self.at);
        ended
    }
}

/// Waits until no filesystem has the device. Another namespace of mounts, such as that of a process that is
/// starting, may hold a clone of the mount, and with it the filesystem: that would write its journal to the
/// image later, while the image is the disk of the next session, and take back what the session has forced.
fn let_go(device: &Path) -> Result<()> {
    patiently(device, "unmounting it from", || {
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

/// Unmounts, again while it is busy: a process that was just killed may still be closing its files.
pub(super) fn unmount(at: &Path) -> Result<()> {
    patiently(at, "unmounting", || {
        rustix::mount::unmount(at, UnmountFlags::empty())
    })
}

/// Tries for some ten seconds while the answer is that it is busy.
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
    bail!("{what} {}: it stays busy", at.display())
}

#[cfg(test)]
mod tests {
    use super::super::needs;
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// A second mount of the filesystem, as in another namespace of mounts, keeps it for longer than the
    /// unmounting takes.
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
            assert!(is_ending.load(Ordering::SeqCst), "the clone has it still");
        });
    }
}
