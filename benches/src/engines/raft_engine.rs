//! raft-engine: a value is a log entry, its key the index.

use super::Engine as Store;
use anyhow::{Context, Result};
use protobuf::well_known_types::BytesValue;
use raft_engine::{Config, Engine, LogBatch, MessageExt, ReadableSize};
use std::path::Path;

/// Region of all entries.
const REGION: u64 = 1;

#[derive(Clone)]
struct Entry;

impl MessageExt for Entry {
    type Entry = BytesValue;

    fn index(entry: &BytesValue) -> u64 {
        let key = entry.value.first_chunk();
        key.map_or(0, |key| u64::from_be_bytes(*key))
    }
}

struct Open {
    engine: Engine,
    sync: bool,
}

/// Opens the log. Its files are small, so that new ones begin during a test.
pub fn open(dir: &Path, sync: bool) -> Result<Box<dyn Store>> {
    let config = Config {
        dir: dir.join("log").display().to_string(),
        target_file_size: ReadableSize::mb(1),
        ..Config::default()
    };
    let engine = Engine::open(config)?;
    Ok(Box::new(Open { engine, sync }))
}

impl Store for Open {
    fn put(&mut self, _: u64, value: &[u8]) -> Result<()> {
        let mut entry = BytesValue::new();
        entry.set_value(value.to_vec());
        let mut batch = LogBatch::with_capacity(1);
        batch.add_entries::<Entry>(REGION, &[entry])?;
        self.engine.write(&mut batch, self.sync)?;
        Ok(())
    }

    fn scan(&self, see: &mut dyn FnMut(u64, &[u8])) -> Result<()> {
        let Some(first) = self.engine.first_index(REGION) else {
            return Ok(());
        };
        let last = self.engine.last_index(REGION).context("no last index")?;
        for index in first..=last {
            let entry = self.engine.get_entry::<Entry>(REGION, index)?;
            let entry = entry.with_context(|| format!("no entry {index} below {last}"))?;
            see(index, &entry.value);
        }
        Ok(())
    }
}
