//! Durable files: group commit, and the guarantees of the log, for programs that have a file format.
//!
//! `shared` has the path of a write, `commit` the horizon and the waiting, `handle` what is asynchronous,
//! `prepare` the preparing of blocks, `options` the opening.

mod beside;
mod bounded;
mod commit;
mod error;
mod handle;
mod names;
mod options;
mod prepare;
mod shared;
mod stats;
mod wake;

pub use error::{Error, ErrorKind, Result};
pub use handle::{Acknowledged, CommitHandle};
pub use names::{create_durably, rename_durably, replace, replace_durably, sync_parent};
pub use options::Options;
pub use prepare::{Prepare, Prepared};
pub use stats::{Counters, Stats};

use logforce_device::{Granted, Method, ReadSource, Verdict};
use shared::{LONGEST_WRITE, Shared};
use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

/// An open file whose writes can be made durable, by many threads at once.
///
/// Each thread writes with [`write_at`](Self::write_at) and makes its writes durable with
/// [`commit`](Self::commit); threads that commit at the same time share one sync. [`write_commit`](Self::write_commit)
/// does both for a single write. Nothing orders writes among each other before a commit
/// returns: a power cut keeps any of them, in whole or in part. So a format needs checksums, or commits what
/// must be there first.
///
/// **Failures.** After a failed write or sync the file is *poisoned*: every later call that writes or commits
/// fails with [`ErrorKind::Poisoned`]. The system may have dropped what it could not write, and would report
/// success for a second sync. What was acknowledged is durable. Open the file again, and read what decides
/// from the medium ([`read_medium_at`](Self::read_medium_at)).
///
/// A commit covers the writes of this object, not those of other descriptors or of memory maps.
///
/// Dropping the file makes nothing durable but what was submitted. It has no thread, unless
/// [`submit`](Self::submit) or [`commit_async`](Self::commit_async) is used.
pub struct File {
    shared: Arc<Shared>,
}

impl File {
    fn new(shared: Shared) -> File {
        File {
            shared: Arc::new(shared),
        }
    }

    /// Writes all bytes at `offset`. Not durable until a commit.
    ///
    /// Writes of several threads may run at once, but must not overlap.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if the write is not [aligned](Options::aligned) as promised; nothing was
    /// written then. Any failure of the system poisons the file, a lack of space too: see
    /// [`prepare`](Self::prepare).
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.writev_at(&[bytes], offset)
    }

    /// Writes the slices one behind the other, beginning at `offset`. Otherwise like
    /// [`write_at`](Self::write_at).
    ///
    /// # Errors
    /// Those of [`write_at`](Self::write_at).
    pub fn writev_at(&self, slices: &[&[u8]], offset: u64) -> Result<()> {
        self.shared.check()?;
        self.shared.check_range(slices, offset)?;
        self.shared.write(slices, offset)
    }

    /// Makes every write durable that has completed before this call, in any thread. Nothing is claimed for
    /// writes that complete later. Returns at once if there are none since the last commit.
    ///
    /// # Errors
    /// [`ErrorKind::Poisoned`] if a write or a sync has failed, now or earlier.
    pub fn commit(&self) -> Result<Acknowledged> {
        self.shared.commit()?;
        Ok(self.shared.acknowledged())
    }

    /// Writes all bytes at `offset` and returns when they are durable. The write is a write-through where
    /// that is as safe as a sync, is the faster method, and no other commit waits. Otherwise it shares a sync
    /// with other commits. It does not make earlier writes durable.
    ///
    /// # Errors
    /// Those of [`write_at`](Self::write_at) and [`commit`](Self::commit).
    pub fn write_commit(&self, bytes: &[u8], offset: u64) -> Result<Acknowledged> {
        self.writev_commit(&[bytes], offset)
    }

    /// Writes the slices one behind the other, beginning at `offset`. Otherwise like
    /// [`write_commit`](Self::write_commit).
    ///
    /// # Errors
    /// Those of [`write_commit`](Self::write_commit).
    pub fn writev_commit(&self, slices: &[&[u8]], offset: u64) -> Result<Acknowledged> {
        self.shared.write_commit(slices, offset)?;
        Ok(self.shared.acknowledged())
    }

    /// Writes all bytes at `offset`, and returns a handle of their commit without waiting for it. The handle
    /// covers all writes that have completed before this call, too. The first submission starts the file's
    /// thread.
    ///
    /// The write itself is made in the calling thread. Into the system's cache it does not wait for the
    /// device; an [aligned](Options::aligned) file may bypass the cache, and then it does.
    ///
    /// # Errors
    /// Those of [`write_at`](Self::write_at). [`ErrorKind::Io`] if the thread cannot be started: the bytes
    /// are written then, and not committed.
    pub fn submit(&self, bytes: &[u8], offset: u64) -> Result<CommitHandle> {
        self.write_at(bytes, offset)?;
        self.shared.submit()
    }

    /// Makes every write durable that has completed before the first poll, as [`commit`](Self::commit) does,
    /// without blocking the task. Dropping the future after the first poll does not stop it.
    ///
    /// # Errors
    /// Those of [`commit`](Self::commit); [`ErrorKind::Io`] if the file's thread cannot be started.
    pub async fn commit_async(&self) -> Result<Acknowledged> {
        self.shared.submit()?.await
    }

    /// Returns at once, and makes every write durable within `bound` that has completed before this call. If
    /// an earlier commit of this kind has exceeded its bound, waits for it first. So a commit is lost by a power
    /// cut only if its call had returned less than `bound` before the last such call returned. The file's
    /// thread begins the sync after half of the bound: the rest is for the device.
    ///
    /// # Errors
    /// [`ErrorKind::Poisoned`] if a write or a sync has failed: what was committed since the last sync may be
    /// lost. [`ErrorKind::Io`] if the file's thread cannot be started: nothing is committed then.
    pub fn commit_within(&self, bound: Duration) -> Result<()> {
        self.shared.commit_within(bound)
    }

    /// Counts a write that was made to the file through another descriptor: later commits cover it. For a
    /// program whose writes another library makes.
    pub fn count_write(&self) {
        self.shared.written.fetch_add(1, SeqCst);
    }

    /// Returns the failure that has poisoned the file.
    pub fn failure(&self) -> Option<Arc<Error>> {
        self.shared.poison.cause()
    }

    /// Reads at `offset`, and returns the number of bytes: fewer than `buf` has only at the end of the file.
    /// The bytes may be such that are not durable.
    ///
    /// # Errors
    /// [`ErrorKind::Io`]. A failed read does not poison the file.
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let read = self.shared.file.read_at(offset, buf, ReadSource::Cache);
        read.map_err(Error::io("read", &self.shared.path))
    }

    /// Reads at `offset` past the system's cache. After a failed sync the cache may hold bytes that the
    /// medium lacks. A program that finds out what survived reads with this call what its decision rests on,
    /// after it has opened the file again. Otherwise like [`read_at`](Self::read_at).
    ///
    /// # Errors
    /// [`ErrorKind::Io`], with [`std::io::ErrorKind::Unsupported`] where the filesystem cannot do it;
    /// [`ErrorKind::InvalidInput`] if no file can have that range.
    pub fn read_medium_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let shared = &self.shared;
        let unit = u64::from(shared.forcing.direct_unit);
        let end = offset.saturating_add(buf.len() as u64);
        if end.checked_next_multiple_of(unit).is_none() {
            return Err(shared.not_a_range(offset, end));
        }
        let mut piece = shared.take_buffer(LONGEST_WRITE);
        let mut done = 0;
        while done < buf.len() {
            let at = offset + done as u64;
            let from = at / unit * unit;
            let len = (end.next_multiple_of(unit) - from).min(LONGEST_WRITE as u64) as usize;
            let read = shared
                .file
                .read_at(from, &mut piece[..len], ReadSource::Medium);
            let read = read.map_err(Error::io("read the medium of", &shared.path))?;
            let skipped = (at - from) as usize;
            let found = read.saturating_sub(skipped).min(buf.len() - done);
            buf[done..done + found].copy_from_slice(&piece[skipped..skipped + found]);
            done += found;
            if read < len {
                break;
            }
        }
        shared.keep_buffer(piece);
        Ok(done)
    }

    /// Returns the length of the file, bytes.
    ///
    /// # Errors
    /// [`ErrorKind::Io`].
    pub fn len(&self) -> Result<u64> {
        let len = self.shared.file.len();
        len.map_err(Error::io("look at", &self.shared.path))
    }

    /// Returns true if the file has no bytes.
    ///
    /// # Errors
    /// [`ErrorKind::Io`].
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Prepares a range, so that later commits into it need not allocate blocks. Makes the file at least as
    /// long as the end of the range, and keeps all present bytes. Blocks before the range are reserved as
    /// well. The range grows to whole [write units](Self::write_unit) in an aligned file. The size and the
    /// blocks are durable on return. No other call may write into the range meanwhile.
    ///
    /// # Errors
    /// [`ErrorKind::NoSpace`] if there is not enough space: nothing that was written has changed, and the file
    /// continues. It may be longer than before.
    pub fn prepare(&self, range: Range<u64>, how: Prepare) -> Result<Prepared> {
        self.shared.prepare(range, how)
    }

    /// Returns the guarantee of a commit.
    pub fn guarantee(&self) -> Granted {
        self.shared.forcing.by.granted()
    }

    /// Returns the verdict on that guarantee.
    pub fn verdict(&self) -> Verdict {
        self.shared.forcing.by.verdict
    }

    /// Returns the evidence for the verdict, in words.
    pub fn evidence(&self) -> &str {
        &self.shared.forcing.by.evidence
    }

    /// Returns the method of [`write_commit`](Self::write_commit) for a single write.
    pub fn method(&self) -> Method {
        self.shared.forcing.method
    }

    /// Returns the multiple, in bytes, of which offset and length of each write must be in an
    /// [aligned](Options::aligned) file; 1 in any other one.
    pub fn write_unit(&self) -> u32 {
        self.shared.forcing.unit.unwrap_or(1)
    }

    /// Returns true if the filesystem overwrites in place. A commit then costs less in blocks that were
    /// [prepared](Self::prepare).
    pub fn overwrites_in_place(&self) -> bool {
        self.shared.forcing.in_place
    }

    /// Returns the path with which the file was opened.
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// Returns the statistics since the opening.
    pub fn stats(&self) -> Stats {
        self.shared.metrics.read()
    }

    /// Commits everything that was written, ends the file's thread, and releases the lock unless a handle is
    /// left.
    ///
    /// # Errors
    /// Those of [`commit`](Self::commit). The file is closed in any case.
    pub fn close(self) -> Result<()> {
        self.shared.commit()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        self.shared.end_thread();
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File")
            .field("path", &self.shared.path)
            .field("method", &self.method())
            .field("guarantee", &self.guarantee())
            .finish()
    }
}
