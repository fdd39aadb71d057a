//! Shared by the tests.
#![allow(dead_code)]

#[cfg(target_os = "linux")]
pub use logforce_testkit::loopfs;

use logforce_device::{Directory, System};
use logforce_device_os::OsSystem;
use logforce_testkit::process::same_test;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use tempfile::TempDir;

/// A directory of the test's own on the disk, and open.
pub fn on_disk() -> (TempDir, Arc<dyn Directory>) {
    let temp = TempDir::new().unwrap();
    let dir = OsSystem::new().directory(temp.path()).unwrap();
    (temp, dir)
}

/// A directory in memory, where there is a `/dev/shm`.
pub fn in_memory() -> Option<TempDir> {
    let shm = Path::new("/dev/shm");
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
    let is_tmpfs = mounts.lines().any(|l| {
        let mut words = l.split(' ').skip(1);
        words.next() == Some("/dev/shm") && words.next() == Some("tmpfs")
    });
    if !is_tmpfs {
        logforce_testkit::skip!("/dev/shm is no tmpfs");
        return None;
    }
    TempDir::new_in(shm).ok()
}

/// Runs `test` with the directory of a filesystem of each kind that can be had here.
#[cfg(target_os = "linux")]
pub fn on_each(kinds: &[(&str, u64)], test: impl Fn(&str, &mut loopfs::LoopFs)) {
    let temp = TempDir::new().unwrap();
    for &(kind, mib) in kinds {
        match loopfs::LoopFs::new(kind, mib, temp.path()) {
            Ok(mut fs) => {
                println!("{kind} on {}", fs.device());
                test(kind, &mut fs);
            }
            Err(why) => logforce_testkit::skip!("{kind}: {why}"),
        }
    }
}

/// This test program again, to run only the test `name` with the variable set: how a test gets a
/// second process.
#[track_caller]
pub fn again(name: &str, variable: &str, value: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    same_test(&mut command, name, variable, value);
    command
}

/// The value of that variable, in the second process.
pub fn in_second_process(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).map(PathBuf::from)
}
