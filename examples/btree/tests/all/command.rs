//! Tests of the command: files that it creates, rejected arguments, and its messages.

use logforce_testkit::process::Start;
use std::path::Path;
use std::process::{Command, Output};

fn run(home: &Path, args: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_btree"));
    let Output {
        status,
        mut stdout,
        stderr,
    } = command.current_dir(home).args(args).to_end().unwrap();
    stdout.extend(stderr);
    (status.code(), String::from_utf8(stdout).unwrap())
}

#[test]
fn what_is_unusable_makes_nothing() {
    let home = tempfile::tempdir().unwrap();
    let (_, usage) = run(home.path(), &["--help"]);
    assert!(usage.contains("usage: btree"), "{usage}");
    for args in [
        &[][..],
        &["data"],
        &["data", "nosuch"],
        &["data", "put", "key"],
        &["data", "get", "a", "b"],
        &["data", "scan", "--nosuch"],
        &["data", "scan", "a", "b", "c"],
        &["--nosuch", "put", "a", "b"],
    ] {
        assert_eq!(run(home.path(), args), (Some(2), usage.clone()), "{args:?}");
    }
    // A read creates nothing.
    let (status, said) = run(home.path(), &["data", "get", "a"]);
    assert!(status == Some(2) && said.starts_with("btree: "), "{said}");
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
}

#[test]
fn an_error_is_a_sentence() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("file"), "hello").unwrap();
    for command in [&["put", "a", "b"][..], &["get", "a"], &["check"]] {
        let (status, said) = run(home.path(), &[&["file"], command].concat());
        assert_eq!(status, Some(2), "{said}");
        assert!(
            said.starts_with("btree: ") && !said.contains(['{', '"']),
            "{said}"
        );
    }
}

#[test]
fn it_puts_gets_scans_and_deletes() {
    let home = tempfile::tempdir().unwrap();
    let (status, said) = run(home.path(), &["data", "put", "b", "2"]);
    if said.contains("is required") {
        logforce_testkit::skip!("nothing survives a loss of power here: {said}");
        return;
    }
    assert_eq!((status, &*said), (Some(0), ""));
    for (args, status, printed) in [
        (&["put", "a", "1"][..], 0, ""),
        (&["get", "b"], 0, "2\n"),
        (&["get", "c"], 1, ""),
        (&["scan"], 0, "a\t1\nb\t2\n"),
        (&["scan", "--reverse"], 0, "b\t2\na\t1\n"),
        (&["scan", "b"], 0, "b\t2\n"),
        (&["scan", "a", "b"], 0, "a\t1\n"),
        (&["scan", "b", "a"], 0, ""),
        (&["del", "b"], 0, ""),
        (&["del", "b"], 1, ""),
        (&["check"], 0, "whole: 1 keys in 2 pages\n"),
    ] {
        let done = run(home.path(), &[&["data"], args].concat());
        assert_eq!(done, (Some(status), printed.to_owned()), "{args:?}");
    }
}
