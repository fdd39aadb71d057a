//! Preparing a file: blocks that later commits need not allocate.

use crate::file::error::{Error, Result};
use crate::file::shared::{LONGEST_WRITE, Shared};
use logforce_device::failure::is_no_space;
use logforce_device::{AlignedBuf, Blocks, ReadSource, Write, planted};
use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering::SeqCst;

/// Way to prepare a range of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Prepare {
    /// Writes all blocks of the range: with zeroes beyond the end of the file, with their own contents
    /// before it. Costs up to as many bytes of writing as the range has. Only reserves on a filesystem that
    /// does not overwrite in place, where writing would gain nothing.
    Written,
    /// Reserves blocks without writing them. Costs little.
    Reserved,
}

/// State of a range after it was prepared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Prepared {
    /// All blocks were written: a commit into the range overwrites them in place. It changes no metadata and
    /// needs no space.
    Written,
    /// All blocks are reserved. A commit needs no space, but the first one to each block changes metadata,
    /// which the filesystem has to force too.
    Reserved,
    /// The file has the size, and no more is known: the filesystem writes everything to a new place (btrfs,
    /// ZFS), cannot reserve blocks, or does not say. A commit may need space, and may fail without it.
    Sized,
}

impl Shared {
    /// Prepares the range: makes the file at least as long as its end, and keeps all present bytes. The size
    /// and the blocks are durable on return. A lack of space changes nothing that was written before, and
    /// does not poison the file.
    pub(super) fn prepare(&self, range: Range<u64>, how: Prepare) -> Result<Prepared> {
        self.check()?;
        let unit = u64::from(self.forcing.unit.unwrap_or(1));
        let end = range.end.checked_next_multiple_of(unit);
        let Some(end) = end.filter(|e| range.start <= range.end && i64::try_from(*e).is_ok())
        else {
            return Err(self.not_a_range(range.start, range.end));
        };
        let range = range.start / unit * unit..end;
        let len = self.file.len().map_err(Error::io("look at", &self.path))?;
        // Otherwise blocks that are only in the system's cache so far would count as missing.
        self.commit_to(self.target(), true)?;
        // A filesystem that finds out on the way that the space does not suffice has used it up by then.
        let free = self.dir.free_space().unwrap_or(u64::MAX);
        if end.saturating_sub(len) > free {
            let source = io::Error::new(
                io::ErrorKind::StorageFull,
                format!("{} more bytes are needed, {free} are free", end - len),
            );
            return Err(Error::io("reserve space for", &self.path)(source));
        }
        // Reserves first, so that a full disk is noticed before anything is written.
        let reserved = self.file.reserve(end);
        let reserved = reserved.map_err(Error::io("reserve space for", &self.path))?;
        if how == Prepare::Written && self.forcing.in_place && !planted!("file-prepares-nothing") {
            self.write_blocks(range.clone(), len)?;
        }
        // Otherwise a crash takes back the size and the blocks, and commits pay for them again.
        self.needs_full_sync
            .store(self.forcing.needs_written, SeqCst);
        self.written.fetch_add(1, SeqCst);
        if !planted!("file-prepared-unsynced") {
            self.commit_to(self.target(), true)?;
        }
        let filled = how == Prepare::Written && range.start >= len;
        let prepared = match self.file.blocks(range.clone()) {
            _ if !self.forcing.in_place => Prepared::Sized,
            Blocks::Written => Prepared::Written,
            Blocks::Unknown if filled => Prepared::Written,
            Blocks::Reserved | Blocks::Unknown if reserved => Prepared::Reserved,
            _ => Prepared::Sized,
        };
        if prepared == Prepared::Written {
            self.note_written(&range);
        }
        Ok(prepared)
    }

    /// Writes all blocks of the range that were not written before, in a file that was `len` bytes long. What
    /// has blocks already, or shares them with another file, is written with its own contents.
    fn write_blocks(&self, range: Range<u64>, len: u64) -> Result<()> {
        let piece = LONGEST_WRITE as u64;
        let mut buf = self.take_buffer(LONGEST_WRITE);
        let mut offset = range.start;
        while offset < range.end {
            let end = (offset + 1).next_multiple_of(piece).min(range.end);
            let bytes = (end - offset) as usize;
            let is_new = offset >= len;
            // Where the system does not say, the contents are left alone: rewriting a whole file at each
            // start would cost more than it saves.
            let needs_write = is_new
                || matches!(
                    self.file.blocks(offset..end),
                    Blocks::Reserved | Blocks::Missing
                );
            if needs_write {
                match is_new {
                    true => buf[..bytes].fill(0),
                    false => self.read_whole(offset, &mut buf[..bytes])?,
                }
                buf = self.rewrite(buf, offset, bytes, is_new)?;
                self.file.begin_write_back(offset..end);
            }
            offset = end;
        }
        self.keep_buffer(buf);
        Ok(())
    }

    fn read_whole(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let read = self.file.read_at(offset, buf, ReadSource::Cache);
        let read = read.map_err(Error::io("read", &self.path))?;
        buf[read..].fill(0);
        Ok(())
    }

    fn rewrite(
        &self,
        buf: AlignedBuf,
        offset: u64,
        len: usize,
        is_new: bool,
    ) -> Result<AlignedBuf> {
        let ticket = self.file.submit(Write {
            offset,
            buf,
            range: 0..len,
            through: false,
        });
        let done = self.file.complete(ticket);
        self.metrics.counted.prepared_bytes.add(len as u64);
        match done.result {
            Ok(()) => Ok(done.buf),
            // No present byte was touched.
            Err(e) if is_new && is_no_space(&e) => Err(Error::io("fill", &self.path)(e)),
            Err(e) => Err(self.fail(Error::io("fill", &self.path)(e))),
        }
    }
}
