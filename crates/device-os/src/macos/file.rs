use super::calls;
use super::error::{at, uninterrupted};
use super::transfer::{read_all, write_all};
use crate::checks;
use crate::extent::Extent;
use crate::unix::open_directory::OpenDirectory;
use crate::unix::open_directory::{access, open_file};
use crate::unix::path_identity::identity_of;
use logforce_device::{
    Access, Barrier, Blocks, Completion, DirectAlignment, File, OpenFile, ReadSource, Ticket, Write,
};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

/// Alignment at which `F_NOCACHE` bypasses the cache: pages. Smaller transfers silently use the cache, so the
/// alignment is checked here.
pub const NEEDED: DirectAlignment = DirectAlignment {
    memory: 16384,
    offset: 16384,
};

/// Open file. Writes block: `submit` returns when they are done. Several threads may have writes in flight.
pub struct OsFile {
    path: PathBuf,
    writable: bool,
    extent: Arc<Extent>,
    /// Descriptor through the cache, for reads, barriers, and writes if there is no other descriptor.
    cached: OwnedFd,
    /// Descriptor with `F_NOCACHE`, for writes.
    uncached: Option<OwnedFd>,
}

impl OsFile {
    pub fn open(dir: &Arc<OpenDirectory>, name: &str, how: OpenFile) -> io::Result<Self> {
        let path = dir.path_of(name);
        let cached = open_file(dir, name, how)?;
        let ours = rustix::fs::fstat(&cached).map_err(|e| at(e, "look at", &path))?;
        let mut uncached = None;
        if how.direct {
            let fail = |e: Errno| {
                // Otherwise the file could not be created again. A file that another process has put in its
                // place is not removed.
                if how.access == Access::CreateNew && e != Errno::STALE {
                    dir.take_back(name);
                }
                at(e, "open for uncached I/O", &path)
            };
            let flags = access(how) | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            let open = || rustix::fs::openat(&*dir.fd()?, name, flags, Mode::empty());
            let fd = uninterrupted(open).map_err(fail)?;
            let found = rustix::fs::fstat(&fd).map_err(fail)?;
            if (ours.st_dev, ours.st_ino) != (found.st_dev, found.st_ino) {
                return Err(fail(Errno::STALE));
            }
            rustix::fs::fcntl_nocache(&fd, true).map_err(fail)?;
            uncached = Some(fd);
        }
        Ok(OsFile {
            path,
            writable: how.access != Access::Read,
            extent: Extent::of(identity_of(&ours)),
            cached,
            uncached,
        })
    }

    fn write(&self, write: &Write) -> io::Result<()> {
        let bytes = checks::bytes(write, self.writable, &self.path)?;
        let offset = write.offset;
        let (fd, unit) = match &self.uncached {
            Some(fd) => {
                checks::alignment("uncached", NEEDED, offset, bytes)?;
                (fd, NEEDED.offset as usize)
            }
            None => (&self.cached, 1),
        };
        let end = offset + bytes.len() as u64;
        self.extent
            .submitting(end, || {
                write_all(bytes.len(), unit, |done| {
                    rustix::io::pwrite(fd, &bytes[done..], offset + done as u64)
                })
            })
            .map_err(|e| {
                let doing = format!("write {} bytes at {offset} to", bytes.len());
                at(e, &doing, &self.path)
            })?;
        if write.through && !bytes.is_empty() {
            // macOS has no write that is durable by itself: O_DSYNC stops in the device's cache.
            return self.barrier(Barrier::Data);
        }
        Ok(())
    }
}

impl File for OsFile {
    fn len(&self) -> io::Result<u64> {
        let stat = rustix::fs::fstat(&self.cached).map_err(|e| at(e, "look at", &self.path))?;
        Ok(stat.st_size as u64)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8], source: ReadSource) -> io::Result<usize> {
        checks::end(offset, buf.len())?;
        if source == ReadSource::Medium {
            // `F_NOCACHE` is a hint: cached data is served from the cache. Treating that as a read of the
            // medium would accept bytes that the device never received.
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                format!("{}: macOS has no reads past the cache", self.path.display()),
            ));
        }
        read_all(buf.len(), 1, |done| {
            rustix::io::pread(&self.cached, &mut buf[done..], offset + done as u64)
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

    fn barrier(&self, barrier: Barrier) -> io::Result<()> {
        // If `F_FULLFSYNC` is refused (some network and foreign filesystems), that is an error. Falling back
        // to `fsync` would report weaker writes as durable.
        match barrier {
            Barrier::Data | Barrier::Full => {
                uninterrupted(|| rustix::fs::fcntl_fullfsync(&self.cached)).map_err(io::Error::from)
            }
            Barrier::Fsync => {
                uninterrupted(|| rustix::fs::fsync(&self.cached)).map_err(io::Error::from)
            }
            Barrier::Order => calls::barrier(self.cached.as_fd()),
        }
        .map_err(|e| at(e, "sync", &self.path))
    }

    fn reserve(&self, len: u64) -> io::Result<bool> {
        checks::end(len, 0)?;
        let mut reserved = true;
        let set = || {
            let more = len.saturating_sub(self.len()?);
            match calls::preallocate(self.cached.as_fd(), more as i64) {
                Ok(()) => {}
                Err(e) if e.kind() == io::ErrorKind::StorageFull => return Err(e),
                Err(e) if e.kind() == io::ErrorKind::QuotaExceeded => return Err(e),
                Err(_) => reserved = false,
            }
            uninterrupted(|| rustix::fs::ftruncate(&self.cached, len)).map_err(io::Error::from)
        };
        self.extent
            .sizing(len, || self.len(), set)
            .map_err(|e| at(e, &format!("reserve {len} bytes for"), &self.path))?;
        Ok(reserved)
    }

    /// HFS+ has no holes. A file with fewer blocks than bytes is on another filesystem, or compressed.
    fn blocks(&self, range: Range<u64>) -> Blocks {
        match rustix::fs::fstat(&self.cached) {
            Ok(stat) if stat.st_blocks as u64 * 512 >= range.end => Blocks::Written,
            Ok(_) => Blocks::Missing,
            Err(_) => Blocks::Unknown,
        }
    }

    /// Does nothing: macOS has no such call, and reads of the medium are not offered.
    fn drop_cache(&self, _: Range<u64>) {}
}
