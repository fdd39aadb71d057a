//! Opening the directory of a log, and the errors of a failure.

use crate::error::{Error, Result};
use crate::names;
pub(crate) use logforce_device::directory_displaced;
use logforce_device::{Directory, OpenFile, System};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Opens the directory of a log for reading.
pub(crate) fn existing_directory(system: &dyn System, path: &Path) -> Result<Arc<dyn Directory>> {
    check_path(path)?;
    existing(system.directory(path), path, "open the directory")
}

/// Returns the directory of a log that was `opened` for writing. An error says so, even if the directory
/// cannot be read.
pub(crate) fn directory_to_write(
    opened: io::Result<Arc<dyn Directory>>,
    path: &Path,
) -> Result<Arc<dyn Directory>> {
    existing(opened, path, "open for writing the directory")
}

fn existing(
    opened: io::Result<Arc<dyn Directory>>,
    path: &Path,
    doing: &'static str,
) -> Result<Arc<dyn Directory>> {
    opened.map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => Error::NoLog {
            path: path.to_owned(),
            why: "the directory does not exist".to_owned(),
        },
        _ => unusable_directory(e, doing, path),
    })
}

/// Rejects paths for which the system's own error would be misleading.
pub(crate) fn check_path(path: &Path) -> Result<()> {
    let why = if path.as_os_str().is_empty() {
        "it is empty: specify a directory"
    } else if path.as_os_str().as_encoded_bytes().contains(&0) {
        "it contains a NUL character"
    } else {
        return Ok(());
    };
    Err(Error::Path {
        path: path.to_owned(),
        why,
    })
}

pub(crate) fn unusable_directory(e: io::Error, doing: &'static str, path: &Path) -> Error {
    match e.kind() {
        io::ErrorKind::NotADirectory => Error::NotALog {
            path: path.to_owned(),
            why: "it is not a directory".to_owned(),
        },
        _ => Error::io(doing, path)(e),
    }
}

/// Sets the file `name` aside, if it exists: renames it to a name that is not used for segments. A file that
/// was set aside before keeps its name, because it is evidence as well.
pub(crate) fn set_aside(dir: &Arc<dyn Directory>, name: &str) -> Result<()> {
    let missing = |e: &io::Error| e.kind() == io::ErrorKind::NotFound;
    if dir.open(name, OpenFile::READ).is_err_and(|e| missing(&e)) {
        return Ok(());
    }
    let entries = dir.entries().map_err(Error::io("list", dir.path()))?;
    let is_free = |to: &String| !entries.iter().any(|e| e.name == *to);
    let mut all = (0..).map(|n| names::set_aside(name, n));
    let to = all.find(is_free).unwrap_or_default();
    match dir.rename(name, &to) {
        Err(e) if !missing(&e) => Err(Error::io("rename", dir.path().join(name))(e)),
        _ => Ok(()),
    }
}
