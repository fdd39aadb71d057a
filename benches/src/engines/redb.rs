//! redb.

use super::Engine;
use anyhow::Result;
use redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition};
use std::path::Path;

const TABLE: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("table");

struct Open {
    database: Database,
    durability: Durability,
}

/// Opens the database; commits have this durability.
pub fn open(dir: &Path, durability: Durability) -> Result<Box<dyn Engine>> {
    let database = Database::create(dir.join("db"))?;
    let write = database.begin_write()?;
    write.open_table(TABLE)?;
    write.commit()?;
    Ok(Box::new(Open {
        database,
        durability,
    }))
}

impl Engine for Open {
    fn put(&mut self, key: u64, value: &[u8]) -> Result<()> {
        let mut write = self.database.begin_write()?;
        write.set_durability(self.durability)?;
        write.open_table(TABLE)?.insert(key, value)?;
        Ok(write.commit()?)
    }

    fn scan(&self, see: &mut dyn FnMut(u64, &[u8])) -> Result<()> {
        let table = self.database.begin_read()?.open_table(TABLE)?;
        for entry in table.iter()? {
            let (key, value) = entry?;
            see(key.value(), value.value());
        }
        Ok(())
    }
}
