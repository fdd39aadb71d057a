//! The examples with invalid arguments, and their error messages.

use crate::common::examples::{program, too_weak};
use crate::common::*;
use logforce_testkit::process::Start;
use std::path::Path;
use std::process::{Command, Output};

fn run(name: &str, dir: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(program(name));
    command.current_dir(dir).args(arguments).to_end().unwrap()
}

fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    text(&output.stdout) + &text(&output.stderr)
}

fn files(dir: &Path) -> usize {
    std::fs::read_dir(dir).unwrap().count()
}

#[test]
fn help_is_help_and_no_log() {
    let home = temp();
    for name in ["till", "kv", "orders", "accounts", "replica"] {
        let out = run(name, home.path(), &["--help"]);
        assert_eq!(out.status.code(), Some(0), "{name}: {}", said(&out));
        let printed = String::from_utf8(out.stdout).unwrap();
        assert!(printed.starts_with(&format!("usage: {name}")), "{printed}");
    }
    assert_eq!(files(home.path()), 0);
}

#[test]
fn unusable_arguments_make_nothing() {
    let home = temp();
    for (name, arguments) in [
        ("till", &[][..]),
        ("till", &["--nosuch"]),
        ("till", &["--nosuch", "5"]),
        ("till", &["d", "x"]),
        ("till", &["d", "-1"]),
        ("till", &["d", "1", "2"]),
        ("kv", &[]),
        ("kv", &["d"]),
        ("kv", &["d", "nosuch"]),
        ("kv", &["d", "set", "key"]),
        ("kv", &["d", "bench", "x"]),
        ("kv", &["--nosuch", "list"]),
        ("orders", &[]),
        ("orders", &["--nosuch"]),
        ("orders", &["d", "x"]),
        ("orders", &["d", "65536"]),
        ("orders", &["d", "127.0.0.1"]),
        ("orders", &["d", "0", "1"]),
        ("accounts", &[]),
        ("accounts", &["d"]),
        ("accounts", &["d", "nosuch"]),
        ("accounts", &["--nosuch", "check"]),
        ("accounts", &["d", "run", "--nosuch", "1"]),
        ("accounts", &["d", "run", "--threads"]),
        ("accounts", &["d", "run", "--threads", "0"]),
        ("accounts", &["d", "run", "--transfers", "x"]),
        ("accounts", &["d", "transfer", "1", "2"]),
        ("accounts", &["d", "transfer", "1", "1", "5"]),
        ("accounts", &["d", "transfer", "1", "100", "5"]),
        ("accounts", &["d", "transfer", "1", "2", "-5"]),
        ("accounts", &["d", "show", "1"]),
        ("replica", &["p"]),
        ("replica", &["--nosuch", "p", "c"]),
        ("replica", &["p", "--nosuch"]),
        ("replica", &["p", "c", "x"]),
        ("replica", &["p", "c", "-1"]),
        ("replica", &["p", "c", "NaN"]),
        ("replica", &["--wait"]),
    ] {
        let out = run(name, home.path(), arguments);
        let printed = said(&out);
        assert_eq!(
            out.status.code(),
            Some(2),
            "{name} {arguments:?}: {printed}"
        );
        assert!(printed.starts_with(&format!("usage: {name}")), "{printed}");
        assert_eq!(files(home.path()), 0, "{name} {arguments:?}");
    }
}

/// Errors are printed as messages, not in their debug form.
#[test]
fn errors_are_sentences() {
    let home = temp();
    std::fs::write(home.path().join("file"), "hello").unwrap();
    for (name, arguments, words) in [
        ("till", &["file"][..], "it is not a directory"),
        ("orders", &["file"], "it is not a directory"),
        ("accounts", &["file", "run"], "cannot create file"),
        (
            "accounts",
            &["gone", "check"],
            "the directory does not exist",
        ),
        ("kv", &["file", "list"], "cannot create file"),
        ("replica", &["file", "copy"], "it is not a directory"),
        ("replica", &["gone", "copy"], "wait for it with --wait"),
        (
            "replica",
            &["--wait", "gone", "copy", "0.1"],
            "does not exist",
        ),
    ] {
        let out = run(name, home.path(), arguments);
        let printed = said(&out);
        assert_eq!(out.status.code(), Some(1), "{name}: {printed}");
        assert!(printed.contains(words), "{name}: {printed}");
        assert!(
            !printed.contains('{') && !printed.contains('"'),
            "{name}: {printed}"
        );
        assert!(!home.path().join("copy").exists(), "{name} {arguments:?}");
    }
    let waits = run("replica", home.path(), &["--wait", "gone", "copy", "0.1"]);
    assert!(said(&waits).contains("waiting for a log: gone"));
}

/// A port that another program has.
#[test]
fn a_port_that_is_taken_is_named() {
    let home = temp();
    if too_weak(home.path()) {
        return;
    }
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let out = run("orders", home.path(), &["log", &address]);
    let said = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(
        said.starts_with(&format!("error: cannot listen on {address}: ")),
        "{said}"
    );
}

/// The quickstart's `main` returns the error, so Rust prints it by `Debug`: that is a sentence, too.
#[test]
fn the_quickstart_fails_in_words() {
    let home = temp();
    std::fs::write(home.path().join("sales.log"), "hello").unwrap();
    let out = run("quickstart", home.path(), &[]);
    assert_eq!(out.status.code(), Some(1), "{}", said(&out));
    let words = "Error: sales.log is not a log directory: it is not a directory\n";
    assert_eq!(said(&out), words);
}

#[test]
fn one_is_one() {
    let home = temp();
    if too_weak(home.path()) {
        return;
    }
    let out = run("till", home.path(), &["log", "1"]);
    assert!(said(&out).contains("total 1 sale, 2.50"), "{}", said(&out));
}
