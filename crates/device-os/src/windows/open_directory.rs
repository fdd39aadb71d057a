//! Part of a directory that its files keep alive, and operations in it.

use super::error::{at, is_refusal};
use super::handle::{self, How, SHARE_ALL};
use super::{flush, names, path, volume};
use logforce_device::{DirectAlignment, FileIdentity};
use std::ffi::OsString;
use std::io;
use std::os::windows::ffi::{OsStrExt, OsStringExt};
use std::os::windows::fs::MetadataExt;
use std::os::windows::io::OwnedHandle;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use windows_sys::Win32::Foundation::{GENERIC_READ, GENERIC_WRITE};
use windows_sys::Win32::Storage::FileSystem::{
    CREATE_NEW, FILE_ATTRIBUTE_DIRECTORY, FILE_ATTRIBUTE_REPARSE_POINT, FILE_FLAG_BACKUP_SEMANTICS,
    FILE_FLAG_DELETE_ON_CLOSE, FILE_FLAG_WRITE_THROUGH, OPEN_EXISTING,
};

/// Part of a directory that its files keep alive.
pub struct OpenDirectory {
    /// Path as the user gave it.
    pub(super) path: PathBuf,
    /// Path from the root of its volume, with links, ended by a NUL. It is used to find the directory again.
    pub(super) way: Vec<u16>,
    /// Path without links, with the prefix for paths of any length, without a NUL.
    pub(super) wide: Vec<u16>,
    pub(super) handle: OwnedHandle,
    pub(super) identity: FileIdentity,
    pub(super) alignment: OnceLock<DirectAlignment>,
}

impl OpenDirectory {
    pub fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Returns the path of a file, ended by a NUL.
    pub fn wide_path_of(&self, name: &str) -> Vec<u16> {
        path::child(&self.wide, name)
    }

    /// Returns the path of the same directory for std.
    pub fn std_path(&self) -> PathBuf {
        PathBuf::from(OsString::from_wide(&self.wide))
    }

    pub fn handle(&self) -> &OwnedHandle {
        &self.handle
    }

    pub fn wide(&self) -> &[u16] {
        &self.wide
    }

    /// Returns the alignment that unbuffered I/O needs here. Determined once.
    pub fn alignment(&self) -> DirectAlignment {
        *self.alignment.get_or_init(|| {
            let unit = volume::sector(&self.wide).unwrap_or(4096);
            DirectAlignment {
                memory: unit,
                offset: unit,
            }
        })
    }

    /// Refuses anything but a regular file.
    pub fn check_regular(&self, name: &str) -> io::Result<()> {
        let path = self.path_of(name);
        let full = self.std_path().join(name);
        let found = std::fs::symlink_metadata(full).map_err(|e| at(e, "open", &path))?;
        if found.file_attributes() & (FILE_ATTRIBUTE_DIRECTORY | FILE_ATTRIBUTE_REPARSE_POINT) != 0
        {
            let irregular = io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file");
            return Err(at(irregular, "open", &path));
        }
        Ok(())
    }

    pub fn remove(&self, name: &str) -> io::Result<()> {
        names::remove(&self.wide, name)
    }

    /// Makes the changes of the directory durable.
    ///
    /// Flushes a file that is made in it for that purpose. NTFS records creations, renames and removals in
    /// one journal, in their order, so flushing the last one flushes those before it. The directory itself is
    /// flushed too, if the filesystem supports that. That alone is not sufficient: FAT's driver returns
    /// success and does nothing (fastfat's `FatCommonFlushBuffers`, as Microsoft publishes it), and the
    /// driver of NTFS is not published.
    pub(super) fn sync(&self) -> io::Result<()> {
        let how = How {
            access: GENERIC_READ | GENERIC_WRITE,
            share: SHARE_ALL,
            disposition: OPEN_EXISTING,
            flags: FILE_FLAG_BACKUP_SEMANTICS,
            owner: None,
        };
        let wide: Vec<u16> = self.wide.iter().copied().chain([0]).collect();
        let flushed = handle::open(&wide, how).and_then(|dir| flush::all(&dir));
        match flushed {
            Err(e) if !is_refusal(&e) => Err(e),
            _ => self.sync_by_a_file(),
        }
    }

    pub fn sync_by_a_file(&self) -> io::Result<()> {
        const DELETE: u32 = 0x1_0000;
        let how = How {
            access: GENERIC_WRITE | DELETE,
            share: SHARE_ALL,
            disposition: CREATE_NEW,
            flags: FILE_FLAG_WRITE_THROUGH | FILE_FLAG_DELETE_ON_CLOSE,
            owner: None,
        };
        let name = names::hidden("sync");
        flush::all(&handle::open(&self.wide_path_of(&name), how)?)
    }
}

/// Returns the path in the form of Windows, ended by a NUL.
pub fn wide(path: &Path) -> io::Result<Vec<u16>> {
    let absolute = std::path::absolute(path)?;
    let absolute: Vec<u16> = absolute.as_os_str().encode_wide().collect();
    if absolute.contains(&0) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut wide = path::verbatim(&absolute);
    wide.push(0);
    Ok(wide)
}
