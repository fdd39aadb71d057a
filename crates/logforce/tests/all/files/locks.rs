//! Locks of durable files.

use super::{assert_error, options};
use crate::common::temp;
use logforce::file::ErrorKind;

#[test]
fn a_second_opening_is_refused_until_the_first_ends() {
    let home = temp();
    let path = home.path().join("f");
    let locked = || options().lock(true).open(&path);
    let file = locked().unwrap();
    assert_error(locked(), ErrorKind::Locked, &["only one at a time"]);
    // An opening that does not ask for the lock gets in.
    drop(options().open(&path).unwrap());
    let handle = file.submit(b"x", 0).unwrap();
    drop(file);
    // The handle may still sync the file.
    assert_error(locked(), ErrorKind::Locked, &[]);
    handle.wait().unwrap();
    drop(locked().unwrap());
    let file = locked().unwrap();
    file.write_at(b"y", 0).unwrap();
    file.close().unwrap();
    drop(locked().unwrap());
}

#[test]
fn each_file_of_a_directory_has_its_lock() {
    let home = temp();
    let open = |name: &str| options().lock(true).open(home.path().join(name));
    let files = [open("a").unwrap(), open("b").unwrap()];
    for name in ["a", "b"] {
        assert_error(open(name), ErrorKind::Locked, &[name]);
    }
    drop(files);
    // A log in the same directory refuses only because files are there that are not its own.
    let log = logforce::create_new(home.path().join("log"), crate::common::options()).unwrap();
    let beside = options()
        .lock(true)
        .open(home.path().join("log/f"))
        .unwrap();
    beside.write_commit(b"x", 0).unwrap();
    log.commit(b"x").unwrap();
}

#[cfg(target_os = "linux")]
#[test]
fn another_process_is_refused_too_and_a_deleted_lock_helps_nobody() {
    use crate::common::{again, assert_passed, in_second_process};
    const NAME: &str =
        "files::locks::another_process_is_refused_too_and_a_deleted_lock_helps_nobody";
    const PATH: &str = "LOGFORCE_TEST_PATH";
    if let Some(path) = in_second_process(PATH) {
        assert_error(options().lock(true).open(path), ErrorKind::Locked, &[]);
        return;
    }
    let home = temp();
    let path = home.path().join("f");
    let _file = options().lock(true).open(&path).unwrap();
    assert_passed(&again(NAME, PATH, &path).output().unwrap());
    std::fs::remove_file(home.path().join("f.lock")).unwrap();
    assert_passed(&again(NAME, PATH, &path).output().unwrap());
}
