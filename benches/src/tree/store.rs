//! Interface of the stores that are compared.

use crate::tree::keys::Key;
use anyhow::Result;
use std::path::Path;

/// An ordered key-value store that can be measured.
pub trait Store: Sync {
    /// Returns the short name, for the table and `--only`.
    fn name(&self) -> &'static str;

    /// Returns the version that is linked.
    fn version(&self) -> String;

    /// Returns the settings in words, for printing below the table.
    fn settings(&self) -> String;

    /// Opens it in an empty directory.
    ///
    /// # Errors
    /// Returns the store's error.
    fn open(&self, dir: &Path) -> Result<Box<dyn Opened>>;
}

/// An open store. Threads call it concurrently.
pub trait Opened: Send + Sync {
    /// Puts all entries in one transaction; durable when this returns.
    ///
    /// # Errors
    /// Returns the store's error.
    fn load(&self, entries: &[(Key, Vec<u8>)]) -> Result<()>;

    /// Puts one entry in a separate transaction; durable when this returns.
    ///
    /// # Errors
    /// Returns the store's error.
    fn put(&self, key: &Key, value: &[u8]) -> Result<()>;

    /// Returns a reader for the calling thread.
    ///
    /// # Errors
    /// Returns the store's error.
    fn reader(&self) -> Result<Box<dyn Reader + '_>>;

    /// Checks the store, if it has a checker that does not take long.
    ///
    /// # Errors
    /// Returns the damage that the checker found.
    fn check(&self) -> Result<()> {
        Ok(())
    }
}

/// Reads of one thread.
pub trait Reader {
    /// Returns the length of a value, in a separate read transaction.
    ///
    /// # Errors
    /// Returns the store's error.
    fn get(&mut self, key: &Key) -> Result<Option<usize>>;

    /// Looks up all keys in one read transaction. Returns the number of keys found.
    ///
    /// # Errors
    /// Returns the store's error.
    fn get_all(&mut self, keys: &[Key]) -> Result<usize>;

    /// Reads up to `count` keys and their values from `from` on. Returns the number of keys and the
    /// bytes of keys and values.
    ///
    /// # Errors
    /// Returns the store's error.
    fn scan(&mut self, from: &Key, count: usize) -> Result<(usize, usize)>;
}
