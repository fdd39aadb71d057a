use crate::{Entry, LogId, StorageError, TypeConfig, Vote};
use logforce::{Log, Lsn, Options, Policy};
use openraft::storage::{LogFlushed, LogState, RaftLogStorage};
use openraft::{OptionalSend, RaftLogReader, StorageIOError};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io;
use std::ops::RangeBounds;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The log of a Raft node. Clones are the same log.
#[derive(Debug, Clone)]
pub struct LogStore {
    log: Log,
    shared: Arc<Mutex<Index>>,
}

/// Reads entries beside the store.
pub type LogReader = LogStore;

/// Where the entries lie.
#[derive(Debug, Default)]
struct Index {
    places: BTreeMap<u64, Place>,
    meta: Meta,
}

#[derive(Debug, Clone)]
struct Place {
    id: LogId,
    start: Lsn,
    end: Lsn,
    /// Until it is durable: the log shows no record before, and openraft reads what it appended.
    young: Option<Arc<Entry>>,
}

/// What lies in the log's metadata slot: small, changed as a whole, and forced.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Meta {
    vote: Option<Vote>,
    committed: Option<LogId>,
    purged: Option<LogId>,
}

fn other(e: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::other(e)
}

/// A call that forces, off the threads that run tasks.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(e) => Err(other(e)),
    }
}

impl LogStore {
    /// Opens the store in the directory `path`, or makes one.
    pub fn open(path: impl AsRef<Path>, options: Options) -> io::Result<LogStore> {
        let log = logforce::open_or_create(path, options).map_err(other)?;
        let mut index = Index::default();
        if let Some(bytes) = log.meta() {
            index.meta = serde_json::from_slice(&bytes)?;
        }
        // What `truncate_back` took away is not among them.
        for record in log.read_from(log.front_lsn()).map_err(other)? {
            let record = record.map_err(other)?;
            let entry: Entry = serde_json::from_slice(&record.data)?;
            // Between the two steps of a purge the store may have stopped.
            if index
                .meta
                .purged
                .is_none_or(|p| entry.log_id.index > p.index)
            {
                index.insert(entry.log_id, record.start, record.end, None);
            }
        }
        Ok(LogStore {
            log,
            shared: Arc::new(Mutex::new(index)),
        })
    }

    /// Forces everything and closes the log, if this is the last clone.
    pub fn close(self) -> io::Result<()> {
        self.log.close().map_err(other)
    }

    fn index(&self) -> MutexGuard<'_, Index> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the metadata; returns when that is durable. openraft calls the methods that change
    /// the store one after another.
    async fn change(&self, change: impl FnOnce(&mut Meta)) -> io::Result<()> {
        let mut meta = self.index().meta.clone();
        change(&mut meta);
        if meta == self.index().meta {
            return Ok(());
        }
        let bytes = serde_json::to_vec(&meta)?;
        let log = self.log.clone();
        blocking(move || log.set_meta(&bytes).map_err(other)).await?;
        self.index().meta = meta;
        Ok(())
    }

    fn read(&self, range: impl RangeBounds<u64>) -> io::Result<Vec<Entry>> {
        let places: Vec<Place> = {
            let index = self.index();
            index.places.range(range).map(|(_, p)| p.clone()).collect()
        };
        let read = |place: Place| match place.young {
            Some(entry) => Ok((*entry).clone()),
            None => {
                let record = self.log.read_at(place.start).map_err(other)?;
                Ok(serde_json::from_slice(&record.data)?)
            }
        };
        places.into_iter().map(read).collect()
    }
}

impl Index {
    fn insert(&mut self, id: LogId, start: Lsn, end: Lsn, young: Option<Arc<Entry>>) {
        let place = Place {
            id,
            start,
            end,
            young,
        };
        self.places.insert(id.index, place);
    }

    /// What is durable is read from the log from now on.
    fn grow_up(&mut self, durable: Lsn) {
        let young = self.places.values_mut().rev();
        for place in young.take_while(|p| p.young.is_some()) {
            if place.end <= durable {
                place.young = None;
            }
        }
    }
}

impl RaftLogReader<TypeConfig> for LogStore {
    async fn try_get_log_entries<R: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: R,
    ) -> Result<Vec<Entry>, StorageError> {
        self.read(range)
            .map_err(|e| StorageIOError::read_logs(&e).into())
    }
}

impl RaftLogStorage<TypeConfig> for LogStore {
    type LogReader = LogReader;

    async fn get_log_state(&mut self) -> Result<LogState<TypeConfig>, StorageError> {
        let index = self.index();
        let last = index.places.values().next_back().map(|p| p.id);
        let last_purged_log_id = index.meta.purged;
        Ok(LogState {
            last_purged_log_id,
            last_log_id: last.or(last_purged_log_id),
        })
    }

    async fn get_log_reader(&mut self) -> LogReader {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> Result<(), StorageError> {
        let changed = self.change(|m| m.vote = Some(*vote)).await;
        changed.map_err(|e| StorageIOError::write_vote(&e).into())
    }

    async fn read_vote(&mut self) -> Result<Option<Vote>, StorageError> {
        Ok(self.index().meta.vote)
    }

    async fn save_committed(&mut self, committed: Option<LogId>) -> Result<(), StorageError> {
        let changed = self.change(|m| m.committed = committed).await;
        changed.map_err(|e| StorageIOError::write(&e).into())
    }

    async fn read_committed(&mut self) -> Result<Option<LogId>, StorageError> {
        Ok(self.index().meta.committed)
    }

    async fn append<I>(
        &mut self,
        entries: I,
        callback: LogFlushed<TypeConfig>,
    ) -> Result<(), StorageError>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        self.index().grow_up(self.log.durable_lsn());
        let mut last = None;
        for entry in entries {
            let failed = |e: io::Error| StorageIOError::write_log_entry(entry.log_id, &e);
            let record = serde_json::to_vec(&entry).map_err(|e| failed(e.into()))?;
            // Waits for room, not for the disk.
            let permit = self.log.reserve(record.len()).await;
            let submitted = permit.and_then(|permit| permit.submit(record, Policy::Force));
            let submitted = submitted.map_err(|e| failed(other(e)))?;
            let id = entry.log_id;
            let (start, end) = (submitted.start(), submitted.end());
            self.index().insert(id, start, end, Some(Arc::new(entry)));
            last = Some(submitted);
        }
        match last {
            // The log is durable in order: with the last one they all are.
            Some(last) => drop(tokio::spawn(async move {
                callback.log_io_completed(last.await.map(drop).map_err(other));
            })),
            None => callback.log_io_completed(Ok(())),
        }
        Ok(())
    }

    async fn truncate(&mut self, from: LogId) -> Result<(), StorageError> {
        let gone = self.index().places.split_off(&from.index);
        let Some(first) = gone.values().next().map(|p| p.start) else {
            return Ok(());
        };
        let log = self.log.clone();
        let done = blocking(move || log.truncate_back(first).map_err(other)).await;
        done.map_err(|e| StorageIOError::write_logs(&e).into())
    }

    async fn purge(&mut self, upto: LogId) -> Result<(), StorageError> {
        let failed = |e: io::Error| StorageIOError::write_logs(&e);
        // First, so that a crash in between leaves entries that are known to be purged.
        self.change(|m| m.purged = Some(upto))
            .await
            .map_err(failed)?;
        let end = {
            let mut index = self.index();
            let kept = index.places.split_off(&(upto.index + 1));
            let gone = std::mem::replace(&mut index.places, kept);
            gone.into_values().next_back().map(|p| p.end)
        };
        let Some(end) = end else { return Ok(()) };
        let log = self.log.clone();
        let done = blocking(move || log.truncate_front(end).map_err(other)).await;
        done.map_err(|e| failed(e).into())
    }
}
