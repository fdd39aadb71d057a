use super::error::{at, of_making, uninterrupted};
use super::open_directory::{FLAGS, OpenDirectory, open_file};
use super::path_identity::{PathIdentity, identity_of};
use crate::lock::{FileLock, take, taken};
use crate::os::file::OsFile;
use crate::os::{directory as os, facts, lock};
use crate::system::OsSystem;
use crate::unix::Trial;
use logforce_device::{
    DirEntry, Directory, Facts, File, FileIdentity, OpenFile, System, Whereabouts,
};
use rustix::fs::{AtFlags, FileType, Mode, RawMode};
use rustix::io::Errno;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// Directory that is held open: files stay in it, whatever happens to its path. If kept closed
/// ([`Directory::keep_closed`]), each call opens it by its path.
pub struct OsDirectory {
    pub open: Arc<OpenDirectory>,
}

/// Makes a directory for its owner only.
pub fn make(path: &Path) -> io::Result<()> {
    uninterrupted(|| rustix::fs::mkdir(path, Mode::RWXU)).map_err(|e| of_making(e, path))
}

impl OsDirectory {
    pub fn open(path: &Path) -> io::Result<Self> {
        let fd = uninterrupted(|| rustix::fs::open(path, FLAGS, Mode::empty()))
            .map_err(|e| at(e, "open the directory", path))?;
        let stat = uninterrupted(|| rustix::fs::fstat(&fd)).map_err(|e| at(e, "look at", path))?;
        Ok(OsDirectory {
            open: Arc::new(OpenDirectory {
                path: path.to_owned(),
                fd: Mutex::new(Some(Arc::new(fd))),
                identity: identity_of(&stat),
                path_identity: PathIdentity::new(path, &stat),
                file_mode: AtomicU32::new(0),
                #[cfg(target_os = "linux")]
                assumed: Default::default(),
            }),
        })
    }

    /// Makes this directory's own entry durable.
    pub fn sync_parent(&self) -> io::Result<()> {
        os::sync_parent(&self.open).map_err(|e| at(e, "make durable the entry of", &self.open.path))
    }
}

/// Refuses a name that is not a plain file name. It would lead out of the directory, or end at the NUL.
fn check(name: &str) -> io::Result<()> {
    if name.is_empty() || name == "." || name == ".." || name.contains(['/', '\0']) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{name:?} is not a plain file name"),
        ));
    }
    Ok(())
}

/// Repeats a call that removes a name, for as long as a signal interrupts it. An interrupted call may have
/// been done (by a server, for example). Then the name is gone, and `is_done` returns true.
fn again(
    mut call: impl FnMut() -> rustix::io::Result<()>,
    is_done: impl Fn() -> bool,
) -> rustix::io::Result<()> {
    let mut was_interrupted = false;
    loop {
        match call() {
            Err(Errno::INTR) => was_interrupted = true,
            Err(Errno::NOENT) if was_interrupted && is_done() => return Ok(()),
            other => return other,
        }
    }
}

impl Directory for OsDirectory {
    fn path(&self) -> &Path {
        &self.open.path
    }

    fn identity(&self) -> FileIdentity {
        self.open.identity
    }

    fn entries(&self) -> io::Result<Vec<DirEntry>> {
        let path = &self.open.path;
        // A listing that was interrupted by a signal cannot be continued, so it starts anew.
        let names = uninterrupted(|| {
            // `read_from` opens the directory again, so that two threads do not share a position.
            rustix::fs::Dir::read_from(&*self.open.fd()?)?
                .map(|entry| entry.map(|e| e.file_name().to_owned()))
                .collect::<rustix::io::Result<Vec<_>>>()
        });
        let dir = self
            .open
            .fd()
            .map_err(|e| at(e, "list the directory", path))?;
        let mut found = Vec::new();
        for name in names.map_err(|e| at(e, "list the directory", path))? {
            if name.as_c_str() == c"." || name.as_c_str() == c".." {
                continue;
            }
            let look = || rustix::fs::statat(&*dir, &name, AtFlags::SYMLINK_NOFOLLOW);
            let stat = match uninterrupted(look) {
                Ok(stat) => stat,
                // Removed since it was listed.
                Err(Errno::NOENT) => continue,
                Err(e) => return Err(at(e, "look at", &path.join(&*name.to_string_lossy()))),
            };
            let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
            found.push(DirEntry {
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
        let at_path = |e| at(e, &format!("rename to {to}"), &self.open.path_of(from));
        let dir = &*self.open.fd().map_err(at_path)?;
        let is_there = |name: &str| {
            let look = || rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW);
            uninterrupted(look).is_ok()
        };
        again(|| rustix::fs::renameat(dir, from, dir, to), || is_there(to)).map_err(at_path)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        check(name)?;
        let at_path = |e| at(e, "remove", &self.open.path_of(name));
        let dir = &*self.open.fd().map_err(at_path)?;
        again(
            || rustix::fs::unlinkat(dir, name, AtFlags::empty()),
            || true,
        )
        .map_err(at_path)
    }

    fn sync(&self) -> io::Result<()> {
        let dir = self.open.fd();
        dir.and_then(|dir| os::sync(dir.as_fd()))
            .map_err(|e| at(e, "sync the directory", &self.open.path))
    }

    fn lock(&self, name: &str) -> io::Result<Box<dyn Send + Sync>> {
        check(name)?;
        let path = self.open.path_of(name);
        let dir = self.open.fd().map_err(|e| at(e, "lock", &path))?;
        let call = || lock::take(dir.as_fd(), name, self.open.file_mode(), &path);
        Ok(Box::new(take(self.open.identity, name, &path, call)?))
    }

    fn lock_file(&self, name: &str) -> io::Result<Box<dyn Send + Sync>> {
        check(name)?;
        let path = self.open.path_of(name);
        let file = open_file(&self.open, name, OpenFile::WRITE)?;
        match lock::take_file(file, &path)? {
            Some(held) => Ok(Box::new(FileLock::new(held))),
            None => Err(taken(&path, "another opening")),
        }
    }

    fn is_locked(&self, name: &str) -> io::Result<bool> {
        check(name)?;
        let path = self.open.path_of(name);
        let dir = self
            .open
            .fd()
            .map_err(|e| at(e, "ask for the lock of", &path))?;
        lock::is_taken(dir.as_fd(), self.open.identity, name, &path)
    }

    fn facts(&self) -> io::Result<Facts> {
        let path = &self.open.path;
        let dir = self.open.fd().map_err(|e| at(e, "look at", path))?;
        facts::gather(dir.as_fd(), path, Trial::None)
    }

    fn facts_for_writing(&self) -> io::Result<Facts> {
        let path = &self.open.path;
        let dir = self.open.fd().map_err(|e| at(e, "look at", path))?;
        facts::gather(dir.as_fd(), path, Trial::NamelessFile)
    }

    fn free_space(&self) -> io::Result<u64> {
        let stat = uninterrupted(|| rustix::fs::fstatvfs(&*self.open.fd()?))
            .map_err(|e| at(e, "ask for the free space of", &self.open.path))?;
        // Space reserved for root is left out for root as well; a quota is not considered.
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    fn whereabouts(&self) -> io::Result<Whereabouts> {
        let open = &self.open;
        let leads = open.path_identity.leads(|| open.fd(), open.identity);
        leads.map_err(|e| at(e, "look for the directory", &open.path))
    }

    fn keep_closed(&self) {
        // Without an absolute path the directory could not be found again.
        if self.open.path_identity.absolute().is_some() {
            let mut held = self.open.fd.lock().unwrap_or_else(PoisonError::into_inner);
            *held = None;
        }
    }

    fn set_file_mode(&self, mode: u32) {
        self.open.file_mode.store(mode, Relaxed);
    }

    fn set_mode(&self, mode: u32) -> io::Result<()> {
        let change = || {
            let dir = self.open.fd()?;
            // Keeps set-group-id, as `chmod` does for directories: new files then get the group of the
            // readers.
            let special = Mode::from_raw_mode(rustix::fs::fstat(&*dir)?.st_mode & 0o7000);
            rustix::fs::fchmod(&*dir, Mode::from_raw_mode(mode as RawMode) | special)
        };
        uninterrupted(change).map_err(|e| at(e, "change the mode of", &self.open.path))
    }

    fn system(&self) -> io::Result<Arc<dyn System>> {
        Ok(Arc::new(OsSystem::new()))
    }

    fn identity_of(&self, name: &str) -> io::Result<FileIdentity> {
        check(name)?;
        let look = || {
            let dir = self.open.fd()?;
            rustix::fs::statat(&*dir, name, AtFlags::SYMLINK_NOFOLLOW)
        };
        uninterrupted(look)
            .map(|stat| identity_of(&stat))
            .map_err(|e| at(e, "look at", &self.open.path_of(name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupted_rename_or_removal_is_repeated_unless_it_was_done() {
        let go = |answers: &[rustix::io::Result<()>], is_done| {
            let mut answers = answers.iter();
            again(|| *answers.next().unwrap(), || is_done)
        };
        let (int, gone) = (Err(Errno::INTR), Err(Errno::NOENT));
        assert_eq!(go(&[int, int, Ok(())], false), Ok(()));
        assert_eq!(go(&[int, gone], true), Ok(()), "it was done");
        assert_eq!(go(&[int, gone], false), gone, "another process removed it");
        assert_eq!(go(&[gone], true), gone, "it never was there");
    }

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
