//! Temporary directory of the tests: its path, creation and removal.

use super::leaks::{TIMEOUT, entries, mount_points};
use crate::workspace::Workspace;
use anyhow::{Context, Result};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Returns the tests' temporary directory: below the target folder, since tests need a real filesystem,
/// which `/tmp` often is not, and must leave nothing outside.
///
/// Some tests of root's run programs as other users. Where these may not walk to the target folder, as
/// in a checkout below `/root`, the directory is in `/var/tmp`.
pub fn path(workspace: &Workspace) -> PathBuf {
    named(workspace, "tests")
}

/// Returns the directories of SQLite's test suite: for its programs, and for the files of its tests. The
/// latter are in memory where that is possible, because the suite syncs a hundred thousand times.
pub fn of_suite(workspace: &Workspace) -> [PathBuf; 2] {
    let memory = Path::new("/dev/shm");
    let files = match memory.is_dir() {
        true => unique(workspace, memory, "suite"),
        false => named(workspace, "suite-files"),
    };
    [named(workspace, "suite"), files]
}

fn named(workspace: &Workspace, name: &str) -> PathBuf {
    #[cfg(unix)]
    {
        let elsewhere = Path::new("/var/tmp");
        let is_root = rustix::process::geteuid().is_root();
        if is_root && !all_may_enter(&workspace.target) && all_may_enter(elsewhere) {
            return unique(workspace, elsewhere, name);
        }
    }
    workspace.target.join(format!("tmp-{name}"))
}

/// Returns a path that only this workspace uses. The target folder's device and inode are in its name,
/// so that a later run removes what a killed one left.
fn unique(workspace: &Workspace, dir: &Path, name: &str) -> PathBuf {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let target = std::fs::metadata(&workspace.target);
        let (device, inode) = target.map_or((0, 0), |m| (m.dev(), m.ino()));
        dir.join(format!("logforce-{name}-{device:x}-{inode:x}"))
    }
    #[cfg(not(unix))]
    {
        let _ = workspace;
        dir.join(format!("logforce-{name}"))
    }
}

/// Returns true if all users may pass through each directory of that path, which has no links in it.
#[cfg(unix)]
fn all_may_enter(dir: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let open = |dir: &Path| std::fs::metadata(dir).is_ok_and(|m| m.mode() & 0o001 != 0);
    dir.ancestors().all(open)
}

/// Makes the directory anew. Fails if another user owns a directory of that name in `/var/tmp`.
pub fn make(temp: &Path) -> Result<()> {
    clean(temp)?;
    let made = std::fs::create_dir(temp);
    #[cfg(unix)]
    let made = made.and_then(|()| {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(temp, mode)
    });
    made.with_context(|| temp.display().to_string())
}

/// Removes a temporary directory of tests. First unmounts the filesystems that killed tests have left in it.
pub fn clean(temp: &Path) -> Result<()> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    // Unmounts the innermost first.
    let points = mount_points(&mounts);
    for point in points.iter().rev().filter(|p| p.starts_with(temp)) {
        unmount(point)?;
    }
    match std::fs::remove_dir_all(temp) {
        Err(e) if e.kind() == ErrorKind::PermissionDenied => {
            // A test may have closed a directory to its owner, who may then not even list it.
            open_directories(temp);
            std::fs::remove_dir_all(temp)
        }
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
    .with_context(|| temp.display().to_string())
}

/// Gives the owner all rights to the directory and to those in it.
fn open_directories(dir: &Path) {
    #[cfg(unix)]
    let _ = std::fs::set_permissions(dir, std::os::unix::fs::PermissionsExt::from_mode(0o700));
    // Does not follow links, because they may lead outside.
    let is_directory = |path: &PathBuf| path.symlink_metadata().is_ok_and(|m| m.is_dir());
    for below in entries(dir).into_iter().filter(is_directory) {
        open_directories(&below);
    }
}

/// Unmounts a filesystem that a process which just ended may still use for a moment.
fn unmount(point: &Path) -> Result<()> {
    let end = Instant::now() + TIMEOUT;
    loop {
        let out = Command::new("umount")
            .arg(point)
            .output()
            .context("umount")?;
        if out.status.success() {
            return Ok(());
        }
        if Instant::now() >= end {
            let said = String::from_utf8_lossy(&out.stderr).trim().to_owned();
            anyhow::bail!("unmounting {}: {said}", point.display());
        }
        sleep(Duration::from_millis(100));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_cleaned_also_when_it_is_not_there() {
        let temp = tempfile::TempDir::new().unwrap();
        let dir = temp.path().join("dir");
        std::fs::create_dir_all(dir.join("deep")).unwrap();
        // Also covers directories that their owner may not list, which matters only for users other than
        // root.
        #[cfg(unix)]
        {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o000);
            std::fs::set_permissions(dir.join("deep"), mode).unwrap();
        }
        clean(&dir).unwrap();
        assert!(!dir.exists());
        clean(&dir).unwrap();
    }
}
