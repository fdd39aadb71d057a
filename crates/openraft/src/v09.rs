//! The log store for openraft 0.9.

use crate::error::Error;
use crate::reader::Reader;
use crate::record::Line;
use crate::store::{NewEntry, Store};
use crate::typed;
use logforce::{Log, Options};
use openraft::storage::{LogFlushed, LogState, RaftLogStorage};
use openraft::{
    AsyncRuntime, LogId, OptionalSend, RaftLogId, RaftLogReader, RaftTypeConfig, StorageError,
    StorageIOError, Vote,
};
use std::fmt::Debug;
use std::io;
use std::marker::PhantomData;
use std::ops::RangeBounds;
use std::path::Path;

type NodeId<C> = <C as RaftTypeConfig>::NodeId;
type Result<T, C> = std::result::Result<T, StorageError<NodeId<C>>>;

/// The log, the vote and the committed log id of a Raft node. Pass it to
/// [`Raft::new`](openraft::Raft::new).
pub struct LogStore<C: RaftTypeConfig> {
    store: Store,
    types: PhantomData<fn() -> C>,
}

/// Reader of a [`LogStore`], for replication and the state machine.
pub struct LogReader<C: RaftTypeConfig> {
    reader: Reader,
    types: PhantomData<fn() -> C>,
}

impl<C: RaftTypeConfig> LogStore<C> {
    /// Opens the store in the directory `path`.
    ///
    /// Set [`Options::create_new`] only when the node starts for the first time, as its operator knows. A node
    /// that has lost its log must not start again under its id, because it would vote a second time in a term.
    ///
    /// # Errors
    /// [`Error::Log`] as [`Options::open`]; [`Error::Record`] if the log has other records than this store's.
    pub async fn open(
        path: impl AsRef<Path>,
        options: Options,
    ) -> std::result::Result<LogStore<C>, Error> {
        Self::from_log(options.open_async(path).await?).await
    }

    /// Makes a store of an open log. Only the store may append to it. With a clone of the log you can read
    /// its statistics, back it up, and close it after the node has shut down. Without that, dropping the store
    /// and its readers closes the log, which may block the thread for a force.
    ///
    /// # Errors
    /// [`Error::Log`] if the log cannot be read; [`Error::Record`] if it has other records than this store's.
    pub async fn from_log(log: Log) -> std::result::Result<LogStore<C>, Error> {
        let store = Store::open(Line::V09, log).await?;
        let reader = store.reader();
        // Checked here, because openraft's panic at a later call would not name the record.
        typed::vote::<Vote<NodeId<C>>>(reader)?;
        typed::committed::<LogId<NodeId<C>>>(reader)?;
        typed::purged::<LogId<NodeId<C>>>(reader)?;
        Ok(LogStore {
            store,
            types: PhantomData,
        })
    }
}

fn read_logs<C: RaftTypeConfig>(e: Error) -> StorageError<NodeId<C>> {
    StorageIOError::read_logs(&e).into()
}

fn write_logs<C: RaftTypeConfig>(e: Error) -> StorageError<NodeId<C>> {
    StorageIOError::write_logs(&e).into()
}

impl<C: RaftTypeConfig> RaftLogReader<C> for LogReader<C> {
    async fn try_get_log_entries<R: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: R,
    ) -> Result<Vec<C::Entry>, C> {
        let read = typed::entries(&self.reader, range).await;
        read.map_err(read_logs::<C>)
    }
}

impl<C: RaftTypeConfig> RaftLogReader<C> for LogStore<C> {
    async fn try_get_log_entries<R: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: R,
    ) -> Result<Vec<C::Entry>, C> {
        let read = typed::entries(self.store.reader(), range).await;
        read.map_err(read_logs::<C>)
    }
}

impl<C: RaftTypeConfig> RaftLogStorage<C> for LogStore<C> {
    type LogReader = LogReader<C>;

    async fn get_log_state(&mut self) -> Result<LogState<C>, C> {
        let reader = self.store.reader();
        let last_purged_log_id: Option<LogId<NodeId<C>>> =
            typed::purged(reader).map_err(read_logs::<C>)?;
        let last: Option<C::Entry> = typed::last(reader).await.map_err(read_logs::<C>)?;
        let last_log_id = match last {
            Some(entry) => Some(entry.get_log_id().clone()),
            None => last_purged_log_id.clone(),
        };
        Ok(LogState {
            last_purged_log_id,
            last_log_id,
        })
    }

    async fn get_log_reader(&mut self) -> LogReader<C> {
        LogReader {
            reader: self.store.reader().clone(),
            types: PhantomData,
        }
    }

    async fn save_vote(&mut self, vote: &Vote<NodeId<C>>) -> Result<(), C> {
        let saved = match typed::encode("a vote", vote) {
            Ok(vote) => self.store.save_vote(vote).await,
            Err(e) => Err(e),
        };
        saved.map_err(|e| StorageIOError::write_vote(&e).into())
    }

    async fn read_vote(&mut self) -> Result<Option<Vote<NodeId<C>>>, C> {
        let read = typed::vote(self.store.reader());
        read.map_err(|e| StorageIOError::read_vote(&e).into())
    }

    async fn save_committed(&mut self, committed: Option<LogId<NodeId<C>>>) -> Result<(), C> {
        let encoded = committed.map(|id| typed::encode("a log id", &id));
        let encoded = encoded.transpose().map_err(write_logs::<C>)?;
        self.store.save_committed(encoded);
        Ok(())
    }

    async fn read_committed(&mut self) -> Result<Option<LogId<NodeId<C>>>, C> {
        typed::committed(self.store.reader()).map_err(read_logs::<C>)
    }

    async fn append<I>(&mut self, entries: I, callback: LogFlushed<C>) -> Result<(), C>
    where
        I: IntoIterator<Item = C::Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let new = |entry: C::Entry| typed::new_entry(Line::V09, entry.get_log_id().index, &entry);
        let new: std::result::Result<Vec<NewEntry>, Error> = entries.into_iter().map(new).collect();
        let appended = match new {
            Ok(new) => self.store.append(new).await,
            Err(e) => Err(e),
        };
        match appended.map_err(write_logs::<C>)? {
            // The log becomes durable in order: with the last entry they all are.
            Some(handle) => drop(C::AsyncRuntime::spawn(async move {
                let done = handle.await.map(drop);
                callback.log_io_completed(done.map_err(io::Error::other));
            })),
            None => callback.log_io_completed(Ok(())),
        }
        Ok(())
    }

    async fn truncate(&mut self, from: LogId<NodeId<C>>) -> Result<(), C> {
        self.store.cut(from.index).await.map_err(write_logs::<C>)
    }

    async fn purge(&mut self, upto: LogId<NodeId<C>>) -> Result<(), C> {
        let purged = match typed::new_purged(upto.index, &upto) {
            Ok(purged) => self.store.purge(purged).await,
            Err(e) => Err(e),
        };
        purged.map_err(write_logs::<C>)
    }
}

impl<C: RaftTypeConfig> Clone for LogReader<C> {
    fn clone(&self) -> Self {
        LogReader {
            reader: self.reader.clone(),
            types: PhantomData,
        }
    }
}

impl<C: RaftTypeConfig> Debug for LogReader<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("LogReader").field(&self.reader).finish()
    }
}

impl<C: RaftTypeConfig> Debug for LogStore<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("LogStore").field(&self.store).finish()
    }
}
