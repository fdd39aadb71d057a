//! LMDB: a memory-mapped copy-on-write B-tree.

use crate::rivals::records::FoundRecords;
use crate::rivals::rival::{InProcess, Opened, Rival, Shape, Way, Writers};
use crate::rivals::turn::take;
use anyhow::Result;
use lmdb::{Cursor, Database, DatabaseFlags, Environment, Transaction, WriteFlags};
use std::path::Path;
use std::sync::Mutex;

/// LMDB with its default: a sync at every commit.
pub struct Lmdb;

/// Size of the map's address space, bytes; more than a slice writes.
const MAP: usize = 16 << 30;

fn environment(dir: &Path) -> Result<Environment> {
    Ok(Environment::new().set_map_size(MAP).open(dir)?)
}

impl Rival for Lmdb {
    fn name(&self) -> &'static str {
        "lmdb"
    }

    fn version(&self) -> String {
        crate::embedded::lmdb_version()
    }

    fn settings(&self) -> String {
        "synced at every commit, as by default; keys ascending and put with APPEND, one \
         transaction per record"
            .to_owned()
    }

    fn writers(&self) -> Writers {
        Writers::OneByOne
    }

    fn way(&self) -> Way<'_> {
        Way::Here(self)
    }
}

impl InProcess for Lmdb {
    fn open(&self, dir: &Path, _: Shape) -> Result<Box<dyn Opened>> {
        let environment = environment(dir)?;
        let database = environment.create_db(None, DatabaseFlags::empty())?;
        Ok(Box::new(Open {
            environment,
            database,
            next: Mutex::new(0),
        }))
    }

    fn read_back(&self, dir: &Path, _: Shape, found: &mut FoundRecords) -> Result<bool> {
        let environment = environment(dir)?;
        let database = environment.open_db(None)?;
        let read = environment.begin_ro_txn()?;
        let mut cursor = read.open_ro_cursor(database)?;
        for record in cursor.iter() {
            found.see(record?.1);
        }
        Ok(true)
    }
}

struct Open {
    environment: Environment,
    database: Database,
    /// Next key. The thread that holds the lock writes, so that keys ascend.
    next: Mutex<u64>,
}

impl Opened for Open {
    fn commit(&self, _: usize, _: u64, record: &[u8]) -> Result<()> {
        let mut next = take(&self.next)?;
        let mut write = self.environment.begin_rw_txn()?;
        let key = next.to_be_bytes();
        write.put(self.database, &key, &record, WriteFlags::APPEND)?;
        write.commit()?;
        *next += 1;
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
