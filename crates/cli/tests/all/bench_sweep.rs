//! `logforce bench journal --sweep`, with few cells. Nothing here depends on the speed of the disk.

use crate::common::{place, text};
use crate::methods::{cached, direct};
#[cfg(unix)]
use crate::runs::assert_ends_by_ctrl_c;
use crate::runs::{Measured, assert_empty, assert_unusable, command, measured};
use logforce_testkit::process::Start;

/// Sixteen cells of two methods by threads, four of which may be below the write unit; also sixteen
/// by a queue if there is one.
fn tiny(methods: &str) -> Vec<&str> {
    vec![
        "journal",
        "--sweep",
        "--method",
        methods,
        "--depths",
        "4,1",
        "--chunks",
        "512,4k,16k",
        "--size",
        "1MiB",
        "--seconds",
        "2",
    ]
}

#[test]
fn every_cell_is_there_or_says_why_not() {
    let document = include_str!("../../../../docs/bench-json.md");
    let methods = [cached(), direct()].join(",");
    let section = "## `logforce bench journal --sweep`";
    let Some(Measured { report, rows, text }) = measured(&tiny(&methods), document, section) else {
        return;
    };
    assert_eq!(report["schema"], "logforce-sweep");
    assert_eq!(
        (report["version"].as_u64(), report["interrupted"].as_bool()),
        (Some(1), Some(false))
    );
    let ways = report["methods"].as_array().unwrap();
    assert_eq!(rows.len(), ways.len() * 3 * 2);
    for row in &rows {
        let of = ways
            .iter()
            .find(|w| w["method"] == row["method"] && w["queue"] == row["queue"])
            .unwrap();
        if let Some(error) = row["error"].as_str() {
            assert!(row["chunks_per_s"].is_null() && row["guarantee"].is_null());
            // Chunks below the write unit, or a very slow disk.
            let said =
                error.contains("multiple of") || error.contains("time") || of["error"].is_string();
            assert!(said, "{row}");
            continue;
        }
        let n = |name: &str| row[name].as_f64().unwrap();
        let depth = n("depth");
        assert_eq!(n("writes_per_chunk"), 1.0, "{row}");
        let group = of["unit"] == "group";
        let barriers = if group { 1.0 / depth } else { 0.0 };
        assert_eq!(n("barriers_per_chunk"), barriers, "{row}");
        assert_eq!(
            n("through_per_chunk"),
            if group { 0.0 } else { 1.0 },
            "{row}"
        );
        assert!(
            n("p50_us") <= n("p99_us") && n("p99_us") <= n("max_us"),
            "{row}"
        );
        let bytes = n("chunks_per_s") * n("chunk_bytes") / 1e6;
        assert!((n("mb_per_s") / bytes - 1.0).abs() < 1e-9, "{row}");
        assert_eq!(row["guarantee"], of["guarantee"]);
        assert!(row["verdict"].is_string());
    }
    let depths: Vec<u64> = rows[..2]
        .iter()
        .map(|r| r["depth"].as_u64().unwrap())
        .collect();
    assert_eq!(depths, [1, 4], "ascending, whatever was asked for");
    assert!(text.starts_with("Sweep: "), "it says beforehand: {text}");
    for way in ways {
        assert!(text.contains(way["method"].as_str().unwrap()), "{text}");
    }
    let notes = report["notes"].to_string();
    let has_ring = ways.iter().any(|w| w["queue"] == "io_uring");
    assert_eq!(notes.contains("No io_uring variants"), !has_ring, "{notes}");
}

#[test]
fn too_little_time_is_said_with_what_is_left_out() {
    let dir = place();
    let arguments = [
        "--sweep",
        "--method",
        cached(),
        "--chunks",
        "4k,8k,16k",
        "--depths",
        "1,2",
        "--size",
        "1MiB",
        "--seconds",
        "0.2",
        "--all",
        "--csv",
        "-",
    ];
    let out = command(dir.path(), &arguments).to_end().unwrap();
    let said = text(&out.stderr);
    if said.contains("not enough free space") {
        return;
    }
    assert!(said.contains("too little time for 4 more cells"), "{said}");
    assert!(said.contains("need --seconds"), "{said}");
    let csv = text(&out.stdout);
    assert_eq!(csv.lines().count(), 7, "{csv}");
    assert_eq!(
        csv.matches("left out because there is too little time")
            .count(),
        4,
        "{csv}"
    );
    assert_empty(dir.path());
}

#[cfg(unix)]
#[test]
fn ctrl_c_tells_what_was_measured_until_then() {
    use std::time::Duration;
    let arguments = ["--sweep", "--seconds", "600", "--size", "4MiB"];
    for wait in [0, 700] {
        assert_ends_by_ctrl_c(&arguments, Duration::from_millis(wait));
    }
}

#[cfg(unix)]
#[test]
fn the_json_of_an_interrupted_sweep_says_so() {
    let (dir, results) = (place(), place());
    let json = results.path().join("sweep.json");
    let mut child = command(
        dir.path(),
        &[
            "--sweep",
            "--seconds",
            "600",
            "--size",
            "4MiB",
            "--method",
            cached(),
            "--json",
            json.to_str().unwrap(),
        ],
    )
    .stdout(std::process::Stdio::null())
    .stderr(std::process::Stdio::null())
    .start()
    .unwrap();
    // It ends by itself if there is no space. Otherwise 600 s over its cells give long slices.
    std::thread::sleep(std::time::Duration::from_millis(2500));
    if child.try_wait().unwrap().is_some() {
        return;
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_empty(dir.path());
    // On a very slow disk nothing was measured, and there is no result.
    let Ok(written) = std::fs::read(json) else {
        return;
    };
    let report: serde_json::Value = serde_json::from_slice(&written).unwrap();
    assert_eq!(report["interrupted"], true);
    let conclusion = report["conclusion"].as_str().unwrap();
    assert!(
        conclusion.contains("until the interruption"),
        "{conclusion}"
    );
    let rows = report["rows"].as_array().unwrap();
    let without = |r: &&serde_json::Value| r["error"].is_string();
    assert!(
        rows.iter().filter(without).count() > 0,
        "not all cells were reached"
    );
    assert!(
        rows.iter()
            .all(|r| r["error"].is_string() || r["chunks_per_s"].is_number())
    );
}

#[test]
fn unusable_arguments_are_refused() {
    assert_unusable(
        place().path(),
        &[
            (&["--sweep", "--full"], "cannot be used with"),
            (&["--sweep", "--chunk", "4k"], "cannot be used with"),
            (
                &["--sweep", "--file-state", "zeroed"],
                "cannot be used with",
            ),
            (
                &["--sweep", "--depths", "0"],
                "'0' is not a number from 1 to 256",
            ),
            (
                &["--sweep", "--chunks", "2MiB", "--size", "1MiB"],
                "does not fit into --size",
            ),
            (&["--sweep", "--method", "o_sync"], "known here"),
            (&["--depths", "4"], "--sweep"),
        ],
    );
}

/// A run on a filesystem of 48 MiB, if this machine can create one.
#[cfg(target_os = "linux")]
#[test]
fn no_space_is_told_and_nothing_is_left() {
    use logforce_testkit::loopfs::LoopFs;
    let home = place();
    let small = match LoopFs::new("ext4", 48, home.path()) {
        Ok(small) => small,
        Err(skip) => return logforce_testkit::skip!("{skip}"),
    };
    let before = std::fs::read_dir(small.path()).unwrap().count();
    let out = command(small.path(), &["--sweep"]).to_end().unwrap();
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(4), "{said}");
    assert!(
        said.contains("not enough free space: 64 MiB are needed (1 file of 64 MiB), but"),
        "{said}"
    );
    assert!(
        said.contains("may be used") && !said.contains("Sweep:"),
        "{said}"
    );
    assert_eq!(std::fs::read_dir(small.path()).unwrap().count(), before);
}
