//! Reading entries: from memory if they are recent, else from the log.

use crate::error::Error;
use crate::index::Index;
use crate::record::{self, Line, State};
use logforce::{Log, Lsn};
use std::ops::RangeBounds;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Log and index, shared by a store and its readers.
#[derive(Debug)]
pub struct Shared {
    /// Line of openraft whose types the records hold.
    pub line: Line,
    /// The log.
    pub log: Log,
    index: Mutex<Index>,
}

impl Shared {
    /// Locks the index. No caller waits while it holds the lock, for the log neither.
    pub fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reader of a store. Clones read the same store.
#[derive(Debug, Clone)]
pub struct Reader {
    shared: Arc<Shared>,
}

/// Bytes of an entry, and its position for messages.
pub struct Found {
    /// Its body.
    pub body: Arc<[u8]>,
    /// Position of its record.
    pub lsn: Lsn,
}

impl Reader {
    /// Returns the reader of an index, which has been replayed from the log.
    pub fn new(line: Line, log: Log, index: Index) -> Self {
        let index = Mutex::new(index);
        Reader {
            shared: Arc::new(Shared { line, log, index }),
        }
    }

    /// Returns the log and the index.
    pub fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Returns the state.
    pub fn state(&self) -> State {
        self.shared.index().state.clone()
    }

    /// Returns the position of the record that last had the state.
    pub fn state_lsn(&self) -> Lsn {
        self.shared.index().state_lsn
    }

    /// Returns the log.
    pub fn log(&self) -> &Log {
        &self.shared.log
    }

    /// Returns the last entry.
    pub async fn last(&self) -> Result<Option<Found>, Error> {
        let last = self.shared.index().last();
        match last {
            Some(last) => Ok(self.entries(last..=last).await?.pop()),
            None => Ok(None),
        }
    }

    /// Returns the existing entries of a range, in order. Reads those that are not in memory in another
    /// thread, so that no task waits for the device.
    pub async fn entries(&self, range: impl RangeBounds<u64> + Clone) -> Result<Vec<Found>, Error> {
        loop {
            let (first, mut places) = self.shared.index().range(range.clone());
            let old = places.iter().take_while(|p| p.body.is_none()).count();
            let mut found = Vec::with_capacity(places.len());
            let recent = places.split_off(old);
            if let Some(start) = places.first().map(|p| p.at.start) {
                let line = self.shared.line;
                let starts: Vec<Lsn> = places.iter().map(|p| p.at.start).collect();
                let read = move |log: Log| Ok(read(line, &log, first, &starts));
                match self.shared.log.blocking(read).await? {
                    Ok(read) => found = read,
                    // A purge went on in the meantime: its index has fewer entries.
                    Err(Error::Log(logforce::Error::Truncated { .. })) if self.is_gone(start) => {
                        continue;
                    }
                    Err(e) => return Err(e),
                }
            }
            found.extend(recent.into_iter().filter_map(|p| {
                let lsn = p.at.start;
                p.body.map(|body| Found { body, lsn })
            }));
            return Ok(found);
        }
    }

    fn is_gone(&self, start: Lsn) -> bool {
        self.shared
            .index()
            .front()
            .is_none_or(|front| front > start)
    }
}

/// Reads the entries at these positions, which ascend, from the log.
fn read(line: Line, log: &Log, first: u64, starts: &[Lsn]) -> Result<Vec<Found>, Error> {
    let mut found: Vec<Found> = Vec::with_capacity(starts.len());
    let Some(&start) = starts.first() else {
        return Ok(found);
    };
    let mut reader = log.read_from(start)?;
    while let Some(&lsn) = starts.get(found.len()) {
        let Some(record) = reader.next_ref() else {
            return Err(Error::record(log.path(), lsn, "is missing in the log"));
        };
        let record = record?;
        // Between them lie states, cuts, and entries that were cut.
        if record.start == lsn {
            let index = first + found.len() as u64;
            let body = record::decode_entry(line, log.path(), lsn, index, record.data)?;
            found.push(Found {
                body: body.into(),
                lsn,
            });
        }
    }
    Ok(found)
}
