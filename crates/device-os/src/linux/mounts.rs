//! Mounts, from `/proc/self/mountinfo`.

use super::error::{at, uninterrupted};
use super::sysfs::{self, Roots};
use rustix::fs::{AtFlags, StatxFlags};
use rustix::io::Errno;
use std::ffi::OsString;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Line of `/proc/self/mountinfo`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    pub id: u64,
    pub major: u32,
    pub minor: u32,
    /// Directory of the filesystem that the mount point shows.
    pub root: PathBuf,
    pub mount_point: PathBuf,
    /// Options of the mount and of the filesystem, without repetition.
    pub options: String,
    pub filesystem: String,
    pub source: String,
}

/// Returns the mount of the open file. `None` if it cannot be seen (`/proc` is missing, or the mount lies
/// outside a `chroot`).
///
/// Uses the number of the mount if the kernel provides it (5.8), which is exact. Otherwise it uses the device
/// and the longest mount point above `path`. On btrfs no line has the device of a subvolume, so the path
/// alone decides.
pub fn of(fd: BorrowedFd<'_>, path: &Path, roots: &Roots) -> io::Result<Option<Mount>> {
    match id(fd, path)? {
        Some(id) => Ok(all(roots)?.into_iter().find(|m| m.id == id)),
        None => {
            let stat =
                uninterrupted(|| rustix::fs::fstat(fd)).map_err(|e| at(e, "look at", path))?;
            let (major, minor) = (
                rustix::fs::major(stat.st_dev),
                rustix::fs::minor(stat.st_dev),
            );
            let Some(path) = sysfs::real(path)? else {
                return Ok(None);
            };
            Ok(by_path(&all(roots)?, major, minor, &path).cloned())
        }
    }
}

/// Returns the number of the mount, if the kernel provides it.
pub fn id(fd: BorrowedFd<'_>, path: &Path) -> io::Result<Option<u64>> {
    let ask = || rustix::fs::statx(fd, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID);
    match uninterrupted(ask) {
        // QEMU's user emulation (7.2) passes on the kernel's mask without the number, which is 0 then. Number
        // 0 could only be the kernel's first root, which the search by path finds too.
        Ok(answer)
            if answer.stx_mask & StatxFlags::MNT_ID.bits() != 0 && answer.stx_mnt_id != 0 =>
        {
            Ok(Some(answer.stx_mnt_id))
        }
        Ok(_) | Err(Errno::NOSYS) => Ok(None),
        Err(e) => Err(at(e, "ask for the mount of", path)),
    }
}

fn by_path<'a>(mounts: &'a [Mount], major: u32, minor: u32, path: &Path) -> Option<&'a Mount> {
    let above = || {
        mounts
            .iter()
            .filter(|m| path.starts_with(&m.mount_point))
            // A later mount on the same point hides the earlier one, and `max_by_key` returns the last.
            .max_by_key(|m| m.mount_point.as_os_str().len())
            // The device of any other filesystem would be in its line.
            .filter(|m| matches!(m.filesystem.as_str(), "btrfs" | "bcachefs"))
    };
    mounts
        .iter()
        .filter(|m| (m.major, m.minor) == (major, minor) && path.starts_with(&m.mount_point))
        .max_by_key(|m| m.mount_point.as_os_str().len())
        .or_else(above)
}

/// Returns all mounts that this process sees; none if `/proc` is missing.
fn all(roots: &Roots) -> io::Result<Vec<Mount>> {
    let text = sysfs::bytes(&roots.proc.join("self/mountinfo"))?.unwrap_or_default();
    Ok(text.split(|&b| b == b'\n').filter_map(parse).collect())
}

/// `id parent major:minor root mount-point options [optional ...] - type source super-options`
fn parse(line: &[u8]) -> Option<Mount> {
    let mut words = line.split(|&b| b == b' ').map(unescape);
    let mut next = || words.next();
    let id = text(next()?).parse().ok()?;
    let _parent = next()?;
    let device = text(next()?);
    let (major, minor) = device.split_once(':')?;
    let root = PathBuf::from(OsString::from_vec(next()?));
    let mount_point = PathBuf::from(OsString::from_vec(next()?));
    let mut options = text(next()?);
    while next()? != b"-" {}
    let filesystem = text(next()?);
    let source = text(next()?);
    for option in text(next()?).split(',') {
        if !super::filesystem::has_option(&options, option) {
            options.push(',');
            options.push_str(option);
        }
    }
    Some(Mount {
        id,
        major: major.parse().ok()?,
        minor: minor.parse().ok()?,
        root,
        mount_point,
        options,
        filesystem,
        source,
    })
}

fn text(word: Vec<u8>) -> String {
    String::from_utf8_lossy(&word).into_owned()
}

/// Decodes blank, tab, newline and backslash, which are written as a backslash and three octal digits.
fn unescape(word: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((&first, tail)) = rest.split_first() {
        match rest {
            [
                b'\\',
                a @ b'0'..=b'3',
                b @ b'0'..=b'7',
                c @ b'0'..=b'7',
                tail @ ..,
            ] => {
                out.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest = tail;
            }
            _ => {
                out.push(first);
                rest = tail;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
27 1 254:0 / / rw,relatime - ext4 /dev/root rw,discard
36 27 98:0 /mnt1 /mnt/a\\040b rw,noatime master:1 shared:7 - ext3 /dev/x\\134y rw,errors=continue
40 27 0:40 / /mnt rw - tmpfs none rw,size=4k
41 27 0:41 / /mnt rw - btrfs /dev/vdb rw,ssd
broken
";

    fn parsed() -> Vec<Mount> {
        TEXT.as_bytes()
            .split(|&b| b == b'\n')
            .filter_map(parse)
            .collect()
    }

    #[test]
    fn lines_are_taken_apart() {
        let mounts = parsed();
        assert_eq!(mounts.len(), 4);
        let m = &mounts[1];
        assert_eq!((m.id, m.major, m.minor), (36, 98, 0));
        assert_eq!(m.mount_point, Path::new("/mnt/a b"));
        assert_eq!(m.root, Path::new("/mnt1"));
        assert_eq!(m.options, "rw,noatime,errors=continue");
        assert_eq!(
            (m.filesystem.as_str(), m.source.as_str()),
            ("ext3", "/dev/x\\y")
        );
    }

    #[test]
    fn the_longest_mount_point_of_the_device_wins() {
        let mounts = parsed();
        let id = |major, minor, path| by_path(&mounts, major, minor, Path::new(path)).unwrap().id;
        assert_eq!(id(254, 0, "/srv/x"), 27);
        assert_eq!(id(98, 0, "/mnt/a b/c"), 36);
        // A subvolume of btrfs: no line has its device.
        assert_eq!(id(0, 99, "/mnt/sub"), 41);
        assert!(by_path(&[], 1, 1, Path::new("/")).is_none());
        // The line of another filesystem does not count.
        let other = by_path(&mounts[..3], 0, 99, Path::new("/mnt/sub"));
        assert_eq!(other, None, "tmpfs is not btrfs");
    }
}
