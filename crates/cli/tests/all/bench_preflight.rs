//! `logforce bench --for SYSTEM`, with few commits. Nothing here depends on the speed of the disk.

use crate::common::{place, text};
use crate::runs::{assert_empty, assert_unusable, command};
use logforce_testkit::process::Start;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Output;

/// Systems that `--for` knows.
const SYSTEMS: [&str; 12] = [
    "etcd",
    "postgresql",
    "mysql",
    "mariadb",
    "sqlite",
    "kafka",
    "redis",
    "nats",
    "zookeeper",
    "rocksdb",
    "cassandra",
    "mongodb",
];

/// Runs the preflight of a system with JSON on standard output.
fn preflight(dir: &Path, system: &str, arguments: &[&str]) -> (Output, Value) {
    let all = [&["--for", system, "--json", "-"], arguments].concat();
    let out = command(dir, &all).to_end().unwrap();
    let report = serde_json::from_slice(&out.stdout).unwrap_or(Value::Null);
    assert_empty(dir);
    (out, report)
}

/// Returns the exit status that belongs to the answer in a report.
fn status(report: &Value) -> Option<i32> {
    Some(match report["fit"].as_str()? {
        "fit" => 0,
        "not fit" => 1,
        _ => 3,
    })
}

#[test]
fn every_system_makes_its_commits_and_ends_with_the_answer() {
    let dir = place();
    for system in SYSTEMS {
        let (out, report) = preflight(dir.path(), system, &["--commits", "20"]);
        let text = text(&out.stderr);
        assert_eq!(out.status.code(), status(&report), "{system}: {text}");
        assert_eq!(report["schema"], "logforce-preflight", "{system}: {text}");
        assert_eq!(report["system"], system);
        assert_eq!(report["repetitions"][0]["commits"], 20, "{system}");
        for force in report["forces"].as_array().unwrap() {
            let part = format!(" to a {} file", force["state"].as_str().unwrap());
            assert!(text.contains(&part), "{system}: {text}");
        }
        // Twenty commits say nothing about p99.
        assert!(report["repetitions"][0]["p99_us"].is_null(), "{system}");
        let has_threshold = report["threshold"].is_object();
        assert_eq!(
            has_threshold,
            ["etcd", "redis", "zookeeper"].contains(&system)
        );
        if has_threshold && report["survives"]["guarantee"] == "power-loss" {
            assert_eq!(report["fit"], "unclear", "{system}: {text}");
            assert!(text.contains("needs 1000 or more"), "{system}: {text}");
        }
        assert!(
            text.lines()
                .all(|l| l.chars().count() <= 120 || l.contains("https://")),
            "{text}"
        );
    }
}

#[test]
fn the_answer_comes_first_and_every_field_is_documented() {
    let dir = place();
    let load = [
        "--commits",
        "50",
        "--beside-write",
        "1MB/s",
        "--beside",
        "sleep 60",
    ];
    let load = if cfg!(windows) { &load[..4] } else { &load };
    let (out, report) = preflight(dir.path(), "etcd", load);
    let text = text(&out.stderr);
    if text.contains("not enough free space") {
        return logforce_testkit::skip!("not enough free space for the writer");
    }
    // Wine's caveat stands above everything.
    let mut parts = text
        .split("\n\n")
        .skip_while(|part| part.starts_with("This is Wine"));
    let first = parts.next().unwrap();
    for part in [
        "etcd",
        "p50",
        "limit of p99 is 10 ms",
        "A commit here survives",
    ] {
        assert!(first.contains(part), "no '{part}' in {first}");
    }
    assert!(report["beside"]["syncs"].as_u64() >= Some(1), "{report}");
    assert!(
        report["beside"]["written_bytes"].as_u64() >= Some(1 << 19),
        "{report}"
    );
    if cfg!(unix) {
        assert_eq!(report["beside"]["starts"], 1, "{report}");
    }
    let document = include_str!("../../../../docs/cli-json.md");
    let (_, section) = document.split_once("## `logforce bench --for`").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let mut names = BTreeSet::new();
    for part in ["threshold", "beside", "survives"] {
        names.extend(report[part].as_object().unwrap().keys());
    }
    for part in ["forces", "repetitions"] {
        names.extend(report[part][0].as_object().unwrap().keys());
    }
    names.extend(report.as_object().unwrap().keys());
    // Fields of all commands.
    names.retain(|name| !["schema", "version"].contains(&name.as_str()));
    for name in names {
        assert!(
            section.contains(&format!("`{name}`")),
            "{name} is not documented"
        );
    }
    assert!(document.contains("`logforce-preflight`"));
}

#[test]
fn a_disk_that_is_too_slow_is_measured_three_times() {
    let dir = place();
    // Without a load, a busy computer would be an excuse for slow commits.
    let strict = [
        "--commits",
        "20",
        "--limit",
        "0.000000001",
        "--beside",
        "exit 0",
    ];
    let (out, report) = preflight(dir.path(), "etcd", &strict);
    assert_eq!(out.status.code(), Some(1), "{}", text(&out.stderr));
    let survives = &report["survives"];
    if survives["guarantee"] != "power-loss" || survives["verdict"] == "implausible" {
        return logforce_testkit::skip!("commits are not durable on the disk of the build");
    }
    let repetitions = report["repetitions"].as_array().unwrap();
    assert_eq!(repetitions.len(), 3);
    assert!(
        repetitions
            .iter()
            .all(|r| r["finding"] == "above" && r["above_limit"] == 20)
    );
    let said = text(&out.stderr);
    assert!(
        said.contains("NOT FIT for etcd: p99 exceeds the limit"),
        "{said}"
    );
}

#[cfg(target_os = "linux")]
#[test]
fn files_in_memory_are_not_fit_for_anything() {
    let Ok(dir) = tempfile::tempdir_in("/dev/shm") else {
        return logforce_testkit::skip!("no /dev/shm");
    };
    for system in ["postgresql", "zookeeper"] {
        let (out, report) = preflight(dir.path(), system, &["--commits", "2000"]);
        let said = text(&out.stderr);
        if report["machine"]["filesystem"] != "tmpfs" {
            return logforce_testkit::skip!("/dev/shm is another filesystem");
        }
        assert_eq!(out.status.code(), Some(1), "{said}");
        assert!(said.contains("survives only process-crash"), "{said}");
        assert!(said.contains("tmpfs keeps files in memory"), "{said}");
    }
}

#[test]
fn quiet_prints_the_status_alone() {
    let dir = place();
    let out = command(
        dir.path(),
        &["--quiet", "--for", "redis", "--commits", "20"],
    );
    let out = { out }.to_end().unwrap();
    assert!(matches!(out.status.code(), Some(1 | 3)), "{:?}", out.status);
    assert_eq!(
        (text(&out.stdout), text(&out.stderr)),
        (String::new(), String::new())
    );
}

#[test]
fn unusable_arguments_are_refused() {
    let dir = place();
    assert_unusable(
        dir.path(),
        &[
            (&["--for", "oracle"], "possible values: etcd, postgresql"),
            (&["--for", "etcd", "--full"], "cannot be used with"),
            (
                &["--for", "etcd", "--commits", "0"],
                "'0' is not a number from 1 to",
            ),
            (
                &["--for", "etcd", "--beside-write", "50 parsecs"],
                "'parsecs' is not a unit",
            ),
            (&["--beside", "true"], "--for <SYSTEM>"),
        ],
    );
    let missing = command(dir.path(), &["--for", "etcd", "--dir", "gone"])
        .to_end()
        .unwrap();
    assert_eq!(missing.status.code(), Some(4));
    assert!(
        text(&missing.stderr).contains("does not exist"),
        "{}",
        text(&missing.stderr)
    );
}

#[test]
fn a_load_that_fails_is_told_and_there_is_no_answer() {
    let dir = place();
    let failing = match cfg!(windows) {
        true => "echo first>&2 & echo the last line>&2 & exit 7",
        false => "echo first >&2; echo the last line >&2; exit 7",
    };
    let (out, report) = preflight(dir.path(), "etcd", &["--beside", failing]);
    let said = text(&out.stderr);
    assert_eq!(
        (out.status.code(), report),
        (Some(4), Value::Null),
        "{said}"
    );
    for part in ["--beside failed after", "7", "the last line"] {
        assert!(said.contains(part), "no '{part}' in {said}");
    }
}

/// Processes of a load.
#[cfg(unix)]
mod processes {
    use super::*;
    use std::fs;
    use std::process::Stdio;
    use std::time::Duration;

    /// A command that appends to `file` until it is ended, by a process in the background and another one.
    fn endless(file: &Path) -> String {
        let file = file.display();
        let step = format!("while :; do echo x >> '{file}'; sleep 0.02; done");
        format!("({step}) & {step}")
    }

    fn size(file: &Path) -> u64 {
        fs::metadata(file).map_or(0, |m| m.len())
    }

    /// Returns true if no process appends to the file any more.
    fn has_stopped(file: &Path) -> bool {
        let before = size(file);
        std::thread::sleep(Duration::from_millis(300));
        size(file) == before
    }

    #[test]
    fn a_load_ends_with_the_measurement() {
        let (dir, beside) = (place(), place());
        let file = beside.path().join("file");
        let load = endless(&file);
        let (out, report) = preflight(dir.path(), "redis", &["--commits", "20", "--beside", &load]);
        assert_eq!(report["beside"]["starts"], 1, "{}", text(&out.stderr));
        assert!(size(&file) > 0 && has_stopped(&file));
    }

    #[test]
    fn a_load_that_ends_is_started_again() {
        let (dir, beside) = (place(), place());
        let file = beside.path().join("file");
        let load = format!("echo x >> '{}'", file.display());
        let (out, report) = preflight(dir.path(), "redis", &["--commits", "20", "--beside", &load]);
        let starts = report["beside"]["starts"].as_u64();
        assert!(starts >= Some(2), "{}", text(&out.stderr));
        assert_eq!(starts, Some(size(&file) / 2));
    }

    #[test]
    fn no_load_outlives_a_killed_measurement() {
        let (dir, beside) = (place(), place());
        let file = beside.path().join("file");
        let load = endless(&file);
        let mut child = command(dir.path(), &["--for", "etcd", "--beside", &load])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .start()
            .unwrap();
        while size(&file) == 0 && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(5));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        // The shell around the load notices the end of the measurement at once. A slow computer needs longer.
        assert!((0..100).any(|_| has_stopped(&file)), "the load goes on");
    }

    #[test]
    fn ctrl_c_ends_measurement_and_load() {
        crate::runs::assert_ends_by_ctrl_c(
            &[
                "--for",
                "mariadb",
                "--commits",
                "10000000",
                "--beside",
                "sleep 1000",
            ],
            // The first commits are made a second after the start of the load.
            Duration::from_millis(2500),
        );
    }
}
