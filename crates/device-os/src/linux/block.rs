//! The block device below a filesystem, from `/sys`.

use super::mounts::Mount;
use logforce_device::{BlockDevice, WriteCache};
use rustix::fs::FileType;
use std::fs;
use std::path::{Path, PathBuf};

/// A block device's place in `/sys`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located {
    /// The kernel's name of what is mounted, perhaps a partition.
    pub name: String,
    /// The whole device's directory below `/sys/devices`.
    pub whole: PathBuf,
}

/// Finds the device below a filesystem: by the number that `stat` gave (`major`, `minor`), or,
/// where that is made up by the filesystem (btrfs, zfs, overlays: major 0), by the source of the
/// mount.
pub fn locate(major: u32, minor: u32, mount: Option<&Mount>) -> Option<Located> {
    if major != 0 {
        return by_number(major, minor);
    }
    let source = mount?.source.as_str();
    let stat = rustix::fs::stat(source)
        .ok()
        .filter(|_| source.starts_with("/dev/"))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::BlockDevice {
        return None;
    }
    by_number(
        rustix::fs::major(stat.st_rdev),
        rustix::fs::minor(stat.st_rdev),
    )
}

fn by_number(major: u32, minor: u32) -> Option<Located> {
    let place = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    let name = place.file_name()?.to_string_lossy().into_owned();
    // The statistics of flushes, the queue and the model are kept for the whole device only.
    let whole = if place.join("partition").exists() {
        place.parent()?.to_owned()
    } else {
        place
    };
    Some(Located { name, whole })
}

impl Located {
    /// The kernel's name of the whole device.
    pub fn whole_name(&self) -> String {
        // `/sys` writes the slash in a name such as `cciss/c0d0` as an exclamation mark.
        self.whole
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .replace('!', "/")
    }

    /// What the device says of itself.
    pub fn describe(&self) -> BlockDevice {
        let queue = |name: &str| read(&self.whole.join("queue").join(name));
        let number = |name: &str| queue(name).and_then(|v| v.parse::<u32>().ok());
        BlockDevice {
            name: self.whole_name(),
            write_cache: match queue("write_cache").as_deref() {
                Some("write back") => WriteCache::Back,
                Some("write through") => WriteCache::Through,
                _ => WriteCache::Unknown,
            },
            fua: number("fua").map(|v| v != 0),
            logical_sector: number("logical_block_size").unwrap_or(512),
            physical_sector: number("physical_block_size").unwrap_or(512),
            rotational: number("rotational").map(|v| v != 0),
            model: ["device/model", "loop/backing_file", "dm/name"]
                .iter()
                .find_map(|f| read(&self.whole.join(f)))
                .unwrap_or_default(),
        }
    }

    /// The file a loop device keeps its blocks in.
    pub fn backing_file(&self) -> Option<PathBuf> {
        read(&self.whole.join("loop/backing_file")).map(PathBuf::from)
    }

    /// What a mapped or a RAID device is made of, by kernel names.
    pub fn made_of(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.whole.join("slaves"))
            .into_iter()
            .flatten()
            .flatten()
            .map(|e| e.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    /// Whether the "device" is memory of this machine (a RAM disk, zram, the null block device).
    pub fn is_memory(&self) -> bool {
        let name = self.whole_name();
        ["ram", "zram", "nullb"].iter().any(|p| {
            name.strip_prefix(p)
                .is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
        })
    }
}

/// The devices of the btrfs that has the device `name`: it may spread over several.
pub fn btrfs_devices(name: &str) -> Vec<String> {
    let list = |dir: &Path| -> Vec<String> {
        let names = fs::read_dir(dir).into_iter().flatten().flatten();
        names
            .map(|e| e.file_name().to_string_lossy().into_owned())
            .collect()
    };
    list(Path::new("/sys/fs/btrfs"))
        .into_iter()
        .map(|uuid| list(&Path::new("/sys/fs/btrfs").join(uuid).join("devices")))
        .find(|devices| devices.iter().any(|d| d == name))
        .unwrap_or_default()
}

/// A file of one line; `None` if it is missing or empty.
pub fn read(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Located {
        Located {
            name: name.to_owned(),
            whole: Path::new("/sys/block").join(name),
        }
    }

    #[test]
    fn memory_is_told_from_disks() {
        assert!(named("ram0").is_memory() && named("zram12").is_memory());
        assert!(
            !named("vda").is_memory() && !named("ramen").is_memory() && !named("ram").is_memory()
        );
    }

    #[test]
    fn every_whole_device_of_this_machine_can_be_described() {
        for entry in fs::read_dir("/sys/block").into_iter().flatten().flatten() {
            let Some(dev) = read(&entry.path().join("dev")) else {
                continue;
            };
            let (major, minor) = dev.split_once(':').unwrap();
            let found = by_number(major.parse().unwrap(), minor.parse().unwrap()).unwrap();
            assert_eq!(
                found.whole_name().replace('/', "!"),
                entry.file_name().to_string_lossy()
            );
            let device = found.describe();
            assert!(
                device.logical_sector >= 512 && device.physical_sector >= device.logical_sector
            );
        }
        assert_eq!(by_number(0, 0), None);
    }
}
