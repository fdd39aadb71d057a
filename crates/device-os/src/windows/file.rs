use super::error::at;
use super::handle::{self, How, SHARE_ALL};
use super::in_flight::InFlight;
use super::open_directory::OpenDirectory;
use super::overlapped::{self, Writer};
use super::retry::while_busy_or_denied;
use super::security::Owner;
use super::{control, flush, machine, overwrite, path, volume};
use crate::checks;
use crate::extent::Extent;
use logforce_device::{
    Access, AlignedBuf, Barrier, Blocks, Completion, DirectAlignment, File, OpenFile, ReadSource,
    Ticket, Write,
};
use std::io;
use std::ops::Range;
use std::os::windows::io::OwnedHandle;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use windows_sys::Win32::Foundation::{GENERIC_READ, GENERIC_WRITE};
use windows_sys::Win32::Storage::FileSystem::{
    CREATE_NEW, FILE_FLAG_NO_BUFFERING, FILE_FLAG_OPEN_REPARSE_POINT, FILE_FLAG_OVERLAPPED,
    OPEN_EXISTING,
};

/// Open file with up to five handles, because the relevant flags (`FILE_FLAG_NO_BUFFERING`,
/// `FILE_FLAG_WRITE_THROUGH`) belong to the handle. All of them share everything, so that files can be
/// renamed and removed while they are open.
///
/// Writes are in flight when `submit` returns, any number at a time.
pub struct OsFile {
    /// First field, so that it is dropped first: writes in flight need the handles.
    in_flight: InFlight<Writer>,
    /// Path of the file when it was opened, for messages.
    path: PathBuf,
    writable: bool,
    extent: Arc<Extent>,
    /// Handle through the cache, for reads, flushes, and writes if not `direct`.
    cached: Arc<OwnedHandle>,
    /// Alignment that unbuffered I/O on this file needs.
    needed: DirectAlignment,
    direct: bool,
    /// True if a flush of the data alone suffices once the ends are durable. Determined when the file was
    /// opened.
    in_place: bool,
    /// Handle past the cache, for reads of the medium. Opened when needed.
    medium: OnceLock<OwnedHandle>,
    /// Handle for flushes of a file that was opened for reading. Opened when needed.
    flushing: OnceLock<OwnedHandle>,
    /// Handle for controls, which need one that is not overlapped. Opened when needed.
    plain: OnceLock<OwnedHandle>,
}

impl OsFile {
    pub fn open(dir: &Arc<OpenDirectory>, name: &str, how: OpenFile) -> io::Result<Self> {
        path::check(name)?;
        let (path, wide) = (dir.path_of(name), dir.wide_path_of(name));
        let new = how.access == Access::CreateNew;
        let writable = how.access != Access::Read;
        let access = if writable {
            GENERIC_READ | GENERIC_WRITE
        } else {
            GENERIC_READ
        };
        let open = || {
            if !new {
                // Checked before the opening. A directory would fail with "access denied", and a link would
                // be opened itself.
                dir.check_regular(name)?;
            }
            let how = How {
                access,
                share: SHARE_ALL,
                disposition: if new { CREATE_NEW } else { OPEN_EXISTING },
                flags: FILE_FLAG_OVERLAPPED | FILE_FLAG_OPEN_REPARSE_POINT,
                owner: Owner::of_files(),
            };
            handle::open(&wide, how).map_err(|e| at(e, if new { "make" } else { "open" }, &path))
        };
        let cached = Arc::new(if new {
            open()?
        } else {
            while_busy_or_denied(open)?
        });
        let writer = if how.direct {
            let flags = FILE_FLAG_OVERLAPPED | FILE_FLAG_NO_BUFFERING;
            match handle::reopen(&cached, access, flags) {
                Ok(unbuffered) => Writer::new(Arc::new(unbuffered), FILE_FLAG_NO_BUFFERING),
                Err(e) => {
                    if new {
                        drop(cached);
                        let _ = dir.remove(name);
                    }
                    return Err(at(e, "open for unbuffered I/O", &path));
                }
            }
        } else {
            Writer::new(Arc::clone(&cached), 0)
        };
        let identity = match handle::identity(&cached) {
            Ok(identity) => identity,
            Err(e) => {
                if new {
                    drop((writer, cached));
                    let _ = dir.remove(name);
                }
                return Err(at(e, "look at", &path));
            }
        };
        let file = OsFile {
            in_flight: InFlight::new(writer),
            path,
            writable,
            extent: Extent::of(identity),
            needed: dir.alignment(),
            direct: how.direct,
            in_place: is_in_place(&cached),
            cached,
            medium: OnceLock::new(),
            flushing: OnceLock::new(),
            plain: OnceLock::new(),
        };
        if writable && machine::is_wine() {
            file.open_all();
        }
        Ok(file)
    }

    /// Opens the handles now that are otherwise opened when needed. Wine finds a file for `ReOpenFile` by the
    /// name by which it was opened, which fails after a rename. (The log renames files that it only reads
    /// only when it no longer needs them.)
    fn open_all(&self) {
        let _ = self.in_flight.starter().handle(true);
        let _ = self.medium();
    }

    /// Returns the handle that reads past the cache.
    fn medium(&self) -> io::Result<&OwnedHandle> {
        let flags = FILE_FLAG_OVERLAPPED | FILE_FLAG_NO_BUFFERING;
        self.reopen(&self.medium, GENERIC_READ, flags)
    }

    /// Opens the same file again.
    fn reopen<'h>(
        &self,
        place: &'h OnceLock<OwnedHandle>,
        access: u32,
        flags: u32,
    ) -> io::Result<&'h OwnedHandle> {
        if let Some(handle) = place.get() {
            return Ok(handle);
        }
        let opened = handle::reopen(&self.cached, access, flags)?;
        // If two threads get here at once, one handle is kept and the other is closed.
        Ok(place.get_or_init(|| opened))
    }

    /// Returns a handle for flushes. Windows flushes only by handles for writing.
    fn flush_handle(&self) -> io::Result<&OwnedHandle> {
        if self.writable {
            return Ok(&self.cached);
        }
        self.reopen(
            &self.flushing,
            GENERIC_READ | GENERIC_WRITE,
            FILE_FLAG_OVERLAPPED,
        )
    }

    /// Checks a write and starts it. `Err` returns the memory with the reason.
    fn start(&self, write: Write) -> Result<Ticket, (AlignedBuf, io::Error)> {
        let checked = checks::bytes(&write, self.writable, &self.path).and_then(|bytes| {
            if self.direct {
                self.check_alignment(write.offset, bytes)
            } else {
                Ok(())
            }
        });
        let Write {
            offset,
            buf,
            range,
            through,
        } = write;
        if let Err(e) = checked {
            return Err((buf, e));
        }
        let unit = if self.direct {
            self.needed.offset as usize
        } else {
            1
        };
        let end = offset + range.len() as u64;
        Ok(self.extent.submitting(end, || {
            self.in_flight.submit(offset, buf, range, through, unit)
        }))
    }

    fn check_alignment(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        checks::alignment("unbuffered", self.needed, offset, bytes)
    }

    fn valid_data_length(&self) -> Option<u64> {
        let handle = self.reopen(&self.plain, GENERIC_READ, 0).ok()?;
        control::valid_data_length(handle)
    }
}

/// Returns true if the file is known to be overwritten in place. Without an answer it is not.
fn is_in_place(handle: &OwnedHandle) -> bool {
    let (filesystem, attributes) = (volume::filesystem(handle), handle::attributes(handle));
    match (filesystem, attributes) {
        (Ok(filesystem), Ok(attributes)) => overwrite::is(&filesystem.name, attributes),
        _ => false,
    }
}

impl File for OsFile {
    fn len(&self) -> io::Result<u64> {
        handle::len(&self.cached).map_err(|e| at(e, "look at", &self.path))
    }

    fn read_at(&self, offset: u64, buf: &mut [u8], source: ReadSource) -> io::Result<usize> {
        checks::end(offset, buf.len())?;
        let fail = |e| at(e, &format!("read at {offset} from"), &self.path);
        let (handle, unit) = match source {
            ReadSource::Cache => (&*self.cached, 1),
            ReadSource::Medium => {
                self.check_alignment(offset, buf)?;
                (self.medium().map_err(fail)?, self.needed.offset as usize)
            }
        };
        let mut done = 0;
        while done < buf.len() {
            match overlapped::read(handle, offset + done as u64, &mut buf[done..]).map_err(fail)? {
                0 => break,
                n => done += n,
            }
            // An unbuffered read that ends off a sector has reached the end of the file.
            if !done.is_multiple_of(unit) {
                break;
            }
        }
        Ok(done)
    }

    fn submit(&self, write: Write) -> Ticket {
        self.start(write)
            .unwrap_or_else(|(buf, e)| Ticket::ready(buf, Err(e)))
    }

    fn complete(&self, ticket: Ticket) -> Completion {
        let Some((mut done, end)) = self.in_flight.complete(ticket) else {
            return checks::foreign(&self.path);
        };
        // Called here and not before. A full flush that began while this write was in flight did not cover
        // the ends that the write moved. Afterwards a flush of the data alone must not count as sufficient.
        self.extent.ended(end);
        if let Err(e) = done.result {
            // Errors of this crate already name the operation.
            done.result = Err(match e.raw_os_error() {
                Some(_) => at(e, "write to", &self.path),
                None => e,
            });
        }
        done
    }

    fn barrier(&self, barrier: Barrier) -> io::Result<()> {
        let fail = |e| at(e, "flush", &self.path);
        let handle = self.flush_handle().map_err(fail)?;
        let data_only = barrier == Barrier::Data;
        let flushed = self.in_place && self.extent.is_flushed();
        if data_only && flushed && flush::data(handle).map_err(fail)? {
            return Ok(());
        }
        let before = self.extent.before_flush();
        // Queried before the flush, which makes these valid data durable. Afterwards the value may be larger,
        // by writes that the flush did not cover.
        let valid = (data_only && flush::has_data_only())
            .then(|| self.valid_data_length())
            .flatten();
        flush::all(handle).map_err(fail)?;
        self.extent.flushed(before, valid);
        Ok(())
    }

    /// Setting the size makes NTFS allocate the clusters, because files are sparse only on request. So the
    /// space exists afterwards. `SetFileValidData` would save the zeroes that the log writes next, but is not
    /// used: it would show every reader of the file the previous contents of the disk, such as deleted files
    /// of other users.
    fn reserve(&self, len: u64) -> io::Result<bool> {
        checks::end(len, 0)?;
        let set = || handle::set_len(&self.cached, len);
        self.extent
            .sizing(len, || handle::len(&self.cached), set)
            .map_err(|e| at(e, &format!("reserve {len} bytes for"), &self.path))?;
        // On a compressed or sparse file only the size was set.
        Ok(self.in_place)
    }

    /// A file that is neither sparse nor compressed has all of its blocks, and was written up to its valid
    /// data length. For other files, and on other filesystems than NTFS, the state is unknown.
    fn blocks(&self, range: Range<u64>) -> Blocks {
        match self.valid_data_length().filter(|_| self.in_place) {
            None => Blocks::Unknown,
            Some(valid) if valid >= range.end => Blocks::Written,
            Some(_) if self.len().is_ok_and(|len| len >= range.end) => Blocks::Reserved,
            Some(_) => Blocks::Missing,
        }
    }

    /// Does nothing: Windows has no such call. Unbuffered reads go to the device in any case.
    fn drop_cache(&self, _: Range<u64>) {}
}

#[cfg(test)]
mod tests;
