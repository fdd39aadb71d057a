//! hiqlite-wal, the Raft log of hiqlite: a log store for openraft in memory-mapped files.

use super::batch::{BatchedLog, Batcher};
use crate::rivals::records::FoundRecords;
use crate::rivals::rival::{InProcess, Opened, Rival, Shape, Way, Writers};
use crate::rivals::turn::take;
use crate::rivals::versions::locked;
use anyhow::{Context, Result};
use hiqlite_wal::{LogStore, LogSync};
use openraft::storage::{RaftLogReader, RaftLogStorage, RaftLogStorageExt};
use openraft::{CommittedLeaderId, Entry, EntryPayload, LogId};
use serde_bytes::ByteBuf;
use std::io::Cursor;
use std::path::Path;
use std::sync::Mutex;
use tokio::runtime::{Builder, Runtime};

/// hiqlite-wal with a flush in every append.
pub struct HiqliteWal;

/// Size of a WAL file, bytes. An entry must fit into one.
const WAL_SIZE: u32 = 64 << 20;
/// Index of the first entry. The log takes an index of 0 for unused space.
const FIRST: u64 = 1;
/// Number of entries that are read at once.
const PIECE: u64 = 1024;

openraft::declare_raft_types!(
    /// A Raft node whose requests are records.
    Types: D = ByteBuf, R = ()
);

impl Rival for HiqliteWal {
    fn name(&self) -> &'static str {
        "hiqlite-wal"
    }

    fn version(&self) -> String {
        locked("hiqlite-wal").to_owned()
    }

    fn settings(&self) -> String {
        "LogSync::Immediate, one append() for all waiting records, then its callback (msync of the \
         file); WAL files of 64 MiB (hiqlite's default is 2 MiB), sparse, not prepared; each \
         record is an openraft entry; its writer thread has nice -20 where that is allowed; one \
         thread calls the log itself"
            .to_owned()
    }

    fn writers(&self) -> Writers {
        Writers::Caller
    }

    fn way(&self) -> Way<'_> {
        Way::Here(self)
    }
}

impl InProcess for HiqliteWal {
    fn open(&self, dir: &Path, shape: Shape) -> Result<Box<dyn Opened>> {
        let store = Store::open(dir)?;
        Ok(Box::new(if shape.threads == 1 {
            // No other thread to share a write with: a second thread would only cost time.
            Open::Alone(Mutex::new(store))
        } else {
            Open::Shared(Batcher::start(store)?)
        }))
    }

    fn read_back(&self, dir: &Path, _: Shape, found: &mut FoundRecords) -> Result<bool> {
        let store = Store::open(dir)?;
        let mut log = store.log;
        store.runtime.block_on(async {
            let last = log.get_log_state().await?.last_log_id;
            let end = last.map_or(FIRST, |last| last.index + 1);
            let mut from = FIRST;
            while from < end {
                let to = end.min(from + PIECE);
                for entry in log.try_get_log_entries(from..to).await? {
                    if let EntryPayload::Normal(record) = entry.payload {
                        found.see(&record);
                    }
                }
                from = to;
            }
            log.stop().await?;
            Ok(true)
        })
    }
}

/// An open log, and the runtime of its calls.
struct Store {
    runtime: Runtime,
    log: LogStore<Types>,
    /// Index of the next entry.
    next: u64,
}

impl Store {
    fn open(dir: &Path) -> Result<Store> {
        let path = dir.to_str().context("the path is not UTF-8")?.to_owned();
        let runtime = Builder::new_current_thread().build()?;
        let log = runtime.block_on(LogStore::start(path, LogSync::Immediate, WAL_SIZE))?;
        Ok(Store {
            runtime,
            log,
            next: FIRST,
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
        // Returns when the log has called back: with `Immediate`, after the flush.
        Ok(self.runtime.block_on(self.log.blocking_append(entries))?)
    }

    fn close(self) -> Result<()> {
        Ok(self.runtime.block_on(self.log.stop())?)
    }
}

enum Open {
    /// One thread, which writes the log itself. No thread waits for the lock.
    Alone(Mutex<Store>),
    /// Several threads, whose records another one writes.
    Shared(Batcher),
}

impl Opened for Open {
    fn commit(&self, _: usize, _: u64, record: &[u8]) -> Result<()> {
        match self {
            Open::Alone(store) => take(store)?.save(vec![record.to_vec()]),
            Open::Shared(batcher) => batcher.commit(record),
        }
    }

    fn close(self: Box<Self>) -> Result<()> {
        match *self {
            Open::Alone(store) => store
                .into_inner()
                .ok()
                .context("the thread failed in the middle of a commit")?
                .close(),
            Open::Shared(batcher) => batcher.end(),
        }
    }
}
