//! What the system tells of the filesystem and the device below a directory.

use super::directory::OpenDirectory;
use super::error::at;
use super::volume::{self, Disk, Filesystem, Question};
use super::{handle, machine, protocol, storage};
use crate::nvme;
use logforce_device::{BlockDevice, Facts, FilesystemKind, Platform, WriteCache};
use std::io;
use windows_sys::Win32::Storage::FileSystem::{
    FILE_ATTRIBUTE_COMPRESSED, FILE_ATTRIBUTE_ENCRYPTED, FILE_ATTRIBUTE_SPARSE_FILE,
};
use windows_sys::Win32::System::WindowsProgramming::{DRIVE_RAMDISK, DRIVE_REMOTE};

/// The facts of an open directory.
pub fn gather(dir: &OpenDirectory) -> io::Result<Facts> {
    let path = dir.path_of("");
    let mut notes = Vec::new();
    let attributes = handle::attributes(dir.handle()).map_err(|e| at(e, "look at", &path))?;
    let filesystem = volume::filesystem(dir.handle()).unwrap_or_else(|e| {
        notes.push(format!("The filesystem does not say what it is: {e}."));
        Filesystem::default()
    });
    let root = volume::root(dir.wide());
    let drive = root.as_ref().map_or(0, |r| volume::drive_type(r));
    let guid = root.as_ref().ok().and_then(|r| volume::guid(r).ok());
    let mut barriers = true;
    let mut options = String::new();
    let device = match guid.as_deref().map(Disk::below) {
        Some(Ok(disk)) => {
            let (device, told) = describe(&disk, &mut notes);
            if told {
                barriers = false;
                options = "write-cache buffer flushing turned off".to_owned();
            }
            Some(device)
        }
        Some(Err(e)) => {
            notes.push(format!("The disk cannot be asked about its cache: {e}."));
            None
        }
        None => None,
    };
    if machine::is_wine() {
        notes.push("This is Wine: what is said of the device is worth nothing, and times measured here mean nothing.".to_owned());
    }
    let volume = match guid {
        Some(guid) => String::from_utf16_lossy(&guid)
            .trim_start_matches(r"\\?\Volume")
            .trim_end_matches('\\')
            .to_owned(),
        None if filesystem.serial != 0 => format!("serial:{:08x}", filesystem.serial),
        None => String::new(),
    };
    Ok(Facts {
        platform: Platform::Windows,
        kind: kind(&filesystem.name, drive, attributes, &mut notes),
        filesystem: if filesystem.name.is_empty() {
            "unknown".to_owned()
        } else {
            filesystem.name
        },
        mount_options: options,
        mount_point: root.map_or_else(|_| String::new(), |r| String::from_utf16_lossy(&r)),
        barriers,
        device,
        direct: Some(dir.alignment()),
        volume,
        capacity: volume::space(dir.wide()).ok().map(|(_, all)| all),
        kernel: machine::kernel(),
        notes,
        tried: Vec::new(),
        unread: Vec::new(),
    })
}

fn kind(name: &str, drive: u32, attributes: u32, notes: &mut Vec<String>) -> FilesystemKind {
    match drive {
        DRIVE_REMOTE => return FilesystemKind::Remote,
        DRIVE_RAMDISK => return FilesystemKind::Volatile,
        _ => {}
    }
    for (bit, what) in [
        (FILE_ATTRIBUTE_COMPRESSED, "compressed"),
        (FILE_ATTRIBUTE_ENCRYPTED, "encrypted"),
        (FILE_ATTRIBUTE_SPARSE_FILE, "sparse"),
    ] {
        if attributes & bit != 0 {
            notes.push(format!(
                "Files of this directory are {what}: they are not overwritten in place."
            ));
            return FilesystemKind::Relocating;
        }
    }
    match name {
        "NTFS" | "FAT" | "FAT32" | "exFAT" => FilesystemKind::InPlace,
        // Allocates on write.
        "ReFS" => FilesystemKind::Relocating,
        _ => FilesystemKind::Other,
    }
}

/// The disk's own words, and whether Windows was told that its cache needs no flush.
fn describe(disk: &Disk, notes: &mut Vec<String>) -> (BlockDevice, bool) {
    let mut ask = |question, what: &str| match disk.ask(question) {
        Ok(answer) => Some(answer),
        Err(e) => {
            notes.push(format!("The disk does not say {what}: {e}."));
            None
        }
    };
    let sectors = ask(Question::Alignment, "how large its sectors are")
        .and_then(|a| storage::sectors(&a))
        .unwrap_or((512, 512));
    let rotational =
        ask(Question::SeekPenalty, "whether it turns").and_then(|a| storage::turns(&a));
    let about = ask(Question::Device, "what it is").unwrap_or_default();
    let cache = ask(Question::WriteCache, "what cache it has").and_then(|a| storage::cache(&a));
    if let Some(cache) = &cache {
        if cache.told_protected {
            notes.push("Windows was told that the disk's cache is protected against loss of power (\"turn off write-cache buffer flushing\"), and sends it no flushes. That is a setting, and no proof.".to_owned());
        }
        if !cache.flush {
            notes.push("The disk says that its cache cannot be flushed.".to_owned());
        }
        if cache.nv_cache {
            notes.push("The disk says that it has a cache that is not volatile; whether all of its cache is, it does not say.".to_owned());
        }
    }
    let mut device = BlockDevice {
        name: disk.name.clone(),
        write_cache: cache.map_or(WriteCache::Unknown, |c| c.write_cache),
        fua: cache.and_then(|c| c.write_through),
        logical_sector: sectors.0,
        physical_sector: sectors.1,
        rotational,
        model: storage::model(&about),
    };
    if storage::is_nvme(&about) {
        let is_off = cache.is_some_and(|c| c.is_off);
        let told = disk.identify();
        match told.map(|t| protocol::data(&t).and_then(nvme::controller)) {
            Ok(Some(controller)) => nvme::weigh(&controller, &mut device, is_off, notes),
            Ok(None) => {
                notes.push("The NVMe controller's answer on what it is makes no sense.".to_owned())
            }
            Err(e) => notes.push(format!("The NVMe controller does not say what it is: {e}.")),
        }
    }
    (device, cache.is_some_and(|c| c.told_protected))
}
