//! Commands to devices, and questions to the device mapper. They need rights of the administrator.

#![allow(unsafe_code)]

use super::error::{at, uninterrupted};
use crate::nvme;
use rustix::fs::{Mode, OFlags};
use rustix::ioctl::{Opcode, Updater, ioctl, opcode};
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

/// Commands that only read. Tests replay recorded answers.
pub trait Commands: fmt::Debug + Send + Sync {
    /// Sends Identify Controller to the NVMe device of that node.
    ///
    /// # Errors
    /// `PermissionDenied` without the right, otherwise the error of the system or of the device.
    fn nvme_identify(&self, node: &Path) -> io::Result<Vec<u8>>;

    /// Reads the current value of feature 06h (volatile write cache) of the NVMe device of that node.
    ///
    /// # Errors
    /// As [`nvme_identify`](Self::nvme_identify).
    fn nvme_cache(&self, node: &Path) -> io::Result<u32>;

    /// Sends a command that returns at most `len` bytes to the SCSI device of that node.
    ///
    /// # Errors
    /// As [`nvme_identify`](Self::nvme_identify).
    fn scsi(&self, node: &Path, command: &[u8], len: usize) -> io::Result<Vec<u8>>;

    /// Returns the types of the targets of a mapped device.
    ///
    /// # Errors
    /// As [`nvme_identify`](Self::nvme_identify).
    fn mapped(&self, control: &Path, device: (u32, u32)) -> io::Result<Vec<String>>;
}

/// Commands to the real devices.
#[derive(Debug)]
pub struct Real;

fn open(node: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::CLOEXEC | OFlags::NONBLOCK;
    uninterrupted(|| rustix::fs::open(node, flags, Mode::empty())).map_err(|e| at(e, "open", node))
}

/// `struct nvme_admin_cmd` (`linux/nvme_ioctl.h`).
#[repr(C)]
#[derive(Default)]
struct NvmeAdmin {
    opcode: u8,
    flags: u8,
    reserved: u16,
    namespace: u32,
    dword2: u32,
    dword3: u32,
    metadata: u64,
    address: u64,
    metadata_len: u32,
    data_len: u32,
    dword10: u32,
    dword11: u32,
    dword12: u32,
    dword13: u32,
    dword14: u32,
    dword15: u32,
    timeout_ms: u32,
    result: u32,
}

const NVME_ADMIN: Opcode = opcode::read_write::<NvmeAdmin>(b'N', 0x41);
/// Time in which a device has to answer, milliseconds. A disk that has to spin up first takes longer, and
/// counts as one that does not answer.
const TIMEOUT_MS: u32 = 5000;

fn nvme(node: &Path, mut command: NvmeAdmin, data: &mut [u8]) -> io::Result<u32> {
    let device = open(node, OFlags::RDONLY)?;
    command.timeout_ms = TIMEOUT_MS;
    command.address = data.as_mut_ptr() as u64;
    command.data_len = data.len() as u32;
    // SAFETY: the kernel reads the command, and writes at most `data_len` bytes to `address`, where `data` lives
    // until the call has returned. The layout is that of the kernel's header.
    let status = uninterrupted(|| unsafe {
        ioctl(
            &device,
            Updater::<{ NVME_ADMIN }, NvmeAdmin>::new(&mut command),
        )
    });
    status.map_err(|e| at(e, "send an NVMe command to", node))?;
    Ok(command.result)
}

/// `struct sg_io_hdr` (`scsi/sg.h`).
#[repr(C)]
struct SgIo {
    interface: i32,
    direction: i32,
    command_len: u8,
    max_sense: u8,
    segments: u16,
    len: u32,
    data: *mut u8,
    command: *const u8,
    sense: *mut u8,
    timeout_ms: u32,
    flags: u32,
    pack_id: i32,
    user: *mut u8,
    status: u8,
    masked_status: u8,
    message_status: u8,
    sense_len: u8,
    host_status: u16,
    driver_status: u16,
    residue: i32,
    duration: u32,
    info: u32,
}

const SG_IO: Opcode = 0x2285;
const FROM_DEVICE: i32 = -3;

/// `struct dm_ioctl` (`linux/dm-ioctl.h`) and space for the answer.
#[repr(C)]
struct DmAnswer {
    version: [u32; 3],
    size: u32,
    start: u32,
    targets: u32,
    open_count: i32,
    flags: u32,
    event: u32,
    padding: u32,
    device: u64,
    name: [u8; 128],
    uuid: [u8; 129],
    data: [u8; 7],
    space: [u8; 16 << 10],
}

/// `struct dm_ioctl` alone, as its size is part of the number of the call.
#[repr(C)]
struct DmHeader {
    numbers: [u32; 10],
    device: u64,
    texts: [u8; 264],
}

const DM_TABLE_STATUS: Opcode = opcode::read_write::<DmHeader>(0xfd, 12);
/// Flag of an answer that did not fit.
const BUFFER_FULL: u32 = 1 << 8;

impl Commands for Real {
    fn nvme_identify(&self, node: &Path) -> io::Result<Vec<u8>> {
        let mut data = vec![0; nvme::LEN];
        let identify = NvmeAdmin {
            opcode: 0x06,
            dword10: nvme::CNS_CONTROLLER,
            ..NvmeAdmin::default()
        };
        nvme(node, identify, &mut data)?;
        Ok(data)
    }

    fn nvme_cache(&self, node: &Path) -> io::Result<u32> {
        let get_feature = NvmeAdmin {
            opcode: 0x0a,
            dword10: 0x06,
            ..NvmeAdmin::default()
        };
        nvme(node, get_feature, &mut [])
    }

    fn scsi(&self, node: &Path, command: &[u8], len: usize) -> io::Result<Vec<u8>> {
        let device = open(node, OFlags::RDONLY)?;
        let (mut data, mut sense) = (vec![0; len], [0u8; 32]);
        let mut call = SgIo {
            interface: i32::from(b'S'),
            direction: FROM_DEVICE,
            command_len: command.len() as u8,
            max_sense: sense.len() as u8,
            segments: 0,
            len: len as u32,
            data: data.as_mut_ptr(),
            command: command.as_ptr(),
            sense: sense.as_mut_ptr(),
            timeout_ms: TIMEOUT_MS,
            flags: 0,
            pack_id: 0,
            user: std::ptr::null_mut(),
            status: 0,
            masked_status: 0,
            message_status: 0,
            sense_len: 0,
            host_status: 0,
            driver_status: 0,
            residue: 0,
            duration: 0,
            info: 0,
        };
        // SAFETY: the kernel reads `command_len` bytes of the command, and writes at most `len` bytes of data
        // and `max_sense` bytes of sense; all three live until the call has returned. The layout is that of
        // the kernel's header.
        let sent = unsafe { ioctl(&device, Updater::<{ SG_IO }, SgIo>::new(&mut call)) };
        sent.map_err(|e| at(e, "send a SCSI command to", node))?;
        if (call.status, call.host_status, call.driver_status & 0x0f) != (0, 0, 0) {
            let why = format!(
                "{} refused the command {:#04x} (status {:#x}, host {:#x}, sense {:x?})",
                node.display(),
                command.first().copied().unwrap_or_default(),
                call.status,
                call.host_status,
                &sense[..usize::from(call.sense_len).min(8)]
            );
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        let residue = usize::try_from(call.residue).unwrap_or(0);
        data.truncate(len.saturating_sub(residue));
        Ok(data)
    }

    fn mapped(&self, control: &Path, (major, minor): (u32, u32)) -> io::Result<Vec<String>> {
        let control_file = open(control, OFlags::RDWR)?;
        let size = size_of::<DmAnswer>() as u32;
        // The status, not the table: the table of an encrypted device contains its key.
        let mut answer = Box::new(DmAnswer {
            version: [4, 0, 0],
            size,
            start: size_of::<DmHeader>() as u32,
            targets: 0,
            open_count: 0,
            flags: 0,
            event: 0,
            padding: 0,
            device: u64::from(minor & 0xff)
                | u64::from(major) << 8
                | u64::from(minor & !0xff) << 12,
            name: [0; 128],
            uuid: [0; 129],
            data: [0; 7],
            space: [0; 16 << 10],
        });
        // SAFETY: the kernel reads the header and writes at most `size` bytes, which is the length of the
        // structure. The layout is that of the kernel's header, followed by space.
        let sent = uninterrupted(|| unsafe {
            ioctl(
                &control_file,
                Updater::<{ DM_TABLE_STATUS }, DmAnswer>::new(&mut answer),
            )
        });
        sent.map_err(|e| at(e, "ask the device mapper through", control))?;
        let (start, count) = (answer.start as usize, answer.targets as usize);
        let space = start.checked_sub(size_of::<DmHeader>());
        let types = space.and_then(|start| target_types(answer.space.get(start..)?, count));
        match types.filter(|_| answer.flags & BUFFER_FULL == 0) {
            Some(types) => Ok(types),
            None => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!(
                    "the device mapper's table of {major}:{minor} is too long or cannot be read"
                ),
            )),
        }
    }
}

/// Parses the types of a list of `struct dm_target_spec`: two 64-bit numbers, a status, the offset of the next
/// one from the beginning of the list, and a type of 16 characters.
fn target_types(list: &[u8], count: usize) -> Option<Vec<String>> {
    let (mut types, mut at) = (Vec::new(), 0usize);
    for _ in 0..count.min(1024) {
        let one = list.get(at..at.checked_add(40)?)?;
        let name = one[24..40].split(|b| *b == 0).next()?;
        types.push(String::from_utf8_lossy(name).into_owned());
        at = u32::from_ne_bytes(one[20..24].try_into().ok()?) as usize;
    }
    Some(types)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_have_the_size_of_the_kernels() {
        assert_eq!(size_of::<NvmeAdmin>(), 72);
        assert_eq!(size_of::<DmHeader>(), 312);
        assert_eq!(size_of::<DmAnswer>(), 312 + (16 << 10));
        #[cfg(target_pointer_width = "64")]
        assert_eq!(size_of::<SgIo>(), 88);
    }

    #[test]
    fn types_of_targets_are_listed() {
        let spec = |next: u32, name: &str| {
            let mut one = vec![0; 20];
            one.extend(next.to_ne_bytes());
            one.extend(name.bytes());
            one.resize(48, 0);
            one
        };
        let list = [spec(48, "linear"), spec(96, "flakey")].concat();
        assert_eq!(target_types(&list, 2).unwrap(), ["linear", "flakey"]);
        assert_eq!(target_types(&list, 0).unwrap(), [""; 0]);
        assert_eq!(target_types(&list, 3), None, "cut short");
        let three = [list, spec(144, "zero")].concat();
        let types = target_types(&three, 3).unwrap();
        assert_eq!(types, ["linear", "flakey", "zero"]);
        let wild = spec(u32::MAX, "linear");
        assert_eq!(target_types(&wild, 2), None);
    }

    #[test]
    fn a_command_to_what_is_no_device_fails() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for answer in [
            Real.nvme_identify(file.path()),
            Real.scsi(file.path(), &[0x1a, 0, 8, 0, 64, 0], 64),
        ] {
            let e = answer.unwrap_err();
            assert!(e.to_string().contains(file.path().to_str().unwrap()), "{e}");
        }
    }
}
