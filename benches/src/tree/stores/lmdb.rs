//! LMDB: a memory-mapped copy-on-write B+ tree.

use crate::tree::keys::Key;
use crate::tree::store::{Opened, Reader, Store};
use anyhow::{Result, bail};
use lmdb::{
    Cursor, Database, DatabaseFlags, Environment, InactiveTransaction, RoTransaction, Transaction,
    WriteFlags,
};
use std::path::Path;

/// LMDB with its default: a sync at every commit.
pub struct Lmdb;

/// Size of the map's address space, bytes; more than a run writes.
const MAP: usize = 16 << 30;

impl Store for Lmdb {
    fn name(&self) -> &'static str {
        "lmdb"
    }

    fn version(&self) -> String {
        crate::embedded::lmdb_version()
    }

    fn settings(&self) -> String {
        "synced at every commit, as by default; one put per transaction, one writer at a \
            time; a read transaction is reset and renewed, which is the cheapest way"
            .to_owned()
    }

    fn open(&self, dir: &Path) -> Result<Box<dyn Opened>> {
        let environment = Environment::new()
            .set_map_size(MAP)
            .set_max_readers(512)
            .open(dir)?;
        let database = environment.create_db(None, DatabaseFlags::empty())?;
        Ok(Box::new(Open {
            environment,
            database,
        }))
    }
}

struct Open {
    environment: Environment,
    database: Database,
}

impl Opened for Open {
    fn load(&self, entries: &[(Key, Vec<u8>)]) -> Result<()> {
        let mut write = self.environment.begin_rw_txn()?;
        for (key, value) in entries {
            write.put(self.database, key, value, WriteFlags::empty())?;
        }
        Ok(write.commit()?)
    }

    fn put(&self, key: &Key, value: &[u8]) -> Result<()> {
        let mut write = self.environment.begin_rw_txn()?;
        write.put(self.database, key, &value, WriteFlags::empty())?;
        Ok(write.commit()?)
    }

    fn reader(&self) -> Result<Box<dyn Reader + '_>> {
        let read = self.environment.begin_ro_txn()?;
        Ok(Box::new(Reading {
            database: self.database,
            read: Some(read.reset()),
        }))
    }
}

struct Reading<'e> {
    database: Database,
    read: Option<InactiveTransaction<'e>>,
}

impl<'e> Reading<'e> {
    fn with<T>(
        &mut self,
        look: impl FnOnce(&RoTransaction<'e>, Database) -> Result<T>,
    ) -> Result<T> {
        let Some(read) = self.read.take() else {
            bail!("a read has failed before");
        };
        let read = read.renew()?;
        let seen = look(&read, self.database);
        self.read = Some(read.reset());
        seen
    }
}

fn len_of(read: &RoTransaction<'_>, database: Database, key: &Key) -> Result<Option<usize>> {
    match read.get(database, key) {
        Ok(value) => Ok(Some(value.len())),
        Err(lmdb::Error::NotFound) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

impl Reader for Reading<'_> {
    fn get(&mut self, key: &Key) -> Result<Option<usize>> {
        self.with(|read, database| len_of(read, database, key))
    }

    fn get_all(&mut self, keys: &[Key]) -> Result<usize> {
        self.with(|read, database| {
            let mut found = 0;
            for key in keys {
                found += usize::from(len_of(read, database, key)?.is_some());
            }
            Ok(found)
        })
    }

    fn scan(&mut self, from: &Key, count: usize) -> Result<(usize, usize)> {
        self.with(|read, database| {
            let mut cursor = read.open_ro_cursor(database)?;
            let mut seen = (0, 0);
            for entry in cursor.iter_from(from).take(count) {
                let (key, value) = entry?;
                seen = (seen.0 + 1, seen.1 + key.len() + value.len());
            }
            Ok(seen)
        })
    }
}
