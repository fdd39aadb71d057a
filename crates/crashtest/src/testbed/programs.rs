//! Programs of the system.

use std::ffi::OsString;

/// Returns true if a directory of `$PATH`, or one of system programs, has the program.
pub fn in_path(program: &str) -> bool {
    std::env::split_paths(&path()).any(|dir| dir.join(program).is_file())
}

/// Returns `$PATH` with the directories of system programs, which a user's does not have on every system.
pub(super) fn path() -> OsString {
    let mut path = std::env::var_os("PATH").unwrap_or_default();
    path.push(":/usr/sbin:/sbin");
    path
}
