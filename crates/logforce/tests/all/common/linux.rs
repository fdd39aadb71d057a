//! Tests as other users, and private filesystems for tests.

use super::assert_passed;
use logforce_testkit::another_user;
pub use logforce_testkit::loopfs::LoopFs;
use logforce_testkit::process::{Start, same_test};
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use tempfile::TempDir;

/// Creates a private filesystem for the test. Returns `None`, and prints the reason, if that is not possible.
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
/// and checks that it passed. Returns false, and prints the reason, if that is not possible.
#[track_caller]
pub fn as_nobody(name: &str, variable: &str, value: impl AsRef<OsStr>) -> bool {
    let Some(mut command) = another_user::as_nobody(&std::env::current_exe().unwrap()) else {
        return false;
    };
    same_test(&mut command, name, variable, value);
    assert_passed(&command.to_end().unwrap());
    true
}

/// Lets every user read and write the directory.
pub fn open_to_all(dir: TempDir) -> TempDir {
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o777)).unwrap();
    dir
}
