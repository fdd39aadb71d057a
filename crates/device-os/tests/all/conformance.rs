//! Conformance suite that every backend has to pass, on every filesystem that this machine can make.

#[cfg(target_os = "linux")]
#[cfg(target_os = "linux")]
use crate::common::{in_memory, on_each};
use logforce_device_os::OsSystem;
use logforce_testkit::conformance::check;

#[test]
fn on_disk() {
    let temp = tempfile::TempDir::new().unwrap();
    check(&OsSystem::new(), &temp.path().join("log"));
}

#[cfg(target_os = "linux")]
#[test]
fn in_shared_memory() {
    if let Some(temp) = in_memory() {
        check(&OsSystem::new(), &temp.path().join("log"));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn on_each_filesystem() {
    let kinds = [
        ("ext4", 64),
        ("ext4-nojournal", 64),
        ("ext4-datajournal", 64),
        ("ext4-nobarrier", 64),
        ("xfs", 320),
        ("btrfs", 128),
    ];
    on_each(&kinds, |_, fs| {
        check(&OsSystem::new(), &fs.path().join("log"))
    });
}
