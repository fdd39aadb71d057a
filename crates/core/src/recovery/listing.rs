//! Reliable listings of the directory.
//!
//! A system may return an incomplete or empty listing without an error. An opening that trusted it would
//! replace segments with acknowledged records by empty ones, or create a log over another one.

use crate::error::{Error, Result};
use crate::names;
use logforce_device::{DirEntry, Directory, OpenFile};
use logforce_format::planted;
use std::io;
use std::sync::Arc;

/// Maximum number of listings. Until this process has the lock, another one may be creating the log.
const LISTINGS: usize = 16;

/// Lists the directory until two listings in a row have the same names. Names that do not belong to a log
/// are not compared.
pub(super) fn list(dir: &Arc<dyn Directory>) -> Result<Vec<DirEntry>> {
    let mut last: Option<Vec<String>> = None;
    for _ in 0..LISTINGS {
        let entries = dir.entries().map_err(Error::io("list", dir.path()))?;
        let mut names: Vec<String> = entries.iter().map(|e| e.name.clone()).collect();
        names.retain(|name| counts(name));
        names.sort();
        let is_stable = planted!("listing-believed", true, else last.as_ref() == Some(&names));
        if is_stable {
            return Ok(entries);
        }
        last = Some(names);
    }
    Err(unstable(
        dir,
        "no two listings in a row have the same names",
    ))
}

fn counts(name: &str) -> bool {
    use names::NameKind::*;
    matches!(
        names::kind(name),
        Control | ControlNew | Backup | Segment | Preparing | Spare | SetAside
    )
}

/// Fails if the listing lacks the file `name`, but the file can be opened.
pub(super) fn check_absence(
    dir: &Arc<dyn Directory>,
    entries: &[DirEntry],
    name: &str,
) -> Result<()> {
    let is_listed = entries.iter().any(|e| e.name == name);
    let is_believed = planted!("listing-believed", true, else is_listed);
    if is_believed {
        return Ok(());
    }
    match dir.open(name, OpenFile::READ) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(Error::io("open", dir.path().join(name))(e)),
        Ok(_) => Err(unstable(
            dir,
            &format!("the file '{name}' exists, but the listing of the directory lacks it"),
        )),
    }
}

fn unstable(dir: &Arc<dyn Directory>, what: &str) -> Error {
    let source = io::Error::other(what.to_owned());
    Error::io("trust the listing of", dir.path())(source)
}
