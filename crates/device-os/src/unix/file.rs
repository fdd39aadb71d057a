use super::directory::OpenDirectory;
use super::error::{at, of_making, uninterrupted};
use logforce_device::{Access, OpenFile};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use std::io;
use std::os::fd::OwnedFd;

/// Whether a file is opened for writing as well.
pub fn access(how: OpenFile) -> OFlags {
    if how.access == Access::Read {
        OFlags::RDONLY
    } else {
        OFlags::RDWR
    }
}

/// Opens the file `name` through the system's cache, and makes it if it is to be new. Refuses what
/// is no regular file.
pub fn open(dir: &OpenDirectory, name: &str, how: OpenFile) -> io::Result<OwnedFd> {
    let path = dir.path_of(name);
    let new = how.access == Access::CreateNew;
    let doing = if new { "make" } else { "open" };
    let fd = dir.fd().map_err(|e| at(e, doing, &path))?;
    if !new {
        // Before opening: to open a FIFO of that name would wait for its other end for ever.
        let look = || rustix::fs::statat(&*fd, name, AtFlags::SYMLINK_NOFOLLOW);
        let stat = uninterrupted(look).map_err(|e| at(e, "open", &path))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            let irregular = io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file");
            return Err(at(irregular, "open", &path));
        }
    }
    let mut flags = access(how) | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    if new {
        flags |= OFlags::CREATE | OFlags::EXCL;
    }
    let mode = Mode::RUSR | Mode::WUSR;
    let file =
        uninterrupted(|| rustix::fs::openat(&*fd, name, flags, mode)).map_err(|e| match new {
            true => at(of_making(e, &path), doing, &path),
            false => at(e, doing, &path),
        })?;
    if new && let Some(mode) = dir.file_mode() {
        // Not by the call above, from whose mode the umask takes bits away.
        uninterrupted(|| rustix::fs::fchmod(&file, mode)).map_err(|e| {
            dir.take_back(name);
            at(e, "change the mode of", &path)
        })?;
    }
    Ok(file)
}
