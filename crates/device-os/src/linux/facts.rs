//! What the system tells of the filesystem and the device below a directory.

use super::error::at;
use super::{block, direct, filesystem, mounts, volume};
use logforce_device::{DirectAlignment, Facts, FilesystemKind, Platform};
use rustix::fs::{Mode, OFlags};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

/// How many loop devices below one another are followed.
const DEPTH: u32 = 4;

/// The facts of the open directory `dir`; `path` is for messages.
pub fn gather(dir: BorrowedFd<'_>, path: &Path) -> io::Result<Facts> {
    gather_below(dir, path, DEPTH)
}

fn gather_below(dir: BorrowedFd<'_>, path: &Path, depth: u32) -> io::Result<Facts> {
    let stat = rustix::fs::fstat(dir).map_err(|e| at(e, "look at", path))?;
    let mount = mounts::of(dir, path);
    let mut notes = Vec::new();
    let name = match &mount {
        Some(m) => m.filesystem.clone(),
        None => {
            let magic =
                rustix::fs::fstatfs(dir).map_err(|e| at(e, "ask for the filesystem of", path))?;
            notes.push(
                "The mount is not to be seen in /proc/self/mountinfo: its options are unknown."
                    .to_owned(),
            );
            filesystem::name_of_magic(magic.f_type as u64)
        }
    };
    let mut options = mount
        .as_ref()
        .map(|m| m.options.clone())
        .unwrap_or_default();
    let (major, minor) = (
        rustix::fs::major(stat.st_dev),
        rustix::fs::minor(stat.st_dev),
    );
    let located = block::locate(major, minor, mount.as_ref());

    let mut barriers = filesystem::barriers(&name, &options);
    if name.starts_with("ext")
        && let Some(ext4) = located.as_ref().and_then(|l| filesystem::ext4(&l.name))
    {
        // The superblock's default options are not among the mount options.
        for (is, option) in [
            (ext4.data_journal, "data=journal"),
            (!ext4.barriers, "nobarrier"),
        ] {
            if is && !filesystem::has_option(&options, option) {
                options = format!("{options},{option}");
            }
        }
        barriers &= ext4.barriers;
        if !ext4.journal {
            notes.push(format!(
                "This {name} has no journal: after a power cut it must be checked (e2fsck) before it is mounted."
            ));
        }
    }
    let mut kind = filesystem::kind(&name, &options);
    if let Ok(flags) = rustix::fs::ioctl_getflags(dir)
        && let Some(note) = filesystem::relocating_flag(flags)
    {
        notes.push(note.to_owned());
        if kind == FilesystemKind::InPlace {
            kind = FilesystemKind::Relocating;
        }
    }
    if name == "overlay" {
        notes.push(overlay_note(&options));
    }
    if let Some(located) = &located {
        if located.is_memory() {
            kind = FilesystemKind::Volatile;
            notes.push(format!(
                "The device {} is memory of this machine.",
                located.whole_name()
            ));
        }
        let parts = if name == "btrfs" {
            block::btrfs_devices(&located.name)
        } else {
            Vec::new()
        };
        if parts.len() > 1 {
            notes.push(format!(
                "This btrfs spreads over {} devices; what is said of the device is about {} alone.",
                parts.len(),
                located.whole_name()
            ));
        }
        let parts = located.made_of();
        if !parts.is_empty() {
            notes.push(format!(
                "{} is made of {}; what is said of the device is its own word.",
                located.whole_name(),
                parts.join(", ")
            ));
        }
        if let Some(file) = located.backing_file() {
            notes.extend(loop_notes(&located.whole_name(), &file, depth));
        }
    }
    let device = located.as_ref().map(block::Located::describe);
    let (fsid, capacity) = rustix::fs::fstatvfs(dir).map_or((0, None), |s| {
        let size = s.f_blocks.saturating_mul(s.f_frsize);
        (s.f_fsid, (size > 0).then_some(size))
    });
    let volume = located.as_ref().and_then(|l| volume::uuid(&name, &l.name));
    let assumed = || direct::assume(&name, &options, device.as_ref());
    let direct = direct::probe(dir, assumed).unwrap_or_else(|why| {
        notes.push(format!("Whether direct I/O works here is unknown: {why}."));
        None
    });
    Ok(Facts {
        platform: Platform::Linux,
        filesystem: name,
        kind,
        mount_options: options,
        mount_point: mount
            .map(|m| m.mount_point.display().to_string())
            .unwrap_or_default(),
        barriers,
        device,
        direct,
        volume: volume.unwrap_or_else(|| volume::fallback(fsid)),
        capacity,
        kernel: super::machine::kernel(),
        notes,
        tried: Vec::new(),
        unread: Vec::new(),
    })
}

/// The alignment to assume for files of a directory where the kernel does not tell.
pub fn assumed_alignment(dir: BorrowedFd<'_>, path: &Path) -> Option<DirectAlignment> {
    let stat = rustix::fs::fstat(dir).ok()?;
    let mount = mounts::of(dir, path);
    let (major, minor) = (
        rustix::fs::major(stat.st_dev),
        rustix::fs::minor(stat.st_dev),
    );
    let device = block::locate(major, minor, mount.as_ref()).map(|l| l.describe());
    let (name, options) = mount
        .as_ref()
        .map_or(("", ""), |m| (m.filesystem.as_str(), m.options.as_str()));
    direct::assume(name, options, device.as_ref())
}

fn overlay_note(options: &str) -> String {
    let upper = options
        .split(',')
        .find_map(|o| o.strip_prefix("upperdir="))
        .unwrap_or("unknown");
    format!(
        "An overlay keeps its files on another filesystem (upper directory {upper}), of which nothing is known here; put the log on a volume of its own."
    )
}

/// A loop device is worth what the filesystem of its file is worth.
fn loop_notes(device: &str, file: &Path, depth: u32) -> Vec<String> {
    let mut notes = vec![format!(
        "{device} keeps its blocks in the file {}: what is durable here is durable as far as that file is.",
        file.display()
    )];
    let below = file.parent().filter(|_| depth > 0).and_then(|parent| {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::open(parent, flags, Mode::empty()).ok()?;
        gather_below(dir.as_fd(), parent, depth - 1).ok()
    });
    match below {
        None => {
            notes.push("Nothing could be found out about the filesystem of that file.".to_owned())
        }
        Some(facts) => {
            if facts.kind == FilesystemKind::Volatile {
                notes.push(format!(
                    "That file is on {}, in memory: nothing here survives a restart of the system.",
                    facts.filesystem
                ));
            }
            if !facts.barriers {
                notes.push(format!(
                    "The filesystem of that file ({}) is mounted without barriers.",
                    facts.filesystem
                ));
            }
            notes.extend(
                facts
                    .notes
                    .into_iter()
                    .map(|n| format!("Below {device}: {n}")),
            );
        }
    }
    notes
}
