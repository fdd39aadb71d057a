//! Programs whose records a power cut can tear, and a sync that forces nothing.

use super::{LAST_IS_THERE, crashtest, is_deep, mending};
use std::fs::{OpenOptions, read_to_string};
use std::io::Write;
use std::os::fd::AsFd;
use std::path::Path;

/// Writes records of 32 sectors, each with the number of the record, and forces each: record `n` at `n * $2`.
const WRITE: &str = "
n=$(tr -s ' \\0' '\\n' < \"$1/log\" | sort -n | tail -n 1); n=${n:-0}
while :; do
    n=$((n+1)); i=0
    while [ $i -lt 32 ]; do printf '%-512d' $n; i=$((i+1)); done |
        dd of=\"$1/log\" bs=16k seek=$((n*$2)) iflag=fullblock conv=notrunc,fdatasync status=none
    echo $n
done";
/// Creates the file, so that records are written in place.
const ZEROES: &str = "head -c 8M /dev/zero > {}/log && sync {}/log {}";
/// Defines `record N`, which prints the sectors of record `N` that differ, and `last`.
const READ: &str = "
record() { dd if={}/log bs=16k skip=$1 count=1 status=none | tr ' \\0' .. | fold -w 512 | sort -u; }
last=$(tail -n 1 {acked}); last=${last:-0}";
/// Checks that the last acknowledged record is there, and whole.
const RECORD_IS_THERE: &str = "[ $last = 0 ] || [ \"$(record $last | tr -d .)\" = $last ] || { echo \"$last is missing\"; exit 1; }";

/// On a busy machine 4 to 7 of 12 states tear the record, and of 4 cuts all or none: on a slow one none of 16 did, so there
/// are 36 states. No sync helps: a deep run looks for one, in two experiments of 12 cuts that lose 25 % each: neither loses in 0.1 %.
#[test]
fn an_update_in_place_is_torn_and_no_sync_is_accused() {
    let check = format!(
        "{READ}\n[ $(record 0 | wc -l) = 1 ] || {{ echo torn; exit 1; }}\n\
         n=$(record 0 | tr -d .); [ \"${{n:-0}}\" -ge $last ] || {{ echo \"older than $last\"; exit 1; }}"
    );
    let mut volume = vec!["--cuts", "4", "--states", "36", "--setup", ZEROES];
    if !is_deep() {
        volume.push("--no-explain");
    }
    let Some((status, shown, json)) = crashtest(&volume, &check, &[WRITE, "sh", "{}", "0"]) else {
        return;
    };
    assert_eq!(status, 1, "{shown}");
    let losses = json["losses"].as_array().unwrap();
    assert!(losses.iter().any(|l| l["message"] == "torn"), "{shown}");
    let Some(experiments) = json["explanation"]["experiments"].as_array() else {
        assert!(!is_deep(), "{shown}");
        return;
    };
    assert_eq!(json["explanation"]["lost_by_kill"], 0, "{shown}");
    let single = experiments
        .iter()
        .filter(|e| e["object"]["name"].is_string());
    let lost: u64 = single.map(|e| e["failed"].as_u64().unwrap()).sum();
    assert!(lost > 0, "{shown}");
    // One of them may help by chance.
    if mending(&json).is_empty() {
        assert!(shown.contains("tears a write to log"), "{shown}");
    }
}

/// The same program with two checks.
#[test]
fn a_torn_tail_loses_only_where_recovery_refuses_it() {
    let refuses = format!(
        "{READ}\n{RECORD_IS_THERE}\nnext=$((last+1))\n\
         [ $(record $next | wc -l) -le 1 ] || {{ echo \"record $next is damaged\"; exit 2; }}"
    );
    let volume = [
        "--cuts",
        "4",
        "--states",
        "36",
        "--setup",
        ZEROES,
        "--no-explain",
    ];
    let workload = [WRITE, "sh", "{}", "1"];
    let Some((status, shown, json)) = crashtest(&volume, &refuses, &workload) else {
        return;
    };
    assert_eq!(status, 1, "{shown}");
    assert_eq!(json["losses"][0]["failure"], "unopened", "{shown}");
    assert!(shown.contains("is damaged"), "{shown}");
    let ignores = format!("{READ}\n{RECORD_IS_THERE}");
    let Some((status, shown, _)) = crashtest(&volume, &ignores, &workload) else {
        return;
    };
    assert_eq!(status, 0, "{shown}");
}

/// Variable with the directory in which [`append_with_write_back_only`] works.
const DIR: &str = "LOGFORCE_TEST_WRITE_BACK";

/// Appends numbers and writes each back without a flush: the workload of the next test, which starts this function
/// with the variable. Without it there is nothing to do.
#[test]
fn append_with_write_back_only() {
    let Some(dir) = std::env::var_os(DIR) else {
        return;
    };
    let path = Path::new(&dir).join("log");
    let earlier = read_to_string(&path).unwrap_or_default().lines().count();
    let mut log = OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .unwrap();
    let acks = std::env::var_os("CRASHTEST_ACKS").unwrap();
    let mut acks = OpenOptions::new().append(true).open(acks).unwrap();
    for n in earlier + 1.. {
        let line = format!("{n}\n");
        log.write_all(line.as_bytes()).unwrap();
        logforce_device_os::start_write_back(log.as_fd(), 0..u64::MAX);
        acks.write_all(line.as_bytes()).unwrap();
    }
}

#[test]
fn a_sync_file_range_loses_and_the_file_is_named() {
    if !is_deep() {
        return;
    }
    let own = std::env::current_exe().unwrap();
    let name = "crashtest::records::append_with_write_back_only";
    let workload = format!("{DIR}=\"$0\" exec '{}' --exact {name}", own.display());
    let volume = ["--cuts", "6", "--states", "10", "--acks", "file"];
    let Some((status, shown, json)) = crashtest(&volume, LAST_IS_THERE, &[&workload, "{}"]) else {
        return;
    };
    assert_eq!(status, 1, "{shown}");
    assert_eq!(mending(&json), ["log"], "{shown}");
}
