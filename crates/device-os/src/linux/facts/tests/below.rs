//! Devices that keep their blocks in something else: loop devices in files, mapped devices on other devices.

use super::*;
use logforce_device::Layer;

/// Makes an xfs on `loop3`, whose file is `image`, on the filesystem of the test's directory.
fn on_loop(image: &str) -> World {
    let world = World::new();
    world.mounted("xfs", "/dev/loop3", "rw");
    world.below("loop3", BACK);
    let file = world.temp.path().join(image);
    world.put(
        "sys/devices/loop3/loop/backing_file",
        &format!("{}\n", file.display()),
    );
    world.put("sys/devices/loop3/size", "512\n");
    world
}

#[test]
fn a_deleted_file_of_a_loop_device_ends_with_the_system() {
    let world = on_loop("image (deleted)");
    world.is(ProcessCrash, Contradicted, &["the file was deleted"]);
    written_directly(&world.facts().unwrap(), ProcessCrash);
    // A file may really have that name.
    world.put("image (deleted)", "");
    world.is(ProcessCrash, Unknown, &["by its name the file was deleted"]);
    // Only the end of the name counts.
    let world = on_loop("image (deleted) again");
    world.is(OsCrash, Unknown, &["not found here"]);
}

/// The path of the file may lead to another one here, which is too short for the device.
#[test]
fn the_file_of_a_loop_device_has_to_be_long_enough() {
    let world = on_loop("image");
    world.put("image", &"x".repeat(512 << 9));
    world.is(OsCrash, Unknown, &["below the greatest depth"]);
    // Each time the device, and the filesystem of its file.
    let levels = world.facts().unwrap().layers.into_iter().map(|l| l.level);
    assert_eq!(levels.max(), Some(2 * stack::DEPTH + 1));
    world.put("sys/devices/loop3/loop/offset", "512\n");
    world.is(OsCrash, Unknown, &["its path leads to another file"]);
}

/// The file of the loop device is on the same filesystem, which needs space for each write.
#[test]
fn a_loop_device_may_run_out_of_space_where_each_write_needs_some() {
    let world = on_loop("image");
    world.put("image", &"x".repeat(512 << 9));
    world.mounted("btrfs", "/dev/loop3", "rw");
    world.put("sys/fs/btrfs/0d3a/devices/loop3", "");
    for (dio, is_doubted) in [("0", true), ("1", false)] {
        world.put("sys/devices/loop3/loop/dio", dio);
        let layers = world.facts().unwrap().layers;
        let doubts = |l: &Layer| l.synced.evidence.contains("gives each write new blocks");
        assert_eq!(layers.iter().any(doubts), is_doubted, "{layers:#?}");
    }
}

#[test]
fn a_thin_volume_records_where_its_blocks_are_at_a_flush() {
    const POOL: &str = "LVM-8mxAg4qg9bmcN2yIkNvTIAaYzdRW0Kgxd8rq9cVvU9nWjZ0D4oZDyNGQnYLxTvSa";
    let world = World::new();
    world.mounted("xfs", "/dev/dm-4", "rw");
    world.below("dm-4", BACK);
    world.device("dm-3", BACK);
    world.device("sda", BACK);
    world.part("dm-4", "dm-3");
    world.part("dm-3", "sda");
    world.put("sys/devices/dm-4/dm/uuid", POOL);
    for (uuid, written) in [
        (POOL.to_owned(), OsCrash),
        (format!("{POOL}-real"), OsCrash),
        (format!("{POOL}-tpool"), ProcessCrash),
        (format!("{POOL}-vpool"), ProcessCrash),
        (format!("{POOL}-cvol"), ProcessCrash),
    ] {
        world.put("sys/devices/dm-3/dm/uuid", &uuid);
        world.is(PowerLoss, Declared, &[]);
        written_directly(&world.facts().unwrap(), written);
    }
    let a = world.facts().unwrap();
    if let Some(a) = a.assess(Method::Direct, FileState::Zeroed) {
        assert!(a.evidence.contains("dm-4"), "{a:?}");
    }
    // Only the name of a mapped device tells what it does.
    world.put("sys/devices/dm-3/dm/uuid", &format!("CRYPT-LUKS2-{POOL}"));
    for (uuid, written) in [
        ("CRYPT-LUKS2-x", OsCrash),
        ("mine", ProcessCrash),
        ("part1-mpath-3600", OsCrash),
        ("part1-mine", ProcessCrash),
    ] {
        world.put("sys/devices/dm-4/dm/uuid", uuid);
        written_directly(&world.facts().unwrap(), written);
    }
}

#[test]
fn what_a_read_only_mount_could_keep_is_nothing() {
    let mut facts = World::honest().facts().unwrap();
    facts.read_only = true;
    for method in [Method::Buffered, Method::Fdatasync, Method::Dsync] {
        let a = facts.assess(method, FileState::Zeroed).unwrap();
        assert_eq!((a.guarantee, a.verdict), (Guarantee::Nothing, Contradicted));
        assert!(a.evidence.contains("read-only"), "{a:?}");
    }
    assert_eq!(facts.write_through().guarantee, Guarantee::Nothing);
}
