//! Entry points of the VFS of the crate `logforce-sqlite`, for SQLite's `load_extension`.

#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_void};

/// Registers the VFS `logforce`. SQLite finds this function by the name of the library.
///
/// # Safety
/// Only SQLite may call it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_logforcesqlite_init(
    db: *mut c_void,
    error: *mut *mut c_char,
    functions: *const c_void,
) -> c_int {
    // SAFETY: SQLite's arguments are passed on.
    unsafe { vfs::extension_entry(db, error, functions, false) }
}

/// Registers the VFS `logforce` and makes it the default one.
///
/// # Safety
/// Only SQLite may call it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_logforcesqlite_default_init(
    db: *mut c_void,
    error: *mut *mut c_char,
    functions: *const c_void,
) -> c_int {
    // SAFETY: SQLite's arguments are passed on.
    unsafe { vfs::extension_entry(db, error, functions, true) }
}
