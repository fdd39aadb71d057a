use crate::Rng;
use logforce_device::{
    BlockDevice, DirectAlignment, Facts, FilesystemKind, Platform, Source, WriteCache,
};
use std::time::Duration;

/// Duration of writes whose `submit` blocks, in simulated time.
#[derive(Debug, Clone, Copy)]
pub struct Delays {
    /// Duration of a single write.
    pub write: Duration,
    /// Maximum number of writes that the disk serves at once; others wait.
    pub depth: usize,
    /// Duration of a barrier.
    pub barrier: Duration,
}

/// Properties of the disk and the filesystem of a [`SimDisk`](crate::SimDisk).
#[derive(Debug, Clone)]
pub struct SimOptions {
    /// Bytes that the device writes atomically: a power of two, usually 512 or 4096. A cut tears writes
    /// between such sectors.
    pub sector: u32,
    /// Physical sector of the device as in [`Facts`] (at least `sector`). The write unit follows from it.
    pub physical_sector: u32,
    /// True if files can be opened for direct I/O.
    pub direct: bool,
    /// True if files opened in this way can also be read from the medium (not on macOS).
    pub medium_reads: bool,
    /// True if the filesystem overwrites in place, false if it is copy-on-write. On the latter nothing is
    /// durable without a barrier, overwriting needs free space, and `reserve` is not available.
    pub in_place: bool,
    /// True if blocks can be reserved on a filesystem that overwrites in place.
    pub reserves: bool,
    /// True if the device zeroes ranges without writing them, on a filesystem that overwrites in place.
    pub zeroes: bool,
    /// True if the filesystem reports which blocks of a file were written.
    pub tells_blocks: bool,
    /// True if blocks are reported as missing until what was written there leaves the page cache, as on ext4 and
    /// xfs.
    pub allocates_late: bool,
    /// Kind of the device's cache. [`WriteCache::Unknown`] behaves like `Back`.
    pub write_cache: WriteCache,
    /// Space for file data in bytes; `None` for unlimited space.
    pub capacity: Option<u64>,
    /// True if a barrier makes only its file's bytes durable. A real flush (`false`) empties the device's
    /// cache of all files' bytes. `true` catches a log that relies on that.
    pub isolate_flush: bool,
    /// True if `submit` does the write and returns a finished ticket, as blocking backends do.
    pub blocking: bool,
    /// Duration of writes if `submit` blocks. With `None` they take almost no time.
    pub delays: Option<Delays>,
    /// True for a disk that lies: barriers and write-throughs report success and leave the bytes in the
    /// volatile cache. The facts do not show this.
    pub lie: bool,
    /// True if a rename is two changes of the directory: the new name and the old one. A crash may leave both
    /// names or neither, as on a filesystem without a journal.
    pub torn_renames: bool,
    /// Number of operations that [`SimDisk::log`](crate::SimDisk::log) remembers; 0 turns it off.
    pub log_lines: usize,
}

impl Default for SimOptions {
    /// Returns a filesystem that overwrites in place, with direct I/O, on a disk with 512-byte sectors and a
    /// volatile cache. Each barrier covers only its file.
    fn default() -> Self {
        SimOptions {
            sector: 512,
            physical_sector: 4096,
            direct: true,
            medium_reads: true,
            in_place: true,
            reserves: true,
            zeroes: false,
            tells_blocks: true,
            allocates_late: false,
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
    /// Returns an honest disk with unlimited space. Its other options follow from the seed; the seeds cover
    /// every combination.
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

    /// Returns the required alignment of direct I/O.
    pub(super) fn write_unit(&self) -> u32 {
        self.sector.max(self.physical_sector).max(4096)
    }

    /// Returns the facts that the simulated system reports about this disk.
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
        device.zeroes = Some(self.zeroes);
        device.logical_sector = self.sector;
        device.physical_sector = self.physical_sector.max(self.sector);
        device.rotational = Some(false);
        device.model = "simulated".to_owned();
        let mut facts = Facts::new(Platform::Linux, name, kind);
        facts.mount_options = "rw".to_owned();
        facts.mount_point = "/".to_owned();
        facts.barriers = Some(true);
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

/// Options that determine the effect of a write.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    pub in_place: bool,
    pub cache_through: bool,
    pub lie: bool,
}
