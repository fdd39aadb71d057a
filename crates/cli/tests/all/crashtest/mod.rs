//! `logforce crashtest`, with small programs whose mistakes are known. Needs root, FUSE and loop devices.

mod broken;
mod examples;
mod records;

use crate::common::{is_missing_again, text};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Continues after the last number in the file, and appends the next ones; `$2` is called before each
/// acknowledgement.
const APPEND: &str = "
n=$(tail -n 1 \"$1/log\" 2>/dev/null); n=${n:-0}
while :; do n=$((n+1)); echo $n >> \"$1/log\"; $2 \"$1/log\"; echo $n; done";
/// Replaces a file by a new one; `$2` is called with the new file before the rename, `$3` with the directory after
/// it.
const REPLACE: &str = "
n=$(cat \"$1/value\" 2>/dev/null); n=${n:-0}
while :; do n=$((n+1)); echo $n > \"$1/new\"; $2 \"$1/new\"; mv \"$1/new\" \"$1/value\"; $3 \"$1\"; echo $n; done";
/// Checks that the last acknowledged number is in the file.
const LAST_IS_THERE: &str = "last=$(tail -n 1 {acked}); [ -z \"$last\" ] || grep -qx \"$last\" {}/log || \
                             { echo \"$last is missing\"; exit 1; }";
/// Checks that the file holds the last acknowledged number or a later one.
const VALUE_IS_THERE: &str = "last=$(tail -n 1 {acked}); [ -z \"$last\" ] || [ \"$(tr -d '\\0' < {}/value)\" -ge \"$last\" ] || \
                              { echo \"older than $last\"; exit 1; }";

/// Runs the command on ext4 with this volume; returns its status, its output and its JSON. Returns `None` where
/// something that it needs is missing.
fn crashtest(volume: &[&str], check: &str, workload: &[&str]) -> Option<(i32, String, Value)> {
    crashtest_on("ext4", volume, check, workload)
}

fn crashtest_on(
    filesystem: &str,
    volume: &[&str],
    check: &str,
    workload: &[&str],
) -> Option<(i32, String, Value)> {
    let out = Command::new(env!("CARGO_BIN_EXE_logforce"))
        .args(["crashtest", "--filesystem", filesystem, "--json", "-"])
        .args(volume)
        .args(["--check", check, "--", "sh", "-c"])
        .args(workload)
        // As users have it: without the directories of system programs.
        .env("PATH", "/usr/bin:/bin")
        .output()
        .unwrap();
    let status = out.status.code().unwrap();
    if status == 77 {
        logforce_testkit::skip!("{}", text(&out.stderr).replace('\n', " "));
        return None;
    }
    let json = serde_json::from_slice(&out.stdout).unwrap_or(Value::Null);
    Some((status, text(&out.stderr), json))
}

/// Returns true in a deep run (`cargo xtask test --deep`).
fn is_deep() -> bool {
    std::env::var_os("LOGFORCE_DEEP").is_some()
}

/// Returns the objects whose sync stopped the losses.
fn mending(json: &Value) -> Vec<&str> {
    let experiments = json["explanation"]["experiments"].as_array().unwrap();
    let stopped = experiments.iter().filter(|e| e["failed"] == 0);
    stopped
        .filter_map(|e| e["object"]["name"].as_str())
        .collect()
}

#[test]
fn an_append_without_fsync_loses_and_the_file_is_named() {
    // The fsync of a file that is durable helps nothing.
    let setup = "echo 0 > {}/other; sync";
    let volume = ["--cuts", "6", "--states", "10", "--setup", setup];
    let workload = [APPEND, "sh", "{}", "true"];
    let Some((status, shown, json)) = crashtest(&volume, LAST_IS_THERE, &workload) else {
        return;
    };
    assert_eq!(status, 1, "{shown}");
    assert_eq!(json["verdict"], "lost");
    assert!(
        json["losses"][0]["message"]
            .as_str()
            .unwrap()
            .ends_with("is missing"),
        "{json}"
    );
    assert_eq!(mending(&json), ["log"], "{shown}");
    let experiments = json["explanation"]["experiments"].as_array().unwrap();
    // With fewer checks an object that does not help may look as if it did.
    assert!(
        experiments.iter().all(|e| e["checks"].as_u64() >= Some(12)),
        "{json}"
    );
    let dirty = &json["explanation"]["dirty"];
    // Linux before 6.5 cannot say it.
    if json["explanation"]["examined"] != 0 {
        let names: Vec<_> = dirty
            .as_array()
            .unwrap()
            .iter()
            .map(|d| &d["name"])
            .collect();
        assert_eq!(names, ["log"], "{json}");
    }
}

#[test]
fn an_append_with_fsync_survives() {
    let volume = ["--cuts", "10", "--states", "60"];
    // An announced number may be missing.
    let announced = APPEND.replace("n=$((n+1));", "n=$((n+1)); echo \"?$n\";");
    let workload = [&announced, "sh", "{}", "sync"];
    // The noise syncs a file that is not the program's.
    let dir = tempfile::tempdir().unwrap();
    let noise = dir.path().join("noise");
    let check = format!(
        "[ ! -e {{}}/../neighbour ] || : > '{}'; {LAST_IS_THERE}",
        noise.display()
    );
    let Some((status, shown, json)) = crashtest(&volume, &check, &workload) else {
        return;
    };
    assert_eq!(status, 0, "{shown}");
    assert!(noise.exists(), "{shown}");
    assert_eq!(json["verdict"], "survived");
    let rows = json["rows"].as_array().unwrap();
    let control = rows.iter().find(|r| r["part"] == "control").unwrap();
    assert!(control["lost"].as_u64().unwrap() > 0, "{json}");
    let states = rows.iter().find(|r| r["part"] == "states").unwrap();
    assert_eq!(
        (&states["checks"], &states["lost"]),
        (&60.into(), &0.into())
    );
}

/// In every change SQLite shows the same, in less time (`crashtest_sqlite`).
#[test]
fn a_rename_whose_directory_is_not_synced_loses_and_the_directory_is_named() {
    if !is_deep() {
        return;
    }
    let setup = "mkdir -m 777 {}/below; sync";
    let volume = ["--cuts", "12", "--states", "20", "--setup", setup];
    let workload = [REPLACE, "sh", "{}/below", "sync", "true"];
    let check = VALUE_IS_THERE.replace("{}/value", "{}/below/value");
    let Some((status, shown, json)) = crashtest(&volume, &check, &workload) else {
        return;
    };
    assert_eq!(status, 1, "{shown}");
    assert!(mending(&json).contains(&"below"), "{shown}");
    // The file itself was synced.
    assert_eq!(
        json["explanation"]["dirty"],
        Value::Array(Vec::new()),
        "{json}"
    );
}

/// Lines that an earlier session acknowledged have to be there after every later cut: with more than 100 states there are
/// recordings that begin with such lines.
#[test]
fn a_program_that_forgets_at_its_start_loses() {
    let forgets = "n=$(tail -n 1 \"$1/log\" 2>/dev/null); n=${n:-0}; \
                   [ $n = 0 ] || { echo $n > \"$1/log\"; sync \"$1/log\"; }; \
                   while :; do n=$((n+1)); echo $n >> \"$1/log\"; sync \"$1/log\"; echo $n; done";
    let first_is_there = "first=$(head -n 1 {acked}); [ -z \"$first\" ] || grep -qx \"$first\" {}/log || \
                          { echo \"$first is missing\"; exit 1; }";
    let volume = ["--cuts", "8", "--states", "200", "--no-explain"];
    let Some((status, shown, json)) = crashtest(&volume, first_is_there, &[forgets, "sh", "{}"])
    else {
        return;
    };
    assert_eq!(status, 1, "{shown}");
    let rows = json["rows"].as_array().unwrap();
    for part in ["cuts", "states"] {
        let row = rows.iter().find(|r| r["part"] == part).unwrap();
        assert!(row["lost"].as_u64().unwrap() > 0, "{part}: {shown}");
    }
}

#[test]
fn a_check_that_sees_nothing_proves_nothing() {
    let workload = [APPEND, "sh", "{}", "true"];
    let volume = ["--cuts", "3", "--states", "0"];
    let Some((status, shown, _)) = crashtest(&volume, ": {}", &workload) else {
        return;
    };
    assert_eq!(status, 3, "{shown}");
    assert!(shown.contains("noticed nothing in 5 cuts"), "{shown}");
}

/// The control loses the creation of the file, and the check notices that. The honest disk loses all numbers.
#[test]
fn a_check_that_sees_only_the_creation_proves_nothing() {
    let create = "[ -s \"$1/log\" ] || { echo 0 > \"$1/log\"; sync; };";
    let workload = [&*format!("{create} {APPEND}"), "sh", "{}", "true"];
    let volume = ["--cuts", "3", "--states", "0"];
    let Some((status, shown, _)) = crashtest(&volume, "test -s {}/log", &workload) else {
        return;
    };
    assert_eq!(status, 3, "{shown}");
    assert!(
        shown.contains("succeeded on a directory from before"),
        "{shown}"
    );
}

#[test]
fn every_process_of_a_workload_ends_with_its_session() {
    let dir = tempfile::tempdir().unwrap();
    let again = dir.path().join("again");
    // No cut leaves the mark, because nothing syncs: a process that finds it had another before it on its mount.
    let workload = format!(
        "[ ! -e {{}}/mark ] || : > '{}'; : > {{}}/mark; sleep 4321 & \
         n=0; while :; do n=$((n+1)); echo $n > {{}}/log; echo $n; done",
        again.display()
    );
    let volume = [
        "--cuts",
        "10",
        "--states",
        "0",
        "--no-explain",
        "--noise",
        "none",
        "--kill",
    ];
    if crashtest(&volume, "grep -q . {}/log", &[&workload]).is_none() {
        return;
    }
    assert!(again.exists(), "--kill ends no process");
    let is_left = |process: &Path| {
        let line = fs::read(process.join("cmdline")).unwrap_or_default();
        line == b"sleep\x004321\0"
    };
    let processes = fs::read_dir("/proc").unwrap().flatten();
    assert!(!processes.map(|p| p.path()).any(|p| is_left(&p)));
}

#[test]
fn a_kept_case_holds_what_is_needed_to_see_it_again() {
    let dir = tempfile::tempdir().unwrap();
    let keep = dir.path().join("kept").to_str().unwrap().to_owned();
    let volume = [
        "--cuts",
        "3",
        "--states",
        "0",
        "--no-explain",
        "--keep",
        &keep,
    ];
    let workload = [APPEND, "sh", "{}", "true"];
    // The script has to replace placeholders within quotes, as the test does.
    let quoted = LAST_IS_THERE.replace("{acked}", "'{acked}'");
    let quoted = quoted.replace("{}/log", "'{}/log'");
    let quoted = format!("[ -d '{{}}' ] || exit 3; {quoted}");
    let Some((status, shown, json)) = crashtest(&volume, &quoted, &workload) else {
        return;
    };
    assert_eq!(status, 1, "{shown}");
    let kept = Path::new(json["losses"][0]["kept"].as_str().unwrap());
    let lines = fs::read_to_string(kept.join("acked")).unwrap();
    assert_eq!(
        lines.lines().last(),
        json["losses"][0]["last_acked"].as_str()
    );
    // As the cut left it: a mount, as for the check, would have replayed the journal.
    let head = Command::new("dumpe2fs")
        .arg("-h")
        .arg(kept.join("image"))
        .output()
        .unwrap();
    assert!(
        text(&head.stdout).contains("needs_recovery"),
        "{}",
        text(&head.stdout)
    );
    is_missing_again(kept);
}

#[test]
fn a_check_that_does_not_exist_accuses_nobody() {
    let workload = [APPEND, "sh", "{}", "true"];
    let volume = ["--cuts", "3", "--states", "0"];
    let Some((status, shown, _)) = crashtest(&volume, "no-such-check {}", &workload) else {
        return;
    };
    assert_eq!(status, 2, "{shown}");
    assert!(
        shown.contains("the check cannot be run") && shown.contains("no-such-check"),
        "{shown}"
    );
}

#[test]
fn a_check_that_never_succeeds_accuses_nobody() {
    let workload = [APPEND, "sh", "{}", "sync"];
    let volume = ["--cuts", "3", "--states", "4"];
    let Some((status, shown, json)) = crashtest(&volume, "echo broken; exit 1; {}", &workload)
    else {
        return;
    };
    assert_eq!(status, 3, "{shown}");
    assert!(
        shown.contains("never succeeded") && shown.contains("broken"),
        "{shown}"
    );
    assert_eq!(json["explanation"], Value::Null);
}

#[test]
fn a_failed_check_before_any_acknowledgement_is_told_apart() {
    // Half of what it writes comes before the first acknowledgement.
    let slow = "n=0; while [ $n -lt 30 ]; do n=$((n+1)); : > \"$1/made$n\"; sync \"$1\"; done; n=0; \
                while [ $n -lt 30 ]; do n=$((n+1)); echo $n >> \"$1/log\"; sync \"$1/log\" \"$1\"; echo $n; done; sleep 9";
    let volume = ["--cuts", "0", "--states", "40", "--no-explain"];
    let Some((status, shown, json)) =
        crashtest(&volume, "[ -s {}/log ] || exit 1", &[slow, "sh", "{}"])
    else {
        return;
    };
    assert_eq!(status, 1, "{shown}");
    let rows = json["rows"].as_array().unwrap();
    let states = rows.iter().find(|r| r["part"] == "states").unwrap();
    assert!(
        states["failed_without_acks"].as_u64().unwrap() > 0,
        "{json}"
    );
    assert!(shown.contains("nothing had been acknowledged"), "{shown}");
    let notes = json["notes"].as_array().unwrap();
    let is_told = |note: &Value| note.as_str().unwrap().contains("of its creation");
    assert!(notes.iter().any(is_told), "{json}");
}

#[test]
fn a_check_without_a_directory_is_refused() {
    let out = Command::new(env!("CARGO_BIN_EXE_logforce"))
        .args([
            "crashtest",
            "--check",
            "./check {acked}",
            "--",
            "./work",
            "{}",
        ])
        .output()
        .unwrap();
    assert_eq!(out.status.code(), Some(2), "{}", text(&out.stderr));
    assert!(text(&out.stderr).contains("names no directory"));
}

#[test]
fn a_rename_of_an_unsynced_file_loses_and_the_rename_is_named() {
    if !is_deep() {
        return;
    }
    // ext4 writes a file before it takes the name of another, and loses by chance only.
    let volume = ["--cuts", "6", "--states", "10"];
    let workload = [REPLACE, "sh", "{}", "true", "sync"];
    let Some((status, shown, json)) = crashtest_on("xfs", &volume, VALUE_IS_THERE, &workload)
    else {
        return;
    };
    assert_eq!(status, 1, "{shown}");
    let experiments = json["explanation"]["experiments"].as_array().unwrap();
    let renames = |e: &&Value| e["object"]["kind"] == "files-before-renames";
    match experiments.iter().find(renames) {
        Some(renames) => assert_eq!(renames["failed"], 0, "{shown}"),
        // Not tried if another sync seemed to help, which may happen by chance.
        None if !mending(&json).is_empty() => {}
        None => logforce_testkit::skip!("no strace: syncs before renames were not tried"),
    }
}

#[test]
fn an_acknowledgement_before_the_write_is_told_from_a_missing_sync() {
    if !is_deep() {
        return;
    }
    // A session that begins again at 1 would acknowledge only numbers that an earlier one stored.
    let early = "n=$(tail -n 1 \"$1/log\" 2>/dev/null); n=${n:-0}; while :; do n=$((n+1)); echo $n; sleep 0.02; echo $n >> \"$1/log\"; sync \"$1/log\"; done";
    let volume = ["--cuts", "6", "--states", "0"];
    let Some((status, shown, json)) = crashtest(&volume, LAST_IS_THERE, &[early, "sh", "{}"])
    else {
        return;
    };
    assert_eq!(status, 1, "{shown}");
    assert!(
        json["explanation"]["lost_by_kill"].as_u64().unwrap() > 0,
        "{shown}"
    );
    assert!(shown.contains("before it is written"), "{shown}");
}
