//! Calls that a test made on its own thread, in their order, recorded where they are made, and answers that a
//! test simulates there. Afterwards only a power cut would show whether something was flushed.

use super::path;
use logforce_device::FileIdentity;
use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use windows_sys::Win32::Foundation::{HANDLE, NTSTATUS};
use windows_sys::Win32::System::IO::IO_STATUS_BLOCK;

/// `NtFlushBuffersFileEx`.
pub type FlushEx =
    unsafe extern "system" fn(HANDLE, u32, *const c_void, u32, *mut IO_STATUS_BLOCK) -> NTSTATUS;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// `CreateFileW`.
    Open {
        /// The last part of the path; `~` for a name that only this crate uses.
        name: String,
        access: u32,
        disposition: u32,
        flags: u32,
    },
    /// `FlushFileBuffers`.
    Flush { of: FileIdentity, ok: bool },
    /// `NtFlushBuffersFileEx`.
    FlushEx { flags: u32 },
    /// `MoveFileExW`.
    MoveFileEx { flags: u32 },
}

/// Answers that the test simulates.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pretended {
    /// Function in place of `NtFlushBuffersFileEx`.
    pub flush_ex: Option<FlushEx>,
    /// `FILE_ATTRIBUTE_…` in addition to the real ones.
    pub attributes: u32,
    /// True if directories cannot be flushed.
    pub refuses_directories: bool,
    /// Name of the filesystem.
    pub filesystem: Option<&'static str>,
}

thread_local! {
    static CALLS: RefCell<Vec<Call>> = const { RefCell::new(Vec::new()) };
    static PRETENDED: Cell<Pretended> = const {
        Cell::new(Pretended { flush_ex: None, attributes: 0, refuses_directories: false, filesystem: None })
    };
}

pub fn record(call: Call) {
    CALLS.with_borrow_mut(|calls| calls.push(call));
}

pub fn opening(path: &[u16], access: u32, disposition: u32, flags: u32) {
    let path = String::from_utf16_lossy(path);
    let path = path.trim_end_matches('\0').trim_end_matches('\\');
    let name = path.rsplit('\\').next().unwrap_or_default();
    record(Call::Open {
        name: if path::is_hidden(name) { "~" } else { name }.to_owned(),
        access,
        disposition,
        flags,
    });
}

/// Returns true if the test simulates that a file with these attributes cannot be flushed.
pub fn refuses(attributes: u32) -> bool {
    const DIRECTORY: u32 = 0x10;
    pretended().refuses_directories && attributes & DIRECTORY != 0
}

pub fn pretended() -> Pretended {
    PRETENDED.get()
}

/// Simulates these answers on this thread from here on. Each test has its own thread.
pub fn pretend(what: Pretended) {
    PRETENDED.set(what);
}

/// Returns the result of `f`, and the calls that it made.
pub fn calls<T>(f: impl FnOnce() -> T) -> (T, Vec<Call>) {
    CALLS.take();
    let given = f();
    (given, CALLS.take())
}

#[cfg(test)]
pub mod tests;
