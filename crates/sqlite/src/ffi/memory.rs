//! Memory and texts that pass between SQLite and Rust.

use super::api::api;
use std::ffi::{CStr, OsStr, c_char, c_int};
use std::path::PathBuf;

/// Returns the path that a name of SQLite means.
///
/// # Safety
/// `name` must be a text that ends with a zero.
#[cfg(unix)]
pub unsafe fn path(name: *const c_char) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    // SAFETY: the caller's contract.
    let name = unsafe { CStr::from_ptr(name) };
    Some(OsStr::from_bytes(name.to_bytes()).into())
}

/// Returns the path that a name of SQLite means; `None` if it is not UTF-8.
///
/// # Safety
/// `name` must be a text that ends with a zero.
#[cfg(not(unix))]
pub unsafe fn path(name: *const c_char) -> Option<PathBuf> {
    // SAFETY: the caller's contract.
    let name = unsafe { CStr::from_ptr(name) };
    name.to_str().ok().map(|name| OsStr::new(name).into())
}

/// Returns a copy of the text in memory that SQLite frees; null without memory.
pub fn copied(text: &str) -> *mut c_char {
    let Some(len) = c_int::try_from(text.len() + 1).ok() else {
        return std::ptr::null_mut();
    };
    let Some(api) = api() else {
        return std::ptr::null_mut();
    };
    // SAFETY: the memory has `len` bytes if it is not null.
    unsafe {
        let memory = (api.malloc)(len).cast::<u8>();
        if !memory.is_null() {
            std::ptr::copy_nonoverlapping(text.as_ptr(), memory, text.len());
            *memory.add(text.len()) = 0;
        }
        memory.cast()
    }
}

/// Puts the name of this VFS in front of the names that SQLite collects.
///
/// # Safety
/// `name` must be the argument of `SQLITE_FCNTL_VFSNAME` after the VFS below has answered it.
pub unsafe fn prepend_name(name: *mut *mut c_char) {
    let Some(api) = api() else {
        return;
    };
    // SAFETY: the answer is null or a text in SQLite's memory, which the last owner frees.
    unsafe {
        if !(*name).is_null() {
            let text = format!("logforce/{}", CStr::from_ptr(*name).to_string_lossy());
            (api.free)((*name).cast());
            *name = copied(&text);
        }
    }
}

/// Name of a file, copied. SQLite looks for zeroes around it, where parameters of a URI may be.
pub struct Name(Box<[u8]>);

impl Name {
    /// Copies a name.
    ///
    /// # Safety
    /// `name` must be a text that ends with a zero.
    pub unsafe fn of(name: *const c_char) -> Name {
        // SAFETY: the caller's contract.
        let name = unsafe { CStr::from_ptr(name) }.to_bytes();
        Name([&[0; 4], name, &[0; 4]].concat().into())
    }

    pub fn as_ptr(&self) -> *const c_char {
        self.0[4..].as_ptr().cast()
    }
}
