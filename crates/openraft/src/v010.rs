//! The log store for openraft 0.10.0-alpha.37, and for no other alpha.

use crate::error::Error;
use crate::reader::Reader;
use crate::record::Line;
use crate::store::{NewEntry, Store};
use crate::typed;
use logforce::{Log, Options};
use openraft_010::alias::{LogIdOf, VoteOf};
use openraft_010::entry::RaftEntry;
use openraft_010::storage::{IOFlushed, LogState, RaftLogStorage};
use openraft_010::type_config::TypeConfigExt;
use openraft_010::{OptionalSend, RaftLogReader, RaftTypeConfig};
use std::fmt::Debug;
use std::io;
use std::marker::PhantomData;
use std::ops::RangeBounds;
use std::path::Path;

/// The log, the vote and the committed log id of a Raft node. Pass it to
/// [`Raft::new`](openraft_010::Raft::new).
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
    pub async fn open(path: impl AsRef<Path>, options: Options) -> Result<LogStore<C>, Error> {
        Self::from_log(options.open_async(path).await?).await
    }

    /// Makes a store of an open log. Only the store may append to it. With a clone of the log you can read
    /// its statistics, back it up, and close it after the node has shut down. Without that, dropping the store
    /// and its readers closes the log, which may block the thread for a force.
    ///
    /// # Errors
    /// [`Error::Log`] if the log cannot be read; [`Error::Record`] if it has other records than this store's.
    pub async fn from_log(log: Log) -> Result<LogStore<C>, Error> {
        let store = Store::open(Line::V010, log).await?;
        let reader = store.reader();
        // Checked here, because openraft's panic at a later call would not name the record.
        typed::vote::<VoteOf<C>>(reader)?;
        typed::committed::<LogIdOf<C>>(reader)?;
        typed::purged::<LogIdOf<C>>(reader)?;
        Ok(LogStore {
            store,
            types: PhantomData,
        })
    }
}

impl<C: RaftTypeConfig> RaftLogReader<C> for LogReader<C> {
    async fn try_get_log_entries<R: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: R,
    ) -> io::Result<Vec<C::Entry>> {
        Ok(typed::entries(&self.reader, range).await?)
    }

    async fn read_vote(&mut self) -> io::Result<Option<VoteOf<C>>> {
        Ok(typed::vote(&self.reader)?)
    }
}

impl<C: RaftTypeConfig> RaftLogStorage<C> for LogStore<C> {
    type LogReader = LogReader<C>;

    async fn get_log_state(&mut self) -> io::Result<LogState<C>> {
        let reader = self.store.reader();
        let last_purged_log_id: Option<LogIdOf<C>> = typed::purged(reader)?;
        let last: Option<C::Entry> = typed::last(reader).await?;
        let last_log_id = match last {
            Some(entry) => Some(entry.log_id()),
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

    async fn save_vote(&mut self, vote: &VoteOf<C>) -> io::Result<()> {
        let vote = typed::encode("a vote", vote)?;
        Ok(self.store.save_vote(vote).await?)
    }

    async fn save_committed(&mut self, committed: Option<LogIdOf<C>>) -> io::Result<()> {
        let encoded = committed.map(|id| typed::encode("a log id", &id));
        self.store.save_committed(encoded.transpose()?);
        Ok(())
    }

    async fn read_committed(&mut self) -> io::Result<Option<LogIdOf<C>>> {
        Ok(typed::committed(self.store.reader())?)
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<C>) -> io::Result<()>
    where
        I: IntoIterator<Item = C::Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let new = |entry: C::Entry| typed::new_entry(Line::V010, entry.index(), &entry);
        let new: Result<Vec<NewEntry>, Error> = entries.into_iter().map(new).collect();
        match self.store.append(new?).await? {
            // The log becomes durable in order: with the last entry they all are.
            Some(handle) => drop(C::spawn(async move {
                let done = handle.await.map(drop);
                callback.io_completed(done.map_err(io::Error::other));
            })),
            None => callback.io_completed(Ok(())),
        }
        Ok(())
    }

    async fn truncate_after(&mut self, last: Option<LogIdOf<C>>) -> io::Result<()> {
        let from = last.map_or(0, |id| id.index().saturating_add(1));
        Ok(self.store.cut(from).await?)
    }

    async fn purge(&mut self, upto: LogIdOf<C>) -> io::Result<()> {
        let purged = typed::new_purged(upto.index(), &upto)?;
        Ok(self.store.purge(purged).await?)
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
