//! Whether files are still found under the names by which they were opened.
//!
//! An open file stays writable when its name, or its directory, is taken away: every barrier succeeds,
//! and no opening ever finds what was written.

use crate::{Directory, FileIdentity, Whereabouts};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A directory and files in it, as they were when they were opened.
#[derive(Clone)]
pub struct NamedFiles {
    dir: Arc<dyn Directory>,
    files: Vec<(&'static str, Option<FileIdentity>)>,
}

/// The directory or one of the files is not what was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Displacement {
    /// The path by which the directory was opened.
    pub path: PathBuf,
    /// What was found there, for messages.
    pub found: String,
}

impl NamedFiles {
    /// The interval of checks while something is written, and so the longest time for which what is
    /// acknowledged may lie in files that were taken away.
    pub const CHECK_EVERY: Duration = Duration::from_millis(500);

    /// The directory alone.
    pub fn new(dir: Arc<dyn Directory>) -> Self {
        NamedFiles {
            dir,
            files: Vec::new(),
        }
    }

    /// Adds a file that was just opened. It keeps its name for as long as it is in use.
    pub fn add(&mut self, name: &'static str) {
        self.files.push((name, self.dir.identity_of(name).ok()));
    }

    /// Returns what has happened, if the directory or a file was displaced. Only what the system says
    /// about names counts: that it has no descriptors or denies access says nothing about the files.
    pub fn displacement(&self) -> Option<Displacement> {
        let of_file = |(name, known): &(&'static str, _)| {
            let what = change_of(&*self.dir, name, *known)?;
            Some(format!("its file '{name}' was {what}"))
        };
        let found = directory_displaced(&*self.dir).map(str::to_owned);
        let found = found.or_else(|| self.files.iter().find_map(of_file))?;
        Some(Displacement {
            path: self.dir.path().to_owned(),
            found,
        })
    }
}

/// Returns what became of an open directory, if its path no longer leads there.
pub fn directory_displaced(dir: &dyn Directory) -> Option<&'static str> {
    match dir.whereabouts() {
        Ok(Whereabouts::Here) | Err(_) => None,
        Ok(Whereabouts::Gone) => Some("the directory was deleted or moved away"),
        Ok(Whereabouts::Replaced) => {
            Some("another directory is there: the one that was opened was deleted or moved away")
        }
    }
}

/// Returns what became of a file whose identity was `known`, if its name no longer leads to it.
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
