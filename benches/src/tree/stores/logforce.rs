//! The example tree as its users get it.

use crate::rivals::versions::locked;
use crate::tree::keys::Key;
use crate::tree::store::{Opened, Reader, Store};
use anyhow::{Result, ensure};
use logforce::pages::Options;
use logforce_btree::Tree;
use std::path::Path;

/// Example tree with default options.
pub struct Logforce;

impl Store for Logforce {
    fn name(&self) -> &'static str {
        super::LOGFORCE
    }

    fn version(&self) -> String {
        locked("logforce-btree").to_owned()
    }

    fn settings(&self) -> String {
        "default options: survives a loss of power, a logged page file with pages of 4 KiB, \
         checksums, a cache of 256 MiB, a checkpoint each 256 MiB of log (longer than a slice); \
         \
             reads of the durable state; one put per transaction, puts of several threads are forced together"
            .to_owned()
    }

    fn open(&self, dir: &Path) -> Result<Box<dyn Opened>> {
        let tree = Tree::open_or_create(dir.join("tree"), Options::new())?;
        Ok(Box::new(Open(tree)))
    }
}

struct Open(Tree);

impl Opened for Open {
    fn load(&self, entries: &[(Key, Vec<u8>)]) -> Result<()> {
        let mut write = self.0.begin()?;
        for (key, value) in entries {
            write.put(key, value)?;
        }
        write.commit()?;
        Ok(())
    }

    fn put(&self, key: &Key, value: &[u8]) -> Result<()> {
        self.0.put(key, value)?;
        Ok(())
    }

    fn reader(&self) -> Result<Box<dyn Reader + '_>> {
        Ok(Box::new(Reading(&self.0)))
    }

    fn check(&self) -> Result<()> {
        let report = self.0.snapshot()?.check()?;
        ensure!(report.is_whole(), "{:?}", report.problems);
        Ok(())
    }
}

struct Reading<'t>(&'t Tree);

impl Reader for Reading<'_> {
    fn get(&mut self, key: &Key) -> Result<Option<usize>> {
        Ok(self.0.get(key)?.map(|value| value.len()))
    }

    fn get_all(&mut self, keys: &[Key]) -> Result<usize> {
        let view = self.0.snapshot()?;
        let mut found = 0;
        for key in keys {
            found += usize::from(view.get(key)?.is_some());
        }
        Ok(found)
    }

    fn scan(&mut self, from: &Key, count: usize) -> Result<(usize, usize)> {
        let mut seen = (0, 0);
        for entry in self.0.snapshot()?.range(&from[..]..).take(count) {
            let entry = entry?;
            seen = (seen.0 + 1, seen.1 + entry.key().len() + entry.value().len());
        }
        Ok(seen)
    }
}
