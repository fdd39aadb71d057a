//! The log store for openraft, called through openraft's trait as a node calls it.

use super::batch::{BatchedLog, Batcher};
use crate::rivals::records::FoundRecords;
use crate::rivals::rival::{InProcess, Opened, Rival, Shape, Way, Writers};
use crate::rivals::turn::take;
use crate::rivals::versions::locked;
use anyhow::{Context, Result};
use logforce::Options;
use logforce_openraft::v09::LogStore;
use openraft::storage::{RaftLogStorage, RaftLogStorageExt};
use openraft::{CommittedLeaderId, Entry, EntryPayload, LogId, RaftLogReader};
use serde_bytes::ByteBuf;
use std::io::Cursor;
use std::path::Path;
use std::sync::Mutex;
use tokio::runtime::{Builder, Runtime};

/// Number of entries that are read at once.
const PIECE: u64 = 1024;

openraft::declare_raft_types!(
    /// A Raft node whose requests are records.
    Types: D = ByteBuf, R = ()
);

/// The crate `logforce-openraft`.
pub struct LogforceStore;

impl Rival for LogforceStore {
    fn name(&self) -> &'static str {
        "openraft"
    }

    fn version(&self) -> String {
        format!("logforce-openraft {}", locked("logforce-openraft"))
    }

    fn settings(&self) -> String {
        "default options; one append() of openraft's trait for all waiting records, then its callback; \
         each record is an openraft entry; one thread calls the store"
            .to_owned()
    }

    fn writers(&self) -> Writers {
        Writers::Caller
    }

    fn way(&self) -> Way<'_> {
        Way::Here(self)
    }
}

impl InProcess for LogforceStore {
    fn open(&self, dir: &Path, shape: Shape) -> Result<Box<dyn Opened>> {
        let store = Store::open(dir)?;
        Ok(if shape.threads == 1 {
            Box::new(Alone(Mutex::new(store)))
        } else {
            Box::new(Shared(Batcher::start(store)?))
        })
    }

    fn read_back(&self, dir: &Path, _: Shape, found: &mut FoundRecords) -> Result<bool> {
        let mut store = Store::open(dir)?;
        store.runtime.block_on(async {
            let last = store.log.get_log_state().await?.last_log_id;
            let end = last.map_or(0, |last| last.index + 1);
            for from in (0..end).step_by(PIECE as usize) {
                let piece = from..end.min(from + PIECE);
                for entry in store.log.try_get_log_entries(piece).await? {
                    if let EntryPayload::Normal(record) = entry.payload {
                        found.see(&record);
                    }
                }
            }
            Ok(true)
        })
    }
}

/// An open store, and the runtime of its calls.
struct Store {
    runtime: Runtime,
    log: LogStore<Types>,
    /// Index of the next entry.
    next: u64,
}

impl Store {
    fn open(dir: &Path) -> Result<Store> {
        let runtime = Builder::new_current_thread().build()?;
        let options = Options::new().create(true);
        let log = runtime.block_on(LogStore::open(dir.join("log"), options))?;
        Ok(Store {
            runtime,
            log,
            next: 1,
        })
    }
}

impl BatchedLog for Store {
    fn save(&mut self, records: Vec<Vec<u8>>) -> Result<()> {
        let leader = CommittedLeaderId::new(1, 0);
        let entries: Vec<Entry<Types>> = (self.next..)
            .zip(records)
            .map(|(index, record)| Entry {
                log_id: LogId::new(leader, index),
                payload: EntryPayload::Normal(ByteBuf::from(record)),
            })
            .collect();
        self.next += entries.len() as u64;
        Ok(self.runtime.block_on(self.log.blocking_append(entries))?)
    }

    fn close(self) -> Result<()> {
        Ok(())
    }
}

/// One thread, which calls the store itself.
struct Alone(Mutex<Store>);

impl Opened for Alone {
    fn commit(&self, _: usize, _: u64, record: &[u8]) -> Result<()> {
        take(&self.0)?.save(vec![record.to_vec()])
    }

    fn close(self: Box<Self>) -> Result<()> {
        let store = self.0.into_inner().ok();
        store
            .context("the thread failed in the middle of a commit")?
            .close()
    }
}

/// Several threads, whose records another one writes.
struct Shared(Batcher);

impl Opened for Shared {
    fn commit(&self, _: usize, _: u64, record: &[u8]) -> Result<()> {
        self.0.commit(record)
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.0.end()
    }
}
