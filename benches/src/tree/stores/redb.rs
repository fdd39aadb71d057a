//! redb: a copy-on-write B-tree.

use crate::rivals::versions::locked;
use crate::tree::keys::Key;
use crate::tree::store::{Opened, Reader, Store};
use anyhow::Result;
use redb::{Database, Durability, ReadableDatabase, TableDefinition};
use std::path::Path;

/// redb with `Durability::Immediate`.
pub struct Redb;

const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("table");

impl Store for Redb {
    fn name(&self) -> &'static str {
        "redb"
    }

    fn version(&self) -> String {
        locked("redb").to_owned()
    }

    fn settings(&self) -> String {
        "Durability::Immediate, commits in one phase, no quick repair, a cache of 1 GiB (all as by \
         default); one put per transaction, one writer at a time"
            .to_owned()
    }

    fn open(&self, dir: &Path) -> Result<Box<dyn Opened>> {
        let database = Database::create(dir.join("table.redb"))?;
        let write = database.begin_write()?;
        write.open_table(TABLE)?;
        write.commit()?;
        Ok(Box::new(Open(database)))
    }
}

struct Open(Database);

impl Opened for Open {
    fn load(&self, entries: &[(Key, Vec<u8>)]) -> Result<()> {
        let mut write = self.0.begin_write()?;
        write.set_durability(Durability::Immediate)?;
        {
            let mut table = write.open_table(TABLE)?;
            for (key, value) in entries {
                table.insert(&key[..], &value[..])?;
            }
        }
        Ok(write.commit()?)
    }

    fn put(&self, key: &Key, value: &[u8]) -> Result<()> {
        let mut write = self.0.begin_write()?;
        write.set_durability(Durability::Immediate)?;
        write.open_table(TABLE)?.insert(&key[..], value)?;
        Ok(write.commit()?)
    }

    fn reader(&self) -> Result<Box<dyn Reader + '_>> {
        Ok(Box::new(Reading(&self.0)))
    }
}

struct Reading<'d>(&'d Database);

impl Reader for Reading<'_> {
    fn get(&mut self, key: &Key) -> Result<Option<usize>> {
        let table = self.0.begin_read()?.open_table(TABLE)?;
        Ok(table.get(&key[..])?.map(|value| value.value().len()))
    }

    fn get_all(&mut self, keys: &[Key]) -> Result<usize> {
        let table = self.0.begin_read()?.open_table(TABLE)?;
        let mut found = 0;
        for key in keys {
            found += usize::from(table.get(&key[..])?.is_some());
        }
        Ok(found)
    }

    fn scan(&mut self, from: &Key, count: usize) -> Result<(usize, usize)> {
        let table = self.0.begin_read()?.open_table(TABLE)?;
        let mut seen = (0, 0);
        for entry in table.range::<&[u8]>(&from[..]..)?.take(count) {
            let (key, value) = entry?;
            seen = (seen.0 + 1, seen.1 + key.value().len() + value.value().len());
        }
        Ok(seen)
    }
}
