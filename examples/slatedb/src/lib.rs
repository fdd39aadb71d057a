//! SlateDB with its write-ahead log in a Logforce log on the local disk.
//!
//! SlateDB keeps everything in object storage, so `await_durable` waits for a put to the bucket: 20 to 100 ms.
//! With a [`LocalWal`] it waits for a force of the local disk. What that costs: the newest writes, which are not
//! in the bucket yet, are lost with this machine's disk.
//!
//! **What fencing does not do here.** SlateDB demands that a new writer shuts out older ones everywhere. The lock
//! of a local log shuts out writers on this machine only. A writer on another machine is stopped by the manifest
//! when it next changes it; until then it acknowledges writes that the database will never have. So let nothing
//! start a second machine unless this one, and its disk, are given up.

mod record;

use async_trait::async_trait;
use logforce::{Acknowledged, ErrorKind, Log, Lsn, Options, Policy};
use slatedb::RowEntry;
use slatedb::wal::{
    FlushResultFuture, WalError, WalEvent, WalFileRange, WalFlushResult, WalGc, WalIterator,
    WalObserver, WalRows, WalStatus, WalStatusListener, WalWriter, WriterInit, WriterInitResult,
    WriterManifest,
};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// Log that SlateDB would have to read again after a crash, bytes, at which it is asked to flush its memtable.
const MAX_REPLAY: u64 = 64 << 20;

/// Write-ahead log in a directory of this machine. A write batch is one record, and one "WAL file" of SlateDB.
#[derive(Clone)]
pub struct LocalWal {
    dir: PathBuf,
    options: Options,
    open: Arc<OnceLock<Arc<Open>>>,
}

impl LocalWal {
    /// Returns the log in `dir`, which is opened or created together with the database.
    pub fn new(dir: impl Into<PathBuf>, options: Options) -> LocalWal {
        LocalWal {
            dir: dir.into(),
            options,
            open: Arc::default(),
        }
    }
}

struct Open {
    log: Log,
    state: Mutex<State>,
}

struct State {
    status: WalStatus,
    listeners: Vec<WalStatusListener>,
    /// Start of each batch in the log.
    starts: BTreeMap<u64, Lsn>,
    /// Number of the newest batch, and its end.
    newest: (u64, Lsn),
}

impl Open {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn status(&self) -> Result<WalStatus, WalStatus> {
        let status = self.state().status.clone();
        match status.closed_reason {
            None => Ok(status),
            Some(_) => Err(status),
        }
    }

    /// Changes the status, and reports it.
    fn publish(
        &self,
        change: impl FnOnce(&mut WalStatus) -> bool,
        event: fn(WalStatus) -> WalEvent,
    ) {
        let (status, listeners) = {
            let mut state = self.state();
            if !change(&mut state.status) {
                return;
            }
            (state.status.clone(), state.listeners.clone())
        };
        for listener in listeners {
            listener(event(status.clone()));
        }
    }

    fn flushed(&self, id: u64, seq: Option<u64>) {
        let change = |status: &mut WalStatus| {
            let is_new = status.closed_reason.is_none() && id > status.last_flushed_wal_id;
            if is_new {
                status.last_flushed_wal_id = id;
                status.last_flushed_seq = status.last_flushed_seq.max(seq);
            }
            is_new
        };
        self.publish(change, WalEvent::WalFlushed);
    }

    fn closed(&self, reason: WalError) {
        let change = |status: &mut WalStatus| {
            let is_first = status.closed_reason.is_none();
            status.closed_reason.get_or_insert(reason);
            is_first
        };
        self.publish(change, WalEvent::WalClosed);
    }
}

fn failed(error: logforce::Error) -> WalError {
    match error.kind() {
        ErrorKind::Damaged => WalError::DataError(Arc::new(error)),
        _ => WalError::Unavailable(Arc::new(error)),
    }
}

/// Opens the log, which shuts out other writers on this machine, and reads the batches above `after`.
fn open(wal: &LocalWal, after: u64) -> Result<(Open, VecDeque<WalRows>), WalError> {
    let log = logforce::open_or_create(&wal.dir, wal.options.clone()).map_err(failed)?;
    let (mut starts, mut replay) = (BTreeMap::new(), VecDeque::new());
    let mut newest = (after, log.tail_lsn());
    let mut last_flushed_seq = None;
    for record in log.read_from(log.front_lsn()).map_err(failed)? {
        let record = record.map_err(failed)?;
        let Some((id, rows)) = record::decode(record.data) else {
            let text = format!(
                "{}: no write batch at LSN {}",
                wal.dir.display(),
                record.start
            );
            return Err(WalError::DataError(Arc::new(std::io::Error::other(text))));
        };
        starts.insert(id, record.start);
        newest = (newest.0.max(id), record.end);
        last_flushed_seq = rows.iter().map(|row| row.seq).max().max(last_flushed_seq);
        if id > after {
            replay.push_back(WalRows {
                rows,
                last_consumed_wal_file_id: id,
            });
        }
    }
    let status = WalStatus {
        closed_reason: None,
        estimated_bytes: 0,
        last_flushed_wal_id: newest.0,
        last_flushed_seq,
        buffered_wal_entries_count: 0,
    };
    let state = Mutex::new(State {
        status,
        listeners: Vec::new(),
        starts,
        newest,
    });
    Ok((Open { log, state }, replay))
}

#[async_trait]
impl WriterInit for LocalWal {
    async fn fence_and_init(
        &self,
        manifest: &mut WriterManifest,
    ) -> Result<WriterInitResult, WalError> {
        let (wal, after) = (self.clone(), manifest.replay_after_wal_id());
        let opened = tokio::task::spawn_blocking(move || open(&wal, after)).await;
        let (open, replay) = opened.map_err(|e| WalError::InternalError(Arc::new(e)))??;
        let open = Arc::new(open);
        if self.open.set(open.clone()).is_err() {
            return Err(WalError::Fenced);
        }
        Ok(WriterInitResult {
            replay_iterator: Box::new(Replay(replay)),
            wal_writer: Box::new(Writer(open)),
        })
    }
}

struct Replay(VecDeque<WalRows>);

#[async_trait]
impl WalIterator for Replay {
    async fn next(&mut self) -> Result<Option<WalRows>, WalError> {
        Ok(self.0.pop_front())
    }
}

struct Writer(Arc<Open>);

#[async_trait]
impl WalWriter for Writer {
    /// Submits the batch: batches that are submitted meanwhile share its force.
    async fn append(&mut self, rows: &[RowEntry]) -> Result<(), WalError> {
        self.0.status()?;
        let id = self.0.state().newest.0 + 1;
        let seq = rows.iter().map(|row| row.seq).max();
        let open = self.0.clone();
        let done = move |forced: logforce::Result<Acknowledged>| match forced {
            Ok(_) => open.flushed(id, seq),
            Err(error) => open.closed(failed(error)),
        };
        let record = record::encode(id, rows);
        let at = self.0.log.submit_then(record, Policy::Force, done);
        let at = at.map_err(failed)?;
        let mut state = self.0.state();
        state.starts.insert(id, at.start);
        state.newest = (id, at.end);
        Ok(())
    }

    async fn flush(&mut self) -> Result<WalFlushResult, WalError> {
        self.0.status()?;
        let open = self.0.clone();
        let (wal_id, end) = open.state().newest;
        let force = move || match open.log.force(end) {
            Ok(_) => {
                open.flushed(wal_id, None);
                Ok(())
            }
            Err(error) => Err(failed(error)),
        };
        let completion: FlushResultFuture = Box::pin(async move {
            let forced = tokio::task::spawn_blocking(force).await;
            forced.map_err(|e| WalError::InternalError(Arc::new(e)))?
        });
        Ok(WalFlushResult { wal_id, completion })
    }

    fn should_flush_memtable(&self, replay_after_wal_id: u64) -> bool {
        let state = self.0.state();
        let oldest = state.starts.range(replay_after_wal_id + 1..).next();
        oldest.is_some_and(|(_, start)| state.newest.1.0.saturating_sub(start.0) > MAX_REPLAY)
    }

    fn observer(&self) -> Box<dyn WalObserver> {
        Box::new(Observer(self.0.clone()))
    }

    fn status(&self) -> Result<WalStatus, WalStatus> {
        self.0.status()
    }

    async fn close(&mut self) -> Result<(), WalError> {
        let open = self.0.clone();
        let close = move || {
            let closed = open.log.clone().close();
            open.closed(WalError::Closed);
            closed.map(drop).map_err(failed)
        };
        let closed = tokio::task::spawn_blocking(close).await;
        closed.map_err(|e| WalError::InternalError(Arc::new(e)))?
    }
}

struct Observer(Arc<Open>);

impl WalObserver for Observer {
    fn status(&self) -> Result<WalStatus, WalStatus> {
        self.0.status()
    }

    fn subscribe(&self, listener: WalStatusListener) -> Result<(), WalError> {
        self.0.state().listeners.push(listener);
        Ok(())
    }
}

#[async_trait]
impl WalGc for LocalWal {
    /// Truncates the log below the first batch that is still referenced.
    async fn collect(
        &self,
        referenced: Vec<WalFileRange>,
        _min_age: Duration,
        dry_run: bool,
    ) -> Result<(), WalError> {
        let Some(open) = self.open.get().filter(|_| !dry_run).cloned() else {
            return Ok(());
        };
        let lowest = referenced.iter().map(|range| match range.0 {
            Bound::Included(id) => id,
            Bound::Excluded(id) => id + 1,
            Bound::Unbounded => 0,
        });
        let Some(lowest) = lowest.min() else {
            return Ok(());
        };
        let to = {
            let mut state = open.state();
            let kept = state.starts.split_off(&lowest);
            state.starts = kept;
            let first = state.starts.first_key_value();
            first.map_or(state.newest.1, |(_, start)| *start)
        };
        let truncate = move || open.log.truncate_front(to).map(drop).map_err(failed);
        let truncated = tokio::task::spawn_blocking(truncate).await;
        truncated.map_err(|e| WalError::InternalError(Arc::new(e)))?
    }
}
