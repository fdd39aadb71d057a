//! Overlapped reads and writes: the system works on this process's memory after the call has returned.

#![allow(unsafe_code)]

use super::handle;
use super::in_flight::{Ended, Request, Starter};
use logforce_device::AlignedBuf;
use std::io;
use std::ops::Range;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::ptr::{self, NonNull};
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use windows_sys::Win32::Foundation::{
    ERROR_HANDLE_EOF, ERROR_IO_PENDING, GENERIC_WRITE, HANDLE, STATUS_PENDING, WAIT_OBJECT_0,
};
use windows_sys::Win32::Storage::FileSystem::{
    FILE_FLAG_OVERLAPPED, FILE_FLAG_WRITE_THROUGH, ReadFile, WriteFile,
};
use windows_sys::Win32::System::IO::{GetOverlappedResult, OVERLAPPED};
use windows_sys::Win32::System::Threading::{
    CreateEventW, INFINITE, ResetEvent, WaitForSingleObject,
};

/// Events for the next operations. Each operation in flight has its own event: any of them signals the file's
/// handle, and that would wake the wrong waiter.
static EVENTS: Mutex<Vec<OwnedHandle>> = Mutex::new(Vec::new());

/// Largest number of events that are kept.
const EVENTS_KEPT: usize = 64;

/// Event that one operation uses.
struct Event(Option<OwnedHandle>);

impl Event {
    fn new() -> io::Result<Event> {
        let kept = EVENTS.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if kept.is_some() {
            return Ok(Event(kept));
        }
        // SAFETY: makes an event without name and attributes, to be reset by hand, not set.
        let event = unsafe { CreateEventW(ptr::null(), 1, 0, ptr::null()) };
        if event.is_null() {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the handle was made just now and is owned by nothing else.
        Ok(Event(Some(unsafe { OwnedHandle::from_raw_handle(event) })))
    }

    fn raw(&self) -> HANDLE {
        self.0
            .as_ref()
            .map_or(ptr::null_mut(), |e| e.as_raw_handle())
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // The system resets the event when the next operation with it starts. A signal of this operation may
        // still come after that: see `wait_over`.
        let mut kept = EVENTS.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < EVENTS_KEPT {
            kept.extend(self.0.take());
        }
    }
}

fn overlapped_at(offset: u64, event: &Event) -> OVERLAPPED {
    let mut overlapped = OVERLAPPED {
        hEvent: event.raw(),
        ..Default::default()
    };
    overlapped.Anonymous.Anonymous.Offset = offset as u32;
    overlapped.Anonymous.Anonymous.OffsetHigh = (offset >> 32) as u32;
    overlapped
}

/// Waits until the operation has ended, whatever happens, and returns the number of bytes.
///
/// Only the status in the `OVERLAPPED` means that the operation has ended; the event only says when to check
/// the status. An event may be set although its present operation has not ended. The system signals the event
/// *after* it has written the status. A thread that saw the status of the previous operation did not have to
/// wait for that signal. The signal may come when the event has gone through the pool and serves another
/// operation, on another thread. `GetOverlappedResult` would take it for the end of that operation, and
/// memory would be freed that the system still uses.
///
/// After a signal that came too early, the event is reset and the status checked again before the next wait.
/// No end is missed by that, because the system writes the status and then sets the event. If the status is
/// pending after the reset, the signal is still to come. If it is not pending, no thread waits. No other
/// thread resets the event meanwhile: the pool gives it to one operation at a time. The system resets it only
/// at the start of that same operation.
///
/// It does not matter that another thread started the operation: its status and its event belong to no
/// thread. (Windows cancels operations of a thread that ends. Such an operation ends with that status, which
/// is an error and not a success.)
///
/// # Safety
/// `overlapped` belongs to an operation that was started on `handle` and not refused, and lives; its event is
/// open, and belongs to no other operation in flight.
unsafe fn wait_over(handle: HANDLE, overlapped: *mut OVERLAPPED) -> io::Result<usize> {
    // SAFETY: the structure lives; the system may write to it at any time, so it is read by a
    // volatile access through the raw pointer. The barrier keeps what is read afterwards behind it.
    let is_over = || unsafe {
        let status = ptr::read_volatile(&raw const (*overlapped).Internal);
        fence(Ordering::Acquire);
        status != STATUS_PENDING as usize
    };
    // SAFETY: the system does not write to this field.
    let event = unsafe { (*overlapped).hEvent };
    while !is_over() {
        // SAFETY: the event is open, by the contract.
        if unsafe { WaitForSingleObject(event, INFINITE) } != WAIT_OBJECT_0 {
            // The wait failed, not the operation: to return now would free memory that the system is still
            // working on. This should not happen for such an event. The sleep avoids a busy loop.
            std::thread::sleep(Duration::from_millis(1));
        }
        if is_over() {
            break;
        }
        // SAFETY: as above. Where it fails the event stays set, and the next wait does not wait.
        if unsafe { ResetEvent(event) } == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    let mut bytes = 0;
    // SAFETY: by the contract; `bytes` is a live local. The operation is over, so this does not wait.
    if unsafe { GetOverlappedResult(handle, overlapped, &mut bytes, 0) } == 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(bytes as usize)
}

/// State that the system uses while a write is in flight. It is behind a raw pointer, because the system
/// writes to the `OVERLAPPED` meanwhile: no reference to it may exist, nor may it move.
struct Flight<M> {
    overlapped: OVERLAPPED,
    handle: Arc<OwnedHandle>,
    _event: Event,
    memory: M,
}

/// Write that was given to the system, with the memory that it uses. When dropped, it waits for the end.
pub struct Operation<M>(Option<NonNull<Flight<M>>>);

// SAFETY: the flight is owned by this value alone, and neither handle, event nor memory belongs to
// a thread (`M` may be sent); Windows allows the wait on another thread than the start.
unsafe impl<M: Send> Send for Operation<M> {}

impl<M> Operation<M> {
    /// Starts an operation by `call`, which gets the handle and the `OVERLAPPED` and returns the result of
    /// `WriteFile` or the like. `Err` returns the memory: the operation was refused.
    ///
    /// # Safety
    /// `call` makes one call that starts one operation on that handle with that `OVERLAPPED`, and
    /// lets the system work on nothing that `memory` does not keep alive and in place. `handle` was
    /// opened for overlapped I/O.
    unsafe fn start(
        handle: &Arc<OwnedHandle>,
        offset: u64,
        memory: M,
        call: impl FnOnce(HANDLE, *mut OVERLAPPED, &mut M) -> i32,
    ) -> Result<Self, (M, io::Error)> {
        let event = match Event::new() {
            Ok(event) => event,
            Err(e) => return Err((memory, e)),
        };
        let flight = NonNull::from(Box::leak(Box::new(Flight {
            overlapped: overlapped_at(offset, &event),
            handle: Arc::clone(handle),
            _event: event,
            memory,
        })));
        // From here on a panic of `call` waits for an operation that may not have started. Its status is not
        // pending then, so the wait ends at once.
        let operation = Operation(Some(flight));
        let at = flight.as_ptr();
        // SAFETY: `at` is the live allocation leaked above; the references made of it are to other
        // fields than the `OVERLAPPED`, of which only the address is taken.
        let started = unsafe {
            let raw = (*at).handle.as_raw_handle();
            call(raw, &raw mut (*at).overlapped, &mut (*at).memory)
        };
        if started != 0 {
            // Completed at once. The event is set nevertheless, and the result is waited for as usual.
            return Ok(operation);
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() == Some(ERROR_IO_PENDING as i32) {
            return Ok(operation);
        }
        std::mem::forget(operation);
        // SAFETY: the operation was refused, so the system has no pointer into the allocation, and
        // with `operation` forgotten this is its only owner.
        let flight = unsafe { Box::from_raw(at) };
        Err((flight.memory, error))
    }

    /// Waits until the system has released the memory. Works only once.
    fn end(&mut self) -> Option<(M, io::Result<usize>)> {
        let flight = self.0.take()?.as_ptr();
        // SAFETY: the live allocation that `start` leaked, of an operation that was not refused.
        let bytes = unsafe {
            let raw = (*flight).handle.as_raw_handle();
            wait_over(raw, &raw mut (*flight).overlapped)
        };
        // SAFETY: the operation is over: the system no longer uses the memory, and `take` above
        // makes this the only owner.
        let flight = unsafe { Box::from_raw(flight) };
        Some((flight.memory, bytes))
    }
}

impl<M> Drop for Operation<M> {
    fn drop(&mut self) {
        drop(self.end());
    }
}

/// Starter of writes on a file, by its plain handle or by one that writes through.
pub struct Writer {
    plain: Arc<OwnedHandle>,
    /// Flags of the plain handle.
    flags: u32,
    through: OnceLock<Arc<OwnedHandle>>,
}

impl Writer {
    /// Makes the writer from `plain`, which was opened with `FILE_FLAG_OVERLAPPED` and `flags`.
    pub fn new(plain: Arc<OwnedHandle>, flags: u32) -> Self {
        Writer {
            plain,
            flags: flags | FILE_FLAG_OVERLAPPED,
            through: OnceLock::new(),
        }
    }

    /// Returns the handle for such writes. The one that writes through is opened when it is first needed: on
    /// Windows write-through belongs to the handle, not to the write.
    pub fn handle(&self, through: bool) -> io::Result<&Arc<OwnedHandle>> {
        if !through {
            return Ok(&self.plain);
        }
        if let Some(handle) = self.through.get() {
            return Ok(handle);
        }
        let flags = self.flags | FILE_FLAG_WRITE_THROUGH;
        let opened = handle::reopen(&self.plain, GENERIC_WRITE, flags)?;
        // If two threads get here at once, one handle is kept and the other is closed.
        Ok(self.through.get_or_init(|| Arc::new(opened)))
    }
}

impl Starter for Writer {
    type Operation = Operation<(AlignedBuf, Range<usize>)>;

    fn start(&self, request: Request) -> Result<Self::Operation, Ended> {
        let Request {
            offset,
            buf,
            range,
            through,
        } = request;
        let refused = |buf, error| Ended {
            buf,
            written: Err(error),
        };
        let handle = match self.handle(through) {
            Ok(handle) => handle,
            Err(e) => return Err(refused(buf, e)),
        };
        let call = |handle, overlapped, memory: &mut (AlignedBuf, Range<usize>)| {
            let bytes = &memory.0[memory.1.clone()];
            // SAFETY: `bytes` are memory that the flight owns and that does not move with the
            // `AlignedBuf`; no reference to it exists until the operation is over.
            unsafe {
                WriteFile(
                    handle,
                    bytes.as_ptr(),
                    bytes.len() as u32,
                    ptr::null_mut(),
                    overlapped,
                )
            }
        };
        // SAFETY: one `WriteFile` on an overlapped handle, of memory that it is given to keep. The
        // length is at most 1 GiB (`in_flight::LONGEST`).
        unsafe { Operation::start(handle, offset, (buf, range), call) }
            .map_err(|((buf, _), error)| refused(buf, error))
    }

    fn wait(&self, mut operation: Self::Operation) -> Ended {
        match operation.end() {
            Some(((buf, _), written)) => Ended { buf, written },
            None => Ended {
                buf: AlignedBuf::zeroed(0, 1),
                written: Err(io::Error::other("waited for twice")),
            },
        }
    }
}

/// Reads once at `offset`; returns 0 at the end of the file. The handle was opened for overlapped I/O.
pub fn read(handle: &OwnedHandle, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
    let event = Event::new()?;
    let mut overlapped = overlapped_at(offset, &event);
    let overlapped = &raw mut overlapped;
    let raw = handle.as_raw_handle();
    let len = u32::try_from(buf.len()).unwrap_or(1 << 30);
    // SAFETY: `buf` has `len` bytes at least, and both it and the `OVERLAPPED` outlive the
    // operation: whatever comes, the code below does not leave (nor panic) before it is over.
    let started = unsafe { ReadFile(raw, buf.as_mut_ptr(), len, ptr::null_mut(), overlapped) };
    let result = if started == 0
        && io::Error::last_os_error().raw_os_error() != Some(ERROR_IO_PENDING as i32)
    {
        Err(io::Error::last_os_error())
    } else {
        // SAFETY: the operation was started on this handle with this structure, which lives.
        unsafe { wait_over(raw, overlapped) }
    };
    match result {
        Err(e) if e.raw_os_error() == Some(ERROR_HANDLE_EOF as i32) => Ok(0),
        result => result,
    }
}

#[cfg(test)]
mod tests;
