//! The example `accounts`: transfers by many threads, and checkpoints in a small log, repeatedly killed with
//! `kill -9`.

use crate::common::examples::{program, too_weak};
use crate::common::*;
use logforce_testkit::Rng;
use logforce_testkit::process::Start;
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

const THREADS: u64 = 4;

fn run(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(program("accounts"));
    command.arg(dir).args(args).to_end().unwrap()
}

#[track_caller]
fn output(dir: &Path, args: &[&str]) -> String {
    let output = run(dir, args);
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Kills a run after `lines` lines or after `time`. Returns the number of transfers that it found, and the
/// transfers that it reported as durable.
fn killed_run(dir: &Path, lines: u64, time: Option<Duration>) -> (Option<u64>, BTreeSet<u64>) {
    let mut child = Command::new(program("accounts"));
    child.arg(dir).args(["run", "--transfers", "1000000"]);
    child.args(["--threads", &THREADS.to_string()]);
    let mut child = child.stdout(Stdio::piped()).start().unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    let mut child = Killed(child);
    if let Some(time) = time {
        std::thread::sleep(time);
        child.kill();
    }
    let (mut found, mut said) = (None, BTreeSet::new());
    for (i, line) in (0..).zip(out.lines().map_while(Result::ok)) {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["found", n] => found = Some(n.parse().unwrap()),
            ["transfer", n] => assert!(said.insert(n.parse().unwrap()), "{n} twice"),
            _ => println!("a line that was cut: {line:?}"),
        }
        if i == lines {
            child.kill();
        }
    }
    child.kill();
    (found, said)
}

#[test]
fn killed_among_checkpoints_they_have_what_they_acknowledged() {
    let home = temp();
    if too_weak(home.path()) {
        return;
    }
    let dir = home.path().join("accounts");
    let mut rng = Rng::new(1);
    // Minimum and maximum number of transfers that the next run may find.
    let (mut least, mut most) = (0, 0);
    for round in 0..25 {
        let (lines, time) = match rng.below(4) {
            // Also kills it while it opens, creates or recovers the log.
            0 => (u64::MAX, Some(Duration::from_micros(rng.below(40_000)))),
            _ => (1 + rng.below(300), None),
        };
        let (found, said) = killed_run(&dir, lines, time);
        if let Some(found) = found {
            assert!(
                (least..=most).contains(&found),
                "round {round}: {found} and not {least} to {most}"
            );
            (least, most) = (found, found);
        }
        least = said.last().copied().unwrap_or(least);
        // Each thread may have made one transfer that it could not report.
        most += said.len() as u64 + THREADS;
        if round > 5 && rng.one_in(3) {
            output(&dir, &["check"]);
        }
        if round > 5 && rng.one_in(3) {
            // A checkpoint changes nothing.
            let before = output(&dir, &["show"]);
            output(&dir, &["checkpoint"]);
            assert_eq!(output(&dir, &["show"]), before);
        }
    }
    output(&dir, &["check"]);
    let log = logforce::read_only(dir.join("log")).unwrap();
    println!("{least} transfers, the log begins at {}", log.front_lsn());
    assert!(log.front_lsn().0 > 1 << 20, "no run came to a checkpoint");
    let used = segments(&dir.join("log"));
    let used: u64 = used.iter().map(|f| f.metadata().unwrap().len()).sum();
    assert!(used <= 1 << 20, "{used}");
    // Lets a run finish.
    let found = output(&dir, &["run", "--transfers", "500"]);
    let total = found.lines().last().unwrap().to_owned();
    let found: u64 = found.lines().next().unwrap()[6..].parse().unwrap();
    assert_eq!(total, format!("total {}", found + 500));
}

#[test]
fn a_transfer_by_hand_and_what_is_refused() {
    let home = temp();
    if too_weak(home.path()) {
        return;
    }
    let dir = home.path().join("accounts");
    // `show` creates nothing.
    assert!(!run(&dir, &["show"]).status.success());
    assert!(!dir.exists());
    assert_eq!(output(&dir, &["transfer", "3", "7", "250"]), "transfer 1\n");
    let shown = "transfers 1\naccount 3: -2.50\naccount 7: 2.50\n";
    assert_eq!(output(&dir, &["show"]), shown);
    // If no checkpoint can be written, the log keeps its records.
    fs::create_dir(dir.join("checkpoint.new")).unwrap();
    let out = run(&dir, &["checkpoint"]);
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(
        said.starts_with("error: cannot write the checkpoint "),
        "{said}"
    );
    fs::remove_dir(dir.join("checkpoint.new")).unwrap();
    assert_eq!(output(&dir, &["show"]), shown);
    output(&dir, &["checkpoint"]);
    assert_eq!(output(&dir, &["show"]), shown);
    let checkpoint = fs::read(dir.join("checkpoint")).unwrap();
    assert_eq!(output(&dir, &["transfer", "7", "3", "50"]), "transfer 2\n");
    output(&dir, &["checkpoint"]);
    // A checkpoint that is missing, older than the log's front, or damaged is refused.
    let refused = |words: &str| {
        let out = run(&dir, &["check"]);
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(
            out.status.code() == Some(1) && said.contains(words),
            "{said}"
        );
    };
    fs::remove_file(dir.join("checkpoint")).unwrap();
    refused("is missing or is not the last one");
    fs::write(dir.join("checkpoint"), &checkpoint).unwrap();
    refused("is missing or is not the last one");
    for len in [0, 3, 20, checkpoint.len() - 8] {
        fs::write(dir.join("checkpoint"), &checkpoint[..len]).unwrap();
        refused("is damaged");
    }
}
