//! `logforce salvage`.

use crate::common::{place, text};
use logforce::{Guarantee, Lsn, Options, inspect::RepairOptions};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const RECORDS: u32 = 300;

fn options() -> Options {
    Options::new()
        .calibrate(false)
        .require(Guarantee::ProcessCrash)
        .segment_size(256 << 10)
        .max_batch_size(64 << 10)
}

fn record(n: u32) -> Vec<u8> {
    (0..2000)
        .map(|i| (n * 7 + i) as u8)
        .chain(n.to_le_bytes())
        .collect()
}

/// Returns the numbers of the records of a log, and checks that each record is whole.
fn numbers(dir: &Path) -> Vec<u32> {
    let log = logforce::open_existing(dir, options()).unwrap();
    let all = log.read_from(log.front_lsn()).unwrap();
    let numbers = all.map(|found| {
        let data = found.unwrap().data;
        let n = u32::from_le_bytes(data[2000..].try_into().unwrap());
        assert_eq!(data, record(n));
        n
    });
    numbers.collect()
}

fn salvage(src: &Path, new: &Path, more: &[&str]) -> (Output, Value) {
    let out = Command::new(env!("CARGO_BIN_EXE_logforce"))
        .arg("salvage")
        .args([src, new])
        .args(["--require", "process-crash", "--json", "-"])
        .args(more)
        .output()
        .unwrap();
    let json = serde_json::from_slice(&out.stdout).unwrap_or(Value::Null);
    (out, json)
}

fn written(dir: &Path) -> PathBuf {
    let path = dir.join("log");
    let log = logforce::create_new(&path, options()).unwrap();
    for n in 0..RECORDS {
        log.commit(&record(n)).unwrap();
    }
    log.set_meta(b"term 7").unwrap();
    log.close().unwrap();
    path
}

fn segments(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).unwrap().map(|e| e.unwrap().path());
    let mut all: Vec<_> = entries
        .filter(|p| p.extension().is_some_and(|x| x == "seg"))
        .collect();
    all.sort();
    all
}

/// Salvages `src`. Checks that the new log opens, and that nothing is missing but what the report names.
fn saved(src: &Path, new: &Path, more: &[&str]) -> (Vec<u32>, Value, String) {
    let before = contents(src);
    let (out, json) = salvage(src, new, more);
    assert_eq!(before, contents(src), "the source is only read");
    let printed = text(&out.stderr);
    let complete = json["complete"] == true;
    assert_eq!(out.status.code(), Some(i32::from(!complete)), "{printed}");
    let missing = ["IS MISSING", "MAY BE MISSING"].map(|words| printed.contains(words));
    assert_eq!(missing.contains(&true), !complete, "{printed}");
    assert_eq!(
        printed.contains("nothing is missing\n"),
        complete,
        "{printed}"
    );
    assert!(!printed.contains("no record is missing"), "{printed}");
    let found = numbers(new);
    assert_eq!(json["records"], found.len(), "{printed}");
    assert!(
        found.is_sorted_by(|a, b| a < b) || !more.is_empty(),
        "{found:?}"
    );
    let left: Vec<_> = fs::read_dir(new.parent().unwrap())
        .unwrap()
        .filter(|e| {
            e.as_ref()
                .unwrap()
                .file_name()
                .to_string_lossy()
                .contains("partial")
        })
        .collect();
    assert!(left.is_empty());
    (found, json, printed)
}

fn contents(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(dir).unwrap().map(|e| e.unwrap().path());
    let mut all: Vec<_> = entries.map(|p| (p.clone(), fs::read(p).unwrap())).collect();
    all.sort();
    all
}

#[test]
fn a_whole_log_is_saved_whole() {
    let dir = place();
    let log = written(dir.path());
    let map = dir.path().join("map.csv");
    let (found, json, _) = saved(&log, &dir.path().join("new"), &[]);
    assert_eq!(found, (0..RECORDS).collect::<Vec<_>>());
    assert_eq!(
        (&json["proven"], &json["metadata_saved"]),
        (&RECORDS.into(), &true.into())
    );
    let log2 = logforce::open_existing(dir.path().join("new"), options()).unwrap();
    assert_eq!(log2.meta().as_deref(), Some(&b"term 7"[..]));

    // The map lists the LSNs; the report goes elsewhere.
    let (out, json) = salvage(
        &log,
        &dir.path().join("both"),
        &["--map", map.to_str().unwrap()],
    );
    assert_eq!(json["records"], RECORDS, "{}", text(&out.stderr));
    assert_eq!(
        fs::read_to_string(&map).unwrap().lines().count(),
        RECORDS as usize + 1
    );
    let (out, _) = salvage(&log, &dir.path().join("neither"), &["--map", "-"]);
    assert_eq!(out.status.code(), Some(2), "{}", text(&out.stderr));
    let (out, _) = salvage(
        &log,
        &dir.path().join("neither"),
        &["--map", dir.path().to_str().unwrap()],
    );
    let printed = text(&out.stderr);
    assert!(
        out.status.code() == Some(4) && printed.contains("--map"),
        "{printed}"
    );
    assert!(!dir.path().join("neither").exists());
    let out = Command::new(env!("CARGO_BIN_EXE_logforce"))
        .arg("salvage")
        .args([&log, &dir.path().join("mapped")])
        .args(["--require", "process-crash", "--map"])
        .arg(&map)
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", text(&out.stderr));
    let rows = fs::read_to_string(&map).unwrap();
    assert_eq!(rows.lines().count(), RECORDS as usize + 1);
    let last = rows.lines().last().unwrap();
    let at: u64 = last.split(',').nth(1).unwrap().parse().unwrap();
    let mapped = logforce::open_existing(dir.path().join("mapped"), options()).unwrap();
    assert_eq!(mapped.read_at(Lsn(at)).unwrap().data, record(RECORDS - 1));
}

#[test]
fn a_lost_control_file() {
    let dir = place();
    let log = written(dir.path());
    fs::remove_file(log.join("control")).unwrap();
    let (found, json, printed) = saved(&log, &dir.path().join("new"), &[]);
    assert_eq!(found, (0..RECORDS).collect::<Vec<_>>(), "{printed}");
    // The control file held the metadata.
    assert_eq!(json["metadata_saved"], false, "{printed}");
    assert_eq!(json["complete"], false, "{printed}");
}

/// All segments found are whole, but only the control file would say if they are all.
#[test]
fn without_a_control_file_nobody_knows_what_is_missing() {
    let dir = place();
    let whole = dir.path().join("whole");
    let log = logforce::create_new(&whole, options()).unwrap();
    let starts: Vec<_> = (0..RECORDS)
        .map(|n| log.commit(&record(n)).unwrap().start)
        .collect();
    log.truncate_front(starts[30]).unwrap();
    log.close().unwrap();
    let (front, segments) = (starts[30], segments(&whole));
    let end = logforce::inspect::open(&whole)
        .unwrap()
        .summary()
        .prepared_end;
    assert!(segments.len() > 3 && front.0 < 256 << 10);
    // All segments are left, then all but the first, then the first two.
    for (n, left) in [0..segments.len(), 1..segments.len(), 0..2]
        .into_iter()
        .enumerate()
    {
        let src = dir.path().join(format!("{n}"));
        fs::create_dir(&src).unwrap();
        for (file, bytes) in contents(&whole) {
            if segments[left.clone()].contains(&file) {
                fs::write(src.join(file.file_name().unwrap()), bytes).unwrap();
            }
        }
        let left = logforce::inspect::salvage(&src).unwrap().summary();
        assert!(!left.bounds_known);
        let (found, json, printed) = saved(&src, &dir.path().join(format!("new{n}")), &[]);
        let known = (&json["complete"], &json["bounds_known"], &json["damages"]);
        assert_eq!(
            known,
            (&false.into(), &false.into(), &0.into()),
            "{printed}"
        );
        let from = left.segments[0].start;
        let to = left.segments.last().map(|s| s.start.plus(s.len)).unwrap();
        let mut parts = vec![
            "something MAY BE MISSING".to_owned(),
            match from {
                Lsn::ORIGIN => format!("Records above LSN {to}, "),
                from => format!("Records below LSN {from}, "),
            },
            format!("above LSN {to}, "),
            "may have been truncated at the front".to_owned(),
        ];
        for part in &parts {
            assert!(printed.contains(part), "no '{part}' in {printed}");
        }
        match n {
            0 => assert_eq!(
                (found[0], to),
                (0, end),
                "what was truncated is there again"
            ),
            1 => assert!(found[0] > 30 && from > front, "{printed}"),
            _ => assert!(
                found[found.len() - 1] < RECORDS - 1 && to < end,
                "{printed}"
            ),
        }
        let out = Command::new(env!("CARGO_BIN_EXE_logforce"))
            .args(["verify", "--salvage"])
            .arg(&src)
            .output()
            .unwrap();
        let printed = text(&out.stdout);
        assert_eq!(out.status.code(), Some(1), "{printed}");
        parts[0] = "front UNKNOWN".to_owned();
        for part in &parts {
            assert!(printed.contains(part), "no '{part}' in {printed}");
        }
        for part in ["front at LSN", "not closed cleanly"] {
            assert!(!printed.contains(part), "{printed}");
        }
    }
    // With the control file the bounds are known.
    let known = logforce::inspect::salvage(&whole).unwrap().summary();
    assert!(known.bounds_known && known.front == front);
}

/// A log without its metadata is incomplete, like one that lacks records.
#[test]
fn lost_metadata_is_missing() {
    let dir = place();
    let log = written(dir.path());
    let mut bytes = fs::read(log.join("control")).unwrap();
    for slot in [128 << 10, 192 << 10] {
        bytes[slot + 20] ^= 1;
    }
    fs::write(log.join("control"), bytes).unwrap();
    let (found, json, printed) = saved(&log, &dir.path().join("new"), &[]);
    assert_eq!(found.len(), RECORDS as usize);
    assert!(printed.contains("NOT SAVED"), "{printed}");
    let known = (&json["complete"], &json["bounds_known"]);
    assert_eq!(known, (&false.into(), &true.into()), "{printed}");
}

#[test]
fn a_lost_segment() {
    let dir = place();
    let log = written(dir.path());
    let lost = segments(&log).remove(1);
    fs::remove_file(&lost).unwrap();
    let (found, json, printed) = saved(&log, &dir.path().join("new"), &[]);
    assert!(json["damages"].as_u64().unwrap() >= 1, "{printed}");
    assert!(
        printed.contains(lost.file_name().unwrap().to_str().unwrap()),
        "{printed}"
    );
    let (from, to) = (&json["damage"][0]["lsn"], &json["damage"][0]["to"]);
    assert!(
        printed.contains(&format!("at LSN {from} to {to}, ")),
        "{printed}"
    );
    let lost = to.as_u64().unwrap() - from.as_u64().unwrap();
    assert!((256 << 10..300 << 10).contains(&lost), "{json}");
    // About 120 records fit into a segment, and those that lie across its edges are lost as well.
    assert!(found.len() > 150 && found.len() < 280, "{}", found.len());
    assert_eq!((found[0], found[found.len() - 1]), (0, RECORDS - 1));
}

/// A flipped bit in a segment's header loses no record, and is reported. After a repair ended the log
/// there, the copies hold the records.
#[test]
fn a_damaged_header() {
    let dir = place();
    let log = written(dir.path());
    let hit = segments(&log).remove(1);
    let name = hit.file_name().unwrap().to_str().unwrap().to_owned();
    let mut bytes = fs::read(&hit).unwrap();
    bytes[20] ^= 1;
    fs::write(&hit, bytes).unwrap();
    let (found, json, printed) = saved(&log, &dir.path().join("new"), &[]);
    assert_eq!(found, (0..RECORDS).collect::<Vec<_>>(), "{printed}");
    assert_eq!(
        (&json["damages"], &json["damage"][0]["file"]),
        (&1.into(), &name.clone().into())
    );
    for part in ["segment header checksum", "nothing is missing"] {
        assert!(printed.contains(part), "{printed}");
    }

    let report = logforce::inspect::repair(&log, &RepairOptions::new()).unwrap();
    let cut = report.cut.expect("it was damaged");
    let lost = &cut.damage;
    assert_eq!((lost.file.as_deref(), lost.offset), (Some(&*name), 0));
    assert!(lost.found.contains("segment header checksum"), "{lost}");
    let below = numbers(&log);
    let out = Command::new(env!("CARGO_BIN_EXE_logforce"))
        .arg("verify")
        .arg(&log)
        .output()
        .unwrap();
    let printed = text(&out.stdout);
    assert!(out.status.success(), "{printed}");
    let first = printed.lines().next().unwrap();
    assert!(first.contains("healthy"), "{printed}");
    let copies = report.aside.unwrap();
    let (found, json, printed) = saved(&copies, &dir.path().join("cut"), &[]);
    // The copies may also show some records below.
    let mut all = [below.clone(), found].concat();
    all.sort();
    all.dedup();
    assert_eq!(all, (0..RECORDS).collect::<Vec<_>>(), "{printed}");
    assert_eq!(json["damage"][0]["file"], name);
    assert_eq!(cut.records, u64::from(RECORDS) - below.len() as u64);
}

#[test]
fn a_damaged_middle() {
    let dir = place();
    let log = written(dir.path());
    let first = segments(&log).remove(0);
    let mut bytes = fs::read(&first).unwrap();
    bytes[100_000] ^= 0x40;
    fs::write(&first, bytes).unwrap();
    let (found, json, printed) = saved(&log, &dir.path().join("new"), &[]);
    assert_eq!(json["damages"], 1, "{printed}");
    let (from, to) = (&json["damage"][0]["lsn"], &json["damage"][0]["to"]);
    let lost = to.as_u64().unwrap() - from.as_u64().unwrap();
    assert_eq!(json["damage"][0]["bytes"], lost, "{json}");
    assert!((2000..10_000).contains(&lost), "{json}");
    assert!(
        printed.contains(&format!("NOT SAVED: damaged at LSN {from} to {to}, ")),
        "{printed}"
    );
    // One batch with one record is lost.
    assert_eq!(found.len(), RECORDS as usize - 1, "{printed}");
}

/// The advice is for the user of the command, who has no log to truncate.
#[cfg(target_os = "linux")]
#[test]
fn onto_a_full_disk() {
    let home = place();
    let disk = match logforce_testkit::loopfs::LoopFs::new("ext4", 8, home.path()) {
        Ok(disk) => disk,
        Err(skip) => return logforce_testkit::skip!("{skip}"),
    };
    let log = home.path().join("log");
    let new = disk.path().join("new");
    // The first segment does not fit; then the first fits, and a later one does not.
    for (size, records) in [(16 << 20, 3), (1 << 20, 5_000)] {
        let made = logforce::create_new(&log, options().segment_size(size)).unwrap();
        for n in 0..records {
            made.append(&record(n)).unwrap();
        }
        made.close().unwrap();
        let before = contents(&log);
        let (out, _) = salvage(&log, &new, &[]);
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(4), "{said}");
        for part in [
            "Free space there, or name a NEW on another filesystem",
            "was only read",
            "os error 28",
        ] {
            assert!(said.contains(part), "no '{part}' in {said}");
        }
        assert!(!said.contains("truncate_front"), "{said}");
        assert!(before == contents(&log) && !new.exists());
        fs::remove_dir_all(&log).unwrap();
    }
}

#[test]
fn what_must_not_be() {
    let dir = place();
    let log = written(dir.path());
    let new = dir.path().join("new");
    for (src, new, word) in [
        (log.as_path(), log.as_path(), "exists"),
        (&dir.path().join("none"), &new, "holds no log"),
        (&log, &dir.path().join("no/such/place"), "nothing"),
    ] {
        let (out, _) = salvage(src, new, &[]);
        assert!(!out.status.success());
        let printed = text(&out.stderr);
        assert!(
            printed.contains(word) || printed.contains("cannot"),
            "{printed}"
        );
    }
    // A killed salvage left this directory.
    fs::create_dir(dir.path().join("new.partial")).unwrap();
    let (out, _) = salvage(&log, &new, &[]);
    assert!(text(&out.stderr).contains("remove it first"));
    assert!(!new.exists());
}
