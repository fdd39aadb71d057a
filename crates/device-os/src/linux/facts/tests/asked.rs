//! Answers of the devices themselves, asked by `logforce doctor` and read by an opening.

use super::recorded::{Recorded, identify, mode_sense};
use super::*;
use crate::asked::Asked;
use crate::linux::answers::{self, Answer, Cache};
use crate::linux::ask::ask_by;
use std::sync::atomic::Ordering::Relaxed;

const NVME: &str = "pci0000:00/0000:00:01.0/nvme/nvme0/nvme0n1";
const USB: &str = "pci0000:00/0000:00:03.0/usb2/2-1/2-1:1.0/host1/target1:0:0/1:0:0:0/block/sdb";

impl World {
    fn on(place: &str, cache: &str) -> World {
        let world = World::new();
        let name = place.rsplit('/').next().unwrap();
        world.mounted("xfs", &format!("/dev/{name}"), "rw");
        world.below(place, cache);
        world.put("proc/sys/kernel/random/boot_id", "0d3a\n");
        world
    }

    /// Asks the devices, which answer this, and returns what was asked and the number of commands.
    fn ask(&mut self, recorded: Recorded, with_usb: bool) -> (Vec<Asked>, usize) {
        let recorded = Arc::new(recorded);
        self.roots.commands = Arc::<Recorded>::clone(&recorded);
        let facts = self.facts().unwrap();
        let asked = ask_by(&facts.layers, with_usb, &self.roots).unwrap();
        (asked, recorded.sent.load(Relaxed))
    }
}

fn nvme(has_cache: bool, is_on: Option<u32>) -> Recorded {
    let mut recorded = Recorded::default();
    let own = recorded.devices.entry("nvme0n1".to_owned()).or_default();
    (own.identify, own.nvme_cache) = (Some(identify(has_cache)), is_on);
    recorded
}

#[test]
fn the_weaker_answer_counts_and_a_contradiction_is_named() {
    for (has_cache, is_on, expected, words) in [
        (true, Some(1), (OsCrash, Contradicted), "VWC 1, WCE 1"),
        (true, None, (OsCrash, Contradicted), "VWC 1"),
        (true, Some(0), (PowerLoss, Declared), "switched off"),
        (false, None, (PowerLoss, Declared), "VWC 0"),
    ] {
        let mut world = World::on(NVME, THROUGH);
        world.is(OsCrash, Unknown, &["no party reports"]);
        let (asked, sent) = world.ask(nvme(has_cache, is_on), false);
        assert_eq!((asked.len(), sent), (1, 1 + usize::from(has_cache)));
        assert!(
            asked[0].answer.as_ref().unwrap().contains(words),
            "{asked:?}"
        );
        world.is(expected.0, expected.1, &[words, "asked at 20"]);
        // The kernel flushes this one whatever the device says.
        world.put(&format!("sys/devices/{NVME}/queue/write_cache"), BACK);
        world.is(PowerLoss, Declared, &["the system flushes it"]);
        written_directly(&world.facts().unwrap(), OsCrash);
    }
}

/// A drive that took the place of another one, or another start of the system: the answer is that of another one.
#[test]
fn an_answer_holds_for_one_device_until_the_next_start() {
    let files = [
        "dev",
        "size",
        "wwid",
        "device/wwid",
        "device/serial",
        "device/vendor",
        "device/model",
        "dm/uuid",
        "dm/name",
    ];
    let mut changes = vec![
        ("proc/sys/kernel/random/boot_id".to_owned(), "4e2b\n"),
        (
            "run/nvme0n1".to_owned(),
            "logforce device answer 1\nboot 0d3a\n",
        ),
    ];
    changes.extend(files.map(|file| (format!("sys/devices/{NVME}/{file}"), "2048\n")));
    for (file, text) in changes {
        let mut world = World::on(NVME, THROUGH);
        world.ask(nvme(false, None), false);
        world.is(PowerLoss, Declared, &["VWC 0"]);
        world.put(&file, text);
        world.is(OsCrash, Unknown, &["no party reports"]);
    }
}

/// Anybody could write that a disk has no cache.
#[test]
fn an_answer_that_others_can_write_is_ignored() {
    let mut world = World::on(NVME, THROUGH);
    world.ask(nvme(false, None), false);
    let path = world.temp.path().join("run/nvme0n1");
    let mode = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    let dir = path.parent().unwrap().metadata().unwrap();
    assert_eq!(dir.mode() & 0o777, 0o755, "others could replace the file");
    assert_eq!(
        path.metadata().unwrap().mode() & 0o777,
        0o644,
        "for the users of logs"
    );
    for writable in [0o646, 0o664] {
        mode(writable);
        world.is(OsCrash, Unknown, &["no party reports"]);
    }
    mode(0o644);
    world.is(PowerLoss, Declared, &["VWC 0"]);
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&path, Some(65534), None).unwrap();
        world.is(OsCrash, Unknown, &["no party reports"]);
        std::os::unix::fs::chown(&path, Some(0), None).unwrap();
    }
    // A link could lead to a file that root wrote for another purpose.
    fs::rename(&path, world.temp.path().join("elsewhere")).unwrap();
    symlink(world.temp.path().join("elsewhere"), &path).unwrap();
    world.is(OsCrash, Unknown, &["no party reports"]);
    fs::remove_file(&path).unwrap();
    fs::rename(world.temp.path().join("elsewhere"), &path).unwrap();
    world.is(PowerLoss, Declared, &["VWC 0"]);
    // Nor what lies in a directory that others can write to.
    let run = world.temp.path().join("run");
    fs::set_permissions(&run, fs::Permissions::from_mode(0o777)).unwrap();
    world.is(OsCrash, Unknown, &["no party reports"]);
}

/// A container may have no node, or that of another device. Nothing was asked then.
#[test]
fn a_command_that_reaches_no_device_is_no_answer() {
    let place = "pci0000:00/0000:00:02.0/ata1/host0/target0:0:0/0:0:0:0/block/sda";
    let mut world = World::on(place, THROUGH);
    let said = format!("sys/devices/{place}/device/scsi_disk/0:0:0:0/cache_type");
    world.put(&said, "write through\n");
    world.roots.commands = Arc::new(crate::linux::commands::Real);
    let facts = world.facts().unwrap();
    let asked = ask_by(&facts.layers, false, &world.roots).unwrap();
    let why = asked[0].answer.as_ref().unwrap_err();
    assert!(why.contains("outside of a container"), "{why}");
    world.is(OsCrash, Unknown, &["assumes this of a SCSI disk"]);
    world.put("dev/sda", "");
    world.put(&format!("sys/devices/{place}/dev"), "8:0\n");
    let (asked, sent) = world.ask(Recorded::default(), false);
    assert_eq!(sent, 0);
    let why = asked[0].answer.as_ref().unwrap_err();
    assert!(why.contains("that of another device"), "{why}");
}

/// The answer counts for the process that asked, also where it cannot be stored.
#[test]
fn an_answer_that_cannot_be_stored_counts_once() {
    let mut world = World::on(NVME, THROUGH);
    world.put("run", "a file in the place of the directory");
    let (asked, _) = world.ask(nvme(true, Some(1)), false);
    let said = asked[0].answer.as_ref().unwrap();
    assert!(
        said.contains("WCE 1") && said.contains("logs will not know it"),
        "{said}"
    );
    world.is(OsCrash, Contradicted, &["WCE 1"]);
}

fn bridged(mode_sense: Option<Vec<u8>>, ata: Option<Vec<u8>>) -> Recorded {
    let mut recorded = Recorded::default();
    let own = recorded.devices.entry("sdb".to_owned()).or_default();
    (own.mode_sense, own.ata) = (mode_sense, ata);
    recorded
}

fn usb() -> World {
    let world = World::on(USB, THROUGH);
    let said = format!("sys/devices/{USB}/device/scsi_disk/1:0:0:0/cache_type");
    world.put(&said, "write through\n");
    world
}

/// Makes IDENTIFY DEVICE of a disk with a write cache.
fn ata(is_on: bool) -> Vec<u8> {
    let mut words = [0u16; 256];
    (words[27], words[82], words[83]) = (0x5744, 0x20, 0x4000);
    words[85] = if is_on { 0x20 } else { 0 };
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

#[test]
fn a_usb_bridge_is_asked_only_on_request() {
    let mut world = usb();
    let (asked, sent) = world.ask(bridged(Some(mode_sense(false, 0)), None), false);
    assert_eq!(sent, 0, "a command may reset the bridge");
    let why = asked[0].answer.as_ref().unwrap_err();
    assert!(why.contains("--ask"), "{why}");
    world.is(OsCrash, Unknown, &["assumes this of a SCSI disk"]);
    for (recorded, expected, words) in [
        (
            bridged(Some(mode_sense(false, 0)), None),
            (PowerLoss, Declared),
            "WCE 0",
        ),
        (
            bridged(Some(mode_sense(true, 0x10)), None),
            (OsCrash, Contradicted),
            "WCE 1",
        ),
        (
            bridged(None, Some(ata(true))),
            (OsCrash, Contradicted),
            "write cache on",
        ),
        (
            bridged(Some(vec![3, 0, 0, 0]), Some(ata(false))),
            (PowerLoss, Declared),
            "write cache off",
        ),
        (
            bridged(Some(vec![0; 64]), Some(vec![0; 512])),
            (OsCrash, Unknown),
            "no caching mode page",
        ),
    ] {
        let mut world = usb();
        let (_, sent) = world.ask(recorded, true);
        assert!(sent > 0);
        world.is(expected.0, expected.1, &[words]);
    }
}

/// Without the right nothing was asked, and nothing is stored that would say so.
#[test]
fn a_disk_that_may_not_be_asked_is_not_silent() {
    let mut world = usb();
    let mut recorded = bridged(None, None);
    recorded.devices.get_mut("sdb").unwrap().is_denied = true;
    let (asked, sent) = world.ask(recorded, true);
    assert_eq!(sent, 1);
    let why = asked[0].answer.as_ref().unwrap_err();
    assert!(why.contains("run it as root"), "{why}");
    assert!(!world.temp.path().join("run").exists());
}

/// The model is the word of the bridge, or of a hypervisor that emulates one.
#[test]
fn a_usb_bridge_is_one_whatever_model_it_claims_to_be() {
    for vendor in ["QEMU", "VMware", "APPLE SSD"] {
        let mut world = usb();
        world.put(&format!("sys/devices/{USB}/device/vendor"), vendor);
        world.put(&format!("sys/devices/{USB}/device/model"), "HARDDISK");
        let answer = || bridged(Some(mode_sense(true, 0)), None);
        let (asked, sent) = world.ask(answer(), false);
        assert_eq!(sent, 0, "{asked:?}");
        world.is(OsCrash, Unknown, &["assumes this of a SCSI disk"]);
        assert_eq!(world.ask(answer(), true).1, 1);
        world.is(OsCrash, Contradicted, &["WCE 1"]);
    }
}

/// A virtio disk has no command for it. A SCSI disk behind virtio has one.
#[test]
fn a_scsi_disk_behind_virtio_is_asked() {
    let scsi = "pci0000:00/0000:00:04.0/virtio2/host2/target2:0:0/2:0:0:0/block/sdb";
    for (place, commands) in [("pci0000:00/virtio1/block/vdb", 0), (scsi, 1)] {
        let mut world = World::on(place, THROUGH);
        let (asked, sent) = world.ask(bridged(Some(mode_sense(true, 0)), None), false);
        assert_eq!(sent, commands, "{asked:?}");
        let verdict = if sent == 0 { Unknown } else { Contradicted };
        world.is(OsCrash, verdict, &[]);
    }
}

#[test]
fn the_targets_of_a_mapped_device_decide() {
    for (targets, expected, written, words) in [
        ("linear", (PowerLoss, Declared), OsCrash, "flushes it"),
        (
            "striped,linear",
            (PowerLoss, Declared),
            OsCrash,
            "flushes it",
        ),
        ("thin", (PowerLoss, Declared), ProcessCrash, "flushes it"),
        ("cache", (PowerLoss, Declared), ProcessCrash, "flushes it"),
        (
            "snapshot",
            (PowerLoss, Declared),
            ProcessCrash,
            "flushes it",
        ),
        (
            "linear,writecache",
            (PowerLoss, Declared),
            ProcessCrash,
            "flushes it",
        ),
        (
            "flakey",
            (Guarantee::Nothing, Contradicted),
            Guarantee::Nothing,
            "`flakey` drops",
        ),
        (
            "linear,zero",
            (Guarantee::Nothing, Contradicted),
            Guarantee::Nothing,
            "`zero` drops",
        ),
        (
            "error,linear",
            (Guarantee::Nothing, Contradicted),
            Guarantee::Nothing,
            "`error` drops",
        ),
        (
            "flashcache",
            (OsCrash, Unknown),
            OsCrash,
            "its targets are flashcache",
        ),
    ] {
        let mut world = World::on("virtual/block/dm-3", BACK);
        world.put("sys/devices/virtual/block/dm-3/dev", "253:3\n");
        world.device("sda", BACK);
        world.put("sys/devices/virtual/block/dm-3/slaves/sda", "");
        world.is(OsCrash, Unknown, &["its targets cannot be seen"]);
        let mut recorded = Recorded::default();
        let own = recorded.devices.entry("dm-3".to_owned()).or_default();
        own.targets = Some(targets.split(',').map(str::to_owned).collect());
        world.ask(recorded, false);
        world.is(expected.0, expected.1, &[words]);
        written_directly(&world.facts().unwrap(), written);
        // It was changed since, to something on two devices.
        world.device("dm-4", BACK);
        world.part("virtual/block/dm-3", "dm-4");
        world.is(OsCrash, Unknown, &["its targets cannot be seen"]);
    }
}

/// The name of a layer contains the path of its file, which may be longer than the name of a file may be.
#[test]
fn a_layer_with_a_long_name_is_no_device() {
    let mut world = World::on("loop3", BACK);
    let file = format!("/no/{}/{}", "such".repeat(40), "image".repeat(30));
    world.put("sys/devices/loop3/loop/backing_file", &file);
    assert_eq!(world.ask(Recorded::default(), false), (Vec::new(), 0));
    world.is(OsCrash, Unknown, &[&file]);
}

#[test]
fn an_answer_is_read_as_it_was_stored() {
    let world = World::on(NVME, THROUGH);
    let device = block::by_name("nvme0n1", &world.roots).unwrap().unwrap();
    for cache in [
        Cache::On,
        Cache::Off,
        Cache::None,
        Cache::Silent,
        Cache::Mapped,
    ] {
        let answer = Answer::new(cache, "a command", "in two\nlines".to_owned());
        answers::store(&device, &answer, &world.roots).unwrap();
        assert_eq!(
            answers::stored(&device, &world.roots).unwrap().unwrap(),
            answer
        );
    }
    // Without a boot it would hold for ever.
    world.remove("proc/sys");
    let answer = Answer::new(Cache::None, "", String::new());
    assert!(answers::store(&device, &answer, &world.roots).is_err());
    assert_eq!(answers::stored(&device, &world.roots).unwrap(), None);
}
