//! Crash tests in Rust: of a program that syncs, and of one that does not.

#![cfg(target_os = "linux")]

use logforce_crashtest::{Acknowledged, Acknowledger, Crashtest, Filesystem, TaskResult, Verdict};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

fn numbers(dir: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(dir.join("numbers")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Appends numbers; `sync` is called before each acknowledgement.
fn append(
    dir: &Path,
    acks: &mut Acknowledger,
    sync: fn(&File) -> std::io::Result<()>,
) -> TaskResult {
    let first = numbers(dir).len() as u64 + 1;
    let path = dir.join("numbers");
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    for n in first.. {
        file.write_all(format!("{n}\n").as_bytes())?;
        sync(&file)?;
        acks.ack(n)?;
    }
    Ok(())
}

fn all_are_there(dir: &Path, acknowledged: &Acknowledged) -> TaskResult {
    let present = numbers(dir);
    for n in acknowledged.numbers()? {
        let line = present.get(n as usize - 1);
        assert_eq!(
            line,
            Some(&n.to_string()),
            "number {n} of {}",
            present.len()
        );
    }
    Ok(())
}

#[test]
fn a_program_that_syncs_survives() {
    Crashtest::new()
        .workload(|dir, acks| append(dir, acks, File::sync_data))
        .check(all_are_there)
        .filesystems(&[Filesystem::Ext4])
        .cuts(4)
        .states(20)
        .run()
        .assert_survived();
}

#[test]
fn a_program_that_does_not_sync_loses() {
    let outcome = Crashtest::new()
        .workload(|dir, acks| append(dir, acks, |_| Ok(())))
        .check(all_are_there)
        .filesystems(&[Filesystem::Ext4])
        .cuts(4)
        .states(0)
        .explain(false)
        .run();
    if outcome.verdict().is_some() {
        assert_eq!(outcome.verdict(), Some(Verdict::Lost));
    }
}
