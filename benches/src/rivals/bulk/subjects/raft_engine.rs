//! raft-engine: batches of 1 MiB, one sync at the end.

use super::Bulk;
use crate::rivals::records::Records;
use crate::rivals::subjects::raft_engine::{Record, config, leave_first_file, show};
use anyhow::Result;
use protobuf::well_known_types::BytesValue;
use raft_engine::{Engine, LogBatch};
use std::path::Path;
use std::time::{Duration, Instant};

/// Subject: writes without a sync, and one sync at the end.
pub struct RaftEngine;

/// Records per batch.
const BATCH: u64 = 1024;
/// Region of the records.
const REGION: u64 = 1;

impl Bulk for RaftEngine {
    fn rival(&self) -> &'static str {
        "raft-engine"
    }

    fn settings(&self) -> String {
        "write(batch of 1024 records, sync = false), one sync() at the end; the log files of the \
         commits, 384 MiB of them filled with zeroes beforehand"
            .to_owned()
    }

    fn append(&self, dir: &Path, records: &mut Records, count: u64) -> Result<Duration> {
        let engine = Engine::open(config(dir))?;
        leave_first_file(&engine)?;
        let began = Instant::now();
        let mut left = count;
        while left > 0 {
            let now = left.min(BATCH);
            let entries: Vec<BytesValue> = (0..now)
                .map(|_| {
                    let mut entry = BytesValue::new();
                    entry.set_value(records.following().1.to_vec());
                    entry
                })
                .collect();
            let mut batch = LogBatch::with_capacity(1);
            batch.add_entries::<Record>(REGION, &entries)?;
            engine.write(&mut batch, false)?;
            left -= now;
        }
        engine.sync()?;
        Ok(began.elapsed())
    }

    fn read(&self, dir: &Path, _: u64, see: &mut dyn FnMut(&[u8])) -> Result<()> {
        show(&Engine::open(config(dir))?, see)
    }
}
