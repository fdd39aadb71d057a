//! Workloads and checks that are broken themselves: the report says so, and accuses no sync.

use super::{APPEND, LAST_IS_THERE, crashtest};
use crate::common::text;
use std::process::Command;

/// Returns a text on one line, as no line break of the report divides it.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_workload_that_acknowledges_nothing_is_told_why() {
    let cases = [
        ("printf 17; sleep 100", "without a newline"),
        ("sleep 100", "buffers its output"),
        (
            "echo no such table >&2; exit 3",
            "exited with 3: no such table",
        ),
        ("/no/such/program", "exited with 127"),
        ("echo wrong >&2; kill -ABRT $$", "ended by signal 6: wrong"),
        ("sleep 100 & exit 0", "has to stay in the foreground"),
        (
            "exec >&-; echo 1 || echo not written >&2; sleep 100",
            "last line of output is \"not written\"",
        ),
    ];
    for (workload, why) in cases {
        let volume = ["--cuts", "3", "--states", "0", "--patience", "1"];
        let Some((status, shown, _)) = crashtest(&volume, ": {}", &[workload]) else {
            return;
        };
        assert_eq!(status, 3, "{shown}");
        assert!(one_line(&shown).contains(why), "{workload}: {shown}");
    }
}

#[test]
fn a_full_disk_is_told_and_proves_nothing() {
    // Leaves space for one file: all sessions but the first of a disk fail at once, however slow the machine is.
    let volume = [
        "--cuts",
        "3",
        "--states",
        "0",
        "--setup",
        "dd if=/dev/zero of={}/full bs=64k 2> /dev/null; truncate -s -1M {}/full; sync",
    ];
    let workload = "n=$(tail -n 1 \"$1/log\" 2>/dev/null); n=${n:-0}; set -e; while :; do n=$((n+1)); \
                    head -c 600K /dev/zero > \"$1/$n\"; echo $n >> \"$1/log\"; sync \"$1/log\"; echo $n; done";
    let Some((status, shown, _)) = crashtest(&volume, LAST_IS_THERE, &[workload, "sh", "{}"])
    else {
        return;
    };
    assert_eq!(status, 3, "{shown}");
    let shown = one_line(&shown);
    for part in [
        "the workload failed before the power went",
        "No space left on device",
        "the disk was full",
        "--size 192MiB",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
}

/// The output is larger than the memory of the harness for its files, 64 MiB.
#[test]
fn a_workload_and_a_check_may_print_very_much() {
    let flood = "head -c 70M /dev/zero >&2";
    let workload = format!("{flood}; {APPEND}");
    let check = format!("{flood}; {LAST_IS_THERE}");
    let volume = ["--cuts", "2", "--states", "0"];
    let Some((status, shown, _)) = crashtest(&volume, &check, &[&workload, "sh", "{}", "sync"])
    else {
        return;
    };
    assert_eq!(status, 0, "{shown}");
}

#[test]
fn a_flood_of_acknowledgements_is_refused_and_told() {
    // On a busy machine the power may go before a session has written enough: one of many has.
    let volume = ["--cuts", "20", "--states", "0"];
    let Some((status, shown, _)) = crashtest(&volume, ": {}", &["yes"]) else {
        return;
    };
    assert_eq!(status, 3, "{shown}");
    assert!(
        one_line(&shown).contains("has to acknowledge by --acks file"),
        "{shown}"
    );
}

#[test]
fn a_check_that_hangs_is_ended_and_counted() {
    let volume = [
        "--cuts",
        "1",
        "--states",
        "0",
        "--no-explain",
        "--patience",
        "1",
    ];
    let workload = [APPEND, "sh", "{}", "sync"];
    let Some((status, shown, json)) =
        crashtest(&volume, "[ ! -s {acked} ] || sleep 100; : {}", &workload)
    else {
        return;
    };
    assert_eq!(status, 1, "{shown}");
    let rows = json["rows"].as_array().unwrap();
    let cuts = rows.iter().find(|r| r["part"] == "cuts").unwrap();
    assert_eq!(cuts["hung"], 1, "{json}");
    assert!(shown.contains("was still running"), "{shown}");
}

#[test]
fn root_without_the_right_to_mount_is_told_before_the_test() {
    let volume = ["--cuts", "1", "--states", "0", "--no-explain"];
    // Root, with everything that the test needs.
    if crashtest(&volume, ": {}", &["true"]).is_none() {
        return;
    }
    for (under, missing) in [
        (
            &[
                "setpriv",
                "--bounding-set=-sys_admin",
                "--inh-caps=-sys_admin",
            ][..],
            "the right to mount (capability SYS_ADMIN)",
        ),
        // `/dev` has the control of the loop devices, and none of them.
        (
            &[
                "unshare",
                "--mount",
                "sh",
                "-c",
                "mount -t tmpfs none /dev && mknod /dev/null c 1 3 && mknod /dev/fuse c 10 229 && \
              mknod /dev/loop-control c 10 237 && exec \"$0\" \"$@\"",
            ],
            "mknod /dev/loop",
        ),
        (
            &[
                "unshare",
                "--mount",
                "sh",
                "-c",
                "mount -t tmpfs none /dev && mknod /dev/null c 1 3 && exec \"$0\" \"$@\"",
            ],
            "/dev/fuse does not exist",
        ),
    ] {
        let out = Command::new(under[0])
            .args(&under[1..])
            .arg(env!("CARGO_BIN_EXE_logforce"))
            .args([
                "crashtest",
                "--filesystem",
                "ext4",
                "--check",
                ": {}",
                "--",
                "true",
            ])
            .output()
            .unwrap();
        let shown = text(&out.stderr);
        assert_eq!(out.status.code(), Some(77), "{shown}");
        assert!(shown.contains(missing), "{shown}");
    }
}
