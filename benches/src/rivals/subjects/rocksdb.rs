//! RocksDB: the log of its memory table.

use crate::rivals::records::{FoundRecords, Records};
use crate::rivals::rival::{InProcess, Opened, Rival, Shape, Way, Writers};
use crate::rivals::versions::locked;
use anyhow::Result;
use rocksdb::{DB, IteratorMode, Options, WriteOptions};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// RocksDB with synced writes to recycled log files.
pub struct RocksDb;

/// Size of the memory table, and so of a log file, bytes.
const TABLE: usize = 64 << 20;
/// Size of the values that only fill up a log file, bytes.
const FILLER: usize = 1 << 20;

fn options(shape: Shape) -> Options {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_write_buffer_size(TABLE);
    options.set_max_write_buffer_number(4);
    options.set_recycle_log_file_num(4);
    // The keys are never looked up, so compaction would gain nothing.
    options.set_disable_auto_compactions(true);
    options.set_enable_pipelined_write(shape.threads > 1);
    options
}

impl Rival for RocksDb {
    fn name(&self) -> &'static str {
        "rocksdb"
    }

    fn version(&self) -> String {
        let library = locked("librocksdb-sys");
        let library = library.split_once('+').map_or(library, |(_, c)| c);
        format!("{library} (rocksdb {})", locked("rocksdb"))
    }

    fn settings(&self) -> String {
        "WriteOptions::sync (fdatasync), recycle_log_file_num=4 with a log file of 64 MiB already \
         recycled before the first commit, write_buffer_size=64 MiB, no compaction, no \
         compression, pipelined writes for several threads; keys of 8 bytes, ascending"
            .to_owned()
    }

    fn writers(&self) -> Writers {
        Writers::Group
    }

    fn way(&self) -> Way<'_> {
        Way::Here(self)
    }
}

impl InProcess for RocksDb {
    fn open(&self, dir: &Path, shape: Shape) -> Result<Box<dyn Opened>> {
        let database = DB::open(&options(shape), dir)?;
        recycle(&database)?;
        let mut synced = WriteOptions::default();
        synced.set_sync(true);
        Ok(Box::new(Open {
            database,
            synced,
            next: AtomicU64::new(0),
        }))
    }

    fn read_back(&self, dir: &Path, shape: Shape, found: &mut FoundRecords) -> Result<bool> {
        let database = DB::open(&options(shape), dir)?;
        for record in database.iterator(IteratorMode::Start) {
            let (key, value) = record?;
            if key.len() == size_of::<u64>() {
                found.see(&value);
            }
        }
        Ok(true)
    }
}

/// Fills a log file and releases it, so that the next file but one overwrites it. Commits then need not
/// allocate blocks. A database that has run for a while has such files.
fn recycle(database: &DB) -> Result<()> {
    let mut filler = Records::new(0, FILLER)?;
    for round in 0..2 {
        let values = if round == 0 { TABLE / FILLER } else { 1 };
        for _ in 0..values {
            database.put(b"filler", filler.following().1)?;
        }
        database.flush()?;
    }
    database.delete(b"filler")?;
    Ok(())
}

struct Open {
    database: DB,
    synced: WriteOptions,
    next: AtomicU64,
}

impl Opened for Open {
    fn commit(&self, _: usize, _: u64, record: &[u8]) -> Result<()> {
        let key = self.next.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        self.database.put_opt(key, record, &self.synced)?;
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
