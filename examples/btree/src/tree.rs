//! Handle of a tree.

use crate::entry::Value;
use crate::error::{Error, Result};
use crate::limits::PAGE_SIZES;
use crate::meta::{META, Meta};
use crate::node;
use crate::view::{Top, View};
use crate::write::Write;
use logforce::pages::{self, Options, PageFile, Stats, Transaction};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// An ordered key-value store in a page file. It can be used from any thread.
///
/// One [`Write`] at a time changes the tree. Readers hold [`View`]s of committed states and never wait
/// for a writer.
#[derive(Debug)]
pub struct Tree {
    file: PageFile,
    /// Lock held by the thread that changes the tree, but never while it waits for the disk.
    turn: Mutex<()>,
}

impl Tree {
    /// Opens the tree in the directory `path`; creates it if the directory is missing or empty.
    ///
    /// # Errors
    /// [`Error::NotATree`], and the errors of opening a page file.
    pub fn open_or_create(path: impl AsRef<Path>, options: Options) -> Result<Tree> {
        Tree::of(pages::open_or_create(path, options)?)
    }

    /// Opens the tree in the directory `path`, which must contain a page file.
    ///
    /// # Errors
    /// As [`Tree::open_or_create`].
    pub fn open_existing(path: impl AsRef<Path>, options: Options) -> Result<Tree> {
        Tree::of(pages::open_existing(path, options)?)
    }

    /// Opens the tree in a page file; creates it if the file has no pages yet. No other code may change
    /// the file's pages.
    ///
    /// # Errors
    /// As [`Tree::open_or_create`].
    pub fn of(file: PageFile) -> Result<Tree> {
        if !PAGE_SIZES.contains(&file.page_size()) {
            return Err(Error::NotATree {
                why: format!(
                    "its pages have {} bytes, supported are {} to {}",
                    file.page_size(),
                    PAGE_SIZES.start(),
                    PAGE_SIZES.end()
                ),
            });
        }
        let tree = Tree {
            file,
            turn: Mutex::new(()),
        };
        let txn = tree.file.begin()?;
        if txn.page_count() == 0 {
            create(txn)?;
        }
        // Reports a file that is not a tree now, and not at the first read.
        tree.latest()?;
        Ok(tree)
    }

    /// Returns the durable state, which a crash now would leave.
    pub fn snapshot(&self) -> Result<View> {
        let snapshot = self.file.snapshot()?;
        let top = Top::read(&snapshot)?;
        Ok(View::new(snapshot, top))
    }

    /// Returns the latest committed state, which may be ahead of the durable one.
    pub fn latest(&self) -> Result<View> {
        let snapshot = self.file.latest()?;
        let top = Top::read(&snapshot)?;
        Ok(View::new(snapshot, top))
    }

    /// Returns the value of a key in the durable state. For several related reads, use one
    /// [`snapshot`](Tree::snapshot).
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.snapshot()?.get(key)
    }

    /// Returns the value of a key in the latest committed state.
    pub fn get_latest(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.latest()?.get(key)
    }

    /// Begins a write on the latest state; waits while another thread has one.
    pub fn begin(&self) -> Result<Write<'_>> {
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        Write::new(turn, self.file.begin()?, self.file.page_size() as usize)
    }

    /// Sets the value of a key, durably. Returns true if it had one.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<bool> {
        let mut write = self.begin()?;
        let was_there = write.put(key, value)?;
        write.commit()?;
        Ok(was_there)
    }

    /// Removes a key, durably. Returns true if it existed.
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        let mut write = self.begin()?;
        let was_there = write.delete(key)?;
        write.commit()?;
        Ok(was_there)
    }

    /// Returns the page file's statistics since it was opened.
    pub fn stats(&self) -> Stats {
        self.file.stats()
    }

    /// Returns the page file below the tree.
    pub fn file(&self) -> &PageFile {
        &self.file
    }

    /// Makes everything committed durable, and closes the file.
    pub fn close(self) -> Result<()> {
        Ok(self.file.close()?)
    }
}

/// Creates an empty tree: page 0, and a leaf.
fn create(mut txn: Transaction) -> Result<()> {
    let root = META + 1;
    node::clear(txn.page_mut(root)?, 0, 0);
    let meta = Meta {
        height: 1,
        root,
        keys: 0,
        free_list: 0,
        free: 0,
    };
    meta.encode(txn.page_mut(META)?);
    txn.commit()?;
    Ok(())
}
