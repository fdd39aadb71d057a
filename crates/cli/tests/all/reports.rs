//! `bench --report`, `--svg`, `report` and `compare`.

use crate::common::{place, text};
use crate::methods::cached;
use crate::runs::assert_empty;
use crate::tiny::tiny;
use logforce_testkit::process::Start;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn run(dir: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_logforce"));
    command.args(arguments).current_dir(dir).to_end().unwrap()
}

/// Writes the result of a tiny run to `a.json` in `dir`.
fn measured(dir: &Path) -> Value {
    let bench = place();
    let json = dir.join("a.json");
    let out = tiny(
        bench.path(),
        &["--method", cached(), "--json", json.to_str().unwrap()],
    );
    assert!(out.status.success(), "{}", text(&out.stderr));
    serde_json::from_slice(&fs::read(json).unwrap()).unwrap()
}

#[test]
fn a_run_is_drawn_as_it_is_measured_and_afterwards() {
    let (bench, results) = (place(), place());
    let at = |name: &str| results.path().join(name).to_str().unwrap().to_owned();
    let (json, page, charts) = (at("a.json"), at("a.html"), at("charts/of a"));
    let out = tiny(
        bench.path(),
        &["--json", &json, "--report", &page, "--svg", &charts],
    );
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert_empty(bench.path());
    let page = fs::read_to_string(page).unwrap();
    let report: Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    let first = report["conclusion"]
        .as_str()
        .unwrap()
        .split(". ")
        .next()
        .unwrap();
    assert!(
        page.starts_with("<!DOCTYPE html>") && page.contains(first),
        "{page}"
    );
    for row in report["rows"].as_array().unwrap() {
        assert!(page.contains(row["method"].as_str().unwrap()));
    }
    let names = || {
        let entries = fs::read_dir(&charts).unwrap();
        let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let drawn = names();
    assert!(
        drawn.len() >= 4
            && drawn
                .iter()
                .all(|n| n.to_str().unwrap().starts_with("journal-"))
    );
    fs::remove_dir_all(&charts).unwrap();
    let again = run(
        results.path(),
        &["report", &json, "--html", "-", "--svg", &charts],
    );
    assert!(again.status.success(), "{}", text(&again.stderr));
    assert_eq!(text(&again.stdout), page, "the same from the file");
    assert_eq!(names(), drawn);
}

#[test]
fn a_report_can_go_to_standard_output_alone() {
    let dir = place();
    let out = tiny(dir.path(), &["--method", cached(), "--report", "-"]);
    assert!(text(&out.stdout).starts_with("<!DOCTYPE html>"));
    assert!(
        text(&out.stderr).contains(cached()),
        "the table goes past it"
    );
    for two in [
        ["--json", "-", "--report", "-"],
        ["--csv", "-", "--json", "-"],
    ] {
        let out = tiny(dir.path(), &two);
        assert_eq!(out.status.code(), Some(2), "{}", text(&out.stderr));
    }
    let out = tiny(dir.path(), &["--svg", env!("CARGO_BIN_EXE_logforce")]);
    assert_eq!(out.status.code(), Some(2), "{}", text(&out.stderr));
    assert!(text(&out.stderr).contains("is not a directory"));
    assert_empty(dir.path());
}

/// The error comes before measuring. Otherwise the run of ten minutes would not end in this test.
#[test]
fn what_cannot_be_written_is_refused_at_once() {
    let (bench, results) = (place(), place());
    fs::write(results.path().join("file"), "kept").unwrap();
    fs::write(
        results.path().join("a.json"),
        r#"{"schema": "logforce-bench", "rows": [{}]}"#,
    )
    .unwrap();
    let started = std::time::Instant::now();
    let long = ["--dir", bench.path().to_str().unwrap(), "--seconds", "600"];
    let measuring: [&[&str]; 3] = [&["bench"], &["bench", "--sweep"], &["bench", "inserts"]];
    let mut tried: Vec<(Vec<&str>, &str, &str, i32)> = Vec::new();
    for scenario in measuring {
        let all = [scenario, &long].concat();
        for flag in ["--json", "--csv", "--report"] {
            tried.push((all.clone(), flag, "no/such/x", 4));
            tried.push((all.clone(), flag, ".", 4));
        }
        tried.push((all.clone(), "--svg", "file", 2));
        tried.push((all, "--svg", "file/charts", 4));
    }
    for (flag, place, status) in [
        ("--html", "no/such/x", 4),
        ("--svg", "file", 2),
        ("--svg", "file/charts", 4),
    ] {
        tried.push((vec!["report", "a.json"], flag, place, status));
    }
    for flag in ["--json", "--report"] {
        tried.push((vec!["compare", "a.json", "a.json"], flag, "no/such/x", 4));
    }
    for (arguments, flag, place, status) in tried {
        let out = run(results.path(), &[&arguments[..], &[flag, place]].concat());
        let said = text(&out.stderr);
        assert_eq!(
            out.status.code(),
            Some(status),
            "{arguments:?} {flag} {place}: {said}"
        );
        assert!(
            said.contains(place) && text(&out.stdout).is_empty(),
            "{said}"
        );
        if cfg!(target_os = "linux") {
            let advice = match place {
                "no/such/x" => "create the directory no/such first",
                "." => "name a file in it",
                "file" => "is not a directory",
                _ => "a part of that path is a file",
            };
            assert!(
                said.contains(advice),
                "{arguments:?} {flag} {place}: {said}"
            );
        }
    }
    assert!(started.elapsed().as_secs() < 500);
    assert_empty(bench.path());
    assert_eq!(
        fs::read_dir(results.path()).unwrap().count(),
        2,
        "nothing was made"
    );
    assert_eq!(
        fs::read_to_string(results.path().join("file")).unwrap(),
        "kept"
    );
}

/// The last result would overwrite the others.
#[test]
fn two_results_in_one_file_are_refused() {
    let dir = place();
    let out = tiny(dir.path(), &["--json", "x", "--csv", "x"]);
    assert_eq!(out.status.code(), Some(2), "{}", text(&out.stderr));
    assert!(text(&out.stderr).contains("--json and --csv both write to x"));
    let out = tiny(dir.path(), &["--report", "x", "--svg", "x"]);
    assert_eq!(out.status.code(), Some(2), "{}", text(&out.stderr));
    if cfg!(unix) {
        let null = ["--json", "/dev/null", "--csv", "/dev/null"];
        let out = tiny(dir.path(), &[&["--method", cached()][..], &null].concat());
        assert!(out.status.success(), "{}", text(&out.stderr));
    }
}

/// A closed reader of the table or one failed file does not lose the other results.
#[cfg(target_os = "linux")]
#[test]
fn one_result_that_cannot_be_written_takes_no_other_with_it() {
    let (bench, results) = (place(), place());
    let csv = results.path().join("a.csv");
    let out = tiny(
        bench.path(),
        &[
            "--method",
            cached(),
            "--json",
            "/dev/full",
            "--csv",
            csv.to_str().unwrap(),
        ],
    );
    assert_eq!(out.status.code(), Some(4), "{}", text(&out.stderr));
    assert!(text(&out.stderr).contains("cannot write /dev/full"));
    assert!(fs::read_to_string(csv).unwrap().starts_with("scenario,"));
}

#[test]
fn two_runs_are_compared_and_a_loss_stops_a_pipeline() {
    let dir = place();
    let a = measured(dir.path());
    let mut b = a.clone();
    let write =
        |name: &str, value: &Value| fs::write(dir.path().join(name), value.to_string()).unwrap();
    let compare = |more: &[&str]| {
        run(
            dir.path(),
            &[&["compare", "a.json", "b.json"], more].concat(),
        )
    };
    write("b.json", &b);
    let same = compare(&["--fail-above", "0%", "--json", "-", "--report", "c.html"]);
    assert_eq!(same.status.code(), Some(0), "{}", text(&same.stderr));
    let told = text(&same.stderr);
    assert!(told.contains("the noise is larger than 0 %"), "{told}");
    let json: Value = serde_json::from_slice(&same.stdout).unwrap();
    let rows = a["rows"].as_array().unwrap().len();
    assert_eq!(
        (&json["schema"], json["rows"].as_array().unwrap().len()),
        (&"logforce-compare".into(), rows)
    );
    assert!(json["rows"].as_array().unwrap().iter().all(|r| {
        ["same", "noisy", "unmeasured"]
            .iter()
            .any(|v| r["verdict"] == *v)
    }));
    let page = fs::read_to_string(dir.path().join("c.html")).unwrap();
    assert!(page.contains("0 slower, 0 faster"), "{page}");

    let of = b["rows"]
        .as_array()
        .unwrap()
        .iter()
        .position(|r| r["error"].is_null())
        .unwrap();
    for field in ["ms_per_commit", "ms_per_commit_p10", "ms_per_commit_p90"] {
        let row = &mut b["rows"][of];
        row[field] = (row[field].as_f64().unwrap() * 1000.0).into();
    }
    write("b.json", &b);
    assert_eq!(
        compare(&[]).status.code(),
        Some(0),
        "nothing was asked to fail"
    );
    let slower = compare(&["--fail-above", "10%"]);
    assert_eq!(slower.status.code(), Some(1), "{}", text(&slower.stderr));
    assert!(text(&slower.stdout).contains("SLOWER"));
    assert!(text(&slower.stderr).contains("slower than accepted"));
    let quiet = compare(&["--fail-above", "10%", "--quiet"]);
    assert_eq!(
        (quiet.status.code(), text(&quiet.stdout).as_str()),
        (Some(1), "")
    );
    assert!(
        text(&quiet.stderr).contains("slower than accepted"),
        "it says why a pipeline stops"
    );
}

/// A pipeline can rely on this: every missing row is reported.
#[test]
fn what_is_gone_stops_a_pipeline() {
    let dir = place();
    let a = measured(dir.path());
    let compare = |b: &Value, more: &[&str]| {
        fs::write(dir.path().join("b.json"), b.to_string()).unwrap();
        run(
            dir.path(),
            &[&["compare", "a.json", "b.json"], more].concat(),
        )
    };
    let of = |row: &Value| row["error"].is_null();
    let measured = a["rows"].as_array().unwrap().iter().position(of).unwrap();
    let mut gone = a.clone();
    gone["rows"].as_array_mut().unwrap().remove(measured);
    gone["interrupted"] = true.into();
    let mut zero = a.clone();
    zero["rows"][measured]["ms_per_commit"] = 0.into();
    for (b, why) in [
        (&gone, "not comparable: 1 row of A is not in B"),
        (
            &zero,
            "not comparable: 1 row that A measured has no figure in B",
        ),
    ] {
        let told = compare(b, &[]);
        assert_eq!(told.status.code(), Some(0), "nothing was asked to fail");
        let stopped = compare(b, &["--fail-above", "1000%", "--quiet"]);
        let said = text(&stopped.stderr);
        assert_eq!(stopped.status.code(), Some(1), "{said}");
        assert!(said.contains(why), "{said}");
    }
    let mut word = a.clone();
    word["rows"][measured]["p50_us"] = "abc".into();
    let refused = compare(&word, &["--fail-above", "10%"]);
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(4), "{said}");
    let row = format!("row {}", measured + 1);
    for part in ["b.json", &row, "'p50_us' is \"abc\", but must be a number"] {
        assert!(said.contains(part), "no {part} in {said}");
    }
}

#[test]
fn what_cannot_be_compared_or_drawn_is_told() {
    let dir = place();
    measured(dir.path());
    for (name, contents) in [
        ("no.json", "no json"),
        ("log.json", r#"{"schema": "logforce-verify", "rows": []}"#),
        (
            "newer.json",
            r#"{"schema": "logforce-bench", "version": 99, "rows": []}"#,
        ),
        (
            "empty.json",
            r#"{"schema": "logforce-bench", "version": 1, "rows": []}"#,
        ),
        (
            "group.json",
            r#"{"schema": "logforce-group", "version": 1, "rows": [{"threads": 1}]}"#,
        ),
    ] {
        fs::write(dir.path().join(name), contents).unwrap();
    }
    for (b, why) in [
        ("no.json", "not JSON"),
        ("log.json", "logforce-verify"),
        ("newer.json", "use a newer logforce"),
        ("empty.json", "no row in common"),
        ("group.json", "only runs of the same scenario"),
        ("missing.json", "cannot read missing.json"),
    ] {
        let out = run(dir.path(), &["compare", "a.json", b, "--fail-above", "5"]);
        assert_eq!(out.status.code(), Some(4), "{b}: {}", text(&out.stderr));
        assert!(
            text(&out.stderr).contains(why),
            "{b}: {}",
            text(&out.stderr)
        );
    }
    for arguments in [
        &["report", "a.json"][..],
        &["compare", "a.json"],
        &["compare", "a.json", "a.json", "--fail-above", "much"],
        &["compare", "a.json", "a.json", "--fail-above", "10%%"],
    ] {
        let out = run(dir.path(), arguments);
        assert_eq!(
            out.status.code(),
            Some(2),
            "{arguments:?}: {}",
            text(&out.stderr)
        );
    }
    let out = run(dir.path(), &["report", "no.json", "--html", "x.html"]);
    assert_eq!(out.status.code(), Some(4));
    let out = run(dir.path(), &["report", "empty.json", "--report", "x.html"]);
    assert_eq!(out.status.code(), Some(4));
    let said = text(&out.stderr);
    assert!(said.contains("empty.json has no rows"), "{said}");
    assert!(!dir.path().join("x.html").exists());
    let out = run(dir.path(), &["report", "a.json", "--report", "x.html"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert!(dir.path().join("x.html").exists());
}
