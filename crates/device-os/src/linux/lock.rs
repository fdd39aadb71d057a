//! One writer per directory: an open-file-description lock against other processes, a registry
//! against a second opening in this one.

use super::error::at;
use super::{fork, ofd};
use logforce_device::FileIdentity;
use rustix::fs::{AtFlags, Mode, OFlags};
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// The locked directories, each with the process that locked it: a forked child inherits a copy
/// of the table, whose entries are its parent's and say nothing of the child.
static REGISTRY: LazyLock<Mutex<HashMap<FileIdentity, u64>>> = LazyLock::new(Mutex::default);

fn registry() -> MutexGuard<'static, HashMap<FileIdentity, u64>> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes the lock of the directory `identity`, open as `dir`, by its file `name`.
pub fn take(
    dir: BorrowedFd<'_>,
    identity: FileIdentity,
    name: &str,
    path: &Path,
) -> io::Result<WriterLock> {
    let process = fork::process();
    // The entry comes first, so that two threads of this process cannot both get past here, and
    // leaves with `entry` if anything below fails.
    let entry = {
        let mut table = registry();
        if table.get(&identity) == Some(&process) {
            return Err(taken(path, "another opening in this process"));
        }
        table.insert(identity, process);
        Entry { identity, process }
    };
    let flags =
        OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = rustix::fs::openat(dir, name, flags, Mode::RUSR | Mode::WUSR)
        .map_err(|e| at(e, "open the lock file", path))?;
    match ofd::try_lock(file.as_fd()) {
        Ok(()) => Ok(WriterLock { file, entry }),
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => Err(taken(path, "another process")),
        Err(e) => Err(at(e, "lock", path)),
    }
}

/// Whether anybody holds the lock. Makes nothing.
pub fn is_taken(
    dir: BorrowedFd<'_>,
    identity: FileIdentity,
    name: &str,
    path: &Path,
) -> io::Result<bool> {
    if registry().get(&identity) == Some(&fork::process()) {
        // Ours, if the lock file is still there: a missing one is nobody's lock.
        match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => return Ok(true),
            Err(rustix::io::Errno::NOENT) => return Ok(false),
            Err(e) => return Err(at(e, "look at the lock file", path)),
        }
    }
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    match rustix::fs::openat(dir, name, flags, Mode::empty()) {
        Ok(file) => ofd::is_locked(file.as_fd()).map_err(|e| at(e, "ask for the lock on", path)),
        Err(rustix::io::Errno::NOENT) => Ok(false),
        Err(e) => Err(at(e, "open the lock file", path)),
    }
}

fn taken(path: &Path, by: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::WouldBlock,
        format!(
            "{} is locked by {by}: a log has one writer at a time",
            path.display()
        ),
    )
}

/// The lock, held until dropped or until the process ends.
pub struct WriterLock {
    file: OwnedFd,
    entry: Entry,
}

impl Drop for WriterLock {
    fn drop(&mut self) {
        // By an explicit unlock, not only by closing: a forked child has a copy of the
        // descriptor, and would keep the log locked for as long as it lives. But a child that
        // drops its copy of this value must not unlock its parent's log: there only the
        // descriptor is closed.
        if self.entry.process == fork::process() {
            let _ = ofd::unlock(self.file.as_fd());
        }
    }
}

/// An entry of the registry, removed when dropped.
struct Entry {
    identity: FileIdentity,
    process: u64,
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut table = registry();
        if table.get(&self.identity) == Some(&self.process) {
            table.remove(&self.identity);
        }
    }
}
