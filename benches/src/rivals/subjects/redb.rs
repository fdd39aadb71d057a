//! redb: a copy-on-write B-tree.

use crate::rivals::records::FoundRecords;
use crate::rivals::rival::{InProcess, Opened, Rival, Shape, Way, Writers};
use crate::rivals::versions::locked;
use anyhow::Result;
use redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// redb with `Durability::Immediate`.
pub struct Redb;

const RECORDS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("records");

fn path(dir: &Path) -> PathBuf {
    dir.join("records.redb")
}

impl Rival for Redb {
    fn name(&self) -> &'static str {
        "redb"
    }

    fn version(&self) -> String {
        locked("redb").to_owned()
    }

    fn settings(&self) -> String {
        "Durability::Immediate, commits in one phase, no quick repair (both as by default), keys \
         ascending, one write transaction per record"
            .to_owned()
    }

    fn writers(&self) -> Writers {
        Writers::OneByOne
    }

    fn way(&self) -> Way<'_> {
        Way::Here(self)
    }
}

impl InProcess for Redb {
    fn open(&self, dir: &Path, _: Shape) -> Result<Box<dyn Opened>> {
        let database = Database::create(path(dir))?;
        let write = database.begin_write()?;
        write.open_table(RECORDS)?;
        write.commit()?;
        Ok(Box::new(Open {
            database,
            next: AtomicU64::new(0),
        }))
    }

    fn read_back(&self, dir: &Path, _: Shape, found: &mut FoundRecords) -> Result<bool> {
        let database = Database::open(path(dir))?;
        let read = database.begin_read()?;
        for record in read.open_table(RECORDS)?.iter()? {
            found.see(record?.1.value());
        }
        Ok(true)
    }
}

struct Open {
    database: Database,
    next: AtomicU64,
}

impl Opened for Open {
    fn commit(&self, _: usize, _: u64, record: &[u8]) -> Result<()> {
        // This waits for the other writers: redb has a single write lock.
        let mut write = self.database.begin_write()?;
        write.set_durability(Durability::Immediate)?;
        let key = self.next.fetch_add(1, Ordering::Relaxed);
        write.open_table(RECORDS)?.insert(key, record)?;
        write.commit()?;
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
