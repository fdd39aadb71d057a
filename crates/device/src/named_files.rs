//! Checks that files are still found under the names by which they were opened.
//!
//! An open file stays writable after its name, or its directory, was removed or renamed. Every barrier
//! succeeds then, but no opening ever finds the written data.

use crate::{Directory, FileIdentity, Whereabouts};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Directory and files in it, as they were when they were opened.
#[derive(Clone)]
pub struct NamedFiles {
    dir: Arc<dyn Directory>,
    files: Vec<(&'static str, Option<FileIdentity>)>,
}

/// Displacement of the directory or of one of its files: its name leads to another one, or to none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Displacement {
    /// Path by which the directory was opened.
    pub path: PathBuf,
    /// Description of the displacement, for messages.
    pub found: String,
}

impl NamedFiles {
    /// Interval of checks while something is written. It is also the longest time for which acknowledged data
    /// may lie in files that were taken away.
    pub const CHECK_EVERY: Duration = Duration::from_millis(500);

    /// Starts with the directory and no files.
    pub fn new(dir: Arc<dyn Directory>) -> Self {
        NamedFiles {
            dir,
            files: Vec::new(),
        }
    }

    /// Adds a file that was just opened. The file keeps its name for as long as it is in use.
    pub fn add(&mut self, name: &'static str) {
        self.files.push((name, self.dir.identity_of(name).ok()));
    }

    /// Returns the displacement, if the directory or a file was displaced. Only answers about names count: an
    /// error such as missing descriptors or denied access says nothing about the files.
    pub fn displacement(&self) -> Option<Displacement> {
        let of_file = |(name, known): &(&'static str, _)| {
            let what = change_of(&*self.dir, name, *known)?;
            Some(format!("its file '{name}' was {what}"))
        };
        // The directory is checked last. If its files were taken away with it, their check may still have
        // passed.
        let file = self.files.iter().find_map(of_file);
        let found = directory_displaced(&*self.dir)
            .map(str::to_owned)
            .or(file)?;
        Some(Displacement {
            path: self.dir.path().to_owned(),
            found,
        })
    }
}

/// Returns a description of the change if an open directory's path no longer leads to it.
pub fn directory_displaced(dir: &dyn Directory) -> Option<&'static str> {
    match dir.whereabouts() {
        Ok(Whereabouts::Here) | Err(_) => None,
        Ok(Whereabouts::Gone) => Some("the directory was deleted or moved away"),
        Ok(Whereabouts::Replaced) => {
            Some("another directory is there: the one that was opened was deleted or moved away")
        }
    }
}

/// Returns a description of the change if the name no longer leads to the file with the identity `known`.
pub fn change_of(
    dir: &dyn Directory,
    name: &str,
    known: Option<FileIdentity>,
) -> Option<&'static str> {
    match dir.identity_of(name) {
        Ok(now) => known
            .is_some_and(|known| known != now)
            .then_some("replaced by another"),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Some("deleted or renamed"),
        Err(_) => None,
    }
}
