//! The store below the lines of openraft: entries, state, cuts and purges as records of a log. It knows
//! indexes and bytes, and none of openraft's types.
//!
//! All that must keep its order is a record. The log recovers a prefix of its records, so a vote never
//! survives without the entries before it, and an entry of a cut never comes back behind it.

use crate::error::Error;
use crate::index::Index;
use crate::reader::{Reader, Shared};
use crate::record::{self, Line, Purged, State};
use logforce::{Batch, CommitHandle, Log, Lsn, Policy, RecordRange};

/// Bytes of records that are appended at once. The front of a log moves by whole appends, so larger ones would
/// keep entries that were purged.
const CHUNK_BYTES: usize = 64 << 10;

/// Writer of a store. There is only one, so its calls are in order.
#[derive(Debug)]
pub struct Store {
    reader: Reader,
}

/// Record of an entry, as [`record::entry`] makes it.
pub struct NewEntry {
    /// Its index.
    pub index: u64,
    /// Its record.
    pub record: Vec<u8>,
}

impl Store {
    /// Reads the whole log in order, and returns its store.
    pub async fn open(line: Line, log: Log) -> Result<Store, Error> {
        let replayed = log.blocking(move |log| Ok(replay(line, &log))).await?;
        Ok(Store {
            reader: Reader::new(line, log, replayed?),
        })
    }

    /// Returns a reader, to use or to clone.
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    fn shared(&self) -> &Shared {
        self.reader.shared()
    }

    /// Appends entries behind the last one, after the committed log id if that has changed. They can be read
    /// when this returns, and are durable when the handle completes. Returns no handle if there are none.
    pub async fn append(
        &mut self,
        mut entries: Vec<NewEntry>,
    ) -> Result<Option<CommitHandle>, Error> {
        // A purge, as after a snapshot from the leader, covers later entries than the log has.
        let purged = self.shared().index().purged();
        entries.retain(|e| purged.is_none_or(|purged| e.index > purged));
        self.check(&entries)?;
        let mut last = None;
        let mut rest = &entries[..];
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = |e: &&NewEntry| {
                bytes += e.record.len();
                bytes <= CHUNK_BYTES
            };
            let count = rest.iter().take_while(fits).count().max(1);
            let (chunk, later) = rest.split_at(count);
            last = Some(self.append_chunk(chunk).await?);
            rest = later;
        }
        Ok(last)
    }

    fn check(&self, entries: &[NewEntry]) -> Result<(), Error> {
        let mut next = self.shared().index().next();
        for index in entries.iter().map(|e| e.index) {
            match next {
                Some(next) if index != next => return Err(Error::Gap { index, next }),
                _ => next = Some(index.saturating_add(1)),
            }
        }
        Ok(())
    }

    async fn append_chunk(&mut self, chunk: &[NewEntry]) -> Result<CommitHandle, Error> {
        let shared = self.shared();
        let state = {
            let index = shared.index();
            let unsaved = index.unsaved.then_some(&index.state);
            unsaved.map(|state| record::state(shared.line, state))
        };
        let mut batch = Batch::new();
        if let Some(state) = &state {
            batch.push(state);
        }
        batch.extend(chunk.iter().map(|e| &e.record));
        // Waits for space, not for the device.
        let permit = self.shared().log.reserve(batch.reserved_bytes()).await?;
        let handle = permit.submit(&mut batch, Policy::Force)?;
        let mut ranges = batch.ranges().iter();
        let mut index = self.shared().index();
        if state.is_some()
            && let Some(at) = ranges.next()
        {
            (index.state_lsn, index.unsaved) = (at.start, false);
        }
        for (entry, at) in chunk.iter().zip(ranges) {
            let body = record::body(&entry.record);
            index.push(entry.index, *at, Some(body.into()));
        }
        index.trim(self.shared().log.durable_lsn());
        Ok(handle)
    }

    /// Saves the vote. It is durable when this returns.
    pub async fn save_vote(&mut self, vote: Vec<u8>) -> Result<(), Error> {
        self.save(|state| state.vote = Some(vote)).await?;
        Ok(())
    }

    /// Saves the committed log id with the next record. A force for it would double the cost of a commit, and
    /// Raft needs no more than a log id that was once committed.
    pub fn save_committed(&mut self, committed: Option<Vec<u8>>) {
        let mut index = self.shared().index();
        if index.state.committed != committed {
            index.state.committed = committed;
            index.unsaved = true;
        }
    }

    /// Removes the entries from this index on, durably.
    pub async fn cut(&mut self, from: u64) -> Result<(), Error> {
        if self.shared().index().last().is_none_or(|last| last < from) {
            return Ok(());
        }
        let record = record::cut(self.shared().line, from);
        let permit = self.shared().log.reserve(record.len()).await?;
        let handle = permit.submit(&record, Policy::Force)?;
        self.shared().index().cut(from);
        // Otherwise the entries could be back after a crash, although the leader has read the answer.
        handle.await?;
        Ok(())
    }

    /// Removes the entries up to this one, durably, and frees their segments.
    pub async fn purge(&mut self, upto: Purged) -> Result<(), Error> {
        let last = upto.index;
        if self.reader.state().purged.is_some_and(|p| p.index >= last) {
            return Ok(());
        }
        // First, and with vote and committed log id: the records that have them now may lie below the front.
        // A crash in between leaves entries that the record removes.
        let state = self.save(|state| state.purged = Some(upto)).await?;
        let front = {
            let mut index = self.shared().index();
            index.purge(last);
            index.front().map_or(state, |front| front.min(state))
        };
        let log = &self.shared().log;
        log.blocking(move |log| log.truncate_front(front)).await?;
        Ok(())
    }

    /// Changes the state by a durable record, and returns its position.
    async fn save(&mut self, change: impl FnOnce(&mut State)) -> Result<Lsn, Error> {
        let mut state = self.shared().index().state.clone();
        change(&mut state);
        let record = record::state(self.shared().line, &state);
        let permit = self.shared().log.reserve(record.len()).await?;
        let handle = permit.submit(&record, Policy::Force)?;
        let start = handle.start();
        handle.await?;
        let mut index = self.shared().index();
        index.state = state;
        index.state_lsn = start;
        index.unsaved = false;
        Ok(start)
    }
}

/// Reads the log from its front to its end.
fn replay(line: Line, log: &Log) -> Result<Index, Error> {
    let mut index = Index::default();
    let mut reader = log.read_from(log.front_lsn())?;
    while let Some(record) = reader.next_ref() {
        let record = record?;
        let decoded = record::decode(line, log.path(), &record)?;
        let at = RecordRange {
            start: record.start,
            end: record.end,
        };
        index
            .replay(decoded, at)
            .map_err(|why| Error::record(log.path(), at.start, why))?;
    }
    Ok(index)
}
