//! A file of the VFS below, as safe calls.

use super::c::*;
use super::memory::Name;
use crate::stock::{Code, StockFile};
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ffi::{c_char, c_int, c_void};
use std::ptr::NonNull;

/// An open file of the VFS below. It is closed by [`Real::close`], or when it is dropped.
pub struct Real {
    file: NonNull<sqlite3_file>,
    methods: sqlite3_io_methods,
    /// Layout of memory that this object owns; `None` if SQLite owns the memory.
    owned: Option<Layout>,
    /// Name to which the VFS below keeps a pointer.
    name: Option<Name>,
}

// SAFETY: SQLite uses a file in any thread, by one at a time (its mutexes, and `&mut self` here).
unsafe impl Send for Real {}

impl Real {
    /// Opens a file of `vfs` in `memory`, or in memory of this object.
    ///
    /// # Safety
    /// `vfs` must be a registered VFS, `name` null or a name that SQLite hands to `xOpen`, `flags_out` null or
    /// writable. `memory` must have `size_of_file` bytes, and live and stay where it is until this object is
    /// dropped.
    pub unsafe fn open(
        vfs: *mut sqlite3_vfs,
        name: *const c_char,
        memory: Option<NonNull<sqlite3_file>>,
        flags: c_int,
        flags_out: *mut c_int,
    ) -> Result<Real, Code> {
        // SAFETY: the VFS is registered.
        let (open, size) = unsafe { ((*vfs).open, (*vfs).size_of_file) };
        let size = usize::try_from(size)
            .unwrap_or(0)
            .max(size_of::<sqlite3_file>());
        let Ok(layout) = Layout::from_size_align(size, 16) else {
            return Err(Code(NOMEM));
        };
        let (file, owned) = match memory {
            Some(file) => (file, None),
            None => {
                // SAFETY: the size is not zero.
                let memory = unsafe { alloc_zeroed(layout) };
                let Some(memory) = NonNull::new(memory) else {
                    handle_alloc_error(layout);
                };
                (memory.cast(), Some(layout))
            }
        };
        let rc = match open {
            // SAFETY: the caller's contract; the memory is long enough and begins with zeroes.
            Some(open) => unsafe {
                (*file.as_ptr()).methods = std::ptr::null();
                open(vfs, name, file.as_ptr(), flags, flags_out)
            },
            None => MISUSE,
        };
        // SAFETY: `xOpen` has set the methods, to null if the file must not be closed.
        let methods = unsafe { (*file.as_ptr()).methods.as_ref() };
        let real = methods.map(|methods| {
            let mut all = NO_METHODS;
            // SAFETY: the methods live as long as the file. A version has the members of that version, so
            // only those are read.
            unsafe { copy_methods(methods, &mut all) };
            Real {
                file,
                methods: all,
                owned,
                name: None,
            }
        });
        match (rc, real) {
            (OK, Some(real)) => Ok(real),
            (rc, real) => {
                if let (None, Some(layout)) = (&real, owned) {
                    // SAFETY: allocated above with this layout.
                    unsafe { dealloc(file.as_ptr().cast(), layout) };
                }
                drop(real);
                Err(Code(if rc == OK { IOERR } else { rc }))
            }
        }
    }

    /// Opens a file of `vfs` in memory of this object, under a name of this object: it may outlive the
    /// connection.
    ///
    /// # Safety
    /// The contract of [`Real::open`].
    pub unsafe fn open_kept(
        vfs: *mut sqlite3_vfs,
        name: Name,
        flags: c_int,
        flags_out: *mut c_int,
    ) -> Result<Real, Code> {
        // SAFETY: the caller's contract.
        let mut real = unsafe { Real::open(vfs, name.as_ptr(), None, flags, flags_out) }?;
        real.name = Some(name);
        Ok(real)
    }

    /// Returns the version of the file's methods.
    pub fn version(&self) -> c_int {
        self.methods.version
    }

    /// Returns true if the file can have a WAL: its methods have shared memory.
    pub fn has_shared_memory(&self) -> bool {
        self.methods.version >= 2 && self.methods.shm_map.is_some()
    }

    /// Closes the file.
    pub fn close(mut self) -> Result<(), Code> {
        self.end()
    }

    fn end(&mut self) -> Result<(), Code> {
        let Some(close) = self.methods.close.take() else {
            return Ok(());
        };
        // SAFETY: open until here; nothing uses the file afterwards, as no method is left.
        let rc = unsafe { close(self.file.as_ptr()) };
        self.methods = NO_METHODS;
        if let Some(layout) = self.owned {
            // SAFETY: allocated with this layout by `open`.
            unsafe { dealloc(self.file.as_ptr().cast(), layout) };
        }
        code(rc)
    }

    /// Calls `xFileControl`.
    ///
    /// # Safety
    /// `argument` must be what SQLite hands over for this operation.
    pub unsafe fn file_control(&mut self, operation: c_int, argument: *mut c_void) -> c_int {
        match self.methods.file_control {
            // SAFETY: the file is open, and the caller guarantees the rest.
            Some(control) => unsafe { control(self.file.as_ptr(), operation, argument) },
            None => NOTFOUND,
        }
    }

    /// Calls `xShmMap`.
    ///
    /// # Safety
    /// `out` must be writable.
    pub unsafe fn shm_map(
        &mut self,
        region: c_int,
        size: c_int,
        extend: c_int,
        out: *mut *mut c_void,
    ) -> c_int {
        match self.methods.shm_map {
            // SAFETY: the file is open, and the caller guarantees the rest.
            Some(map) => unsafe { map(self.file.as_ptr(), region, size, extend, out) },
            None => IOERR,
        }
    }

    /// Calls `xFetch`.
    ///
    /// # Safety
    /// `out` must be writable.
    pub unsafe fn fetch(&mut self, at: i64, len: c_int, out: *mut *mut c_void) -> c_int {
        match self.methods.fetch {
            // SAFETY: the file is open, and the caller guarantees the rest.
            Some(fetch) => unsafe { fetch(self.file.as_ptr(), at, len, out) },
            None => IOERR,
        }
    }

    /// Calls `xUnfetch`.
    ///
    /// # Safety
    /// `page` must come from [`Real::fetch`] for this offset.
    pub unsafe fn unfetch(&mut self, at: i64, page: *mut c_void) -> c_int {
        match self.methods.unfetch {
            // SAFETY: the file is open, and the caller guarantees the rest.
            Some(unfetch) => unsafe { unfetch(self.file.as_ptr(), at, page) },
            None => IOERR,
        }
    }
}

/// Calls a method without pointers in its arguments.
macro_rules! plain {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $kind:ty),*) or $missing:expr;)*) => {
        impl Real {
            $(
                $(#[$doc])*
                pub fn $name(&mut self, $($argument: $kind),*) -> c_int {
                    match self.methods.$name {
                        // SAFETY: the file is open.
                        Some(method) => unsafe { method(self.file.as_ptr(), $($argument),*) },
                        None => $missing,
                    }
                }
            )*
        }
    };
}

plain! {
    /// Calls `xLock`.
    lock(level: c_int) or OK;
    /// Calls `xUnlock`.
    unlock(level: c_int) or OK;
    /// Calls `xSectorSize`.
    sector_size() or 0;
    /// Calls `xDeviceCharacteristics`.
    device_characteristics() or 0;
    /// Calls `xShmLock`.
    shm_lock(first: c_int, count: c_int, flags: c_int) or IOERR;
    /// Calls `xShmUnmap`.
    shm_unmap(delete: c_int) or OK;
}

impl Real {
    /// Calls `xCheckReservedLock`.
    pub fn check_reserved_lock(&mut self) -> Result<bool, Code> {
        let mut held = 0;
        let Some(check) = self.methods.check_reserved_lock else {
            return Ok(false);
        };
        // SAFETY: the file is open and `held` writable.
        code(unsafe { check(self.file.as_ptr(), &mut held) })?;
        Ok(held != 0)
    }

    /// Calls `xShmBarrier`.
    pub fn shm_barrier(&mut self) {
        if let Some(barrier) = self.methods.shm_barrier {
            // SAFETY: the file is open.
            unsafe { barrier(self.file.as_ptr()) }
        }
    }
}

impl StockFile for Real {
    fn read(&mut self, buf: &mut [u8], at: u64) -> Result<(), Code> {
        let (Some(read), Ok(len), Ok(at)) = (
            self.methods.read,
            c_int::try_from(buf.len()),
            i64::try_from(at),
        ) else {
            return Err(Code(IOERR));
        };
        // SAFETY: the file is open and the buffer has that length.
        code(unsafe { read(self.file.as_ptr(), buf.as_mut_ptr().cast(), len, at) })
    }

    fn write(&mut self, bytes: &[u8], at: u64) -> Result<(), Code> {
        let (Some(write), Ok(len), Ok(at)) = (
            self.methods.write,
            c_int::try_from(bytes.len()),
            i64::try_from(at),
        ) else {
            return Err(Code(IOERR));
        };
        // SAFETY: the file is open and the buffer has that length.
        code(unsafe { write(self.file.as_ptr(), bytes.as_ptr().cast(), len, at) })
    }

    fn truncate(&mut self, len: u64) -> Result<(), Code> {
        let (Some(truncate), Ok(len)) = (self.methods.truncate, i64::try_from(len)) else {
            return Err(Code(IOERR));
        };
        // SAFETY: the file is open.
        code(unsafe { truncate(self.file.as_ptr(), len) })
    }

    fn sync(&mut self, flags: c_int) -> Result<(), Code> {
        // SAFETY: the file is open.
        code(
            self.methods
                .sync
                .map_or(OK, |sync| unsafe { sync(self.file.as_ptr(), flags) }),
        )
    }

    fn size(&mut self) -> Result<u64, Code> {
        let mut size = 0;
        let Some(file_size) = self.methods.file_size else {
            return Err(Code(IOERR));
        };
        // SAFETY: the file is open and `size` writable.
        code(unsafe { file_size(self.file.as_ptr(), &mut size) })?;
        Ok(u64::try_from(size).unwrap_or(0))
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

fn code(rc: c_int) -> Result<(), Code> {
    match rc {
        OK => Ok(()),
        rc => Err(Code(rc)),
    }
}

/// No method at all.
const NO_METHODS: sqlite3_io_methods = sqlite3_io_methods {
    version: 0,
    close: None,
    read: None,
    write: None,
    truncate: None,
    sync: None,
    file_size: None,
    lock: None,
    unlock: None,
    check_reserved_lock: None,
    file_control: None,
    sector_size: None,
    device_characteristics: None,
    shm_map: None,
    shm_lock: None,
    shm_barrier: None,
    shm_unmap: None,
    fetch: None,
    unfetch: None,
};

/// Copies the methods that the version has.
///
/// # Safety
/// `from` must have the members of its version.
unsafe fn copy_methods(from: *const sqlite3_io_methods, to: &mut sqlite3_io_methods) {
    // SAFETY: every version begins with its number.
    let version = unsafe { (*from).version };
    let len = match version {
        ..=1 => std::mem::offset_of!(sqlite3_io_methods, shm_map),
        2 => std::mem::offset_of!(sqlite3_io_methods, fetch),
        _ => size_of::<sqlite3_io_methods>(),
    };
    // SAFETY: both have at least `len` bytes; a member of zeroes is `None`.
    unsafe {
        std::ptr::copy_nonoverlapping(from.cast::<u8>(), std::ptr::from_mut(to).cast::<u8>(), len)
    };
}
