use super::error::{at, uninterrupted};
use super::file::OsFile;
use super::{facts, lock};
use crate::lock::take;
use logforce_device::{Directory, Entry, Facts, File, FileIdentity, OpenFile};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use crate::unix::directory::make;

/// A directory held open: what is done in it stays in it, whatever happens to its path.
pub struct OsDirectory {
    open: Arc<OpenDirectory>,
}

/// The part that files keep alive.
pub struct OpenDirectory {
    path: PathBuf,
    fd: OwnedFd,
    identity: FileIdentity,
}

impl OpenDirectory {
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    pub fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

pub fn identity_of(stat: &rustix::fs::Stat) -> FileIdentity {
    FileIdentity {
        volume: stat.st_dev as u64,
        file: stat.st_ino,
    }
}

/// Makes what was done in a directory durable. Where the filesystem has no `F_FULLFSYNC`, as far as
/// `fsync` goes: the facts say what that is worth.
fn sync(dir: BorrowedFd<'_>) -> rustix::io::Result<()> {
    match uninterrupted(|| rustix::fs::fcntl_fullfsync(dir)) {
        Err(Errno::NOTSUP | Errno::OPNOTSUPP | Errno::NOTTY | Errno::INVAL) => {
            uninterrupted(|| rustix::fs::fsync(dir))
        }
        other => other,
    }
}

impl OsDirectory {
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = uninterrupted(|| rustix::fs::open(path, flags, Mode::empty()))
            .map_err(|e| at(e, "open the directory", path))?;
        let stat = rustix::fs::fstat(&fd).map_err(|e| at(e, "look at", path))?;
        Ok(OsDirectory {
            open: Arc::new(OpenDirectory {
                path: path.to_owned(),
                fd,
                identity: identity_of(&stat),
            }),
        })
    }

    /// Makes this directory's own entry durable.
    pub fn sync_parent(&self) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        // `..` of the open directory, not the parent of the path: through a symbolic link only
        // this one holds the entry.
        match rustix::fs::openat(&self.open.fd, c"..", flags, Mode::empty())
            .and_then(|parent| sync(parent.as_fd()))
        {
            // Nothing that a crash could undo is in a directory that cannot be written to.
            Ok(()) | Err(Errno::ROFS) => Ok(()),
            Err(e) => Err(at(e, "make durable the entry of", &self.open.path)),
        }
    }
}

/// Refuses what is no plain file name: it would lead out of the directory, or be cut at the NUL.
fn check(name: &str) -> io::Result<()> {
    if name.is_empty() || name == "." || name == ".." || name.contains(['/', '\0']) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{name:?} is not a plain file name"),
        ));
    }
    Ok(())
}

impl Directory for OsDirectory {
    fn path(&self) -> &Path {
        &self.open.path
    }

    fn identity(&self) -> FileIdentity {
        self.open.identity
    }

    fn entries(&self) -> io::Result<Vec<Entry>> {
        let path = &self.open.path;
        let fail = |e: Errno| at(e, "list the directory", path);
        let mut found = Vec::new();
        // `read_from` opens the directory anew, so that two threads do not share a position.
        for entry in rustix::fs::Dir::read_from(&self.open.fd).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            let stat = match rustix::fs::statat(&self.open.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => stat,
                // Removed since it was listed.
                Err(Errno::NOENT) => continue,
                Err(e) => return Err(at(e, "look at", &path.join(&*name.to_string_lossy()))),
            };
            let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
            found.push(Entry {
                name: name.to_string_lossy().into_owned(),
                len: if is_file { stat.st_size as u64 } else { 0 },
                is_file,
            });
        }
        Ok(found)
    }

    fn open(&self, name: &str, how: OpenFile) -> io::Result<Arc<dyn File>> {
        check(name)?;
        Ok(Arc::new(OsFile::open(&self.open, name, how)?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        check(from)?;
        check(to)?;
        let dir = &self.open.fd;
        rustix::fs::renameat(dir, from, dir, to)
            .map_err(|e| at(e, &format!("rename to {to}"), &self.open.path_of(from)))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        check(name)?;
        rustix::fs::unlinkat(&self.open.fd, name, AtFlags::empty())
            .map_err(|e| at(e, "remove", &self.open.path_of(name)))
    }

    fn sync(&self) -> io::Result<()> {
        sync(self.open.fd()).map_err(|e| at(e, "sync the directory", &self.open.path))
    }

    fn lock(&self, name: &str) -> io::Result<Box<dyn Send + Sync>> {
        check(name)?;
        let path = self.open.path_of(name);
        let call = || lock::take(self.open.fd(), name, &path);
        Ok(Box::new(take(self.open.identity, &path, call)?))
    }

    fn is_locked(&self, name: &str) -> io::Result<bool> {
        check(name)?;
        let path = self.open.path_of(name);
        lock::is_taken(self.open.fd(), self.open.identity, name, &path)
    }

    fn facts(&self) -> io::Result<Facts> {
        facts::gather(self.open.fd(), &self.open.path)
    }

    fn free_space(&self) -> io::Result<u64> {
        let stat = rustix::fs::fstatvfs(&self.open.fd)
            .map_err(|e| at(e, "ask for the free space of", &self.open.path))?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }
}
