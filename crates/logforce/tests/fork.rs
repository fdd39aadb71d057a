//! After a fork the log belongs to the parent. This test is a separate program, because its process forks.
#![cfg(target_os = "linux")]
#![allow(unsafe_code)]

#[path = "all/common/mod.rs"]
mod common;

use common::*;
use logforce::{Batch, ErrorKind, Log, Lsn, Reader, Tuning};

/// Runs `body` in a forked child and returns its result, a number below 127.
fn in_child(body: impl FnOnce() -> u8) -> u8 {
    // SAFETY: the child calls only `body` and `_exit`: no code of the test harness, and no destructors except
    // those in `body`. Locks that other threads hold at this moment stay locked in the child. `body` makes
    // only calls that a forked child may make, and glibc makes its allocator usable after `fork`.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "{}", std::io::Error::last_os_error());
    if pid == 0 {
        // Otherwise a child that waits for one of the parent's threads would wait for ever.
        // SAFETY: sets a timer whose signal ends the process.
        unsafe { libc::alarm(20) };
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

/// Returns the number of the child's calls that were not refused, or refused for another reason.
fn not_refused(log: &Log, reader: &mut Reader, at: Lsn, end: Lsn) -> u8 {
    let answers = [
        log.append(b"x").map(drop),
        log.append(Batch::new().push_parts(&[b"x", b"y"])).map(drop),
        log.append(Batch::of(&[b"x", b"y"])).map(drop),
        log.commit(b"x").map(drop),
        log.commit(Batch::of(&[b"x"])).map(drop),
        log.force(end).map(drop),
        log.read_at(at).map(drop),
        log.read_from(at).map(drop),
        log.truncate_front(end),
        log.truncate_back(at),
        match reader.next() {
            Some(record) => record.map(drop),
            None => Ok(()),
        },
        log.clone().close(),
    ];
    answers
        .into_iter()
        .filter(|a| !a.as_ref().is_err_and(|e| e.kind() == ErrorKind::Forked))
        .count() as u8
}

#[test]
fn a_child_is_refused_and_the_parent_goes_on() {
    let dir = temp();
    // Disables idle stamps of the parent, because its files are compared.
    let no_stamps = options().tuning(Tuning::new().idle_stamp(std::time::Duration::MAX));
    let log = logforce::create_new(dir.path(), no_stamps).unwrap();
    let first = log.commit(&record(0, 100)).unwrap();
    // Stages a record without forcing it: the child must not write it.
    let staged = log.append(&record(1, 100)).unwrap();
    let mut reader = log.read_from(first.start).unwrap();
    let before = std::fs::read(&segments(dir.path())[0]).unwrap();

    let answer = in_child(|| not_refused(&log, &mut reader, first.start, staged.end));
    assert_eq!(answer, 0, "calls in the child that were not refused");
    // The child must not write when it drops all its handles of the log.
    let mut taken = Some((log, reader));
    let answer = in_child(|| {
        drop(taken.take());
        0
    });
    assert_eq!(answer, 0);
    let Some((log, mut reader)) = taken else {
        unreachable!()
    };
    assert!(before == std::fs::read(&segments(dir.path())[0]).unwrap());
    // A child cannot open the log anew either, because the parent still has it open.
    let answer = in_child(|| {
        let second = logforce::open_existing(dir.path(), options());
        u8::from(second.is_err_and(|e| e.kind() == ErrorKind::Locked))
    });
    assert_eq!(answer, 1);
    let message = logforce::Error::Forked.to_string();
    assert!(message.contains("only the parent may use it"), "{message}");

    log.force(staged.end).unwrap();
    for n in 2..50 {
        log.commit(&record(n, 20_000)).unwrap();
    }
    assert_eq!(reader.next().unwrap().unwrap().data, record(0, 100));
    assert_eq!(read_all(&log).len(), 50);
    log.close().unwrap();

    // The parent has closed the log, so a child may open it.
    let answer = in_child(|| {
        let log = logforce::open_existing(dir.path(), options()).unwrap();
        log.commit(b"from the child").unwrap();
        log.close().unwrap();
        0
    });
    assert_eq!(answer, 0);
    let log = logforce::open_existing(dir.path(), options()).unwrap();
    assert_eq!(read_all(&log).len(), 51);
}

#[test]
fn a_durable_file_is_the_parents_too() {
    use logforce::file::{self, File};
    let dir = temp();
    let path = dir.path().join("f");
    let open = || {
        let options = File::options().require(logforce::Guarantee::ProcessCrash);
        options.calibrate(false).create(true).lock(true).open(&path)
    };
    let file = open().unwrap();
    // The child has no thread that would make a submission durable.
    file.submit(b"one", 0).unwrap().wait().unwrap();
    file.write_at(b"two", 3).unwrap();
    let answer = in_child(|| {
        let answers = [
            file.write_at(b"x", 0),
            file.write_commit(b"x", 0).map(drop),
            file.commit().map(drop),
            file.submit(b"x", 0).map(drop),
            file.prepare(0..9, file::Prepare::Written).map(drop),
        ];
        let is_refused = |a: &file::Result<()>| {
            a.as_ref()
                .is_err_and(|e| e.kind() == file::ErrorKind::Forked)
        };
        answers.iter().filter(|a| !is_refused(a)).count() as u8
    });
    assert_eq!(answer, 0, "calls in the child that were not refused");
    let mut taken = Some(file);
    let answer = in_child(|| {
        drop(taken.take());
        u8::from(open().is_err_and(|e| e.kind() == file::ErrorKind::Locked))
    });
    assert_eq!(
        answer, 1,
        "the child's end must not release the parent's lock"
    );
    let file = taken.unwrap();
    file.commit().unwrap();
    file.submit(b"end", 6).unwrap().wait().unwrap();
    file.close().unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"onetwoend");
    assert_eq!(in_child(|| u8::from(open().is_ok())), 1);
}
