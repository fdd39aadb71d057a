//! One holder per lock file: a lock of the system (the backend's `lock`) against other processes, and a
//! registry against a second opening in this process.

use crate::os::lock::{Held, unlock};
use crate::os::runtime::process;
use logforce_device::FileIdentity;
use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// Directory and name of a lock file. Its own identity would not do: a file that was deleted has another one
/// when it is made again.
type Name = (FileIdentity, String);

/// Held locks, each with the process that holds it. A forked child inherits a copy of the table; its
/// entries belong to the parent and do not count for the child.
static REGISTRY: LazyLock<Mutex<HashMap<Name, u64>>> = LazyLock::new(Mutex::default);

fn registry() -> MutexGuard<'static, HashMap<Name, u64>> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns true if this process holds the lock `name` of the directory.
pub fn is_ours(directory: FileIdentity, name: &str) -> bool {
    registry().get(&(directory, name.to_owned())) == Some(&process())
}

/// Takes the lock `name` of the directory. `call` requests it from the system; `None` if another process
/// holds it. `path` is for messages.
pub fn take(
    directory: FileIdentity,
    name: &str,
    path: &Path,
    call: impl FnOnce() -> io::Result<Option<Held>>,
) -> io::Result<WriterLock> {
    let process = process();
    let name = (directory, name.to_owned());
    // The entry is made first, so that two threads of this process cannot both pass this point. `entry`
    // removes it if anything below fails.
    let entry = {
        let mut table = registry();
        if table.get(&name) == Some(&process) {
            return Err(taken(path, "another opening in this process"));
        }
        table.insert(name.clone(), process);
        Entry { name, process }
    };
    match call()? {
        Some(held) => Ok(WriterLock {
            _held: FileLock::new(held),
            _entry: entry,
        }),
        None => Err(taken(path, "another process")),
    }
}

pub fn taken(path: &Path, by: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::WouldBlock,
        format!(
            "{} is locked by {by}: there is one writer at a time",
            path.display()
        ),
    )
}

/// A held lock, until dropped or until the process ends.
pub struct WriterLock {
    /// First field, so that the file is closed before the entry is removed.
    _held: FileLock,
    _entry: Entry,
}

/// Locked file, until dropped or until the process ends.
pub struct FileLock {
    held: Held,
    process: u64,
}

impl FileLock {
    pub fn new(held: Held) -> FileLock {
        FileLock {
            held,
            process: process(),
        }
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // Unlocks explicitly instead of only closing. A forked child has a copy of the descriptor, and would
        // keep the log locked for as long as it lives. Windows also documents that locks are released some
        // time after closing. A child that drops its copy of this value must not unlock its parent's log, so
        // it only closes the descriptor.
        if self.process == process() {
            unlock(&self.held);
        }
    }
}

/// Entry of the registry, removed when dropped.
struct Entry {
    name: Name,
    process: u64,
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut table = registry();
        if table.get(&self.name) == Some(&self.process) {
            table.remove(&self.name);
        }
    }
}
