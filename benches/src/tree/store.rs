//! What a store has to be able to do.

use crate::tree::keys::Key;
use anyhow::Result;
use std::path::Path;

/// An ordered key-value store that can be measured.
pub trait Store: Sync {
    /// Short, for the table and `--only`.
    fn name(&self) -> &'static str;

    /// The version that is linked.
    fn version(&self) -> String;

    /// The settings, in words; they are printed below the table.
    fn settings(&self) -> String;

    /// Opens it in an empty directory.
    ///
    /// # Errors
    /// What the store says.
    fn open(&self, dir: &Path) -> Result<Box<dyn Opened>>;
}

/// One that is open. Threads call it at the same time.
pub trait Opened: Send + Sync {
    /// Puts all in one transaction; durable when this returns.
    ///
    /// # Errors
    /// What the store says.
    fn load(&self, entries: &[(Key, Vec<u8>)]) -> Result<()>;

    /// Puts one in a transaction of its own; durable when this returns.
    ///
    /// # Errors
    /// What the store says.
    fn put(&self, key: &Key, value: &[u8]) -> Result<()>;

    /// For a thread that reads: made in that thread.
    ///
    /// # Errors
    /// What the store says.
    fn reader(&self) -> Result<Box<dyn Reader + '_>>;

    /// Looks whether it is whole, where the store has a checker that does not take long.
    ///
    /// # Errors
    /// What the checker says.
    fn check(&self) -> Result<()> {
        Ok(())
    }
}

/// Reads of one thread.
pub trait Reader {
    /// The length of a value, in a read transaction of its own.
    ///
    /// # Errors
    /// What the store says.
    fn get(&mut self, key: &Key) -> Result<Option<usize>>;

    /// As [`Reader::get`], all in one read transaction; how many of them there are.
    ///
    /// # Errors
    /// What the store says.
    fn get_all(&mut self, keys: &[Key]) -> Result<usize>;

    /// Bytes of the next `count` keys from `from` on, with their values, and how many there were.
    ///
    /// # Errors
    /// What the store says.
    fn scan(&mut self, from: &Key, count: usize) -> Result<(usize, usize)>;
}
