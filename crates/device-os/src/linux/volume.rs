//! Identifier of a filesystem that stays the same after a restart.

use super::error::uninterrupted_io;
use super::sysfs::{self, Roots};
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// Returns the UUID of the filesystem `filesystem` on the block device of that kernel name (a partition's
/// own). `None` if the system does not provide it.
pub fn uuid(filesystem: &str, device: &str, roots: &Roots) -> io::Result<Option<String>> {
    if filesystem == "btrfs"
        && let Some(uuid) = of_btrfs(device, roots)?
    {
        return Ok(Some(uuid));
    }
    let dev = roots.sys.join("class/block").join(device).join("dev");
    let Some(number) = sysfs::line(&dev)? else {
        return Ok(None);
    };
    // udev's links. They were made by name before the medium changed, so the target's number decides.
    let links = roots.dev.join("disk/by-uuid");
    for uuid in sysfs::names(&links)?.unwrap_or_default() {
        if is_device(&links.join(&uuid), &number)? {
            return Ok(Some(uuid));
        }
    }
    Ok(None)
}

/// Returns the identifier to use without a UUID: `statfs`'s number, which ext4 and btrfs derive from their
/// UUID and others from the device. Empty if it is 0.
pub fn fallback(fsid: u64) -> String {
    if fsid == 0 {
        String::new()
    } else {
        format!("fsid:{fsid:016x}")
    }
}

fn of_btrfs(device: &str, roots: &Roots) -> io::Result<Option<String>> {
    let all = roots.sys.join("fs/btrfs");
    for uuid in sysfs::names(&all)?.unwrap_or_default() {
        let devices = sysfs::names(&all.join(&uuid).join("devices"))?;
        if devices.is_some_and(|d| d.iter().any(|d| d == device)) {
            return Ok(Some(uuid));
        }
    }
    Ok(None)
}

fn is_device(path: &Path, number: &str) -> io::Result<bool> {
    let stat = sysfs::found(uninterrupted_io(|| fs::metadata(path)), "look at", path)?;
    Ok(stat.is_some_and(|stat| {
        let id = stat.rdev();
        let (major, minor) = (rustix::fs::major(id), rustix::fs::minor(id));
        stat.file_type().is_block_device() && format!("{major}:{minor}") == number
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_unknown() {
        let roots = Roots::default();
        assert_eq!(uuid("ext4", "nosuch0", &roots).unwrap(), None);
        assert_eq!(uuid("btrfs", "nosuch0", &roots).unwrap(), None);
        assert_eq!(fallback(0), "");
        assert_eq!(fallback(0xab), "fsid:00000000000000ab");
        assert!(
            !is_device(Path::new("/dev/null"), "1:3").unwrap(),
            "not a block device"
        );
    }
}
