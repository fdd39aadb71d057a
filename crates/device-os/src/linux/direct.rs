//! What direct I/O needs, and where `O_DIRECT` only pretends.

use super::filesystem::has_option;
use logforce_device::{BlockDevice, DirectAlignment};
use rustix::fs::{AtFlags, IFlags, StatxFlags};
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
pub fn ask(file: BorrowedFd<'_>) -> Told {
    match rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN) {
        Ok(s) if s.stx_mask & StatxFlags::DIOALIGN.bits() != 0 => {
            match (s.stx_dio_mem_align, s.stx_dio_offset_align) {
                (0, _) | (_, 0) => Told::No,
                (memory, offset) => Told::Needs(DirectAlignment { memory, offset }),
            }
        }
        _ => Told::Nothing,
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
    assumed: impl FnOnce() -> Option<DirectAlignment>,
) -> Option<DirectAlignment> {
    match ask(file) {
        Told::Needs(a) => Some(a),
        Told::No => None,
        Told::Nothing => {
            let through_cache = IFlags::COMPRESSED | IFlags::JOURNALING;
            match rustix::fs::ioctl_getflags(file) {
                Ok(flags) if flags.intersects(through_cache) => None,
                _ => assumed(),
            }
        }
    }
}

/// The alignment for files of a directory, found out on a nameless file in it, or, where none can
/// be made, on a file that is there already. `Err` says why it could not be found out.
pub fn probe(
    dir: BorrowedFd<'_>,
    assumed: impl FnOnce() -> Option<DirectAlignment>,
) -> Result<Option<DirectAlignment>, String> {
    let file = nameless(dir).or_else(|e| some_file(dir).ok_or(e)).map_err(|e| {
        format!("no file could be made in the directory, and none is there, to try direct I/O on ({e})")
    })?;
    let Some(alignment) = alignment(file.as_fd(), assumed) else {
        return Ok(None);
    };
    // What the kernel says goes for what it opens.
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECT;
    match reopen(file.as_fd(), flags) {
        Ok(_) => Ok(Some(alignment)),
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::OPNOTSUPP) => Ok(None),
        Err(e) => Err(format!(
            "a file could not be opened for direct I/O ({})",
            io::Error::from(e)
        )),
    }
}

/// Opens the file behind a descriptor once more, with other flags; works after a rename.
pub fn reopen(file: BorrowedFd<'_>, flags: rustix::fs::OFlags) -> rustix::io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    rustix::fs::open(
        path,
        flags | rustix::fs::OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    )
}

fn nameless(dir: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(
        dir,
        c".",
        flags,
        Mode::RUSR | Mode::WUSR,
    )?)
}

fn some_file(dir: BorrowedFd<'_>) -> Option<OwnedFd> {
    use rustix::fs::{FileType, Mode, OFlags};
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    rustix::fs::Dir::read_from(dir)
        .ok()?
        .flatten()
        .find_map(|entry| {
            let file = rustix::fs::openat(dir, entry.file_name(), flags, Mode::empty()).ok()?;
            let mode = rustix::fs::fstat(&file).ok()?.st_mode;
            (FileType::from_raw_mode(mode) == FileType::RegularFile).then_some(file)
        })
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
