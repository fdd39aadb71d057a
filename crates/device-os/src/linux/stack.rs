//! Filesystem of an open file, and everything below it.

use super::block::{self, Below, Located};
use super::error::{at, uninterrupted};
use super::filesystem::{self, Journal};
use super::layers::{ACCEPT, Dropped, Stack, Walk, in_memory};
use super::mounts;
use super::sysfs::{self, Roots};
use super::zfs;
use logforce_device::{
    Assessment, DirectAlignment, Facts, FilesystemKind, Guarantee, Layer, Platform, Source, Verdict,
};
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;

/// Largest number of devices, files and directories that are followed below one another.
pub const DEPTH: u32 = 8;

/// Examines the filesystem of the file or directory `fd`; `path` leads to it.
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
                "The mount cannot be seen in /proc/self/mountinfo: its options are unknown."
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
    // The options of a mount that cannot be seen are unknown.
    let mut barriers = mount
        .is_some()
        .then(|| filesystem::barriers(&name, &options));
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
    let mut walk = Walk::new(roots, look);
    (walk.layers, walk.notes) = (layers, notes);
    let mut kind = filesystem::kind(&name, &options);
    let drops = barriers == Some(false);
    let dropped = drops.then(|| format!("{name} is mounted without barriers ({options})"));
    let dropped = dropped.as_deref();
    match &below {
        Below::Device(located) => {
            if located.is_memory() {
                kind = FilesystemKind::Volatile;
            }
            walk.device(located, dropped, depth)?;
            if name == "f2fs" && !is_alone(fd, path, &options, located, roots)? {
                walk.unseen(
                    &format!("the f2fs on {}", located.name),
                    "it may be spread over other devices, which the system does not name",
                );
            }
            for other in others(&name, &options, located, &mut walk, dropped, depth)? {
                walk.path(&other, &name, dropped, depth)?;
            }
        }
        Below::Unseen(device) => walk.unseen(
            &format!("the device {device}"),
            "it cannot be seen in /dev and /sys",
        ),
        Below::Nameless => {
            if let Some(layer) = nameless(&name, kind, mount.as_ref(), roots)? {
                walk.add(layer);
            }
        }
    }
    if filesystem::is_served(&name) {
        walk.add(served(&name));
    }
    if filesystem::has_option(&options, filesystem::JOURNAL_FLUSH_DISABLED) {
        walk.add(in_memory(
            &format!("the journal of the {name}"),
            "a sync does not write it (journal_flush_disabled), and without it written data is not found again",
        ));
    }
    let mut device = located.as_ref().map(Located::describe).transpose()?;
    if let Some(mount) = mount.as_ref().filter(|_| name == "overlay") {
        let upper = walk.upper(mount, path, drops, depth)?;
        (device, journalled) = upper.map_or((None, None), |upper| (upper.device, upper.journalled));
    }
    if let Some(device) = &mut device {
        device.cache_source = walk.source();
    }
    let mut facts = Facts::new(Platform::Linux, name, kind);
    facts.mount_options = options;
    facts.mount_point = mount.map_or_else(String::new, |m| m.mount_point.display().to_string());
    // A filesystem in memory or on another machine has no device here to flush.
    let has_device = !matches!(kind, FilesystemKind::Volatile | FilesystemKind::Remote);
    facts.barriers = barriers.filter(|_| has_device);
    facts.journalled = journalled;
    facts.device = device;
    facts.layers = walk.layers;
    facts.kernel = super::machine::kernel();
    facts.notes = walk.notes;
    Ok(Stack { facts, located })
}

/// Examines a block device itself, without a filesystem.
pub fn look_at_device(located: &Located, roots: &Roots) -> io::Result<Facts> {
    let mut walk = Walk::new(roots, look);
    walk.device(located, None, DEPTH)?;
    let mut device = located.describe()?;
    device.cache_source = walk.source();
    let kind = match located.is_memory() {
        true => FilesystemKind::Volatile,
        false => FilesystemKind::InPlace,
    };
    let mut facts = Facts::new(Platform::Linux, "block device", kind);
    facts.barriers = Some(true);
    let unit = device.logical_sector;
    facts.direct = Some(DirectAlignment {
        memory: unit,
        offset: unit,
    });
    facts.device = Some(device);
    facts.layers = walk.layers;
    facts.kernel = super::machine::kernel();
    facts.notes = walk.notes;
    Ok(facts)
}

/// Reads the options and the journal of an ext4 that only `/proc/fs` shows: the mount options leave out the
/// superblock's defaults. Returns whether it has a journal, if that can be seen.
fn ext(
    name: &str,
    options: &mut String,
    barriers: &mut Option<bool>,
    located: &Located,
    (notes, layers): (&mut Vec<String>, &mut Vec<Layer>),
    roots: &Roots,
    depth: u32,
) -> io::Result<Option<bool>> {
    let answer = filesystem::ext4(&located.name, roots)?;
    let Some(answer) = answer.filter(|t| t.barriers.is_some()) else {
        // The kernel's old driver of ext2 has no such options.
        if name != "ext2" && *barriers != Some(false) {
            *barriers = None;
            let (at_most, then) = unflushed_device(located, roots, depth)?;
            layers.push(Layer::unseen(
                format!("the {name} on {}", located.name),
                at_most,
                format!(
                    "it cannot be seen whether its superblock turns barriers off, since there is no \
                     /proc/fs/ext4/{}/options{then}; {ACCEPT}",
                    located.name
                ),
            ));
        }
        return Ok((name == "ext2").then_some(false));
    };
    let off = answer.barriers == Some(false);
    for (is, option) in [(answer.data_journal, "data=journal"), (off, "nobarrier")] {
        if is && !filesystem::has_option(options, option) {
            options.push(',');
            options.push_str(option);
        }
    }
    if off {
        *barriers = Some(false);
    }
    Ok(match answer.journal {
        Journal::Own => Some(true),
        Journal::None => {
            let without = ["noload", "norecovery"]
                .into_iter()
                .find(|o| filesystem::has_option(options, o));
            notes.push(match without {
                Some(option) => format!(
                    "This {name} is mounted without its journal ({option}): after a power cut it must be checked \
                     (e2fsck) before it is mounted. Mount it without that option."
                ),
                None => format!(
                    "This {name} has no journal: after a power cut it must be checked (e2fsck) before it is mounted."
                ),
            });
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

/// Returns the paths of the other devices of the filesystem. Follows those that have no path.
fn others(
    name: &str,
    options: &str,
    located: &Located,
    walk: &mut Walk<'_>,
    dropped: Dropped<'_>,
    depth: u32,
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
            "its other devices cannot be seen in /sys/fs/btrfs",
        );
        return Ok(Vec::new());
    };
    if devices.len() > 1 {
        walk.notes.push(format!(
            "This btrfs is spread over {}; the device described here is {} alone.",
            devices.join(", "),
            located.whole_name()
        ));
    }
    for device in devices.iter().filter(|d| **d != located.name) {
        match block::by_name(device, walk.roots)? {
            // The file of a loop device may lie on this btrfs, so the depth has to decrease.
            Some(other) => walk.device(&other, dropped, depth)?,
            None => walk.unseen(device, "this btrfs is spread over it"),
        }
    }
    Ok(Vec::new())
}

/// Returns true if an f2fs is known to be on this device alone. The system does not name its devices, but its
/// size is that of all of them, without the space before the first segment. A second device is at least as large
/// as that space.
fn is_alone(
    fd: BorrowedFd<'_>,
    path: &Path,
    options: &str,
    located: &Located,
    roots: &Roots,
) -> io::Result<bool> {
    // The limit of a project, and reserved blocks that are hidden, make the reported size smaller.
    let hidden = roots.sys.join("fs/f2fs").join(&located.name);
    let hidden = sysfs::line(&hidden.join("carve_out"))?;
    if options.split(',').any(|o| o.starts_with("prj")) || hidden.is_some_and(|v| v != "0") {
        return Ok(false);
    }
    let all = uninterrupted(|| rustix::fs::fstatvfs(fd))
        .map_err(|e| at(e, "ask for the size of the filesystem of", path))?;
    let all = all.f_blocks.saturating_mul(all.f_frsize);
    Ok(located.size()?.is_some_and(|own| all < own))
}

/// Guarantee that remains if it is unknown whether flushes are sent, and the reason: the end of a sentence.
type Unflushed = (Guarantee, String);

/// Returns the guarantee of a mount whose options cannot be seen: that of the weakest options it may have.
/// Otherwise a process that sees less would get a stronger promise.
fn unflushed(name: &str, below: &Below, roots: &Roots, depth: u32) -> io::Result<Unflushed> {
    match below {
        // The overlay may drop every sync, so that synced data is still in memory.
        _ if name == "overlay" => Ok((Guarantee::ProcessCrash, String::new())),
        Below::Device(located) => unflushed_device(located, roots, depth),
        // No option of the mount decides whether these keep synced data.
        Below::Nameless if filesystem::kind(name, "") == FilesystemKind::Remote => {
            Ok((Guarantee::OsCrash, String::new()))
        }
        Below::Nameless if filesystem::is_served(name) => Ok((Guarantee::OsCrash, String::new())),
        // The device may be a loop device, whose file stays in this system's cache until a flush.
        Below::Unseen(_) | Below::Nameless => Ok((
            Guarantee::ProcessCrash,
            ", and the device below it is unknown, so that written data may stay in the system's memory"
                .to_owned(),
        )),
    }
}

/// Returns the guarantee of data on a device that receives no flush. On a loop device, or a device that
/// consists of one, nothing survives a crash of the system, because the loop device's file is in the cache.
fn unflushed_device(located: &Located, roots: &Roots, depth: u32) -> io::Result<Unflushed> {
    let mut walk = Walk::new(roots, look);
    walk.device(located, Some("no flush reaches it"), depth)?;
    let kept = |layer: &Layer| layer.synced.guarantee;
    let weakest = walk.layers.iter().min_by_key(|layer| kept(layer));
    Ok(match weakest.filter(|w| kept(w) < Guarantee::OsCrash) {
        Some(weakest) => (
            kept(weakest),
            format!(
                ", and without them written data stays in the system's memory ({})",
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
             barriers{then}. Mount /proc, show the mount in it, or accept the weaker guarantee \
             explicitly"
        ),
    )
}

/// Returns the layer of a filesystem without a block device that the system names.
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
        // In memory or on another machine: that already is the answer.
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
            format!("{name} does not name them: it is unknown whether a sync reaches them"),
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
        "a program serves this filesystem (FUSE) and alone decides whether a sync reaches a medium",
    );
    Layer::new(name, synced)
}
