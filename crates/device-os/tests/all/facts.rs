//! Facts about filesystems and devices.

use crate::common::loopfs::{self, LoopFs};
use crate::common::{in_memory, on_disk, on_each};
use logforce_device::{
    AlignedBuf, Barrier, Directory, Facts, FileState, FilesystemKind, Guarantee, Method, OpenFile,
    System, Verdict, Write, WriteCache,
};
use logforce_device_os::{Counter, OsSystem, block_device_counters};
use std::io::ErrorKind;
use std::path::Path;
use tempfile::TempDir;

fn facts(path: &Path) -> Facts {
    OsSystem::new().directory(path).unwrap().facts().unwrap()
}

#[test]
fn memory_is_volatile() {
    let Some(temp) = in_memory() else { return };
    let f = facts(temp.path());
    assert_eq!(
        (f.filesystem.as_str(), f.kind),
        ("tmpfs", FilesystemKind::Volatile)
    );
    assert_eq!(f.mount_point, "/dev/shm");
    assert_eq!(f.device, None);
    let e = block_device_counters(temp.path()).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Unsupported);
    assert!(e.to_string().contains("tmpfs"), "{e}");
}

#[test]
fn the_facts_agree_with_mountinfo_and_sysfs() {
    let (temp, _dir) = on_disk();
    let f = facts(temp.path());
    println!("{f:#?}");
    let out = std::process::Command::new("findmnt")
        .args(["-n", "-o", "FSTYPE,TARGET", "-T"])
        .arg(temp.path())
        .output();
    if let Ok(out) = out {
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        let mut words = text.split_whitespace();
        assert_eq!(words.next(), Some(f.filesystem.as_str()));
        assert_eq!(words.next(), Some(f.mount_point.as_str()));
    }
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(mounts.lines().any(|l| {
        l.contains(&format!(" - {} ", f.filesystem)) && l.split(' ').nth(4) == Some(&f.mount_point)
    }));
    assert!(
        f.mount_options.split(',').any(|o| o == "rw"),
        "{}",
        f.mount_options
    );
    if let Some(d) = &f.device {
        let queue = |name: &str| {
            let path = format!("/sys/block/{}/queue/{name}", d.name.replace('/', "!"));
            std::fs::read_to_string(path).unwrap().trim().to_owned()
        };
        assert_eq!(queue("logical_block_size"), d.logical_sector.to_string());
        assert_eq!(queue("physical_block_size"), d.physical_sector.to_string());
        let cache = match queue("write_cache").as_str() {
            "write back" => WriteCache::Back,
            "write through" => WriteCache::Through,
            _ => WriteCache::Unknown,
        };
        assert_eq!(cache, d.write_cache);
    }
    assert!(f.write_unit() >= 4096);
}

fn assess(f: &Facts, method: Method) -> (Guarantee, Verdict) {
    let a = f.assess(method, FileState::Zeroed).unwrap();
    (a.guarantee, a.verdict)
}

#[test]
fn each_filesystem_is_what_it_is() {
    let kinds = [
        ("ext4", 64),
        ("ext4-nojournal", 64),
        ("ext4-datajournal", 64),
        ("ext4-nobarrier", 64),
        ("xfs", 320),
        ("btrfs", 128),
    ];
    on_each(&kinds, |kind, fs| {
        let f = facts(fs.path());
        println!("{f:#?}");
        assert_eq!(f.filesystem, kind.split('-').next().unwrap());
        assert_eq!(Path::new(&f.mount_point), fs.path());
        let expected = match kind {
            "ext4-datajournal" | "btrfs" => FilesystemKind::Relocating,
            _ => FilesystemKind::InPlace,
        };
        assert_eq!(f.kind, expected);
        assert_eq!(f.barriers, Some(kind != "ext4-nobarrier"));
        assert_eq!(f.direct.is_some(), kind != "ext4-datajournal");
        let device = f.device.as_ref().expect("a loop device");
        assert_eq!(device.name, fs.device());
        assert!(
            device.model.ends_with("/image"),
            "the backing file: {}",
            device.model
        );
        let noted = |what: &str| {
            f.notes
                .iter()
                .any(|n| n.contains(what) && !n.starts_with("Below"))
        };
        assert_eq!(noted("e2fsck"), kind == "ext4-nojournal", "{:?}", f.notes);
        assert!(noted("keeps its blocks in the file"), "{:?}", f.notes);
        if device.write_cache == WriteCache::Back {
            let expected = match kind {
                // No flush reaches the loop device, so its file stays in the system's cache.
                "ext4-nobarrier" => (Guarantee::ProcessCrash, Verdict::Contradicted),
                _ => (Guarantee::PowerLoss, Verdict::Declared),
            };
            assert_eq!(assess(&f, Method::Fdatasync), expected);
        }
    });
}

/// The flag is written into the image: `chattr +j` needs CAP_SYS_RESOURCE, which root in a container does not
/// have.
#[test]
fn a_directory_marked_for_data_journalling() {
    // EXT4_EXTENTS_FL, which any new directory has, and EXT4_JOURNAL_DATA_FL.
    const SET_FLAGS: &str = "set_inode_field /j flags 0x84000";
    on_each(&[("ext4", 64), ("ext4-nodelalloc", 64)], |kind, fs| {
        let dir = fs.path().join("j");
        std::fs::create_dir(&dir).unwrap();
        assert_eq!(facts(&dir).kind, FilesystemKind::InPlace);
        if let Err(why) = fs.change_image("debugfs", &["-w", "-R", SET_FLAGS]) {
            return logforce_testkit::skip!("{why}");
        }
        let f = facts(&dir);
        assert_eq!(f.kind, FilesystemKind::Relocating);
        assert!(
            f.notes.iter().any(|n| n.contains("journalling")),
            "{:?}",
            f.notes
        );
        // ext4 obeys the flag only without delayed allocation. Direct writes go through the cache
        // then.
        if kind == "ext4-nodelalloc" {
            assert_eq!(f.direct, None);
        }
        // A directory beside it is not marked.
        let beside = facts(fs.path());
        assert_eq!(beside.kind, FilesystemKind::InPlace);
        assert!(beside.direct.is_some());
    });
}

/// Tests an option that the mount options do not show.
#[test]
fn data_journalling_by_the_superblock_is_found() {
    on_each(&[("ext4", 64)], |_, fs| {
        if let Err(why) = fs.change_image("tune2fs", &["-o", "journal_data"]) {
            return logforce_testkit::skip!("{why}");
        }
        let f = facts(fs.path());
        assert_eq!(f.kind, FilesystemKind::Relocating, "{f:?}");
        assert_eq!(f.direct, None);
    });
}

#[test]
fn an_image_in_memory_is_told_apart() {
    let Some(shm) = in_memory() else { return };
    match LoopFs::new("ext4", 32, shm.path()) {
        Ok(fs) => {
            let f = facts(fs.path());
            assert!(
                f.notes
                    .iter()
                    .any(|n| n.contains("tmpfs") && n.contains("survives")),
                "{:?}",
                f.notes
            );
            let a = f.assess(Method::Fdatasync, FileState::Zeroed).unwrap();
            let worth = (a.guarantee, a.verdict);
            assert_eq!(worth, (Guarantee::ProcessCrash, Verdict::Contradicted));
            let named = format!("the tmpfs at /dev/shm below {}", fs.device());
            assert!(a.evidence.contains(&named), "{a:?}");
        }
        Err(why) => logforce_testkit::skip!("{why}"),
    }
}

#[test]
fn an_overlay_says_that_it_is_one() {
    on_each(&[("ext4", 32), ("ext4-nojournal", 32)], |kind, fs| {
        let sub = |name: &str| {
            let p = fs.path().join(name);
            std::fs::create_dir(&p).unwrap();
            p.display().to_string()
        };
        let (lower, upper, work, merged) = (sub("l"), sub("u"), sub("w"), sub("m"));
        for volatile in ["", ",volatile"] {
            let options = format!("lowerdir={lower},upperdir={upper},workdir={work}{volatile}");
            let mounted = std::process::Command::new("mount")
                .args(["-t", "overlay", "-o", &options, "overlay", &merged])
                .output();
            if !mounted.as_ref().is_ok_and(|o| o.status.success()) {
                return logforce_testkit::skip!("no overlay: {mounted:?}");
            }
            let f = facts(Path::new(&merged));
            let e = block_device_counters(Path::new(&merged)).map(drop);
            loopfs::unmount(Path::new(&merged)).unwrap();
            assert_eq!(
                (f.filesystem.as_str(), f.kind),
                ("overlay", FilesystemKind::Other)
            );
            assert!(f.notes.iter().any(|n| n.contains(&upper)), "{:?}", f.notes);
            assert_eq!(f.barriers, Some(volatile.is_empty()));
            let seen = f.notes.iter().any(|n| n.contains("the ext4 at"));
            assert_eq!(seen, volatile.is_empty(), "{:?}", f.notes);
            // All layers below it can be seen.
            let expected = match volatile {
                "" => (Guarantee::PowerLoss, Verdict::Declared),
                _ => (Guarantee::ProcessCrash, Verdict::Contradicted),
            };
            assert_eq!(assess(&f, Method::Fdatasync), expected, "{f:#?}");
            // The upper directory's filesystem is the one that a power cut leaves to be repaired.
            let journalled = volatile.is_empty().then_some(kind == "ext4");
            assert_eq!(f.journalled, journalled, "{kind} {volatile}");
            assert_eq!(e.unwrap_err().kind(), ErrorKind::Unsupported);
        }
    });
}

/// Tests that an overlay has the guarantee of its upper directory, if that can be found.
#[test]
fn an_overlay_is_worth_its_upper_directory() {
    let Some(shm) = in_memory() else { return };
    on_each(&[("ext4", 32)], |_, fs| {
        let sub = |at: &Path, name: &str| {
            let p = at.join(name);
            std::fs::create_dir(&p).unwrap();
            p
        };
        let (lower, merged) = (sub(fs.path(), "l"), sub(fs.path(), "m"));
        let (upper, work) = (sub(shm.path(), "u"), sub(shm.path(), "w"));
        sub(&sub(&lower, "a"), "b");
        let options = format!(
            "lowerdir={},upperdir={},workdir={}",
            lower.display(),
            upper.display(),
            work.display()
        );
        let mounted = std::process::Command::new("mount")
            .args(["-t", "overlay", "-o", &options, "overlay"])
            .arg(&merged)
            .output();
        if !mounted.as_ref().is_ok_and(|o| o.status.success()) {
            return logforce_testkit::skip!("no overlay: {mounted:?}");
        }
        // Directories in the upper directory, and one that is not: nothing was ever written below `a`.
        sub(&merged, "new");
        let answer = ["", "new", "a/b"].map(|dir| facts(&merged.join(dir)));
        // Another directory now has the path of the upper directory, as in a container.
        let moved = shm.path().join("moved");
        std::fs::rename(&upper, &moved).unwrap();
        std::fs::create_dir(&upper).unwrap();
        let other = facts(&merged);
        std::fs::remove_dir(&upper).unwrap();
        let gone = facts(&merged);
        loopfs::unmount(&merged).unwrap();
        for f in answer {
            let a = f.assess(Method::Fdatasync, FileState::Zeroed).unwrap();
            assert_eq!(a.guarantee, Guarantee::ProcessCrash, "{f:#?}");
            assert!(a.evidence.contains(upper.to_str().unwrap()), "{a:?}");
        }
        for f in [other, gone] {
            let unseen = (Guarantee::OsCrash, Verdict::Unknown);
            assert_eq!(assess(&f, Method::Fdatasync), unseen, "{f:#?}");
        }
    });
}

/// A process that may write to `/sys` can set a loop device to drop flushes. Nothing flushes the caches below
/// it then.
#[test]
fn a_loop_device_told_to_write_through_promises_nothing() {
    on_each(&[("ext4", 32)], |_, fs| {
        let attribute = format!("/sys/block/{}/queue/write_cache", fs.device());
        assert_eq!(
            assess(&facts(fs.path()), Method::DirectDsync),
            (Guarantee::PowerLoss, Verdict::Declared),
            "{:#?}",
            facts(fs.path())
        );
        if let Err(e) = std::fs::write(&attribute, "write through") {
            return logforce_testkit::skip!("{attribute}: {e}");
        }
        let f = facts(fs.path());
        // The device may outlive this test.
        std::fs::write(&attribute, "write back").unwrap();
        let a = f.assess(Method::DirectDsync, FileState::Zeroed).unwrap();
        let worth = (a.guarantee, a.verdict);
        assert_eq!(worth, (Guarantee::ProcessCrash, Verdict::Contradicted));
        let words = format!("{} says `write through`", fs.device());
        assert!(a.evidence.contains(&words), "{a:?}");
        assert_eq!(f.write_through().guarantee, Guarantee::ProcessCrash);
    });
}

/// Makes one durable write to a new file.
fn write_through(dir: &dyn Directory, name: &str) {
    let file = dir.open(name, OpenFile::CREATE).unwrap();
    let buf = AlignedBuf::zeroed(16384, 4096);
    let ticket = file.submit(Write {
        offset: 0,
        buf,
        range: 0..16384,
        through: true,
    });
    file.complete(ticket).result.unwrap();
    file.barrier(Barrier::Full).unwrap();
}

#[test]
fn a_loop_devices_counters_count() {
    on_each(&[("ext4", 64), ("xfs", 320), ("btrfs", 128)], |kind, fs| {
        let dir = OsSystem::new().directory(fs.path()).unwrap();
        let counter = Counter::of(fs.path()).unwrap();
        assert_eq!(counter.device(), fs.device());
        let before = counter.sample().unwrap();
        write_through(&*dir, "a");
        let after = counter.sample().unwrap();
        println!("{kind}: {before:?} {after:?}");
        assert_eq!(after.device, fs.device());
        assert!(after.writes > before.writes);
        assert!(after.sectors_written >= before.sectors_written + 32);
        let device = facts(fs.path()).device.unwrap();
        if let (Some(b), Some(a), WriteCache::Back) =
            (before.flushes, after.flushes, device.write_cache)
        {
            assert!(a > b, "no flush was counted");
        }
        // Counters can also be found by a file on the device.
        let again = block_device_counters(&fs.path().join("a")).unwrap();
        assert!(again.writes >= after.writes);
    });
}

#[test]
fn the_disks_counters_can_be_read() {
    let temp = TempDir::new().unwrap();
    match block_device_counters(temp.path()) {
        Ok(c) => assert!(c.sectors_written > 0 && !c.device.is_empty(), "{c:?}"),
        Err(e) => assert_eq!(e.kind(), ErrorKind::Unsupported, "{e}"),
    }
    let e = Counter::of(Path::new("/no/such/place"))
        .map(drop)
        .unwrap_err();
    assert_eq!(e.kind(), ErrorKind::NotFound);
    assert!(e.to_string().contains("/no/such/place"), "{e}");
}

#[test]
fn a_filesystem_is_told_from_another_also_after_a_restart() {
    let (temp, _dir) = on_disk();
    let here = facts(temp.path());
    assert!(!here.kernel.is_empty() && here.capacity.is_some_and(|c| c > 1 << 20));
    let make = || LoopFs::new("ext4", 64, temp.path());
    let (mut a, b) = match (make(), make()) {
        (Ok(a), Ok(b)) => (a, b),
        (Err(skip), _) | (_, Err(skip)) => {
            logforce_testkit::skip!("{skip}");
            return;
        }
    };
    let (first, other) = (facts(a.path()), facts(b.path()));
    assert!(!first.volume.is_empty());
    assert_ne!(first.volume, other.volume);
    assert_ne!(first.volume, here.volume);
    let size = first.capacity.unwrap();
    assert!((32 << 20..=64 << 20).contains(&size), "{size}");
    a.mount_again().unwrap();
    assert_eq!(facts(a.path()).volume, first.volume);
}
