//! `dump`, `verify` and `stat` when the log cannot be read or the output cannot be written.

#[cfg(unix)]
use crate::common::open_place;
use crate::common::place;
use crate::logs::{all_output, filled, logforce};
use logforce_testkit::process::Start;
use std::fs;
use std::process::{Command, Stdio};

#[test]
fn what_is_no_log_is_told() {
    let dir = place();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir(at("empty")).unwrap();
    fs::create_dir(at("other")).unwrap();
    fs::write(at("other").join("control"), vec![7; 16384]).unwrap();
    fs::write(at("file"), "x").unwrap();
    for (name, why) in [
        ("nosuch", "does not exist"),
        ("empty", "holds no log"),
        ("other", "is not a control file"),
        ("file", "is not a directory"),
    ] {
        for command in ["verify", "dump", "stat"] {
            let out = logforce(&at(name), command, &["--json", "-"]);
            assert_eq!(
                out.status.code(),
                Some(4),
                "{command} {name}: {}",
                all_output(&out)
            );
            assert!(
                all_output(&out).contains(why),
                "{command} {name}: {}",
                all_output(&out)
            );
            assert!(out.stdout.is_empty());
            let out = logforce(&at(name), command, &["--salvage"]);
            assert_eq!(
                out.status.code(),
                Some(4),
                "{command} {name}: {}",
                all_output(&out)
            );
        }
    }
    for arguments in [
        &["--json", "-", "--csv", "-"][..],
        &["--nosuch"],
        &["--from", "x"],
    ] {
        let out = logforce(&at("empty"), "dump", arguments);
        assert_eq!(out.status.code(), Some(2), "{}", all_output(&out));
    }
}

#[cfg(unix)]
#[test]
fn unreadable_files_are_told() {
    use logforce_testkit::another_user::unprivileged;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;
    let dir = open_place();
    let path = dir.path().join("log");
    let (log, _) = filled(&path, 10);
    log.close().unwrap();
    for (what, mode) in [("0000000000000000.seg", 0o644), ("control", 0o644)] {
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        for entry in fs::read_dir(&path).unwrap() {
            fs::set_permissions(entry.unwrap().path(), fs::Permissions::from_mode(mode)).unwrap();
        }
        fs::set_permissions(path.join(what), fs::Permissions::from_mode(0o000)).unwrap();
        for name in ["verify", "dump", "stat"] {
            let Some(mut command) = unprivileged(Path::new(env!("CARGO_BIN_EXE_logforce"))) else {
                return;
            };
            command.arg(name).arg(&path).stdin(Stdio::null());
            let out = command.to_end().unwrap();
            assert_eq!(
                out.status.code(),
                Some(4),
                "{name} {what}: {}",
                all_output(&out)
            );
            let printed = all_output(&out);
            assert!(
                printed.contains(what) && printed.contains("ermission denied"),
                "{name} {what}: {printed}"
            );
        }
    }
}

/// A virus scanner or a backup may lock a file for a while.
#[cfg(windows)]
#[test]
fn a_file_that_somebody_has_open_for_himself_is_told() {
    use std::os::windows::fs::OpenOptionsExt;
    let dir = place();
    let path = dir.path().join("log");
    let (log, _) = filled(&path, 10);
    log.close().unwrap();
    for what in ["0000000000000000.seg", "control"] {
        let mut how = fs::File::options();
        let theirs = how.read(true).share_mode(0).open(path.join(what)).unwrap();
        for name in ["verify", "dump", "stat"] {
            let out = logforce(&path, name, &[]);
            let printed = all_output(&out);
            assert_eq!(out.status.code(), Some(4), "{name} {what}: {printed}");
            assert!(
                printed.contains(what) && printed.contains("os error 32"),
                "{name} {what}: {printed}"
            );
            assert!(!printed.contains("DAMAGE"), "{name} {what}: {printed}");
        }
        drop(theirs);
        let out = logforce(&path, "verify", &[]);
        assert_eq!(out.status.code(), Some(0), "{what}: {}", all_output(&out));
    }
}

#[test]
fn a_closed_pipe_is_no_panic() {
    let dir = place();
    let path = dir.path().join("log");
    let (log, _) = filled(&path, 400);
    log.close().unwrap();
    for arguments in [
        &["dump"][..],
        &["dump", "--json", "-"],
        &["verify"],
        &["stat", "--csv", "-"],
    ] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_logforce"))
            .args(arguments)
            .arg(&path)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .start()
            .unwrap();
        drop(child.stdout.take());
        let out = child.wait_with_output().unwrap();
        assert_eq!(
            out.status.code(),
            Some(0),
            "{arguments:?}: {}",
            all_output(&out)
        );
        assert!(
            !all_output(&out).contains("panicked") && !all_output(&out).contains("error"),
            "{}",
            all_output(&out)
        );
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_told() {
    let dir = place();
    let path = dir.path().join("log");
    let (log, _) = filled(&path, 5);
    log.close().unwrap();
    for command in ["dump", "verify", "stat"] {
        for flag in ["--json", "--csv"] {
            let out = logforce(&path, command, &[flag, "/dev/full"]);
            assert_eq!(
                out.status.code(),
                Some(4),
                "{command} {flag}: {}",
                all_output(&out)
            );
            assert!(
                all_output(&out).contains("cannot write /dev/full"),
                "{}",
                all_output(&out)
            );
        }
    }
}
