//! Facts about the filesystem below a directory, as the system reports them. macOS tells a program nothing
//! about the device below and its cache.

use super::calls::{is_refusal, volume_uuid};
use super::error::{at, uninterrupted};
use super::file::NEEDED;
use crate::unix::Trial;
use logforce_device::{BlockDevice, Facts, FilesystemKind, Platform, Source};
use std::ffi::c_char;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;

/// Returns the facts of the open directory `dir`; `path` is for messages. No file is tried: the directory
/// answers.
pub fn gather(dir: BorrowedFd<'_>, path: &Path, _: Trial) -> io::Result<Facts> {
    let stat = rustix::fs::fstatfs(dir).map_err(|e| at(e, "ask for the filesystem of", path))?;
    let name = text(&stat.f_fstypename);
    let mut notes = Vec::new();
    // The directory is asked: a filesystem that does not flush for it does not flush for its files either.
    let barriers = match uninterrupted(|| rustix::fs::fcntl_fullfsync(dir)) {
        Err(e) if is_refusal(e) => {
            notes.push(format!(
                "{name} does not support F_FULLFSYNC: a sync may not reach the medium."
            ));
            false
        }
        _ => true,
    };
    let source = text(&stat.f_mntfromname);
    let device = source.strip_prefix("/dev/").map(|name| {
        let mut device = BlockDevice::new(name);
        device.cache_source = Source::System;
        device
    });
    if device.is_some() {
        notes.push("macOS does not report the device's cache.".to_owned());
    }
    let capacity = stat.f_blocks.saturating_mul(stat.f_bsize.into());
    let volume = volume_uuid(dir).unwrap_or_else(|| {
        // The number that the device has now: 32 bits, which the C library may have sign-extended.
        match rustix::fs::fstatvfs(dir).map_or(0, |s| s.f_fsid & 0xffff_ffff) {
            0 => String::new(),
            id => format!("fsid:{id:016x}"),
        }
    });
    let kind = kind(&name);
    let mut facts = Facts::new(Platform::Macos, name, kind);
    if !barriers {
        facts.mount_options = "no F_FULLFSYNC".to_owned();
    }
    facts.mount_point = text(&stat.f_mntonname);
    facts.barriers = Some(barriers);
    facts.device = device;
    facts.direct = Some(NEEDED);
    facts.volume = volume;
    facts.capacity = (capacity > 0).then_some(capacity);
    facts.kernel = super::machine::kernel();
    facts.notes = notes;
    Ok(facts)
}

fn kind(name: &str) -> FilesystemKind {
    match name {
        "hfs" | "msdos" | "exfat" => FilesystemKind::InPlace,
        // Copies on write where a snapshot or a clone shares the blocks, which the system does not report.
        "apfs" => FilesystemKind::Relocating,
        "tmpfs" | "devfs" => FilesystemKind::Volatile,
        "smbfs" | "nfs" | "afpfs" | "webdav" => FilesystemKind::Remote,
        _ => FilesystemKind::Other,
    }
}

/// Returns the text before the first NUL.
fn text(chars: &[c_char]) -> String {
    let bytes: Vec<u8> = chars
        .iter()
        .map(|c| *c as u8)
        .take_while(|b| *b != 0)
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsFd;

    #[test]
    fn a_volume_that_has_a_uuid_is_known_by_it() {
        let home = tempfile::tempdir().unwrap();
        let dir = File::open(home.path()).unwrap();
        let facts = gather(dir.as_fd(), home.path(), Trial::None).unwrap();
        println!("{}: volume '{}'", facts.filesystem, facts.volume);
        let again = gather(dir.as_fd(), home.path(), Trial::None).unwrap();
        assert_eq!(facts.volume, again.volume);
        if facts.filesystem == "apfs" {
            assert!(facts.lasting_volume().is_some(), "{}", facts.volume);
        }
    }
}
