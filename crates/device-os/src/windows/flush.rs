//! Flushes: of a file whole, and of its data alone.

#![allow(unsafe_code)]

use std::ffi::c_void;
use std::io;
use std::mem::transmute;
use std::os::windows::io::{AsRawHandle, OwnedHandle};
use std::sync::OnceLock;
use windows_sys::Win32::Foundation::{
    HANDLE, NTSTATUS, RtlNtStatusToDosError, STATUS_INVALID_DEVICE_REQUEST,
    STATUS_INVALID_PARAMETER, STATUS_INVALID_PARAMETER_2, STATUS_NOT_IMPLEMENTED,
    STATUS_NOT_SUPPORTED, STATUS_PENDING,
};
use windows_sys::Win32::Storage::FileSystem::FlushFileBuffers;
use windows_sys::Win32::System::IO::IO_STATUS_BLOCK;
use windows_sys::Win32::System::LibraryLoader::{GetModuleHandleW, GetProcAddress};
use windows_sys::Win32::System::SystemServices::FLUSH_FLAGS_FILE_DATA_SYNC_ONLY;
use windows_sys::{s, w};

type FlushEx =
    unsafe extern "system" fn(HANDLE, u32, *const c_void, u32, *mut IO_STATUS_BLOCK) -> NTSTATUS;

/// Returns `NtFlushBuffersFileEx`, which ntdll has since Windows 8.
fn flush_ex() -> Option<FlushEx> {
    #[cfg(test)]
    if let Some(pretended) = super::trace::pretended().flush_ex {
        return Some(pretended);
    }
    static FOUND: OnceLock<Option<FlushEx>> = OnceLock::new();
    *FOUND.get_or_init(|| {
        // SAFETY: ntdll is part of every process and is never unloaded; both names end in a NUL.
        let found = unsafe {
            GetProcAddress(
                GetModuleHandleW(w!("ntdll.dll")),
                s!("NtFlushBuffersFileEx"),
            )
        };
        // SAFETY: the function of that name has this signature (ntifs.h).
        found.map(|f| unsafe { transmute::<unsafe extern "system" fn() -> isize, FlushEx>(f) })
    })
}

/// Returns true if the system offers a flush of the data alone.
pub fn has_data_only() -> bool {
    flush_ex().is_some()
}

/// Calls `FlushFileBuffers`: flushes data and metadata of the file, including writes by other handles, and
/// the device's cache. The handle must be one for writing.
pub fn all(handle: &OwnedHandle) -> io::Result<()> {
    // SAFETY: the handle is open for as long as it is borrowed.
    let flushed = match unsafe { FlushFileBuffers(handle.as_raw_handle()) } {
        0 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    };
    #[cfg(test)]
    let flushed = match super::trace::refuses(super::handle::attributes(handle)?) {
        // ERROR_INVALID_FUNCTION.
        true => Err(io::Error::from_raw_os_error(1)),
        false => flushed,
    };
    #[cfg(test)]
    super::trace::record(super::trace::Call::Flush {
        of: super::handle::identity(handle)?,
        ok: flushed.is_ok(),
    });
    flushed
}

/// Flushes the file's data and the device's cache (`FLUSH_FLAGS_FILE_DATA_SYNC_ONLY`). Microsoft's page says
/// that this includes the metadata needed to retrieve the data; nothing here relies on that. Returns
/// `Ok(false)` if the system or the filesystem (any but NTFS) has no such call: nothing was flushed then, and
/// nothing was lost either.
pub fn data(handle: &OwnedHandle) -> io::Result<bool> {
    let Some(flush) = flush_ex() else {
        return Ok(false);
    };
    // On the heap: if the call ever returns while the flush is still in progress, the block is leaked.
    let status = Box::leak(Box::<IO_STATUS_BLOCK>::default());
    let raw = &raw mut *status;
    // SAFETY: the handle is open, there are no parameters, and the status block is a live
    // allocation.
    let answer = unsafe {
        flush(
            handle.as_raw_handle(),
            FLUSH_FLAGS_FILE_DATA_SYNC_ONLY,
            std::ptr::null(),
            0,
            raw,
        )
    };
    if answer == STATUS_PENDING {
        // Does not happen for a flush, which waits. The full flush that follows would wait for it as well.
        return Ok(false);
    }
    // SAFETY: the flush is over, so the system no longer writes to the block, which was leaked
    // above and has no other owner.
    drop(unsafe { Box::from_raw(raw) });
    match answer {
        0.. => Ok(true),
        // Refused before anything was done. Any other failure is a real one: the data may be lost, and a
        // second flush would not report that.
        STATUS_NOT_SUPPORTED
        | STATUS_NOT_IMPLEMENTED
        | STATUS_INVALID_DEVICE_REQUEST
        | STATUS_INVALID_PARAMETER
        | STATUS_INVALID_PARAMETER_2 => Ok(false),
        failed => {
            // SAFETY: translates a number.
            let code = unsafe { RtlNtStatusToDosError(failed) };
            Err(io::Error::from_raw_os_error(code as i32))
        }
    }
}
