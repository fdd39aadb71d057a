//! The contract's `submit` and `complete` by overlapped writes.
//!
//! This exists to keep the contract honest: it is type-checked for Windows, and is no backend.
//! There is no `System`, no lock, no direct I/O and no facts here; they come with the Windows
//! backend, which will replace this file. It has been compiled, and has not been run on Windows.

#![allow(unsafe_code)]

use logforce_device::{AlignedBuf, Barrier, Completion, File, ReadSource, Ticket, Write};
use std::collections::HashMap;
use std::ffi::c_void;
use std::fs::OpenOptions;
use std::io;
use std::ops::Range;
use std::os::windows::fs::OpenOptionsExt;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle, RawHandle};
use std::path::{Path, PathBuf};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

const FILE_FLAG_OVERLAPPED: u32 = 0x4000_0000;
const FILE_FLAG_WRITE_THROUGH: u32 = 0x8000_0000;
const ERROR_HANDLE_EOF: i32 = 38;
const ERROR_IO_PENDING: i32 = 997;

/// `OVERLAPPED` of minwinbase.h, with the offset in place of its union.
#[repr(C)]
struct Overlapped {
    internal: usize,
    internal_high: usize,
    offset_low: u32,
    offset_high: u32,
    event: RawHandle,
}

#[link(name = "kernel32")]
unsafe extern "system" {
    fn CreateEventW(security: *mut c_void, manual: i32, set: i32, name: *const u16) -> RawHandle;
    fn WriteFile(
        file: RawHandle,
        bytes: *const u8,
        len: u32,
        written: *mut u32,
        overlapped: *mut Overlapped,
    ) -> i32;
    fn ReadFile(
        file: RawHandle,
        bytes: *mut u8,
        len: u32,
        read: *mut u32,
        overlapped: *mut Overlapped,
    ) -> i32;
    fn GetOverlappedResult(
        file: RawHandle,
        overlapped: *mut Overlapped,
        transferred: *mut u32,
        wait: i32,
    ) -> i32;
}

/// A file whose writes are in flight when [`submit`](File::submit) returns.
///
/// On Windows it is the handle, not the write, that is written through: the file is held open
/// twice. What was not handed to [`complete`](File::complete) is waited for when this is dropped.
#[derive(Debug)]
pub struct OverlappedFile {
    path: PathBuf,
    cached: std::fs::File,
    through: std::fs::File,
    next: AtomicU64,
    pending: Mutex<HashMap<u64, Pending>>,
}

/// An operation that the system may be working on. Behind a raw pointer: the system writes to the
/// `Overlapped` while it does, so that no reference to it may exist, nor may it move.
#[derive(Debug)]
struct Pending {
    operation: NonNull<Operation>,
}

// SAFETY: the operation is owned by this value alone, and neither the event handle nor the buffer
// in it belongs to a thread; Windows allows the wait on another thread than the start.
unsafe impl Send for Pending {}

struct Operation {
    overlapped: Overlapped,
    /// Set by the system when the operation is done. One for each: waiting on the file's own
    /// handle cannot tell two operations apart.
    _event: OwnedHandle,
    buf: AlignedBuf,
    len: u32,
    through: bool,
}

impl OverlappedFile {
    /// Opens a file for reading and writing, and makes it if it is missing.
    ///
    /// # Errors
    /// What the system says, with the path.
    pub fn open(path: &Path) -> io::Result<Self> {
        let open = |flags| {
            OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .custom_flags(FILE_FLAG_OVERLAPPED | flags)
                .open(path)
                .map_err(|e| {
                    io::Error::new(e.kind(), format!("cannot open {}: {e}", path.display()))
                })
        };
        Ok(OverlappedFile {
            path: path.to_owned(),
            cached: open(0)?,
            through: open(FILE_FLAG_WRITE_THROUGH)?,
            next: AtomicU64::new(1),
            pending: Mutex::default(),
        })
    }

    fn table(&self) -> MutexGuard<'_, HashMap<u64, Pending>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handle(&self, through: bool) -> RawHandle {
        if through {
            self.through.as_raw_handle()
        } else {
            self.cached.as_raw_handle()
        }
    }

    fn start(&self, write: Write) -> Result<Pending, Completion> {
        let Write {
            offset,
            buf,
            range,
            through,
        } = write;
        let refused = |buf, error: io::Error| Completion {
            buf,
            result: Err(error),
        };
        let bytes = match buf.get(range.clone()) {
            Some(bytes) => bytes.as_ptr(),
            None => {
                let why = format!("bytes {range:?} are not in a buffer of {}", buf.len());
                return Err(refused(
                    buf,
                    io::Error::new(io::ErrorKind::InvalidInput, why),
                ));
            }
        };
        let Ok(len) = u32::try_from(range.len()) else {
            let why = format!("{} bytes are more than one write takes", range.len());
            return Err(refused(
                buf,
                io::Error::new(io::ErrorKind::InvalidInput, why),
            ));
        };
        let (overlapped, event) = match overlapped_at(offset) {
            Ok(both) => both,
            Err(e) => return Err(refused(buf, e)),
        };
        let operation = Box::new(Operation {
            overlapped,
            _event: event,
            buf,
            len,
            through,
        });
        let pending = Pending {
            operation: NonNull::from(Box::leak(operation)),
        };
        // SAFETY: the handle is open and was opened for overlapped I/O. The buffer (whose memory
        // does not move with the `AlignedBuf`) and the `Overlapped` live in `operation`, which is
        // freed by `finish` only, after the system has let go of both. No reference is made to
        // the `Overlapped`: its address is taken from the raw pointer.
        let started = unsafe {
            WriteFile(
                self.handle(through),
                bytes,
                len,
                ptr::null_mut(),
                &raw mut (*pending.operation.as_ptr()).overlapped,
            )
        };
        // Also a write that was done at once sets the event: it is waited for all the same.
        if started == 0 {
            let e = io::Error::last_os_error();
            if e.raw_os_error() != Some(ERROR_IO_PENDING) {
                // SAFETY: the write was refused: the system has no pointer to it.
                let operation = unsafe { Box::from_raw(pending.operation.as_ptr()) };
                return Err(refused(operation.buf, e));
            }
        }
        Ok(pending)
    }

    /// Waits until the system has let go of the operation.
    fn finish(&self, pending: Pending) -> Completion {
        let operation = pending.operation.as_ptr();
        let mut written = 0;
        // SAFETY: `operation` is the live allocation that `start` leaked; `through` is written to
        // by nobody. The handle is the one that the write was started on.
        let ended = unsafe {
            GetOverlappedResult(
                self.handle((*operation).through),
                &raw mut (*operation).overlapped,
                &mut written,
                1,
            )
        };
        let failure = (ended == 0).then(io::Error::last_os_error);
        // SAFETY: the wait is over, with success or with the operation's own error: the system no
        // longer uses the memory, and this is its only owner.
        let operation = unsafe { Box::from_raw(operation) };
        let result = match failure {
            Some(e) => Err(io::Error::new(
                e.kind(),
                format!("cannot write to {}: {e}", self.path.display()),
            )),
            None if written < operation.len => Err(io::Error::new(
                io::ErrorKind::WriteZero,
                format!(
                    "{written} of {} bytes were written to {}",
                    operation.len,
                    self.path.display()
                ),
            )),
            None => Ok(()),
        };
        Completion {
            buf: operation.buf,
            result,
        }
    }
}

impl Drop for OverlappedFile {
    fn drop(&mut self) {
        // The system still writes from the memory of what nobody has completed.
        let left: Vec<Pending> = self.table().drain().map(|(_, pending)| pending).collect();
        for pending in left {
            drop(self.finish(pending));
        }
    }
}

fn overlapped_at(offset: u64) -> io::Result<(Overlapped, OwnedHandle)> {
    // SAFETY: makes an event without name and attributes, to be set by hand, not set.
    let event = unsafe { CreateEventW(ptr::null_mut(), 1, 0, ptr::null()) };
    if event.is_null() {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the handle was made just now and is owned by nothing else.
    let owned = unsafe { OwnedHandle::from_raw_handle(event) };
    let overlapped = Overlapped {
        internal: 0,
        internal_high: 0,
        offset_low: offset as u32,
        offset_high: (offset >> 32) as u32,
        event,
    };
    Ok((overlapped, owned))
}

impl File for OverlappedFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.cached.metadata()?.len())
    }

    fn read_at(&self, offset: u64, buf: &mut [u8], source: ReadSource) -> io::Result<usize> {
        if source == ReadSource::Medium {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let mut done = 0;
        while done < buf.len() {
            let rest = &mut buf[done..];
            let len = u32::try_from(rest.len()).unwrap_or(u32::MAX);
            let (mut overlapped, _event) = overlapped_at(offset + done as u64)?;
            let overlapped = &raw mut overlapped;
            let handle = self.cached.as_raw_handle();
            let mut read = 0;
            // SAFETY: `rest` is at least `len` bytes, and it and the `Overlapped` outlive the
            // operation, which is waited for here: either the read was refused, or
            // `GetOverlappedResult` returns after its end.
            let ended = unsafe {
                let started = ReadFile(handle, rest.as_mut_ptr(), len, ptr::null_mut(), overlapped);
                let refused = started == 0
                    && io::Error::last_os_error().raw_os_error() != Some(ERROR_IO_PENDING);
                !refused && GetOverlappedResult(handle, overlapped, &mut read, 1) != 0
            };
            if !ended {
                let e = io::Error::last_os_error();
                if e.raw_os_error() == Some(ERROR_HANDLE_EOF) {
                    break;
                }
                return Err(e);
            }
            if read == 0 {
                break;
            }
            done += read as usize;
        }
        Ok(done)
    }

    fn submit(&self, write: Write) -> Ticket {
        match self.start(write) {
            Ok(pending) => {
                let id = self.next.fetch_add(1, Ordering::Relaxed);
                self.table().insert(id, pending);
                Ticket { id, done: None }
            }
            Err(refused) => Ticket {
                id: 0,
                done: Some(refused),
            },
        }
    }

    fn complete(&self, ticket: Ticket) -> Completion {
        if let Some(done) = ticket.done {
            return done;
        }
        // Taken out before the wait: the table is not locked meanwhile, and other writes go on.
        let pending = self.table().remove(&ticket.id);
        match pending {
            Some(pending) => self.finish(pending),
            None => Completion {
                buf: AlignedBuf::zeroed(0, 1),
                result: Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    format!("this ticket is of no write to {}", self.path.display()),
                )),
            },
        }
    }

    fn barrier(&self, _: Barrier) -> io::Result<()> {
        // FlushFileBuffers: both kinds, and for the file, not only for the handle.
        self.cached.sync_all()
    }

    fn reserve(&self, len: u64) -> io::Result<bool> {
        if self.len()? < len {
            self.cached.set_len(len)?;
        }
        Ok(false)
    }

    fn drop_cache(&self, _: Range<u64>) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_in_flight_together() {
        let path = std::env::temp_dir().join(format!("logforce-overlapped-{}", std::process::id()));
        let file = OverlappedFile::open(&path).unwrap();
        let submit = |i: u64| {
            let mut buf = AlignedBuf::zeroed(4096, 4096);
            buf.fill(i as u8 + 1);
            file.submit(Write {
                offset: i * 4096,
                buf,
                range: 0..4096,
                through: i % 2 == 0,
            })
        };
        let mut tickets: Vec<Ticket> = (0..8).map(submit).collect();
        // Left to the drop.
        let _ = submit(8);
        while let Some(ticket) = tickets.pop() {
            let done = file.complete(ticket);
            done.result.unwrap();
            assert_eq!(done.buf.len(), 4096);
        }
        file.barrier(Barrier::Full).unwrap();
        let mut all = vec![0; 8 * 4096];
        assert_eq!(
            file.read_at(0, &mut all, ReadSource::Cache).unwrap(),
            all.len()
        );
        assert!(
            all.chunks(4096)
                .enumerate()
                .all(|(i, c)| c.iter().all(|&b| b == i as u8 + 1))
        );
        assert!(file.complete(Ticket { id: 99, done: None }).result.is_err());
        drop(file);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 9 * 4096);
        std::fs::remove_file(&path).unwrap();
    }
}
