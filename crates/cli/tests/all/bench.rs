//! The built command on a real disk, with short runs. Nothing here depends on the speed of the disk.

#[cfg(unix)]
use crate::common::open_place;
use crate::common::{place, text};
use crate::methods::{cached, direct};
use crate::runs::{assert_empty, assert_unusable, command};
use crate::tiny::tiny;
#[cfg(unix)]
use crate::{runs::bench_in, tiny::TINY};
use logforce::Method;
use logforce_testkit::process::Start;
use serde_json::Value;
use std::fs;

#[test]
fn without_anything_it_measures_every_row_here() {
    let dir = place();
    let out = tiny(dir.path(), &["--all", "--published"]);
    let printed = text(&out.stdout);
    assert!(out.status.success(), "{printed}{}", text(&out.stderr));
    for word in [
        "fallocated file:",
        "zeroed file:",
        "recycled file:",
        "growing file:",
        "by the log, ",
        "log ×64 128 B",
    ] {
        assert!(printed.contains(word), "no '{word}' in\n{printed}");
    }
    // There are no published figures for macOS. A busy machine may have measured too little to compare.
    let is_compared = printed.contains("Oren Eini");
    let words: Vec<&str> = printed.split_whitespace().collect();
    let is_enough = !words.join(" ").contains("too little was measured");
    assert!(
        is_compared || !is_enough || cfg!(target_os = "macos"),
        "{printed}"
    );
    assert!(!(is_compared && cfg!(target_os = "macos")), "{printed}");
    for method in Method::here() {
        let rows = printed
            .lines()
            .filter(|l| l.trim_start().starts_with(&format!("{method} ")));
        assert!(rows.count() >= 4, "{method} in\n{printed}");
    }
    assert!(
        printed.lines().all(|l| l.chars().count() <= 120),
        "{printed}"
    );
    assert_eq!(
        text(&out.stderr),
        "",
        "no progress bar where there is no terminal"
    );
    assert_empty(dir.path());
}

#[test]
fn ten_lines_are_enough_unless_more_is_asked_for() {
    let dir = place();
    let path = dir.path().to_str().unwrap();
    let methods = [cached(), "buffered"].join(",");
    let arguments = [path, "--method", &methods, "--file-state", "zeroed"];
    let printed = |more: &[&str]| {
        let out = tiny(dir.path(), &[&arguments, more].concat());
        assert!(out.status.success(), "{}", text(&out.stderr));
        text(&out.stdout)
    };
    let brief = printed(&[]);
    assert!(brief.lines().count() <= 10, "{brief}");
    for part in [
        "Journal writes of 16 KiB; ",
        "--all shows every table and note",
    ] {
        assert!(brief.contains(part), "no '{part}' in {brief}");
    }
    assert!(!brief.contains("zeroed file:"), "{brief}");
    let all = printed(&["--all"]);
    assert!(
        all.contains("zeroed file:") && !all.contains("Oren Eini"),
        "{all}"
    );
    // The conclusion comes first.
    let (conclusion, _) = all.split_once("zeroed file:").unwrap();
    assert!(
        conclusion.contains(cached()) || conclusion.contains("No row is safe"),
        "{all}"
    );
    let published = printed(&["--published"]);
    assert!(published.contains("published"), "{published}");
    assert!(!published.contains("zeroed file:"), "{published}");
    assert_empty(dir.path());
}

#[test]
fn json_on_stdout_is_clean_and_the_table_goes_past_it() {
    let dir = place();
    let out = tiny(dir.path(), &["journal", "--json", "-"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let report: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(report["schema"], "logforce-bench");
    assert_eq!(
        report["command"],
        "logforce bench journal --json - --size 1MiB --seconds 0.3"
    );
    assert!(report["started"].as_str().unwrap().ends_with('Z'));
    let rows = report["rows"].as_array().unwrap();
    // Each method in four file states, and five rows of the log.
    assert_eq!(rows.len(), 4 * Method::here().len() + 5);
    let logged: Vec<&Value> = rows.iter().filter(|r| r["subject"] == "logforce").collect();
    let threads: Vec<u64> = logged
        .iter()
        .map(|r| r["threads"].as_u64().unwrap())
        .collect();
    assert_eq!(threads, [1, 1, 4, 16, 64]);
    for row in logged {
        assert!(row["error"].is_null() && row["commits"].is_u64(), "{row}");
        assert!(row["file_state"].is_null() && row["file_bytes_per_commit"].is_number());
    }
    for row in rows {
        if row["error"].is_null() {
            let n = |name: &str| row[name].as_f64().unwrap();
            assert!((n("ms_per_commit") * n("commits") / n("total_ms") - 1.0).abs() < 1e-6);
            assert!(n("p50_us") <= n("p99_us") && n("p999_us") <= n("max_us"));
            assert!(row["guarantee"].is_string() && row["evidence"].is_string());
        } else {
            assert!(row["commits"].is_null() && row["guarantee"].is_null());
        }
    }
    let printed = text(&out.stderr);
    assert!(
        printed.contains("survives")
            && printed.contains(
                report["conclusion"]
                    .as_str()
                    .unwrap()
                    .split(' ')
                    .next()
                    .unwrap()
            )
    );
}

#[test]
fn files_for_json_and_csv() {
    let (dir, results) = (place(), place());
    let (json, csv) = (results.path().join("r.json"), results.path().join("r.csv"));
    fs::write(&json, "x".repeat(1 << 20)).unwrap();
    let out = tiny(
        results.path(),
        &[
            "--json",
            json.to_str().unwrap(),
            "--csv",
            csv.to_str().unwrap(),
            "--dir",
            dir.path().to_str().unwrap(),
            "--method",
            &[cached(), "buffered"].join(","),
            "--file-state",
            "zeroed",
            "--all",
        ],
    );
    assert!(out.status.success(), "{}", text(&out.stderr));
    let report: Value = serde_json::from_slice(&fs::read(json).unwrap()).unwrap();
    let csv = fs::read_to_string(csv).unwrap();
    assert_eq!(
        (
            report["rows"].as_array().unwrap().len(),
            csv.lines().count()
        ),
        (12, 13)
    );
    assert!(
        csv.starts_with("scenario,subject,method,file_state,"),
        "{csv}"
    );
    assert!(text(&out.stdout).contains("zeroed file:"));
    assert_empty(dir.path());
}

#[test]
fn two_directories_are_compared_row_by_row() {
    let (a, b) = (place(), place());
    let [of_a, of_b] = [&a, &b].map(|dir| dir.path().to_str().unwrap().to_owned());
    let methods = [cached(), "buffered"].join(",");
    let arguments = [
        "--dir",
        &of_a,
        "--dir",
        &of_b,
        "--json",
        "-",
        "--method",
        &methods,
        "--file-state",
        "zeroed",
    ];
    let out = tiny(a.path(), &arguments);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let report: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(report["schema"], "logforce-bench-places");
    assert_eq!(report["names"], serde_json::json!([of_a, of_b]));
    // Two methods on a zeroed file, and five rows of the log by each.
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 12);
    for (n, row) in rows.iter().enumerate() {
        let ms = |place: usize| &report["places"][place]["rows"][n]["ms_per_commit"];
        assert_eq!((&row["a_ms"], &row["b_ms"]), (ms(0), ms(1)), "{row}");
        let ratio = |field: &str| row[field].as_f64();
        if let (Some(low), Some(high)) = (ratio("time_ratio_low"), ratio("time_ratio_high")) {
            let ratio = ratio("time_ratio").unwrap();
            assert!(low <= ratio && ratio <= high, "{row}");
        }
    }
    let documented = include_str!("../../../../docs/bench-json.md");
    let names = report
        .as_object()
        .unwrap()
        .keys()
        .chain(rows[0].as_object().unwrap().keys());
    for name in names {
        assert!(
            documented.contains(&format!("`{name}`")),
            "{name} is not documented"
        );
    }
    let printed = text(&out.stderr);
    for part in [
        format!("A: {of_a}: ").as_str(),
        format!("B: {of_b}: ").as_str(),
        "rows in both, B is slower in",
    ] {
        assert!(printed.contains(part), "no '{part}' in {printed}");
    }
    assert_empty(a.path());
    assert_empty(b.path());
    assert_unusable(
        a.path(),
        &[
            (
                &["--dir", "a", "--dir", "b", "--dir", "c"],
                "give --dir at most twice",
            ),
            (
                &["--sweep", "--dir", ".", "--dir", "."],
                "--sweep measures one directory",
            ),
            (
                &["--dir", ".", "--dir", ".", "--report", "x.html"],
                "--report draws the result of one directory",
            ),
            (&[".", "--dir", "."], "cannot be used with"),
        ],
    );
}

#[test]
fn full_does_every_commit() {
    let dir = place();
    let methods = [direct(), cached()].join(",");
    let arguments = [
        "--full", "--size", "256KiB", "--chunk", "8k", "--csv", "-", "--method", &methods,
    ];
    let out = command(dir.path(), &arguments).to_end().unwrap();
    assert!(out.status.success(), "{}", text(&out.stderr));
    let csv = text(&out.stdout);
    let commits = csv
        .lines()
        .skip(1)
        .filter(|l| l.contains(",1,8192,32,"))
        .count();
    let failed = csv.lines().filter(|l| l.contains(",1,8192,,")).count();
    // For each of two methods: four file states and the log.
    assert_eq!(commits + failed, 10, "{csv}");
    assert!(commits >= 4, "{csv}");
}

#[test]
fn unusable_arguments_are_refused() {
    let dir = place();
    fs::write(dir.path().join("file"), "").unwrap();
    let known: Vec<&str> = Method::here().iter().map(|m| m.name()).collect();
    let known = format!("known here: {}", known.join(" "));
    assert_unusable(
        dir.path(),
        &[
            (&["--method", "o_sync"], known.as_str()),
            (
                &["--file-state", "sparse"],
                "fallocated zeroed recycled growing",
            ),
            (&["--size", "0"], "zero"),
            (&["--size", "99999999999999999999"], "too large"),
            (&["--size", "1 furlong"], "'furlong' is not a unit"),
            (&["--chunk", "2MiB", "--size", "1MiB"], "does not fit"),
            (&["--chunk", "2GiB", "--size", "4GiB"], "too large"),
            (&["--seconds", "NaN"], "above 0"),
            (&["--seconds", "-1"], "above 0 and at most 1000000"),
            (&["--size", "-5"], "'-5' is not a size"),
            (
                &["--json", "-", "--csv", "-"],
                "both write to standard output",
            ),
            (&["--full", "--seconds", "3"], "cannot be used with"),
            (
                &["nosuch"],
                "nor one of the commands journal, group, pages, map, inserts",
            ),
        ],
    );
}

#[test]
fn what_cannot_be_done_is_told_and_exits_4() {
    let dir = place();
    let missing = "--dir nosuch does not exist: give a directory";
    for (arguments, why) in [
        (&["--dir", "nosuch"][..], missing),
        (&["group", "--dir", "nosuch"], missing),
        (&["inserts", "nosuch"], missing),
        (&["map", "nosuch"], missing),
        (&["pages", "nosuch"], missing),
        (&["--sweep", "--dir", "nosuch"], missing),
        (
            &["--dir", env!("CARGO_BIN_EXE_logforce")],
            "is not a directory",
        ),
        (&["--full", "--size", "900TiB"], "not enough free space"),
        (
            &["--json", "no/such/file", "--size", "64KiB"],
            "cannot write no/such/file",
        ),
    ] {
        let out = command(dir.path(), arguments).to_end().unwrap();
        let printed = text(&out.stderr);
        assert_eq!(out.status.code(), Some(4), "{arguments:?}: {printed}");
        assert!(
            printed.contains(why) && !printed.contains("panicked"),
            "{arguments:?}: {printed}"
        );
    }
    assert_empty(dir.path());
}

/// The error names the file that cannot be written.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_below_the_report_is_told() {
    let dir = place();
    let arguments = ["--json", "/dev/full", "--size", "64KiB", "--seconds", "0.1"];
    let out = command(dir.path(), &arguments).to_end().unwrap();
    let printed = text(&out.stderr);
    assert_eq!(out.status.code(), Some(4), "{printed}");
    assert!(printed.contains("cannot write /dev/full"), "{printed}");
    assert!(!printed.contains("panicked"), "{printed}");
    assert_empty(dir.path());
}

/// The error comes before anything is measured.
#[cfg(windows)]
#[test]
fn a_report_that_somebody_has_open_is_told() {
    use std::os::windows::fs::OpenOptionsExt;
    let (dir, results) = (place(), place());
    let report = results.path().join("r.json");
    let mut how = fs::File::options();
    let theirs = how.write(true).create(true).share_mode(0).open(&report);
    let arguments = ["--json", report.to_str().unwrap(), "--seconds", "600"];
    let out = command(dir.path(), &arguments).to_end().unwrap();
    drop(theirs.unwrap());
    let printed = text(&out.stderr);
    assert_eq!(out.status.code(), Some(4), "{printed}");
    let words = format!("cannot write {}: ", report.display());
    assert!(
        printed.contains(&words) && printed.contains("os error 32"),
        "{printed}"
    );
    assert_empty(dir.path());
}

#[cfg(unix)]
#[test]
fn an_unwritable_directory_is_told() {
    let dir = open_place();
    // Mode 0555 denies writing to the owner, and grants other users the same access as the owner.
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o555);
    fs::set_permissions(dir.path(), mode).unwrap();
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_logforce"));
    let Some(mut bench) = logforce_testkit::another_user::unprivileged(program) else {
        return;
    };
    let out = bench_in(&mut bench, dir.path(), &TINY).to_end().unwrap();
    let printed = text(&out.stderr);
    assert_eq!(out.status.code(), Some(4), "{printed}");
    assert!(printed.contains("cannot create files in"), "{printed}");
}

#[test]
fn a_chunk_that_direct_io_cannot_take_is_na_with_its_reason() {
    let dir = place();
    let methods = [cached(), direct()].join(",");
    let out = tiny(
        dir.path(),
        &["--chunk", "1000", "--all", "--method", &methods],
    );
    assert!(out.status.success(), "{}", text(&out.stderr));
    let printed = text(&out.stdout);
    assert!(
        printed.contains(&format!("n/a: {} on fallocated", direct())),
        "{printed}"
    );
}

/// Only Unix has this limit.
#[cfg(unix)]
#[test]
fn if_every_row_fails_the_command_fails() {
    let dir = place();
    // No file may become larger than a block.
    let out = std::process::Command::new("sh")
        .arg("-c")
        .arg("ulimit -f 1; trap '' XFSZ; exec \"$0\" bench --full --size 64KiB --method $1")
        .arg(env!("CARGO_BIN_EXE_logforce"))
        .arg(cached())
        .current_dir(dir.path())
        .to_end()
        .unwrap();
    let printed = text(&out.stdout) + &text(&out.stderr);
    assert_eq!(out.status.code(), Some(4), "{printed}");
    assert!(printed.contains("nothing could be measured"), "{printed}");
    assert!(
        printed.contains(&format!("n/a: log ×1 16 KiB, {}, log ×1 128 B", cached())),
        "{printed}"
    );
    assert_empty(dir.path());
}

#[cfg(target_os = "linux")]
#[test]
fn memory_is_measured_and_nothing_there_is_safe() {
    let Ok(dir) = tempfile::tempdir_in("/dev/shm") else {
        return;
    };
    let out = tiny(dir.path(), &["--json", "-"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let report: Value = serde_json::from_slice(&out.stdout).unwrap();
    if report["machine"]["filesystem"] != "tmpfs" {
        return;
    }
    assert!(report["recommended"].is_null());
    assert!(
        report["conclusion"]
            .as_str()
            .unwrap()
            .starts_with("No row is safe here"),
        "{report}"
    );
    let rows = report["rows"].as_array().unwrap();
    assert!(rows.iter().all(|r| r["guarantee"] != "power-loss"));
    assert!(rows.iter().any(|r| r["commits"].is_u64()));
    assert_empty(dir.path());
}
