//! Methods of an open file, as SQLite calls them.

use super::api::api;
use super::c::*;
use super::names::Names;
use super::pragma;
use super::real::Real;
use crate::connection::Connection;
use crate::stock::{Code, StockFile};
use crate::wal::Wal;
use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::Arc;

/// Database file of a connection.
pub struct Database {
    file: Real,
    connection: Arc<Connection>,
    names: Names,
    /// Place where SQLite keeps the connection that uses the file, by `SQLITE_FCNTL_PDB`; null until then.
    user: *const *mut sqlite3,
}

/// An open file of this VFS.
pub enum Open {
    Database(Database),
    Wal(Wal<Real>),
    Journal(Arc<Connection>),
}

impl Database {
    pub fn new(file: Real, connection: Arc<Connection>, names: Names) -> Database {
        Database {
            file,
            connection,
            names,
            user: std::ptr::null(),
        }
    }

    /// Returns true if SQLite would report an error of the second phase of a commit, or open the super-journal of a
    /// transaction of several files by this VFS. It opens that by the VFS of the main database, and opens none if
    /// that has no file.
    ///
    /// # Safety
    /// SQLite must call a method of this file.
    unsafe fn may_group(&self) -> bool {
        // SAFETY: the place lives as long as the file. The name is null, or one in SQLite's memory with a list of
        // parameters behind it.
        unsafe {
            let (Some(api), Some(user)) = (api(), self.user.as_ref()) else {
                return false;
            };
            let main = (api.db_filename)(*user, std::ptr::null());
            !main.is_null() && (*main == 0 || Names::of(main, true).are_own())
        }
    }
}

/// Beginning of a file of this VFS. The file of the VFS below follows, [`REAL_AT`] bytes behind.
#[repr(C)]
pub struct FileMemory {
    base: sqlite3_file,
    open: *mut Open,
}

/// Offset of the file of the VFS below, bytes; it keeps the alignment of SQLite's memory.
pub const REAL_AT: usize = size_of::<FileMemory>().next_multiple_of(16);

/// Returns the memory for the file of the VFS below.
///
/// # Safety
/// `file` must be memory of a file of this VFS.
pub unsafe fn memory_below(file: NonNull<sqlite3_file>) -> NonNull<sqlite3_file> {
    // SAFETY: the memory has `REAL_AT` bytes and those that the VFS below asks for.
    unsafe { file.cast::<u8>().add(REAL_AT) }.cast()
}

/// Completes an opening.
///
/// # Safety
/// `file` must be memory of a file of this VFS, and not be open.
pub unsafe fn set_open(file: NonNull<sqlite3_file>, open: Open) {
    let methods = match &open {
        Open::Database(db) if db.file.has_shared_memory() => match db.file.version() {
            2 => &METHODS[1],
            _ => &METHODS[2],
        },
        _ => &METHODS[0],
    };
    let memory = file.cast::<FileMemory>().as_ptr();
    // SAFETY: the caller's contract.
    unsafe {
        (*memory).open = Box::into_raw(Box::new(open));
        (*memory).base.methods = methods;
    }
}

/// Returns the connection if the file is a database file of this VFS.
///
/// # Safety
/// `file` must be null or a file that SQLite knows.
pub unsafe fn connection_of(file: *mut sqlite3_file) -> Option<Arc<Connection>> {
    // SAFETY: the caller's contract; the methods tell the VFS, and so the layout.
    let methods = unsafe { file.as_ref() }?.methods;
    if !METHODS.iter().any(|m| std::ptr::eq(m, methods)) {
        return None;
    }
    // SAFETY: an open file of this VFS has the layout, and SQLite uses it from one thread at a time.
    match unsafe { (*file.cast::<FileMemory>()).open.as_ref() }? {
        Open::Database(database) => Some(database.connection.clone()),
        _ => None,
    }
}

/// Calls `act` with the open file.
///
/// # Safety
/// `file` must be an open file of this VFS.
unsafe fn with(file: *mut sqlite3_file, act: impl FnOnce(&mut Open) -> Result<(), Code>) -> c_int {
    // SAFETY: the caller's contract. SQLite uses a file from one thread at a time.
    let open = unsafe { &mut *(*file.cast::<FileMemory>()).open };
    guarded(|| act(open))
}

/// Returns the result code of `act`. A panic must not unwind into C, and counts as an I/O error.
pub fn guarded(act: impl FnOnce() -> Result<(), Code>) -> c_int {
    match catch_unwind(AssertUnwindSafe(act)) {
        Ok(Ok(())) => OK,
        Ok(Err(Code(rc))) => rc,
        Err(_) => IOERR,
    }
}

fn raw(rc: c_int) -> Result<(), Code> {
    match rc {
        OK => Ok(()),
        rc => Err(Code(rc)),
    }
}

static METHODS: [sqlite3_io_methods; 3] = [methods(1), methods(2), methods(3)];

const fn methods(version: c_int) -> sqlite3_io_methods {
    sqlite3_io_methods {
        version,
        close: Some(close),
        read: Some(read),
        write: Some(write),
        truncate: Some(truncate),
        sync: Some(sync),
        file_size: Some(file_size),
        lock: Some(lock),
        unlock: Some(unlock),
        check_reserved_lock: Some(check_reserved_lock),
        file_control: Some(file_control),
        sector_size: Some(sector_size),
        device_characteristics: Some(device_characteristics),
        shm_map: Some(shm_map),
        shm_lock: Some(shm_lock),
        shm_barrier: Some(shm_barrier),
        shm_unmap: Some(shm_unmap),
        fetch: Some(fetch),
        unfetch: Some(unfetch),
    }
}

// SAFETY of all functions below: SQLite calls them with an open file of this VFS, with buffers that have the
// given lengths, and with writable places for results.

unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    let memory = file.cast::<FileMemory>();
    // SAFETY: see above; `set_open` made the pointer by `Box::into_raw`, and the file is used no more.
    let open = unsafe {
        (*memory).base.methods = std::ptr::null();
        Box::from_raw((*memory).open)
    };
    guarded(|| match *open {
        Open::Database(mut database) => {
            database.names.forget();
            database.clear_journal();
            database.file.close()
        }
        Open::Wal(wal) => {
            let (file, flushed) = wal.close();
            file.close().and(flushed)
        }
        Open::Journal(own) => own.slot.close(&own.stats),
    })
}

impl Database {
    /// Removes a kept journal when the last connection of the process ends, if no other process uses it.
    fn clear_journal(&mut self) {
        let slot = &self.connection.slot;
        if !slot.leave() {
            return;
        }
        if self.file.lock(LOCK_SHARED) == OK {
            // Not if the journal may be undone: other processes would see the reserved lock, and believe that its
            // transaction still runs.
            if slot.is_ended() && self.file.lock(LOCK_RESERVED) == OK {
                slot.clear();
            }
            self.file.unlock(LOCK_NONE);
        }
    }
}

unsafe extern "C" fn read(file: *mut sqlite3_file, to: *mut c_void, len: c_int, at: i64) -> c_int {
    let (Ok(len), Ok(at)) = (usize::try_from(len), u64::try_from(at)) else {
        return IOERR;
    };
    // SAFETY: see above. The bytes may be uninitialised memory of SQLite; they are only written to.
    let buf = unsafe { std::slice::from_raw_parts_mut(to.cast::<u8>(), len) };
    // SAFETY: see above.
    unsafe {
        with(file, |open| match open {
            Open::Database(database) => database.file.read(buf, at),
            Open::Wal(wal) => wal.read(buf, at),
            Open::Journal(own) => own.slot.read(buf, at),
        })
    }
}

unsafe extern "C" fn write(
    file: *mut sqlite3_file,
    from: *const c_void,
    len: c_int,
    at: i64,
) -> c_int {
    let (Ok(len), Ok(at)) = (usize::try_from(len), u64::try_from(at)) else {
        return IOERR;
    };
    // SAFETY: see above.
    let bytes = unsafe { std::slice::from_raw_parts(from.cast::<u8>(), len) };
    // SAFETY: see above.
    unsafe {
        with(file, |open| match open {
            Open::Database(database) => {
                database.connection.slot.flush()?;
                database.connection.stats.wrote(len);
                database.file.write(bytes, at)
            }
            Open::Wal(wal) => wal.write(bytes, at),
            Open::Journal(own) => own.slot.write(bytes, at, &own.stats),
        })
    }
}

unsafe extern "C" fn truncate(file: *mut sqlite3_file, len: i64) -> c_int {
    let Ok(len) = u64::try_from(len) else {
        return IOERR;
    };
    // SAFETY: see above.
    unsafe {
        with(file, |open| match open {
            Open::Database(database) => {
                database.connection.slot.flush()?;
                database.file.truncate(len)
            }
            Open::Wal(wal) => wal.truncate(len),
            Open::Journal(own) => own.slot.truncate(len),
        })
    }
}

unsafe extern "C" fn sync(file: *mut sqlite3_file, flags: c_int) -> c_int {
    // SAFETY: see above.
    unsafe {
        with(file, |open| match open {
            Open::Database(database) => {
                database.connection.stats.synced();
                database.file.sync(flags)
            }
            Open::Wal(wal) => wal.sync(flags),
            Open::Journal(own) => own.slot.sync(flags),
        })
    }
}

unsafe extern "C" fn file_size(file: *mut sqlite3_file, size: *mut i64) -> c_int {
    // SAFETY: see above.
    unsafe {
        with(file, |open| {
            let len = match open {
                Open::Database(database) => database.file.size(),
                Open::Wal(wal) => wal.size(),
                Open::Journal(own) => own.slot.size(),
            }?;
            *size = i64::try_from(len).unwrap_or(i64::MAX);
            Ok(())
        })
    }
}

unsafe extern "C" fn lock(file: *mut sqlite3_file, level: c_int) -> c_int {
    // SAFETY: see above.
    unsafe {
        with(file, |open| match open {
            Open::Database(database) => raw(database.file.lock(level)),
            _ => Ok(()),
        })
    }
}

unsafe extern "C" fn unlock(file: *mut sqlite3_file, level: c_int) -> c_int {
    // SAFETY: see above.
    unsafe {
        with(file, |open| match open {
            Open::Database(database) => {
                // In `locking_mode=EXCLUSIVE` only this ends a transaction that was rolled back.
                database.connection.end_turn();
                raw(database.file.unlock(level))
            }
            _ => Ok(()),
        })
    }
}

unsafe extern "C" fn check_reserved_lock(file: *mut sqlite3_file, held: *mut c_int) -> c_int {
    // SAFETY: see above.
    unsafe {
        with(file, |open| {
            *held = match open {
                Open::Database(database) => database.file.check_reserved_lock()?.into(),
                _ => 0,
            };
            Ok(())
        })
    }
}

unsafe extern "C" fn file_control(
    file: *mut sqlite3_file,
    operation: c_int,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: see above.
    unsafe {
        with(file, |open| {
            let below = match open {
                Open::Database(database) => {
                    match operation {
                        FCNTL_PRAGMA => {
                            let answer = pragma::call(&database.connection, argument.cast());
                            if answer != NOTFOUND {
                                return raw(answer);
                            }
                        }
                        FCNTL_PDB => database.user = argument.cast(),
                        FCNTL_COMMIT_PHASETWO => database.connection.second_phase()?,
                        _ => {}
                    }
                    &mut database.file
                }
                Open::Wal(wal) => wal.file(),
                Open::Journal(..) => return Err(Code(NOTFOUND)),
            };
            let answer = below.file_control(operation, argument);
            if operation == FCNTL_VFSNAME && answer == OK {
                super::memory::prepend_name(argument.cast());
            }
            raw(answer)
        })
    }
}

unsafe extern "C" fn sector_size(file: *mut sqlite3_file) -> c_int {
    // SAFETY: see above.
    match unsafe { &mut *(*file.cast::<FileMemory>()).open } {
        Open::Database(database) => database.file.sector_size(),
        Open::Wal(wal) => wal.file().sector_size(),
        Open::Journal(_) => 0,
    }
}

unsafe extern "C" fn device_characteristics(file: *mut sqlite3_file) -> c_int {
    // SAFETY: see above.
    match unsafe { &mut *(*file.cast::<FileMemory>()).open } {
        Open::Database(database) => database.file.device_characteristics(),
        Open::Wal(wal) => wal.file().device_characteristics(),
        Open::Journal(_) => 0,
    }
}

/// Calls `act` with a database file; only those have shared memory.
///
/// # Safety
/// `file` must be an open file of this VFS.
unsafe fn with_database(
    file: *mut sqlite3_file,
    act: impl FnOnce(&mut Database) -> Result<(), Code>,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        with(file, |open| match open {
            Open::Database(database) => act(database),
            _ => Err(Code(MISUSE)),
        })
    }
}

unsafe extern "C" fn shm_map(
    file: *mut sqlite3_file,
    region: c_int,
    size: c_int,
    extend: c_int,
    out: *mut *mut c_void,
) -> c_int {
    // SAFETY: see above.
    unsafe { with_database(file, |db| raw(db.file.shm_map(region, size, extend, out))) }
}

unsafe extern "C" fn shm_lock(
    file: *mut sqlite3_file,
    first: c_int,
    count: c_int,
    flags: c_int,
) -> c_int {
    // SAFETY: see above.
    unsafe {
        with_database(file, |db| {
            let takes = flags & SHM_LOCK != 0;
            if takes {
                db.connection.check()?;
            }
            raw(db.file.shm_lock(first, count, flags))?;
            // The first of the locks is the one of writers.
            if first == 0 {
                let may_group = takes && db.connection.groups() && db.may_group();
                db.connection.write_lock(may_group);
            }
            Ok(())
        })
    }
}

unsafe extern "C" fn shm_barrier(file: *mut sqlite3_file) {
    // SAFETY: see above.
    unsafe {
        with_database(file, |db| {
            db.file.shm_barrier();
            Ok(())
        })
    };
}

unsafe extern "C" fn shm_unmap(file: *mut sqlite3_file, delete: c_int) -> c_int {
    // SAFETY: see above.
    unsafe { with_database(file, |db| raw(db.file.shm_unmap(delete))) }
}

unsafe extern "C" fn fetch(
    file: *mut sqlite3_file,
    at: i64,
    len: c_int,
    out: *mut *mut c_void,
) -> c_int {
    // SAFETY: see above.
    unsafe { with_database(file, |db| raw(db.file.fetch(at, len, out))) }
}

unsafe extern "C" fn unfetch(file: *mut sqlite3_file, at: i64, page: *mut c_void) -> c_int {
    // SAFETY: see above.
    unsafe { with_database(file, |db| raw(db.file.unfetch(at, page))) }
}
