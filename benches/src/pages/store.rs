//! What a rival has to be able to do.

use crate::pages::case::PAGE;
use anyhow::Result;
use std::collections::BTreeSet;
use std::path::Path;

/// How a file is made.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    /// Pages of the file.
    pub pages: u64,
    /// Bytes of log between two checkpoints, where that can be chosen.
    pub distance: u64,
    /// Bytes of memory, where they can be chosen and are not the system's.
    pub cache: u64,
}

impl Layout {
    /// Bytes of pages that are committed before a logged page file begins a checkpoint, with some to
    /// spare for the log's own headers.
    pub fn burst(&self) -> u64 {
        self.distance.min(self.cache / 4) / 4 * 3
    }
}

/// What a commit does.
pub struct Change<'a> {
    /// The pages.
    pub pages: &'a BTreeSet<u64>,
    /// The new bytes of each: all of the page, or what is put somewhere into it.
    pub bytes: &'a [u8],
    /// Where in the page, if it is not all of it.
    pub at: usize,
}

impl Change<'_> {
    /// Whether the whole page is new.
    pub fn is_whole(&self) -> bool {
        self.bytes.len() == PAGE
    }
}

/// Something that makes pages durable.
pub trait PageStore {
    /// Short, for the table and `--only`.
    fn name(&self) -> &'static str;

    /// The settings, in words; they are printed below the table.
    fn settings(&self) -> String;

    /// Opens what is in the directory; if that is empty, makes a file of so many pages first.
    ///
    /// # Errors
    /// What the rival says.
    fn open(&self, dir: &Path, layout: Layout) -> Result<Box<dyn OpenStore>>;
}

/// One that is open. Threads call [`commit`](Self::commit) at the same time.
pub trait OpenStore: Send + Sync {
    /// Changes the pages; all of it is durable when this returns.
    ///
    /// # Errors
    /// What the rival says.
    fn commit(&self, change: &Change<'_>) -> Result<()>;

    /// Does what was put off: a checkpoint, where there is such a thing.
    ///
    /// # Errors
    /// What the rival says.
    fn finish(&self) -> Result<()> {
        Ok(())
    }
}
