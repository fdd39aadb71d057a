//! Programs that run as another user.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// Number of the unprivileged user and group (`nobody`).
pub const NOBODY: u32 = 65534;

/// Returns a command that runs `program` as the unprivileged user [`NOBODY`]. Prints a reason to skip the
/// test and returns `None` if this process cannot become that user: it does not run as root, or a container
/// has one user.
///
/// # Panics
/// If the program cannot be opened.
#[must_use]
pub fn as_nobody(program: &Path) -> Option<Command> {
    let changed = Command::new("true").uid(NOBODY).gid(NOBODY).status();
    if let Err(e) = changed {
        crate::skip!("nothing can be run as another user: {e}");
        return None;
    }
    let mut command = command(program).unwrap_or_else(|e| panic!("{}: {e}", program.display()));
    command.uid(NOBODY).gid(NOBODY).current_dir("/");
    Some(command)
}

/// Returns a command that runs `program` without root's rights: as [`as_nobody`] does if this process has
/// them, else unchanged.
///
/// # Panics
/// As [`as_nobody`] does.
#[must_use]
pub fn unprivileged(program: &Path) -> Option<Command> {
    match is_root() {
        true => as_nobody(program),
        false => Some(Command::new(program)),
    }
}

/// Returns true if the effective user is root.
pub fn is_root() -> bool {
    // Reads the file instead of adding a dependency for one call. Making a file to see its owner is the
    // alternative.
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ids = status.lines().find_map(|l| l.strip_prefix("Uid:"));
    ids.and_then(|ids| ids.split_whitespace().nth(1)) == Some("0")
}

/// Makes a command that reaches the program by a descriptor, because its path may be closed to the user.
fn command(program: &Path) -> io::Result<Command> {
    /// Opened programs, which stay open until this process ends.
    static OPEN: Mutex<BTreeMap<PathBuf, File>> = Mutex::new(BTreeMap::new());
    if !cfg!(target_os = "linux") {
        return Ok(Command::new(program));
    }
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    if !open.contains_key(program) {
        let file = File::open(program)?;
        // A strict umask has closed the program to other users.
        if file.metadata()?.permissions().mode() & 0o005 != 0o005 {
            file.set_permissions(PermissionsExt::from_mode(0o755))?;
        }
        open.insert(program.to_owned(), file);
    }
    let file = open.get(program).ok_or(ErrorKind::NotFound)?;
    let mut command = Command::new(format!("/proc/self/fd/{}", file.as_raw_fd()));
    command.arg0(program);
    Ok(command)
}
