//! The filesystem of an open file, and everything below it.

use super::block::{self, Below, Located};
use super::error::{at, uninterrupted};
use super::filesystem::{self, Journal};
use super::layers::{ACCEPT, Stack, Walk};
use super::mounts;
use super::sysfs::Roots;
use super::zfs;
use logforce_device::{
    Assessment, Facts, FilesystemKind, Guarantee, Layer, Platform, Source, Verdict,
};
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;

/// How many devices, files and directories below one another are followed.
pub const DEPTH: u32 = 8;

/// The filesystem that the file or directory `fd` is on; `path` leads to it.
pub fn look(fd: BorrowedFd<'_>, path: &Path, roots: &Roots, depth: u32) -> io::Result<Stack> {
    let stat = uninterrupted(|| rustix::fs::fstat(fd)).map_err(|e| at(e, "look at", path))?;
    let mount = mounts::of(fd, path, roots)?;
    let (mut notes, mut layers) = (Vec::new(), Vec::new());
    let name = match &mount {
        Some(m) => m.filesystem.clone(),
        None => {
            let magic = uninterrupted(|| rustix::fs::fstatfs(fd))
                .map_err(|e| at(e, "ask for the filesystem of", path))?;
            let name = filesystem::name_of_magic(magic.f_type as u64);
            notes.push(
                "The mount is not to be seen in /proc/self/mountinfo: its options are unknown."
                    .to_owned(),
            );
            name
        }
    };
    let mut options = mount.as_ref().map_or("", |m| &m.options).to_owned();
    let numbers = (
        rustix::fs::major(stat.st_dev),
        rustix::fs::minor(stat.st_dev),
    );
    let below = block::locate(numbers.0, numbers.1, mount.as_ref(), roots)?;
    let located = match &below {
        Below::Device(located) => Some(located.clone()),
        _ => None,
    };
    if mount.is_none() {
        layers.push(unseen_mount(&name, unflushed(&name, &below, roots, depth)?));
    }
    let mut barriers = filesystem::barriers(&name, &options);
    let mut journalled = filesystem::journalled(&name);
    if let Some(located) = located.as_ref().filter(|_| name.starts_with("ext")) {
        journalled = ext(
            &name,
            &mut options,
            &mut barriers,
            located,
            (&mut notes, &mut layers),
            roots,
            depth,
        )?;
    }
    let mut walk = Walk {
        roots,
        layers,
        notes,
        look,
    };
    let mut kind = filesystem::kind(&name, &options);
    let dropped = (!barriers).then(|| format!("{name} is mounted without barriers ({options})"));
    let dropped = dropped.as_deref();
    match &below {
        Below::Device(located) => {
            if located.is_memory() {
                kind = FilesystemKind::Volatile;
            }
            walk.device(located, dropped, depth)?;
            for other in others(&name, &options, located, &mut walk)? {
                walk.path(&other, &name, depth)?;
            }
        }
        Below::Unseen(device) => walk.unseen(
            &format!("the device {device}"),
            "nothing of it is to be seen in /dev and /sys",
        ),
        Below::Nameless => {
            if let Some(layer) = nameless(&name, kind, mount.as_ref(), roots)? {
                walk.layers.push(layer);
            }
        }
    }
    if filesystem::is_served(&name) {
        walk.layers.push(served(&name));
    }
    if let Some(mount) = mount.as_ref().filter(|_| name == "overlay") {
        walk.upper(mount, path, !barriers, depth)?;
    }
    let mut device = located.as_ref().map(Located::describe).transpose()?;
    if let Some(device) = &mut device {
        // Of one that others lie below, all of them have to keep their word.
        let sources = walk.layers.iter().map(|layer| layer.synced.source);
        device.cache_source = sources.min().unwrap_or(Source::Nobody);
    }
    let mut facts = Facts::new(Platform::Linux, name, kind);
    facts.mount_options = options;
    facts.mount_point = mount.map_or_else(String::new, |m| m.mount_point.display().to_string());
    facts.barriers = barriers;
    facts.journalled = journalled;
    facts.device = device;
    facts.layers = walk.layers;
    facts.kernel = super::machine::kernel();
    facts.notes = walk.notes;
    Ok(Stack { facts, located })
}

/// What only `/proc/fs` says of an ext4: the superblock's default options are not among the mount
/// options. Returns whether it has a journal, if that is to be seen.
fn ext(
    name: &str,
    options: &mut String,
    barriers: &mut bool,
    located: &Located,
    (notes, layers): (&mut Vec<String>, &mut Vec<Layer>),
    roots: &Roots,
    depth: u32,
) -> io::Result<Option<bool>> {
    let answer = filesystem::ext4(&located.name, roots)?;
    let Some(answer) = answer.filter(|t| t.barriers.is_some()) else {
        // The kernel's old driver of ext2 has no such options.
        if name != "ext2" && *barriers {
            let (at_most, then) = unflushed_device(located, roots, depth)?;
            layers.push(Layer::unseen(
                format!("the {name} on {}", located.name),
                at_most,
                format!(
                    "whether its superblock turns barriers off is not to be seen, since there is no \
                     /proc/fs/ext4/{}/options{then}; {ACCEPT}",
                    located.name
                ),
            ));
        }
        return Ok(None);
    };
    let off = answer.barriers == Some(false);
    for (is, option) in [(answer.data_journal, "data=journal"), (off, "nobarrier")] {
        if is && !filesystem::has_option(options, option) {
            options.push(',');
            options.push_str(option);
        }
    }
    *barriers &= !off;
    Ok(match answer.journal {
        Journal::Own => Some(true),
        Journal::None => {
            notes.push(format!(
                "This {name} has no journal: after a power cut it must be checked (e2fsck) before it is mounted."
            ));
            Some(false)
        }
        Journal::Elsewhere => {
            let synced = Assessment::new(
                Guarantee::PowerLoss,
                Verdict::Unknown,
                Source::Nobody,
                "it is on another device, which the system does not name",
            );
            let name = format!("the journal of the {name} on {}", located.name);
            let mut layer = Layer::new(name, synced);
            layer.written = Guarantee::PowerLoss;
            layers.push(layer);
            None
        }
    })
}

/// The paths of the other devices that the filesystem is spread over.
fn others(
    name: &str,
    options: &str,
    located: &Located,
    walk: &mut Walk<'_>,
) -> io::Result<Vec<String>> {
    if name == "xfs" {
        let devices = options.split(',').filter_map(|o| {
            o.strip_prefix("logdev=")
                .or_else(|| o.strip_prefix("rtdev="))
        });
        return Ok(devices.map(str::to_owned).collect());
    }
    if name != "btrfs" {
        return Ok(Vec::new());
    }
    let Some(devices) = block::btrfs_devices(&located.name, walk.roots)? else {
        walk.unseen(
            &format!("the btrfs on {}", located.name),
            "over which devices it is spread is not to be seen in /sys/fs/btrfs",
        );
        return Ok(Vec::new());
    };
    if devices.len() > 1 {
        walk.notes.push(format!(
            "This btrfs is spread over {}; what is said of the device is about {} alone.",
            devices.join(", "),
            located.whole_name()
        ));
    }
    for device in devices.iter().filter(|d| **d != located.name) {
        match block::by_name(device, walk.roots)? {
            Some(other) => walk.device(&other, None, DEPTH)?,
            None => walk.unseen(device, "this btrfs is spread over it"),
        }
    }
    Ok(Vec::new())
}

/// What is left of a guarantee where nobody knows whether a flush is sent, and why: the end of a
/// sentence.
type Unflushed = (Guarantee, String);

/// Where the options of a mount cannot be seen it is worth what the weakest of them would leave: to
/// promise more would be to promise more the less is known.
fn unflushed(name: &str, below: &Below, roots: &Roots, depth: u32) -> io::Result<Unflushed> {
    match below {
        // It may be one that drops every sync, so that what was synced is in memory still.
        _ if name == "overlay" => Ok((Guarantee::ProcessCrash, String::new())),
        Below::Device(located) => unflushed_device(located, roots, depth),
        // No option of the mount decides whether these keep what was synced.
        Below::Nameless if filesystem::kind(name, "") == FilesystemKind::Remote => {
            Ok((Guarantee::OsCrash, String::new()))
        }
        Below::Nameless if filesystem::is_served(name) => Ok((Guarantee::OsCrash, String::new())),
        // It may be a loop device, whose file is in this system's cache until a flush.
        Below::Unseen(_) | Below::Nameless => Ok((
            Guarantee::ProcessCrash,
            ", and nothing says on what it lies, so that what is written may stay in the system's memory"
                .to_owned(),
        )),
    }
}

/// What a device keeps that no flush comes to: of a loop device, or what is made of one, nothing
/// survives the system, since its file is in the cache then.
fn unflushed_device(located: &Located, roots: &Roots, depth: u32) -> io::Result<Unflushed> {
    let mut walk = Walk {
        roots,
        layers: Vec::new(),
        notes: Vec::new(),
        look,
    };
    walk.device(located, Some("no flush comes to it"), depth)?;
    let kept = |layer: &Layer| layer.synced.guarantee;
    let weakest = walk.layers.iter().min_by_key(|layer| kept(layer));
    Ok(match weakest.filter(|w| kept(w) < Guarantee::OsCrash) {
        Some(weakest) => (
            kept(weakest),
            format!(
                ", and without them what is written stays in the system's memory ({})",
                weakest.name
            ),
        ),
        None => (Guarantee::OsCrash, String::new()),
    })
}

fn unseen_mount(name: &str, (at_most, then): Unflushed) -> Layer {
    Layer::unseen(
        format!("the {name} here"),
        at_most,
        format!(
            "how it is mounted cannot be seen (it is not in /proc/self/mountinfo): it may be without \
             barriers{then}. Mount /proc, show the mount in it, or accept by name what is survived \
             without knowing it"
        ),
    )
}

/// A filesystem without a block device that the system names.
fn nameless(
    name: &str,
    kind: FilesystemKind,
    mount: Option<&mounts::Mount>,
    roots: &Roots,
) -> io::Result<Option<Layer>> {
    let Some(mount) = mount else {
        return Ok(None);
    };
    match kind {
        // In memory, or another machine's: that says it all.
        FilesystemKind::Volatile | FilesystemKind::Remote => return Ok(None),
        _ if name == "overlay" || filesystem::is_served(name) => return Ok(None),
        _ if name == "zfs" => return zfs::layer(&mount.source, roots).map(Some),
        _ => {}
    }
    if filesystem::is_stacked(name) {
        return Ok(Some(Layer::unseen(
            format!("what lies below {name}"),
            Guarantee::OsCrash,
            format!(
                "{name} keeps its files on another filesystem, which is not followed; {ACCEPT}"
            ),
        )));
    }
    let (verdict, source, why) = match filesystem::is_on_flash(name) {
        true => (
            Verdict::Declared,
            Source::Filesystem,
            format!("by the word of {name} a sync is on the flash, which has no cache"),
        ),
        false => (
            Verdict::Unknown,
            Source::Nobody,
            format!("{name} does not name them: nobody says that a sync reaches them"),
        ),
    };
    let synced = Assessment::new(Guarantee::PowerLoss, verdict, source, why);
    Ok(Some(Layer::new(format!("the devices of {name}"), synced)))
}

fn served(name: &str) -> Layer {
    let synced = Assessment::new(
        Guarantee::PowerLoss,
        Verdict::Unknown,
        Source::Server,
        "a program serves this filesystem (FUSE): that a sync reaches a medium is that program's word",
    );
    Layer::new(name, synced)
}
