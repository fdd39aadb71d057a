//! fjall: an LSM store with a journal.

use crate::rivals::records::FoundRecords;
use crate::rivals::rival::{InProcess, Opened, Rival, Shape, Way, Writers};
use crate::rivals::versions::locked;
use anyhow::Result;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// fjall with its journal synced for every record.
pub struct Fjall;

fn database(dir: &Path) -> Result<(Database, Keyspace)> {
    let database = Database::builder(dir).manual_journal_persist(true).open()?;
    let keyspace = database.keyspace("records", || {
        KeyspaceCreateOptions::default().manual_journal_persist(true)
    })?;
    Ok((database, keyspace))
}

impl Rival for Fjall {
    fn name(&self) -> &'static str {
        "fjall"
    }

    fn version(&self) -> String {
        locked("fjall").to_owned()
    }

    fn settings(&self) -> String {
        "insert(), then persist(SyncData); manual_journal_persist, so that the journal is written \
         once; built without its compression; keys of 8 bytes, ascending"
            .to_owned()
    }

    fn writers(&self) -> Writers {
        Writers::Each
    }

    fn way(&self) -> Way<'_> {
        Way::Here(self)
    }
}

impl InProcess for Fjall {
    fn open(&self, dir: &Path, _: Shape) -> Result<Box<dyn Opened>> {
        let (database, keyspace) = database(dir)?;
        Ok(Box::new(Open {
            keyspace,
            database,
            next: AtomicU64::new(0),
        }))
    }

    fn read_back(&self, dir: &Path, _: Shape, found: &mut FoundRecords) -> Result<bool> {
        let (_database, keyspace) = database(dir)?;
        for guard in keyspace.iter() {
            found.see(&guard.value()?);
        }
        Ok(true)
    }
}

struct Open {
    keyspace: Keyspace,
    database: Database,
    next: AtomicU64,
}

impl Opened for Open {
    fn commit(&self, _: usize, _: u64, record: &[u8]) -> Result<()> {
        let key = self.next.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        self.keyspace.insert(key, record)?;
        self.database.persist(PersistMode::SyncData)?;
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
