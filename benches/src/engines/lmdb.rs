//! LMDB.

use super::Engine;
use anyhow::{Context, Result};
use lmdb::{
    Cursor, Database, DatabaseFlags, Environment, EnvironmentFlags, Transaction, WriteFlags,
};
use std::path::Path;

/// Size of the map's address space, bytes; more than the disk of a crash test.
const MAP: usize = 1 << 30;

struct Open {
    environment: Environment,
    database: Database,
}

/// Opens the environment with these flags.
pub fn open(dir: &Path, flags: EnvironmentFlags) -> Result<Box<dyn Engine>> {
    let environment = Environment::new()
        .set_map_size(MAP)
        .set_flags(flags)
        .open(dir)?;
    let database = environment.create_db(None, DatabaseFlags::empty())?;
    Ok(Box::new(Open {
        environment,
        database,
    }))
}

impl Engine for Open {
    fn put(&mut self, key: u64, value: &[u8]) -> Result<()> {
        let mut write = self.environment.begin_rw_txn()?;
        write.put(
            self.database,
            &key.to_be_bytes(),
            &value,
            WriteFlags::empty(),
        )?;
        Ok(write.commit()?)
    }

    fn scan(&self, see: &mut dyn FnMut(u64, &[u8])) -> Result<()> {
        let read = self.environment.begin_ro_txn()?;
        let mut cursor = read.open_ro_cursor(self.database)?;
        for entry in cursor.iter() {
            let (key, value) = entry?;
            let key = key.try_into().context("a key has no eight bytes")?;
            see(u64::from_be_bytes(key), value);
        }
        Ok(())
    }
}
