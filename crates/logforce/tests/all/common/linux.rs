//! Other users, and filesystems of a test's own.

use super::{assert_passed, same_test, temp};
pub use logforce_testkit::loopfs::LoopFs;
use logforce_testkit::process::Start;
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use tempfile::TempDir;

pub const NOBODY: u32 = 65534;

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A filesystem of the test's own, or a line that says why not.
pub fn loop_fs(kind: &str, mib: u64, home: &TempDir) -> Option<LoopFs> {
    match LoopFs::new(kind, mib, home.path()) {
        Ok(fs) => Some(fs),
        Err(skip) => {
            logforce_testkit::skip!("{kind}: {skip}");
            None
        }
    }
}

/// Runs the test `name` of this program as an unprivileged user, with the variable set to `value`,
/// and checks that it passed. False, and a line, where that cannot be done.
#[track_caller]
pub fn as_nobody(name: &str, variable: &str, value: impl AsRef<OsStr>) -> bool {
    if !is_root() {
        logforce_testkit::skip!("not root, so no test can be run as another user");
        return false;
    }
    // A copy: the build's directory may lie where others may not look.
    let place = open_to_all(temp());
    let program = place.path().join("test");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    let mut command = same_test(program, name, variable, value);
    let output = command.uid(NOBODY).gid(NOBODY).current_dir("/").to_end();
    match output {
        Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => {
            logforce_testkit::skip!(
                "an unprivileged user cannot run {}",
                command.get_program().display()
            );
            false
        }
        output => {
            assert_passed(&output.unwrap());
            true
        }
    }
}

/// Everybody may look into it and write to it.
pub fn open_to_all(dir: TempDir) -> TempDir {
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o777)).unwrap();
    dir
}
