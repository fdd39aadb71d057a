//! Private real filesystems for tests: an image in a sparse file, mounted by a loop device.
//!
//! They need root, loop devices and the `mkfs` of the filesystem. A test that gets a [`Skip`] prints it and
//! passes. Linux only.

mod frozen;

pub use frozen::Frozen;

use crate::another_user::is_root;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Reason why a filesystem cannot be made here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skip {
    /// Missing requirement, in words.
    pub reason: String,
}

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for Skip {}

fn skip<T>(reason: impl Into<String>) -> Result<T, Skip> {
    Err(Skip {
        reason: reason.into(),
    })
}

/// A mounted filesystem in an image file. Dropping it, also by a panic, unmounts and removes it.
///
/// A killed process leaves it mounted. Use `umount` with its path, which also detaches the loop device.
#[derive(Debug)]
pub struct LoopFs {
    /// Directory of the image and the mount point.
    home: PathBuf,
    mount_point: PathBuf,
    device: String,
    filesystem: &'static str,
    options: &'static str,
}

/// Returns the recipe of a kind: filesystem type, arguments of `mkfs`, mount options.
fn recipe(kind: &str) -> Option<(&'static str, &'static [&'static str], &'static str)> {
    // Turns lazy initialisation off. Otherwise a kernel thread writes after the mount, and a test that counts
    // the device's writes counts those, too. `-m 0` reserves no blocks for root, so that a full disk is also
    // full for root.
    const EXT4: &[&str] = &[
        "-q",
        "-F",
        "-m",
        "0",
        "-E",
        "lazy_itable_init=0,lazy_journal_init=0",
    ];
    const NO_JOURNAL: &[&str] = &[
        "-q",
        "-F",
        "-m",
        "0",
        "-E",
        "lazy_itable_init=0",
        "-O",
        "^has_journal",
    ];
    Some(match kind {
        "ext4" => ("ext4", EXT4, "rw"),
        "ext4-nojournal" => ("ext4", NO_JOURNAL, "rw"),
        "ext4-datajournal" => ("ext4", EXT4, "data=journal"),
        "ext4-nobarrier" => ("ext4", EXT4, "barrier=0"),
        "ext4-noload" => ("ext4", EXT4, "noload"),
        "ext4-nodelalloc" => ("ext4", EXT4, "nodelalloc"),
        "xfs" => ("xfs", &["-q", "-f"], "rw"),
        // With discard, btrfs would return blocks to the image, and a benchmark would have to allocate them
        // again.
        "btrfs" => ("btrfs", &["-q", "-f"], "nodiscard"),
        "btrfs-nodatacow" => ("btrfs", &["-q", "-f"], "nodiscard,nodatacow"),
        _ => return None,
    })
}

impl LoopFs {
    /// Makes and mounts a filesystem of `kind` (`ext4`, `ext4-nojournal`, `ext4-datajournal`,
    /// `ext4-nobarrier`, `ext4-noload`, `ext4-nodelalloc`, `xfs`, `btrfs`,
    /// `btrfs-nodatacow`) with `size_mib` MiB. The image is in a new
    /// directory under `dir`. All users may write to the root of the filesystem. xfs needs 300 MiB and btrfs
    /// 110; the image takes only the space that is written to.
    ///
    /// # Errors
    /// [`Skip`] names the missing requirement of this machine. No files are left behind.
    pub fn new(kind: &str, size_mib: u64, dir: &Path) -> Result<LoopFs, Skip> {
        let Some((filesystem, mkfs_args, options)) = recipe(kind) else {
            return skip(format!("no recipe for a filesystem '{kind}'"));
        };
        if !is_root() {
            return skip("not root, so nothing can be mounted");
        }
        if !Path::new("/dev/loop-control").exists() {
            return skip("no loop devices (/dev/loop-control is missing)");
        }
        let home = fresh_directory(dir)
            .or_else(|e| skip(format!("cannot make a directory in {}: {e}", dir.display())))?;
        // From here on, dropping `made` removes the files.
        let mut made = LoopFs {
            mount_point: home.join("mnt"),
            home,
            device: String::new(),
            filesystem,
            options,
        };
        let image = made.image();
        let prepared = fs::create_dir(&made.mount_point)
            .and_then(|()| fs::File::create(&image))
            .and_then(|f| f.set_len(size_mib << 20));
        if let Err(e) = prepared {
            return skip(format!("cannot make the image {}: {e}", image.display()));
        }
        run(Command::new(format!("mkfs.{filesystem}"))
            .args(mkfs_args)
            .arg(&image))?;
        made.mount()?;
        let open_to_all = fs::Permissions::from_mode(0o777);
        if let Err(e) = fs::set_permissions(&made.mount_point, open_to_all) {
            return skip(format!(
                "cannot open {} to all users: {e}",
                made.mount_point.display()
            ));
        }
        Ok(made)
    }

    /// Returns the mount point.
    pub fn path(&self) -> &Path {
        &self.mount_point
    }

    /// Returns the path of the image file.
    pub fn image(&self) -> PathBuf {
        self.home.join("image")
    }

    /// Returns the kernel's name of its loop device, such as `loop3`.
    pub fn device(&self) -> &str {
        &self.device
    }

    fn mount(&mut self) -> Result<(), Skip> {
        let image = self.image();
        let device = attach(&image)?;
        let mounted = run(Command::new("mount")
            .args(["-t", self.filesystem, "-o", self.options])
            .arg(&device)
            .arg(&self.mount_point));
        // The mounted device is busy: the kernel detaches it after the unmount.
        let detached = run(Command::new("losetup").arg("--detach").arg(&device));
        mounted.and(detached)?;
        let Some(device) = mounted_device(&self.mount_point) else {
            return skip(format!(
                "{} was mounted and is not in /proc/mounts",
                image.display()
            ));
        };
        self.device = device;
        Ok(())
    }

    /// Unmounts the filesystem and mounts it again, so that nothing of it is cached. No file may be open. The
    /// loop device may change.
    ///
    /// # Errors
    /// [`Skip`] with the output of `umount` or `mount`.
    pub fn mount_again(&mut self) -> Result<(), Skip> {
        unmount(&self.mount_point)?;
        self.mount()
    }

    /// Unmounts the filesystem, lets a program such as `tune2fs` or `debugfs` change the image, and mounts it
    /// again. The program gets the path of the image behind the arguments. This allows changes that a running
    /// kernel refuses to root without capabilities. No file may be open.
    ///
    /// # Errors
    /// [`Skip`] with the output of `umount`, the program or `mount`.
    pub fn change_image(&mut self, program: &str, args: &[&str]) -> Result<(), Skip> {
        unmount(&self.mount_point)?;
        run(Command::new(program).args(args).arg(self.image()))?;
        self.mount()
    }

    /// Remounts the filesystem with other options, such as `ro` or `rw`.
    ///
    /// # Errors
    /// [`Skip`] with the output of `mount`.
    pub fn remount(&self, options: &str) -> Result<(), Skip> {
        patiently(|| {
            run(Command::new("mount")
                .args(["-o", &format!("remount,{options}")])
                .arg(&self.mount_point))
        })
    }
}

impl Drop for LoopFs {
    fn drop(&mut self) {
        let _ = patiently(|| match mounted_device(&self.mount_point) {
            None => Ok(()),
            Some(_) => run(Command::new("umount").arg(&self.mount_point)),
        });
        if mounted_device(&self.mount_point).is_some() {
            // A process has a file open. The kernel unmounts once that file is closed.
            eprintln!("{} is busy: unmounted lazily", self.mount_point.display());
            let _ = run(Command::new("umount").arg("-l").arg(&self.mount_point));
        }
        // Does not use `remove_dir_all`, which would empty the filesystem if it were still mounted.
        let _ = fs::remove_dir(&self.mount_point);
        let _ = fs::remove_file(self.image());
        let _ = fs::remove_dir(&self.home);
    }
}

/// Unmounts the filesystem at the mount point. While it is busy, tries again for some seconds.
///
/// # Errors
/// [`Skip`] with the output of `umount`.
pub fn unmount(mount_point: &Path) -> Result<(), Skip> {
    patiently(|| run(Command::new("umount").arg(mount_point)))
}

/// Tries again for some seconds while the filesystem is busy. A killed process may still be closing its
/// files, and a process that another thread is starting has all files of this one open.
fn patiently(mut act: impl FnMut() -> Result<(), Skip>) -> Result<(), Skip> {
    let mut done = act();
    for _ in 0..30 {
        if done.is_ok() {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
        done = act();
    }
    done
}

fn fresh_directory(dir: &Path) -> io::Result<PathBuf> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Resolves symbolic links, as /proc/mounts prints the path without them.
    let dir = fs::canonicalize(dir)?;
    loop {
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let home = dir.join(format!("logforce-loopfs-{}-{n}", std::process::id()));
        match fs::create_dir(&home) {
            Ok(()) => {
                // Unprivileged users must be able to pass through this directory.
                fs::set_permissions(&home, fs::Permissions::from_mode(0o755))?;
                return Ok(home);
            }
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(e),
        }
    }
}

/// Attaches a new loop device to the image, past the system's cache if the image's filesystem allows that.
/// Through the cache a write may fail after it was reported as done, since the image is sparse. A log refuses
/// such a device.
fn attach(image: &Path) -> Result<PathBuf, Skip> {
    let losetup = |args: &[&str]| {
        let out = Command::new("losetup").args(args).arg(image).output();
        match out {
            Ok(out) if out.status.success() => {
                Ok(PathBuf::from(String::from_utf8_lossy(&out.stdout).trim()))
            }
            Ok(out) => skip(format!(
                "losetup: {}",
                String::from_utf8_lossy(&out.stderr).trim()
            )),
            Err(e) => skip(format!("losetup cannot be run: {e}")),
        }
    };
    losetup(&["--direct-io=on", "--find", "--show"]).or_else(|_| losetup(&["--find", "--show"]))
}

/// Returns the name of the device that is mounted there, if there is one.
fn mounted_device(mount_point: &Path) -> Option<String> {
    let mounts = fs::read_to_string("/proc/mounts").ok()?;
    let escaped = mount_point
        .to_str()?
        .replace('\\', "\\134")
        .replace(' ', "\\040");
    mounts.lines().find_map(|line| {
        let mut words = line.split(' ');
        let source = words.next()?;
        (words.next()? == escaped).then(|| source.rsplit('/').next().unwrap_or_default().to_owned())
    })
}

fn run(command: &mut Command) -> Result<(), Skip> {
    let name = command.get_program().to_string_lossy().into_owned();
    match command.output() {
        Ok(out) if out.status.success() => Ok(()),
        Ok(out) => skip(format!(
            "{name}: {}",
            String::from_utf8_lossy(&out.stderr).trim()
        )),
        Err(e) => skip(format!("{name} cannot be run: {e}")),
    }
}
