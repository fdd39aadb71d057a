//! `LockFileEx`.
//!
//! The locked byte lies far behind the end of the file, because a lock of Windows prevents other processes
//! from reading the locked bytes. The system releases it with the process, however that ends. The file is
//! opened so that no process can delete it meanwhile.

#![allow(unsafe_code)]

use super::error::at;
use super::handle::{self, How};
use super::security::Owner;
use crate::lock::is_ours;
use logforce_device::FileIdentity;
use std::io;
use std::os::windows::io::{AsRawHandle, OwnedHandle};
use std::path::Path;
use std::time::Duration;
use windows_sys::Win32::Foundation::{
    ERROR_IO_PENDING, ERROR_LOCK_VIOLATION, ERROR_SHARING_VIOLATION, GENERIC_READ, GENERIC_WRITE,
};
use windows_sys::Win32::Storage::FileSystem::{
    FILE_FLAG_OPEN_REPARSE_POINT, FILE_SHARE_READ, FILE_SHARE_WRITE, LOCKFILE_EXCLUSIVE_LOCK,
    LOCKFILE_FAIL_IMMEDIATELY, LockFileEx, OPEN_ALWAYS, OPEN_EXISTING, UnlockFileEx,
};
use windows_sys::Win32::System::IO::OVERLAPPED;

/// Upper half of the offset of the locked byte.
const PLACE: u32 = 0x4000_0000;

/// Attempts to take the lock. A process that only asks whether the lock is held holds it shared for a moment.
const ATTEMPTS: u32 = 10;
const PAUSE: Duration = Duration::from_millis(3);

/// Lock file, locked.
pub type Held = OwnedHandle;

/// Locks the file `wide` (`path` in messages); `None` if another process has locked it.
pub fn take(wide: &[u16], path: &Path) -> io::Result<Option<Held>> {
    for _ in 1..ATTEMPTS {
        if let Some(held) = attempt(wide, path)? {
            return Ok(Some(held));
        }
        std::thread::sleep(PAUSE);
    }
    attempt(wide, path)
}

fn attempt(wide: &[u16], path: &Path) -> io::Result<Option<Held>> {
    let file = open(wide, GENERIC_READ | GENERIC_WRITE, OPEN_ALWAYS)
        .map_err(|e| at(e, "open the lock file", path))?;
    let held = try_lock(&file, LOCKFILE_EXCLUSIVE_LOCK).map_err(|e| at(e, "lock", path))?;
    Ok(held.then_some(file))
}

/// Returns true if any process holds the lock. Creates nothing.
pub fn is_taken(wide: &[u16], identity: FileIdentity, name: &str, path: &Path) -> io::Result<bool> {
    let file = match open(wide, GENERIC_READ, OPEN_EXISTING) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
        // Opened without sharing by a process that is not ours. No writer can pass that either.
        Err(e) if e.raw_os_error() == Some(ERROR_SHARING_VIOLATION as i32) => return Ok(true),
        Err(e) => return Err(at(e, "open the lock file", path)),
    };
    if is_ours(identity, name) {
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

/// Returns `Ok(false)` if another process holds the lock.
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

pub fn unlock(file: &Held) {
    // SAFETY: as in `try_lock`. What cannot be unlocked is by closing the handle.
    unsafe { UnlockFileEx(file.as_raw_handle(), 0, 1, 0, &mut place()) };
}
