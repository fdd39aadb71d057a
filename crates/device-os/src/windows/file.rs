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

/// An open file: up to five handles of it, since what matters here (`FILE_FLAG_NO_BUFFERING`,
/// `FILE_FLAG_WRITE_THROUGH`) belongs to the handle. All of them share everything, so that files can
/// be renamed and removed while they are open.
///
/// Writes are under way when `submit` returns, any number together.
pub struct OsFile {
    /// First, so that it is dropped first: what is under way needs the handles.
    in_flight: InFlight<Writer>,
    /// For messages: where the file was when it was opened.
    path: PathBuf,
    writable: bool,
    extent: Arc<Extent>,
    /// Through the cache: reads, flushes, and writes if not `direct`.
    cached: Arc<OwnedHandle>,
    /// What unbuffered I/O on this file needs.
    needed: DirectAlignment,
    direct: bool,
    /// A flush of the data alone is enough where the ends are durable. As it was when the file was
    /// opened.
    in_place: bool,
    /// Past the cache, for reads of the medium. Opened when needed.
    medium: OnceLock<OwnedHandle>,
    /// For flushes of a file that was opened for reading. Opened when needed.
    flushing: OnceLock<OwnedHandle>,
    /// For controls, which want a handle that is not overlapped. Opened when needed.
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
                // Before opening: a directory would be "access denied", and a link opens itself.
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

    /// Opens now what is otherwise opened when it is needed: Wine finds a file for `ReOpenFile` by
    /// the name that it was opened by, and no more once it is renamed. (What is only read, the log
    /// renames when it does not need it any more.)
    fn open_all(&self) {
        let _ = self.in_flight.starter().handle(true);
        let _ = self.medium();
    }

    /// The handle that reads past the cache.
    fn medium(&self) -> io::Result<&OwnedHandle> {
        let flags = FILE_FLAG_OVERLAPPED | FILE_FLAG_NO_BUFFERING;
        self.reopen(&self.medium, GENERIC_READ, flags)
    }

    /// The same file once more.
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
        // Of two threads that come here together one handle is kept, the other closed.
        Ok(place.get_or_init(|| opened))
    }

    /// Windows flushes by handles for writing only.
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

    /// Checks a write and hands it on; `Err` gives the memory back with the reason.
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

/// Whether the file is known to be overwritten where it lies. What does not say, is not.
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
            // An unbuffered read that ends off a sector has met the end of the file.
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
        // Not before: a full flush that began while this write was in flight did not cover the ends
        // that it moved, and one of the data alone must not be taken for enough afterwards.
        self.extent.ended(end);
        if let Err(e) = done.result {
            // Our own refusals say already what they are about.
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
        // Asked before the flush: what is valid then, the flush makes durable. Afterwards it may be
        // more, by writes that the flush did not see.
        let valid = (data_only && flush::has_data_only())
            .then(|| self.valid_data_length())
            .flatten();
        flush::all(handle).map_err(fail)?;
        self.extent.flushed(before, valid);
        Ok(())
    }

    /// Setting the size makes NTFS allocate the clusters (files are not sparse unless asked to be),
    /// so that space is there afterwards. `SetFileValidData`, which would spare the zeroes that the
    /// log fills in next, is not used: it shows what lay on the disk there before, other people's
    /// deleted files, to every reader of the file.
    fn reserve(&self, len: u64) -> io::Result<bool> {
        checks::end(len, 0)?;
        let set = || handle::set_len(&self.cached, len);
        self.extent
            .sizing(len, || handle::len(&self.cached), set)
            .map_err(|e| at(e, &format!("reserve {len} bytes for"), &self.path))?;
        // Of a compressed or sparse file the size is all that was set.
        Ok(self.in_place)
    }

    /// A file that is neither sparse nor compressed has all of its blocks, and was written up to its
    /// valid data length. Of others, and of other filesystems than NTFS, it is unknown.
    fn blocks(&self, range: Range<u64>) -> Blocks {
        match self.valid_data_length().filter(|_| self.in_place) {
            None => Blocks::Unknown,
            Some(valid) if valid >= range.end => Blocks::Written,
            Some(_) if self.len().is_ok_and(|len| len >= range.end) => Blocks::Reserved,
            Some(_) => Blocks::Missing,
        }
    }

    /// Nothing: Windows has no such call. Unbuffered reads ask the device in any case.
    fn drop_cache(&self, _: Range<u64>) {}
}

#[cfg(test)]
mod tests;
