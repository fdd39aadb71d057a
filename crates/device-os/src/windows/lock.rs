//! One writer per directory: `LockFileEx` against other processes, a registry against a second
//! opening in this one.
//!
//! The locked byte lies far behind the end of the file: a lock of Windows keeps others from reading
//! what it covers. The system drops it with the process, however that ends. The file is opened so
//! that nobody can delete it meanwhile.

#![allow(unsafe_code)]

use super::error::at;
use super::handle::{self, How};
use super::security::Owner;
use logforce_device::FileIdentity;
use std::collections::HashSet;
use std::io;
use std::os::windows::io::{AsRawHandle, OwnedHandle};
use std::path::Path;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use windows_sys::Win32::Foundation::{
    ERROR_IO_PENDING, ERROR_LOCK_VIOLATION, ERROR_SHARING_VIOLATION, GENERIC_READ, GENERIC_WRITE,
};
use windows_sys::Win32::Storage::FileSystem::{
    FILE_FLAG_OPEN_REPARSE_POINT, FILE_SHARE_READ, FILE_SHARE_WRITE, LOCKFILE_EXCLUSIVE_LOCK,
    LOCKFILE_FAIL_IMMEDIATELY, LockFileEx, OPEN_ALWAYS, OPEN_EXISTING, UnlockFileEx,
};
use windows_sys::Win32::System::IO::OVERLAPPED;

/// Which byte is locked: half of the upper part of its offset.
const PLACE: u32 = 0x4000_0000;

/// Somebody who only asks whether the lock is held holds it for a moment, shared. Whoever wants it
/// tries again for so long.
const ATTEMPTS: u32 = 10;
const PAUSE: Duration = Duration::from_millis(3);

static REGISTRY: LazyLock<Mutex<HashSet<FileIdentity>>> = LazyLock::new(Mutex::default);

fn registry() -> MutexGuard<'static, HashSet<FileIdentity>> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes the lock of the directory `identity` by its file `wide` (`path` in messages).
pub fn take(wide: &[u16], identity: FileIdentity, path: &Path) -> io::Result<WriterLock> {
    // The entry comes first, so that two threads of this process cannot both get past here, and
    // leaves with `entry` if anything below fails.
    if !registry().insert(identity) {
        return Err(taken(path, "another opening in this process"));
    }
    let entry = Entry(identity);
    let mut attempt = 0;
    loop {
        attempt += 1;
        let result = open(wide, GENERIC_READ | GENERIC_WRITE, OPEN_ALWAYS)
            .map_err(|e| at(e, "open the lock file", path))
            .and_then(|file| {
                let held = try_lock(&file, LOCKFILE_EXCLUSIVE_LOCK);
                held.map_err(|e| at(e, "lock", path)).map(|got| (file, got))
            })?;
        match result {
            (file, true) => {
                return Ok(WriterLock {
                    file,
                    _entry: entry,
                });
            }
            _ if attempt == ATTEMPTS => return Err(taken(path, "another process")),
            _ => std::thread::sleep(PAUSE),
        }
    }
}

/// Whether anybody holds the lock. Makes nothing.
pub fn is_taken(wide: &[u16], identity: FileIdentity, path: &Path) -> io::Result<bool> {
    let file = match open(wide, GENERIC_READ, OPEN_EXISTING) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
        // Opened by somebody who shares nothing: not one of ours, and no writer gets past it.
        Err(e) if e.raw_os_error() == Some(ERROR_SHARING_VIOLATION as i32) => return Ok(true),
        Err(e) => return Err(at(e, "open the lock file", path)),
    };
    if registry().contains(&identity) {
        return Ok(true);
    }
    let free = try_lock(&file, 0).map_err(|e| at(e, "ask for the lock on", path))?;
    if free {
        unlock(&file);
    }
    Ok(!free)
}

fn open(wide: &[u16], access: u32, disposition: u32) -> io::Result<OwnedHandle> {
    handle::open(
        wide,
        How {
            access,
            share: FILE_SHARE_READ | FILE_SHARE_WRITE,
            disposition,
            flags: FILE_FLAG_OPEN_REPARSE_POINT,
            owner: Owner::of_files(),
        },
    )
}

fn place() -> OVERLAPPED {
    let mut place = OVERLAPPED::default();
    place.Anonymous.Anonymous.OffsetHigh = PLACE;
    place
}

/// `Ok(false)` if somebody else holds it.
fn try_lock(file: &OwnedHandle, kind: u32) -> io::Result<bool> {
    let flags = kind | LOCKFILE_FAIL_IMMEDIATELY;
    // SAFETY: the handle is open and synchronous, so that the call returns when it is done with the
    // structure, a live local.
    if unsafe { LockFileEx(file.as_raw_handle(), flags, 0, 1, 0, &mut place()) } != 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error().map(|e| e as u32) {
        Some(ERROR_LOCK_VIOLATION | ERROR_IO_PENDING) => Ok(false),
        _ => Err(error),
    }
}

fn unlock(file: &OwnedHandle) {
    // SAFETY: as in `try_lock`. What cannot be unlocked is by closing the handle.
    unsafe { UnlockFileEx(file.as_raw_handle(), 0, 1, 0, &mut place()) };
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
    file: OwnedHandle,
    _entry: Entry,
}

impl Drop for WriterLock {
    fn drop(&mut self) {
        // Not left to closing: Windows says that locks are dropped some time after that.
        unlock(&self.file);
    }
}

/// An entry of the registry, removed when dropped.
struct Entry(FileIdentity);

impl Drop for Entry {
    fn drop(&mut self) {
        registry().remove(&self.0);
    }
}
