//! Interface of the stores that are compared.

use crate::pages::case::PAGE;
use anyhow::Result;
use std::collections::BTreeSet;
use std::path::Path;

/// Size and settings of a file.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    /// Number of pages in the file.
    pub pages: u64,
    /// Size of the log between two checkpoints, bytes; used where it can be set.
    pub distance: u64,
    /// Size of the cache, bytes; used where it can be set and is not the system's.
    pub cache: u64,
}

impl Layout {
    /// Returns the bytes of pages that a logged page file commits before it starts a checkpoint. A
    /// quarter is subtracted for the log's own headers.
    pub fn burst(&self) -> u64 {
        self.distance.min(self.cache / 4) / 4 * 3
    }
}

/// Changes of one commit.
pub struct Change<'a> {
    /// Pages to change.
    pub pages: &'a BTreeSet<u64>,
    /// New bytes of each page: the whole page, or a part of it.
    pub bytes: &'a [u8],
    /// Offset in the page, if only a part changes.
    pub at: usize,
}

impl Change<'_> {
    /// Returns true if the whole page changes.
    pub fn is_whole(&self) -> bool {
        self.bytes.len() == PAGE
    }
}

/// A store that makes pages durable.
pub trait PageStore {
    /// Returns the short name, for the table and `--only`.
    fn name(&self) -> &'static str;

    /// Returns the settings in words, for printing below the table.
    fn settings(&self) -> String;

    /// Opens the store in the directory. If the directory is empty, creates the file with `layout.pages`
    /// pages first.
    ///
    /// # Errors
    /// Returns the rival's error.
    fn open(&self, dir: &Path, layout: Layout) -> Result<Box<dyn OpenStore>>;
}

/// An open store. Threads call [`commit`](Self::commit) concurrently.
pub trait OpenStore: Send + Sync {
    /// Changes the pages; the whole change is durable when this returns.
    ///
    /// # Errors
    /// Returns the rival's error.
    fn commit(&self, change: &Change<'_>) -> Result<()>;

    /// Does the deferred work: a checkpoint, where the store has one.
    ///
    /// # Errors
    /// Returns the rival's error.
    fn finish(&self) -> Result<()> {
        Ok(())
    }
}
