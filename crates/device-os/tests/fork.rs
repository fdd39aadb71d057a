//! Behaviour after a fork. A separate program, because each test here forks its process.
#![cfg(target_os = "linux")]
#![allow(unsafe_code)]

#[path = "all/common/mod.rs"]
mod common;

use common::on_disk;
use logforce_device::System;
use logforce_device_os::OsSystem;
use std::io::ErrorKind;

/// Runs `body` in a forked child and returns its answer, a number below 128.
///
/// `raw` forks by the system call itself, past libc and its handlers.
fn in_child(raw: bool, body: impl FnOnce() -> u8) -> u8 {
    // SAFETY: the child calls `body` and `_exit`, nothing else: no destructor, no test harness.
    // Other threads of the harness may hold locks of the allocator or of stdio at this moment,
    // which stay locked in the child; the bodies below do not print, and glibc makes its
    // allocator usable after `fork`. With the raw call it does not: those bodies do not allocate.
    let pid = unsafe {
        if raw {
            libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) as libc::pid_t
        } else {
            libc::fork()
        }
    };
    assert!(pid >= 0, "{}", std::io::Error::last_os_error());
    if pid == 0 {
        let answer = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).unwrap_or(127);
        // SAFETY: ends the process at once.
        unsafe { libc::_exit(answer.into()) }
    }
    let mut status = 0;
    // SAFETY: waits for the child made above; `status` is a live local.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    assert!(libc::WIFEXITED(status), "the child died: {status:#x}");
    libc::WEXITSTATUS(status) as u8
}

#[test]
fn a_child_is_another_process() {
    let runtime = OsSystem::new().runtime();
    let parent = runtime.process();
    assert_ne!(parent, 0);
    for raw in [false, true] {
        let answer = in_child(raw, || {
            let child = runtime.process();
            let differs = child != parent && child != 0 && runtime.process() == child;
            // The child's child is another process, too.
            let grandchild = in_child(true, || {
                let own = runtime.process();
                u8::from(own != parent && own != child && own != 0)
            });
            u8::from(differs) + 2 * grandchild
        });
        assert_eq!(answer, 3, "raw: {raw}");
    }
    assert_eq!(runtime.process(), parent);
}

#[test]
fn a_child_neither_has_nor_breaks_its_parents_lock() {
    let (temp, dir) = on_disk();
    let lock = dir.lock("lock").unwrap();
    let answer = in_child(false, || {
        // The child drops its copy of the lock, which must not unlock the parent's log.
        // SAFETY: reads the value out bitwise; the parent's own copy is in another process's
        // memory, and this one is not dropped twice since the child ends by `_exit`.
        drop(unsafe { std::ptr::read(&lock) });
        let dir = OsSystem::new().directory(temp.path()).unwrap();
        let refused = dir
            .lock("lock")
            .map(drop)
            .is_err_and(|e| e.kind() == ErrorKind::WouldBlock);
        u8::from(refused && dir.is_locked("lock").unwrap())
    });
    assert_eq!(answer, 1);
    assert!(dir.is_locked("lock").unwrap());

    // A child that lives on with a copy of the descriptor does not keep the log locked. It can take the lock
    // itself once the parent has released it.
    let (reader, writer) = std::io::pipe().unwrap();
    // SAFETY: as in `in_child`.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0);
    if pid == 0 {
        drop(writer);
        let body = || {
            use std::io::Read;
            let mut reader = reader;
            let _ = reader.read(&mut [0]);
            let dir = OsSystem::new().directory(temp.path()).unwrap();
            dir.lock("lock").is_ok()
        };
        let ok = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).unwrap_or(false);
        // SAFETY: ends the process at once.
        unsafe { libc::_exit(i32::from(ok)) }
    }
    drop(reader);
    drop(lock);
    assert!(!dir.is_locked("lock").unwrap());
    drop(dir.lock("lock").unwrap());
    drop(writer);
    let mut status = 0;
    // SAFETY: waits for the child made above.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    assert_eq!(
        (libc::WIFEXITED(status), libc::WEXITSTATUS(status)),
        (true, 1)
    );
}
