//! `logforce repair`: the records that it removes, the copies that it keeps, and when it changes nothing.

use crate::common::{place, text};
use crate::logs::{SEGMENT, all_output, copy, filled, flip, json, logforce, options, segments};
use logforce::pages::CommitMode;
use logforce::{ErrorKind, Guarantee, Lsn};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

const RECORDS: u64 = 60;

/// Creates a closed log with a damaged header in the third segment. Returns the LSNs of its records.
fn damaged(path: &Path) -> Vec<Lsn> {
    let (log, starts) = filled(path, RECORDS);
    log.set_meta(b"vote").unwrap();
    log.close().unwrap();
    flip(&segments(path)[2], 20);
    starts
}

/// Reads all files in a directory except the lock file, which is empty.
fn contents(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(dir).unwrap().map(|e| e.unwrap());
    let file = |e: fs::DirEntry| (e.file_name().into_string().unwrap(), e.path());
    let files = entries.map(file);
    let files = files.filter(|(name, path)| path.is_file() && name != "lock");
    files
        .map(|(name, path)| (name, fs::read(path).unwrap()))
        .collect()
}

/// Returns the directories with copies in `parent`.
fn copies(parent: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(parent).unwrap().map(|e| e.unwrap().path());
    let mut found: Vec<PathBuf> = entries
        .filter(|p| p.display().to_string().contains(".cut-"))
        .collect();
    found.sort();
    found
}

#[track_caller]
fn ended(out: &Output, code: i32, parts: &[&str]) -> String {
    let said = all_output(out);
    assert_eq!(out.status.code(), Some(code), "{said}");
    for part in parts {
        assert!(said.contains(part), "no '{part}' in {said}");
    }
    said
}

/// Checks that a refused repair changes neither the log nor the files beside it.
#[track_caller]
fn refused(path: &Path, arguments: &[&str], code: i32, parts: &[&str]) -> String {
    let (files, beside) = (contents(path), copies(path.parent().unwrap()));
    let said = ended(&logforce(path, "repair", arguments), code, parts);
    assert!(files == contents(path), "{said}");
    assert_eq!(beside, copies(path.parent().unwrap()), "{said}");
    said
}

fn starts_in(path: &Path) -> Vec<Lsn> {
    let log = logforce::open_existing(path, options()).unwrap();
    let records = log.read_from(log.front_lsn()).unwrap();
    records.map(|r| r.unwrap().start).collect()
}

/// Returns the numbers of the records that `salvage` saves from `from`.
fn salvaged(from: &Path, new: &Path) -> Vec<u64> {
    let arguments = [new.to_str().unwrap(), "--require", "process-crash"];
    let out = logforce(from, "salvage", &arguments);
    assert!(
        matches!(out.status.code(), Some(0 | 1)),
        "{}",
        all_output(&out)
    );
    let log = logforce::open_existing(new, options()).unwrap();
    let records = log.read_from(log.front_lsn()).unwrap();
    let number = |data: Vec<u8>| text(&data).split(' ').nth(1).unwrap().parse().unwrap();
    records.map(|r| number(r.unwrap().data)).collect()
}

/// Checks that every name in the JSON is documented, and that none is missing.
#[track_caller]
fn assert_fields(report: &Value) {
    let names = |value: &Value| -> Vec<String> {
        let mut names: Vec<String> = value.as_object().unwrap().keys().cloned().collect();
        names.sort();
        names
    };
    assert_eq!(
        names(report),
        [
            "aside", "bytes", "cut", "earlier", "metadata", "path", "repaired", "schema", "unread",
            "version"
        ]
    );
    assert_eq!(
        (&report["schema"], &report["version"]),
        (&"logforce-repair".into(), &1.into())
    );
    if report["cut"].is_object() {
        assert_eq!(
            names(&report["cut"]),
            [
                "case", "file", "found", "from", "lsn", "offset", "records", "to"
            ]
        );
    }
    let document = include_str!("../../../../docs/cli-json.md");
    let (_, section) = document.split_once("\n## `logforce repair`").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let all = names(report).into_iter().chain(match &report["cut"] {
        Value::Null => Vec::new(),
        cut => names(cut),
    });
    for name in all.filter(|n| !["schema", "version"].contains(&n.as_str())) {
        assert!(section.contains(&format!("`{name}`")), "{name}");
    }
}

#[test]
fn a_log_is_cut_and_the_copies_hold_what_was() {
    let dir = place();
    let path = dir.path().join("log");
    let starts = damaged(&path);
    let before = contents(&path);
    let hit = segments(&path)[2].file_name().unwrap().to_owned();
    let hit = hit.to_str().unwrap();
    let e = logforce::open_existing(&path, options()).unwrap_err();
    let advised = format!("`logforce repair {}`", path.display());
    assert!(e.to_string().contains(&advised), "{e}");

    // The repair then does what the dry run said.
    refused(&path, &["--dry-run"], 0, &["would end at LSN", "would be"]);
    let plan = logforce(&path, "repair", &["--dry-run", "--json", "-"]);
    let plan = json(&plan);
    assert_fields(&plan);
    assert_eq!(plan["repaired"], false);
    assert!(contents(&path) == before);
    let out = logforce(&path, "repair", &["--yes", "--json", "-"]);
    let parts = ["the log ends at LSN", "goes on at LSN", "save them", hit];
    let said = ended(&out, 0, &parts);
    let report = json(&out);
    assert_fields(&report);
    assert_eq!(
        (&report["repaired"], &report["path"]),
        (&true.into(), &path.to_str().unwrap().into()),
        "{said}"
    );
    for field in ["aside", "bytes", "metadata", "unread"] {
        assert_eq!(report[field], plan[field], "{field}");
    }
    for field in ["case", "file", "found", "from", "lsn", "offset", "records"] {
        assert_eq!(report["cut"][field], plan["cut"][field], "{field}");
    }
    assert_eq!(
        (&report["metadata"], &report["unread"]),
        (&Value::Null, &0.into())
    );
    let cut = &report["cut"];
    assert_eq!(
        (&cut["case"], &cut["file"], &cut["offset"]),
        (&"segment-lost".into(), &hit.into(), &0.into())
    );
    let from = cut["from"].as_u64().unwrap();
    assert!(cut["to"].as_u64().unwrap() >= 4 * SEGMENT, "{cut}");
    assert!(from <= 2 * SEGMENT + 8192, "{cut}");

    // Copies of all files but the segments that end below, unchanged.
    let [aside] = &copies(dir.path())[..] else {
        panic!("{:?}", copies(dir.path()))
    };
    assert_eq!(Path::new(report["aside"].as_str().unwrap()), aside);
    let name = aside.file_name().unwrap().to_str().unwrap();
    assert!(name.starts_with("log.cut-") && name.ends_with(&format!("-{from:016x}")));
    let kept = contents(aside);
    assert!(kept["control.cut"] == before["control"]);
    for segment in before.keys().filter(|name| name.ends_with(".seg")) {
        let start = u64::from_str_radix(&segment[..16], 16).unwrap();
        match start + SEGMENT <= from {
            true => assert!(!kept.contains_key(segment), "{segment}"),
            false => assert!(kept[segment] == before[segment], "{segment}"),
        }
    }

    // The log keeps the records below; the copies hold all others.
    let below = starts.iter().filter(|s| s.0 < from).count();
    assert!(below > 20 && below < RECORDS as usize - 20, "{below}");
    assert_eq!(cut["records"], RECORDS as usize - below);
    ended(&logforce(&path, "verify", &[]), 0, &["healthy"]);
    let log = logforce::open_existing(&path, options()).unwrap();
    assert_eq!(log.meta().as_deref(), Some(&b"vote"[..]));
    for n in 0..RECORDS {
        let at = log.commit(format!("later {n}").as_bytes()).unwrap();
        assert!(at.start.0 >= cut["to"].as_u64().unwrap());
    }
    log.truncate_front(log.tail_lsn()).unwrap();
    log.commit(b"last").unwrap();
    log.close().unwrap();
    assert!(
        contents(aside) == kept,
        "only the user may remove the copies"
    );
    let saved = salvaged(aside, &dir.path().join("saved"));
    assert_eq!(saved, (below as u64..RECORDS).collect::<Vec<_>>());
    let out = logforce(aside, "dump", &["--salvage", "--records"]);
    let dumped = text(&out.stdout);
    let dumped = dumped.lines().filter(|line| line.contains("  record  "));
    assert_eq!(dumped.count(), saved.len(), "{}", all_output(&out));
}

#[test]
fn a_second_run_finds_nothing_to_repair() {
    let dir = place();
    let path = dir.path().join("log");
    damaged(&path);
    ended(&logforce(&path, "repair", &["--yes"]), 0, &["copies ("]);
    let made = copies(dir.path());
    // No confirmation is needed.
    for arguments in [&[][..], &["--yes"], &["--dry-run"]] {
        refused(
            &path,
            arguments,
            0,
            &["nothing was repaired", "copies of an earlier repair"],
        );
    }
    let out = logforce(&path, "repair", &["--json", "-"]);
    let report = json(&out);
    assert_fields(&report);
    assert_eq!(
        (&report["repaired"], &report["cut"], &report["aside"]),
        (&false.into(), &Value::Null, &Value::Null)
    );
    let earlier = report["earlier"].as_array().unwrap();
    assert_eq!(
        earlier.len(),
        1,
        "whoever lost the first report finds them: {report}"
    );
    assert_eq!(copies(dir.path()), made);

    // A repair does not handle damage further below.
    let healthy = dir.path().join("healthy");
    let (log, starts) = filled(&healthy, RECORDS);
    log.close().unwrap();
    flip(&segments(&healthy)[0], starts[3].0 + 500);
    ended(&logforce(&healthy, "verify", &[]), 1, &["DAMAGED"]);
    refused(&healthy, &["--yes"], 0, &["nothing was repaired"]);
    assert_eq!(copies(dir.path()), made);
}

#[test]
fn the_copies_of_two_repairs_are_kept() {
    let dir = place();
    let path = dir.path().join("log");
    damaged(&path);
    let first = dir.path().join("first");
    copy(&path, &first);
    ended(&logforce(&path, "repair", &["--yes"]), 0, &[]);
    let [one] = &copies(dir.path())[..] else {
        panic!("{:?}", copies(dir.path()))
    };
    let kept = contents(one);
    // The same log again, with different bytes at the same LSN.
    fs::remove_dir_all(&path).unwrap();
    fs::rename(&first, &path).unwrap();
    flip(&segments(&path)[3], 9000);
    ended(&logforce(&path, "repair", &["--yes"]), 0, &[]);
    let both = copies(dir.path());
    assert_eq!(both.len(), 2, "{both:?}");
    assert_eq!(
        both[1].display().to_string(),
        format!("{}.1", one.display())
    );
    assert!(contents(one) == kept);
}

#[test]
fn copies_go_elsewhere() {
    let dir = place();
    let (path, parent) = (dir.path().join("log"), dir.path().join("elsewhere"));
    damaged(&path);
    let arguments = ["--yes", "--aside", parent.to_str().unwrap()];
    // A missing parent is not created, because a mistyped name must not get the only copy.
    let said = refused(&path, &arguments, 4, &["elsewhere"]);
    assert!(!parent.exists(), "{said}");
    fs::create_dir(&parent).unwrap();
    let out = logforce(&path, "repair", &arguments);
    let said = ended(&out, 0, &[]);
    assert_eq!(copies(dir.path()), [""; 0].map(PathBuf::from), "{said}");
    let made = copies(&parent);
    assert!(
        made.len() == 1 && said.contains(&made[0].display().to_string()),
        "{said}"
    );
    let saved = salvaged(&made[0], &dir.path().join("saved"));
    assert_eq!(saved.len() + starts_in(&path).len(), RECORDS as usize);
    // The only copy of those records is not changed.
    refused(&made[0], &["--yes"], 4, &["copies", "salvage"]);
    let opened = logforce::open_existing(&made[0], options());
    assert_eq!(opened.unwrap_err().kind(), ErrorKind::NotALog);
}

#[test]
fn metadata_is_given_up_alone() {
    let dir = place();
    let path = dir.path().join("log");
    let (log, starts) = filled(&path, RECORDS);
    log.set_meta(b"vote").unwrap();
    log.close().unwrap();
    for slot in [128 << 10, 192 << 10] {
        flip(&path.join("control"), slot + 20);
    }
    let control = contents(&path)["control"].clone();
    refused(&path, &[], 2, &["--yes", "--dry-run"]);
    refused(&path, &["--dry-run"], 0, &["metadata would be given up"]);
    let out = logforce(&path, "repair", &["--yes", "--json", "-"]);
    ended(&out, 0, &["the metadata was given up"]);
    let report = json(&out);
    assert_fields(&report);
    assert_eq!(
        (&report["repaired"], &report["cut"]),
        (&true.into(), &Value::Null)
    );
    assert!(report["metadata"].is_string(), "{report}");
    let aside = report["aside"].as_str().unwrap();
    assert!(contents(Path::new(aside))["control.cut"] == control);
    assert_eq!(starts_in(&path), starts);
    let log = logforce::open_existing(&path, options()).unwrap();
    assert_eq!(log.meta(), None);
}

#[test]
fn without_a_yes_nothing_is_changed() {
    let dir = place();
    let path = dir.path().join("log");
    damaged(&path);
    refused(&path, &[], 2, &["--yes repairs", "--dry-run"]);
    refused(&path, &["--json", "-"], 2, &["--yes repairs"]);
    refused(&path, &["--yes", "--dry-run"], 2, &["cannot be used with"]);
    refused(&path, &["--aside"], 2, &["--aside"]);
    let e = logforce::open_existing(&path, options()).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Damaged);
}

#[test]
fn what_cannot_be_repaired_is_left_as_it_is() {
    let dir = place();
    let at = |name: &str| dir.path().join(name);
    for name in ["empty", "other"] {
        fs::create_dir(at(name)).unwrap();
    }
    fs::write(at("other").join("control"), vec![7; 16384]).unwrap();
    for (name, why) in [
        ("empty", "holds no log"),
        ("other", "is not a control file"),
    ] {
        refused(&at(name), &["--yes"], 4, &[why]);
        refused(&at(name), &["--dry-run"], 4, &[why]);
    }
    let out = logforce(&at("nosuch"), "repair", &["--yes"]);
    ended(&out, 4, &["does not exist"]);
    assert!(!at("nosuch").exists());

    // The log is open, here or in another process.
    let (log, _) = filled(&at("open"), 3);
    // The log adds its statistics when it comes to that.
    let count = || {
        contents(&at("open"))
            .keys()
            .filter(|name| *name != "live")
            .count()
    };
    let files = count();
    for arguments in [&["--yes"][..], &["--dry-run"]] {
        let parts = ["open for writing already", "Stop that program"];
        let said = ended(&logforce(&at("open"), "repair", arguments), 4, &parts);
        assert!(!said.contains("Options"), "{said}");
    }
    // The log writes its statistics, with the id of the process, about once a second.
    let process = format!("probably by process {}.", std::process::id());
    let named = (0..200).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(100));
        let out = logforce(&at("open"), "repair", &["--dry-run"]);
        all_output(&out).contains(&process)
    });
    assert!(named, "{process}");
    let repaired = logforce::inspect::repair(at("open"), &logforce::inspect::RepairOptions::new());
    assert_eq!(repaired.unwrap_err().kind(), ErrorKind::Locked);
    log.commit(b"goes on").unwrap();
    drop(log);
    assert_eq!(count(), files);

    // Two segments hold the same part of the log. Only the user knows which one is right.
    damaged(&at("twice"));
    let again = at("twice").join("00000000000000ff.seg");
    fs::copy(&segments(&at("twice"))[0], again).unwrap();
    let said = refused(&at("twice"), &["--yes"], 1, &["move the copy away"]);
    assert!(!said.contains("logforce repair"), "{said}");
    let (log, _) = filled(&at("uncontrolled"), 3);
    log.close().unwrap();
    fs::remove_file(at("uncontrolled").join("control")).unwrap();
    refused(&at("uncontrolled"), &["--yes"], 4, &["logforce salvage"]);
    let help = logforce(&at("uncontrolled"), "repair", &["--help"]);
    let help = text(&help.stdout);
    let (_, statuses) = help.split_once("4 failed").unwrap();
    assert!(statuses.contains("control file"), "{statuses}");
    // No slot of the control file can be used.
    let (log, _) = filled(&at("slotless"), 3);
    log.close().unwrap();
    for slot in [0, 64 << 10] {
        flip(&at("slotless").join("control"), slot + 20);
    }
    let dir = at("slotless").display().to_string();
    let salvage = format!("`logforce salvage {dir} NEW`");
    let verify = format!("`logforce verify {dir} --salvage`");
    let parts = [
        "at offset 65536: the checksum of the slot is wrong",
        &salvage,
        &verify,
        "it needs the control file. Restore the whole directory from a backup",
    ];
    let said = refused(&at("slotless"), &["--yes"], 1, &parts);
    assert!(!said.contains("named here"), "{said}");
}

/// The log of a page file must not end below the commits that the data file has applied.
#[test]
fn a_page_files_log_is_cut_above_what_is_applied_only() {
    let dir = place();
    let file = dir.path().join("file");
    crate::pages::made(&file, CommitMode::Logged);
    let said = ended(&logforce(&file, "repair", &["--yes"]), 2, &["a page file"]);
    assert!(said.contains(file.join("log").to_str().unwrap()), "{said}");
    refused(&file.join("log"), &["--yes"], 0, &["nothing was repaired"]);

    // The whole log is lost, including the commits that the checkpoint has applied.
    flip(&segments(&file.join("log"))[0], 20);
    let words = ["from which the data file needs it", "the same backup"];
    for arguments in [&["--yes"][..], &["--dry-run"]] {
        let said = refused(&file.join("log"), arguments, 1, &words);
        assert!(!said.contains("logforce repair"), "{said}");
    }
    // The log may be on another disk.
    #[cfg(unix)]
    {
        let elsewhere = dir.path().join("elsewhere");
        fs::rename(file.join("log"), &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, file.join("log")).unwrap();
        refused(&file.join("log"), &["--yes"], 1, &words);
    }

    // Damage above: the removed commits are missing, and the file opens.
    let above = dir.path().join("above");
    let log = options().max_batch_size(16 << 10).calibrate(false);
    let options = logforce::pages::Options::new()
        .mode(CommitMode::Logged)
        .require(Guarantee::ProcessCrash)
        .log(log);
    let pages = logforce::pages::create_new(&above, options.clone()).unwrap();
    for n in 0..40 {
        let mut txn = pages.begin().unwrap();
        txn.write(0, &[n; 4096]).unwrap();
        txn.commit().unwrap();
    }
    pages.close().unwrap();
    flip(&segments(&above.join("log"))[2], 20);
    let e = logforce::pages::open_existing(&above, options.clone()).unwrap_err();
    assert_eq!(e.kind(), logforce::pages::ErrorKind::Damaged, "{e}");
    let out = logforce(&above.join("log"), "repair", &["--yes"]);
    ended(&out, 0, &["the log ends at LSN"]);
    let pages = logforce::pages::open_existing(&above, options).unwrap();
    let snapshot = pages.snapshot().unwrap();
    let commit = snapshot.commit();
    assert!((5..35).contains(&commit), "{commit}");
    assert!(
        snapshot
            .page(0)
            .unwrap()
            .iter()
            .all(|b| u64::from(*b) + 1 == commit)
    );
}

/// Without space for copies or a segment the log stays unchanged. With space it is repaired.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_changes_nothing() {
    use logforce_testkit::loopfs::LoopFs;
    let home = place();
    let disk = match LoopFs::new("ext4", 64, home.path()) {
        Ok(disk) => disk,
        Err(skip) => return logforce_testkit::skip!("{skip}"),
    };
    let path = disk.path().join("log");
    let starts = damaged(&path);
    let ballast = disk.path().join("ballast");
    let mut file = fs::File::create(&ballast).unwrap();
    let written = std::io::copy(&mut std::io::repeat(7), &mut file);
    assert_eq!(written.unwrap_err().kind(), std::io::ErrorKind::StorageFull);
    drop(file);
    let files = contents(&path);
    ended(&logforce(&path, "repair", &["--yes"]), 4, &["os error 28"]);
    assert!(files == contents(&path), "the log is as it was");
    // An unfinished copy would take the space that the next attempt needs.
    assert!(copies(disk.path()).is_empty());
    // The copies go elsewhere, but there is no space for the segment in which the log would continue.
    let elsewhere = home.path().to_str().unwrap();
    let arguments = ["--yes", "--aside", elsewhere];
    let out = logforce(&path, "repair", &arguments);
    let said = ended(&out, 4, &["reserve", "os error 28"]);
    assert!(!said.contains("truncate_front"), "{said}");
    assert!(files == contents(&path), "the log is as it was");
    let e = logforce::open_existing(&path, options()).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Damaged);
    fs::remove_file(ballast).unwrap();
    let out = logforce(&path, "repair", &["--yes", "--json", "-"]);
    ended(&out, 0, &[]);
    let report = json(&out);
    assert_eq!(copies(disk.path()).len(), 1);
    let saved = salvaged(
        Path::new(report["aside"].as_str().unwrap()),
        &home.path().join("saved"),
    );
    let below = starts_in(&path).len();
    assert_eq!(saved.len() + below, starts.len());
}
