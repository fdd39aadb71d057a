//! One writer per directory: `flock`, which belongs to the open file, against other processes; a
//! registry against a second opening in this one.

use super::error::at;
use logforce_device::FileIdentity;
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;
use std::collections::HashMap;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The locked directories, each with the process that locked it: a forked child has a copy of the
/// table, whose entries are its parent's.
static REGISTRY: LazyLock<Mutex<HashMap<FileIdentity, u32>>> = LazyLock::new(Mutex::default);

/// Somebody who only asks whether the lock is held holds it for a moment, shared. Whoever wants it
/// tries again for so long.
const ATTEMPTS: u32 = 10;
const PAUSE: Duration = Duration::from_millis(3);

const FLAGS: OFlags = OFlags::CLOEXEC
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK);

fn registry() -> MutexGuard<'static, HashMap<FileIdentity, u32>> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes the lock of the directory `identity`, open as `dir`, by its file `name`.
pub fn take(
    dir: BorrowedFd<'_>,
    identity: FileIdentity,
    name: &str,
    path: &Path,
) -> io::Result<WriterLock> {
    let process = std::process::id();
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
    let flags = FLAGS | OFlags::RDWR | OFlags::CREATE;
    let file = rustix::fs::openat(dir, name, flags, Mode::RUSR | Mode::WUSR)
        .map_err(|e| at(e, "open the lock file", path))?;
    for attempt in 1.. {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => break,
            Err(Errno::WOULDBLOCK) if attempt == ATTEMPTS => {
                return Err(taken(path, "another process"));
            }
            Err(Errno::WOULDBLOCK | Errno::INTR) => std::thread::sleep(PAUSE),
            Err(e) => return Err(at(e, "lock", path)),
        }
    }
    Ok(WriterLock { file, entry })
}

/// Whether anybody holds the lock. Makes nothing.
pub fn is_taken(
    dir: BorrowedFd<'_>,
    identity: FileIdentity,
    name: &str,
    path: &Path,
) -> io::Result<bool> {
    let file = match rustix::fs::openat(dir, name, FLAGS | OFlags::RDONLY, Mode::empty()) {
        Ok(file) => file,
        Err(Errno::NOENT) => return Ok(false),
        Err(e) => return Err(at(e, "open the lock file", path)),
    };
    if registry().get(&identity) == Some(&std::process::id()) {
        return Ok(true);
    }
    // Dropped with the descriptor.
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(false),
        Err(Errno::WOULDBLOCK) => Ok(true),
        Err(e) => Err(at(e, "ask for the lock on", path)),
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
        // By an explicit unlock: a forked child has a copy of the descriptor, and would keep the
        // log locked for as long as it lives. But a child that drops its copy of this value must
        // not unlock its parent's log.
        if self.entry.process == std::process::id() {
            let _ = flock(&self.file, FlockOperation::Unlock);
        }
    }
}

/// An entry of the registry, removed when dropped.
struct Entry {
    identity: FileIdentity,
    process: u32,
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut table = registry();
        if table.get(&self.identity) == Some(&self.process) {
            table.remove(&self.identity);
        }
    }
}
