//! Requirements for running on a machine.

use super::Filesystem;
use super::enclosure::NAMESPACES;
use super::programs::{in_path, path};
use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Output};

/// Returns the requirements that this machine lacks, in words. Empty if everything can run.
pub fn missing(filesystems: &[Filesystem]) -> Vec<String> {
    let mut missing = Vec::new();
    if !rustix::process::geteuid().is_root() {
        missing.push("root (only root can mount)".to_owned());
    } else if is_mapped() {
        missing.push("real root: this one is of a user namespace, as in a rootless container, and may not mount".to_owned());
    }
    for (device, what) in [
        ("/dev/fuse", "FUSE (`modprobe fuse`)"),
        ("/dev/loop-control", "loop devices (`modprobe loop`)"),
    ] {
        missing.extend(unusable(Path::new(device)).map(|why| format!("{what}: {why}")));
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
    // These need the programs above, and fail in any case without root.
    if missing.is_empty() {
        missing.extend(no_mounts());
        missing.extend(no_loop_device());
    }
    missing.sort();
    missing.dedup();
    missing
}

/// Returns true in a user namespace that maps users, in which the kernel mounts no filesystem of a disk.
fn is_mapped() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    !map.is_empty() && map.split_whitespace().ne(["0", "0", "4294967295"])
}

/// Returns why this process cannot open a device; `None` if it can.
fn unusable(device: &Path) -> Option<String> {
    let opened = OpenOptions::new().read(true).write(true).open(device);
    let device = device.display();
    match opened.err()? {
        e if e.kind() == ErrorKind::NotFound => Some(format!("{device} does not exist")),
        e => Some(format!(
            "{device} cannot be opened: {e}; a container needs `--device {device}`"
        )),
    }
}

/// Returns why this process may not make the namespaces and mounts of the enclosure; `None` if it may. Root in a
/// container may not as a rule.
fn no_mounts() -> Option<String> {
    let tried = Command::new("unshare")
        .env("PATH", path())
        .args(NAMESPACES)
        .arg("true")
        .output();
    let why = failure(tried)?;
    Some(format!(
        "the right to mount (capability SYS_ADMIN): {why}; a container needs `--privileged`, or `--cap-add SYS_ADMIN` \
         and `--security-opt apparmor=unconfined`"
    ))
}

/// Returns why there is no unused loop device; `None` if there is one.
fn no_loop_device() -> Option<String> {
    let found = Command::new("losetup")
        .env("PATH", path())
        .arg("--find")
        .output();
    let device = match &found {
        Ok(out) if out.status.success() => String::from_utf8_lossy(&out.stdout).trim().to_owned(),
        _ => return failure(found).map(|why| format!("an unused loop device: {why}")),
    };
    // The kernel adds devices when they are needed, but nothing makes their nodes in a container.
    let why = unusable(Path::new(&device))?;
    let number = device.trim_start_matches("/dev/loop");
    Some(format!(
        "an unused loop device: {why} (`mknod {device} b 7 {number}`)"
    ))
}

/// Returns the message of a program that failed.
fn failure(tried: std::io::Result<Output>) -> Option<String> {
    match tried {
        Ok(out) if out.status.success() => None,
        Ok(out) => Some(
            String::from_utf8_lossy(&out.stderr)
                .trim()
                .replace('\n', "; "),
        ),
        Err(e) => Some(e.to_string()),
    }
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
