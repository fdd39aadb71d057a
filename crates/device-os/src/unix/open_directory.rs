//! Part of a directory that its files keep alive, and opening files in it.

use super::error::{at, of_making, uninterrupted};
use super::path_identity::{PathIdentity, identity_of};
use logforce_device::{Access, FileIdentity, OpenFile};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawMode};
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

pub(super) const FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);

/// Part of a directory that its files keep alive.
pub struct OpenDirectory {
    pub path: PathBuf,
    /// `None` if the directory is kept closed.
    pub(super) fd: Mutex<Option<Arc<OwnedFd>>>,
    pub identity: FileIdentity,
    pub(super) path_identity: PathIdentity,
    /// Mode of new files; 0 if none was set.
    pub(super) file_mode: AtomicU32,
    /// Assumed alignment of direct I/O, for files whose alignment the kernel does not report.
    #[cfg(target_os = "linux")]
    pub assumed: std::sync::OnceLock<Option<logforce_device::DirectAlignment>>,
}

impl OpenDirectory {
    /// Returns an open descriptor.
    pub fn fd(&self) -> rustix::io::Result<Arc<OwnedFd>> {
        let held = self.fd.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(fd) = &*held {
            return Ok(fd.clone());
        }
        drop(held);
        // The absolute path is known, or the directory would not be kept closed.
        let path = self.path_identity.absolute().unwrap_or(&self.path);
        let fd = uninterrupted(|| rustix::fs::open(path, FLAGS, Mode::empty()))?;
        let stat = uninterrupted(|| rustix::fs::fstat(&fd))?;
        match identity_of(&stat) == self.identity {
            true => Ok(Arc::new(fd)),
            // The path leads to another directory now.
            false => Err(Errno::NOENT),
        }
    }

    /// Removes a file that was made and cannot be used.
    pub fn take_back(&self, name: &str) {
        if let Ok(dir) = self.fd() {
            let _ = rustix::fs::unlinkat(&*dir, name, AtFlags::empty());
        }
    }

    /// Returns the permission bits for new files, if they were set.
    pub fn file_mode(&self) -> Option<Mode> {
        match self.file_mode.load(Relaxed) {
            0 => None,
            mode => Some(Mode::from_raw_mode(mode as RawMode)),
        }
    }

    pub fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Opens `..` of the open directory, not the parent of the path. If the path has a symbolic link, only
    /// the former holds the entry.
    pub fn parent(&self) -> rustix::io::Result<OwnedFd> {
        rustix::fs::openat(&*self.fd()?, c"..", FLAGS, Mode::empty())
    }
}

/// Returns the flags for reading, or for reading and writing.
pub fn access(how: OpenFile) -> OFlags {
    if how.access == Access::Read {
        OFlags::RDONLY
    } else {
        OFlags::RDWR
    }
}

/// Opens the file `name` through the system's cache, and makes it if it is to be new. Refuses anything but a
/// regular file.
pub fn open_file(dir: &OpenDirectory, name: &str, how: OpenFile) -> io::Result<OwnedFd> {
    let path = dir.path_of(name);
    let new = how.access == Access::CreateNew;
    let doing = if new { "make" } else { "open" };
    let fd = dir.fd().map_err(|e| at(e, doing, &path))?;
    if !new {
        // Checked before the opening: opening a FIFO of that name would wait for its other end for ever.
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
        // The mode is set by a separate call, because the umask removes bits from the mode above.
        uninterrupted(|| rustix::fs::fchmod(&file, mode)).map_err(|e| {
            dir.take_back(name);
            at(e, "change the mode of", &path)
        })?;
    }
    Ok(file)
}
