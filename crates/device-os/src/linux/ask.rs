//! Questions to the devices below a directory about their own caches, for `logforce doctor`.

use super::answers::{self, Answer, Cache};
use super::attachment::Attachment;
use super::block::{self, Located};
use super::error::{at, uninterrupted_io};
use super::stack;
use super::sysfs::{self, Roots};
use crate::asked::Asked;
use crate::{nvme, scsi};
use logforce_device::{Facts, Layer};
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// MODE SENSE (6) for the current values of the caching page.
const MODE_SENSE: [u8; 6] = [0x1a, 0, 0x08, 0, 192, 0];
/// ATA PASS-THROUGH (16) of IDENTIFY DEVICE: PIO in, one block, length in the count.
const IDENTIFY: [u8; 16] = [0x85, 0x08, 0x0e, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0xec, 0];

/// Returns the facts of the block device at `path` itself, without a filesystem.
///
/// # Errors
/// `InvalidInput` if it is not a block device that `/sys` shows. Otherwise as
/// [`Directory::facts`](logforce_device::Directory::facts).
pub fn device_facts(path: &Path) -> io::Result<Facts> {
    let roots = Roots::default();
    let stat = uninterrupted_io(|| fs::metadata(path)).map_err(|e| at(e, "look at", path))?;
    let number = stat.rdev();
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let located = match stat.file_type().is_block_device() {
        true => block::by_number(major, minor, &roots)?,
        false => None,
    };
    match located {
        Some(located) => stack::look_at_device(&located, &roots),
        None => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{} is not a block device that /sys shows", path.display()),
        )),
    }
}

/// Asks the devices among these layers about their own caches, and stores the answers for the facts of
/// directories until the next start of the system. A device behind USB is asked only if `with_usb`, because the
/// command may reset the bridge.
///
/// # Errors
/// If the layers cannot be found in `/sys`. A device that cannot be asked is reported in the result.
pub fn ask_devices(layers: &[Layer], with_usb: bool) -> io::Result<Vec<Asked>> {
    ask_by(layers, with_usb, &Roots::default())
}

pub(super) fn ask_by(layers: &[Layer], with_usb: bool, roots: &Roots) -> io::Result<Vec<Asked>> {
    let mut asked: Vec<Asked> = Vec::new();
    for layer in layers {
        let Some(device) = block::by_name(&layer.name, roots)? else {
            continue;
        };
        let is_asked = asked.iter().any(|a| a.device == device.whole_name());
        let is_disk = device.backing_file()?.is_none() && device.made_of()?.is_empty();
        let can_be_asked = is_disk && !device.is_of(&["loop"]) && !device.is_memory();
        if !is_asked && (can_be_asked || device.is_of(&["dm-"])) {
            asked.push(ask(&device, with_usb, roots));
        }
    }
    Ok(asked)
}

/// Asks a device and stores its answer.
fn ask(device: &Located, with_usb: bool, roots: &Roots) -> Asked {
    let name = device.whole_name();
    let answer = answer(device, with_usb, roots);
    Asked {
        device: name,
        answer: answer.map(|answer| {
            let said = format!("{}: {}", answer.command, answer.said);
            // An answer that cannot be stored counts for this process.
            match answers::store(device, &answer, roots) {
                Ok(()) => said,
                Err(e) => format!("{said} (logs will not know it: {e})"),
            }
        }),
    }
}

fn answer(device: &Located, with_usb: bool, roots: &Roots) -> Result<Answer, String> {
    let failed = |e: io::Error| match e.kind() {
        io::ErrorKind::PermissionDenied => {
            format!("{e}: run it as root to ask the device itself")
        }
        io::ErrorKind::NotFound => {
            format!("{e}: run it where the device has a node, outside of a container")
        }
        _ => e.to_string(),
    };
    let node = roots.dev.join(device.whole_name());
    if device.is_of(&["dm-"]) {
        return mapped(device, roots).map_err(failed);
    }
    if !is_node_of(&node, device).map_err(failed)? {
        return Err(format!(
            "{} is not its node, but that of another device",
            node.display()
        ));
    }
    match device.attachment().map_err(failed)? {
        _ if device.is_behind_usb() && !with_usb => Err(
            "it is behind USB, where a command may reset the bridge; --ask sends it nevertheless"
                .to_owned(),
        ),
        Attachment::Served(protocol) => Err(format!(
            "it is served by another party ({protocol}), which has to be asked instead"
        )),
        Attachment::Virtual("virtio disk") if !device.whole_name().starts_with("sd") => Err(
            "a virtio disk has no command for that; its configuration is in /sys and was read"
                .to_owned(),
        ),
        Attachment::Virtual("Xen disk") => {
            Err("a Xen disk has no command for that: ask the operator of the host".to_owned())
        }
        _ if device.is_of(&["nvme"]) => of_nvme(node, roots).map_err(failed),
        _ if device.whole_name().starts_with("sd") => of_scsi(node, roots).map_err(failed),
        _ => Err("there is no command for this kind of device".to_owned()),
    }
}

fn of_nvme(node: PathBuf, roots: &Roots) -> io::Result<Answer> {
    let data = roots.commands.nvme_identify(&node)?;
    let Some(controller) = nvme::controller(&data) else {
        let said = "the answer is not that of a disk controller".to_owned();
        return Ok(Answer::new(Cache::Silent, "NVMe Identify Controller", said));
    };
    if !controller.has_volatile_cache {
        let said = "VWC 0: no volatile write cache".to_owned();
        return Ok(Answer::new(Cache::None, "NVMe Identify Controller", said));
    }
    let command = "NVMe Identify Controller, Get Features 06h";
    // A controller that does not answer the second question has a cache that counts as on.
    Ok(match roots.commands.nvme_cache(&node) {
        Ok(value) if value & 1 == 0 => {
            let said = "VWC 1, WCE 0: a volatile write cache, switched off".to_owned();
            Answer::new(Cache::Off, command, said)
        }
        Ok(_) => {
            let said = "VWC 1, WCE 1: a volatile write cache, on".to_owned();
            Answer::new(Cache::On, command, said)
        }
        Err(e) => {
            let said =
                format!("VWC 1: a volatile write cache; whether it is on is not known ({e})");
            Answer::new(Cache::On, command, said)
        }
    })
}

fn of_scsi(node: PathBuf, roots: &Roots) -> io::Result<Answer> {
    let sense = answered(roots.commands.scsi(&node, &MODE_SENSE, 192))?;
    if let Some(page) = sense.and_then(|data| scsi::caching_page(&data)) {
        let (cache, said) = match page.is_on {
            true => (Cache::On, "WCE 1: write cache on"),
            false => (Cache::Off, "WCE 0: write cache off"),
        };
        let fua = match page.fua {
            Some(true) => ", DPOFUA 1",
            _ => ", DPOFUA 0",
        };
        let said = format!("{said}{fua}");
        return Ok(Answer::new(cache, "SCSI MODE SENSE, caching page", said));
    }
    // A bridge without a caching page may pass the question of an ATA disk on.
    let identify = answered(roots.commands.scsi(&node, &IDENTIFY, 512))?;
    let Some(disk) = identify.and_then(|data| scsi::identity(&data)) else {
        let said = "it has no caching mode page, and does not answer IDENTIFY DEVICE".to_owned();
        let command = "SCSI MODE SENSE, ATA IDENTIFY DEVICE";
        return Ok(Answer::new(Cache::Silent, command, said));
    };
    let (cache, said) = match disk.is_on {
        Some(true) => (Cache::On, "write cache on"),
        Some(false) => (Cache::Off, "write cache off"),
        None => (Cache::None, "no write cache"),
    };
    let fua = if disk.fua { "FUA" } else { "no FUA" };
    let said = format!("{said}, {fua} ({}, firmware {})", disk.model, disk.firmware);
    Ok(Answer::new(cache, "ATA IDENTIFY DEVICE", said))
}

/// Returns true if the node in `/dev` has the number that `/sys` shows. A missing node is left to the command.
fn is_node_of(node: &Path, device: &Located) -> io::Result<bool> {
    let found = sysfs::found(uninterrupted_io(|| fs::metadata(node)), "look at", node)?;
    let Some((found, number)) = found.zip(device.line("dev")?) else {
        return Ok(true);
    };
    let id = found.rdev();
    let (major, minor) = (rustix::fs::major(id), rustix::fs::minor(id));
    Ok(format!("{major}:{minor}") == number)
}

/// Returns the answer of a device; `None` if the device refused the command. A command that did not reach it says
/// nothing about it.
fn answered(sent: io::Result<Vec<u8>>) -> io::Result<Option<Vec<u8>>> {
    match sent {
        Ok(data) => Ok(Some(data)),
        Err(e) if e.kind() == io::ErrorKind::Unsupported => Ok(None),
        Err(e) => Err(e),
    }
}

fn mapped(device: &Located, roots: &Roots) -> io::Result<Answer> {
    let number = device.line("dev")?.unwrap_or_default();
    let number = number
        .split_once(':')
        .and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    let number = number
        .ok_or_else(|| io::Error::other("the number of the device is not visible in /sys"))?;
    let targets = roots
        .commands
        .mapped(&roots.dev.join("mapper/control"), number)?;
    Ok(Answer::new(
        Cache::Mapped,
        "device mapper, table status",
        targets.join(","),
    ))
}
