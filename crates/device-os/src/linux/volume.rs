//! What tells a filesystem from every other, also after a restart.

use rustix::fs::FileType;
use std::fs;
use std::path::Path;

/// The UUID of the filesystem `filesystem` on the block device of that kernel name (a partition's
/// own); `None` where the system does not tell.
pub fn uuid(filesystem: &str, device: &str) -> Option<String> {
    if filesystem == "btrfs"
        && let Some(uuid) = of_btrfs(device)
    {
        return Some(uuid);
    }
    let number = super::block::read(&Path::new("/sys/class/block").join(device).join("dev"))?;
    // udev's links. Made by name where the medium changed, so the target's number decides.
    fs::read_dir("/dev/disk/by-uuid")
        .ok()?
        .flatten()
        .find(|link| is_device(&link.path(), &number))
        .map(|link| link.file_name().to_string_lossy().into_owned())
}

/// What is left where nobody tells the UUID: `statfs`'s number, which ext4 and btrfs derive from
/// theirs and others from the device; empty where it is 0.
pub fn fallback(fsid: u64) -> String {
    if fsid == 0 {
        String::new()
    } else {
        format!("fsid:{fsid:016x}")
    }
}

fn of_btrfs(device: &str) -> Option<String> {
    fs::read_dir("/sys/fs/btrfs")
        .ok()?
        .flatten()
        .find(|entry| entry.path().join("devices").join(device).exists())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
}

fn is_device(path: &Path, number: &str) -> bool {
    rustix::fs::stat(path).is_ok_and(|stat| {
        let (major, minor) = (
            rustix::fs::major(stat.st_rdev),
            rustix::fs::minor(stat.st_rdev),
        );
        FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice
            && format!("{major}:{minor}") == number
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_unknown() {
        assert_eq!(uuid("ext4", "nosuch0"), None);
        assert_eq!(uuid("btrfs", "nosuch0"), None);
        assert_eq!(fallback(0), "");
        assert_eq!(fallback(0xab), "fsid:00000000000000ab");
        assert!(!is_device(Path::new("/dev/null"), "1:3"), "no block device");
    }
}
