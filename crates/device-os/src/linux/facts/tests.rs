//! Facts of a real directory in a simulated system: its mount, its device and the devices below are files
//! that the test makes.

mod asked;
mod below;
mod recorded;
mod sources;
mod stacks;

use super::*;
use logforce_device::{FileState, Guarantee, Method, Source, Verdict};
use recorded::Recorded;
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::sync::Arc;
use tempfile::TempDir;

struct World {
    temp: TempDir,
    roots: Roots,
    log: fs::File,
}

const BACK: &str = "write back";
const THROUGH: &str = "write through";

impl World {
    fn new() -> World {
        let temp = TempDir::new().unwrap();
        let at = |name: &str| temp.path().join(name);
        let roots = Roots {
            proc: at("proc"),
            sys: at("sys"),
            dev: at("dev"),
            run: at("run"),
            zfs: Vec::new(),
            commands: Arc::new(Recorded::default()),
        };
        fs::create_dir(at("log")).unwrap();
        let log = fs::File::open(at("log")).unwrap();
        World { temp, roots, log }
    }

    /// Makes an ext4 with barriers on `vda`, a disk with a volatile cache.
    fn honest() -> World {
        let world = World::new();
        world.mounted("ext4", "/dev/vda", "rw,relatime");
        world.below("vda", BACK);
        world.ext4("vda", "rw\nbarrier\ndata=ordered\n");
        world
    }

    fn put(&self, name: &str, text: &str) {
        let path = self.temp.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn remove(&self, name: &str) {
        let path = self.temp.path().join(name);
        fs::remove_file(&path)
            .or_else(|_| fs::remove_dir_all(&path))
            .unwrap();
    }

    fn mounted(&self, filesystem: &str, source: &str, options: &str) {
        let id = mounts::id(self.log.as_fd(), self.temp.path()).unwrap();
        let dev = self.log.metadata().unwrap().dev();
        let (major, minor) = (rustix::fs::major(dev), rustix::fs::minor(dev));
        let line = format!(
            "{} 1 {major}:{minor} / / {options} - {filesystem} {source} {options}\n",
            id.unwrap_or(7)
        );
        self.put("proc/self/mountinfo", &line);
    }

    fn ext4(&self, device: &str, options: &str) {
        self.put(&format!("proc/fs/ext4/{device}/options"), options);
        self.put(&format!("proc/fs/jbd2/{device}-8/info"), "");
    }

    fn device(&self, name: &str, cache: &str) -> String {
        let place = format!("sys/devices/{name}");
        self.put(&format!("{place}/queue/write_cache"), &format!("{cache}\n"));
        let name = name.rsplit('/').next().unwrap();
        self.link(&format!("sys/class/block/{name}"), &place);
        place
    }

    fn link(&self, name: &str, to: &str) {
        let path = self.temp.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(self.temp.path().join(to), path).unwrap();
    }

    /// Makes the device below the directory.
    fn below(&self, name: &str, cache: &str) {
        let place = self.device(name, cache);
        self.is_below(&place);
    }

    /// Makes the device at that place the one below the directory.
    fn is_below(&self, place: &str) {
        let dev = self.log.metadata().unwrap().dev();
        let (major, minor) = (rustix::fs::major(dev), rustix::fs::minor(dev));
        self.link(&format!("sys/dev/block/{major}:{minor}"), place);
    }

    fn part(&self, of: &str, name: &str) {
        self.put(&format!("sys/devices/{of}/slaves/{name}"), "");
    }

    fn facts(&self) -> io::Result<Facts> {
        gather_by(
            self.log.as_fd(),
            &self.temp.path().join("log"),
            Trial::NamelessFile,
            &self.roots,
        )
    }

    /// Checks the guarantee of a sync, and that its evidence contains `words`.
    #[track_caller]
    fn is(&self, guarantee: Guarantee, verdict: Verdict, words: &[&str]) {
        let facts = self.facts().unwrap();
        for method in [Method::Fdatasync, Method::Dsync] {
            let a = facts.assess(method, FileState::Zeroed).unwrap();
            assert_eq!(
                (a.guarantee, a.verdict),
                (guarantee, verdict),
                "{a:?} {facts:#?}"
            );
            for word in words {
                assert!(a.evidence.contains(word), "{word}: {}", a.evidence);
            }
        }
    }
}

use Guarantee::{OsCrash, PowerLoss, ProcessCrash};
use Verdict::{Contradicted, Declared, Unknown};

/// The state of the journal decides whether segments may be only reserved.
#[test]
fn a_journal_is_seen_or_unknown() {
    let world = World::honest();
    let journalled = || world.facts().unwrap().journalled;
    assert_eq!(journalled(), Some(true));
    world.remove("proc/fs/jbd2/vda-8");
    assert_eq!(journalled(), None, "on another device");
    world.ext4("vda", "rw\nbarrier\n");
    world.remove("proc/fs/jbd2/vda-8");
    assert_eq!(journalled(), Some(false));
    world.remove("proc/fs/ext4/vda/options");
    assert_eq!(journalled(), None);
    // The kernel's old driver of ext2 shows no options.
    for (filesystem, known) in [("xfs", Some(true)), ("ext2", Some(false)), ("ntfs3", None)] {
        world.mounted(filesystem, "/dev/vda", "rw");
        assert_eq!(journalled(), known, "{filesystem}");
    }
}

#[test]
fn what_is_seen_is_declared() {
    let world = World::honest();
    world.is(PowerLoss, Declared, &["the system flushes it"]);
    let facts = world.facts().unwrap();
    assert_eq!((&*facts.filesystem, &*facts.mount_point), ("ext4", "/"));
    assert_eq!(facts.journalled, Some(true));
    assert!(!facts.read_only && facts.direct_unknown.is_none());
}

#[test]
fn what_is_not_there_to_be_seen_is_not_promised() {
    let world = World::honest();
    world.remove("proc");
    world.is(
        OsCrash,
        Unknown,
        &["how it is mounted cannot be seen", "Mount /proc"],
    );
    assert_eq!(world.facts().unwrap().mount_options, "");

    // Mounts are visible, but this one is not: a `chroot`.
    let world = World::honest();
    world.put("proc/self/mountinfo", "1 1 0:1 / /proc rw - proc proc rw\n");
    world.is(OsCrash, Unknown, &["how it is mounted cannot be seen"]);

    let world = World::honest();
    world.remove("sys");
    world.is(
        OsCrash,
        Unknown,
        &["the device", "it cannot be seen in /dev"],
    );

    // The superblock may turn barriers off.
    let world = World::honest();
    world.remove("proc/fs");
    world.is(OsCrash, Unknown, &["/proc/fs/ext4/vda/options"]);
    world.ext4("vda", "rw\n");
    world.is(OsCrash, Unknown, &["/proc/fs/ext4/vda/options"]);
    world.ext4("vda", "rw\nnobarrier\n");
    world.is(OsCrash, Contradicted, &["without barriers"]);

    // The journal is on a device that is not named.
    let world = World::honest();
    world.remove("proc/fs/jbd2");
    world.is(PowerLoss, Unknown, &["the journal", "another device"]);
}

#[test]
fn memory_is_memory_whatever_else_cannot_be_seen() {
    let world = World::new();
    world.mounted("ext4", "/dev/zram0", "rw");
    world.below("zram0", BACK);
    world.is(ProcessCrash, Contradicted, &["zram0", "memory"]);
    world.remove("proc");
    world.is(ProcessCrash, Contradicted, &["memory"]);
}

/// The weakest option that the mount may have counts. Data that stays in the system's cache until a
/// flush has no stronger guarantee than without barriers.
#[test]
fn a_mount_that_cannot_be_seen_may_be_the_weakest_there_is() {
    let world = World::new();
    world.mounted("ext4", "/dev/loop3", "rw,barrier=0");
    world.below("loop3", BACK);
    world.put("sys/devices/loop3/loop/backing_file", "/no/such/image\n");
    world.is(ProcessCrash, Contradicted, &["without barriers"]);
    world.remove("proc");
    let words = ["how it is mounted", "without barriers", "the file of loop3"];
    world.is(ProcessCrash, Unknown, &words);
    // Mounts are visible, but this one is not.
    world.put("proc/self/mountinfo", "1 1 0:1 / /proc rw - proc proc rw\n");
    world.is(ProcessCrash, Unknown, &words);
    // The mount is visible, but the options in its superblock are not.
    world.mounted("ext4", "/dev/loop3", "rw");
    let words = ["/proc/fs/ext4/loop3/options", "the file of loop3"];
    world.is(ProcessCrash, Unknown, &words);

    // The same holds further down.
    let world = World::new();
    world.below("dm-0", BACK);
    world.device("loop3", BACK);
    world.put("sys/devices/loop3/loop/backing_file", "/no/such/image\n");
    world.part("dm-0", "loop3");
    world.is(
        ProcessCrash,
        Unknown,
        &["how it is mounted", "the file of loop3"],
    );
    // A disk keeps the data after a crash of the system.
    world.remove("sys/devices/loop3/loop");
    world.remove("sys/devices/dm-0/slaves/loop3");
    world.device("sda", BACK);
    world.part("dm-0", "sda");
    world.is(OsCrash, Unknown, &["how it is mounted"]);
    // The device below cannot be seen either.
    world.remove("sys");
    world.is(ProcessCrash, Unknown, &["the device below it is unknown"]);
}

/// The queue's limit says whether the device zeroes ranges. Kernels before 6.17 have no such file.
#[test]
fn zeroes_by_the_device_are_its_queue_limit() {
    let world = World::honest();
    let zeroes = || world.facts().unwrap().device.unwrap().zeroes;
    assert_eq!(zeroes(), None);
    let limit = "sys/devices/vda/queue/write_zeroes_unmap_max_bytes";
    for (value, offered) in [("0\n", false), ("8589934592\n", true)] {
        world.put(limit, value);
        assert_eq!(zeroes(), Some(offered), "{value}");
        let layers = world.facts().unwrap().layers;
        let mut readings = layers.iter().flat_map(|l| &l.readings);
        let reading = readings.find(|r| r.what.starts_with("zeroes by the device"));
        let reading = reading.expect("the layer says so");
        assert_eq!(reading.value, value.trim());
        assert!(
            reading
                .from
                .ends_with("vda/queue/write_zeroes_unmap_max_bytes")
        );
    }
}

#[test]
fn no_failed_question_is_an_answer() {
    // A directory in the place of a file, or the reverse: the query fails, but not because the file is
    // missing.
    let asked = [
        "proc/self/mountinfo/x",
        "proc/fs/ext4/vda/options/x",
        "proc/fs/jbd2",
        "sys/devices/vda/queue/write_cache/x",
        "sys/devices/vda/queue/fua/x",
        "sys/devices/vda/queue/write_zeroes_unmap_max_bytes/x",
        "sys/devices/vda/queue/logical_block_size/x",
        "sys/devices/vda/queue/physical_block_size/x",
        "sys/devices/vda/device/model/x",
        "sys/devices/vda/device/scsi_disk",
        "sys/devices/vda/cache_type/x",
        "sys/devices/vda/loop/backing_file/x",
        "sys/devices/vda/slaves",
        "sys/devices/vda/dev/x",
        "dev/disk/by-uuid",
    ];
    for name in asked {
        let world = World::honest();
        world.put("sys/devices/vda/dev", "254:0");
        let there = name.strip_suffix("/x").unwrap_or(name);
        if world.temp.path().join(there).exists() {
            world.remove(there);
        }
        world.put(name, "");
        let e = world.facts().expect_err(name);
        let file = there.rsplit('/').next().unwrap();
        assert!(e.to_string().contains(file), "{there}: {e}");
    }
    let world = World::honest();
    world.mounted("btrfs", "/dev/vda", "rw");
    world.put("sys/fs/btrfs", "");
    assert!(world.facts().is_err());
}

/// Runs as a user who needs permission to read, unlike root.
fn without_privilege<T: Send>(run: impl FnOnce() -> T + Send) -> T {
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
    // Applies to this thread only.
    let unprivileged = || {
        let mut own = capabilities(None)?;
        own.effective -= CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
        set_capabilities(None, own)
    };
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            unprivileged().unwrap();
            run()
        });
        thread.join().unwrap()
    })
}

/// A process that may not see the mount's options must not conclude that the mount is better. `EACCES` is an
/// error, and the opening fails.
#[test]
fn what_may_not_be_looked_at_is_not_missing() {
    let hidden = [
        // The mounts, the options of the ext4, and its journal.
        "proc/self/mountinfo",
        "proc/fs/ext4/vda/options",
        "proc/fs/jbd2",
        // Devices by number, the device's own files, and its parts.
        "sys/dev/block",
        "sys/devices/vda",
        "sys/devices/vda/queue/write_cache",
        "sys/devices/vda/cache_type",
        "sys/devices/vda/slaves",
    ];
    for name in hidden {
        let world = World::honest();
        world.put("sys/devices/vda/cache_type", BACK);
        fs::create_dir(world.temp.path().join("sys/devices/vda/slaves")).unwrap();
        let path = world.temp.path().join(name);
        let mode = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        without_privilege(|| world.facts()).unwrap();
        mode(0);
        let answer = without_privilege(|| world.facts());
        mode(0o700);
        let e = answer.expect_err(name);
        assert_eq!(e.kind(), io::ErrorKind::PermissionDenied, "{name}: {e}");
        assert!(
            e.to_string().contains(path.to_str().unwrap()),
            "{name}: {e}"
        );
    }
}

#[test]
fn a_flush_that_is_dropped_on_the_way_is_worth_nothing_below() {
    let world = World::new();
    world.mounted("xfs", "/dev/dm-0", "rw");
    world.below("dm-0", BACK);
    world.put("sys/devices/dm-0/dm/uuid", "CRYPT-LUKS2-x");
    let place = world.device("sda", BACK);
    world.put(&format!("{place}/sda1/partition"), "1");
    world.link("sys/class/block/sda1", &format!("{place}/sda1"));
    world.part("dm-0", "sda1");
    world.is(PowerLoss, Declared, &["the system flushes it"]);
    // A process that may write to /sys can set this.
    world.put("sys/devices/dm-0/queue/write_cache", THROUGH);
    world.is(
        OsCrash,
        Contradicted,
        &["sda: ", "volatile cache", "dm-0 says `write through`"],
    );
    let facts = world.facts().unwrap();
    written_directly(&facts, OsCrash);
    assert_eq!(facts.write_through().guarantee, OsCrash);
    world.put("sys/devices/sda/queue/write_cache", "strange");
    world.is(OsCrash, Unknown, &["sda"]);
    // The same setting is harmless if no device below has a cache.
    world.remove("sys/devices/dm-0/slaves/sda1");
    world.device("nvme0n1", THROUGH);
    world.put("sys/devices/nvme0n1/queue/fua", "0");
    world.part("dm-0", "nvme0n1");
    world.is(PowerLoss, Declared, &[]);
}

#[test]
fn the_weakest_part_counts() {
    let world = World::new();
    world.mounted("xfs", "/dev/md0", "rw");
    world.below("md0", BACK);
    world.is(
        OsCrash,
        Unknown,
        &["md0: what it is made of cannot be seen"],
    );
    world.device("sda", BACK);
    world.part("md0", "sda");
    world.part("md0", "nbd3");
    world.is(OsCrash, Unknown, &["nbd3: md0 is made of it"]);
    world.device("nbd3", BACK);
    world.is(PowerLoss, Unknown, &["nbd3: it is served"]);
    // Nothing flushes the parts of a device that is set to `write through`.
    world.put("sys/devices/md0/queue/write_cache", THROUGH);
    world.is(OsCrash, Contradicted, &["sda: it has a volatile cache"]);
    world.remove("sys/devices/md0/slaves/sda");
    world.is(OsCrash, Unknown, &["nbd3: it is served"]);
    world.put("sys/devices/nbd3/queue/write_cache", THROUGH);
    world.is(PowerLoss, Unknown, &["nbd3: it is served"]);
    world.device("zram1", BACK);
    world.part("md0", "zram1");
    world.is(ProcessCrash, Contradicted, &["zram1: it is memory"]);
    let layers = world.facts().unwrap().layers;
    let levels: Vec<_> = layers.iter().map(|l| (l.level, &*l.name)).collect();
    assert_eq!(levels, [(1, "md0"), (2, "nbd3"), (2, "zram1")]);
}

/// A device without a filesystem rests on the least of its parts too.
#[test]
fn a_device_itself_is_as_good_as_its_parts() {
    let world = World::new();
    for name in ["md0", "sda", "nbd3", "zram1"] {
        world.device(name, BACK);
    }
    world.part("md0", "sda");
    world.part("md0", "nbd3");
    let look = |name: &str| {
        let device = block::by_name(name, &world.roots).unwrap().unwrap();
        stack::look_at_device(&device, &world.roots).unwrap()
    };
    for (name, source, expected) in [
        ("sda", Source::Device, (PowerLoss, Declared)),
        ("md0", Source::Server, (PowerLoss, Unknown)),
        ("zram1", Source::System, (ProcessCrash, Contradicted)),
    ] {
        let facts = look(name);
        let a = facts.assess(Method::Fdatasync, FileState::Zeroed).unwrap();
        assert_eq!((a.guarantee, a.verdict), expected, "{a:?}");
        assert_eq!(facts.device.unwrap().cache_source, source, "{name}");
    }
}

#[test]
fn the_other_devices_of_an_xfs_count() {
    for option in ["logdev", "rtdev"] {
        let world = World::new();
        world.mounted("xfs", "/dev/sda", &format!("rw,{option}=/dev/sdx"));
        world.below("sda", BACK);
        world.is(OsCrash, Unknown, &["/dev/sdx: it was not found"]);
    }
}

/// A bcachefs without flushes of its journal leaves the location of synced data in memory. A reiserfs without
/// barriers leaves synced data in the device's cache.
#[test]
fn an_option_that_turns_syncs_off_counts() {
    let options = |name: &str, options: &str| {
        let world = World::new();
        world.mounted(name, "/dev/sda", options);
        world.below("sda", BACK);
        world
    };
    for (name, off, guarantee, words) in [
        (
            "bcachefs",
            "rw,journal_flush_disabled",
            ProcessCrash,
            "a sync does not write it",
        ),
        ("reiserfs", "rw,barrier=none", OsCrash, "without barriers"),
    ] {
        options(name, "rw,relatime").is(PowerLoss, Declared, &[]);
        let world = options(name, off);
        world.is(guarantee, Contradicted, &[words]);
        assert_eq!(world.facts().unwrap().write_through().guarantee, guarantee);
    }
}

#[test]
fn a_device_that_keeps_nothing_itself_is_no_disk() {
    for name in ["loop3", "dm-0", "md0", "md_d0", "bcache0"] {
        let world = World::new();
        world.mounted("xfs", &format!("/dev/{name}"), "rw");
        world.below(name, BACK);
        world.is(OsCrash, Unknown, &["what it is made of cannot be seen"]);
    }
}

#[test]
fn a_device_is_not_believed_against_its_own_driver() {
    let world = World::honest();
    world.put("sys/devices/vda/queue/write_cache", THROUGH);
    world.is(OsCrash, Unknown, &["treats it as `write through`"]);
    world.put("sys/devices/vda/cache_type", BACK);
    world.is(
        OsCrash,
        Contradicted,
        &["vda: the kernel is configured", "`write back`"],
    );
    world.remove("sys/devices/vda/cache_type");
    world.put(
        "sys/devices/vda/device/scsi_disk/0:0:0:0/cache_type",
        "write back, no read (daft)",
    );
    world.is(OsCrash, Contradicted, &["vda: the kernel is configured"]);
}

/// Checks the guarantee of direct writes. The emulator of aarch64 does not pass on the query for direct I/O;
/// everywhere else there must be an answer.
fn written_directly(facts: &Facts, guarantee: Guarantee) {
    let written = facts.assess(Method::Direct, FileState::Zeroed);
    if written.is_none() && cfg!(target_arch = "aarch64") {
        return;
    }
    let written = written.expect("direct writes are known here");
    assert_eq!(written.guarantee, guarantee, "{written:?}");
}

#[test]
fn a_loop_device_that_drops_flushes_keeps_nothing_from_the_systems_cache() {
    let world = World::new();
    world.mounted("xfs", "/dev/loop3", "rw");
    world.below("loop3", THROUGH);
    world.is(OsCrash, Unknown, &["loop3: what it is made of"]);
    world.put("sys/devices/loop3/loop/backing_file", "/no/such/image\n");
    let words = [
        "/no/such/image, the file of loop3",
        "loop3 says `write through`",
    ];
    world.is(ProcessCrash, Contradicted, &words);
    world.put("sys/devices/loop3/queue/write_cache", BACK);
    world.is(
        OsCrash,
        Unknown,
        &["/no/such/image, the file of loop3", "not found here"],
    );
    let facts = world.facts().unwrap();
    written_directly(&facts, ProcessCrash);
    world.put(
        "sys/devices/loop3/loop/backing_file",
        "/memfd:image (deleted)\n",
    );
    world.is(ProcessCrash, Contradicted, &["in memory"]);
    // A filesystem without barriers below the loop device has no stronger guarantee.
    world.mounted("xfs", "/dev/loop3", "rw,nobarrier");
    world.is(ProcessCrash, Contradicted, &["without barriers"]);
}

#[test]
fn every_device_of_a_btrfs_counts() {
    let world = World::new();
    world.mounted("btrfs", "/dev/sda", "rw");
    world.below("sda", BACK);
    world.is(OsCrash, Unknown, &["its other devices cannot be seen"]);
    world.put("sys/fs/btrfs/features/x", "");
    world.put("sys/fs/btrfs/0d3a/devices/sda", "");
    world.is(PowerLoss, Declared, &[]);
    world.put("sys/fs/btrfs/0d3a/devices/zram0", "");
    world.device("zram0", BACK);
    world.is(ProcessCrash, Contradicted, &["zram0"]);
}

/// The system does not name the devices of an f2fs. Its size is that of all of them.
#[test]
fn an_f2fs_that_is_larger_than_its_device_is_on_several() {
    let world = World::new();
    world.mounted("f2fs", "/dev/sda1", "rw");
    let place = world.device("sda", BACK);
    world.put(&format!("{place}/sda1/partition"), "1");
    world.is_below(&format!("{place}/sda1"));
    let spread = || {
        world.is(
            OsCrash,
            Unknown,
            &["sda1: it may be spread over other devices"],
        )
    };
    spread();
    // The size of the partition counts, in sectors.
    let (small, large) = ("8\n", format!("{}\n", 1_u64 << 50));
    world.put(&format!("{place}/size"), &large);
    spread();
    world.put(&format!("{place}/sda1/size"), small);
    spread();
    world.put(&format!("{place}/sda1/size"), &large);
    world.is(PowerLoss, Declared, &[]);
    // The filesystem reports less than its size.
    world.put("sys/fs/f2fs/sda1/carve_out", "1\n");
    spread();
    world.put("sys/fs/f2fs/sda1/carve_out", "0\n");
    world.is(PowerLoss, Declared, &[]);
    world.mounted("f2fs", "/dev/sda1", "rw,prjquota");
    spread();
}

/// The other device is a loop device. No barrier reaches its file either, and its file may lie on the same btrfs.
#[test]
fn another_device_of_a_btrfs_is_followed_like_the_first_one() {
    let world = World::new();
    world.below("sda", BACK);
    world.device("loop3", BACK);
    for name in ["sda", "loop3"] {
        world.put(&format!("sys/fs/btrfs/0d3a/devices/{name}"), "");
    }
    let keeps = |file: &str| world.put("sys/devices/loop3/loop/backing_file", file);
    keeps("/no/such/image");
    world.mounted("btrfs", "/dev/sda", "rw,nobarrier");
    world.is(
        ProcessCrash,
        Contradicted,
        &["the file of loop3", "without barriers"],
    );
    world.put("image", "");
    keeps(world.temp.path().join("image").to_str().unwrap());
    world.mounted("btrfs", "/dev/sda", "rw");
    world.is(OsCrash, Unknown, &["below the greatest depth"]);
}

#[test]
fn who_serves_a_filesystem_answers_for_it() {
    let world = World::new();
    world.mounted("fuseblk", "/dev/sda1", "rw");
    world.below("sda", BACK);
    world.is(PowerLoss, Unknown, &["a program serves this filesystem"]);
}
