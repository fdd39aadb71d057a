//! Opening files with the flags of a method, and queries of a handle.

#![allow(unsafe_code)]

use super::security::Owner;
use std::io;
use std::mem::{offset_of, size_of, zeroed};
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::ptr;
use windows_sys::Win32::Foundation::INVALID_HANDLE_VALUE;
use windows_sys::Win32::Storage::FileSystem as fs;

/// Sharing mode that lets other processes read, write, rename and remove open files, as on other systems.
pub const SHARE_ALL: u32 = fs::FILE_SHARE_READ | fs::FILE_SHARE_WRITE | fs::FILE_SHARE_DELETE;

/// Options for opening a handle.
#[derive(Debug, Clone, Copy)]
pub struct How<'a> {
    /// Rights, such as `GENERIC_READ`.
    pub access: u32,
    /// Operations that other processes may do meanwhile.
    pub share: u32,
    /// Disposition, such as `OPEN_EXISTING`.
    pub disposition: u32,
    /// Flags, `FILE_FLAG_…`.
    pub flags: u32,
    /// Users who may open a new file.
    pub owner: Option<&'a Owner>,
}

/// Opens the file at a path that ends in a NUL.
pub fn open(path: &[u16], how: How<'_>) -> io::Result<OwnedHandle> {
    assert_eq!(path.last(), Some(&0), "a path without its end");
    #[cfg(test)]
    super::trace::opening(path, how.access, how.disposition, how.flags);
    let attributes = how.owner.map(Owner::attributes);
    let attributes = attributes.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: `path` ends in a NUL (asserted) and lives through the call, and so do the attributes
    // and the descriptor in them, which `how.owner` keeps.
    let handle = unsafe {
        fs::CreateFileW(
            path.as_ptr(),
            how.access,
            how.share,
            attributes,
            how.disposition,
            how.flags,
            ptr::null_mut(),
        )
    };
    owned(handle)
}

/// Makes a directory at a path that ends in a NUL, for its owner only.
pub fn make_directory(path: &[u16]) -> io::Result<()> {
    assert_eq!(path.last(), Some(&0), "a path without its end");
    let attributes = Owner::of_directories().map(Owner::attributes);
    let attributes = attributes.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: as in `open`.
    if unsafe { fs::CreateDirectoryW(path.as_ptr(), attributes) } == 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Opens the file behind a handle again, with other rights and flags. Works after a rename.
pub fn reopen(handle: &OwnedHandle, access: u32, flags: u32) -> io::Result<OwnedHandle> {
    // SAFETY: the handle is open for as long as it is borrowed.
    owned(unsafe { fs::ReOpenFile(handle.as_raw_handle(), access, SHARE_ALL, flags) })
}

fn owned(handle: windows_sys::Win32::Foundation::HANDLE) -> io::Result<OwnedHandle> {
    if handle == INVALID_HANDLE_VALUE {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call that gave it has just opened it, and nothing else owns it.
    Ok(unsafe { OwnedHandle::from_raw_handle(handle) })
}

/// Queries a class of `GetFileInformationByHandleEx` or its like. `T` must be the structure of that class, of
/// plain numbers (every pattern of bits is a value).
///
/// # Safety
/// `T` consists of plain numbers, and is the structure that `class` fills.
unsafe fn information<T>(handle: &OwnedHandle, class: i32) -> io::Result<T> {
    // SAFETY: by the contract all zeroes are a value of `T`.
    let mut value: T = unsafe { zeroed() };
    // SAFETY: the handle is open; the pointer is to a live local of the size that is given.
    let ok = unsafe {
        fs::GetFileInformationByHandleEx(
            handle.as_raw_handle(),
            class,
            (&raw mut value).cast(),
            size_of::<T>() as u32,
        )
    };
    if ok == 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(value)
}

/// Returns the size in bytes.
pub fn len(handle: &OwnedHandle) -> io::Result<u64> {
    let mut size = 0;
    // SAFETY: the handle is open, the pointer is to a live local.
    if unsafe { fs::GetFileSizeEx(handle.as_raw_handle(), &mut size) } == 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(size as u64)
}

/// Sets the size. Data behind it is truncated: see `Extent::sizing`.
pub fn set_len(handle: &OwnedHandle, len: u64) -> io::Result<()> {
    let end = fs::FILE_END_OF_FILE_INFO {
        EndOfFile: len as i64,
    };
    // SAFETY: the handle is open; the structure is the one of this class.
    let ok = unsafe {
        fs::SetFileInformationByHandle(
            handle.as_raw_handle(),
            fs::FileEndOfFileInfo,
            (&raw const end).cast(),
            size_of_val(&end) as u32,
        )
    };
    if ok == 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Returns the volume and the file number, which no other file has at the same time.
///
/// ReFS has numbers of 128 bits. The upper half, which is 0 on NTFS, is mixed into the lower half.
pub fn identity(handle: &OwnedHandle) -> io::Result<logforce_device::FileIdentity> {
    // SAFETY: plain numbers, and the structure of this class.
    if let Ok(id) = unsafe { information::<fs::FILE_ID_INFO>(handle, fs::FileIdInfo) } {
        let number = u128::from_le_bytes(id.FileId.Identifier);
        let upper = ((number >> 64) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        return Ok(logforce_device::FileIdentity {
            volume: id.VolumeSerialNumber,
            file: number as u64 ^ upper,
        });
    }
    // Before Windows 8, and on some network filesystems.
    // SAFETY: plain numbers; all zeroes are a value.
    let mut old: fs::BY_HANDLE_FILE_INFORMATION = unsafe { zeroed() };
    // SAFETY: the handle is open, the pointer is to a live local.
    if unsafe { fs::GetFileInformationByHandle(handle.as_raw_handle(), &mut old) } == 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(logforce_device::FileIdentity {
        volume: old.dwVolumeSerialNumber.into(),
        file: u64::from(old.nFileIndexHigh) << 32 | u64::from(old.nFileIndexLow),
    })
}

/// Returns the `FILE_ATTRIBUTE_…` of an open file or directory.
pub fn attributes(handle: &OwnedHandle) -> io::Result<u32> {
    // SAFETY: plain numbers, and the structure of this class.
    let basic = unsafe { information::<fs::FILE_BASIC_INFO>(handle, fs::FileBasicInfo) }?;
    let attributes = basic.FileAttributes;
    #[cfg(test)]
    let attributes = attributes | super::trace::pretended().attributes;
    Ok(attributes)
}

/// Renames the open file (`DELETE` rights) to an absolute path, and replaces the file of that name. Processes
/// that have the replaced file open keep it. Since Windows 10, on NTFS.
pub fn rename_over(handle: &OwnedHandle, to: &[u16]) -> io::Result<()> {
    const REPLACE_AND_POSIX: u32 = 1 | 2;
    let name = to.strip_suffix(&[0]).unwrap_or(to);
    let name_at = offset_of!(fs::FILE_RENAME_INFO, FileName);
    let len = name_at + size_of_val(to) + 2;
    // A vector of u64, so that the structure is aligned.
    let mut memory = vec![0u64; len.div_ceil(8).max(size_of::<fs::FILE_RENAME_INFO>())];
    let info = memory.as_mut_ptr().cast::<fs::FILE_RENAME_INFO>();
    // SAFETY: `memory` is aligned to 8 and longer than the structure with the whole name behind it;
    // the writes stay within it. The handle is open, and the length is within the memory.
    let ok = unsafe {
        (*info).Anonymous.Flags = REPLACE_AND_POSIX;
        (*info).RootDirectory = ptr::null_mut();
        (*info).FileNameLength = size_of_val(name) as u32;
        let place = info.cast::<u8>().add(name_at).cast::<u16>();
        ptr::copy_nonoverlapping(name.as_ptr(), place, name.len());
        fs::SetFileInformationByHandle(
            handle.as_raw_handle(),
            fs::FileRenameInfoEx,
            info.cast(),
            len as u32,
        )
    };
    if ok == 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Removes the name of the open file (`DELETE` rights) at once, even if other processes have it open. Since
/// Windows 10, on NTFS.
pub fn remove_name(handle: &OwnedHandle) -> io::Result<()> {
    let info = fs::FILE_DISPOSITION_INFO_EX {
        Flags: fs::FILE_DISPOSITION_FLAG_DELETE | fs::FILE_DISPOSITION_FLAG_POSIX_SEMANTICS,
    };
    disposition(handle, fs::FileDispositionInfoEx, &info)
}

/// Removes the file when the last process that has it open closes it.
pub fn remove_when_closed(handle: &OwnedHandle) -> io::Result<()> {
    disposition(
        handle,
        fs::FileDispositionInfo,
        &fs::FILE_DISPOSITION_INFO { DeleteFile: true },
    )
}

fn disposition<T>(handle: &OwnedHandle, class: i32, info: &T) -> io::Result<()> {
    // SAFETY: the handle is open; both callers give the structure of the class, which is only read.
    let ok = unsafe {
        fs::SetFileInformationByHandle(
            handle.as_raw_handle(),
            class,
            ptr::from_ref(info).cast(),
            size_of::<T>() as u32,
        )
    };
    if ok == 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Renames, and returns only when the system reports that the move is on the disk.
pub fn move_over(from: &[u16], to: &[u16]) -> io::Result<()> {
    assert!(from.last() == Some(&0) && to.last() == Some(&0));
    let flags = fs::MOVEFILE_REPLACE_EXISTING | fs::MOVEFILE_WRITE_THROUGH;
    #[cfg(test)]
    super::trace::record(super::trace::Call::MoveFileEx { flags });
    // SAFETY: both paths end in a NUL (asserted) and live through the call.
    if unsafe { fs::MoveFileExW(from.as_ptr(), to.as_ptr(), flags) } == 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Returns the mode of the handle (`FILE_WRITE_THROUGH` = 2, `FILE_NO_INTERMEDIATE_BUFFERING` = 8, …), to
/// check the flags that the system has accepted.
#[cfg(test)]
pub fn mode(handle: &OwnedHandle) -> io::Result<u32> {
    use windows_sys::Wdk::Storage::FileSystem as wdk;
    use windows_sys::Win32::System::IO::IO_STATUS_BLOCK;
    // SAFETY: plain numbers; all zeroes are a value.
    let (mut status, mut info): (IO_STATUS_BLOCK, wdk::FILE_MODE_INFORMATION) =
        unsafe { (zeroed(), zeroed()) };
    // SAFETY: the handle is open, the pointers are to live locals, the structure is the class's.
    let result = unsafe {
        wdk::NtQueryInformationFile(
            handle.as_raw_handle(),
            &mut status,
            (&raw mut info).cast(),
            size_of_val(&info) as u32,
            wdk::FileModeInformation,
        )
    };
    if result != 0 {
        return Err(io::Error::other(format!("status {result:#x}")));
    }
    Ok(info.Mode)
}
