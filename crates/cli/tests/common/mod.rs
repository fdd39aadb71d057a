//! What the tests of the built command share.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A new directory on the disk that the build is on.
pub fn place() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// `logforce bench` with `arguments`, run in `dir`.
pub fn command(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_logforce"));
    command
        .arg("bench")
        .args(arguments)
        .current_dir(dir)
        .stdin(Stdio::null());
    command
}

/// So little to do that it takes no time.
pub const TINY: [&str; 4] = ["--size", "1MiB", "--seconds", "0.3"];

/// Runs it with `TINY`.
pub fn tiny(dir: &Path, arguments: &[&str]) -> Output {
    command(dir, &[arguments, &TINY].concat()).output().unwrap()
}

/// Output as text.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Nothing is left in `dir`.
pub fn assert_empty(dir: &Path) {
    let left: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}
