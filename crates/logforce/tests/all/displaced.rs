//! Logs whose directory, or a file in it, is moved or deleted while they are open, on a real filesystem.

use crate::common::*;
use logforce::{Error, ErrorKind, Log, Options, Tuning};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Options with which nothing is prepared or stamped meanwhile: only the timed check remains.
fn quiet() -> Options {
    options()
        .segment_size(8 << 20)
        .tuning(Tuning::new().idle_stamp(Duration::MAX).live_stats(false))
}

fn idle_log(dir: &Path) -> Log {
    let log = logforce::create_new(dir, quiet()).unwrap();
    log.commit(b"the first").unwrap();
    log
}

#[track_caller]
fn assert_displaced(e: &Error, dir: &Path, words: &str) {
    let Error::Poisoned { cause, .. } = e else {
        panic!("{e}");
    };
    println!("{e}");
    assert_eq!(cause.kind(), ErrorKind::Displaced, "{e}");
    assert_eq!(cause.path(), Some(dir), "{e}");
    assert!(cause.to_string().contains(words), "{words}: {e}");
}

/// Commits until a commit is refused, which has to happen soon.
#[track_caller]
fn commit_until_refused(log: &Log) -> Error {
    let began = Instant::now();
    loop {
        match log.commit(b"is anybody there?") {
            Ok(_) => std::thread::sleep(Duration::from_millis(2)),
            Err(e) => return e,
        }
        // The check is due within a second; a busy machine takes longer.
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "the log did not notice"
        );
    }
}

type Taking = fn(&Path);

fn segment(dir: &Path) -> PathBuf {
    segments(dir).remove(0)
}

fn moved(dir: &Path) -> PathBuf {
    dir.with_extension("moved")
}

const WAYS: [(&str, Taking); 8] = [
    ("deleted or moved away", |dir| {
        // Renames the directory in one call. Otherwise a check could run in between and find a part of the
        // log.
        fs::rename(dir, moved(dir)).unwrap();
        fs::remove_dir_all(moved(dir)).unwrap();
    }),
    ("deleted or moved away", |dir| {
        fs::rename(dir, moved(dir)).unwrap();
    }),
    ("deleted or moved away", |dir| {
        // Moves a parent directory, which counts as well.
        let home = dir.parent().unwrap();
        fs::rename(home, moved(home)).unwrap();
        fs::write(home, b"a file").unwrap();
    }),
    ("another directory is there", |dir| {
        // Exchanges the two directories in one call. Otherwise a check in between would find no directory.
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        fs::create_dir(moved(dir)).unwrap();
        renameat_with(CWD, dir, CWD, moved(dir), RenameFlags::EXCHANGE).unwrap();
    }),
    ("'control' was deleted", |dir| {
        fs::remove_file(dir.join("control")).unwrap();
    }),
    ("'control' was replaced", |dir| {
        // Replaces the file as a tool does that restores a backup or edits in a copy.
        fs::copy(dir.join("control"), dir.join("copy")).unwrap();
        fs::rename(dir.join("copy"), dir.join("control")).unwrap();
    }),
    ("'lock' was deleted", |dir| {
        fs::remove_file(dir.join("lock")).unwrap();
    }),
    (".seg' was deleted", |dir| {
        fs::remove_file(segment(dir)).unwrap();
    }),
];

#[test]
fn taken_away_it_acknowledges_nothing_more() {
    for (words, take) in WAYS {
        for closing in [false, true] {
            let home = temp();
            let parent = home.path().join("home");
            fs::create_dir(&parent).unwrap();
            let dir = parent.join("log");
            let log = idle_log(&dir);
            take(&dir);
            if !closing {
                assert_displaced(&commit_until_refused(&log), &dir, words);
            }
            let e = log.close().expect_err("it is not there");
            assert_displaced(&e, &dir, words);
        }
    }
}

/// The log also refuses records that need a new segment. Durable records can still be read.
#[test]
fn deleted_while_it_fills() {
    let home = temp();
    let dir = home.path().join("log");
    let log =
        logforce::create_new(&dir, options().tuning(Tuning::new().live_stats(false))).unwrap();
    let at = log.commit(&record(0, 100)).unwrap();
    fs::remove_dir_all(&dir).unwrap();
    let (_, e) = fill_up(&log, 1, 20_000);
    assert_displaced(&e, &dir, "deleted");
    assert_eq!(log.read_at(at.start).unwrap().data, record(0, 100));
    assert_displaced(&log.close().unwrap_err(), &dir, "deleted");
    assert!(!dir.exists());
}

/// A log that was moved away can be opened at its new path and is complete.
#[test]
fn moved_away_it_is_whole_where_it_is() {
    let home = temp();
    let dir = home.path().join("log");
    let log = idle_log(&dir);
    fs::rename(&dir, moved(&dir)).unwrap();
    let second = logforce::open_existing(moved(&dir), quiet());
    assert_error(second, ErrorKind::Locked, &[]);
    let mut acknowledged = 1;
    while log.commit(b"the next").is_ok() {
        acknowledged += 1;
        std::thread::sleep(Duration::from_millis(2));
    }
    drop(log);
    assert!(!dir.exists(), "the log made it anew");
    let log = logforce::open_existing(moved(&dir), quiet()).unwrap();
    let found = read_all(&log).len();
    // One more record, whose commit failed, may be there.
    assert!(
        found == acknowledged || found == acknowledged + 1,
        "{found}"
    );
}

#[test]
fn a_link_that_leads_elsewhere() {
    let home = temp();
    let (link, real) = (home.path().join("link"), home.path().join("real"));
    fs::create_dir(&real).unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let log = idle_log(&link);
    log.commit(b"by the link").unwrap();
    // The link is replaced by a rename: without one, the log may find that nothing is there.
    let new = home.path().join("new");
    fs::create_dir(home.path().join("other")).unwrap();
    std::os::unix::fs::symlink("other", &new).unwrap();
    fs::rename(&new, &link).unwrap();
    assert_displaced(
        &commit_until_refused(&log),
        &link,
        "another directory is there",
    );
}

const HOME: &str = "LOGFORCE_TEST_HOME";

/// Commits for long enough for two checks.
fn goes_on(log: &Log) {
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(1500) {
        log.commit(b"still there").unwrap();
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[track_caller]
fn run(mut child: Command) {
    assert_passed(&child.output().unwrap());
}

/// A relative path is resolved at the opening; later changes of the working directory do not matter.
#[test]
fn a_process_that_changes_its_working_directory() {
    let name = "a_process_that_changes_its_working_directory";
    if let Some(home) = in_second_process(HOME) {
        std::env::set_current_dir(&home).unwrap();
        let log = idle_log(Path::new("log"));
        std::env::set_current_dir("/").unwrap();
        goes_on(&log);
        // The log checks the path as it was resolved at the opening.
        fs::remove_dir_all(home.join("log")).unwrap();
        assert_displaced(&commit_until_refused(&log), Path::new("log"), "deleted");
        return;
    }
    let home = temp();
    run(again(name, HOME, home.path()));
}

/// A log can be opened through the path of a descriptor, which may be closed later. Then the log only notices
/// when its directory is deleted.
#[cfg(target_os = "linux")]
#[test]
fn a_path_of_a_descriptor() {
    use std::os::fd::AsRawFd;
    let home = temp();
    let dir = home.path().join("log");
    fs::create_dir(&dir).unwrap();
    let descriptor = fs::File::open(&dir).unwrap();
    let path = PathBuf::from(format!("/proc/self/fd/{}", descriptor.as_raw_fd()));
    let log = idle_log(&path);
    drop(descriptor);
    goes_on(&log);
    fs::remove_dir_all(&dir).unwrap();
    assert_displaced(&commit_until_refused(&log), &path, "deleted");
}

/// After a process has changed its root, all its paths lead elsewhere.
#[cfg(target_os = "linux")]
#[test]
fn a_process_that_changes_its_root() {
    let name = "a_process_that_changes_its_root";
    if let Some(home) = in_second_process(HOME) {
        let dir = home.join("log");
        let log = idle_log(&dir);
        let jail = home.join("jail");
        fs::create_dir(&jail).unwrap();
        let outside = fs::File::open(&home).unwrap();
        if let Err(e) = rustix::process::chroot(&jail) {
            logforce_testkit::skip!("chroot: {e}");
            return;
        }
        goes_on(&log);
        use rustix::fs::{AtFlags, Mode, OFlags, openat, unlinkat};
        let log_dir = openat(&outside, "log", OFlags::RDONLY, Mode::empty()).unwrap();
        unlinkat(&log_dir, "control", AtFlags::empty()).unwrap();
        assert_displaced(&commit_until_refused(&log), &dir, "'control' was deleted");
        return;
    }
    let home = temp();
    run(again(name, HOME, home.path()));
}
