//! raft-log, the Raft log of Databend.

use crate::rivals::records::FoundRecords;
use crate::rivals::rival::{InProcess, Opened, Rival, Shape, Way, Writers};
use crate::rivals::turn::take;
use crate::rivals::versions::locked;
use anyhow::{Context, Result};
use raft_log::api::raft_log_writer::RaftLogWriter;
use raft_log::{Config, chunked_wal};
use std::io;
use std::path::Path;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex};

/// raft-log with a synced flush for every record.
pub struct RaftLog;

/// Term of every entry.
const TERM: u64 = 1;

/// The log's types: an entry is a record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Types;

impl raft_log::Types for Types {
    /// Term and index.
    type LogId = (u64, u64);
    type LogPayload = Vec<u8>;
    type Vote = (u64, u64);
    type Callback = SyncSender<io::Result<()>>;
    type UserData = ();

    fn log_index(id: &(u64, u64)) -> u64 {
        id.1
    }

    fn payload_size(record: &Vec<u8>) -> u64 {
        record.len() as u64
    }
}

/// Opens the log. Its flush worker waits 1 ms for more records, or until it has as many as there are
/// threads. Without a wait it syncs each record alone, even if others are queued.
fn open(dir: &Path, threads: usize) -> Result<raft_log::RaftLog<Types>> {
    let config = Config {
        wal: chunked_wal::Config {
            flush_batch_max_items: Some(threads),
            ..chunked_wal::Config::new(dir.display())
        },
        ..Config::default()
    };
    Ok(raft_log::RaftLog::open(Arc::new(config))?)
}

impl Rival for RaftLog {
    fn name(&self) -> &'static str {
        "raft-log"
    }

    fn version(&self) -> String {
        locked("raft-log").to_owned()
    }

    fn settings(&self) -> String {
        "append() and flush(sync = true) of each record, then its callback (fdatasync); \
         flush_batch_max_items is the number of threads, which ends the default wait of 1 ms early \
         (one thread never waits); chunks of 1 GiB as by default, growing, not prepared; all \
         records of the open chunk stay in memory"
            .to_owned()
    }

    fn writers(&self) -> Writers {
        Writers::Group
    }

    fn way(&self) -> Way<'_> {
        Way::Here(self)
    }
}

impl InProcess for RaftLog {
    fn open(&self, dir: &Path, shape: Shape) -> Result<Box<dyn Opened>> {
        let log = open(dir, shape.threads)?;
        Ok(Box::new(Open(Mutex::new((log, 0)))))
    }

    fn read_back(&self, dir: &Path, shape: Shape, found: &mut FoundRecords) -> Result<bool> {
        let log = open(dir, shape.threads)?;
        for entry in log.read(0, u64::MAX) {
            found.see(&entry?.1);
        }
        Ok(true)
    }
}

/// The log, and the index of the next entry.
struct Open(Mutex<(raft_log::RaftLog<Types>, u64)>);

impl Opened for Open {
    fn commit(&self, _: usize, _: u64, record: &[u8]) -> Result<()> {
        let record = record.to_vec();
        let (done, flushed) = sync_channel(1);
        {
            let mut open = take(&self.0)?;
            let (log, next) = &mut *open;
            log.append([((TERM, *next), record)])?;
            *next += 1;
            log.flush(true, Some(done))?;
        }
        // Without the lock, so that other threads append meanwhile.
        flushed
            .recv()
            .context("the log's flush worker has ended")??;
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        let (log, _) = &*take(&self.0)?;
        Ok(log.wait_worker_idle()?)
    }
}
