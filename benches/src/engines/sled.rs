//! sled.

use super::Engine;
use anyhow::{Context, Result};
use sled::Db;
use std::path::Path;

struct Open(Db);

/// Opens the database; each commit is flushed.
pub fn open(dir: &Path) -> Result<Box<dyn Engine>> {
    Ok(Box::new(Open(sled::open(dir)?)))
}

impl Engine for Open {
    fn put(&mut self, key: u64, value: &[u8]) -> Result<()> {
        self.0.insert(key.to_be_bytes(), value)?;
        self.0.flush()?;
        Ok(())
    }

    fn scan(&self, see: &mut dyn FnMut(u64, &[u8])) -> Result<()> {
        for entry in self.0.iter() {
            let (key, value) = entry?;
            let key = key[..].try_into().context("a key has no eight bytes")?;
            see(u64::from_be_bytes(key), &value);
        }
        Ok(())
    }
}
