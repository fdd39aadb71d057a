//! Pragmas and URI parameters of the VFS.

use super::api::api;
use super::c::*;
use super::memory::copied;
use crate::connection::Connection;
use std::ffi::{CStr, c_char, c_int};

const FORCE_WITHIN: &str = "logforce_force_within";
const GROUP_COMMIT: &str = "logforce_group_commit";
/// Longest bound, milliseconds.
const LONGEST_BOUND: u64 = 60_000;

/// Answers `PRAGMA` if it is one of this VFS, else returns `NOTFOUND`.
///
/// # Safety
/// `arguments` must be the argument of `SQLITE_FCNTL_PRAGMA`.
pub unsafe fn call(connection: &Connection, arguments: *mut *mut c_char) -> c_int {
    // SAFETY: the array has the result, the name, and the argument or null.
    let (name, value) = unsafe {
        let text = |at| {
            let text: *mut c_char = *arguments.add(at);
            (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy())
        };
        (text(1), text(2))
    };
    let Some(name) = name.map(|name| name.to_ascii_lowercase()) else {
        return NOTFOUND;
    };
    if name != FORCE_WITHIN && name != GROUP_COMMIT {
        return NOTFOUND;
    }
    let set = value.map_or(Ok(()), |value| set(connection, &name, &value));
    let (rc, text) = match set {
        Ok(()) if name == FORCE_WITHIN => (OK, connection.force_within().to_string()),
        Ok(()) => (OK, i32::from(connection.groups()).to_string()),
        Err(message) => (ERROR, message),
    };
    // SAFETY: the first element is for the answer, which SQLite frees.
    unsafe { *arguments = copied(&text) };
    rc
}

/// Sets what the URI of the database asks for.
///
/// # Errors
/// In words.
///
/// # Safety
/// `name` must be the name of a database file that SQLite hands to `xOpen`.
pub unsafe fn of_uri(connection: &Connection, name: *const c_char) -> Result<(), String> {
    let Some(api) = api() else {
        return Ok(());
    };
    for (parameter, key) in [
        (FORCE_WITHIN, c"logforce_force_within"),
        (GROUP_COMMIT, c"logforce_group_commit"),
    ] {
        // SAFETY: the caller's contract.
        let value = unsafe { (api.uri_parameter)(name, key.as_ptr()) };
        if !value.is_null() {
            // SAFETY: SQLite's texts end with a zero.
            let value = unsafe { CStr::from_ptr(value) }.to_string_lossy();
            set(connection, parameter, &value)?;
        }
    }
    Ok(())
}

fn set(connection: &Connection, name: &str, value: &str) -> Result<(), String> {
    if name == FORCE_WITHIN {
        let bound = value.trim().parse().ok().filter(|b| *b <= LONGEST_BOUND);
        let bound = bound.ok_or_else(|| {
            format!("{FORCE_WITHIN}: '{value}' is not a number of milliseconds from 0 to {LONGEST_BOUND}")
        })?;
        connection.set_force_within(bound);
        return Ok(());
    }
    let on = match value.trim().to_ascii_lowercase().as_str() {
        "1" | "on" | "true" | "yes" => true,
        "0" | "off" | "false" | "no" => false,
        _ => return Err(format!("{GROUP_COMMIT}: '{value}' is neither ON nor OFF")),
    };
    connection.set_groups(on);
    Ok(())
}
