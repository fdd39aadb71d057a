//! The examples `kv` and `replica`, repeatedly killed with `kill -9`.

use crate::common::examples::{program, too_weak};
use crate::common::*;
use logforce::Options;
use logforce_testkit::Rng;
use logforce_testkit::process::Start;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const CHANGES: u64 = 3500;

fn output(program: &Path, dir: &Path, args: &[&str]) -> String {
    let output = Command::new(program).arg(dir).args(args).to_end().unwrap();
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the map after `changes` changes of `kv bench`.
fn expected(changes: u64) -> BTreeMap<String, String> {
    let mut map = BTreeMap::new();
    for n in 1..=changes {
        let key = format!("key {}", n * 7919 % 100);
        match n % 5 {
            4 => drop(map.remove(&key)),
            _ => drop(map.insert(key, format!("value {n}"))),
        }
    }
    if changes > 0 {
        map.insert("changes so far".to_owned(), changes.to_string());
    }
    map
}

fn listed(program: &Path, dir: &Path) -> BTreeMap<String, String> {
    let text = output(program, dir, &["list"]);
    let pairs = text.lines().map(|l| l.split_once('\t').unwrap());
    pairs.map(|(k, v)| (k.to_owned(), v.to_owned())).collect()
}

#[test]
fn a_store_that_is_killed_has_what_it_acknowledged() {
    let home = temp();
    if too_weak(home.path()) {
        return;
    }
    let (program, dir) = (program("kv"), home.path().join("kv"));
    let mut rng = Rng::new(1);
    let mut acknowledged = 0;
    let mut kills = 0;
    loop {
        let mut child = Command::new(&program);
        child.arg(&dir).args(["bench", &CHANGES.to_string()]);
        let mut child = child.stdout(Stdio::piped()).start().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let mut child = Killed(child);
        // Also kills it while it opens, and around the checkpoint after each thousand changes.
        let lines = match rng.below(4) {
            0 => None,
            1 => Some(1000 - acknowledged % 1000 + rng.below(3)),
            _ => Some(1 + rng.below(400)),
        };
        if lines.is_none() {
            std::thread::sleep(Duration::from_micros(rng.below(60_000)));
            child.kill();
        }
        let mut seen = 0;
        let mut ended = false;
        for line in out.lines().map_while(|l| l.ok()) {
            match line.split(' ').collect::<Vec<_>>()[..] {
                ["found", n] => {
                    let found: u64 = n.parse().unwrap();
                    assert!(found == acknowledged || found == acknowledged + 1);
                    acknowledged = found;
                }
                ["change", n] => {
                    assert_eq!(n.parse::<u64>().unwrap(), acknowledged + 1);
                    acknowledged += 1;
                    seen += 1;
                }
                [_, "changes", ..] => ended = true,
                _ => println!("a line that was cut: {line:?}"),
            }
            if Some(seen) == lines {
                child.kill();
            }
        }
        child.kill();
        if ended {
            break;
        }
        kills += 1;
        if rng.one_in(4) {
            let found = listed(&program, &dir);
            let now = found
                .get("changes so far")
                .map_or(0, |n| n.parse().unwrap());
            assert!(now == acknowledged || now == acknowledged + 1);
            assert!(found == expected(now), "after {now} changes");
            acknowledged = now;
        }
        if rng.one_in(6) {
            output(&program, &dir, &["checkpoint"]);
        }
    }
    println!("{kills} kills");
    assert!(kills > 5);
    assert!(listed(&program, &dir) == expected(CHANGES));
    // Changes the store by single commands.
    output(&program, &dir, &["set", "a", "b c"]);
    assert_eq!(output(&program, &dir, &["get", "a"]), "b c\n");
    output(&program, &dir, &["checkpoint"]);
    output(&program, &dir, &["del", "a"]);
    let gone = Command::new(&program)
        .arg(&dir)
        .args(["get", "a"])
        .to_end()
        .unwrap();
    assert!(!gone.status.success());
    // The checkpoints keep the log short.
    let log = logforce::open_existing(dir.join("log"), Options::new().segment_size(1 << 20));
    assert!(read_all(&log.unwrap()).len() < 10);
}

#[test]
fn a_checkpoint_that_is_missing_is_no_empty_store() {
    let home = temp();
    if too_weak(home.path()) {
        return;
    }
    let (program, dir) = (program("kv"), home.path().join("kv"));
    let fails = |args: &[&str], words: &str| {
        let out = Command::new(&program).arg(&dir).args(args).to_end();
        let said = String::from_utf8(out.unwrap().stderr).unwrap();
        assert!(
            said.starts_with("error: ") && said.contains(words),
            "{said}"
        );
    };
    output(&program, &dir, &["set", "a", "b"]);
    // If no checkpoint can be written, the log keeps its records.
    std::fs::create_dir(dir.join("checkpoint.new")).unwrap();
    fails(&["checkpoint"], "cannot write the checkpoint");
    std::fs::remove_dir(dir.join("checkpoint.new")).unwrap();
    assert_eq!(output(&program, &dir, &["list"]), "a\tb\n");
    output(&program, &dir, &["checkpoint"]);
    let first = std::fs::read(dir.join("checkpoint")).unwrap();
    output(&program, &dir, &["set", "c", "d"]);
    output(&program, &dir, &["checkpoint"]);
    assert_eq!(output(&program, &dir, &["list"]), "a\tb\nc\td\n");
    std::fs::write(dir.join("checkpoint"), first).unwrap();
    fails(&["list"], "is missing or is not the last one");
    std::fs::remove_file(dir.join("checkpoint")).unwrap();
    fails(&["list"], "is missing or is not the last one");
}

/// Returns `Some` once a log that another process writes has some records.
fn enough(dir: &Path) -> Option<()> {
    let log = logforce::read_only(dir).ok()?;
    let records = log.read_from(log.front_lsn()).ok()?;
    (records.take(101).filter(Result::is_ok).count() > 100).then_some(())
}

#[test]
fn a_replica_and_its_primary_are_killed() {
    let home = temp();
    if too_weak(home.path()) {
        return;
    }
    let (till, replica) = (program("till"), program("replica"));
    let (primary, copy) = (home.path().join("primary"), home.path().join("copy"));
    let mut rng = Rng::new(1);
    let start_till = |count: u64| {
        let mut child = Command::new(&till);
        child.arg(&primary).arg(count.to_string());
        Killed(child.stdout(Stdio::null()).start().unwrap())
    };
    let start_replica = |timeout: &str| {
        let mut child = Command::new(&replica);
        child.arg("--wait").args([&primary, &copy]).arg(timeout);
        Killed(child.stdout(Stdio::piped()).start().unwrap())
    };
    let mut sales = start_till(1_000_000);
    let mut copying = start_replica("600");
    // Waits for some records before the first kill, because on a busy machine there would be none.
    let began = Instant::now();
    while enough(&copy).is_none() {
        assert!(began.elapsed() < Duration::from_secs(120), "nothing comes");
        std::thread::sleep(Duration::from_millis(20));
        // The replica ends if the primary's log is only partly created.
        if copying.0.try_wait().unwrap().is_some() {
            copying = start_replica("600");
        }
    }
    for _ in 0..30 {
        std::thread::sleep(Duration::from_millis(10 + rng.below(60)));
        if rng.one_in(2) {
            sales.kill();
            sales = start_till(1_000_000);
        } else {
            copying.kill();
            copying = start_replica("600");
        }
    }
    sales.kill();
    copying.kill();
    // Opening makes all existing records durable; closing proves it.
    let original = logforce::open_existing(&primary, Options::new().segment_size(1 << 20)).unwrap();
    let records = read_all(&original);
    original.close().unwrap();
    let began = Instant::now();
    let mut last = start_replica("1");
    assert!(last.0.wait().unwrap().success());
    println!("{} sales, copied in {:?}", records.len(), began.elapsed());
    let copied = logforce::open_existing(&copy, Options::new().segment_size(1 << 20)).unwrap();
    // Skips the original's LSN and the text of a position.
    let original = |r: &Vec<u8>| {
        let len = u64::from_le_bytes(r[8..16].try_into().unwrap()) as usize;
        r[16 + len..].to_vec()
    };
    let copied: Vec<Vec<u8>> = read_all(&copied).iter().map(original).collect();
    assert!(copied.len() > 100);
    assert!(copied == records, "{} of {}", copied.len(), records.len());
}
