//! `logforce doctor`, and the method of the next opening in `logforce stat`.

#[cfg(unix)]
use crate::common::open_place;
use crate::common::{place, text};
use crate::logs::all_output;
use crate::runs::assert_empty;
use logforce::disk::cuts::{self, CutRun, Place};
use logforce::{Guarantee, Method, disk::FileState};
use logforce_device::ForceBy;
use logforce_testkit::process::Start;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Returns the command with `home` as the home directory, so that it finds no other cache.
fn command(home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_logforce"));
    command
        .args(arguments)
        .env_remove("XDG_CACHE_HOME")
        .env(
            if cfg!(windows) {
                "LOCALAPPDATA"
            } else {
                "HOME"
            },
            home,
        )
        .stdin(Stdio::null());
    command
}

/// Examines without tests and questions, so that nothing is written.
fn facts(home: &Path, arguments: &[&str]) -> Output {
    let all = [&["doctor", "--passive"], arguments].concat();
    command(home, &all).to_end().unwrap()
}

fn path(dir: &Path) -> &str {
    dir.to_str().unwrap()
}

/// Checks that the command came to an answer, good or bad.
fn assert_answered(out: &Output) {
    let is_answer = matches!(out.status.code(), Some(0 | 1 | 3));
    assert!(is_answer, "{:?}: {}", out.status, all_output(out));
}

fn json(out: &Output) -> Value {
    assert_answered(out);
    let status =
        match serde_json::from_slice::<Value>(&out.stdout).unwrap()["conclusion"]["severity"]
            .as_str()
        {
            Some("unsafe") => 1,
            Some("unknown") => 3,
            // Another command's document has no severity.
            _ => 0,
        };
    assert_eq!(out.status.code(), Some(status), "{}", all_output(out));
    serde_json::from_slice(&out.stdout).unwrap()
}

/// Returns the printed text without line breaks.
fn words(out: &Output) -> String {
    assert_answered(out);
    one_line(&text(&out.stdout))
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn text_and_json_agree_and_nothing_is_left() {
    let (dir, home) = (place(), place());
    let report = json(&facts(home.path(), &[path(dir.path()), "--json", "-"]));
    let printed = words(&facts(home.path(), &[path(dir.path())]));
    assert_eq!(report["schema"], "logforce-doctor");
    assert_eq!(report["version"], 1);
    assert_eq!(report["path"], path(dir.path()));
    let known = logforce::disk::facts(dir.path()).unwrap();
    let methods = report["methods"].as_array().unwrap();
    assert_eq!(methods.len(), Method::here().len());
    for (line, &method) in methods.iter().zip(Method::here()) {
        assert_eq!(line["method"], method.name());
        let is_default = method == known.default_method();
        assert_eq!(line["is_default"], is_default);
        let Some(assessed) = known.assess(method, FileState::Zeroed) else {
            assert!(
                printed.contains(line["why_not"].as_str().unwrap()),
                "{printed}"
            );
            continue;
        };
        assert_eq!(line["guarantee"], assessed.granted().name());
        assert_eq!(line["verdict"], assessed.verdict.name());
        assert_eq!(line["evidence"], assessed.evidence);
        let mark = if is_default { " (default)" } else { "" };
        let row = format!(
            "{method}{mark} {}, {}",
            assessed.granted(),
            assessed.verdict
        );
        assert!(printed.contains(&row), "{row}: {printed}");
        assert!(printed.contains(&assessed.evidence), "{printed}");
    }
    let machine = &report["machine"];
    for shown in [
        &machine["filesystem"],
        &machine["mount_options"],
        &report["volume"],
        &report["conclusion"]["sentence"],
        &report["next"]["why"],
    ] {
        let shown = one_line(shown.as_str().unwrap());
        assert!(printed.contains(&shown), "{shown}: {printed}");
    }
    assert_eq!(report["next"]["decided"], false);
    assert_eq!(report["next"]["stored_in"], Value::Array(vec![]));
    assert_empty(dir.path());
    assert_empty(home.path());
}

#[test]
fn the_directory_is_the_current_one_if_none_is_named() {
    let (dir, home) = (place(), place());
    let here = command(home.path(), &["facts", "--passive", "--json", "facts.json"])
        .current_dir(dir.path())
        .to_end()
        .unwrap();
    assert_answered(&here);
    let kept = fs::read(dir.path().join("facts.json")).unwrap();
    let kept: Value = serde_json::from_slice(&kept).unwrap();
    assert_eq!(kept["path"], ".");
    assert!(text(&here.stdout).contains("ommit here"));
}

#[test]
#[cfg(target_os = "linux")]
fn in_memory_nothing_is_durable() {
    let home = place();
    let Ok(dir) = tempfile::tempdir_in("/dev/shm") else {
        logforce_testkit::skip!("there is no /dev/shm");
        return;
    };
    let report = json(&facts(home.path(), &[path(dir.path()), "--json", "-"]));
    if report["kind"] != "volatile" {
        logforce_testkit::skip!("/dev/shm is {}", report["machine"]["filesystem"]);
        return;
    }
    assert_eq!(report["conclusion"]["severity"], "unsafe");
    for line in report["methods"].as_array().unwrap() {
        let offered = line["why_not"].is_null();
        assert!(!offered || line["guarantee"] == "process-crash", "{line}");
    }
    assert_eq!(report["next"]["is_enough"], false);
    let printed = words(&facts(home.path(), &[path(dir.path())]));
    for part in [
        "keeps files in memory",
        "Use a directory whose blocks are on a disk",
        "nothing is measured here: the files are in memory",
        "is refused here",
    ] {
        assert!(printed.contains(part), "{part}: {printed}");
    }
    // An opening behaves the same.
    let opened = logforce::create_new(dir.path().join("log"), logforce::Options::new());
    assert!(opened.is_err());
    fs::remove_dir_all(dir.path().join("log")).ok();
    assert_empty(dir.path());
}

#[test]
fn what_cannot_be_looked_at_is_told() {
    let home = place();
    let out = facts(home.path(), &[path(&home.path().join("nosuch"))]);
    assert_eq!(out.status.code(), Some(4), "{}", all_output(&out));
    assert!(
        all_output(&out).contains("nosuch does not exist"),
        "{}",
        all_output(&out)
    );
    let file = home.path().join("file");
    fs::write(&file, "x").unwrap();
    assert_eq!(
        json(&facts(home.path(), &[path(&file), "--json", "-"]))["target"],
        "file"
    );
    let out = facts(home.path(), &[path(&file.join("below"))]);
    // Windows reports that the path does not exist.
    let why = if cfg!(windows) {
        "does not exist"
    } else {
        "cannot look at"
    };
    assert_eq!(out.status.code(), Some(4), "{}", all_output(&out));
    assert!(all_output(&out).contains(why), "{}", all_output(&out));
}

/// An unreadable directory is an error. The superuser may read everything,
/// so the command then runs as another user.
#[cfg(unix)]
#[test]
fn what_may_not_be_looked_at_is_told() {
    use logforce_testkit::another_user::unprivileged;
    use std::os::unix::fs::PermissionsExt;
    let home = open_place();
    let closed = home.path().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    let run = |dir: &Path| {
        let mut command = unprivileged(Path::new(env!("CARGO_BIN_EXE_logforce")))?;
        command
            .args(["doctor", "--passive"])
            .arg(dir)
            .stdin(Stdio::null());
        Some(command.to_end().unwrap())
    };
    for (dir, why) in [
        (closed.clone(), "cannot open the directory"),
        (closed.join("below"), "cannot look at"),
    ] {
        let Some(out) = run(&dir) else { return };
        assert_eq!(out.status.code(), Some(4), "{}", all_output(&out));
        let printed = all_output(&out);
        assert!(
            printed.contains(why) && printed.contains("ermission denied"),
            "{printed}"
        );
        // The cause is named once, and no permission is requested that is not needed.
        assert_eq!(printed.matches("ermission denied").count(), 1, "{printed}");
        assert!(!printed.contains("writable"), "{printed}");
    }
    // The owner also must list the directory to remove it.
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    let Some(out) = run(home.path()) else { return };
    assert_answered(&out);
}

/// The command must not take a device for its own probe file and remove it.
#[cfg(windows)]
#[test]
fn a_device_is_no_new_file() {
    let (dir, home) = (place(), place());
    let out = facts(home.path(), &[path(dir.path()), "--json", "NUL"]);
    assert_answered(&out);
    assert!(all_output(&out).contains("ommit here"));
}

fn lost(place: &Place, method: Method) -> CutRun {
    let mut run = CutRun::new(place.clone(), method, 0xabc);
    (run.cuts, run.acknowledged) = (2, 500);
    (run.lost, run.control_lost) = (3, 1);
    run
}

/// Returns the filesystem and its default method if that survives a loss of power and verdicts can be
/// stored. Otherwise prints the reason and returns `None`.
fn place_of(dir: &Path) -> Option<(Place, Method)> {
    let facts = logforce::disk::facts(dir).unwrap();
    let method = facts.default_method();
    let assessed = facts.assess(method, FileState::Zeroed).unwrap();
    match Place::of(&facts) {
        Some(place) if assessed.guarantee == Guarantee::PowerLoss => Some((place, method)),
        _ => {
            logforce_testkit::skip!("{assessed:?}, volume {:?}", facts.volume);
            None
        }
    }
}

#[test]
fn what_a_cut_of_power_has_shown_is_told() {
    let (dir, home) = (place(), place());
    let Some((place, method)) = place_of(dir.path()) else {
        return;
    };
    let cache = home.path().join("cache");
    let arguments = [path(dir.path()), "--cache", path(&cache), "--json", "-"];
    let before = json(&facts(home.path(), &arguments));
    assert_eq!(before["power_cuts"], Value::Array(vec![]));
    cuts::record(&cache, &lost(&place, method)).unwrap();
    let after = json(&facts(home.path(), &arguments));
    let cuts = &after["power_cuts"][0];
    assert_eq!(
        (&cuts["method"], &cuts["kept"]),
        (&method.name().into(), &false.into())
    );
    let line = |report: &Value| {
        let lines = report["methods"].as_array().unwrap().iter();
        lines
            .clone()
            .find(|l| l["method"] == method.name())
            .cloned()
            .unwrap()
    };
    assert_eq!(line(&before)["guarantee"], "power-loss");
    assert_eq!(line(&after)["guarantee"], "os-crash");
    assert_eq!(line(&after)["verdict"], "contradicted");
    let printed = words(&facts(home.path(), &arguments[..3]));
    let part = format!("{method} contradicted: a power cut lost 3 of 500");
    assert!(printed.contains(&part), "{printed}");
    assert_empty(dir.path());
}

/// An unreadable record may hold a loss: `doctor`, `calibrate` and `stat` report it.
#[test]
fn a_record_of_cuts_that_cannot_be_read_is_told() {
    let (dir, home) = (place(), place());
    let (log, cache) = (dir.path().join("log"), home.path().join("cache"));
    crate::logs::filled(&log, 1).0.close().unwrap();
    fs::create_dir(&cache).unwrap();
    let make: [fn(&Path); 2] = [
        |at| fs::write(at, "{\"schema\":\"logforce-verdicts\",").unwrap(),
        |at| fs::create_dir(at).unwrap(),
    ];
    for make in make {
        let (beside, shared) = (log.join(cuts::NAME), cache.join(cuts::NAME));
        make(&beside);
        make(&shared);
        let words_of = |arguments: &[&str]| {
            let out = command(home.path(), arguments).to_end().unwrap();
            words(&out)
        };
        let (log, cache) = (path(&log), path(&cache));
        let of_facts = ["doctor", "--passive", log, "--cache", cache];
        let of_calibrate = ["calibrate", "--dir", log, "--cache", cache];
        for arguments in [&of_facts[..], &of_calibrate] {
            let printed = words_of(arguments);
            assert!(printed.contains("move it away"), "{printed}");
            for part in ["NOT READ", path(&beside), path(&shared)] {
                assert!(printed.contains(part), "{part}: {printed}");
            }
            assert!(!printed.contains("none are recorded"), "{printed}");
            let out = command(home.path(), &[arguments, &["--json", "-"]].concat());
            let report = json(&{ out }.to_end().unwrap());
            let unread = report["power_cuts_unread"].as_array().unwrap();
            assert_eq!(unread.len(), 2, "{report}");
        }
        // Only the record beside the log counts.
        let printed = words_of(&["stat", log]);
        if place_of(dir.path()).is_some() {
            assert!(printed.contains(path(&beside)), "{printed}");
            assert!(printed.contains("is refused here"), "{printed}");
        }
        for file in [beside, shared] {
            fs::remove_file(&file)
                .or_else(|_| fs::remove_dir(&file))
                .unwrap();
        }
        let printed = words_of(&of_facts);
        assert!(printed.contains("none are recorded"), "{printed}");
    }
}

#[test]
fn what_was_measured_is_shown_and_not_measured_again() {
    let (dir, home) = (place(), place());
    let dir = path(dir.path());
    let calibrated = command(home.path(), &["calibrate", "--dir", dir, "--json", "-"])
        .to_end()
        .unwrap();
    let calibrated = json(&calibrated);
    if calibrated["origin"] != "measured" {
        logforce_testkit::skip!("{}", calibrated["why"]);
        return;
    }
    let parts: &[&str] = if cfg!(windows) {
        &["logforce", "cache", "calibration"]
    } else {
        &[".cache", "logforce", "calibration"]
    };
    let mut store = home.path().to_owned();
    store.extend(parts);
    let before = fs::read(&store).unwrap();
    let report = json(&facts(home.path(), &[dir, "--json", "-"]));
    assert_eq!(report["next"]["method"], calibrated["method"]);
    assert_eq!(report["next"]["decided"], calibrated["decided"]);
    assert_eq!(report["next"]["why"], calibrated["why"]);
    assert_eq!(report["next"]["stored_in"][0], path(&store));
    assert_eq!(fs::read(&store).unwrap(), before);
    let printed = words(&facts(home.path(), &[dir]));
    assert!(printed.contains(path(&store)), "{printed}");
    // A missing cache is not created.
    let other = home.path().join("other");
    let report = json(&facts(
        home.path(),
        &[dir, "--cache", path(&other), "--json", "-"],
    ));
    assert_eq!(report["next"]["stored_in"], Value::Array(vec![]));
    assert!(!other.exists());
}

#[test]
fn stat_tells_the_method_of_the_next_opening() {
    let (dir, home) = (place(), place());
    let log = dir.path().join("log");
    crate::logs::filled(&log, 1).0.close().unwrap();
    let stat = |arguments: &[&str]| {
        let all = [&["stat", path(&log)], arguments].concat();
        command(home.path(), &all).to_end().unwrap()
    };
    let next = json(&stat(&["--json", "-"]))["next_method"].clone();
    let printed = words(&stat(&[]));
    let known = logforce::disk::calibration::known(&log, None).unwrap();
    let method = known.decision.method;
    let assessed = known.facts.assess(method, FileState::Zeroed).unwrap();
    assert_eq!(next["method"], method.name());
    assert_eq!(next["guarantee"], assessed.guarantee.name());
    assert_eq!(next["verdict"], assessed.verdict.name());
    for part in [method.name(), &assessed.evidence, &known.decision.why] {
        assert!(printed.contains(&one_line(part)), "{part}: {printed}");
    }
    // A power cut that lost something counts if it is recorded beside the log.
    let Some((place, default)) = place_of(&log) else {
        return;
    };
    let forced = |m: &&Method| m.plan().force != ForceBy::None;
    for &method in Method::here().iter().filter(forced) {
        cuts::record(&log, &lost(&place, method)).unwrap();
    }
    let next = json(&stat(&["--json", "-"]))["next_method"].clone();
    assert_eq!(next["method"], default.name(), "none is left");
    assert_eq!(next["verdict"], "contradicted");
    assert_eq!(next["is_enough"], false);
    let printed = words(&stat(&[]));
    assert!(printed.contains("a power cut lost 3 of 500"), "{printed}");
}

/// Collects the names of all fields, at any depth.
fn names(value: &Value, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                into.insert(name.clone());
                names(value, into);
            }
        }
        Value::Array(values) => values.iter().for_each(|v| names(v, into)),
        _ => {}
    }
}

#[test]
fn the_document_names_every_field() {
    let (dir, home) = (place(), place());
    let log = dir.path().join("log");
    crate::logs::filled(&log, 1).0.close().unwrap();
    let mut report = json(&facts(home.path(), &[path(&log), "--json", "-"]));
    let stat = command(home.path(), &["stat", path(&log), "--json", "-"]);
    let mut stat = json(&{ stat }.to_end().unwrap());
    // These fields may be missing here.
    let mut found: BTreeSet<String> = ["kept", "memory", "offset"].map(str::to_owned).into();
    report["machine"] = Value::Null; // the other document's
    names(&report, &mut found);
    names(&stat["next_method"].take(), &mut found);
    // Fields of all commands.
    found.retain(|name| !["schema", "version"].contains(&name.as_str()));
    let document = include_str!("../../../../docs/cli-json.md");
    let of = |heading: &str| {
        let start = document.find(&format!("## `logforce {heading}`")).unwrap();
        let rest = &document[start + 1..];
        &rest[..rest.find("\n## ").unwrap_or(rest.len())]
    };
    let section = of("doctor");
    for name in &found {
        assert!(
            section.contains(&format!("`{name}`")),
            "{name} is not documented"
        );
    }
    assert!(of("stat").contains("`next_method`"));
    assert!(document.contains("`logforce-doctor`"));
}
