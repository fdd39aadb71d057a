//! okaywal: a write-ahead log whose entries a checkpoint hands to a store.

use crate::rivals::records::FoundRecords;
use crate::rivals::rival::{InProcess, Opened, Rival, Shape, Way, Writers};
use crate::rivals::versions::locked;
use anyhow::{Result, anyhow};
use okaywal::{Configuration, Entry, EntryId, LogManager, LogVoid, SegmentReader, WriteAheadLog};
use std::io;
use std::mem;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// okaywal with one prepared segment and without checkpoints.
pub struct Okaywal;

/// Bytes filled with zeroes before the first commit. More than a slice needs: a checkpoint would drop
/// the records that are to be read back.
const SEGMENT: u32 = 512 << 20;

fn configuration(dir: &Path) -> Configuration {
    one_segment(dir, SEGMENT)
}

/// Returns a configuration with one segment of `bytes` bytes and no checkpoint, which would drop the
/// records that are to be read back.
pub(in crate::rivals) fn one_segment(dir: &Path, bytes: u32) -> Configuration {
    Configuration::default_for(dir)
        .preallocate_bytes(bytes)
        .checkpoint_after_bytes(u64::MAX)
        .buffer_bytes(64 << 10)
}

impl Rival for Okaywal {
    fn name(&self) -> &'static str {
        "okaywal"
    }

    fn version(&self) -> String {
        locked("okaywal").to_owned()
    }

    fn settings(&self) -> String {
        "one segment of 512 MiB, filled with zeroes before the first commit (its default is 1 \
         MiB); no checkpoint, so that all records can be read back; buffer of 64 KiB; commit() \
         is fdatasync"
            .to_owned()
    }

    fn writers(&self) -> Writers {
        Writers::Group
    }

    fn way(&self) -> Way<'_> {
        Way::Here(self)
    }
}

impl InProcess for Okaywal {
    fn open(&self, dir: &Path, _: Shape) -> Result<Box<dyn Opened>> {
        Ok(Box::new(Open(configuration(dir).open(LogVoid)?)))
    }

    fn read_back(&self, dir: &Path, shape: Shape, found: &mut FoundRecords) -> Result<bool> {
        // The manager must own the target of the records.
        let lent = mem::replace(found, FoundRecords::new(shape.threads, shape.record)?);
        let seen = Arc::new(Mutex::new(lent));
        let log = configuration(dir).open(Reader(Arc::clone(&seen)))?;
        log.shutdown()?;
        let mut seen = seen
            .lock()
            .map_err(|_| anyhow!("failed while reading back"))?;
        mem::swap(found, &mut seen);
        Ok(true)
    }
}

/// Collects the recovered records.
#[derive(Debug)]
struct Reader(Arc<Mutex<FoundRecords>>);

impl LogManager for Reader {
    fn recover(&mut self, entry: &mut Entry<'_>) -> io::Result<()> {
        // `None` means: written in part and never acknowledged.
        let chunks = entry.read_all_chunks()?.unwrap_or_default();
        if let Ok(mut found) = self.0.lock() {
            for chunk in chunks {
                found.see(&chunk);
            }
        }
        Ok(())
    }

    fn checkpoint_to(
        &mut self,
        _: EntryId,
        _: &mut SegmentReader,
        _: &WriteAheadLog,
    ) -> io::Result<()> {
        Ok(())
    }
}

struct Open(WriteAheadLog);

impl Opened for Open {
    fn commit(&self, _: usize, _: u64, record: &[u8]) -> Result<()> {
        let mut entry = self.0.begin_entry()?;
        entry.write_chunk(record)?;
        entry.commit()?;
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.0.shutdown()?)
    }
}
