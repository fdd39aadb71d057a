//! One writer: within this process, against another process, and after a fork.

use crate::common::{again, in_second_process, on_disk};
use logforce_device::System;
use logforce_device_os::OsSystem;
use logforce_testkit::process::Start;
use std::io::{BufRead, BufReader, ErrorKind};
use std::path::Path;
use std::process::{Child, Stdio};

#[test]
fn one_opening_in_this_process() {
    let (temp, dir) = on_disk();
    assert!(!dir.is_locked("lock").unwrap());
    assert!(!temp.path().join("lock").exists(), "asking makes no file");
    let lock = dir.lock("lock").unwrap();
    assert!(dir.is_locked("lock").unwrap());
    // By another handle, and by another path to the same directory.
    #[cfg(unix)]
    let link = temp.path().join("link");
    #[cfg(unix)]
    std::os::unix::fs::symlink(temp.path(), &link).unwrap();
    #[cfg(windows)]
    let link = temp.path().join("none\\..\\.");
    for path in [temp.path(), &link] {
        let other = OsSystem::new().directory(path).unwrap();
        let e = other.lock("lock").map(drop).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::WouldBlock);
        assert!(
            e.to_string().contains("this process") && e.to_string().contains("lock"),
            "{e}"
        );
        assert!(other.is_locked("lock").unwrap());
    }
    drop(lock);
    assert!(!dir.is_locked("lock").unwrap());
    drop(dir.lock("lock").unwrap());
    // A refusal does not affect the next attempt.
    let _again = dir.lock("lock").unwrap();
    let (_temp2, elsewhere) = on_disk();
    let _both = elsewhere.lock("lock").unwrap();
}

#[test]
fn of_many_threads_one_gets_it() {
    let (_temp, dir) = on_disk();
    for _ in 0..50 {
        let results: Vec<_> = std::thread::scope(|s| {
            let threads: Vec<_> = (0..4).map(|_| s.spawn(|| dir.lock("lock"))).collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        assert_eq!(results.iter().filter(|r| r.is_ok()).count(), 1);
    }
    assert!(!dir.is_locked("lock").unwrap());
}

const HOLDER: &str = "LOGFORCE_TEST_HOLDER";

/// Starts a process that holds the lock of `dir` until it is killed.
fn holder(dir: &Path) -> Child {
    let mut child = again("hold", HOLDER, dir)
        .stdout(Stdio::piped())
        .start()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(
        lines.any(|l| l.unwrap().contains("held")),
        "the other process did not get the lock"
    );
    child
}

#[test]
fn hold() {
    let Some(path) = in_second_process(HOLDER) else {
        return;
    };
    let dir = OsSystem::new().directory(&path).unwrap();
    let _lock = dir.lock("lock").unwrap();
    println!("held");
    std::thread::sleep(std::time::Duration::from_secs(60));
}

#[test]
fn one_process() {
    let (temp, dir) = on_disk();
    let mut other = holder(temp.path());
    assert!(dir.is_locked("lock").unwrap());
    let e = dir.lock("lock").map(drop).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::WouldBlock);
    assert!(e.to_string().contains("another process"), "{e}");
    // However the process ends, the kernel releases the lock.
    other.kill().unwrap();
    other.wait().unwrap();
    assert!(!dir.is_locked("lock").unwrap());
    let mine = dir.lock("lock").unwrap();
    // The other process is refused, too.
    let out = again("hold", HOLDER, temp.path()).to_end().unwrap();
    assert!(!out.status.success(), "two processes hold the lock");
    drop(mine);
}

// Other systems lack this program, and their handles are inherited only on request.
#[cfg(target_os = "linux")]
#[test]
fn a_program_that_is_started_does_not_inherit_it() {
    let (_temp, dir) = on_disk();
    let lock = dir.lock("lock").unwrap();
    let mut child = std::process::Command::new("sleep")
        .arg("60")
        .start()
        .unwrap();
    drop(lock);
    assert!(!dir.is_locked("lock").unwrap());
    drop(dir.lock("lock").unwrap());
    child.kill().unwrap();
    child.wait().unwrap();
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_with_data_is_locked_beside_the_lock() {
    let (temp, dir) = on_disk();
    let missing = dir.lock_file("data").map(drop).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    std::fs::write(temp.path().join("data"), b"abc").unwrap();
    let lock = dir.lock_file("data").unwrap();
    assert!(dir.is_locked("data").unwrap());
    let again = dir.lock_file("data").map(drop).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::WouldBlock, "{again}");
    // The lock is advisory.
    assert_eq!(std::fs::read(temp.path().join("data")).unwrap(), b"abc");
    drop(lock);
    assert!(!dir.is_locked("data").unwrap());
    drop(dir.lock_file("data").unwrap());
}
