//! LMDB: a memory-mapped copy-on-write B-tree.

use super::keyed::{FILL, changed, filled};
use crate::pages::store::{Change, Layout, OpenStore, PageStore};
use anyhow::Result;
use lmdb::{Database, DatabaseFlags, Environment, Transaction, WriteFlags};
use std::path::Path;

/// LMDB with its default: a sync at every commit.
pub struct Lmdb;

impl PageStore for Lmdb {
    fn name(&self) -> &'static str {
        "lmdb"
    }

    fn settings(&self) -> String {
        "values of 4000 bytes, synced at every commit, as by default; one writer at a time"
            .to_owned()
    }

    fn open(&self, dir: &Path, layout: Layout) -> Result<Box<dyn OpenStore>> {
        let map = layout.pages as usize * 4096 * 4 + (1 << 30);
        let environment = Environment::new().set_map_size(map).open(dir)?;
        let database = environment.create_db(None, DatabaseFlags::INTEGER_KEY)?;
        let mut next = environment.stat()?.entries() as u64;
        while next < layout.pages {
            let end = layout.pages.min(next + FILL);
            let mut write = environment.begin_rw_txn()?;
            for page in next..end {
                write.put(
                    database,
                    &page.to_ne_bytes(),
                    &filled(page),
                    WriteFlags::APPEND,
                )?;
            }
            write.commit()?;
            next = end;
        }
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

impl OpenStore for Open {
    fn commit(&self, change: &Change<'_>) -> Result<()> {
        let mut write = self.environment.begin_rw_txn()?;
        for page in change.pages {
            let key = page.to_ne_bytes();
            let before = || write.get(self.database, &key).ok().map(<[u8]>::to_vec);
            let value = changed(change, before);
            write.put(self.database, &key, &value, WriteFlags::empty())?;
        }
        write.commit()?;
        Ok(())
    }
}
