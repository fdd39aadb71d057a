//! Requirements of direct I/O, and filesystems where `O_DIRECT` has no effect.

use super::error::uninterrupted;
use super::filesystem::has_option;
use crate::unix::Trial;
use logforce_device::{AtomicWrite, BlockDevice, DirectAlignment};
use rustix::fs::{AtFlags, FileType, IFlags, Mode, OFlags, StatxFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// The kernel's answer about direct I/O on a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// Direct I/O works, with this alignment.
    Needs(DirectAlignment),
    /// Direct I/O does not work on this file. `open` with `O_DIRECT` may succeed nevertheless: ext4 with
    /// `data=journal` then goes through the cache. A "direct" read would return bytes that the medium never
    /// received.
    No,
    /// No answer (Linux before 6.1, or a filesystem that does not answer, such as btrfs).
    Nothing,
}

/// Asks the kernel about direct I/O on an open file.
pub fn ask(file: BorrowedFd<'_>) -> rustix::io::Result<Told> {
    let ask = || rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN);
    match uninterrupted(ask) {
        Ok(s) if s.stx_mask & StatxFlags::DIOALIGN.bits() != 0 => {
            Ok(match (s.stx_dio_mem_align, s.stx_dio_offset_align) {
                (0, _) | (_, 0) => Told::No,
                (memory, offset) => Told::Needs(DirectAlignment { memory, offset }),
            })
        }
        Ok(_) | Err(Errno::NOSYS) => Ok(Told::Nothing),
        Err(e) => Err(e),
    }
}

/// Asks the kernel about atomic writes to an open file (Linux 6.11). `None` if there are none.
fn atomic_write(file: BorrowedFd<'_>) -> rustix::io::Result<Option<AtomicWrite>> {
    // STATX_WRITE_ATOMIC, which rustix does not name.
    let wanted = StatxFlags::from_bits_retain(0x1_0000);
    let ask = || rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, wanted);
    match uninterrupted(ask) {
        Ok(s) if s.stx_mask & wanted.bits() != 0 && s.stx_atomic_write_unit_max > 0 => {
            Ok(Some(AtomicWrite {
                unit_min: s.stx_atomic_write_unit_min,
                unit_max: s.stx_atomic_write_unit_max,
            }))
        }
        Ok(_) | Err(Errno::NOSYS | Errno::INVAL) => Ok(None),
        Err(e) => Err(e),
    }
}

/// Returns the flags of a file or a directory; none if its filesystem has none.
pub fn flags(file: BorrowedFd<'_>) -> rustix::io::Result<IFlags> {
    match uninterrupted(|| rustix::fs::ioctl_getflags(file)) {
        Err(Errno::NOTTY | Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS) => Ok(IFlags::empty()),
        answer => answer,
    }
}

/// Returns the alignment to assume if the kernel gives none: 4096, or the logical sector if that is larger.
/// Not less, because btrfs silently uses the cache for transfers that are not aligned to its 4096-byte
/// blocks. `None` for filesystems that are known to accept `O_DIRECT` and ignore it.
pub fn assume(
    filesystem: &str,
    options: &str,
    device: Option<&BlockDevice>,
) -> Option<DirectAlignment> {
    let ignored = match filesystem {
        "ext3" | "ext4" => has_option(options, "data=journal"),
        // btrfs reads compressed extents through the cache.
        "btrfs" => options.split(',').any(|o| {
            o == "compress"
                || o == "compress-force"
                || o.strip_prefix("compress=")
                    .is_some_and(|how| how != "no" && how != "none")
                || o.starts_with("compress-force=")
        }),
        "zfs" => true,
        _ => false,
    };
    let unit = device.map_or(0, |d| d.logical_sector).max(4096);
    (!ignored).then_some(DirectAlignment {
        memory: unit,
        offset: unit,
    })
}

/// Returns the alignment of an open file: the kernel's answer, else the value of `assumed` for its
/// filesystem. `None` if the file itself has a flag that prevents direct I/O.
pub fn alignment(
    file: BorrowedFd<'_>,
    assumed: impl FnOnce() -> io::Result<Option<DirectAlignment>>,
) -> io::Result<Option<DirectAlignment>> {
    match ask(file)? {
        Told::Needs(a) => Ok(Some(a)),
        Told::No => Ok(None),
        Told::Nothing if flags(file)?.intersects(IFlags::COMPRESSED | IFlags::JOURNALING) => {
            Ok(None)
        }
        Told::Nothing => assumed(),
    }
}

/// Filesystems on which direct I/O works unless an option or a flag prevents it.
const DIRECT: [&str; 6] = ["ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs"];

/// Result of a probe for direct I/O on files of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Probed {
    /// Direct I/O works, with this alignment, and with these atomic writes.
    Works(DirectAlignment, Option<AtomicWrite>),
    /// Direct I/O does not work.
    No,
    /// There is no file to try it on, for this reason.
    Untried(String),
}

/// Returns the alignment for files of a directory. It asks about a nameless file in it if `trial` permits and
/// the system can make one, else about an existing file. In a directory without a file, direct I/O is assumed
/// if the filesystem is known to have it. If that is wrong, a later opening fails.
///
/// # Errors
/// Any error that says nothing about the filesystem, such as missing memory or descriptors. Taking it for
/// "no" would decide the log's method permanently.
pub fn probe(
    dir: BorrowedFd<'_>,
    trial: Trial,
    filesystem: &str,
    assumed: impl FnOnce() -> io::Result<Option<DirectAlignment>>,
) -> io::Result<Probed> {
    let made = match trial {
        Trial::None => None,
        Trial::NamelessFile => Some(nameless(dir)),
    };
    let file = match made {
        Some(Ok(file)) => file,
        Some(Err(e)) if !prevents_a_file(e) => return Err(e.into()),
        not_made => match (some_file(dir)?, not_made) {
            (Some(file), _) => file,
            (None, Some(Err(e))) => {
                return Ok(Probed::Untried(format!(
                    "no file could be made in the directory, and none is there, to try it on ({})",
                    io::Error::from(e)
                )));
            }
            (None, _) if DIRECT.contains(&filesystem) => {
                let marked = flags(dir)?.intersects(IFlags::COMPRESSED | IFlags::JOURNALING);
                let alignment = assumed()?.filter(|_| !marked);
                return Ok(alignment.map_or(Probed::No, |alignment| Probed::Works(alignment, None)));
            }
            (None, _) => {
                return Ok(Probed::Untried(
                    "no file is in the directory to try it on".to_owned(),
                ));
            }
        },
    };
    probe_file(file.as_fd(), assumed)
}

/// Returns the alignment for an open file.
///
/// # Errors
/// As [`probe`].
pub fn probe_file(
    file: BorrowedFd<'_>,
    assumed: impl FnOnce() -> io::Result<Option<DirectAlignment>>,
) -> io::Result<Probed> {
    let Some(alignment) = alignment(file, assumed)? else {
        return Ok(Probed::No);
    };
    // The kernel's answer about the file applies to the file that it opens.
    let opened = match uninterrupted(|| reopen(file, OFlags::RDONLY | OFlags::DIRECT)) {
        // There is no /proc.
        Err(Errno::NOENT) => uninterrupted(|| rustix::fs::fcntl_setfl(file, OFlags::DIRECT)),
        opened => opened.map(drop),
    };
    match opened {
        Ok(()) => Ok(Probed::Works(alignment, atomic_write(file)?)),
        Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(Probed::No),
        Err(e) => Err(e.into()),
    }
}

/// Returns true if the error says that a file cannot be made in a directory, or not without a name. Other
/// errors only say that the call failed.
fn prevents_a_file(e: Errno) -> bool {
    matches!(
        e,
        // This filesystem, or this kernel, cannot do it.
        Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOSYS
            // The directory was removed.
            | Errno::NOENT
            // Not permitted here, not for this user, or not now.
            | Errno::ROFS | Errno::ACCESS | Errno::PERM | Errno::NOSPC | Errno::DQUOT
    )
}

/// Opens the file behind a descriptor again, with other flags. Works after a rename.
pub fn reopen(file: BorrowedFd<'_>, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty())
}

fn nameless(dir: BorrowedFd<'_>) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    uninterrupted(|| rustix::fs::openat(dir, c".", flags, Mode::RUSR | Mode::WUSR))
}

fn some_file(dir: BorrowedFd<'_>) -> rustix::io::Result<Option<OwnedFd>> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    // A listing that was interrupted by a signal cannot be continued, so it starts anew.
    let names = uninterrupted(|| {
        rustix::fs::Dir::read_from(dir)?
            .map(|entry| entry.map(|e| e.file_name().to_owned()))
            .collect::<rustix::io::Result<Vec<_>>>()
    })?;
    for name in names {
        let file = match uninterrupted(|| rustix::fs::openat(dir, &name, flags, Mode::empty())) {
            Ok(file) => file,
            // The file is gone, belongs to another user, or is not a file.
            Err(Errno::NOENT | Errno::ACCESS | Errno::PERM | Errno::LOOP | Errno::NXIO) => continue,
            Err(e) => return Err(e),
        };
        let stat = uninterrupted(|| rustix::fs::fstat(&file))?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
            return Ok(Some(file));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assumptions() {
        let unit = |fs, options| assume(fs, options, None).map(|a| a.offset);
        assert_eq!(unit("ext4", "rw"), Some(4096));
        assert_eq!(unit("ext4", "rw,data=journal"), None);
        assert_eq!(unit("btrfs", "rw,ssd"), Some(4096));
        assert_eq!(unit("btrfs", "rw,compress=zstd:3"), None);
        assert_eq!(unit("btrfs", "rw,compress-force=zlib"), None);
        assert_eq!(unit("btrfs", "rw,compress=no"), Some(4096));
        assert_eq!(unit("zfs", "rw"), None);
    }
}
