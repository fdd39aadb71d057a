//! Functions of SQLite that the VFS calls: those of the SQLite that loads the extension, or of the one that
//! the program links.

use super::c::*;
use std::ffi::{c_char, c_int, c_void};
use std::sync::OnceLock;

/// Function in SQL.
pub type SqlFunction = unsafe extern "C" fn(*mut sqlite3_context, c_int, *mut *mut sqlite3_value);
/// Entry point of an extension.
pub type Entry = unsafe extern "C" fn(*mut sqlite3, *mut *mut c_char, *const c_void) -> c_int;

macro_rules! functions {
    ($($name:ident = $index:literal: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// Functions of one SQLite.
        pub struct Api {
            $(pub $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Api {
            /// Reads the functions from the table that SQLite hands to an extension. Returns `None` if one is
            /// missing: the SQLite is older than 3.32, or was built without it.
            ///
            /// # Safety
            /// `table` must be the third argument of an extension's entry point, called by SQLite 3.32 or
            /// later: the table must have all entries up to `auto_extension`.
            unsafe fn of_table(table: *const *const c_void) -> Option<Api> {
                $(
                    // SAFETY: the caller guarantees the length. Entries are function pointers or null, their
                    // order never changes, and the types below are those of `sqlite3ext.h`.
                    let $name = unsafe {
                        std::mem::transmute::<
                            *const c_void,
                            Option<unsafe extern "C" fn($($argument),*) $(-> $result)?>,
                        >(*table.add($index))
                    }?;
                )*
                Some(Api { $($name),* })
            }
        }
    };
}

// Number of each function in `sqlite3_api_routines`.
functions! {
    column_text = 36: fn(*mut sqlite3_stmt, c_int) -> *const c_char;
    finalize = 57: fn(*mut sqlite3_stmt) -> c_int;
    free = 58: fn(*mut c_void);
    malloc = 68: fn(c_int) -> *mut c_void;
    result_error = 80: fn(*mut sqlite3_context, *const c_char, c_int);
    result_int = 82: fn(*mut sqlite3_context, c_int);
    result_text = 85: fn(*mut sqlite3_context, *const c_char, c_int, isize);
    step = 94: fn(*mut sqlite3_stmt) -> c_int;
    value_text = 109: fn(*mut sqlite3_value) -> *const c_char;
    prepare_v2 = 116: fn(*mut sqlite3, *const c_char, c_int, *mut *mut sqlite3_stmt, *mut *const c_char) -> c_int;
    file_control = 127: fn(*mut sqlite3, *const c_char, c_int, *mut c_void) -> c_int;
    vfs_find = 141: fn(*const c_char) -> *mut sqlite3_vfs;
    vfs_register = 142: fn(*mut sqlite3_vfs, c_int) -> c_int;
    context_db_handle = 149: fn(*mut sqlite3_context) -> *mut sqlite3;
    create_function_v2 = 162: fn(
        *mut sqlite3, *const c_char, c_int, c_int, *mut c_void, Option<SqlFunction>,
        *const c_void, *const c_void, *const c_void
    ) -> c_int;
    db_filename = 180: fn(*mut sqlite3, *const c_char) -> *const c_char;
    uri_parameter = 189: fn(*const c_char, *const c_char) -> *const c_char;
    auto_extension = 192: fn(Option<Entry>) -> c_int;
}

/// Number of `vfs_register` in the table.
const VFS_REGISTER: usize = 142;
/// Number of `libversion_number` in the table.
const LIBVERSION_NUMBER: usize = 67;
/// Number of `log`, which takes any number of arguments.
const LOG: usize = 167;
/// First version whose table has all functions.
const OLDEST: c_int = 3_032_000;

type Log = unsafe extern "C" fn(c_int, *const c_char, ...);

static API: OnceLock<(Api, Log)> = OnceLock::new();

/// Returns the functions. Only code that SQLite calls needs them, and it calls nothing before registration.
pub fn api() -> Option<&'static Api> {
    API.get().map(|(api, _)| api)
}

/// Writes to the log of SQLite (`SQLITE_CONFIG_LOG`), as SQLite does with its own errors.
pub fn log(code: c_int, message: &str) {
    let message = message.replace('\0', " ");
    if let (Some((_, log)), Ok(message)) = (API.get(), std::ffi::CString::new(message)) {
        // SAFETY: the format takes one string, which ends with a zero.
        unsafe { log(code, c"%s".as_ptr(), message.as_ptr()) };
    }
}

/// Keeps the functions of the SQLite that loads the extension.
///
/// # Errors
/// In words, if that SQLite is too old, or if another SQLite of the process has loaded the same copy.
///
/// # Safety
/// `table` must be what SQLite hands to an extension.
pub unsafe fn keep_table(table: *const c_void) -> Result<(), String> {
    let table = table.cast::<*const c_void>();
    if table.is_null() {
        return Err(
            "the entry point needs SQLite's table of functions: load the extension, or call \
             logforce_sqlite::register() in a program that links SQLite"
                .to_owned(),
        );
    }
    if let Some((kept, _)) = API.get() {
        // SAFETY: every SQLite that can load extensions has the entry.
        let is_same = unsafe { *table.add(VFS_REGISTER) } == kept.vfs_register as *const c_void;
        return match is_same {
            true => Ok(()),
            false => Err(
                "another SQLite of this process uses this library: load a copy of the file under \
                          another name"
                    .to_owned(),
            ),
        };
    }
    // SAFETY: every SQLite that can load extensions has the function, without arguments.
    let version = unsafe {
        std::mem::transmute::<*const c_void, Option<unsafe extern "C" fn() -> c_int>>(
            *table.add(LIBVERSION_NUMBER),
        )
        .map_or(0, |version| version())
    };
    if version < OLDEST {
        return Err(format!(
            "SQLite {}.{}.{} is too old for the VFS logforce: 3.32.0 or later is needed",
            version / 1_000_000,
            version / 1000 % 1000,
            version % 1000
        ));
    }
    // SAFETY: the version has been checked; the types are those of `sqlite3ext.h`.
    let (functions, log) = unsafe {
        let log = std::mem::transmute::<*const c_void, Option<Log>>(*table.add(LOG));
        (Api::of_table(table), log)
    };
    let (Some(functions), Some(log)) = (functions, log) else {
        return Err(
            "this SQLite was built without functions that the VFS logforce needs".to_owned(),
        );
    };
    let _ = API.set((functions, log));
    Ok(())
}

/// Keeps the functions of the SQLite that the program links.
///
/// # Errors
/// The errors of [`keep_table`].
#[cfg(feature = "linked")]
pub fn keep_linked() -> Result<(), String> {
    use libsqlite3_sys as sys;
    let mut table = [std::ptr::null(); LOG + 26];
    let mut set = |at: usize, function: *const ()| table[at] = function.cast::<c_void>();
    set(36, sys::sqlite3_column_text as *const ());
    set(57, sys::sqlite3_finalize as *const ());
    set(58, sys::sqlite3_free as *const ());
    set(
        LIBVERSION_NUMBER,
        sys::sqlite3_libversion_number as *const (),
    );
    set(68, sys::sqlite3_malloc as *const ());
    set(80, sys::sqlite3_result_error as *const ());
    set(82, sys::sqlite3_result_int as *const ());
    set(85, sys::sqlite3_result_text as *const ());
    set(94, sys::sqlite3_step as *const ());
    set(109, sys::sqlite3_value_text as *const ());
    set(116, sys::sqlite3_prepare_v2 as *const ());
    set(127, sys::sqlite3_file_control as *const ());
    set(141, sys::sqlite3_vfs_find as *const ());
    set(VFS_REGISTER, sys::sqlite3_vfs_register as *const ());
    set(149, sys::sqlite3_context_db_handle as *const ());
    set(162, sys::sqlite3_create_function_v2 as *const ());
    set(LOG, sys::sqlite3_log as *const ());
    set(180, sys::sqlite3_db_filename as *const ());
    set(189, sys::sqlite3_uri_parameter as *const ());
    set(192, sys::sqlite3_auto_extension as *const ());
    // SAFETY: the table has all entries up to the last one that is used, at the numbers that SQLite gives them.
    // The declarations in `c` have the layouts of those in `libsqlite3-sys`.
    unsafe { keep_table(table.as_ptr().cast()) }
}
