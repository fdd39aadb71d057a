//! Files that are in the way of a segment's name, and whose contents are unknown.

use crate::error::{Error, Result};
use crate::names;
use logforce_device::{Directory, OpenFile};
use std::sync::Arc;

/// Sets the file `name` aside, if it exists: renames it to a name that no segment gets. A file that
/// was set aside before keeps its name: it is evidence as well.
pub(crate) fn set_aside(dir: &Arc<dyn Directory>, name: &str) -> Result<()> {
    let missing = |e: &std::io::Error| e.kind() == std::io::ErrorKind::NotFound;
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
