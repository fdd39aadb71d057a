//! Party that a guarantee rests on.

use super::*;

/// Paths in `/sys`, which determine what a device is. `vda` is a virtual disk by its name.
const NVME: &str = "pci0000:00/0000:00:01.0/nvme/nvme0/nvme0n1";
const SCSI: &str = "pci0000:00/0000:00:02.0/ata1/host0/target0:0:0/0:0:0:0/block/sda";
const USB: &str = "pci0000:00/0000:00:03.0/usb2/2-1/2-1:1.0/host1/target1:0:0/1:0:0:0/block/sdb";
const VIRTIO_SCSI: &str = "pci0000:00/0000:00:04.0/virtio2/host2/target2:0:0/2:0:0:0/block/sdc";

/// Makes an xfs on the device at that path.
fn on(place: &str, cache: &str) -> World {
    let world = World::new();
    let name = place.rsplit('/').next().unwrap();
    world.mounted("xfs", &format!("/dev/{name}"), "rw");
    world.below(place, cache);
    world
}

impl World {
    #[track_caller]
    fn rests_on(&self, source: Source, words: &str) {
        let facts = self.facts().unwrap();
        for method in [Method::Fdatasync, Method::Dsync] {
            let a = facts.assess(method, FileState::Zeroed).unwrap();
            assert_eq!((a.guarantee, a.verdict), (PowerLoss, Declared), "{a:?}");
            assert_eq!(a.source, source, "{a:?}");
            assert!(a.evidence.contains(words), "{a:?}");
        }
        assert_eq!(facts.device.unwrap().cache_source, source);
    }
}

/// A user or a rule may have written to `queue/write_cache`, or the kernel assumes it. No flush is sent then, and no
/// party reports that none is needed.
#[test]
fn write_through_that_nobody_answers_for_is_no_promise() {
    for (place, remedy) in [
        (NVME, "as root"),
        (SCSI, "as root"),
        (USB, "doctor --ask"),
        ("vda", "operator of the host"),
        (VIRTIO_SCSI, "as root"),
        ("xvda", "operator of the host"),
        ("mmcblk0", "only a power cut decides"),
    ] {
        let world = on(place, THROUGH);
        world.is(
            OsCrash,
            Unknown,
            &["no party reports", "treats it as `write through`", remedy],
        );
        let facts = world.facts().unwrap();
        assert_eq!(facts.device.as_ref().unwrap().cache_source, Source::Setting);
        written_directly(&facts, OsCrash);
        for method in Method::ALL {
            let said = facts.assess(method, FileState::Zeroed);
            let said = said.map_or_else(String::new, |a| a.evidence);
            assert!(!said.contains("device says"), "{method}: {said}");
        }
        world.put(&format!("sys/devices/{place}/queue/write_cache"), BACK);
        world.is(PowerLoss, Declared, &["the system flushes it"]);
        written_directly(&world.facts().unwrap(), OsCrash);
    }
}

/// The driver sets both features with the cache, and only the cache can be set afterwards.
#[test]
fn an_nvme_disk_is_known_by_the_fua_that_its_driver_set() {
    let world = on(NVME, THROUGH);
    let fua = format!("sys/devices/{NVME}/queue/fua");
    world.put(&fua, "0\n");
    world.rests_on(Source::Device, "the device says that it has no");
    written_directly(&world.facts().unwrap(), PowerLoss);
    world.put(&fua, "1\n");
    world.is(
        OsCrash,
        Contradicted,
        &["says itself that it has one", "queue/fua"],
    );
}

/// The kernel assumes it of any SCSI disk without a caching page, and `temporary write through` sets it without a
/// command to the disk.
#[test]
fn write_through_of_a_scsi_disk_is_not_its_word() {
    let raid = "pci0000:00/0000:00:05.0/host4/target4:0:0/4:0:0:0/block/sdd";
    for (place, vendor, model) in [
        (SCSI, "ATA", "INTEL SSDSC2BB48"),
        (raid, "HP", "LOGICAL VOLUME"),
        (raid, "VMware", "Virtual disk"),
        (USB, "WD", "My Passport"),
        (VIRTIO_SCSI, "QEMU", "QEMU HARDDISK"),
    ] {
        let world = on(place, THROUGH);
        let put = |file: &str, text: &str| world.put(&format!("sys/devices/{place}/{file}"), text);
        put("device/vendor", vendor);
        put("device/model", model);
        put("device/scsi_disk/0:0:0:0/cache_type", "write through\n");
        let words = ["no party reports", "assumes this of a SCSI disk", "as root"];
        world.is(OsCrash, Unknown, &words);
        let facts = world.facts().unwrap();
        assert_eq!(facts.device.as_ref().unwrap().cache_source, Source::Setting);
        written_directly(&facts, OsCrash);
        put("device/scsi_disk/0:0:0:0/cache_type", BACK);
        world.is(OsCrash, Contradicted, &["says itself that it has one"]);
        written_directly(&world.facts().unwrap(), OsCrash);
    }
}

#[test]
fn a_virtual_disk_is_the_word_of_its_hypervisor() {
    for place in ["vda", VIRTIO_SCSI] {
        let world = on(place, BACK);
        world.rests_on(Source::Hypervisor, "by the hypervisor's word");
        written_directly(&world.facts().unwrap(), OsCrash);
    }
    let world = on("vda", THROUGH);
    world.put("sys/devices/vda/cache_type", THROUGH);
    world.rests_on(Source::Hypervisor, "by the hypervisor's word");
    written_directly(&world.facts().unwrap(), PowerLoss);
    // A virtual disk without a flush describes no cache.
    let world = on("vda", THROUGH);
    world.put("sys/devices/vda/cache_type", THROUGH);
    world.put("sys/devices/vda/device/features", &"0".repeat(64));
    world.is(OsCrash, Unknown, &["offers no flush", "host's memory"]);
    for feature in [9, 11] {
        let features = format!("{}1", "0".repeat(feature));
        world.put("sys/devices/vda/device/features", &features);
        world.rests_on(Source::Hypervisor, "by the hypervisor's word");
    }
}

#[test]
fn a_disk_on_a_network_is_its_servers_word() {
    let iscsi = "platform/host3/session1/target3:0:0/3:0:0:0/block/sdb";
    let fabric = "virtual/nvme-fabrics/ctl/nvme1/nvme1n1";
    for place in [iscsi, fabric] {
        let world = on(place, BACK);
        world.put(&format!("sys/devices/{fabric}/device/transport"), "tcp\n");
        world.is(PowerLoss, Unknown, &["it is served"]);
    }
    for transport in ["tcp", "rdma", "fc"] {
        let world = on(fabric, BACK);
        let file = format!("sys/devices/{fabric}/device/transport");
        world.put(&file, transport);
        world.is(PowerLoss, Unknown, &["it is served"]);
        // The controllers of a subsystem lie beside its head.
        let subsystem = "virtual/nvme-subsystem/nvme-subsys0";
        let world = on(&format!("{subsystem}/nvme0n1"), BACK);
        world.is(PowerLoss, Declared, &[]);
        world.put(
            &format!("sys/devices/{subsystem}/nvme0/transport"),
            transport,
        );
        world.is(PowerLoss, Unknown, &["it is served"]);
    }
    let local = on(NVME, BACK);
    local.put(&format!("sys/devices/{NVME}/device/transport"), "pcie\n");
    local.is(PowerLoss, Declared, &[]);
}

/// If several parties have to keep their word, the least reliable one counts.
#[test]
fn the_least_of_all_that_answer_counts() {
    let world = on("md0", THROUGH);
    world.device("nvme0n1", THROUGH);
    world.put("sys/devices/nvme0n1/queue/fua", "0");
    world.part("md0", "nvme0n1");
    world.rests_on(Source::Device, "the device says");
    written_directly(&world.facts().unwrap(), PowerLoss);
    world.device("nvme1n1", THROUGH);
    world.part("md0", "nvme1n1");
    world.is(OsCrash, Unknown, &["nvme1n1: no party reports"]);
    let facts = world.facts().unwrap();
    assert_eq!(facts.device.as_ref().unwrap().cache_source, Source::Setting);
    written_directly(&facts, OsCrash);
}
