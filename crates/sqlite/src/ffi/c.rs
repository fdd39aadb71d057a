//! Layouts and numbers of SQLite's C interface, which its documentation guarantees to keep.
//!
//! Source: `sqlite3.h` and <https://sqlite.org/c3ref/intro.html>.

#![allow(non_camel_case_types)]

use std::ffi::{c_char, c_int, c_void};

pub const OK: c_int = 0;
pub const ERROR: c_int = 1;
pub const NOMEM: c_int = 7;
pub const IOERR: c_int = 10;
pub const NOTFOUND: c_int = 12;
pub const MISUSE: c_int = 21;
pub const ROW: c_int = 100;
pub const OK_LOAD_PERMANENTLY: c_int = 256;

pub const OPEN_READWRITE: c_int = 0x2;
pub const OPEN_CREATE: c_int = 0x4;
pub const OPEN_URI: c_int = 0x40;
pub const OPEN_MAIN_DB: c_int = 0x100;
pub const OPEN_MAIN_JOURNAL: c_int = 0x800;
pub const OPEN_SUPER_JOURNAL: c_int = 0x4000;
pub const OPEN_WAL: c_int = 0x80000;

pub const ACCESS_EXISTS: c_int = 0;

pub const LOCK_NONE: c_int = 0;
pub const LOCK_SHARED: c_int = 1;
pub const LOCK_RESERVED: c_int = 2;

pub const SHM_LOCK: c_int = 2;

pub const FCNTL_FILE_POINTER: c_int = 7;
pub const FCNTL_VFSNAME: c_int = 12;
pub const FCNTL_PRAGMA: c_int = 14;
pub const FCNTL_COMMIT_PHASETWO: c_int = 22;
pub const FCNTL_PDB: c_int = 30;

pub const UTF8: c_int = 1;
/// `SQLITE_TRANSIENT`: SQLite copies the text.
pub const TRANSIENT: isize = -1;

/// A database connection. Only SQLite knows what is in it.
#[repr(C)]
pub struct sqlite3 {
    _opaque: [u8; 0],
}
/// A statement.
#[repr(C)]
pub struct sqlite3_stmt {
    _opaque: [u8; 0],
}
/// A call of a function from SQL.
#[repr(C)]
pub struct sqlite3_context {
    _opaque: [u8; 0],
}
/// An argument of such a call.
#[repr(C)]
pub struct sqlite3_value {
    _opaque: [u8; 0],
}

/// An open file: SQLite reserves `szOsFile` bytes, which begin with this.
#[repr(C)]
pub struct sqlite3_file {
    pub methods: *const sqlite3_io_methods,
}

type F<T> = Option<T>;
type File = *mut sqlite3_file;

/// The methods of an open file. A version has all members of the versions below.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sqlite3_io_methods {
    pub version: c_int,
    pub close: F<unsafe extern "C" fn(File) -> c_int>,
    pub read: F<unsafe extern "C" fn(File, *mut c_void, c_int, i64) -> c_int>,
    pub write: F<unsafe extern "C" fn(File, *const c_void, c_int, i64) -> c_int>,
    pub truncate: F<unsafe extern "C" fn(File, i64) -> c_int>,
    pub sync: F<unsafe extern "C" fn(File, c_int) -> c_int>,
    pub file_size: F<unsafe extern "C" fn(File, *mut i64) -> c_int>,
    pub lock: F<unsafe extern "C" fn(File, c_int) -> c_int>,
    pub unlock: F<unsafe extern "C" fn(File, c_int) -> c_int>,
    pub check_reserved_lock: F<unsafe extern "C" fn(File, *mut c_int) -> c_int>,
    pub file_control: F<unsafe extern "C" fn(File, c_int, *mut c_void) -> c_int>,
    pub sector_size: F<unsafe extern "C" fn(File) -> c_int>,
    pub device_characteristics: F<unsafe extern "C" fn(File) -> c_int>,
    // From version 2 on.
    pub shm_map: F<unsafe extern "C" fn(File, c_int, c_int, c_int, *mut *mut c_void) -> c_int>,
    pub shm_lock: F<unsafe extern "C" fn(File, c_int, c_int, c_int) -> c_int>,
    pub shm_barrier: F<unsafe extern "C" fn(File)>,
    pub shm_unmap: F<unsafe extern "C" fn(File, c_int) -> c_int>,
    // From version 3 on.
    pub fetch: F<unsafe extern "C" fn(File, i64, c_int, *mut *mut c_void) -> c_int>,
    pub unfetch: F<unsafe extern "C" fn(File, i64, *mut c_void) -> c_int>,
}

type Vfs = *mut sqlite3_vfs;
/// A system call, as SQLite's tests replace it.
pub type SystemCall = F<unsafe extern "C" fn()>;

/// A virtual file system.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sqlite3_vfs {
    pub version: c_int,
    pub size_of_file: c_int,
    pub longest_path: c_int,
    pub next: Vfs,
    pub name: *const c_char,
    pub app_data: *mut c_void,
    pub open: F<unsafe extern "C" fn(Vfs, *const c_char, File, c_int, *mut c_int) -> c_int>,
    pub delete: F<unsafe extern "C" fn(Vfs, *const c_char, c_int) -> c_int>,
    pub access: F<unsafe extern "C" fn(Vfs, *const c_char, c_int, *mut c_int) -> c_int>,
    pub full_pathname: F<unsafe extern "C" fn(Vfs, *const c_char, c_int, *mut c_char) -> c_int>,
    pub dl_open: F<unsafe extern "C" fn(Vfs, *const c_char) -> *mut c_void>,
    pub dl_error: F<unsafe extern "C" fn(Vfs, c_int, *mut c_char)>,
    pub dl_sym: F<unsafe extern "C" fn(Vfs, *mut c_void, *const c_char) -> SystemCall>,
    pub dl_close: F<unsafe extern "C" fn(Vfs, *mut c_void)>,
    pub randomness: F<unsafe extern "C" fn(Vfs, c_int, *mut c_char) -> c_int>,
    pub sleep: F<unsafe extern "C" fn(Vfs, c_int) -> c_int>,
    pub current_time: F<unsafe extern "C" fn(Vfs, *mut f64) -> c_int>,
    pub last_error: F<unsafe extern "C" fn(Vfs, c_int, *mut c_char) -> c_int>,
    // From version 2 on.
    pub current_time_int64: F<unsafe extern "C" fn(Vfs, *mut i64) -> c_int>,
    // From version 3 on.
    pub set_system_call: F<unsafe extern "C" fn(Vfs, *const c_char, SystemCall) -> c_int>,
    pub get_system_call: F<unsafe extern "C" fn(Vfs, *const c_char) -> SystemCall>,
    pub next_system_call: F<unsafe extern "C" fn(Vfs, *const c_char) -> *const c_char>,
}
