//! okaywal: all records in one entry.

use super::Bulk;
use crate::rivals::records::BULK_RECORD;
use crate::rivals::records::Records;
use crate::rivals::subjects::okaywal::one_segment;
use anyhow::{Result, anyhow};
use okaywal::{
    Configuration, Entry, EntryId, LogManager, LogVoid, ReadChunkResult, SegmentReader,
    WriteAheadLog,
};
use std::io;
use std::path::Path;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// Subject: one chunk per record and one commit.
pub struct Okaywal;

/// Largest number of blocks that wait between reading and checking, and the size of a block in bytes.
const BLOCKS: usize = 4;
const BLOCK: usize = 1 << 20;

/// Returns a configuration with one segment that holds all records.
fn configuration(dir: &Path, count: u64) -> Configuration {
    let bytes = count * BULK_RECORD as u64;
    let segment = (bytes + bytes / 16 + (4 << 20)).next_multiple_of(1 << 20);
    one_segment(dir, u32::try_from(segment).unwrap_or(u32::MAX))
}

impl Bulk for Okaywal {
    fn rival(&self) -> &'static str {
        "okaywal"
    }

    fn settings(&self) -> String {
        "one entry with a chunk for each record, one commit() (fdatasync); one segment for all of \
         it, filled with zeroes beforehand; no checkpoint; buffer of 64 KiB"
            .to_owned()
    }

    fn append(&self, dir: &Path, records: &mut Records, count: u64) -> Result<Duration> {
        let log = configuration(dir, count).open(LogVoid)?;
        let began = Instant::now();
        let mut entry = log.begin_entry()?;
        for _ in 0..count {
            entry.write_chunk(records.following().1)?;
        }
        entry.commit()?;
        let took = began.elapsed();
        log.shutdown()?;
        Ok(took)
    }

    fn read(&self, dir: &Path, count: u64, see: &mut dyn FnMut(&[u8])) -> Result<()> {
        // The manager must own the target of the records, so they are sent through a channel.
        let (sender, blocks) = sync_channel(BLOCKS);
        let configuration = configuration(dir, count);
        let opening = thread::spawn(move || {
            let log = configuration.open(Reader(sender))?;
            log.shutdown()
        });
        for block in blocks {
            block.chunks(BULK_RECORD).for_each(&mut *see);
        }
        opening
            .join()
            .map_err(|_| anyhow!("okaywal panicked while opening"))??;
        Ok(())
    }
}

/// Passes on the recovered records.
#[derive(Debug)]
struct Reader(SyncSender<Vec<u8>>);

impl LogManager for Reader {
    fn recover(&mut self, entry: &mut Entry<'_>) -> io::Result<()> {
        let mut block = Vec::with_capacity(BLOCK);
        loop {
            let mut chunk = match entry.read_chunk()? {
                ReadChunkResult::Chunk(chunk) => chunk,
                // The entry was written in part and never acknowledged; missing records are counted
                // elsewhere.
                ReadChunkResult::EndOfEntry | ReadChunkResult::AbortedEntry => break,
            };
            block.extend(chunk.read_all()?);
            if !chunk.check_crc()? {
                return Err(io::Error::other("a chunk's checksum is wrong"));
            }
            if block.len() >= BLOCK {
                let full = std::mem::replace(&mut block, Vec::with_capacity(BLOCK));
                self.send(full)?;
            }
        }
        self.send(block)
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

impl Reader {
    fn send(&self, block: Vec<u8>) -> io::Result<()> {
        let gone = |_| io::Error::other("the reader of the records is gone");
        self.0.send(block).map_err(gone)
    }
}
