//! redb: a copy-on-write B-tree.

use super::keyed::{FILL, changed, filled};
use crate::pages::store::{Change, Layout, OpenStore, PageStore};
use anyhow::Result;
use redb::{
    Database, Durability, ReadableDatabase, ReadableTable, ReadableTableMetadata, TableDefinition,
};
use std::path::Path;

/// redb with `Durability::Immediate`.
pub struct Redb;

const PAGES: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("pages");

impl PageStore for Redb {
    fn name(&self) -> &'static str {
        "redb"
    }

    fn settings(&self) -> String {
        "values of 4000 bytes, Durability::Immediate, as by default; one writer at a time"
            .to_owned()
    }

    fn open(&self, dir: &Path, layout: Layout) -> Result<Box<dyn OpenStore>> {
        let database = Database::create(dir.join("pages.redb"))?;
        let write = database.begin_write()?;
        write.open_table(PAGES)?;
        write.commit()?;
        let mut next = database.begin_read()?.open_table(PAGES)?.len()?;
        while next < layout.pages {
            let end = layout.pages.min(next + FILL);
            let write = database.begin_write()?;
            let mut table = write.open_table(PAGES)?;
            for page in next..end {
                table.insert(page, filled(page).as_slice())?;
            }
            drop(table);
            write.commit()?;
            next = end;
        }
        Ok(Box::new(Open(database)))
    }
}

struct Open(Database);

impl OpenStore for Open {
    fn commit(&self, change: &Change<'_>) -> Result<()> {
        let mut write = self.0.begin_write()?;
        write.set_durability(Durability::Immediate)?;
        let mut table = write.open_table(PAGES)?;
        for page in change.pages {
            let before = || Some(table.get(page).ok()??.value().to_vec());
            let value = changed(change, before);
            table.insert(page, value.as_slice())?;
        }
        drop(table);
        write.commit()?;
        Ok(())
    }
}
