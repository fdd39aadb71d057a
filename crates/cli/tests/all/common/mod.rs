//! Functions that all tests of the built command share.
#![allow(dead_code)]

use logforce_testkit::another_user;

/// Creates a directory on the disk that the build is on.
pub fn place() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// Creates a directory on a disk that other users may enter.
pub fn open_place() -> tempfile::TempDir {
    let on = another_user::directory(env!("CARGO_TARGET_TMPDIR"));
    let dir = tempfile::tempdir_in(on).unwrap();
    another_user::open(dir.path()).unwrap();
    dir
}

/// Returns output as text.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Runs the script of a case that a crash test has kept. It must find again that something is missing.
pub fn is_missing_again(kept: &std::path::Path) {
    let script = kept.join("check.sh");
    let out = std::process::Command::new("sh").arg(script).output();
    let out = out.unwrap();
    let shown = text(&out.stdout);
    assert_eq!(out.status.code(), Some(1), "{}", text(&out.stderr));
    assert!(shown.contains("is missing"), "{shown}");
}
