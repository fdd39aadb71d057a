use crate::os::directory::{self, OsDirectory};
use crate::os::error::at;
use crate::runtime::OsRuntime;
use logforce_device::{Directory, Runtime, System};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// This operating system.
///
/// Every error carries the path that it is about. Directories are made for their owner only (0700), and files
/// too (0600), further narrowed by the umask, unless a mode is set ([`Directory::set_mode`],
/// [`Directory::set_file_mode`]). On Windows they are made for their owner, the system and administrators.
#[derive(Debug, Clone, Copy, Default)]
pub struct OsSystem;

impl OsSystem {
    /// Returns this operating system.
    pub fn new() -> Self {
        OsSystem
    }
}

/// Removes the prefix that Windows puts before the canonical path on a drive. Users and other programs do not
/// write it.
fn plain(path: PathBuf) -> PathBuf {
    let bare = path.to_str().and_then(|path| path.strip_prefix(r"\\?\"));
    match bare.filter(|bare| cfg!(windows) && !bare.starts_with("UNC")) {
        Some(bare) => bare.into(),
        None => path,
    }
}

impl System for OsSystem {
    fn runtime(&self) -> Arc<dyn Runtime> {
        Arc::new(OsRuntime)
    }

    fn directory(&self, path: &Path) -> io::Result<Arc<dyn Directory>> {
        Ok(Arc::new(OsDirectory::open(path)?))
    }

    fn make_directory(&self, path: &Path) -> io::Result<Arc<dyn Directory>> {
        match directory::make(path) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                let orphan = io::Error::new(e.kind(), "its parent does not exist");
                return Err(at(orphan, "make the directory", path));
            }
            Err(e) => {
                // A directory that exists can be used even if none can be made (a read-only filesystem, a
                // parent of another user).
                if !path.is_dir() {
                    return Err(at(e, "make the directory", path));
                }
            }
        }
        let dir = OsDirectory::open(path)?;
        // Needed for an existing directory, too. The process that made it may have crashed before its entry
        // was durable. A power cut would then remove the directory with everything forced in it.
        dir.sync_parent()?;
        Ok(Arc::new(dir))
    }

    fn resolved(&self, path: &Path) -> PathBuf {
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let of_parent = || {
            let parent = std::fs::canonicalize(absolute.parent()?).ok()?;
            Some(parent.join(absolute.file_name()?))
        };
        let canonical = std::fs::canonicalize(&absolute).ok();
        canonical.or_else(of_parent).map_or(absolute, plain)
    }

    fn remove_empty_directory(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_dir(path).map_err(|e| at(e, "remove the directory", path))
    }
}
