//! `logforce archive`: from nothing to a restore, beside a writer, and a takeover.

use crate::common::{place, text};
use crate::logs::{all_output, copy, filled, flip, json, options};
use logforce::{Lsn, Policy, Tuning};
use logforce_archive::{Archive, ArchiveOptions, AttachOptions};
use logforce_testkit::process::Start;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// Returns `logforce archive` with these arguments. Paths are below `dir`.
pub fn command(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_logforce"));
    command.arg("archive").args(arguments).current_dir(dir);
    command
        .env_remove("LOGFORCE_ARCHIVE_KEY")
        .stdin(Stdio::null());
    command
}

/// Runs `logforce archive`.
pub fn archive(dir: &Path, arguments: &[&str]) -> Output {
    command(dir, arguments).to_end().unwrap()
}

/// Runs it, and checks that it ends with 0. Returns the printed text.
pub fn done(dir: &Path, arguments: &[&str]) -> String {
    let out = archive(dir, arguments);
    let said = all_output(&out);
    assert_eq!(out.status.code(), Some(0), "{arguments:?}: {said}");
    said
}

/// Runs it with `--json -`, and checks that the docs have all fields. Returns the object.
fn documented(dir: &Path, arguments: &[&str]) -> Value {
    let out = archive(dir, &[arguments, &["--json", "-"]].concat());
    assert_eq!(out.status.code(), Some(0), "{}", all_output(&out));
    let object = json(&out);
    let document = include_str!("../../../../docs/cli-json.md");
    let (_, section) = document.split_once("## `logforce archive`").unwrap();
    let section = section.split("\n## ").next().unwrap();
    for (name, value) in object.as_object().unwrap() {
        assert!(section.contains(&format!("`{name}`")), "{name}");
        let first = value.as_array().and_then(|list| list.first());
        for part in [Some(value), first].into_iter().flatten() {
            for name in part.as_object().into_iter().flatten().map(|(name, _)| name) {
                assert!(section.contains(&format!("`{name}`")), "{name}");
            }
        }
    }
    object
}

/// Returns a home with a closed log of `count` records and a directory for its archive.
pub fn home(count: u64) -> (tempfile::TempDir, Vec<Lsn>) {
    let home = place();
    fs::create_dir(home.path().join("bucket")).unwrap();
    let (log, starts) = filled(&home.path().join("log"), count);
    log.close().unwrap();
    (home, starts)
}

/// Returns the records of a log.
fn records(path: &Path) -> Vec<(Lsn, Vec<u8>)> {
    let log = logforce::open_existing(path, options()).unwrap();
    let read = log.read_from(log.front_lsn()).unwrap();
    let records = read.map(|r| r.map(|r| (r.start, r.data)).unwrap());
    records.collect()
}

/// Returns the files below a directory, in order.
pub fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => found.push(path),
        }
    }
    found.sort();
    found
}

const ACCEPT: [&str; 2] = ["--require", "process-crash"];

#[test]
fn from_nothing_to_a_restore() {
    let (home, starts) = home(150);
    let dir = home.path();
    let run = ["run", "log", "bucket", "--once", "--owner", "till 3"];
    let state = documented(dir, &run);
    assert_eq!(
        (&state["event"], &state["behind_bytes"]),
        (&"end".into(), &0.into())
    );
    assert_eq!(state["behind_seconds"], 0.0);
    assert!(state["chunks"].as_u64() > Some(0), "{state}");

    let list = documented(dir, &["list", "bucket", "--log", "log"]);
    assert_eq!(list["owner"], "till 3");
    assert_eq!(list["notes"].as_array().unwrap().len(), 0, "{list}");
    assert!(list["end"].as_u64().unwrap() > starts[149].0, "{list}");
    assert!(
        list["log"]["behind_bytes"].as_u64().unwrap() <= 8192,
        "{list}"
    );
    let said = done(dir, &["list", "bucket"]);
    assert!(said.contains("owner        'till 3', epoch 1"), "{said}");

    let lsn = starts[99].0.to_string();
    let mark = documented(dir, &["mark", "bucket", "before", "--lsn", &lsn]);
    assert_eq!(mark["lsn"], starts[99].0);
    let list = documented(dir, &["list", "bucket"]);
    assert_eq!(list["marks"][0]["name"], "before");

    let verified = documented(dir, &["verify", "bucket"]);
    assert_eq!(
        (&verified["healthy"], &verified["end"]),
        (&true.into(), &list["end"])
    );
    let sampled = documented(dir, &["verify", "bucket", "--sample", "100%"]);
    assert_eq!(sampled["end"], Value::Null);

    let restore = |to: &str, more: &[&str]| {
        documented(
            dir,
            &[&["restore", "bucket", to], &ACCEPT[..], more].concat(),
        );
        records(&dir.join(to))
    };
    let all = records(&dir.join("log"));
    assert_eq!(all.len(), 150);
    assert_eq!(restore("whole", &[]), all);
    assert_eq!(restore("lsn", &["--to", &lsn]), all[..100]);
    assert_eq!(restore("mark", &["--to", "mark:before"]), all[..100]);
    assert_eq!(restore("time", &["--to", "0s ago"]), all);
    let early = archive(
        dir,
        &[
            "restore",
            "bucket",
            "early",
            "--to",
            "2 hours ago",
            "--require",
            "process-crash",
        ],
    );
    assert_eq!(early.status.code(), Some(4));
    assert!(
        all_output(&early).contains("choose a later time"),
        "{}",
        all_output(&early)
    );

    // The archive goes on, also from a log that was taken over. Then the old one is refused.
    let taken = documented(
        dir,
        &[
            &["takeover", "bucket", "standby", "--owner", "b"],
            &ACCEPT[..],
        ]
        .concat(),
    );
    assert_eq!(taken["epoch"], 2);
    assert_eq!(records(&dir.join("standby")), all);
    done(dir, &["run", "standby", "bucket", "--once"]);
    let old = archive(dir, &run);
    assert_eq!(old.status.code(), Some(4));
    let said = all_output(&old);
    assert!(
        said.contains("another opening owns the archive")
            && said.contains("set the local log aside"),
        "{said}"
    );
}

/// The last commit of a program that was killed is not proven durable, so it is not archived: it is not "nothing".
#[test]
fn a_killed_writer_leaves_a_commit_that_is_named() {
    let home = place();
    let dir = home.path();
    fs::create_dir(dir.join("bucket")).unwrap();
    let (log, starts) = filled(&dir.join("live"), 20);
    // The files as they are when a kill ends the program just after the last commit.
    log.commit(b"the last one").unwrap();
    copy(&dir.join("live"), &dir.join("log"));
    log.close().unwrap();
    let state = documented(dir, &["run", "log", "bucket", "--once"]);
    let missing = state["unproven_bytes"].as_u64().unwrap();
    assert!(missing > 0, "{state}");
    let list = documented(dir, &["list", "bucket", "--log", "log"]);
    assert_eq!(list["log"]["unproven_bytes"], missing);
    let said = done(dir, &["run", "log", "bucket", "--once"]);
    assert!(!said.contains("nothing is missing"), "{said}");
    assert!(said.contains("open the log once"), "{said}");
    // The lines are as wide as the terminal.
    let said = done(dir, &["list", "bucket", "--log", "log"]);
    let words: Vec<&str> = said.split_whitespace().collect();
    assert!(words.join(" ").contains("open the log once"), "{said}");
    let opened = logforce::open_existing(dir.join("log"), options()).unwrap();
    opened.close().unwrap();
    let said = done(dir, &["run", "log", "bucket", "--once"]);
    assert!(said.contains("nothing is missing"), "{said}");
    done(dir, &[&["restore", "bucket", "to"], &ACCEPT[..]].concat());
    assert_eq!(records(&dir.join("to")).len(), starts.len() + 1);
}

/// Both choices at the limit of what the log keeps for an archive that does not run.
#[test]
fn at_its_limit_the_log_drops_or_refuses() {
    for (choice, is_refused) in [("drop", false), ("refuse", true)] {
        let (home, _) = home(5);
        let dir = home.path();
        let limit = ["--limit", "256KiB", "--at-limit", choice];
        let run = [&["run", "log", "bucket", "--once"], &limit[..]].concat();
        done(dir, &run);
        let log = logforce::open_existing(dir.join("log"), options()).unwrap();
        let front = log.front_lsn();
        let refused = (0..600).find_map(|_| match log.commit([7; 1000]) {
            Ok(at) => log.truncate_front(at.start).err(),
            Err(error) => Some(error),
        });
        let kind = refused.as_ref().map(logforce::Error::kind);
        let expected = is_refused.then_some(logforce::ErrorKind::ReplicaBehind);
        assert_eq!(kind, expected, "{choice}: {refused:?}");
        // The front has passed what is not archived, if the choice is to drop.
        let kept = log.front_lsn().since(front);
        assert_eq!(kept > 256 << 10, !is_refused, "{choice}: {kept}");
        drop(log);
    }
}

/// A run beside a program that commits, with its JSON lines and metrics. Ctrl-C archives the rest; the hold
/// stays.
#[cfg(unix)]
#[test]
fn beside_a_writer() {
    use std::io::{BufRead, BufReader, Read, Write};
    let (home, _) = home(10);
    let dir = home.path();
    let log = logforce::open_existing(dir.join("log"), options()).unwrap();
    let arguments = [
        "run",
        "log",
        "bucket",
        "--delay",
        "10ms",
        "--interval",
        "50ms",
    ];
    let outputs = ["--listen", "127.0.0.1:0", "--json", "state.json"];
    let mut child = command(dir, &[&arguments[..], &outputs].concat())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .start()
        .unwrap();
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let mut head = String::new();
    errors.read_line(&mut head).unwrap();
    let (_, address) = head
        .split_once("http://")
        .unwrap_or_else(|| panic!("{head}"));
    let address = address.split('/').next().unwrap();
    let mut last = Lsn(0);
    for n in 0..100_u32 {
        last = log.commit(n.to_le_bytes().repeat(100)).unwrap().start;
    }
    let lines = || {
        let text = fs::read_to_string(dir.join("state.json")).unwrap();
        let parsed = text
            .lines()
            .map(|l| serde_json::from_str::<Value>(l).unwrap());
        parsed.collect::<Vec<_>>()
    };
    let archived = |line: &Value| line["archived"].as_u64().unwrap();
    // Also the bytes that hold no record leave no lag.
    let is_done = |line: &Value| archived(line) > last.0 && line["behind_seconds"] == 0.0;
    for tries in 0.. {
        let last = lines().pop();
        if last.as_ref().is_some_and(is_done) {
            break;
        }
        assert!(child.try_wait().unwrap().is_none(), "it has ended");
        if tries == 1500 {
            child.kill().unwrap();
            panic!("still behind: {last:?}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let lines = lines();
    assert!(
        lines
            .iter()
            .all(|l| l["event"] == "state" && l["trouble"].is_null())
    );
    assert!(lines.is_sorted_by(|a, b| archived(a) <= archived(b)));
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    write!(stream, "GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut scraped = String::new();
    stream.read_to_string(&mut scraped).unwrap();
    for metric in [
        "behind_seconds 0\n",
        "behind_bytes 0\n",
        "store_failing 0\n",
    ] {
        assert!(
            scraped.contains(&format!("\nlogforce_archive_{metric}")),
            "{scraped}"
        );
    }
    let end = log.commit(b"the rest").unwrap().start;
    log.close().unwrap();
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let out = child.wait_with_output().unwrap();
    let mut said = text(&out.stdout);
    errors.read_to_string(&mut said).unwrap();
    assert_eq!(out.status.code(), Some(0), "{said}");
    assert!(
        said.contains("keeps what is not archived for the next run"),
        "{said}"
    );
    let state = fs::read_to_string(dir.join("state.json")).unwrap();
    let state: Value = serde_json::from_str(state.lines().last().unwrap()).unwrap();
    assert_eq!(
        (&state["event"], state["archived"].as_u64() > Some(end.0)),
        (&"end".into(), true)
    );

    assert!(dir.join("log/hold").exists());
    let said = done(dir, &["run", "log", "--release"]);
    assert!(
        said.contains("keeps nothing for an archive any more"),
        "{said}"
    );
    assert!(!dir.join("log/hold").exists());
}

#[cfg(unix)]
#[test]
fn a_followed_copy_becomes_a_log_by_a_takeover() {
    let (home, _) = home(60);
    let dir = home.path();
    done(dir, &["run", "log", "bucket", "--once"]);
    let follow = ["restore", "bucket", "standby", "--follow", "--json", "-"];
    let child = command(dir, &[&follow, &ACCEPT[..]].concat())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .start()
        .unwrap();
    while !files(&dir.join("standby"))
        .iter()
        .any(|f| f.extension().is_some_and(|e| e == "seg"))
    {
        std::thread::sleep(Duration::from_millis(10));
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let out = child.wait_with_output().unwrap();
    assert_eq!(out.status.code(), Some(0), "{}", all_output(&out));
    assert_eq!(json(&out)["complete"], false);
    assert!(
        all_output(&out).contains("is not a log yet"),
        "{}",
        all_output(&out)
    );
    assert!(logforce::open_existing(dir.join("standby"), options()).is_err());
    done(
        dir,
        &[
            &["takeover", "bucket", "standby", "--owner", "b"],
            &ACCEPT[..],
        ]
        .concat(),
    );
    assert_eq!(records(&dir.join("standby")), records(&dir.join("log")));
}

#[test]
fn an_encrypted_archive_needs_its_key() {
    let (home, _) = home(20);
    let dir = home.path();
    fs::write(dir.join("key"), "ab".repeat(32) + "\n").unwrap();
    fs::write(dir.join("other"), "cd".repeat(32)).unwrap();
    fs::write(dir.join("short"), "abcd").unwrap();
    done(
        dir,
        &["run", "log", "bucket", "--once", "--key-file", "key"],
    );
    let list = done(dir, &["list", "bucket", "--key-file", "key"]);
    assert!(list.contains(", encrypted"), "{list}");
    let by_variable = command(dir, &["verify", "bucket"])
        .env("LOGFORCE_ARCHIVE_KEY", "ab".repeat(32))
        .to_end()
        .unwrap();
    assert_eq!(
        by_variable.status.code(),
        Some(0),
        "{}",
        all_output(&by_variable)
    );
    let stored = files(&dir.join("bucket"));
    let is_readable = |file: &PathBuf| fs::read(file).unwrap().windows(7).any(|w| w == b"record ");
    assert!(!stored.iter().any(is_readable));
    for (arguments, status, words) in [
        (
            &["verify", "bucket"][..],
            4,
            "give it by --key-file, or in the variable LOGFORCE_ARCHIVE_KEY",
        ),
        (
            &["verify", "bucket", "--key-file", "other"],
            4,
            "not the one with which this archive was created",
        ),
        (
            &["verify", "bucket", "--key-file", "short"],
            2,
            "openssl rand -hex 32",
        ),
        (
            &["verify", "bucket", "--key-file", "none"],
            4,
            "cannot read the key file none",
        ),
    ] {
        let out = archive(dir, arguments);
        let said = all_output(&out);
        assert_eq!(out.status.code(), Some(status), "{said}");
        assert!(said.contains(words), "{said}");
    }
    done(dir, &["run", "log", "--release"]);
    fs::create_dir(dir.join("plain")).unwrap();
    done(dir, &["run", "log", "plain", "--once"]);
    let out = archive(dir, &["list", "plain", "--key-file", "key"]);
    assert!(
        all_output(&out).contains("leave out --key-file"),
        "{}",
        all_output(&out)
    );
}

#[test]
fn damage_is_named_and_ends_with_1() {
    let (home, _) = home(150);
    let dir = home.path();
    done(dir, &["run", "log", "bucket", "--once"]);
    let chunks = files(&dir.join("bucket/e"));
    let largest = chunks.iter().max_by_key(|c| c.metadata().unwrap().len());
    let largest = largest.unwrap();
    flip(largest, largest.metadata().unwrap().len() / 2);
    let out = archive(dir, &["verify", "bucket", "--json", "-"]);
    assert_eq!(out.status.code(), Some(1), "{}", all_output(&out));
    let report = json(&out);
    assert_eq!(
        (
            &report["healthy"],
            report["damage"].as_array().unwrap().len()
        ),
        (&false.into(), 1)
    );
    let said = text(&out.stderr);
    assert!(
        said.contains("DAMAGED: object e/") && said.contains("checksum"),
        "{said}"
    );
    assert!(said.contains("1 object DAMAGED"), "{said}");
    let sampled = archive(dir, &["verify", "bucket", "--sample", "100%"]);
    assert_eq!(sampled.status.code(), Some(1), "{}", all_output(&sampled));
    let out = archive(dir, &[&["restore", "bucket", "to"], &ACCEPT[..]].concat());
    assert_eq!(out.status.code(), Some(1), "{}", all_output(&out));
    assert!(!dir.join("to").exists());
}

#[test]
fn what_no_restore_needs_is_pruned() {
    let home = place();
    let dir = home.path();
    fs::create_dir(dir.join("bucket")).unwrap();
    let url = dir.join("bucket").display().to_string();
    let library = Archive::open(&url, ArchiveOptions::default()).unwrap();
    let log = logforce::create_new(dir.join("log"), options().segment_size(256 << 10)).unwrap();
    let attach = AttachOptions::new().synchronous().segment_size(1 << 20);
    let attached = library.attach(&log, attach).unwrap();
    for n in 0..300_u32 {
        let at = log.commit_with(vec![n as u8; 20_000], Policy::Replicated);
        log.truncate_front(at.unwrap().start).unwrap();
    }
    log.close().unwrap();
    attached.close().unwrap();
    let kept = done(dir, &["prune", "bucket", "--older-than", "30d"]);
    assert!(kept.contains("nothing to delete"), "{kept}");
    let before = files(&dir.join("bucket")).len();
    let planned = documented(dir, &["prune", "bucket", "--older-than", "0s", "--dry-run"]);
    assert_eq!(files(&dir.join("bucket")).len(), before);
    assert!(planned["log_bytes"].as_u64() > Some(1 << 20), "{planned}");
    let pruned = documented(dir, &["prune", "bucket", "--older-than", "0s"]);
    assert_eq!(pruned["start"], planned["start"]);
    assert!(files(&dir.join("bucket")).len() < before);
    let list = documented(dir, &["list", "bucket"]);
    assert_eq!(list["start"], pruned["start"]);
    let gone = archive(
        dir,
        &[
            &["restore", "bucket", "gone", "--to", "0x1000"],
            &ACCEPT[..],
        ]
        .concat(),
    );
    assert_eq!(gone.status.code(), Some(4), "{}", all_output(&gone));
    assert!(
        all_output(&gone).contains("was pruned"),
        "{}",
        all_output(&gone)
    );
    // An end that the archive cannot give is not damage.
    let (start, lowest) = (list["start"].as_u64(), list["lowest_end"].as_u64());
    assert!(start < lowest, "{list}");
    let said = done(dir, &["list", "bucket"]);
    assert!(
        said.contains(&format!("LSN {} to", lowest.unwrap())),
        "{said}"
    );
    let below = (start.unwrap() + 1).to_string();
    for (to, words) in [
        ("99999999999", "the archive ends at LSN"),
        (&below, "a later end"),
    ] {
        let out = archive(
            dir,
            &[&["restore", "bucket", "not", "--to", to], &ACCEPT[..]].concat(),
        );
        assert_eq!(out.status.code(), Some(4), "{}", all_output(&out));
        assert!(all_output(&out).contains(words), "{}", all_output(&out));
    }
    done(dir, &[&["restore", "bucket", "to"], &ACCEPT[..]].concat());
    assert!(records(&dir.join("to")).ends_with(&records(&dir.join("log"))));
}

/// The page file of a program that goes on writing: archived, copied again, pruned, restored.
#[test]
fn a_page_file_beside_its_writer() {
    let home = place();
    let dir = home.path();
    fs::create_dir(dir.join("bucket")).unwrap();
    let options = logforce::pages::Options::new()
        .require(logforce::Guarantee::ProcessCrash)
        .checkpoint_distance(256 << 10)
        // A run does not end before this stamp: the last commit is acknowledged, and not proven without it.
        .log(options().tuning(Tuning::new().idle_stamp(Duration::from_millis(500))));
    let file = logforce::pages::create_new(dir.join("file"), options.clone()).unwrap();
    let write = |from: u64| {
        for n in from..from + 40 {
            file.transact(|txn| txn.write(n, &[n as u8; 4096])).unwrap();
        }
    };
    write(0);
    file.checkpoint().unwrap();
    let said = done(dir, &["run", "file", "bucket", "--once"]);
    assert!(
        said.contains("the archive has a base copy of file"),
        "{said}"
    );
    write(40);
    done(dir, &["run", "file", "bucket", "--once"]);
    let made = documented(dir, &["base", "file", "bucket"]);
    assert!(made["end"].as_u64() >= made["lsn"].as_u64());
    let listed = documented(dir, &["list", "bucket", "--log", "file"]);
    assert_eq!(listed["bases"].as_array().unwrap().len(), 2);
    write(80);
    done(dir, &["run", "file", "bucket", "--once"]);
    let pruned = documented(dir, &["prune", "bucket", "--keep-bases", "1"]);
    assert_eq!(
        (&pruned["bases"], &pruned["partial_bases"]),
        (&1.into(), &0.into())
    );
    done(dir, &["verify", "bucket"]);
    for (name, to, pages) in [("end", None, 120), ("second", made["end"].as_u64(), 80)] {
        let to = to.map(|lsn| lsn.to_string());
        let to: Vec<&str> = to.iter().flat_map(|lsn| ["--to", lsn]).collect();
        let arguments = ["restore", "bucket", name, "--require", "process-crash"];
        done(dir, &[&arguments[..], &to].concat());
        let copy = logforce::pages::open_existing(dir.join(name), options.clone()).unwrap();
        let snapshot = copy.snapshot().unwrap();
        assert_eq!(snapshot.page_count(), pages);
        for n in 0..pages {
            assert!(
                snapshot
                    .page(n)
                    .unwrap()
                    .iter()
                    .all(|byte| *byte == n as u8)
            );
        }
        copy.close().unwrap();
    }
    let out = archive(dir, &["restore", "bucket", "early", "--to", "4096"]);
    assert_eq!(out.status.code(), Some(4));
    assert!(
        all_output(&out).contains("choose a later end"),
        "{}",
        all_output(&out)
    );
    assert!(!dir.join("early").exists());
    // Nothing archives the log now.
    write(120);
    file.close().unwrap();
    let cow = options.mode(logforce::pages::CommitMode::CopyOnWrite);
    logforce::pages::create_new(dir.join("cow"), cow)
        .unwrap()
        .close()
        .unwrap();
    for arguments in [["run", "cow", "bucket"], ["base", "cow", "bucket"]] {
        let out = archive(dir, &arguments);
        assert_eq!(out.status.code(), Some(4), "{}", all_output(&out));
        assert!(
            all_output(&out).contains("CopyOnWrite"),
            "{}",
            all_output(&out)
        );
    }
}
