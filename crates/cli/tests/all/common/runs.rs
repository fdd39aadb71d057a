//! Running `logforce bench`.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

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

/// Nothing is left in `dir`.
pub fn assert_empty(dir: &Path) {
    let left: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}
