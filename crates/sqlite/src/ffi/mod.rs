//! SQLite's C interface. All `unsafe` code of the crate is here.
//!
//! Files and VFS of SQLite become safe calls (`real`), and the safe parts of the crate become methods that
//! SQLite calls (`vfs`, `file`, `functions`).

#![allow(unsafe_code)]

mod api;
mod c;
mod file;
mod functions;
mod memory;
mod names;
mod pragma;
mod real;
mod vfs;

use crate::stock::Code;
use std::ffi::{c_char, c_int, c_void};

/// Writes to the log of SQLite.
pub fn log(code: Code, message: &str) {
    api::log(code.0, message);
}

/// Entry point of the loadable extension: registers the VFS, as the default one if wanted, and adds the
/// functions to this and to all later connections.
///
/// # Safety
/// The pointers must be the arguments with which SQLite calls an extension.
pub unsafe fn extension_entry(
    db: *mut c_void,
    error: *mut *mut c_char,
    table: *const c_void,
    make_default: bool,
) -> c_int {
    // SAFETY: the caller's contract.
    let entered = unsafe {
        api::keep_table(table)
            .and_then(|()| register_all(make_default))
            .and_then(|is_own| match is_own && !db.is_null() {
                false => Ok(()),
                true => functions::add(db.cast())
                    .map_err(|rc| format!("cannot add the functions of logforce: error {rc}")),
            })
    };
    match entered {
        // SQLite must not unload the library: it has pointers into it.
        Ok(()) => c::OK_LOAD_PERMANENTLY,
        Err(message) => {
            if !error.is_null() {
                // SAFETY: the caller's contract.
                unsafe { *error = memory::copied(&message) };
            }
            c::ERROR
        }
    }
}

/// Registers the VFS and the functions with the SQLite that this program links.
#[cfg(feature = "linked")]
pub fn register_linked(make_default: bool) -> Result<(), String> {
    api::keep_linked()?;
    // SAFETY: the library is linked.
    let rc = unsafe { libsqlite3_sys::sqlite3_initialize() };
    if rc != c::OK {
        return Err(format!("SQLite cannot be initialised: error {rc}"));
    }
    register_all(make_default).map(drop)
}

/// Registers the VFS and its functions. Returns false if another copy of this crate has done so, whose functions
/// know its files.
fn register_all(make_default: bool) -> Result<bool, String> {
    let api = api::api().ok_or("SQLite has not been initialised")?;
    if !vfs::register(make_default)? {
        return Ok(false);
    }
    // SAFETY: the function has the type of an entry point and lives as long as the process.
    let rc = unsafe { (api.auto_extension)(Some(new_connection)) };
    match rc {
        c::OK => Ok(true),
        rc => Err(format!(
            "SQLite does not add functions to new connections: error {rc}"
        )),
    }
}

/// Adds the functions to a new connection.
unsafe extern "C" fn new_connection(
    db: *mut c::sqlite3,
    _: *mut *mut c_char,
    _: *const c_void,
) -> c_int {
    // SAFETY: SQLite calls this with the new connection.
    match unsafe { functions::add(db) } {
        Ok(()) => c::OK,
        Err(rc) => rc,
    }
}
