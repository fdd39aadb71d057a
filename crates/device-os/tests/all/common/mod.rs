//! Helpers that the tests share.
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

/// Makes a directory for the test on the disk, and opens it.
pub fn on_disk() -> (TempDir, Arc<dyn Directory>) {
    let temp = TempDir::new().unwrap();
    let dir = OsSystem::new().directory(temp.path()).unwrap();
    (temp, dir)
}

/// Makes a directory in memory, if there is a `/dev/shm`.
pub fn in_memory() -> Option<TempDir> {
    let shm = Path::new("/dev/shm");
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
    let is_tmpfs = mounts.lines().any(|l| {
        let mut words = l.split(' ').skip(1);
        words.next() == Some("/dev/shm") && words.next() == Some("tmpfs")
    });
    if !is_tmpfs {
        logforce_testkit::skip!("/dev/shm is not a tmpfs");
        return None;
    }
    TempDir::new_in(shm).ok()
}

/// Runs `test` in the directory of a filesystem of each kind that this machine can make.
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

/// Returns a command that starts this test program again with the variable set and runs only the test `name`.
/// Tests use it for a second process.
#[track_caller]
pub fn again(name: &str, variable: &str, value: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    same_test(&mut command, name, variable, value);
    command
}

/// Returns the value of that variable in the second process.
pub fn in_second_process(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).map(PathBuf::from)
}
