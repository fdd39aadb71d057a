//! Functions for names that survive a power cut. Power cuts of them are in the simulation.

use super::assert_error;
use crate::common::temp;
use logforce::file::{ErrorKind, create_durably, rename_durably, replace_durably, sync_parent};
use std::fs;

#[test]
fn files_are_created_renamed_and_replaced() {
    let home = temp();
    let path = |name: &str| home.path().join(name);
    create_durably(path("a"), b"one").unwrap();
    assert_error(
        create_durably(path("a"), b"two"),
        ErrorKind::AlreadyExists,
        &["exists"],
    );
    assert_eq!(fs::read(path("a")).unwrap(), b"one");
    rename_durably(path("a"), path("b")).unwrap();
    assert!(!path("a").exists());
    create_durably(path("a"), &vec![7; (2 << 20) + 5]).unwrap();
    rename_durably(path("a"), path("b")).unwrap();
    assert!(fs::read(path("b")).unwrap() == vec![7; (2 << 20) + 5]);
    fs::write(path("b.new"), b"of a crash").unwrap();
    replace_durably(path("b"), b"three").unwrap();
    replace_durably(path("c"), b"").unwrap();
    assert_eq!(fs::read(path("b")).unwrap(), b"three");
    assert_eq!(fs::read(path("c")).unwrap(), b"");
    fs::remove_file(path("c")).unwrap();
    sync_parent(path("c")).unwrap();
    let mut names: Vec<_> = fs::read_dir(home.path())
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["b"]);
}

#[test]
fn refusals_change_nothing() {
    let home = temp();
    let path = |name: &str| home.path().join(name);
    fs::create_dir(path("sub")).unwrap();
    fs::write(path("a"), b"one").unwrap();
    let elsewhere = rename_durably(path("a"), path("sub/a"));
    assert_error(
        elsewhere,
        ErrorKind::InvalidInput,
        &["one directory", "sync_parent"],
    );
    let missing = rename_durably(path("x"), path("a"));
    assert_error(missing, ErrorKind::NotFound, &["x"]);
    for result in [
        create_durably(path("none/a"), b""),
        replace_durably(path("none/a"), b""),
        sync_parent(path("none/a")),
    ] {
        assert_error(result, ErrorKind::NotFound, &["none"]);
    }
    assert!(rename_durably(path("sub"), path("sub2")).is_err());
    assert!(create_durably("", b"").is_err() && sync_parent("/").is_err());
    assert_eq!(fs::read(path("a")).unwrap(), b"one");
    assert!(path("sub").exists());
}

/// A file without permission to write can be renamed: its directory counts.
#[cfg(unix)]
#[test]
fn a_read_only_file_is_renamed() {
    use std::os::unix::fs::PermissionsExt;
    let home = temp();
    let (from, to) = (home.path().join("a"), home.path().join("b"));
    fs::write(&from, b"one").unwrap();
    fs::set_permissions(&from, fs::Permissions::from_mode(0o400)).unwrap();
    rename_durably(&from, &to).unwrap();
    assert_eq!(fs::read(&to).unwrap(), b"one");
}
