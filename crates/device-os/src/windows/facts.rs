//! Facts about the filesystem and the device below a directory, as the system reports them.

use super::disk::{self, Ask};
use super::error::at;
use super::open_directory::OpenDirectory;
use super::volume::{self, Disk, Filesystem};
use super::{flush, handle, machine, overwrite};
use logforce_device::{Facts, FilesystemKind, Platform};
use std::io;
use windows_sys::Win32::System::WindowsProgramming::{DRIVE_RAMDISK, DRIVE_REMOTE};

/// Returns the facts of an open directory.
pub fn gather(dir: &OpenDirectory) -> io::Result<Facts> {
    let root = volume::root(dir.wide()).ok();
    let guid = root.as_ref().and_then(|r| volume::guid(r).ok());
    let disk = guid.as_deref().map(Disk::below);
    over(dir, root, guid, disk)
}

/// Returns the facts over this disk, if there is one to query.
fn over<D: Ask>(
    dir: &OpenDirectory,
    root: Option<Vec<u16>>,
    guid: Option<Vec<u16>>,
    disk: Option<io::Result<D>>,
) -> io::Result<Facts> {
    let path = dir.path_of("");
    let mut notes = Vec::new();
    let attributes = handle::attributes(dir.handle()).map_err(|e| at(e, "look at", &path))?;
    let filesystem = volume::filesystem(dir.handle()).unwrap_or_else(|e| {
        notes.push(format!("The filesystem does not report its name: {e}."));
        Filesystem::default()
    });
    let drive = root.as_ref().map_or(0, |r| volume::drive_type(r));
    let below = disk::below(disk, &mut notes);
    if !flush::has_data_only() || !overwrite::is(&filesystem.name, attributes) {
        notes.push("There is no flush of the data alone here: flush-data does what flush does, and guarantees the same.".to_owned());
    }
    if machine::is_wine() {
        notes.push("This is Wine: its statements about the device, and times measured here, mean nothing at all.".to_owned());
    }
    let volume = match guid {
        Some(guid) => String::from_utf16_lossy(&guid)
            .trim_start_matches(r"\\?\Volume")
            .trim_end_matches('\\')
            .to_owned(),
        None if filesystem.serial != 0 => format!("serial:{:08x}", filesystem.serial),
        None => String::new(),
    };
    let kind = kind(&filesystem.name, drive, attributes, &mut notes);
    let name = match filesystem.name.is_empty() {
        true => "unknown".to_owned(),
        false => filesystem.name,
    };
    let mut facts = Facts::new(Platform::Windows, name, kind);
    facts.mount_options = below.options;
    facts.mount_point = root.map_or_else(String::new, |r| String::from_utf16_lossy(&r));
    facts.barriers = Some(below.barriers);
    facts.device = below.device;
    facts.direct = Some(dir.alignment());
    facts.volume = volume;
    facts.capacity = volume::space(dir.wide()).ok().map(|(_, all)| all);
    facts.kernel = machine::kernel();
    facts.notes = notes;
    Ok(facts)
}

fn kind(name: &str, drive: u32, attributes: u32, notes: &mut Vec<String>) -> FilesystemKind {
    match drive {
        DRIVE_REMOTE => return FilesystemKind::Remote,
        DRIVE_RAMDISK => return FilesystemKind::Volatile,
        _ => {}
    }
    if let Some(what) = overwrite::moved_because(attributes) {
        notes.push(format!(
            "Files of this directory are {what}: they are not overwritten in place."
        ));
        return FilesystemKind::Relocating;
    }
    match name {
        "NTFS" | "FAT" | "FAT32" | "exFAT" => FilesystemKind::InPlace,
        // Allocates on write.
        "ReFS" => FilesystemKind::Relocating,
        _ => FilesystemKind::Other,
    }
}

#[cfg(test)]
mod tests;
