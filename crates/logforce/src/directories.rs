//! Cache directories, which are created here, and directories of page files, which are recognized here.

use logforce_device::{Directory, System};
use logforce_device_os::OsSystem;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Maximum number of missing parent directories that are created for a cache.
pub(crate) const DEEPEST: u32 = 8;

/// Opens the directory. Creates it and up to `depth` parents if they are missing, with access for the owner
/// only.
pub(crate) fn make_directories(
    system: &OsSystem,
    path: &Path,
    depth: u32,
) -> io::Result<Arc<dyn Directory>> {
    match system.directory(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        other => return other,
    }
    let parent = path.parent().filter(|p| depth > 0 && *p != Path::new(""));
    if let Some(parent) = parent {
        make_directories(system, parent, depth - 1)?;
    }
    system.make_directory(path)
}

/// Returns true if the directory holds a page file, judged by file names.
pub(crate) fn is_page_file(dir: &dyn Directory) -> bool {
    let entries = dir.entries().unwrap_or_default();
    entries.iter().any(|e| e.is_file && e.name == "pages")
}
