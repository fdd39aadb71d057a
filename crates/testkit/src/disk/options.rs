use crate::Rng;
use logforce_device::{
    BlockDevice, DirectAlignment, Facts, FilesystemKind, Platform, Source, WriteCache,
};
use std::time::Duration;

/// How long a disk takes for a write whose `submit` blocks, in simulated time.
#[derive(Debug, Clone, Copy)]
pub struct Delays {
    /// One alone.
    pub write: Duration,
    /// So many are served at once; others wait their turn.
    pub depth: usize,
}

/// What kind of disk and filesystem a [`SimDisk`](crate::SimDisk) is.
#[derive(Debug, Clone)]
pub struct SimOptions {
    /// What the device writes all or nothing, in bytes: a power of two, usually 512 or 4096. A
    /// cut tears writes at this grain.
    pub sector: u32,
    /// The device's physical sector as [`Facts`] tell it (at least `sector`); the write unit
    /// follows from it.
    pub physical_sector: u32,
    /// Whether files can be opened past the cache.
    pub direct: bool,
    /// Whether they can then be read from the medium, too (not on macOS).
    pub medium_reads: bool,
    /// Overwrites in place, or copy-on-write. On the latter nothing is durable without a barrier,
    /// overwriting needs free space, and `reserve` is not offered.
    pub in_place: bool,
    /// Whether blocks can be reserved, where it overwrites in place.
    pub reserves: bool,
    /// The filesystem reports which blocks of a file were written.
    pub tells_blocks: bool,
    /// Whether the device's cache is volatile. [`WriteCache::Unknown`] behaves like `Back`.
    pub write_cache: WriteCache,
    /// Room for file data in bytes; `None` is as much as is wanted.
    pub capacity: Option<u64>,
    /// A barrier makes this file's bytes durable and no others. `false` is what a real flush
    /// does: it empties the device's cache of all files' bytes. `true` catches a log that relies
    /// on that.
    pub isolate_flush: bool,
    /// `submit` does the write and hands over a finished ticket, as blocking backends do.
    pub blocking: bool,
    /// What a write takes, where `submit` blocks. `None`: as good as nothing.
    pub delays: Option<Delays>,
    /// Barriers and through writes report success and leave the bytes in the volatile cache:
    /// a disk that lies. Its facts do not show that.
    pub lie: bool,
    /// A rename is two changes of the directory, the new name and the old one, and a crash may
    /// leave one without the other: both names or neither, as a filesystem without a journal may.
    pub torn_renames: bool,
    /// How many operations [`SimDisk::log`](crate::SimDisk::log) remembers; 0 turns it off.
    pub log_lines: usize,
}

impl Default for SimOptions {
    /// An in-place filesystem with direct I/O on a disk of 512-byte sectors with a volatile
    /// cache, each barrier for its own file only.
    fn default() -> Self {
        SimOptions {
            sector: 512,
            physical_sector: 4096,
            direct: true,
            medium_reads: true,
            in_place: true,
            reserves: true,
            tells_blocks: true,
            write_cache: WriteCache::Back,
            capacity: None,
            isolate_flush: true,
            blocking: false,
            delays: None,
            lie: false,
            torn_renames: false,
            log_lines: 300,
        }
    }
}

impl SimOptions {
    /// An honest disk of unlimited room whose kind follows from the seed: every combination of
    /// the other options is among them.
    pub fn random(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x0b71_0175);
        SimOptions {
            sector: rng.pick(&[512, 4096]),
            physical_sector: rng.pick(&[4096, 4096, 4096, 8192]),
            direct: !rng.one_in(4),
            in_place: !rng.one_in(4),
            write_cache: rng.pick(&[WriteCache::Back, WriteCache::Back, WriteCache::Through]),
            isolate_flush: rng.one_in(2),
            blocking: rng.one_in(4),
            ..SimOptions::default()
        }
    }

    /// What direct I/O has to be aligned to.
    pub(super) fn write_unit(&self) -> u32 {
        self.sector.max(self.physical_sector).max(4096)
    }

    /// What the simulated system reports of this disk.
    pub fn facts(&self) -> Facts {
        let unit = self.write_unit();
        let (name, kind) = match self.in_place {
            true => ("simfs", FilesystemKind::InPlace),
            false => ("simfs-cow", FilesystemKind::Relocating),
        };
        let mut device = BlockDevice::new("sim0");
        device.write_cache = self.write_cache;
        device.cache_source = Source::Device;
        device.fua = Some(true);
        device.logical_sector = self.sector;
        device.physical_sector = self.physical_sector.max(self.sector);
        device.rotational = Some(false);
        device.model = "simulated".to_owned();
        let mut facts = Facts::new(Platform::Linux, name, kind);
        facts.mount_options = "rw".to_owned();
        facts.mount_point = "/".to_owned();
        facts.barriers = true;
        facts.journalled = Some(!self.torn_renames);
        facts.device = Some(device);
        facts.direct = self.direct.then_some(DirectAlignment {
            memory: unit,
            offset: unit,
        });
        facts.volume = "sim".to_owned();
        facts.capacity = self.capacity;
        facts.kernel = "simulated".to_owned();
        facts
    }

    pub(super) fn rules(&self) -> Rules {
        Rules {
            in_place: self.in_place,
            cache_through: self.write_cache == WriteCache::Through,
            lie: self.lie,
        }
    }
}

/// The options that decide what becomes of a write.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    pub in_place: bool,
    pub cache_through: bool,
    pub lie: bool,
}
