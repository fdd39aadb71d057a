//! What direct I/O needs, and where `O_DIRECT` only pretends.

use super::error::uninterrupted;
use super::filesystem::has_option;
use crate::unix::Trial;
use logforce_device::{BlockDevice, DirectAlignment};
use rustix::fs::{AtFlags, FileType, IFlags, Mode, OFlags, StatxFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// What the kernel says about direct I/O on a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// It works, with this alignment.
    Needs(DirectAlignment),
    /// Not on this file. `open` with `O_DIRECT` may succeed all the same: ext4 with
    /// `data=journal` then goes through the cache, and a "direct" read would show what the
    /// medium never got.
    No,
    /// Nothing (Linux before 6.1, or a filesystem that does not answer, such as btrfs).
    Nothing,
}

/// Asks the kernel about an open file.
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

/// The flags of a file or a directory; none where its filesystem has none.
pub fn flags(file: BorrowedFd<'_>) -> rustix::io::Result<IFlags> {
    match uninterrupted(|| rustix::fs::ioctl_getflags(file)) {
        Err(Errno::NOTTY | Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS) => Ok(IFlags::empty()),
        answer => answer,
    }
}

/// What to assume where the kernel says nothing: 4096, or the logical sector if it is larger. Not
/// less, since btrfs takes what is not aligned to its 4096-byte blocks through the cache without
/// a word. `None` where `O_DIRECT` is known to be accepted and ignored.
pub fn assume(
    filesystem: &str,
    options: &str,
    device: Option<&BlockDevice>,
) -> Option<DirectAlignment> {
    let ignored = match filesystem {
        "ext3" | "ext4" => has_option(options, "data=journal"),
        // Compressed extents are read through the cache.
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

/// The alignment of one open file: what the kernel says, else what `assumed` gives for its
/// filesystem, unless the file itself is marked as one that does not do direct I/O.
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

/// What was found out about direct I/O on files of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Probed {
    /// It works, with this alignment.
    Works(DirectAlignment),
    /// It does not.
    No,
    /// There is nothing to try it on, for this reason.
    Untried(String),
}

/// The alignment for files of a directory: of a nameless file in it if that may be made and can be, else
/// of a file that is there already. In a directory without a file it is assumed where the filesystem is
/// one that has direct I/O, and what fails by it later is an opening.
///
/// # Errors
/// Whatever says nothing about the filesystem, such as no memory or no descriptors left: taken for
/// "no", it would choose the log's method for good.
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
                return Ok(alignment.map_or(Probed::No, Probed::Works));
            }
            (None, _) => {
                return Ok(Probed::Untried(
                    "no file is in the directory to try it on".to_owned(),
                ));
            }
        },
    };
    let Some(alignment) = alignment(file.as_fd(), assumed)? else {
        return Ok(Probed::No);
    };
    // What the kernel says goes for what it opens.
    let opened = match uninterrupted(|| reopen(file.as_fd(), OFlags::RDONLY | OFlags::DIRECT)) {
        // No /proc.
        Err(Errno::NOENT) => uninterrupted(|| rustix::fs::fcntl_setfl(&file, OFlags::DIRECT)),
        opened => opened.map(drop),
    };
    match opened {
        Ok(()) => Ok(Probed::Works(alignment)),
        Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(Probed::No),
        Err(e) => Err(e.into()),
    }
}

/// Whether that error says that a file cannot be made in a directory, or not without a name, rather
/// than that the call failed.
fn prevents_a_file(e: Errno) -> bool {
    matches!(
        e,
        // Not this filesystem, or not this kernel.
        Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOSYS
            // The directory was removed.
            | Errno::NOENT
            // Not here, not by us, not now.
            | Errno::ROFS | Errno::ACCESS | Errno::PERM | Errno::NOSPC | Errno::DQUOT
    )
}

/// Opens the file behind a descriptor once more, with other flags; works after a rename.
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
    // A listing that a signal interrupts is not to be gone on with.
    let names = uninterrupted(|| {
        rustix::fs::Dir::read_from(dir)?
            .map(|entry| entry.map(|e| e.file_name().to_owned()))
            .collect::<rustix::io::Result<Vec<_>>>()
    })?;
    for name in names {
        let file = match uninterrupted(|| rustix::fs::openat(dir, &name, flags, Mode::empty())) {
            Ok(file) => file,
            // Gone, not ours, or no file at all.
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
