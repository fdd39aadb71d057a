//! Access to a log's files by other users, and waiting for another writer.

use crate::common::*;
use logforce::{BackupOptions, ErrorKind, Options};
use logforce_testkit::process::Start;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

const DIR: &str = "LOGFORCE_TEST_DIR";

#[test]
fn an_opening_waits_for_another_writer() {
    let dir = temp();
    let log = logforce::create_new(dir.path(), options()).unwrap();
    log.commit(b"before").unwrap();
    let closer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        log.close().unwrap();
    });
    let waits = options().wait_for_lock(Duration::from_secs(60));
    let log = logforce::open_existing(dir.path(), waits.clone()).unwrap();
    assert_eq!(read_all(&log), [b"before"]);
    closer.join().unwrap();
    // It waits only for the given time, and by default not at all.
    let began = Instant::now();
    let short = options().wait_for_lock(Duration::from_millis(50));
    let words = ["open for writing already", "wait_for_lock"];
    assert_error(
        logforce::open_existing(dir.path(), short),
        ErrorKind::Locked,
        &words,
    );
    assert!(began.elapsed() >= Duration::from_millis(50));
    // A page file behaves in the same way.
    let home = temp();
    let options = || logforce::pages::Options::new().require(logforce::Guarantee::ProcessCrash);
    let path = home.path().join("pages");
    let file = logforce::pages::create_new(&path, options()).unwrap();
    let closer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        file.close().unwrap();
    });
    logforce::pages::open_existing(&path, options().log(waits)).unwrap();
    closer.join().unwrap();
}

#[test]
fn an_opening_waits_for_another_process() {
    let name = "an_opening_waits_for_another_process";
    if let Some(dir) = in_second_process(DIR) {
        let _log = logforce::open_existing(dir, options()).unwrap();
        tell("\nopen");
        std::thread::sleep(Duration::from_secs(600));
    }
    let dir = temp();
    drop(logforce::create_new(dir.path(), options()).unwrap());
    let mut child = again(name, DIR, dir.path());
    let mut child = child.stdout(Stdio::piped()).start().unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    let mut child = Killed(child);
    assert!(out.lines().map_while(Result::ok).any(|line| line == "open"));
    std::thread::scope(|scope| {
        let waits = options().wait_for_lock(Duration::from_secs(60));
        let opening = scope.spawn(|| logforce::open_existing(dir.path(), waits));
        std::thread::sleep(Duration::from_millis(50));
        child.kill();
        opening.join().unwrap().unwrap();
    });
}

#[test]
fn modes_that_are_none() {
    let dir = temp();
    let path = dir.path().join("log");
    for (bad, option) in [
        (options().file_mode(0o1644), "file_mode"),
        (options().file_mode(0o440), "file_mode"),
        (options().directory_mode(0o650), "directory_mode"),
    ] {
        let opened = logforce::create_new(&path, bad);
        assert_error(opened, ErrorKind::InvalidInput, &[option, "0o"]);
        assert!(!path.exists());
    }
}

/// Returns the modes of the directory and of each of its files.
#[cfg(unix)]
fn modes(path: &std::path::Path) -> (u32, Vec<(String, u32)>) {
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o7777;
    let entries = std::fs::read_dir(path).unwrap().map(|e| e.unwrap());
    let files = entries.filter(|e| e.path().is_file());
    let files = files.map(|e| (e.file_name().into_string().unwrap(), mode(&e.path())));
    (mode(path), files.collect())
}

/// All files that a log and a page file create have exactly the requested modes.
#[cfg(unix)]
#[test]
fn modes_of_files_and_directories() {
    use std::os::unix::fs::PermissionsExt;
    let home = temp();
    let path = home.path().join("log");
    let asked = |options: Options| options.file_mode(0o664).directory_mode(0o775);
    // Creates and removes segments, the page of statistics and a calibration.
    let small = || {
        asked(options())
            .calibrate(true)
            .segment_size(64 << 10)
            .max_batch_size(32 << 10)
    };
    let fill = |log: &logforce::Log| {
        for n in 0..60 {
            let at = log.commit(record(n, 5_000)).unwrap();
            log.truncate_front(at.start).unwrap();
        }
    };
    let check = |path: &std::path::Path, least: usize| {
        let (directory, files) = modes(path);
        assert_eq!(directory, 0o775, "{}", path.display());
        assert!(files.len() >= least, "{files:?}");
        assert!(files.iter().all(|(_, mode)| *mode == 0o664), "{files:?}");
    };
    let log = logforce::create_new(&path, small()).unwrap();
    fill(&log);
    check(&path, 3);
    let backup = home.path().join("backup");
    log.backup(&backup, BackupOptions::new()).unwrap();
    check(&backup, 3);
    log.close().unwrap();

    // In an environment the log opens the directory for each call.
    let environment = logforce::environment(&logforce::EnvironmentOptions::new()).unwrap();
    let path = home.path().join("shared");
    let log = logforce::create_new(&path, small().environment(&environment)).unwrap();
    fill(&log);
    check(&path, 3);
    log.close().unwrap();

    for mode in [
        logforce::pages::CommitMode::Logged,
        logforce::pages::CommitMode::CopyOnWrite,
    ] {
        let path = home.path().join(format!("{mode:?}"));
        let options = logforce::pages::Options::new()
            .require(logforce::Guarantee::ProcessCrash)
            .mode(mode)
            .log(asked(sized(SEGMENT)));
        let file = logforce::pages::create_new(&path, options).unwrap();
        check(&path, 2);
        if mode == logforce::pages::CommitMode::Logged {
            check(&path.join("log"), 3);
        }
        file.close().unwrap();
    }

    // Existing directories, with their set-group-id bit, and existing files keep their modes.
    let path = home.path().join("there");
    std::fs::create_dir(&path).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o2750)).unwrap();
    let log = logforce::open_or_create(&path, options()).unwrap();
    log.close().unwrap();
    let before = modes(&path);
    assert_eq!(before.0, 0o2750);
    assert!(before.1.iter().all(|(_, mode)| mode & 0o077 == 0));
    logforce::open_existing(&path, asked(options())).unwrap();
    let after = modes(&path);
    let unchanged = |file: &&(String, u32)| after.1.contains(file);
    assert!(
        before
            .1
            .iter()
            .filter(|(n, _)| n == "control")
            .all(|f| unchanged(&f))
    );
    assert_eq!(after.0, 0o2750);
}

/// A process of another user reads and follows the log, and neither writes nor locks it.
#[cfg(target_os = "linux")]
#[test]
fn another_user_reads_a_log() {
    if let Some(dir) = in_second_process(DIR) {
        let log = logforce::read_only(&dir).unwrap();
        let mut follower = log.follow_lsn(log.front_lsn()).unwrap();
        assert!(follower.is_writer_running().unwrap());
        let next = follower.next_timeout(Duration::from_secs(60)).unwrap();
        assert_eq!(next.unwrap().data, b"shared");
        assert_error(
            logforce::open_existing(&dir, options()),
            ErrorKind::Io,
            &["denied"],
        );
        return;
    }
    let home = open_to_all(temp());
    // The log's directory inherits the group of this one and its set-group-id bit. All files get the group,
    // also those that are created while the log runs.
    let grouped = home.path().join("grouped");
    std::fs::create_dir(&grouped).unwrap();
    let theirs = Some(logforce_testkit::another_user::NOBODY);
    if let Err(e) = std::os::unix::fs::chown(&grouped, None, theirs) {
        return logforce_testkit::skip!("no directory can be given to another group: {e}");
    }
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o2755);
    std::fs::set_permissions(&grouped, mode).unwrap();
    for (place, mode, directory) in [(home.path(), 0o644, 0o755), (&grouped, 0o640, 0o750)] {
        let path = place.join(format!("{mode:o}"));
        let options = options().file_mode(mode).directory_mode(directory);
        let log = logforce::create_new(&path, options).unwrap();
        log.commit(b"shared").unwrap();
        log.commit(b"and on").unwrap();
        if !as_nobody("another_user_reads_a_log", DIR, &path) {
            return;
        }
    }
}
