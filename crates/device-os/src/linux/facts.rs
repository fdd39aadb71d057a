//! Facts about the filesystem and the device below a directory, as the system reports them.

use super::block::{self, Below};
use super::direct::Probed;
use super::error::{at, uninterrupted};
use super::sysfs::Roots;
use super::{direct, filesystem, mounts, stack, volume};
use crate::unix::Trial;
use logforce_device::{DirectAlignment, Facts, FilesystemKind};
use rustix::fs::{Mode, OFlags, StatVfsMountFlags};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

/// Returns the facts of the open directory `dir`; `path` is for messages. Writes nothing except what `trial`
/// permits.
///
/// # Errors
/// Every error of the system except "not found". A fact that could not be determined may be the one that
/// contradicts a guarantee.
pub fn gather(dir: BorrowedFd<'_>, path: &Path, trial: Trial) -> io::Result<Facts> {
    gather_by(dir, path, trial, &Roots::default())
}

/// Returns the facts of a regular file by itself: another filesystem than that of its directory may be mounted
/// on it.
pub fn of_file(path: &Path) -> io::Result<Facts> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = uninterrupted(|| rustix::fs::open(path, flags, Mode::empty()))
        .map_err(|e| at(e, "open", path))?;
    let probe = |_: &str, assumed: Assumed<'_>| direct::probe_file(file.as_fd(), assumed);
    gather_with(file.as_fd(), path, &Roots::default(), probe)
}

fn gather_by(dir: BorrowedFd<'_>, path: &Path, trial: Trial, roots: &Roots) -> io::Result<Facts> {
    let probe = |name: &str, assumed: Assumed<'_>| direct::probe(dir, trial, name, assumed);
    gather_with(dir, path, roots, probe)
}

/// Function that returns the alignment to assume where the kernel does not report it.
type Assumed<'a> = &'a dyn Fn() -> io::Result<Option<DirectAlignment>>;

fn gather_with(
    dir: BorrowedFd<'_>,
    path: &Path,
    roots: &Roots,
    probe: impl FnOnce(&str, Assumed<'_>) -> io::Result<Probed>,
) -> io::Result<Facts> {
    let seen = stack::look(dir, path, roots, stack::DEPTH)?;
    let (mut facts, located) = (seen.facts, seen.located);
    let flags = direct::flags(dir).map_err(|e| at(e, "ask for the flags of", path))?;
    if let Some(note) = filesystem::relocating_flag(flags) {
        facts.notes.push(note.to_owned());
        if facts.kind == FilesystemKind::InPlace {
            facts.kind = FilesystemKind::Relocating;
        }
    }
    let whole = uninterrupted(|| rustix::fs::fstatvfs(dir))
        .map_err(|e| at(e, "ask for the size of the filesystem of", path))?;
    let size = whole.f_blocks.saturating_mul(whole.f_frsize);
    facts.capacity = (size > 0).then_some(size);
    facts.read_only = whole.f_flag.contains(StatVfsMountFlags::RDONLY);
    if facts.read_only {
        facts
            .notes
            .push("It is mounted read-only: nothing can be written here.".to_owned());
    }
    let uuid = match &located {
        Some(located) => volume::uuid(&facts.filesystem, &located.name, roots)?,
        None => None,
    };
    facts.volume = uuid.unwrap_or_else(|| volume::fallback(whole.f_fsid));
    let assumed = || {
        Ok(direct::assume(
            &facts.filesystem,
            &facts.mount_options,
            facts.device.as_ref(),
        ))
    };
    let probed = probe(&facts.filesystem, &assumed)
        .map_err(|e| at(e, "find out about direct I/O on a file of", path))?;
    match probed {
        Probed::Works(alignment, atomic_write) => {
            facts.direct = Some(alignment);
            facts.atomic_write = atomic_write;
        }
        Probed::No => {}
        Probed::Untried(_) if facts.read_only => {
            facts.direct_unknown = Some("it is mounted read-only".to_owned());
        }
        Probed::Untried(why) => {
            facts
                .notes
                .push(format!("Whether direct I/O works here is unknown: {why}."));
            facts.direct_unknown = Some(why);
        }
    }
    Ok(facts)
}

/// Returns the alignment to assume for files of a directory where the kernel does not report it.
pub fn assumed_alignment(dir: BorrowedFd<'_>, path: &Path) -> io::Result<Option<DirectAlignment>> {
    let roots = Roots::default();
    let stat = uninterrupted(|| rustix::fs::fstat(dir)).map_err(|e| at(e, "look at", path))?;
    let mount = mounts::of(dir, path, &roots)?;
    let (major, minor) = (
        rustix::fs::major(stat.st_dev),
        rustix::fs::minor(stat.st_dev),
    );
    let device = match block::locate(major, minor, mount.as_ref(), &roots)? {
        Below::Device(located) => Some(located.describe()?),
        _ => None,
    };
    let (name, options) = mount
        .as_ref()
        .map_or(("", ""), |m| (m.filesystem.as_str(), m.options.as_str()));
    Ok(direct::assume(name, options, device.as_ref()))
}

#[cfg(test)]
mod tests;
