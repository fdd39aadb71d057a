//! The VFS: which files are opened in which way. All other methods are those of the VFS below.

use super::api::api;
use super::c::*;
use super::file::{Database, Open, REAL_AT, guarded, memory_below, set_open};
use super::memory::{Name, path};
use super::names::Names;
use super::pragma;
use super::real::Real;
use crate::connection::{Connection, HAS_SUPER_JOURNAL};
use crate::journal::{Boxed, Ended, Slot};
use crate::stock::Code;
use crate::wal::Wal;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

/// Name of the VFS.
pub const NAME: &CStr = c"logforce";

/// First bytes of what a VFS of this project has as its data, in every version.
const TAG: [u8; 16] = *b"logforce-sqlite\0";

/// Data of the registered VFS.
#[repr(C)]
struct Registered {
    tag: [u8; 16],
    below: *mut sqlite3_vfs,
}

/// The registered VFS. SQLite keeps the pointer for the rest of the process.
static REGISTERED: Mutex<Option<Pointer>> = Mutex::new(None);

struct Pointer(NonNull<sqlite3_vfs>);
// SAFETY: SQLite's functions may be called with the VFS from any thread.
unsafe impl Send for Pointer {}

/// Registers the VFS, unless it is registered. Makes it the default VFS if wanted. Returns false if another copy
/// of this crate has registered it.
///
/// # Errors
/// In words.
pub fn register(make_default: bool) -> Result<bool, String> {
    let api = api().ok_or("SQLite has not been initialised")?;
    let mut registered = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner);
    let (vfs, is_own) = match &*registered {
        Some(Pointer(vfs)) => (vfs.as_ptr(), true),
        None => {
            // SAFETY: the name ends with a zero.
            let other = unsafe { (api.vfs_find)(NAME.as_ptr()) };
            match other.is_null() {
                true => (new_vfs()?, true),
                // Another copy of this crate, perhaps of another version. Two of them over each other would
                // keep two descriptors of each journal.
                // SAFETY: a registered VFS.
                false if unsafe { is_ours(other) } => (other, false),
                false => return Err("another VFS is registered under the name logforce".to_owned()),
            }
        }
    };
    // SAFETY: the VFS is complete and lives for ever. To register it again only changes the default. After
    // `sqlite3_shutdown` SQLite has forgotten it.
    let rc = unsafe { (api.vfs_register)(vfs, make_default.into()) };
    if rc != OK {
        return Err(format!(
            "SQLite does not register the VFS logforce: error {rc}"
        ));
    }
    if is_own {
        *registered = NonNull::new(vfs).map(Pointer);
    }
    Ok(is_own)
}

/// Returns true if a copy of this crate has made the VFS.
///
/// # Safety
/// `vfs` must be registered.
unsafe fn is_ours(vfs: *mut sqlite3_vfs) -> bool {
    // SAFETY: the caller's contract. Any data of another VFS that is not null has some bytes; the tag ends at
    // the first that differs.
    unsafe {
        let data = (*vfs).app_data.cast::<u8>();
        !data.is_null()
            && TAG
                .iter()
                .enumerate()
                .all(|(at, byte)| *data.add(at) == *byte)
    }
}

/// Makes the VFS over SQLite's default one.
fn new_vfs() -> Result<*mut sqlite3_vfs, String> {
    let api = api().ok_or("SQLite has not been initialised")?;
    // SAFETY: null asks for the default VFS, which is registered for the rest of the process.
    let below = unsafe { (api.vfs_find)(std::ptr::null()) };
    // SAFETY: as above.
    let Some(stock) = (unsafe { below.as_ref() }) else {
        return Err("SQLite has no VFS below which logforce could work".to_owned());
    };
    let data = Box::leak(Box::new(Registered { tag: TAG, below }));
    Ok(Box::leak(Box::new(sqlite3_vfs {
        version: stock.version.min(3),
        size_of_file: stock.size_of_file + REAL_AT as c_int,
        longest_path: stock.longest_path,
        next: std::ptr::null_mut(),
        name: NAME.as_ptr(),
        app_data: std::ptr::from_mut(data).cast(),
        open: Some(open),
        delete: Some(delete),
        access: Some(access),
        full_pathname: Some(full_pathname),
        dl_open: Some(dl_open),
        dl_error: Some(dl_error),
        dl_sym: Some(dl_sym),
        dl_close: Some(dl_close),
        randomness: Some(randomness),
        sleep: Some(sleep),
        current_time: Some(current_time),
        last_error: Some(last_error),
        current_time_int64: Some(current_time_int64),
        set_system_call: Some(set_system_call),
        get_system_call: Some(get_system_call),
        next_system_call: Some(next_system_call),
    })))
}

// SAFETY of all functions below: SQLite calls them with this VFS, with texts that end with a zero, with memory
// for a file of this VFS, and with writable places for results.

unsafe fn below(vfs: *mut sqlite3_vfs) -> *mut sqlite3_vfs {
    // SAFETY: see above.
    unsafe { (*(*vfs).app_data.cast::<Registered>()).below }
}

unsafe extern "C" fn open(
    vfs: *mut sqlite3_vfs,
    name: *const c_char,
    file: *mut sqlite3_file,
    flags: c_int,
    flags_out: *mut c_int,
) -> c_int {
    // SAFETY: see above.
    let below = unsafe { below(vfs) };
    let Some(file) = NonNull::new(file) else {
        return MISUSE;
    };
    // SAFETY: see above.
    unsafe { (*file.as_ptr()).methods = std::ptr::null() };
    guarded(|| {
        // SAFETY: see above.
        let opened = unsafe { open_own(below, name, file, flags, flags_out) }?;
        match opened {
            // SAFETY: see above.
            Some(open) => unsafe { set_open(file, open) },
            None => {
                // To undo a transaction, SQLite opens a super-journal for reading.
                if flags & OPEN_SUPER_JOURNAL != 0 && flags & OPEN_CREATE != 0 {
                    HAS_SUPER_JOURNAL.set(true);
                }
                // SQLite may look for a super-journal's name in a journal that this process has open.
                // SAFETY: see above.
                let slot = (!name.is_null()).then(|| unsafe { path(name) }).flatten();
                if let Some(slot) = slot.and_then(|path| Slot::at(&path)) {
                    slot.flush()?;
                }
                // SAFETY: see above. A file of the VFS below fits into the memory, and is all its own.
                let rc = unsafe {
                    let open = (*below).open.ok_or(Code(MISUSE))?;
                    open(below, name, file.as_ptr(), flags, flags_out)
                };
                if rc != OK {
                    return Err(Code(rc));
                }
            }
        }
        Ok(())
    })
}

/// Opens a file that is not left to the VFS below; `None` for any other one.
///
/// # Safety
/// See above.
unsafe fn open_own(
    below: *mut sqlite3_vfs,
    name: *const c_char,
    file: NonNull<sqlite3_file>,
    flags: c_int,
    flags_out: *mut c_int,
) -> Result<Option<Open>, Code> {
    if name.is_null() {
        return Ok(None);
    }
    // SAFETY: see above.
    let Some(path) = (unsafe { path(name) }) else {
        return Ok(None);
    };
    // SAFETY: see above.
    let here =
        |name| unsafe { Real::open(below, name, Some(memory_below(file)), flags, flags_out) };
    if flags & OPEN_MAIN_DB != 0 {
        // Only with this flag the name is in SQLite's memory for certain, and parameters follow it.
        let has_parameters = flags & OPEN_URI != 0;
        let file = here(name)?;
        let connection = Connection::new(path.clone(), Slot::of(&path));
        // SAFETY: see above.
        if has_parameters && let Err(message) = unsafe { pragma::of_uri(&connection, name) } {
            connection.slot.leave();
            super::log(Code(ERROR), &message);
            return Err(Code(ERROR));
        }
        let connection = Arc::new(connection);
        // SAFETY: see above.
        let names = unsafe { Names::of(name, has_parameters) };
        names.register(&connection);
        let database = Database::new(file, connection, names);
        return Ok(Some(Open::Database(database)));
    }
    let connection = || Names::connection(name, &path);
    if flags & OPEN_WAL != 0 {
        let Some(connection) = connection() else {
            return Ok(None);
        };
        connection.log_is_open();
        return Ok(Some(Open::Wal(Wal::new(here(name)?, connection))));
    }
    // A journal that is only looked at must be one that nothing keeps open.
    if flags & OPEN_MAIN_JOURNAL != 0 && flags & OPEN_READWRITE != 0 && cfg!(unix) {
        let Some(connection) = connection() else {
            return Ok(None);
        };
        let mut answered = flags;
        let opened = connection.slot.open(&connection.stats, || {
            // A hot journal to be undone. The VFS below syncs its directory only if it may create the file, and the
            // next transaction would rely on a name that no sync covers.
            if flags & OPEN_CREATE == 0 {
                return Ok(None);
            }
            // SAFETY: see above; the name is copied, because the file is used longer than this connection.
            let real = unsafe { Real::open_kept(below, Name::of(name), flags, &raw mut answered) }?;
            // Without the permission to write, a file is opened for reading.
            Ok((answered & OPEN_READWRITE != 0).then(|| Box::new(real) as Boxed))
        })?;
        if !opened {
            return Ok(None);
        }
        if !flags_out.is_null() {
            // SAFETY: see above.
            unsafe { *flags_out = answered };
        }
        return Ok(Some(Open::Journal(connection)));
    }
    Ok(None)
}

unsafe extern "C" fn delete(vfs: *mut sqlite3_vfs, name: *const c_char, sync: c_int) -> c_int {
    HAS_SUPER_JOURNAL.set(false);
    // SAFETY: see above.
    unsafe {
        let mut how = Ended::Not { is_synced: false };
        let rc = guarded(|| {
            if let Some(slot) = path(name).and_then(|path| Slot::at(&path)) {
                how = slot.end_by_header()?;
            }
            Ok(())
        });
        let Ended::Not { is_synced } = how else {
            return OK;
        };
        if rc != OK {
            return rc;
        }
        let below = below(vfs);
        let sync = sync.max(is_synced.into());
        (*below)
            .delete
            .map_or(IOERR, |delete| delete(below, name, sync))
    }
}

unsafe extern "C" fn access(
    vfs: *mut sqlite3_vfs,
    name: *const c_char,
    flags: c_int,
    answer: *mut c_int,
) -> c_int {
    // SAFETY: see above.
    unsafe {
        let below = below(vfs);
        if flags == ACCESS_EXISTS {
            let mut is_ended = false;
            guarded(|| {
                let connection = Names::of_journal(name);
                is_ended = connection.is_some_and(|connection| connection.slot.is_ended());
                Ok(())
            });
            if is_ended {
                *answer = 0;
                return OK;
            }
        }
        (*below)
            .access
            .map_or(IOERR, |access| access(below, name, flags, answer))
    }
}

/// Passes a call on to the VFS below.
macro_rules! passed_on {
    ($($name:ident($($argument:ident: $kind:ty),*) -> $result:ty, else $missing:expr;)*) => {
        $(
            unsafe extern "C" fn $name(vfs: *mut sqlite3_vfs, $($argument: $kind),*) -> $result {
                // SAFETY: see above.
                unsafe {
                    let below = below(vfs);
                    (*below).$name.map_or($missing, |call| call(below, $($argument),*))
                }
            }
        )*
    };
}

passed_on! {
    full_pathname(name: *const c_char, len: c_int, out: *mut c_char) -> c_int, else IOERR;
    dl_open(name: *const c_char) -> *mut c_void, else std::ptr::null_mut();
    dl_error(len: c_int, out: *mut c_char) -> (), else ();
    dl_sym(handle: *mut c_void, name: *const c_char) -> SystemCall, else None;
    dl_close(handle: *mut c_void) -> (), else ();
    randomness(len: c_int, out: *mut c_char) -> c_int, else 0;
    sleep(microseconds: c_int) -> c_int, else 0;
    current_time(out: *mut f64) -> c_int, else IOERR;
    last_error(len: c_int, out: *mut c_char) -> c_int, else 0;
    current_time_int64(out: *mut i64) -> c_int, else IOERR;
    set_system_call(name: *const c_char, call: SystemCall) -> c_int, else NOTFOUND;
    get_system_call(name: *const c_char) -> SystemCall, else None;
    next_system_call(name: *const c_char) -> *const c_char, else std::ptr::null();
}
