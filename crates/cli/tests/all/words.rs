//! Wording of the output: correct plurals, normal ends that are called normal, errors with a remedy, and
//! no debug output.

#[cfg(target_os = "linux")]
use crate::common::open_place;
use crate::common::{place, text};
use crate::logs::{all_output, copy, filled, flip, logforce, segments};
use logforce_testkit::process::Start;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Output};

/// Messages for a name below a file, and for a name that is too long. Windows reports both as missing.
const NO_NAMES: [&str; 2] = match cfg!(windows) {
    true => ["the directory does not exist"; 2],
    false => ["it is not a directory", "too long"],
};

const LOOKING: [(&str, &[&str]); 4] = [
    ("verify", &[]),
    ("dump", &[]),
    ("stat", &["--scan"]),
    ("stat", &[]),
];

/// Returns wrong plurals such as `1 segments` and `1 records` in the printed text.
fn wrong_plurals(text: &str) -> Vec<String> {
    let words: Vec<&str> = text.split([' ', '\n', '(', ')', ',', ';', ':']).collect();
    words
        .windows(2)
        .filter(|w| w[0] == "1" && w[1].len() > 2 && w[1].ends_with('s'))
        .filter(|w| !["is", "was", "process"].contains(&w[1]))
        .map(|w| w.join(" "))
        .collect()
}

#[test]
fn one_is_one_and_two_are_two() {
    let dir = place();
    for count in [0, 1, 2] {
        let path = dir.path().join(count.to_string());
        let (log, _) = filled(&path, count);
        log.close().unwrap();
        for (command, arguments) in LOOKING {
            let said = all_output(&logforce(&path, command, arguments));
            assert_eq!(wrong_plurals(&said), [""; 0], "{command}: {said}");
        }
    }
    let one = all_output(&logforce(&dir.path().join("1"), "verify", &[]));
    for part in ["1 record (", "healthy"] {
        assert!(one.contains(part), "no '{part}' in {one}");
    }
    let two = all_output(&logforce(&dir.path().join("2"), "verify", &[]));
    assert!(two.contains("2 records ("), "{two}");
}

/// The output calls the end of a log normal unless it is damage.
#[test]
fn an_end_that_is_normal_is_called_so() {
    let dir = place();
    let path = dir.path().join("log");
    let (log, starts) = filled(&path, 30);
    // A log as after a crash, with a torn write.
    let torn = dir.path().join("torn");
    copy(&path, &torn);
    log.close().unwrap();
    let last = segments(&torn).into_iter().rev().find(|s| {
        let bytes = fs::read(s).unwrap();
        bytes.windows(7).any(|w| w == b"record ")
    });
    let last = last.unwrap();
    let bytes = fs::read(&last).unwrap();
    let at = bytes.windows(9).rposition(|w| w == b"record 29").unwrap();
    flip(&last, at as u64 + 100);
    for (path, ends) in [(&path, "clean-end"), (&torn, "torn-end")] {
        for (command, arguments) in &LOOKING[..3] {
            let said = all_output(&logforce(path, command, arguments));
            let line = said.lines().find(|l| l.contains(ends));
            let line = line.unwrap_or_else(|| panic!("no {ends} by {command}: {said}"));
            assert!(line.contains("normal"), "{command}: {line}");
        }
    }
    assert!(starts.len() > 20);
}

#[test]
fn numbers_that_are_none() {
    let dir = place();
    for (command, arguments, part) in [
        ("dump", &["--limit", "x"][..], "'x' is not a number"),
        ("dump", &["--limit", "1.5"], "give a whole one"),
        ("dump", &["--data-bytes", "x"], "'x' is not a number"),
        ("dump", &["--from", "x"], "'x' is not an LSN"),
        ("dump", &["--raw", "-"], "'-' is not an LSN"),
        (
            "dump",
            &["--from", "5", "--to", "5"],
            "--from 5 and --to 5 leave nothing",
        ),
        (
            "dump",
            &["--from", "9", "--to", "5"],
            "--from 9 and --to 5 leave nothing",
        ),
    ] {
        let out = logforce(dir.path(), command, arguments);
        assert_eq!(out.status.code(), Some(2), "{arguments:?}");
        let said = all_output(&out);
        assert!(said.contains(part), "{arguments:?}: {said}");
        assert!(!said.contains("found in string"), "{arguments:?}: {said}");
    }
}

#[test]
fn numbers_out_of_range_name_the_range() {
    for (arguments, part) in [
        (&["bench", "group", "--threads", "0"][..], "from 1 to 1024"),
        (
            &["bench", "group", "--rounds", "-1"],
            "'-1' is not a number from 1 to 4294967295",
        ),
        (
            &["calibrate", "--again", "--seconds", "-1.5"],
            "above 0 and at most 60",
        ),
        (&["dump", ".", "--from", "-1"], "'-1' is not an LSN"),
        (&["bench", "group", "--rounds=x"], "'x' is not a number"),
        (
            &[
                "powercut",
                "write",
                "--witness",
                "h",
                "d",
                "--committers",
                "65",
            ],
            "from 1 to 64",
        ),
        (
            &["powercut", "witness", "--listen", "nowhere"],
            "an address of this machine and a free port",
        ),
    ] {
        let dir = place();
        let mut call = Command::new(env!("CARGO_BIN_EXE_logforce"));
        let out = call.current_dir(dir.path()).args(arguments).to_end();
        let said = all_output(&out.unwrap());
        assert!(said.contains(part), "{arguments:?}: {said}");
        assert!(!said.contains("found in string"), "{said}");
        assert_eq!(
            fs::read_dir(dir.path()).unwrap().count(),
            0,
            "{arguments:?}"
        );
    }
}

/// Metadata is not reported as lost if nothing shows that it was ever set.
#[test]
fn metadata_that_was_never_set_is_not_lost() {
    let dir = place();
    let path = dir.path().join("log");
    let (log, _) = filled(&path, 3);
    log.close().unwrap();
    let control = path.join("control");
    fs::remove_file(&control).unwrap();
    for command in ["verify", "stat"] {
        let said = all_output(&logforce(&path, command, &["--salvage"]));
        assert!(!said.contains("LOST"), "{command}: {said}");
        assert!(
            said.contains("whether any was ever set"),
            "{command}: {said}"
        );
        assert!(said.contains("missing"), "{command}: {said}");
    }
    // The contents of the segments are whole, but no program can open the log.
    let out = logforce(&path, "verify", &["--salvage"]);
    assert_eq!(out.status.code(), Some(1), "{}", all_output(&out));
    for part in ["cannot be opened", "logforce salvage"] {
        assert!(
            all_output(&out).contains(part),
            "no '{part}' in {}",
            all_output(&out)
        );
    }
    // Metadata that was set and is gone is reported as lost.
    let path = dir.path().join("other");
    let (log, _) = filled(&path, 3);
    log.set_meta(b"a vote").unwrap();
    log.close().unwrap();
    let control = path.join("control");
    for slot in [128 << 10, 192 << 10] {
        flip(&control, slot + 20);
    }
    let said = all_output(&logforce(&path, "verify", &[]));
    assert!(said.contains("LOST"), "{said}");
    // With --salvage it is also reported as lost if the slots exist and are damaged.
    let control = File::options().write(true).open(control).unwrap();
    control.set_len(256 << 10).unwrap();
    let said = all_output(&logforce(&path, "verify", &["--salvage"]));
    assert!(said.contains("LOST"), "{said}");
}

#[test]
fn places_that_are_no_log() {
    let dir = place();
    fs::write(dir.path().join("file"), "hello").unwrap();
    fs::create_dir(dir.path().join("empty")).unwrap();
    let long = "x".repeat(300);
    for (name, part) in [
        ("gone", "the directory does not exist"),
        ("file", "it is not a directory"),
        ("file/below", NO_NAMES[0]),
        ("empty", "it has no 'control' file"),
        ("gäste-ログ", "gäste-ログ holds no log"),
        (&long, NO_NAMES[1]),
    ] {
        for (command, arguments) in LOOKING {
            let mut call = Command::new(env!("CARGO_BIN_EXE_logforce"));
            let call = call.current_dir(dir.path()).arg(command).arg(name);
            let out = call.args(arguments).to_end().unwrap();
            let said = all_output(&out);
            assert_eq!(out.status.code(), Some(4), "{command} {name}: {said}");
            assert!(said.contains(part), "{command} {name}: {said}");
            assert!(!said.contains("Some(") && !said.contains('{'), "{said}");
        }
    }
}

/// Runs the command as a user who owns nothing. Returns `None` if that is not possible.
#[cfg(target_os = "linux")]
fn as_nobody(command: &str, dir: &Path) -> Option<Output> {
    let program = Path::new(env!("CARGO_BIN_EXE_logforce"));
    let mut call = logforce_testkit::another_user::as_nobody(program)?;
    Some(call.arg(command).arg(dir).to_end().unwrap())
}

/// Read permission suffices to inspect a log. Without it, the error does not ask for write permission.
#[cfg(target_os = "linux")]
#[test]
fn looking_takes_the_right_to_read() {
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &Path, mode| fs::set_permissions(path, PermissionsExt::from_mode(mode));
    let dir = open_place();
    let path = dir.path().join("log");
    let (log, _) = filled(&path, 3);
    log.close().unwrap();
    let files = || fs::read_dir(&path).unwrap().map(|e| e.unwrap().path());
    mode(&path, 0o755).unwrap();
    for (files_are, part) in [
        (0o644, "whole, in both slots"),
        (0o600, "must be allowed to read it"),
    ] {
        files().for_each(|f| mode(&f, files_are).unwrap());
        let Some(out) = as_nobody("stat", &path) else {
            return;
        };
        let said = all_output(&out);
        assert!(said.contains(part), "{files_are:o}: {said}");
        assert!(!said.contains("writable"), "{said}");
    }
    mode(&path, 0o700).unwrap();
    for command in ["stat", "verify", "dump", "facts"] {
        let said = all_output(&as_nobody(command, &path).unwrap());
        assert!(said.contains("must be allowed to read it"), "{said}");
        assert!(!said.contains("writable"), "{said}");
        let at = format!("{}: ", path.display());
        assert!(said.contains(&at), "the directory is not named: {said}");
    }
}

#[test]
fn help_speaks_of_what_there_is() {
    for command in [
        "bench",
        "calibrate",
        "doctor",
        "dump",
        "verify",
        "stat",
        "powercut",
    ] {
        let mut call = Command::new(env!("CARGO_BIN_EXE_logforce"));
        let out = call.args([command, "--help"]).to_end().unwrap();
        let said = text(&out.stdout);
        assert_eq!(out.status.code(), Some(0), "{command}");
        assert!(said.contains("Usage: logforce"), "{command}: {said}");
    }
}
