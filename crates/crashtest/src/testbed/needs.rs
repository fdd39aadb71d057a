//! Requirements for running on a machine.

use super::Filesystem;
use std::path::Path;

/// Returns the requirements that this machine lacks, in words. Empty if everything can run.
pub fn missing(filesystems: &[Filesystem]) -> Vec<String> {
    let mut missing = Vec::new();
    if !rustix::process::geteuid().is_root() {
        missing.push("root (only root can mount)".to_owned());
    }
    for (device, what) in [
        ("/dev/fuse", "FUSE (`modprobe fuse`)"),
        ("/dev/loop-control", "loop devices (`modprobe loop`)"),
    ] {
        if !Path::new(device).exists() {
            missing.push(format!("{what}: {device} does not exist"));
        }
    }
    let known = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    for filesystem in filesystems {
        let kind = filesystem.kind();
        let here = known
            .lines()
            .any(|l| l.split_whitespace().next_back() == Some(kind));
        // The kernel loads a module at the first mount.
        if !here && !has_module(kind) {
            missing.push(format!("support for {kind} in the kernel"));
        }
        if !in_path(&filesystem.mkfs()) {
            missing.push(format!("{} ({})", filesystem.mkfs(), package(kind)));
        }
    }
    for (program, package) in [
        ("mount", "package mount"),
        ("losetup", "package mount"),
        ("unshare", "package util-linux"),
    ] {
        if !in_path(program) {
            missing.push(format!("{program} ({package})"));
        }
    }
    missing.sort();
    missing.dedup();
    missing
}

fn package(kind: &str) -> &'static str {
    match kind {
        "xfs" => "package xfsprogs",
        "btrfs" => "package btrfs-progs",
        _ => "package e2fsprogs",
    }
}

fn has_module(kind: &str) -> bool {
    let release = rustix::system::uname();
    let release = release.release().to_string_lossy().into_owned();
    let list = format!("/lib/modules/{release}/modules.dep");
    std::fs::read_to_string(list).is_ok_and(|l| l.contains(&format!("/{kind}.ko")))
}

/// Returns true if a directory of `$PATH` has the program.
pub fn in_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}
