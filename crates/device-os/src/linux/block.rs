//! Block device below a filesystem, from `/sys`.

use super::error::uninterrupted_io;
use super::mounts::Mount;
use super::sysfs::{self, Roots};
use logforce_device::{BlockDevice, Reading, WriteCache};
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Limit of the queue that filesystems ask for before they have the device zero a range: the largest range of
/// one command. 0 if the device has no such command, a layer does not pass it on, or an administrator has turned
/// it off. Linux 6.17.
const ZEROES_LIMIT: &str = "queue/write_zeroes_unmap_max_bytes";

/// Location of a block device in `/sys`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located {
    /// Kernel name of the mounted device, perhaps a partition.
    pub name: String,
    /// Directory of the whole device below `/sys/devices`.
    pub whole: PathBuf,
}

/// Device below a filesystem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Below {
    /// A device that was found in `/sys`.
    Device(Located),
    /// A device that exists but cannot be seen, with its number or its name.
    Unseen(String),
    /// No block device, or one that the filesystem does not name.
    Nameless,
}

/// Finds the device below a filesystem by the number that `stat` returned (`major`, `minor`). Where the
/// filesystem makes that number up (btrfs, zfs, overlays: major 0), finds it by the source of the mount.
pub fn locate(major: u32, minor: u32, mount: Option<&Mount>, roots: &Roots) -> io::Result<Below> {
    if major != 0 {
        let found = by_number(major, minor, roots)?;
        return Ok(found.map_or_else(|| Below::Unseen(format!("{major}:{minor}")), Below::Device));
    }
    match mount {
        Some(mount) if mount.source.starts_with("/dev/") => {
            by_path(&mount.source, &mount.filesystem, roots)
        }
        _ => Ok(Below::Nameless),
    }
}

/// Finds the device of that path.
pub fn by_path(source: &str, filesystem: &str, roots: &Roots) -> io::Result<Below> {
    let unseen = || Below::Unseen(source.to_owned());
    let path = match source.strip_prefix("/dev/") {
        Some(name) => roots.dev.join(name),
        None => PathBuf::from(source),
    };
    let stat = sysfs::found(uninterrupted_io(|| fs::metadata(&path)), "look at", &path)?;
    let Some(stat) = stat.filter(|s| s.file_type().is_block_device()) else {
        // A container has its own `/dev`. The kernel's name is sufficient if btrfs uses it.
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if filesystem == "btrfs" && btrfs_devices(&name, roots)?.is_some() {
            return Ok(by_name(&name, roots)?.map_or_else(unseen, Below::Device));
        }
        return Ok(unseen());
    };
    let number = stat.rdev();
    let found = by_number(rustix::fs::major(number), rustix::fs::minor(number), roots)?;
    Ok(found.map_or_else(unseen, Below::Device))
}

/// Finds the device of that number.
pub fn by_number(major: u32, minor: u32, roots: &Roots) -> io::Result<Option<Located>> {
    at_place(&roots.sys.join(format!("dev/block/{major}:{minor}")))
}

/// Finds the device of that kernel name. A layer that is not a device may have a longer name than any file.
pub fn by_name(name: &str, roots: &Roots) -> io::Result<Option<Located>> {
    if name.len() > 255 {
        return Ok(None);
    }
    at_place(&roots.sys.join("class/block").join(name.replace('/', "!")))
}

fn at_place(link: &Path) -> io::Result<Option<Located>> {
    let Some(place) = sysfs::real(link)? else {
        return Ok(None);
    };
    let Some(name) = place.file_name() else {
        return Ok(None);
    };
    let name = name.to_string_lossy().into_owned();
    // Only the whole device has the statistics of flushes, the queue and the model.
    let whole = match place.parent() {
        Some(whole) if sysfs::exists(&place.join("partition"))? => whole.to_owned(),
        _ => place,
    };
    Ok(Some(Located { name, whole }))
}

/// Makes a reading.
pub fn reading(what: &str, value: &str, from: &str) -> Reading {
    Reading {
        what: what.to_owned(),
        value: value.to_owned(),
        from: from.to_owned(),
    }
}

impl Located {
    /// Returns the kernel name of the whole device.
    pub fn whole_name(&self) -> String {
        // `/sys` writes the slash in a name such as `cciss/c0d0` as an exclamation mark.
        self.whole
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .replace('!', "/")
    }

    /// Returns the line of a file of the device in `/sys`; `None` if it is missing or empty.
    pub fn line(&self, name: &str) -> io::Result<Option<String>> {
        sysfs::line(&self.whole.join(name))
    }

    /// Returns a number from a file of the device in `/sys`.
    pub fn number<T: std::str::FromStr>(&self, name: &str) -> io::Result<Option<T>> {
        Ok(self.line(name)?.and_then(|v| v.parse().ok()))
    }

    /// Returns the size of the mounted device in bytes, a partition's own.
    pub fn size(&self) -> io::Result<Option<u64>> {
        let own = match self.whole.ends_with(&self.name) {
            true => self.whole.join("size"),
            false => self.whole.join(&self.name).join("size"),
        };
        let sectors = sysfs::line(&own)?.and_then(|v| v.parse::<u64>().ok());
        Ok(sectors.map(|n| n.saturating_mul(512)))
    }

    /// Returns the cache of the device as the kernel is configured to see it. The kernel sends no flushes to
    /// a device that is `write through`. Any process with the rights may have set that.
    pub fn write_cache(&self) -> io::Result<WriteCache> {
        Ok(match self.line("queue/write_cache")?.as_deref() {
            Some("write back") => WriteCache::Back,
            Some("write through") => WriteCache::Through,
            _ => WriteCache::Unknown,
        })
    }

    /// Returns the properties of the device that `/sys` shows. The party that answers for its cache depends on
    /// the layers below it, and is left open.
    pub fn describe(&self) -> io::Result<BlockDevice> {
        let mut model = self.model()?;
        for file in ["loop/backing_file", "dm/name"] {
            model = model.or(self.line(file)?);
        }
        let mut device = BlockDevice::new(self.whole_name());
        device.write_cache = self.write_cache()?;
        device.fua = self.number("queue/fua")?.map(|v: u32| v != 0);
        device.zeroes = self.number(ZEROES_LIMIT)?.map(|v: u64| v != 0);
        device.logical_sector = self.number("queue/logical_block_size")?.unwrap_or(512);
        device.physical_sector = self.number("queue/physical_block_size")?.unwrap_or(512);
        // The disks behind a RAID controller do not answer themselves.
        if !self.is_behind_raid()? {
            device.rotational = self.number("queue/rotational")?.map(|v: u32| v != 0);
        }
        device.model = model.unwrap_or_default();
        Ok(device)
    }

    /// Returns the sizes, the FUA and the atomic writes that the device reports.
    pub fn readings(&self) -> io::Result<Vec<Reading>> {
        let name = self.whole_name();
        let mut readings = Vec::new();
        for (what, file) in [
            ("write cache, kernel", "queue/write_cache"),
            ("FUA", "queue/fua"),
            ("logical block, bytes", "queue/logical_block_size"),
            ("physical block, bytes", "queue/physical_block_size"),
            ("rotational", "queue/rotational"),
            (
                "atomic write, largest, bytes",
                "queue/atomic_write_unit_max_bytes",
            ),
            ("zeroes by the device, largest, bytes", ZEROES_LIMIT),
            ("loop file", "loop/backing_file"),
            ("direct I/O to the loop file", "loop/dio"),
            ("mapped device", "dm/uuid"),
            ("RAID level", "md/level"),
            ("bcache mode", "bcache/cache_mode"),
        ] {
            if let Some(value) = self.line(file)? {
                readings.push(reading(what, &value, &format!("/sys/block/{name}/{file}")));
            }
        }
        if self.name != name
            && let Some(start) = sysfs::line(&self.whole.join(&self.name).join("start"))?
        {
            let from = format!("/sys/block/{name}/{}/start", self.name);
            readings.push(reading(
                "start of the partition, sectors of 512 bytes",
                &start,
                &from,
            ));
        }
        Ok(readings)
    }

    /// Returns the file in which a loop device keeps its blocks.
    pub fn backing_file(&self) -> io::Result<Option<PathBuf>> {
        Ok(self.line("loop/backing_file")?.map(PathBuf::from))
    }

    /// Returns the kernel names of the devices that a mapped or a RAID device consists of.
    pub fn made_of(&self) -> io::Result<Vec<String>> {
        let names = sysfs::names(&self.whole.join("slaves"))?.unwrap_or_default();
        Ok(names.iter().map(|n| n.replace('!', "/")).collect())
    }

    /// Returns true if one of these drivers made the device: `loop` made `loop3`.
    pub fn is_of(&self, drivers: &[&str]) -> bool {
        let name = self.whole_name();
        drivers.iter().any(|p| {
            name.strip_prefix(p)
                .is_some_and(|n| n.starts_with(|c: char| c.is_ascii_digit()))
        })
    }

    /// Returns true if the "device" is memory of this machine (a RAM disk, zram, the null block device).
    pub fn is_memory(&self) -> bool {
        self.is_of(&["ram", "zram", "nullb"])
    }
}

/// Returns the devices of the btrfs that includes the device `name`; it may consist of several. `None` if
/// they cannot be seen.
pub fn btrfs_devices(name: &str, roots: &Roots) -> io::Result<Option<Vec<String>>> {
    let all = roots.sys.join("fs/btrfs");
    for uuid in sysfs::names(&all)?.unwrap_or_default() {
        if let Some(devices) = sysfs::names(&all.join(uuid).join("devices"))?
            && devices.iter().any(|d| d == name)
        {
            return Ok(Some(devices));
        }
    }
    Ok(None)
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
        let roots = Roots::default();
        for entry in fs::read_dir("/sys/block").into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with("loop") {
                // Other tests attach and detach loop devices meanwhile.
                continue;
            }
            let Some(dev) = sysfs::line(&entry.path().join("dev")).unwrap() else {
                continue;
            };
            let (major, minor) = dev.split_once(':').unwrap();
            let found = by_number(major.parse().unwrap(), minor.parse().unwrap(), &roots)
                .unwrap()
                .unwrap();
            assert_eq!(
                found.whole_name().replace('/', "!"),
                entry.file_name().to_string_lossy()
            );
            let device = found.describe().unwrap();
            assert!(
                device.logical_sector >= 512 && device.physical_sector >= device.logical_sector
            );
        }
        assert_eq!(by_number(0, 0, &roots).unwrap(), None);
    }
}
