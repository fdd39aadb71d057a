//! Queries about a path, a volume and the disk below it.

#![allow(unsafe_code)]

use super::disk::{Ask, Question};
use super::handle::{self, How, SHARE_ALL};
use super::{control, protocol, storage};
use std::io;
use std::os::windows::io::{AsRawHandle, OwnedHandle};
use std::ptr;
use windows_sys::Win32::Storage::FileSystem as fs;
use windows_sys::Win32::System::Ioctl::{
    IOCTL_STORAGE_GET_DEVICE_NUMBER, IOCTL_STORAGE_QUERY_PROPERTY, StorageAccessAlignmentProperty,
    StorageAdapterProtocolSpecificProperty, StorageDeviceProperty,
    StorageDeviceProtocolSpecificProperty, StorageDeviceSeekPenaltyProperty,
    StorageDeviceWriteCacheProperty,
};

/// Length of the text buffer, in UTF-16 units: longer than any path.
const LONGEST: u32 = 33_000;

/// Calls `fill` with a buffer for a text, and returns the text before the first NUL.
fn text(fill: impl FnOnce(*mut u16, u32) -> bool) -> io::Result<Vec<u16>> {
    let mut buf = vec![0u16; LONGEST as usize];
    if !fill(buf.as_mut_ptr(), LONGEST) {
        return Err(io::Error::last_os_error());
    }
    buf.truncate(buf.iter().position(|c| *c == 0).unwrap_or(buf.len()));
    Ok(buf)
}

fn ended(path: &[u16]) -> Vec<u16> {
    path.iter().copied().chain([0]).collect()
}

/// Returns the path of an open directory, without links and with the prefix `\\?\`.
pub fn final_path(handle: &OwnedHandle) -> io::Result<Vec<u16>> {
    text(|buf, len| {
        // SAFETY: the handle is open, the buffer is as long as is said.
        let got = unsafe { fs::GetFinalPathNameByHandleW(handle.as_raw_handle(), buf, len, 0) };
        got > 0 && got < len
    })
}

/// Returns the root of the volume of a path, such as `\\?\C:\`.
pub fn root(path: &[u16]) -> io::Result<Vec<u16>> {
    let path = ended(path);
    text(|buf, len| {
        // SAFETY: the path ends in a NUL, the buffer is as long as is said.
        unsafe { fs::GetVolumePathNameW(path.as_ptr(), buf, len) != 0 }
    })
}

/// Returns the volume's name by its GUID, such as `\\?\Volume{…}\`.
pub fn guid(root: &[u16]) -> io::Result<Vec<u16>> {
    let root = ended(root);
    text(|buf, len| {
        // SAFETY: as in `root`.
        unsafe { fs::GetVolumeNameForVolumeMountPointW(root.as_ptr(), buf, len.min(1024)) != 0 }
    })
}

/// Returns the type of the drive, `DRIVE_…`.
pub fn drive_type(root: &[u16]) -> u32 {
    let root = ended(root);
    // SAFETY: the path ends in a NUL.
    unsafe { fs::GetDriveTypeW(root.as_ptr()) }
}

/// Returns the logical sector of the volume of a path, in bytes.
pub fn sector(path: &[u16]) -> Option<u32> {
    let root = ended(&root(path).ok()?);
    let (mut sectors, mut bytes, mut free, mut all) = (0, 0, 0, 0);
    // SAFETY: the path ends in a NUL, the pointers are to live locals.
    let ok = unsafe {
        fs::GetDiskFreeSpaceW(root.as_ptr(), &mut sectors, &mut bytes, &mut free, &mut all)
    };
    let sane = bytes.is_power_of_two() && (512..=1 << 20).contains(&bytes);
    (ok != 0 && sane).then_some(bytes)
}

/// Returns the space that is free for this user, and the total, in bytes.
pub fn space(path: &[u16]) -> io::Result<(u64, u64)> {
    let path = ended(path);
    let (mut free, mut all) = (0, 0);
    // SAFETY: the path ends in a NUL, the pointers are to live locals.
    let ok =
        unsafe { fs::GetDiskFreeSpaceExW(path.as_ptr(), &mut free, &mut all, ptr::null_mut()) };
    if ok == 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((free, all))
}

/// Properties of the filesystem of an open directory, by its own report.
#[derive(Debug, Default)]
pub struct Filesystem {
    /// Name, such as `NTFS`.
    pub name: String,
    /// Serial number of the volume.
    pub serial: u32,
    /// Flags, `FILE_…` (`FILE_READ_ONLY_VOLUME` and the like).
    pub flags: u32,
}

/// Queries the filesystem.
pub fn filesystem(handle: &OwnedHandle) -> io::Result<Filesystem> {
    let mut found = Filesystem::default();
    let name = text(|buf, len| {
        // SAFETY: the handle is open, the buffer is as long as is said, the pointers are to live
        // locals, and what may be null is.
        unsafe {
            fs::GetVolumeInformationByHandleW(
                handle.as_raw_handle(),
                ptr::null_mut(),
                0,
                &mut found.serial,
                ptr::null_mut(),
                &mut found.flags,
                buf,
                len.min(1024),
            ) != 0
        }
    })?;
    found.name = String::from_utf16_lossy(&name);
    #[cfg(test)]
    if let Some(name) = super::trace::pretended().filesystem {
        found.name = name.to_owned();
    }
    Ok(found)
}

/// Disk that can be queried.
#[derive(Debug)]
pub struct Disk {
    /// Name of the disk, or of the volume if the disk has none.
    name: String,
    handle: OwnedHandle,
}

impl Disk {
    /// Opens the disk below the volume `guid`, without any right on it, so that every user may query it.
    pub fn below(guid: &[u16]) -> io::Result<Disk> {
        let volume = guid.strip_suffix(&[u16::from(b'\\')]).unwrap_or(guid);
        let handle = open(volume)?;
        // If that is refused (a volume on several disks), the volume is queried instead of the disk.
        if let Ok(answer) = control::send(&handle, IOCTL_STORAGE_GET_DEVICE_NUMBER, &[], 12) {
            let number = storage::disk_number(&answer)?;
            let name = format!("PhysicalDrive{number}");
            let path: Vec<u16> = format!(r"\\.\{name}").encode_utf16().collect();
            if let Ok(handle) = open(&path) {
                return Ok(Disk { name, handle });
            }
        }
        Ok(Disk {
            name: String::from_utf16_lossy(volume),
            handle,
        })
    }
}

impl Ask for Disk {
    fn name(&self) -> &str {
        &self.name
    }

    fn ask(&self, question: Question) -> io::Result<Vec<u8>> {
        let id = match question {
            Question::Device => StorageDeviceProperty,
            Question::Alignment => StorageAccessAlignmentProperty,
            Question::SeekPenalty => StorageDeviceSeekPenaltyProperty,
            Question::WriteCache => StorageDeviceWriteCacheProperty,
        };
        // STORAGE_PROPERTY_QUERY: the property, "the standard question" (0), and no parameters.
        let query = [id as u32, 0, 0].map(u32::to_le_bytes).concat();
        control::send(&self.handle, IOCTL_STORAGE_QUERY_PROPERTY, &query, 1024)
    }

    /// Drivers answer by the adapter's property, some only by the disk's.
    fn identify(&self) -> io::Result<Vec<u8>> {
        let ask = |id: i32| {
            let question = protocol::question(id as u32);
            let code = IOCTL_STORAGE_QUERY_PROPERTY;
            control::send(&self.handle, code, &question, protocol::LONGEST)
        };
        ask(StorageAdapterProtocolSpecificProperty)
            .or_else(|_| ask(StorageDeviceProtocolSpecificProperty))
    }
}

fn open(path: &[u16]) -> io::Result<OwnedHandle> {
    let how = How {
        access: 0,
        share: SHARE_ALL,
        disposition: fs::OPEN_EXISTING,
        flags: 0,
        owner: None,
    };
    handle::open(&ended(path), how)
}
