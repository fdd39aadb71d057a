use super::error::{at, kind};
use super::file::OsFile;
use super::handle::{self, How, SHARE_ALL};
use super::open_directory::{OpenDirectory, wide};
use super::{facts, lock, names, path, volume};
use crate::lock::take;
use crate::system::OsSystem;
use logforce_device::{
    DirEntry, Directory, Facts, File, FileIdentity, OpenFile, System, Whereabouts,
};
use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use windows_sys::Win32::Foundation::GENERIC_READ;
use windows_sys::Win32::Storage::FileSystem::{
    FILE_ATTRIBUTE_DIRECTORY, FILE_FLAG_BACKUP_SEMANTICS, FILE_FLAG_OPEN_REPARSE_POINT,
    FILE_READ_ATTRIBUTES, FILE_SHARE_READ, FILE_SHARE_WRITE, OPEN_EXISTING,
};

/// Directory that is held open, so that other processes cannot rename or remove it meanwhile. All operations
/// use its path, which therefore stays valid.
pub struct OsDirectory {
    open: Arc<OpenDirectory>,
}

/// Returns the identity of the file or directory at a path that ends in a NUL. Requests only the right to
/// read attributes, which no sharing mode denies.
fn identity_at(wide: &[u16], flags: u32) -> io::Result<FileIdentity> {
    let how = How {
        access: FILE_READ_ATTRIBUTES,
        share: SHARE_ALL,
        disposition: OPEN_EXISTING,
        flags,
        owner: None,
    };
    handle::identity(&handle::open(wide, how)?)
}

/// Makes a directory for its owner, the system and administrators.
pub fn make(path: &Path) -> io::Result<()> {
    handle::make_directory(&wide(path)?)
}

impl OsDirectory {
    pub fn open(path: &Path) -> io::Result<Self> {
        let fail = |e| at(e, "open the directory", path);
        let mut wide = wide(path).map_err(fail)?;
        let way = wide.clone();
        let how = How {
            access: GENERIC_READ,
            // Not FILE_SHARE_DELETE: see above.
            share: FILE_SHARE_READ | FILE_SHARE_WRITE,
            disposition: OPEN_EXISTING,
            flags: FILE_FLAG_BACKUP_SEMANTICS,
            owner: None,
        };
        let handle = handle::open(&wide, how).map_err(fail)?;
        let attributes = handle::attributes(&handle).map_err(fail)?;
        if attributes & FILE_ATTRIBUTE_DIRECTORY == 0 {
            return Err(fail(io::ErrorKind::NotADirectory.into()));
        }
        let identity = handle::identity(&handle).map_err(fail)?;
        let wide = volume::final_path(&handle).unwrap_or_else(|_| {
            wide.pop();
            wide
        });
        Ok(OsDirectory {
            open: Arc::new(OpenDirectory {
                path: path.to_owned(),
                way,
                wide,
                handle,
                identity,
                alignment: OnceLock::new(),
            }),
        })
    }

    #[cfg(test)]
    pub fn opened(&self) -> &Arc<OpenDirectory> {
        &self.open
    }

    /// Makes this directory's own entry durable.
    pub fn sync_parent(&self) -> io::Result<()> {
        let own = self.open.std_path();
        // The root of a volume has no entry.
        let Some(parent) = own.parent() else {
            return Ok(());
        };
        let fail = |e| at(e, "make durable the entry of", &self.open.path);
        match OsDirectory::open(parent).and_then(|parent| parent.open.sync()) {
            Err(e) => match kind(&e) {
                // A parent that this user may not write to. NTFS journals entries in order, so forcing a
                // later entry in this directory suffices.
                io::ErrorKind::PermissionDenied => self.open.sync_by_a_file().map_err(fail),
                // Nothing of it changes.
                io::ErrorKind::ReadOnlyFilesystem => Ok(()),
                _ => Err(fail(e)),
            },
            Ok(()) => Ok(()),
        }
    }
}

impl Directory for OsDirectory {
    fn path(&self) -> &Path {
        &self.open.path
    }

    fn identity(&self) -> FileIdentity {
        self.open.identity
    }

    fn entries(&self) -> io::Result<Vec<DirEntry>> {
        let path = &self.open.path;
        let fail = |e| at(e, "list the directory", path);
        let mut found = Vec::new();
        for entry in std::fs::read_dir(self.open.std_path()).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if path::is_hidden(&name) {
                continue;
            }
            // Not the size in the entry: NTFS updates that only when a file is closed.
            let metadata = match std::fs::symlink_metadata(entry.path()) {
                Ok(metadata) => metadata,
                // Removed since it was listed.
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                // Another process has opened it without sharing.
                Err(_) => entry
                    .metadata()
                    .map_err(|e| at(e, "look at", &path.join(&name)))?,
            };
            let is_file = metadata.is_file();
            found.push(DirEntry {
                name,
                len: if is_file { metadata.len() } else { 0 },
                is_file,
            });
        }
        Ok(found)
    }

    fn open(&self, name: &str, how: OpenFile) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(OsFile::open(&self.open, name, how)?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        path::check(from)?;
        path::check(to)?;
        let fail = |e| at(e, &format!("rename to {to}"), &self.open.path_of(from));
        names::rename(&self.open.wide, from, to).map_err(fail)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        path::check(name)?;
        let fail = |e| at(e, "remove", &self.open.path_of(name));
        self.open.remove(name).map_err(fail)
    }

    fn sync(&self) -> io::Result<()> {
        self.open
            .sync()
            .map_err(|e| at(e, "sync the directory", &self.open.path))
    }

    fn lock(&self, name: &str) -> io::Result<Box<dyn Send + Sync>> {
        path::check(name)?;
        let open = &self.open;
        let (wide, path) = (open.wide_path_of(name), open.path_of(name));
        let lock = take(open.identity, name, &path, || lock::take(&wide, &path))?;
        // Removes files that a crash left between two steps. This process is the writer now.
        names::clean(&open.wide, &open.std_path());
        Ok(Box::new(lock))
    }

    fn lock_file(&self, name: &str) -> io::Result<Box<dyn Send + Sync>> {
        path::check(name)?;
        Ok(Box::new(()))
    }

    fn is_locked(&self, name: &str) -> io::Result<bool> {
        path::check(name)?;
        let open = &self.open;
        lock::is_taken(
            &open.wide_path_of(name),
            open.identity,
            name,
            &open.path_of(name),
        )
    }

    fn facts(&self) -> io::Result<Facts> {
        facts::gather(&self.open)
    }

    fn free_space(&self) -> io::Result<u64> {
        volume::space(&self.open.wide)
            .map(|(free, _)| free)
            .map_err(|e| at(e, "ask for the free space of", &self.open.path))
    }

    fn whereabouts(&self) -> io::Result<Whereabouts> {
        match identity_at(&self.open.way, FILE_FLAG_BACKUP_SEMANTICS) {
            Ok(found) if found == self.open.identity => Ok(Whereabouts::Here),
            Ok(_) => Ok(Whereabouts::Replaced),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Whereabouts::Gone),
            Err(e) => Err(at(e, "look for the directory", &self.open.path)),
        }
    }

    fn system(&self) -> io::Result<Arc<dyn System>> {
        Ok(Arc::new(OsSystem::new()))
    }

    fn identity_of(&self, name: &str) -> io::Result<FileIdentity> {
        path::check(name)?;
        identity_at(&self.open.wide_path_of(name), FILE_FLAG_OPEN_REPARSE_POINT)
            .map_err(|e| at(e, "look at", &self.open.path_of(name)))
    }
}
