//! Directories that another user may enter, and programs that a test runs as that user.
//!
//! A checkout below a home directory of mode 0700 is closed to other users. They reach neither the programs
//! that were built there nor the files of a test there. Windows has no such test.

#[cfg(unix)]
mod programs;

#[cfg(target_os = "linux")]
pub(crate) use programs::is_root;
#[cfg(unix)]
pub use programs::{NOBODY, as_nobody, unprivileged};

use std::io;
use std::path::{Path, PathBuf};

/// Returns the directory for files of tests that another user enters: `build` if all users may enter it.
/// Otherwise it is the directory for temporary files, which `cargo xtask test` chooses accordingly.
#[must_use]
pub fn directory(build: &str) -> PathBuf {
    match all_may_enter(Path::new(build)) {
        true => PathBuf::from(build),
        false => std::env::temp_dir(),
    }
}

/// Returns `true` if all users may pass through each directory of that path.
#[must_use]
pub fn all_may_enter(dir: &Path) -> bool {
    let Ok(whole) = std::fs::canonicalize(dir) else {
        return false;
    };
    whole.ancestors().all(is_open)
}

/// Lets all users enter and list that directory.
///
/// # Errors
/// Fails with the error of the system.
pub fn open(dir: &Path) -> io::Result<()> {
    #[cfg(unix)]
    std::fs::set_permissions(dir, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    #[cfg(not(unix))]
    let _ = dir;
    Ok(())
}

#[cfg(unix)]
fn is_open(dir: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(dir).is_ok_and(|m| m.permissions().mode() & 0o001 != 0)
}

#[cfg(not(unix))]
fn is_open(_: &Path) -> bool {
    true
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn one_closed_directory_closes_all_below() {
        let home = std::env::temp_dir().join(format!("logforce-open-{}", std::process::id()));
        let below = home.join("with a space é");
        fs::create_dir_all(&below).unwrap();
        let mode = |mode| {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
            fs::set_permissions(&home, mode).unwrap();
            all_may_enter(&below)
        };
        let around = all_may_enter(home.parent().unwrap());
        let found = (mode(0o711), mode(0o700));
        let missing = all_may_enter(&home.join("missing"));
        fs::remove_dir_all(&home).unwrap();
        assert_eq!(found, (around, false));
        assert!(!missing);
    }
}
