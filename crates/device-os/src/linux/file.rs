//! The trait `File` on Linux.

pub use super::descriptors::OsFile;

use super::error::{at, uninterrupted};
use super::extents;
use super::transfer::read_all;
use super::uring::Queue;
use super::write_back;
use crate::checks;
use logforce_device::{
    Barrier, Blocks, Completion, DirectAlignment, File, ReadSource, Ticket, Write, WriteQueue,
};
use rustix::fs::{Advice, FallocateFlags, SeekFrom};
use rustix::io::Errno;
use std::io;
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::Arc;

/// `FALLOC_FL_WRITE_ZEROES` of Linux 6.17 (`linux/falloc.h`). An older kernel does not support the flag, and no
/// kernel supports it together with `FALLOC_FL_KEEP_SIZE`.
const WRITE_ZEROES: FallocateFlags = FallocateFlags::from_bits_retain(0x80);

impl File for OsFile {
    fn len(&self) -> io::Result<u64> {
        let stat = uninterrupted(|| rustix::fs::fstat(&self.cached));
        let stat = stat.map_err(|e| at(e, "look at", &self.path))?;
        Ok(stat.st_size as u64)
    }

    fn direct_alignment(&self) -> Option<DirectAlignment> {
        self.alignment
    }

    fn read_at(&self, offset: u64, buf: &mut [u8], source: ReadSource) -> io::Result<usize> {
        checks::end(offset, buf.len())?;
        let (fd, unit) = match source {
            ReadSource::Cache => (self.cached.as_fd(), 1),
            ReadSource::Medium => {
                let (fd, needed) = self.medium()?;
                checks::alignment("direct", needed, offset, buf)?;
                (fd, needed.offset as usize)
            }
        };
        read_all(buf.len(), unit, |done| {
            rustix::io::pread(fd, &mut buf[done..], offset + done as u64)
        })
        .map_err(|e| at(e, &format!("read at {offset} from"), &self.path))
    }

    fn submit(&self, write: Write) -> Ticket {
        let result = self.write(&write);
        Ticket::ready(write.buf, result)
    }

    fn complete(&self, ticket: Ticket) -> Completion {
        ticket.done.unwrap_or_else(|| checks::foreign(&self.path))
    }

    fn write_queue(self: Arc<Self>, depth: usize) -> Option<Box<dyn WriteQueue>> {
        // A write into the cache does not wait for the device.
        self.direct.as_ref()?;
        Some(Box::new(Queue::new(self, depth)?))
    }

    fn barrier(&self, barrier: Barrier) -> io::Result<()> {
        // The barrier uses the cached descriptor, which is as old as the file's handle. The kernel reports a
        // failed write-back to each descriptor once, and a younger descriptor would miss it. An interrupted
        // call has promised nothing and lost no error.
        match barrier {
            Barrier::Data => uninterrupted(|| rustix::fs::fdatasync(&self.cached)),
            Barrier::Full => {
                self.touch();
                uninterrupted(|| rustix::fs::fsync(&self.cached))
            }
            // `fsync` covers both, and there is no call that only orders.
            Barrier::Fsync | Barrier::Order => uninterrupted(|| rustix::fs::fsync(&self.cached)),
        }
        .map_err(|e| at(e, "sync", &self.path))
    }

    fn reserve(&self, len: u64) -> io::Result<bool> {
        checks::end(len, 0)?;
        let fail = |e: Errno| at(e, &format!("reserve {len} bytes for"), &self.path);
        if len == 0 {
            return Ok(true);
        }
        let all = FallocateFlags::empty();
        match uninterrupted(|| rustix::fs::fallocate(&self.cached, all, 0, len)) {
            Ok(()) => Ok(true),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                // Not by `ftruncate`, which would cut off what another thread writes behind `len` meanwhile.
                if self.len()? < len {
                    let last = || rustix::io::pwrite(&self.cached, &[0], len - 1);
                    uninterrupted(last).map_err(fail)?;
                }
                Ok(false)
            }
            Err(e) => Err(fail(e)),
        }
    }

    fn write_zeroes(&self, range: Range<u64>) -> io::Result<bool> {
        let len = range.end.saturating_sub(range.start);
        if len == 0 {
            return Ok(true);
        }
        match uninterrupted(|| rustix::fs::fallocate(&self.cached, WRITE_ZEROES, range.start, len))
        {
            Ok(()) => Ok(true),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(false),
            Err(e) => Err(at(e, "have the device zero a part of", &self.path)),
        }
    }

    fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        // No other call uses the descriptor's own position.
        match uninterrupted(|| rustix::fs::seek(&self.cached, SeekFrom::Data(offset))) {
            Ok(at) => Ok(Some(at)),
            Err(Errno::NXIO) => Ok(None),
            // A filesystem that does not know its holes.
            Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(Some(offset)),
            Err(e) => Err(at(e, "look for data in", &self.path)),
        }
    }

    fn blocks(&self, range: Range<u64>) -> Blocks {
        extents::blocks(self.cached.as_fd(), range)
    }

    fn punch(&self, range: Range<u64>) -> io::Result<bool> {
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let len = range.end.saturating_sub(range.start);
        match uninterrupted(|| rustix::fs::fallocate(&self.cached, hole, range.start, len)) {
            Ok(()) => Ok(true),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(false),
            Err(e) => Err(at(e, "give back space of", &self.path)),
        }
    }

    fn begin_write_back(&self, range: Range<u64>) {
        write_back::begin(self.cached.as_fd(), range);
    }

    fn drop_cache(&self, range: Range<u64>) {
        // A length of zero would mean "to the end of the file".
        let len = range.end.checked_sub(range.start).and_then(NonZeroU64::new);
        if let Some(len) = len {
            let _ = rustix::fs::fadvise(&self.cached, range.start, Some(len), Advice::DontNeed);
        }
    }
}
