//! Directories that cannot be opened as a log, and unusual ones that can.

use crate::common::*;
use logforce::{Error, ErrorKind, Log, Options, Result};
use logforce_testkit::process::Start;
use std::fs;
#[cfg(unix)]
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

type Opener = fn(&Path, Options) -> Result<Log>;

/// The three ways to open.
const WAYS: [(&str, Opener); 3] = [
    ("create_new", |p, o| logforce::create_new(p, o)),
    ("open_existing", |p, o| logforce::open_existing(p, o)),
    ("open_or_create", |p, o| logforce::open_or_create(p, o)),
];

fn small_log(dir: &Path) {
    let log = logforce::create_new(dir, options()).unwrap();
    log.commit(&record(0, 100)).unwrap();
    log.close().unwrap();
}

fn check_path(e: &Error, path: &Path) {
    assert_eq!(e.path(), Some(path), "{e}");
}

#[test]
fn missing() {
    let home = temp();
    let dir = home.path().join("log");
    let found = logforce::open_existing(&dir, options());
    let e = assert_error(found, ErrorKind::NoLog, &["log", "does not exist"]);
    check_path(&e, &dir);
    assert!(!dir.exists());
    assert_error(
        logforce::inspect::open(&dir).map(drop),
        ErrorKind::NoLog,
        &["does not exist"],
    );
    for (_, open) in [WAYS[0], WAYS[2]] {
        let deep = dir.join("deep");
        let e = assert_error(
            open(&deep, options()),
            ErrorKind::Io,
            &["deep", "its parent does not exist"],
        );
        check_path(&e, &deep);
    }
    small_log(&dir);
    logforce::open_or_create(home.path().join("other"), options()).unwrap();
}

/// Every function that takes a path refuses an invalid one.
#[test]
fn paths_that_are_none() {
    for (path, words) in [("", "it is empty"), ("a\0b", "NUL")] {
        let path = Path::new(path);
        for (name, open) in WAYS {
            println!("{name}");
            let e = assert_error(
                open(path, options()),
                ErrorKind::InvalidInput,
                &["cannot be the path of a log", words],
            );
            check_path(&e, path);
        }
        let kind = ErrorKind::InvalidInput;
        assert_error(logforce::read_only(path).map(drop), kind, &[words]);
        assert_error(logforce::inspect::open(path).map(drop), kind, &[words]);
        assert_error(logforce::inspect::salvage(path).map(drop), kind, &[words]);
    }
}

/// A refused opening leaves no empty directory, because the next one would take it for an emptied log. A
/// directory that existed before stays.
#[test]
fn a_refused_opening_leaves_nothing() {
    let home = temp();
    let dir = home.path().join("log");
    let foreign = logforce::Method::ALL
        .iter()
        .find(|m| !logforce::Method::here().contains(m));
    let foreign = options().method(*foreign.unwrap());
    for is_there in [false, true] {
        if is_there {
            fs::create_dir(&dir).unwrap();
        }
        for (name, open) in [WAYS[0], WAYS[2]] {
            println!("{name}");
            assert_error(
                open(&dir, foreign.clone()),
                ErrorKind::Unavailable,
                &["not offered"],
            );
            assert_eq!(dir.exists(), is_there);
        }
    }
    assert_eq!(listing(&dir), [], "nothing was made");
    logforce::open_or_create(&dir, options()).unwrap();
}

#[test]
fn emptied() {
    let home = temp();
    for keep_lock in [false, true] {
        let dir = home.path().join(keep_lock.to_string());
        small_log(&dir);
        for entry in fs::read_dir(&dir).unwrap() {
            let entry = entry.unwrap();
            if !(keep_lock && entry.file_name() == "lock") {
                fs::remove_file(entry.path()).unwrap();
            }
        }
        let found = logforce::open_existing(&dir, options());
        let e = assert_error(found, ErrorKind::NoLog, &["the directory is empty"]);
        check_path(&e, &dir);
        assert!(fs::read_dir(&dir).unwrap().count() <= 1, "nothing was made");
    }
}

#[test]
fn without_its_control_file_it_is_never_a_fresh_log() {
    let dir = temp();
    let log = logforce::create_new(dir.path(), options()).unwrap();
    for n in 0..40 {
        let at = log.commit(&record(n, 20_000)).unwrap();
        if n == 30 {
            log.truncate_front(at.start).unwrap();
        }
    }
    log.close().unwrap();
    fs::remove_file(dir.path().join("control")).unwrap();
    let before = listing(dir.path());
    let refused = || {
        for (name, open) in WAYS {
            println!("{name}");
            let e = assert_error(
                open(dir.path(), options()),
                ErrorKind::NoLog,
                &[
                    "its file 'control' is missing",
                    "restore 'control' from a copy",
                    "--salvage",
                ],
            );
            check_path(&e, dir.path());
        }
    };
    refused();
    assert_eq!(listing(dir.path()), before);
    let salvaged = logforce::inspect::salvage(dir.path()).unwrap();
    let found = salvaged.walk(&mut |_| true).unwrap();
    assert!(found.records > 10 && found.damages == 0, "{found:?}");
    // The same applies if only a spare is left. (The log may have reused all of its spares.)
    let used = segments(dir.path());
    fs::rename(&used[0], used[0].with_extension("spare")).unwrap();
    for segment in &used[1..] {
        fs::remove_file(segment).unwrap();
    }
    refused();
}

/// A crash during a rename may leave the file under both names on a filesystem without a journal.
#[test]
fn a_segment_that_is_a_spare_as_well() {
    let dir = temp();
    let log = logforce::create_new(dir.path(), options()).unwrap();
    for n in 0..20 {
        log.commit(&record(n, 20_000)).unwrap();
    }
    log.close().unwrap();
    for (n, segment) in segments(dir.path()).iter().enumerate() {
        let spare = dir.path().join(format!("{n:016x}.spare"));
        fs::hard_link(segment, spare).unwrap();
    }
    let log = logforce::open_existing(dir.path(), options()).unwrap();
    assert_holds(&log, 0, 20, 20_000);
    for n in 20..60 {
        log.commit(&record(n, 20_000)).unwrap();
    }
    log.close().unwrap();
    let log = logforce::open_existing(dir.path(), options()).unwrap();
    assert_holds(&log, 0, 60, 20_000);
    assert_eq!(
        with_suffix(dir.path(), ".spare"),
        [""; 0].map(PathBuf::from)
    );
}

fn listing(dir: &Path) -> Vec<(PathBuf, u64)> {
    let mut all: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap())
        .map(|e| (e.path(), e.metadata().unwrap().len()))
        .collect();
    all.sort();
    all
}

#[test]
fn a_file() {
    let home = temp();
    let path = home.path().join("file");
    fs::write(&path, "hello").unwrap();
    for (name, open) in WAYS {
        println!("{name}");
        let e = assert_error(
            open(&path, options()),
            ErrorKind::NotALog,
            &["file", "it is not a directory"],
        );
        check_path(&e, &path);
    }
    assert_eq!(fs::read(&path).unwrap(), b"hello");
}

#[test]
fn somebody_elses() {
    let dir = temp();
    let theirs = dir.path().join("diary.txt");
    fs::write(&theirs, "dear").unwrap();
    for (name, open) in WAYS {
        println!("{name}");
        let e = assert_error(
            open(dir.path(), options()),
            ErrorKind::NotALog,
            &["'diary.txt'", "no 'control' file"],
        );
        check_path(&e, dir.path());
    }
    assert_eq!(listing(dir.path()).len(), 1, "nothing was made");
    // An invalid control file.
    fs::write(dir.path().join("control"), vec![b'x'; 128 << 10]).unwrap();
    for (_, open) in &WAYS[1..] {
        let e = assert_error(
            open(dir.path(), options()),
            ErrorKind::NotALog,
            &["'control' is not a control file"],
        );
        check_path(&e, dir.path());
    }
    assert_error(
        logforce::create_new(dir.path(), options()),
        ErrorKind::AlreadyExists,
        &["open_existing"],
    );
}

#[test]
fn strange_files_beside_a_log_are_left_alone() {
    let dir = temp();
    small_log(dir.path());
    fs::write(dir.path().join("notes"), "mine").unwrap();
    fs::create_dir(dir.path().join("00000000ffff0000.seg")).unwrap();
    fs::create_dir(dir.path().join("sub")).unwrap();
    let log = logforce::open_or_create(dir.path(), options()).unwrap();
    for n in 1..60 {
        let at = log.commit(&record(n, 20_000)).unwrap();
        log.truncate_front(at.start).unwrap();
    }
    log.close().unwrap();
    assert_eq!(fs::read(dir.path().join("notes")).unwrap(), b"mine");
    for name in ["sub", "00000000ffff0000.seg"] {
        assert!(dir.path().join(name).is_dir());
    }
}

/// An opening removes an unfinished control file, whatever its origin: logs are opened by the finished one.
#[test]
fn a_control_file_being_made_is_removed() {
    let dir = temp();
    small_log(dir.path());
    let left = dir.path().join("control.tmp");
    fs::copy(dir.path().join("control"), &left).unwrap();
    // Reading changes nothing.
    logforce::inspect::open(dir.path()).unwrap();
    assert!(left.exists());
    let log = logforce::open_existing(dir.path(), options()).unwrap();
    assert!(!left.exists());
    assert_holds(&log, 0, 1, 100);
    log.close().unwrap();
}

#[cfg(target_os = "linux")]
fn make_fifo(path: &Path) {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

/// Never called: this system has no FIFOs in directories.
#[cfg(not(target_os = "linux"))]
fn make_fifo(_: &Path) {
    unreachable!("not asked for");
}

#[test]
fn a_control_file_that_is_no_file() {
    for fifo in [false, true] {
        if fifo && cfg!(not(target_os = "linux")) {
            continue;
        }
        let dir = temp();
        small_log(dir.path());
        let control = dir.path().join("control");
        fs::remove_file(&control).unwrap();
        if fifo {
            make_fifo(&control);
        } else {
            fs::create_dir(&control).unwrap();
        }
        let found = logforce::open_existing(dir.path(), options());
        assert_error(found, ErrorKind::Io, &["control", "not a regular file"]);
        let found = logforce::inspect::open(dir.path()).map(drop);
        assert_error(found, ErrorKind::Io, &["control", "not a regular file"]);
    }
}

#[test]
fn there_is_one_already() {
    let dir = temp();
    small_log(dir.path());
    let found = logforce::create_new(dir.path(), options());
    let e = assert_error(found, ErrorKind::AlreadyExists, &["open_existing"]);
    check_path(&e, dir.path());
    let log = logforce::open_existing(dir.path(), options()).unwrap();
    assert_holds(&log, 0, 1, 100);
}

#[cfg(unix)]
#[test]
fn only_the_owner_may_look() {
    let home = temp();
    let dir = home.path().join("log");
    let log = logforce::create_new(&dir, options()).unwrap();
    for n in 0..60 {
        let at = log.commit(&record(n, 20_000)).unwrap();
        log.truncate_front(at.start).unwrap();
    }
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&dir), 0o700);
    for (file, _) in listing(&dir) {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
    log.close().unwrap();
    for (file, _) in listing(&dir) {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
}

#[cfg(unix)]
#[test]
fn by_a_symbolic_link_and_other_names() {
    let home = temp();
    let dir = home.path().join("日本 ログ ünï \"quoted\"");
    small_log(&dir);
    let link = home.path().join("link");
    symlink(&dir, &link).unwrap();
    let mut slash = dir.clone().into_os_string();
    slash.push("/");
    let ways = [
        dir.clone(),
        PathBuf::from(slash),
        link.clone(),
        dir.join("."),
        link.join("..").join(dir.file_name().unwrap()),
    ];
    for path in &ways {
        println!("{}", path.display());
        let log = logforce::open_existing(path, options()).unwrap();
        assert_holds(&log, 0, 1, 100);
        // Each name leads to the same log.
        for other in &ways {
            let second = logforce::open_existing(other, options());
            assert_error(second, ErrorKind::Locked, &[other.to_str().unwrap()]);
        }
        log.close().unwrap();
    }
    let new = home.path().join("new/");
    small_log(&new);
    // A dangling link.
    let nowhere = home.path().join("nowhere");
    symlink(home.path().join("gone"), &nowhere).unwrap();
    for (_, open) in WAYS {
        let e = open(&nowhere, options()).unwrap_err();
        assert!(e.to_string().contains("nowhere"), "{e}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_path_that_is_not_unicode() {
    use std::os::unix::ffi::OsStrExt;
    let home = temp();
    let dir = home.path().join(std::ffi::OsStr::from_bytes(b"l\xffg"));
    small_log(&dir);
    let log = logforce::open_existing(&dir, options()).unwrap();
    assert_holds(&log, 0, 1, 100);
}

#[test]
fn relative_and_then_the_working_directory_changes() {
    const HOME: &str = "LOGFORCE_TEST_HOME";
    // All threads share the working directory, so this test runs in a second process.
    let Some(home) = in_second_process(HOME) else {
        let home = temp();
        let name = "relative_and_then_the_working_directory_changes";
        assert_passed(&again(name, HOME, home.path()).to_end().unwrap());
        return;
    };
    std::env::set_current_dir(&home).unwrap();
    let log = logforce::create_new("log", options()).unwrap();
    log.commit(&record(0, 20_000)).unwrap();
    std::env::set_current_dir(home.parent().unwrap()).unwrap();
    for n in 1..60 {
        let at = log.commit(&record(n, 20_000)).unwrap();
        if n % 10 == 0 {
            log.truncate_front(at.start).unwrap();
        }
    }
    assert_holds(&log, 50, 60, 20_000);
    log.close().unwrap();
    std::env::set_current_dir(&home).unwrap();
    let log = logforce::open_existing("./log", options()).unwrap();
    assert_holds(&log, 50, 60, 20_000);
    log.close().unwrap();
    std::env::set_current_dir(home.join("log")).unwrap();
    let log = logforce::open_existing(".", options()).unwrap();
    assert_holds(&log, 50, 60, 20_000);
}

/// Windows neither moves nor removes a directory with open files; the log continues.
#[cfg(windows)]
#[test]
fn while_it_is_open_it_stays() {
    let home = temp();
    let dir = home.path().join("log");
    let log = logforce::create_new(&dir, options()).unwrap();
    log.commit(&record(0, 20_000)).unwrap();
    fs::rename(&dir, home.path().join("after")).unwrap_err();
    fs::remove_dir(&dir).unwrap_err();
    for n in 1..60 {
        let at = log.commit(&record(n, 20_000)).unwrap();
        if n % 10 == 0 {
            log.truncate_front(at.start).unwrap();
        }
    }
    log.close().unwrap();
    let log = logforce::open_existing(&dir, options()).unwrap();
    assert_holds(&log, 50, 60, 20_000);
    log.close().unwrap();
    // The closed log holds no file any more.
    let after = home.path().join("after");
    fs::rename(&dir, &after).unwrap();
    fs::remove_dir_all(&after).unwrap();
}

#[cfg(windows)]
#[test]
fn by_other_names_of_it() {
    let home = temp();
    let dir = home.path().join("日本 ログ ünï 'quoted'");
    small_log(&dir);
    let name = dir.file_name().unwrap();
    let mut slash = dir.clone().into_os_string();
    slash.push("\\");
    let ways = [
        dir.clone(),
        PathBuf::from(slash),
        dir.join("."),
        home.path().join("nosuch").join("..").join(name),
        // Names are not case-sensitive.
        dir.with_file_name("日本 ログ ünÏ 'QUOTED'"),
    ];
    for path in &ways {
        println!("{}", path.display());
        let log = logforce::open_existing(path, options()).unwrap();
        assert_holds(&log, 0, 1, 100);
        for other in &ways {
            let second = logforce::open_existing(other, options());
            assert_error(second, ErrorKind::Locked, &[other.to_str().unwrap()]);
        }
        log.close().unwrap();
    }
}

/// Directories that root creates with restricted access, opened by another user.
#[cfg(target_os = "linux")]
#[test]
fn not_allowed() {
    const HOME: &str = "LOGFORCE_TEST_HOME";
    if let Some(home) = in_second_process(HOME) {
        let denied = |name: &str, open: Opener, words: &[&str]| {
            let words = [
                words,
                &["Permission denied", "must be readable and writable"],
            ]
            .concat();
            let e = assert_error(open(&home.join(name), options()), ErrorKind::Io, &words);
            assert!(e.path().unwrap().starts_with(home.join(name)), "{e:?}");
        };
        for (name, open) in WAYS {
            println!("{name}");
            // The directory cannot be read.
            denied("closed", open, &["closed"]);
            denied("closed/below", open, &["below"]);
            if name != "open_existing" {
                // The directory can be read but not written.
                denied("readable", open, &["readable/lock"]);
                denied("readable/below", open, &["below"]);
            }
            if name != "create_new" {
                // Logs whose files cannot be read, or cannot be written.
                denied("unreadable", open, &["unreadable/"]);
                denied("unwritable", open, &["unwritable/"]);
            }
        }
        let seen = logforce::inspect::open(home.join("unwritable")).unwrap();
        let found = seen.walk(&mut |_| true).unwrap();
        assert_eq!((found.records, found.damages), (1, 0));
        // No files can be created: this log ends at the end of its prepared space.
        let dir = home.join("no-new-files");
        let log = logforce::open_existing(&dir, options()).unwrap();
        let prepared = logforce::inspect::open(&dir)
            .unwrap()
            .summary()
            .prepared_end;
        let (n, e) = fill_up(&log, 1, 20_000);
        let words = [dir.to_str().unwrap(), "Permission denied", "must be"];
        assert_error::<()>(Err(e), ErrorKind::Io, &words);
        // The number of records that fit depends on stamps, and on whether another segment was prepared in
        // time. The remaining space is less than the sum of two parts. The first is the maximum space of a
        // record: five units, and the headers and padding of two batches and of a segment between them. The
        // second is the sixteen units that are reserved for closing and truncating.
        let left = prepared.since(log.tail_lsn());
        assert!(left < (10 + 16) * 4096, "{left} left after {n}");
        assert!(n > 0);
        assert_eq!(read_all(&log).len() as u64, 1 + n);
        log.close().unwrap();
        // A user other than root can use a directory that is writable for that user.
        let own = home.join("open/log");
        small_log(&own);
        let log = logforce::open_existing(&own, options()).unwrap();
        assert_holds(&log, 0, 1, 100);
        return;
    }
    let home = temp();
    let modes = |name: &str, dir: u32, file: u32| {
        let dir_path = home.path().join(name);
        let _ = fs::create_dir(&dir_path);
        for (path, _) in listing(&dir_path) {
            fs::set_permissions(path, PermissionsExt::from_mode(file)).unwrap();
        }
        fs::set_permissions(&dir_path, PermissionsExt::from_mode(dir)).unwrap();
    };
    modes("closed", 0o700, 0o600);
    modes("readable", 0o755, 0o644);
    for (name, dir, file) in [
        ("unreadable", 0o777, 0o600),
        ("unwritable", 0o755, 0o644),
        ("no-new-files", 0o755, 0o666),
    ] {
        small_log(&home.path().join(name));
        modes(name, dir, file);
    }
    modes("open", 0o777, 0o600);
    fs::set_permissions(home.path(), PermissionsExt::from_mode(0o755)).unwrap();
    if !as_nobody("not_allowed", HOME, home.path()) {
        return;
    }
    // The refused logs did not change.
    for name in ["unreadable", "unwritable", "no-new-files"] {
        let log = logforce::open_existing(home.path().join(name), options()).unwrap();
        assert!(log.recovered().clean);
        assert_eq!(read_all(&log)[0], record(0, 100));
        log.commit(b"on").unwrap();
    }
}
