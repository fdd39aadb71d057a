//! raft-engine, the log of TiKV.

use crate::rivals::records::{FoundRecords, Records, stamp};
use crate::rivals::rival::{InProcess, Opened, Rival, Shape, Way, Writers};
use crate::rivals::versions::locked;
use anyhow::Result;
use protobuf::well_known_types::BytesValue;
use raft_engine::{Config, Engine, LogBatch, MessageExt, ReadableSize};
use std::path::Path;

/// raft-engine with log files prepared ahead.
pub struct RaftEngine;

/// Size of a log file, MiB.
const FILE_MIB: u64 = 64;
/// Size of the values that only fill up a log file, bytes.
const FILLER: usize = 1 << 20;
/// Region of the fillers; no thread uses it.
const FILLER_REGION: u64 = 1 << 32;

pub fn config(dir: &Path) -> Config {
    Config {
        dir: dir.display().to_string(),
        // Off, so that all rivals write the same bytes; the records cannot be compressed anyway.
        batch_compression_threshold: ReadableSize(0),
        target_file_size: ReadableSize::mb(FILE_MIB),
        // raft-engine prepares 1.5 times this size: 384 MiB.
        purge_threshold: ReadableSize::mb(256),
        enable_log_recycle: true,
        prefill_for_recycle: true,
        ..Config::default()
    }
}

impl Rival for RaftEngine {
    fn name(&self) -> &'static str {
        "raft-engine"
    }

    fn version(&self) -> String {
        locked("raft-engine").to_owned()
    }

    fn settings(&self) -> String {
        "write(batch, sync = true); log files of 64 MiB, recycled, 384 MiB of them filled with \
         zeroes before the first commit (off by default), which begins in one of them; no \
         compression; a region per thread"
            .to_owned()
    }

    fn writers(&self) -> Writers {
        Writers::Group
    }

    fn way(&self) -> Way<'_> {
        Way::Here(self)
    }
}

impl InProcess for RaftEngine {
    fn open(&self, dir: &Path, _: Shape) -> Result<Box<dyn Opened>> {
        let engine = Engine::open(config(dir))?;
        leave_first_file(&engine)?;
        Ok(Box::new(Open(engine)))
    }

    fn read_back(&self, dir: &Path, _: Shape, found: &mut FoundRecords) -> Result<bool> {
        show(&Engine::open(config(dir))?, &mut |record| found.see(record))?;
        Ok(true)
    }
}

/// Passes every record of every region to `see`.
pub fn show(engine: &Engine, see: &mut dyn FnMut(&[u8])) -> Result<()> {
    for region in engine.raft_groups() {
        let (Some(first), Some(last)) = (engine.first_index(region), engine.last_index(region))
        else {
            continue;
        };
        for index in first..=last {
            if let Some(entry) = engine.get_entry::<Record>(region, index)? {
                see(&entry.value);
            }
        }
    }
    Ok(())
}

/// A record as an entry of a region; the index is its number plus 1.
#[derive(Clone)]
pub struct Record;

impl MessageExt for Record {
    type Entry = BytesValue;

    fn index(entry: &BytesValue) -> u64 {
        // Indexes start at 1.
        stamp(&entry.value).map_or(0, |(_, number)| number + 1)
    }
}

/// Fills the first log file, which is never a prepared one. All later ones are.
pub fn leave_first_file(engine: &Engine) -> Result<()> {
    let mut filler = Records::new(0, FILLER)?;
    for _ in 0..=FILE_MIB {
        let mut batch = LogBatch::with_capacity(1);
        let value = filler.following().1.to_vec();
        batch.put(FILLER_REGION, b"filler".to_vec(), value)?;
        engine.write(&mut batch, false)?;
    }
    Ok(engine.sync()?)
}

struct Open(Engine);

impl Opened for Open {
    fn commit(&self, writer: usize, _: u64, record: &[u8]) -> Result<()> {
        let mut entry = BytesValue::new();
        entry.set_value(record.to_vec());
        let mut batch = LogBatch::with_capacity(1);
        batch.add_entries::<Record>(writer as u64 + 1, &[entry])?;
        self.0.write(&mut batch, true)?;
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
