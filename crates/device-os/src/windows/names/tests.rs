use crate::windows::directory::OsDirectory;
use logforce_device::{Directory, OpenFile};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::windows::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

const SHARE_READ_AND_WRITE: u32 = 3;

/// Opens a file as programs do that do not use `FILE_SHARE_DELETE`, or share nothing.
fn held(path: &Path, share: u32) -> File {
    let mut open = OpenOptions::new();
    open.read(true).share_mode(share).open(path).unwrap()
}

/// Runs `call` while another program has the file open, and closes the file soon after.
fn meanwhile<T>(path: &Path, share: u32, call: impl FnOnce() -> T) -> T {
    let somebody = held(path, share);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            std::thread::sleep(Duration::from_millis(40));
            drop(somebody);
        });
        call()
    })
}

#[test]
fn what_somebody_has_for_a_moment_is_waited_for() {
    let temp = tempfile::tempdir().unwrap();
    let dir = OsDirectory::open(temp.path()).unwrap();
    let path = |name: &str| temp.path().join(name);
    drop(dir.open("a", OpenFile::CREATE).unwrap());
    meanwhile(&path("a"), SHARE_READ_AND_WRITE, || dir.rename("a", "b")).unwrap();
    drop(dir.open("c", OpenFile::CREATE).unwrap());
    // Renames over a file that is not shared.
    meanwhile(&path("c"), SHARE_READ_AND_WRITE, || dir.rename("b", "c")).unwrap();
    meanwhile(&path("c"), 0, || dir.open("c", OpenFile::READ).map(drop)).unwrap();
    meanwhile(&path("c"), SHARE_READ_AND_WRITE, || dir.remove("c")).unwrap();
    assert_eq!(dir.entries().unwrap(), []);
}

#[test]
fn what_somebody_keeps_is_told() {
    let temp = tempfile::tempdir().unwrap();
    let dir = OsDirectory::open(temp.path()).unwrap();
    drop(dir.open("a", OpenFile::CREATE).unwrap());
    let somebody = held(&temp.path().join("a"), SHARE_READ_AND_WRITE);
    for result in [dir.rename("a", "b"), dir.remove("a")] {
        let e = result.unwrap_err();
        assert_eq!(e.kind(), io::ErrorKind::ResourceBusy, "{e}");
        assert!(e.to_string().contains('a'), "{e}");
    }
    drop(somebody);
    dir.remove("a").unwrap();
}
