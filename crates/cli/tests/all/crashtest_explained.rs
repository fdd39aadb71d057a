//! The cause of a loss, as `logforce crashtest` tells it: lost writes and functions. Needs root, FUSE and loop devices.

use crate::common::text;
use serde_json::Value;
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process::Command;

/// Runs the command on ext4; returns its text and its JSON. Returns `None` where something that it needs is missing.
fn lost(options: &[&str], workload: &[OsString]) -> Option<(String, Value)> {
    let out = Command::new(env!("CARGO_BIN_EXE_logforce"))
        .args(["crashtest", "--filesystem", "ext4", "--json", "-"])
        .args(options)
        .arg("--")
        .args(workload)
        .output()
        .unwrap();
    let shown = text(&out.stderr);
    if out.status.code() == Some(77) {
        logforce_testkit::skip!("{}", shown.replace('\n', " "));
        return None;
    }
    assert_eq!(out.status.code(), Some(1), "{shown}");
    Some((shown, serde_json::from_slice(&out.stdout).unwrap()))
}

/// This test is also its workload: then the harness has set the file for acknowledgements.
#[test]
fn the_function_that_wrote_last_is_named() {
    if let Some(acks) = std::env::var_os("CRASHTEST_ACKS") {
        let dir = std::env::var_os("CRASHTEST_DIR").unwrap();
        let path = Path::new(&dir).join("log");
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        let mut log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .unwrap();
        let mut acks = OpenOptions::new().write(true).open(acks).unwrap();
        for n in written.lines().count() as u64 + 1.. {
            log.write_all(format!("{n}\n").as_bytes()).unwrap();
            acks.write_all(format!("{n}\n").as_bytes()).unwrap();
        }
    }
    let check = "last=$(tail -n 1 {acked}); [ -z \"$last\" ] || grep -qx \"$last\" {}/log";
    let name = "crashtest_explained::the_function_that_wrote_last_is_named";
    let workload = [
        std::env::current_exe().unwrap().into(),
        "--exact".into(),
        name.into(),
    ];
    let options = [
        "--acks", "file", "--cuts", "3", "--states", "0", "--check", check,
    ];
    let Some((shown, json)) = lost(&options, &workload) else {
        return;
    };
    let Some(stack) = json["explanation"]["stacks"].get(0) else {
        return logforce_testkit::skip!("no strace that walks stacks");
    };
    assert_eq!(stack["object"]["name"], "log", "{shown}");
    assert_eq!(stack["call"], "write", "{shown}");
    // Of its callers some versions of `strace` skip a few, depending on the linker.
    let innermost = stack["functions"][0].as_str().unwrap();
    assert!(
        innermost.contains("File") && innermost.contains("write"),
        "{shown}"
    );
}

#[test]
fn the_lost_part_of_a_record_that_is_updated_in_place_is_found() {
    // A record of sixteen sectors with one number in each.
    let record = "record() { i=0; while [ $i -lt 16 ]; do printf '%511d\\n' $1; i=$((i+1)); done | \
                  dd of=\"$2/record\" bs=8192 iflag=fullblock conv=notrunc,fdatasync status=none; }; ";
    let work = format!(
        "{record} n=$(head -n 1 \"$1/record\"); n=$((n)); while :; do n=$((n+1)); record $n \"$1\"; echo $n; done"
    );
    let setup = format!("{record} record 0 {{}}; sync");
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("page.html");
    let options = [
        "--cuts",
        "0",
        "--states",
        "40",
        "--setup",
        &setup,
        "--html",
        page.to_str().unwrap(),
        "--check",
        "[ $(sort -u {}/record | wc -l) = 1 ] || { echo torn; exit 1; }",
    ];
    let workload = ["sh", "-c", &work, "sh", "{}"].map(OsString::from);
    let Some((shown, json)) = lost(&options, &workload) else {
        return;
    };
    let page = std::fs::read_to_string(page).unwrap();
    for text in [&json["sentence"], &json["explanation"]["conclusion"]] {
        assert!(page.contains(text.as_str().unwrap()), "{shown}");
    }
    assert!(page.contains("Lost writes"), "{shown}");
    let least = &json["explanation"]["least"];
    assert_eq!(least["message"], "torn", "{shown}");
    let lost = least["lost"].as_array().unwrap();
    assert_eq!(lost.len(), 1, "{shown}");
    let number = |field: &str| lost[0][field].as_u64().unwrap();
    assert_eq!(
        (&lost[0]["in"], &lost[0]["name"]),
        (&"file".into(), &"record".into()),
        "{shown}"
    );
    let bytes = number("bytes");
    assert!(bytes == 512 || bytes == 4096, "{shown}");
    assert!(
        number("offset") + bytes <= 8192 && number("offset") % bytes == 0,
        "{shown}"
    );
    let marks = least["timeline"].as_array().unwrap();
    assert!(
        marks.iter().any(|mark| mark["kind"] == "lost-write"),
        "{shown}"
    );
}
