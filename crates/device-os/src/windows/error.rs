use logforce_device::failure;
use std::io;
use std::path::Path;
use windows_sys::Win32::Foundation::{
    ERROR_ACCESS_DENIED, ERROR_CALL_NOT_IMPLEMENTED, ERROR_INVALID_FUNCTION, ERROR_INVALID_HANDLE,
    ERROR_INVALID_PARAMETER, ERROR_NOT_SUPPORTED,
};

/// Returns the same error with the operation and the path.
pub fn at(error: io::Error, doing: &str, path: &Path) -> io::Error {
    failure::at(&error, kind(&error), doing, path)
}

const ERROR_SHARING_VIOLATION: i32 = 32;
const ERROR_LOCK_VIOLATION: i32 = 33;
const ERROR_INVALID_NAME: i32 = 123;
const ERROR_DIRECTORY: i32 = 267;
const ERROR_PRIVILEGE_NOT_HELD: i32 = 1314;

/// Returns the kind of the error, also for errors that std has no kind for.
pub fn kind(error: &io::Error) -> io::ErrorKind {
    match error.raw_os_error() {
        // Another process has it open and does not share it (a virus scanner, a backup).
        Some(ERROR_SHARING_VIOLATION | ERROR_LOCK_VIOLATION) => io::ErrorKind::ResourceBusy,
        // A file in the root of the system's volume, for a user who is not an administrator.
        Some(ERROR_PRIVILEGE_NOT_HELD) => io::ErrorKind::PermissionDenied,
        Some(ERROR_INVALID_NAME) => io::ErrorKind::InvalidInput,
        Some(ERROR_DIRECTORY) => io::ErrorKind::NotADirectory,
        _ => error.kind(),
    }
}

#[cfg(all(test, windows))]
mod tests {
    use super::*;

    #[test]
    fn kind_and_path_are_kept() {
        for (code, kind) in [
            (2, io::ErrorKind::NotFound),
            (5, io::ErrorKind::PermissionDenied),
            (32, io::ErrorKind::ResourceBusy),
            (39, io::ErrorKind::StorageFull),
            (80, io::ErrorKind::AlreadyExists),
            (112, io::ErrorKind::StorageFull),
            (1295, io::ErrorKind::QuotaExceeded),
            (1314, io::ErrorKind::PermissionDenied),
        ] {
            let e = at(
                io::Error::from_raw_os_error(code),
                "write to",
                Path::new("a/b"),
            );
            assert_eq!(e.kind(), kind, "{code}");
            assert!(e.to_string().contains("a/b"), "{e}");
        }
    }
}

/// Returns true if the system lacks the call, rather than that the call failed.
pub fn is_refusal(e: &io::Error) -> bool {
    let refusals = [
        ERROR_ACCESS_DENIED,
        ERROR_CALL_NOT_IMPLEMENTED,
        ERROR_INVALID_FUNCTION,
        ERROR_INVALID_HANDLE,
        ERROR_INVALID_PARAMETER,
        ERROR_NOT_SUPPORTED,
    ];
    e.raw_os_error()
        .is_some_and(|code| refusals.contains(&(code as u32)))
}
