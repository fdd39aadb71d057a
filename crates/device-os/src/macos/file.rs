use super::calls;
use super::error::{at, uninterrupted};
use super::transfer::{read_all, write_all};
use crate::extent::Extent;
use crate::unix::directory::{OpenDirectory, identity_of};
use logforce_device::{
    Access, AlignedBuf, Barrier, Completion, File, OpenFile, ReadSource, Ticket, Write,
};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

/// What `F_NOCACHE` needs to go past the cache, in bytes: a page. Less is taken through the cache
/// without a word, so it is asked for here.
pub const UNIT: u32 = 16384;

/// An open file. Writes block: `submit` returns when they are done. Several may be under way from
/// several threads.
pub struct OsFile {
    path: PathBuf,
    writable: bool,
    extent: Arc<Extent>,
    /// Through the cache: reads, barriers, and writes if there is no other.
    cached: OwnedFd,
    /// With `F_NOCACHE`: writes.
    uncached: Option<OwnedFd>,
}

impl OsFile {
    pub fn open(dir: &Arc<OpenDirectory>, name: &str, how: OpenFile) -> io::Result<Self> {
        let path = dir.path_of(name);
        let new = how.access == Access::CreateNew;
        let writable = how.access != Access::Read;
        if !new {
            // Before opening: to open a FIFO of that name would wait for its other end for ever.
            let stat = rustix::fs::statat(dir.fd(), name, AtFlags::SYMLINK_NOFOLLOW)
                .map_err(|e| at(e, "open", &path))?;
            if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    format!("cannot open {}: it is not a regular file", path.display()),
                ));
            }
        }
        let access = if writable {
            OFlags::RDWR
        } else {
            OFlags::RDONLY
        };
        let flags = access | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let making = if new {
            OFlags::CREATE | OFlags::EXCL
        } else {
            OFlags::empty()
        };
        let mode = Mode::RUSR | Mode::WUSR;
        let cached = uninterrupted(|| rustix::fs::openat(dir.fd(), name, flags | making, mode))
            .map_err(|e| at(e, if new { "make" } else { "open" }, &path))?;
        let ours = rustix::fs::fstat(&cached).map_err(|e| at(e, "look at", &path))?;
        let mut uncached = None;
        if how.direct {
            let fail = |e| at(e, "open for uncached I/O", &path);
            let fd = uninterrupted(|| rustix::fs::openat(dir.fd(), name, flags, Mode::empty()))
                .map_err(fail)?;
            let found = rustix::fs::fstat(&fd).map_err(fail)?;
            if (ours.st_dev, ours.st_ino) != (found.st_dev, found.st_ino) {
                return Err(fail(Errno::STALE));
            }
            rustix::fs::fcntl_nocache(&fd, true).map_err(fail)?;
            uncached = Some(fd);
        }
        Ok(OsFile {
            path,
            writable,
            extent: Extent::of(identity_of(&ours)),
            cached,
            uncached,
        })
    }

    fn write(
        &self,
        offset: u64,
        buf: &AlignedBuf,
        range: Range<usize>,
        through: bool,
    ) -> io::Result<()> {
        if !self.writable {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!(
                    "cannot write to {}: it was opened for reading",
                    self.path.display()
                ),
            ));
        }
        let bytes = buf.get(range.clone()).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("bytes {range:?} are not in a buffer of {}", buf.len()),
            )
        })?;
        check_end(offset, bytes.len())?;
        let (fd, unit) = match &self.uncached {
            Some(fd) => {
                check_alignment(offset, bytes)?;
                (fd, UNIT as usize)
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
        if through && !bytes.is_empty() {
            // There is no write that is durable by itself: O_DSYNC ends in the device's cache.
            return self.barrier(Barrier::Data);
        }
        Ok(())
    }
}

/// Offsets are signed in the kernel.
fn check_end(offset: u64, len: usize) -> io::Result<()> {
    match offset.checked_add(len as u64) {
        Some(end) if end <= i64::MAX as u64 => Ok(()),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{len} bytes at {offset} end beyond the largest file"),
        )),
    }
}

fn check_alignment(offset: u64, bytes: &[u8]) -> io::Result<()> {
    let (unit, address) = (UNIT as usize, bytes.as_ptr() as usize);
    if offset.is_multiple_of(u64::from(UNIT))
        && bytes.len().is_multiple_of(unit)
        && (bytes.is_empty() || address.is_multiple_of(unit))
    {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::InvalidInput,
        format!(
            "uncached I/O needs offset, length and memory to be multiples of {UNIT}: \
             offset {offset}, length {}, memory {address:#x}",
            bytes.len()
        ),
    ))
}

impl File for OsFile {
    fn len(&self) -> io::Result<u64> {
        let stat = rustix::fs::fstat(&self.cached).map_err(|e| at(e, "look at", &self.path))?;
        Ok(stat.st_size as u64)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8], source: ReadSource) -> io::Result<usize> {
        check_end(offset, buf.len())?;
        if source == ReadSource::Medium {
            // `F_NOCACHE` is a hint: what lies in the cache is served from there. To call that the
            // medium would believe bytes that the device never got.
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
        let Write {
            offset,
            buf,
            range,
            through,
        } = write;
        let result = self.write(offset, &buf, range, through);
        Ticket::ready(buf, result)
    }

    fn complete(&self, ticket: Ticket) -> Completion {
        ticket.done.unwrap_or_else(|| Completion {
            buf: AlignedBuf::zeroed(0, 1),
            result: Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("this ticket is of no write to {}", self.path.display()),
            )),
        })
    }

    fn barrier(&self, barrier: Barrier) -> io::Result<()> {
        // Where `F_FULLFSYNC` is refused (some network and foreign filesystems) that is an error
        // and not an `fsync`: nothing weaker goes by the name of durable.
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
        check_end(len, 0)?;
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

    /// Nothing: macOS has no such call, and reads of the medium are not offered anyway.
    fn drop_cache(&self, _: Range<u64>) {}
}
