//! Reading commands write nothing, so they do not block on a filesystem that is frozen for a snapshot.

use crate::common::place;
use crate::logs::{all_output, filled};
use logforce::pages::CommitMode;
use logforce_testkit::loopfs::LoopFs;
use logforce_testkit::process::same_test;
use std::path::Path;
use std::process::Command;

const DIR: &str = "LOGFORCE_TEST_FROZEN";

const COMMANDS: [&str; 4] = ["doctor --passive", "stat", "verify", "dump"];

#[test]
fn looking_does_not_wait_for_a_frozen_filesystem() {
    if let Some(dir) = std::env::var_os(DIR) {
        return read(Path::new(&dir));
    }
    let home = place();
    let fs = match LoopFs::new("ext4", 64, home.path()) {
        Ok(fs) => fs,
        Err(skip) => return logforce_testkit::skip!("{skip}"),
    };
    let at = |name: &str| fs.path().join(name);
    std::fs::create_dir(at("empty")).unwrap();
    filled(&at("log"), 3).0.close().unwrap();
    crate::pages::made(&at("logged"), CommitMode::Logged);
    crate::pages::made(&at("cow"), CommitMode::CopyOnWrite);
    let mut frozen = match fs.freeze() {
        Ok(frozen) => frozen,
        Err(skip) => return logforce_testkit::skip!("{skip}"),
    };
    let of_each = ["log", "logged", "cow"].map(|name| COMMANDS.map(|command| (command, name)));
    for (word, name) in of_each
        .into_iter()
        .flatten()
        .chain([("doctor --passive", "empty")])
    {
        let mut command = Command::new(env!("CARGO_BIN_EXE_logforce"));
        let out = frozen
            .to_end(command.args(word.split(' ')).arg(at(name)))
            .unwrap();
        let out = out.unwrap_or_else(|| panic!("{word} {name}: it waits"));
        // A verdict that is not good is an answer too.
        let is_answer = out.status.success() || word.starts_with("doctor");
        assert!(is_answer, "{word} {name}: {}", all_output(&out));
    }
    let copies = place();
    for name in ["log", "logged", "cow"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_logforce"));
        command
            .arg("backup")
            .arg(at(name))
            .arg(copies.path().join(name));
        let out = frozen
            .to_end(command.args(["--require", "process-crash"]))
            .unwrap();
        let out = out.unwrap_or_else(|| panic!("backup {name}: it waits"));
        assert!(out.status.success(), "backup {name}: {}", all_output(&out));
    }
    let mut reader = Command::new(std::env::current_exe().unwrap());
    let name = "looking_does_not_wait_for_a_frozen_filesystem";
    same_test(&mut reader, name, DIR, at("log"));
    let out = frozen.to_end(&mut reader).unwrap().expect("reading waits");
    assert!(out.status.success(), "{}", all_output(&out));
}

/// Reads and follows the log in the second process.
fn read(dir: &Path) {
    let log = logforce::read_only(dir).unwrap();
    assert_eq!(log.read_from(log.front_lsn()).unwrap().count(), 3);
    let mut follower = log.follow_lsn(log.front_lsn()).unwrap();
    assert!(!follower.is_writer_running().unwrap());
    assert!(follower.try_next().unwrap().is_some());
}
