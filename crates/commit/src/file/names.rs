//! Names that survive a power cut: creating, renaming and replacing files.
//!
//! A sync of a file makes its contents durable, not its name. The name is in the directory, which needs a sync
//! as well. Crash tests find no other mistake as often.

use crate::file::error::{Error, Result};
use logforce_device::{AlignedBuf, Barrier, Directory, File, OpenFile, System, Write, planted};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Number of bytes that one call writes.
const CHUNK: usize = 1 << 20;

/// Opens the directory of a file. Returns it with the file's name.
pub(super) fn located<'p>(
    system: &dyn System,
    path: &'p Path,
) -> Result<(Arc<dyn Directory>, &'p str)> {
    let wrong = |why| Error::Path {
        path: path.to_owned(),
        why,
    };
    let name = path.file_name().ok_or(wrong("it names no file"))?;
    let name = name.to_str().ok_or(wrong("its name is not UTF-8"))?;
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    let dir = system.directory(parent);
    let dir = dir.map_err(Error::io("open the directory", parent))?;
    Ok((dir, name))
}

/// Makes the entry of a directory in its parent durable, before the file `name` gets its name there. Otherwise a
/// power cut removes a directory that was just made, and the new file in it. A process that finds the file relies
/// on the one that made it, which may have been killed since.
pub(super) fn sync_entry(system: &dyn System, dir: &dyn Directory, name: &str) -> Result<()> {
    let path = dir.path();
    if dir.identity_of(name).is_ok() || planted!("file-directory-unsynced") {
        return Ok(());
    }
    let synced = system.make_directory(path).map(drop);
    synced.map_err(Error::io("sync the parent of the directory", path))
}

/// Makes durable which names are in the directory of the file `path`: creations, renames and removals that
/// were done before this call.
///
/// # Errors
/// [`ErrorKind::Io`](crate::file::ErrorKind::Io). The names may or may not survive a power cut then.
#[doc(hidden)]
pub fn sync_parent(system: &dyn System, path: &Path) -> Result<()> {
    let (dir, _) = located(system, path)?;
    dir.sync().map_err(Error::io("sync the directory of", path))
}

/// Renames a file within its directory. The contents are durable before the new name is, and the name is
/// durable on return. A power cut before that leaves either the old names or the new one.
#[doc(hidden)]
pub fn rename_durably(system: &dyn System, from: &Path, to: &Path) -> Result<()> {
    let ((dir, from_name), (to_dir, to_name)) = (located(system, from)?, located(system, to)?);
    if dir.identity() != to_dir.identity() {
        return Err(Error::Path {
            path: to.to_owned(),
            why: "a durable rename stays in one directory. Copy the file, or rename it with std::fs::rename \
                  and call sync_parent for both paths",
        });
    }
    let opened = match dir.open(from_name, OpenFile::WRITE) {
        // A file that cannot be written can be synced by a descriptor for reading.
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
            dir.open(from_name, OpenFile::READ)
        }
        opened => opened,
    };
    let file = opened.map_err(Error::io("open", from))?;
    sync_entry(system, &*dir, to_name)?;
    // Otherwise a power cut could leave the new name with a file that is empty or in parts.
    if !planted!("file-renamed-before-sync") {
        let synced = file.barrier(Barrier::Full);
        synced.map_err(Error::io("sync", from))?;
    }
    let renamed = dir.rename(from_name, to_name);
    renamed.map_err(Error::io("rename", from))?;
    // Otherwise a power cut could bring the old name back after the caller relied on the new one.
    if planted!("file-rename-unsynced") {
        return Ok(());
    }
    dir.sync().map_err(Error::io("sync the directory of", to))
}

/// Creates a file with these contents. Contents and name are durable on return.
#[doc(hidden)]
pub fn create_durably(system: &dyn System, path: &Path, contents: &[u8]) -> Result<()> {
    let (dir, name) = located(system, path)?;
    sync_entry(system, &*dir, name)?;
    let file = dir.open(name, OpenFile::CREATE);
    let file = file.map_err(Error::io("create", path))?;
    let written = fill(&*file, &[contents]).map_err(Error::io("write", path));
    let synced = written.and_then(|()| {
        if planted!("file-created-unsynced") {
            return Ok(());
        }
        dir.sync().map_err(Error::io("sync the directory of", path))
    });
    if synced.is_err() {
        // Of use to the caller's next attempt only; the error is what counts.
        let _ = dir.remove(name);
    }
    synced
}

/// Replaces the contents of the file `path`, or creates it. A power cut leaves the complete old contents or
/// the complete new ones; the new ones are durable on return.
#[doc(hidden)]
pub fn replace_durably(system: &dyn System, path: &Path, contents: &[u8]) -> Result<()> {
    let (dir, name) = located(system, path)?;
    sync_entry(system, &*dir, name)?;
    replace(&*dir, name, &[contents]).map_err(Error::io("replace", path))
}

/// Replaces the file `name` by one with the contents of the slices, by way of the file `<name>.new`.
///
/// # Errors
/// Errors of the system. The old contents are in place then, unless only the sync of the directory failed.
#[doc(hidden)]
pub fn replace(dir: &dyn Directory, name: &str, slices: &[&[u8]]) -> io::Result<()> {
    let new = format!("{name}.new");
    // A crash may have left one.
    match dir.remove(&new) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let file = dir.open(&new, OpenFile::CREATE)?;
    let made = fill(&*file, slices).and_then(|()| dir.rename(&new, name));
    if made.is_err() {
        let _ = dir.remove(&new);
    }
    made?;
    // Otherwise a power cut could bring the old contents back after the caller relied on the new ones.
    dir.sync()
}

/// Writes the slices to a new file and syncs it. Otherwise a crash after a rename could leave a shorter file.
fn fill(file: &dyn File, slices: &[&[u8]]) -> io::Result<()> {
    let mut offset = 0;
    for part in slices.iter().flat_map(|slice| slice.chunks(CHUNK)) {
        let mut buf = AlignedBuf::zeroed(part.len(), 4096);
        buf.copy_from_slice(part);
        let ticket = file.submit(Write {
            offset,
            range: 0..part.len(),
            buf,
            through: false,
        });
        file.complete(ticket).result?;
        offset += part.len() as u64;
    }
    file.barrier(Barrier::Full)
}
