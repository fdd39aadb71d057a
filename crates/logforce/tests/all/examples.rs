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
    for name in [
        "till",
        "kv",
        "orders",
        "accounts",
        "replica",
        "journal",
        "page_store",
    ] {
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
        ("journal", &[]),
        ("journal", &["f"]),
        ("journal", &["f", "nosuch"]),
        ("journal", &["f", "append"]),
        ("journal", &["f", "list", "1"]),
        ("journal", &["f", "run", "--threads", "0"]),
        ("journal", &["f", "run", "--records"]),
        ("journal", &["--nosuch", "list"]),
        ("page_store", &[]),
        ("page_store", &["f"]),
        ("page_store", &["f", "nosuch"]),
        ("page_store", &["f", "put", "1"]),
        ("page_store", &["f", "put", "300000", "text"]),
        ("page_store", &["f", "get", "-1"]),
        ("page_store", &["f", "run", "--pages", "0"]),
        ("page_store", &["f", "run", "--commits", "x"]),
        ("page_store", &["--nosuch", "check"]),
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
        ("journal", &["gone", "list"], "set Options::create"),
        ("journal", &["file", "append", "text"], "is not a journal"),
        ("page_store", &["gone", "check"], "set Options::create"),
        (
            "page_store",
            &["file", "put", "1", "text"],
            "is not a page store",
        ),
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
        assert_eq!(std::fs::read(home.path().join("file")).unwrap(), b"hello");
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

/// Records and pages are there in the next run.
#[test]
fn formats_on_durable_files_are_read_again() {
    let home = temp();
    if too_weak(home.path()) {
        return;
    }
    let runs: [(&str, &[&str], &str); 8] = [
        ("journal", &["j", "append", "one"], "record at 8\n"),
        ("journal", &["j", "append", "two"], "record at 19\n"),
        ("journal", &["j", "list"], "8: one\n19: two\n"),
        ("page_store", &["p", "put", "3", "one"], "transaction 1\n"),
        (
            "page_store",
            &["p", "put", "200000", "two"],
            "transaction 2\n",
        ),
        ("page_store", &["p", "get", "3"], "one\n"),
        ("page_store", &["p", "get", "200000"], "two\n"),
        (
            "page_store",
            &["p", "check"],
            "2 pages after transaction 2\n",
        ),
    ];
    for (name, arguments, words) in runs {
        let out = run(name, home.path(), arguments);
        assert_eq!(said(&out), words, "{name} {arguments:?}");
    }
    let out = run("journal", home.path(), &["j", "run", "--records", "50"]);
    assert!(said(&out).starts_with("found 2\n"), "{}", said(&out));
    let listed = said(&run("journal", home.path(), &["j", "list"]));
    assert_eq!(listed.lines().count(), 52);
    let out = run("page_store", home.path(), &["p", "run", "--commits", "9"]);
    assert!(said(&out).contains("transaction 11\n"), "{}", said(&out));
}

/// A record behind a torn one is cut off for ever, even if a new record of the same length takes the place of
/// the torn one.
#[test]
fn a_journal_brings_no_record_back() {
    let home = temp();
    if too_weak(home.path()) {
        return;
    }
    let journal = |arguments: &[&str]| {
        let arguments = [&["j"], arguments].concat();
        said(&run("journal", home.path(), &arguments))
    };
    for text in ["one", "two", "six"] {
        journal(&["append", text]);
    }
    assert_eq!(journal(&["list"]), "8: one\n19: two\n30: six\n");
    let path = home.path().join("j");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[19 + 8] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    assert_eq!(journal(&["list"]), "8: one\n");
    assert_eq!(journal(&["append", "new"]), "record at 19\n");
    assert_eq!(journal(&["list"]), "8: one\n19: new\n");
}
