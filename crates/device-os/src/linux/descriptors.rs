//! Open file: its descriptors, and the writes through them.

use super::direct;
use super::error::{at, uninterrupted};
use super::transfer::write_all;
use crate::checks;
use crate::unix::open_directory::{OpenDirectory, access, open_file};
use logforce_device::{Access, DirectAlignment, OpenFile, Write};
use rustix::fs::{Advice, Mode, OFlags, Timespec, Timestamps, UTIME_NOW};
use rustix::io::{Errno, ReadWriteFlags};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// Open file with up to four descriptors, because the relevant flags (`O_DIRECT`, `O_DSYNC`) belong to the
/// descriptor.
///
/// Writes block: `submit` returns when they are done. Several threads may have writes in flight.
pub struct OsFile {
    pub(super) dir: Arc<OpenDirectory>,
    pub(super) name: String,
    /// Path of the file when it was opened, for messages.
    pub(super) path: PathBuf,
    pub(super) writable: bool,
    /// Descriptor through the cache, for barriers, for reads except those of the medium, and for writes if
    /// the file is not `direct`.
    pub(super) cached: OwnedFd,
    /// Alignment that direct I/O on this file needs; `None` if it has no direct I/O.
    pub(super) alignment: Option<DirectAlignment>,
    /// Descriptor past the cache, for writes and for reads of the medium.
    pub(super) direct: Option<OwnedFd>,
    /// Descriptor past the cache for reads of the medium, if the file is not `direct`. Opened when needed.
    medium: OnceLock<OwnedFd>,
    /// Descriptor with `O_DSYNC`, for systems where a single write cannot be requested to be durable.
    pub(super) through: OnceLock<OwnedFd>,
}

impl OsFile {
    pub fn open(dir: &Arc<OpenDirectory>, name: &str, how: OpenFile) -> io::Result<Self> {
        let path = dir.path_of(name);
        let cached = open_file(dir, name, how)?;
        // Turn read-ahead off. It would load pages behind the position of the next direct write into the
        // cache. That write has to discard them again, and a concurrent reader could see them stale. Large
        // reads are still done in one request.
        let _ = rustix::fs::fadvise(&cached, 0, None, Advice::Random);
        let alignment = direct::alignment(cached.as_fd(), || dir.assumed_alignment());
        let alignment = alignment.map_err(|e| {
            if how.access == Access::CreateNew {
                dir.take_back(name);
            }
            at(e, "ask for the direct I/O of", &path)
        })?;
        let mut file = OsFile {
            dir: Arc::clone(dir),
            name: name.to_owned(),
            path,
            writable: how.access != Access::Read,
            alignment,
            cached,
            direct: None,
            medium: OnceLock::new(),
            through: OnceLock::new(),
        };
        if how.direct {
            // A second descriptor rather than `O_DIRECT` at the creation: some kernels refuse the flag only
            // after they have created the file.
            match file.open_direct(access(how)) {
                Ok(fd) => file.direct = Some(fd),
                Err(e) => {
                    if how.access == Access::CreateNew {
                        dir.take_back(name);
                    }
                    return Err(e);
                }
            }
        }
        Ok(file)
    }

    pub(super) fn open_direct(&self, flags: OFlags) -> io::Result<OwnedFd> {
        let unsupported = |why: &str| {
            let unsupported = io::Error::new(io::ErrorKind::Unsupported, why);
            at(unsupported, "pass the system's cache on", &self.path)
        };
        if self.alignment.is_none() {
            return Err(unsupported(
                "the filesystem has no direct I/O for this file",
            ));
        }
        match self.reopen(flags | OFlags::DIRECT) {
            Ok(fd) => Ok(fd),
            Err(Errno::INVAL | Errno::OPNOTSUPP) => {
                Err(unsupported("the filesystem refuses O_DIRECT"))
            }
            Err(e) => Err(at(e, "open for direct I/O", &self.path)),
        }
    }

    /// Opens the same file once more, with other flags.
    fn reopen(&self, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        match uninterrupted(|| direct::reopen(self.cached.as_fd(), flags)) {
            // There is no /proc.
            Err(Errno::NOENT) => uninterrupted(|| self.reopen_by_name(flags)),
            other => other,
        }
    }

    /// Opens the file again by its name. Works until the file is renamed, and never returns another file.
    fn reopen_by_name(&self, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let fd = rustix::fs::openat(&*self.dir.fd()?, &self.name, flags, Mode::empty())?;
        let (ours, found) = (rustix::fs::fstat(&self.cached)?, rustix::fs::fstat(&fd)?);
        if (ours.st_dev, ours.st_ino) != (found.st_dev, found.st_ino) {
            return Err(Errno::STALE);
        }
        Ok(fd)
    }

    /// Returns the descriptor that reads past the cache, and the alignment that it needs.
    pub(super) fn medium(&self) -> io::Result<(BorrowedFd<'_>, DirectAlignment)> {
        let fd = match self.direct.as_ref().or_else(|| self.medium.get()) {
            Some(fd) => fd,
            None => {
                let fd = self.open_direct(OFlags::RDONLY)?;
                // If two threads get here at once, one descriptor is kept and the other is closed.
                self.medium.get_or_init(|| fd)
            }
        };
        let alignment = self.alignment.ok_or(io::ErrorKind::Unsupported)?;
        Ok((fd.as_fd(), alignment))
    }

    /// Marks the inode as changed, so that the next `fsync` includes it.
    ///
    /// On kernels before "ext4: fix fsync(2) for nojournal mode" (Linux, February 2026), `fsync` on ext4
    /// without a journal skips an inode of which only the block locations have changed. A power cut after it
    /// leaves holes, or a file without contents.
    pub(super) fn touch(&self) {
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_NOW,
        };
        let times = Timestamps {
            last_access: now,
            last_modification: now,
        };
        // If this is refused, nothing else is lost.
        let _ = rustix::fs::futimens(&self.cached, &times);
    }

    /// Writes, and waits for the write.
    pub fn write(&self, write: &Write) -> io::Result<()> {
        let (fd, unit, bytes) = self.prepare(write)?;
        self.write_by(fd, unit, write.offset, bytes, write.through)
            .map_err(|e| self.write_error(write, e))
    }

    /// Returns the descriptor of a write, its unit, and its bytes. Refuses a write that is not possible.
    pub fn prepare<'w>(&self, write: &'w Write) -> io::Result<(BorrowedFd<'_>, usize, &'w [u8])> {
        let bytes = checks::bytes(write, self.writable, &self.path)?;
        match (&self.direct, self.alignment) {
            (Some(fd), Some(needed)) => {
                checks::alignment("direct", needed, write.offset, bytes)?;
                Ok((fd.as_fd(), needed.offset as usize, bytes))
            }
            _ => Ok((self.cached.as_fd(), 1, bytes)),
        }
    }

    /// Makes the error of a write from the system's answer to it.
    pub fn write_error(&self, write: &Write, error: impl Into<io::Error>) -> io::Error {
        let (len, offset) = (write.range.len(), write.offset);
        at(
            error,
            &format!("write {len} bytes at {offset} to"),
            &self.path,
        )
    }

    fn write_by(
        &self,
        fd: BorrowedFd<'_>,
        unit: usize,
        offset: u64,
        bytes: &[u8],
        through: bool,
    ) -> io::Result<()> {
        write_all(bytes.len(), unit, |done| {
            // The rest after a short write has its own DSYNC. Each call makes durable what it has written, so
            // together they make everything durable.
            let (rest, at) = (&bytes[done..], offset + done as u64);
            if !through {
                return rustix::io::pwrite(fd, rest, at);
            }
            if let Some(durable) = self.through.get() {
                return rustix::io::pwrite(durable, rest, at);
            }
            match rustix::io::pwritev2(fd, &[IoSlice::new(rest)], at, ReadWriteFlags::DSYNC) {
                // Refused before anything was written, by a kernel or a filesystem that does not know the
                // flag. (After a first part was written the flag is known, and the error has another cause.)
                Err(e @ (Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL)) if done == 0 => {
                    self.write_without_flag(e, rest, at)
                }
                result => result,
            }
        })
    }

    /// Makes a write durable by itself on a kernel without `pwritev2` or a filesystem without `RWF_DSYNC`. It
    /// uses a descriptor with `O_DSYNC`, and keeps that if it works.
    fn write_without_flag(
        &self,
        refusal: Errno,
        bytes: &[u8],
        at: u64,
    ) -> rustix::io::Result<usize> {
        let direct = if self.direct.is_some() {
            OFlags::DIRECT
        } else {
            OFlags::empty()
        };
        // Not `OFlags::DSYNC`, which in rustix 1.1 is `O_SYNC` and forces timestamps too.
        let dsync = OFlags::from_bits_retain(libc::O_DSYNC as u32);
        let durable = self.reopen(OFlags::RDWR | dsync | direct)?;
        match rustix::io::pwrite(&durable, bytes, at) {
            Ok(n) => {
                let _ = self.through.set(durable);
                Ok(n)
            }
            // The flag was not the problem.
            Err(Errno::INVAL) => Err(refusal),
            Err(e) => Err(e),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::directory::OsDirectory;
    use logforce_device::{AlignedBuf, Directory};
    use logforce_device::{File, ReadSource};

    fn file(dir: &OsDirectory, name: &str, direct: bool) -> OsFile {
        let how = OpenFile {
            access: Access::CreateNew,
            direct,
        };
        OsFile::open(&dir.open, name, how).unwrap()
    }

    fn write_through(file: &OsFile, offset: u64, byte: u8) {
        let mut buf = AlignedBuf::zeroed(4096, 4096);
        buf.fill(byte);
        let ticket = file.submit(Write {
            offset,
            buf,
            range: 0..4096,
            through: true,
        });
        file.complete(ticket).result.unwrap();
    }

    #[test]
    fn without_the_flag_a_durable_descriptor_does_it() {
        let temp = tempfile::TempDir::new().unwrap();
        let dir = OsDirectory::open(temp.path()).unwrap();
        for direct in [false, true] {
            if direct && dir.facts().unwrap().direct.is_none() {
                continue;
            }
            let file = file(&dir, &format!("a-{direct}"), direct);
            write_through(&file, 0, 1);
            assert!(file.through.get().is_none(), "the flag is known here");
            let mut buf = AlignedBuf::zeroed(4096, 4096);
            buf.fill(2);
            // As if the kernel had refused the flag.
            assert_eq!(
                file.write_without_flag(Errno::OPNOTSUPP, &buf, 4096),
                Ok(4096)
            );
            let durable = file.through.get().expect("is kept");
            let flags = rustix::fs::fcntl_getfl(durable).unwrap();
            let o_dsync = OFlags::from_bits_retain(libc::O_DSYNC as u32);
            assert!(flags.contains(o_dsync));
            // In rustix 1.1 this is O_SYNC.
            assert!(!flags.contains(OFlags::DSYNC));
            assert_eq!(flags.contains(OFlags::DIRECT), direct);
            write_through(&file, 8192, 3);
            let mut all = [0; 3 * 4096];
            assert_eq!(
                file.read_at(0, &mut all, ReadSource::Cache).unwrap(),
                all.len()
            );
            assert_eq!((all[0], all[4096], all[8192]), (1, 2, 3));
        }
    }

    #[test]
    fn a_refusal_that_is_not_about_the_flag_is_passed_on() {
        let temp = tempfile::TempDir::new().unwrap();
        let dir = OsDirectory::open(temp.path()).unwrap();
        if file(&dir, "b", false).direct_alignment().is_none() {
            return;
        }
        let file = file(&dir, "a", true);
        let buf = AlignedBuf::zeroed(4096, 4096);
        let result = file.write_without_flag(Errno::INVAL, &buf[1..514], 0);
        assert_eq!(result, Err(Errno::INVAL));
        assert!(
            file.through.get().is_none(),
            "what does not work is not kept"
        );
    }

    #[test]
    fn by_name_only_the_same_file_is_taken() {
        let temp = tempfile::TempDir::new().unwrap();
        let dir = OsDirectory::open(temp.path()).unwrap();
        let a = file(&dir, "a", false);
        assert!(a.reopen_by_name(OFlags::RDONLY).is_ok());
        dir.rename("a", "b").unwrap();
        assert_eq!(a.reopen_by_name(OFlags::RDONLY).unwrap_err(), Errno::NOENT);
        let _other = file(&dir, "a", false);
        assert_eq!(a.reopen_by_name(OFlags::RDONLY).unwrap_err(), Errno::STALE);
        assert!(
            a.reopen(OFlags::RDONLY).is_ok(),
            "by /proc it is found under any name"
        );
    }
}
