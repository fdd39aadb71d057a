use super::error::{at, uninterrupted};
use super::file::OsFile;
use super::{facts, lock};
use crate::lock::take;
use logforce_device::{DirectAlignment, Directory, Entry, Facts, File, FileIdentity, OpenFile};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

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
    assumed: OnceLock<Option<DirectAlignment>>,
}

impl OpenDirectory {
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    pub fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The alignment of direct I/O where the kernel does not tell it. Found out once.
    pub fn assumed_alignment(&self) -> Option<DirectAlignment> {
        *self
            .assumed
            .get_or_init(|| facts::assumed_alignment(self.fd(), &self.path))
    }
}

impl OsDirectory {
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = uninterrupted(|| rustix::fs::open(path, flags, Mode::empty()))
            .map_err(|e| at(e, "open the directory", path))?;
        let identity = identity(fd.as_fd()).map_err(|e| at(e, "look at", path))?;
        let open = OpenDirectory {
            path: path.to_owned(),
            fd,
            identity,
            assumed: OnceLock::new(),
        };
        Ok(OsDirectory {
            open: Arc::new(open),
        })
    }

    #[cfg(test)]
    pub fn opened(&self) -> &Arc<OpenDirectory> {
        &self.open
    }

    /// Makes this directory's own entry durable.
    pub fn sync_parent(&self) -> io::Result<()> {
        let doing = "make durable the entry of";
        let fail = |e: Errno| at(e, doing, &self.open.path);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        // `..` of the open directory, not the parent of the path: through a symbolic link only
        // this one holds the entry.
        let parent = match rustix::fs::openat(&self.open.fd, c"..", flags, Mode::empty()) {
            Ok(fd) => fd,
            // A parent that may be passed but not read cannot be opened, nor synced alone.
            Err(Errno::ACCESS) => {
                return uninterrupted(|| rustix::fs::syncfs(&self.open.fd)).map_err(fail);
            }
            Err(e) => return Err(fail(e)),
        };
        match uninterrupted(|| rustix::fs::fsync(&parent)) {
            Ok(()) => Ok(()),
            // Nothing that a crash could undo is in a directory that cannot be written to.
            Err(Errno::ROFS) => Ok(()),
            // Above a mount point is another filesystem, which may know no such sync (`/dev`):
            // the entry is not what the mount hangs on after a restart.
            Err(e) => match identity(parent.as_fd()) {
                Ok(above) if above.volume != self.open.identity.volume => Ok(()),
                _ => Err(fail(e)),
            },
        }
    }
}

fn identity(fd: BorrowedFd<'_>) -> rustix::io::Result<FileIdentity> {
    let stat = rustix::fs::fstat(fd)?;
    Ok(FileIdentity {
        volume: stat.st_dev,
        file: stat.st_ino,
    })
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

/// Asks ext4 whether its journal still works, by a change that has to begin a transaction.
///
/// An fsync there waits for the transaction that holds the change, and answers success where that
/// is no longer under way (`jbd2_complete_transaction`): also if it *failed*, in another thread's
/// fsync or the kernel's own. The journal is aborted before a failed transaction is dropped, so one
/// that still begins transactions has lost none. Without this a name that was never written would
/// count as durable, and a cut would take a segment with what was acknowledged in it: seen in real
/// power cuts after one failed write.
fn journal_is_alive(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    const EXT4: i64 = 0xEF53;
    if rustix::fs::fstatfs(fd)?.f_type as i64 != EXT4 {
        return Ok(());
    }
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: UTIME_NOW,
    };
    let times = Timestamps {
        last_access: Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_OMIT,
        },
        last_modification: now,
    };
    match uninterrupted(|| rustix::fs::futimens(fd, &times)) {
        // Who may not do this changes no names here either.
        Err(Errno::ACCESS | Errno::PERM) => Ok(()),
        done => done,
    }
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
        uninterrupted(|| rustix::fs::fsync(&self.open.fd))
            .and_then(|()| journal_is_alive(self.open.fd()))
            .map_err(|e| at(e, "sync the directory", &self.open.path))
    }

    fn lock(&self, name: &str) -> io::Result<Box<dyn Send + Sync>> {
        check(name)?;
        let path = self.open.path_of(name);
        let call = || lock::take(self.open.fd(), name, &path);
        Ok(Box::new(take(self.open.identity, &path, call)?))
    }

    fn is_locked(&self, name: &str) -> io::Result<bool> {
        check(name)?;
        lock::is_taken(
            self.open.fd(),
            self.open.identity,
            name,
            &self.open.path_of(name),
        )
    }

    fn facts(&self) -> io::Result<Facts> {
        facts::gather(self.open.fd(), &self.open.path)
    }

    fn free_space(&self) -> io::Result<u64> {
        let stat = rustix::fs::fstatvfs(&self.open.fd)
            .map_err(|e| at(e, "ask for the free space of", &self.open.path))?;
        // What is reserved for root is left out for root as well; a quota is not looked at.
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_names() {
        for bad in ["", ".", "..", "a/b", "/a", "a/", "../a", "a\0b"] {
            assert_eq!(
                check(bad).unwrap_err().kind(),
                io::ErrorKind::InvalidInput,
                "{bad:?}"
            );
        }
        for good in ["a", "...", ".hidden", "a b", "ä"] {
            check(good).unwrap();
        }
    }
}
