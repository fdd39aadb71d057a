//! `logforce calibrate`. Nothing here depends on which method is fastest.

use crate::common::{place, text};
use crate::logs::all_output;
use crate::runs::assert_empty;
use logforce_testkit::process::Start;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs the command in `dir` with `home` as the home directory, so that it finds no other cache.
fn calibrate(dir: &Path, home: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_logforce"))
        .arg("calibrate")
        .args(arguments)
        .current_dir(dir)
        .env_remove("XDG_CACHE_HOME")
        .env(
            if cfg!(windows) {
                "LOCALAPPDATA"
            } else {
                "HOME"
            },
            home,
        )
        .stdin(Stdio::null())
        .to_end()
        .unwrap()
}

fn report(out: &Output) -> Value {
    assert!(out.status.success(), "{}", all_output(out));
    serde_json::from_slice(&out.stdout).unwrap()
}

/// Returns true if it measured. It does not measure a nearly full disk, or one in memory.
fn was_measured(report: &Value) -> bool {
    if report["origin"] == "skipped" {
        logforce_testkit::skip!("{}", report["why"]);
        return false;
    }
    true
}

#[test]
fn measures_once_and_shows_it_again() {
    let (dir, home) = (place(), place());
    let run = |arguments: &[&str]| calibrate(dir.path(), home.path(), arguments);
    let mut first = report(&run(&["--json", "-"]));
    assert_eq!(first["schema"], "logforce-calibrate");
    if !was_measured(&first) {
        return;
    }
    // On a busy machine the time of an opening may end before there is anything to compare.
    for seconds in ["3", "30"] {
        if first["candidates"].as_array().unwrap().is_empty() {
            first = report(&run(&["--again", "--seconds", seconds, "--json", "-"]));
        }
    }
    assert_eq!(first["origin"], "measured");
    // On a busy machine the usual time may end before anything is measured.
    let first = match first["candidates"].as_array().unwrap().is_empty() {
        true => report(&run(&["--again", "--seconds", "5", "--json", "-"])),
        false => first,
    };
    let cache = if cfg!(windows) {
        home.path().join("logforce").join("cache")
    } else {
        home.path().join(".cache/logforce")
    };
    let kept = cache.join("calibration");
    assert_eq!(first["stored_in"][0], kept.to_str().unwrap());
    assert_empty(dir.path());
    let methods = first["candidates"].as_array().unwrap().len();
    let left_out = first["left_out"].as_array().unwrap().len();
    assert_eq!(methods + left_out, logforce::Method::here().len());
    assert_eq!(first["candidates"][0]["method"], first["default"]);
    let document = include_str!("../../../../docs/cli-json.md");
    for part in [&first, &first["candidates"][0], &first["evidence"]] {
        for name in part.as_object().unwrap().keys() {
            let documented = document.contains(&format!("`{name}`"));
            assert!(documented, "{name} is not documented");
        }
    }

    let limit = &first["write_through"];
    assert!(cache.join("calibration-pages").is_file(), "{first}");
    for part in [limit, &limit["candidates"][0]] {
        for name in part.as_object().unwrap().keys() {
            let documented = document.contains(&format!("`{name}`"));
            assert!(documented, "{name} is not documented");
        }
    }

    let second = report(&run(&["--json", "-"]));
    assert_eq!(second["write_through"], first["write_through"]);
    assert_eq!(second["origin"], "known");
    assert_eq!(second["method"], first["method"]);
    assert_eq!(second["evidence"], first["evidence"]);

    let again = run(&["--again", "--seconds", "2"]);
    let said = text(&again.stdout);
    let default = first["default"].as_str().unwrap();
    for words in [default, "to default", "left out", "valid for"] {
        assert!(said.contains(words), "{said}");
    }
    assert!(said.contains(kept.to_str().unwrap()), "{said}");
    let third = report(&run(&["--json", "-"]));
    assert_ne!(third["evidence"], first["evidence"]);
    assert_empty(dir.path());
}

#[test]
fn a_log_learns_of_it() {
    let (dir, home) = (place(), place());
    let path = dir.path().join("sales.log");
    let (log, _) = crate::logs::filled(&path, 3);
    let arguments = [
        "--dir",
        path.to_str().unwrap(),
        "--again",
        "--seconds",
        "0.2",
    ];
    // Also while the log is open.
    let out = calibrate(dir.path(), home.path(), &arguments);
    assert!(out.status.success(), "{}", all_output(&out));
    log.close().unwrap();
    let known = logforce::disk::calibration::known(&path, None).unwrap();
    let Some(calibration) = known.calibration else {
        logforce_testkit::skip!("{}", all_output(&out));
        return;
    };
    let log = logforce::open_existing(&path, crate::logs::options()).unwrap();
    assert_eq!(log.recovered().method, calibration.decision.method);
    let verified = crate::logs::logforce(&path, "verify", &[]);
    assert!(verified.status.success(), "{}", all_output(&verified));
    let files = std::fs::read_dir(&path).unwrap().flatten();
    let left: Vec<_> = files.map(|f| f.file_name()).collect();
    let is_left = |n: &std::ffi::OsString| n.to_string_lossy().starts_with("calibration-");
    assert!(!left.iter().any(is_left), "{left:?}");
}

#[test]
fn unusable_arguments_are_told() {
    let (dir, home) = (place(), place());
    let missing = calibrate(dir.path(), home.path(), &["--dir", "nosuch"]);
    assert_eq!(missing.status.code(), Some(4), "{}", all_output(&missing));
    assert!(all_output(&missing).contains("does not exist"));
    for (arguments, why) in [
        (&["--seconds", "1"][..], "--again"),
        (&["--again", "--seconds", "61"], "at most 60"),
        (&["--again", "--seconds", "0"], "above 0"),
    ] {
        let out = calibrate(dir.path(), home.path(), arguments);
        assert_eq!(out.status.code(), Some(2), "{}", all_output(&out));
        assert!(all_output(&out).contains(why), "{}", all_output(&out));
    }
    assert_empty(dir.path());
}

#[test]
fn a_cache_that_cannot_be_used_is_told() {
    let (dir, home) = (place(), place());
    let file = home.path().join("file");
    std::fs::write(&file, "x").unwrap();
    let cache = file.join("cache");
    let arguments = ["--cache", cache.to_str().unwrap(), "--json", "-"];
    let said = report(&calibrate(dir.path(), home.path(), &arguments));
    assert!(said["not_stored"].as_str().unwrap().contains("file"));
    assert_eq!(said["stored_in"].as_array().unwrap().len(), 0);
}
