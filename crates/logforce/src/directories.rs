//! Directories that are made or recognized before a log or page file is opened in them.

use logforce_device::{Directory, System};
use logforce_device_os::OsSystem;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Maximum number of missing parents that are made for a cache.
pub(crate) const DEEPEST: u32 = 8;

/// Makes the directory and its parents, as far as they are missing, for their owner only.
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

/// Returns true if the directory holds a page file, as far as names say.
pub(crate) fn is_page_file(dir: &dyn Directory) -> bool {
    let entries = dir.entries().unwrap_or_default();
    entries.iter().any(|e| e.is_file && e.name == "pages")
}
