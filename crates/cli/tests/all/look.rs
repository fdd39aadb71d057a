//! `dump`, `verify` and `stat` on real logs, whole and damaged.

use crate::common::{place, text};
use crate::logs::{SEGMENT, copy, filled, flip, logforce, options, segments, told};
use logforce_testkit::process::Start;
use serde_json::Value;
use std::fs;
use std::process::{Command, Stdio};

/// To start a program takes long on Windows, and still longer under Wine: less of the same.
const LESS: usize = if cfg!(windows) { 4 } else { 1 };

fn json(out: &std::process::Output) -> Value {
    serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {}", told(out)))
}

#[test]
fn a_healthy_log() {
    let dir = place();
    let path = dir.path().join("log");
    let (log, starts) = filled(&path, 100);
    log.close().unwrap();

    let out = logforce(&path, "verify", &[]);
    assert_eq!(out.status.code(), Some(0), "{}", told(&out));
    let printed = text(&out.stdout);
    for part in ["100 records", "healthy", "closed in order", "GB/s"] {
        assert!(printed.contains(part), "no '{part}' in {printed}");
    }
    assert_eq!(text(&out.stderr), "");

    let out = logforce(&path, "verify", &["--json", "-"]);
    let report = json(&out);
    assert_eq!(report["schema"], "logforce-verify");
    assert_eq!(
        (&report["healthy"], &report["records"]),
        (&true.into(), &100.into())
    );
    assert!(text(&out.stderr).contains("healthy"));

    let out = logforce(&path, "stat", &["--json", "-"]);
    let report = json(&out);
    assert_eq!(report["schema"], "logforce-stat");
    assert_eq!(report["log"]["clean"], true);
    assert_eq!(report["next_opening_scans_at_most"], 0);
    let notes = report["notes"].as_array().unwrap().clone();
    let out = logforce(&path, "stat", &["--scan"]);
    let printed = text(&out.stdout);
    // As `facts` has it: where times mean nothing, its first note says so.
    let facts = json(&logforce(&path, "facts", &["--json", "-"]));
    let first = &facts["machine"]["notes"][0];
    let caveat = first.as_str().filter(|n| n.contains("TIMES MEASURED HERE"));
    assert_eq!(notes.first().and_then(|n| n.as_str()), caveat);
    assert_eq!(
        printed.contains("MEAN NOTHING"),
        caveat.is_some(),
        "{printed}"
    );
    assert!(
        printed.contains("100 (97.7 KiB)") || printed.contains("100 ("),
        "{printed}"
    );
    assert!(
        printed.contains(&format!("LSN {}, LSN {}", starts[0], starts[99])),
        "{printed}"
    );

    let out = logforce(&path, "dump", &["--records"]);
    assert_eq!(out.status.code(), Some(0), "{}", told(&out));
    let printed = text(&out.stdout);
    assert_eq!(printed.lines().count(), 100);
    assert!(
        printed
            .lines()
            .next()
            .unwrap()
            .contains("1000 bytes: record 0 ...."),
        "{printed}"
    );
    assert!(printed.lines().all(|l| l.chars().count() < 120));
    assert!(text(&out.stderr).contains("ends at LSN"));
}

#[test]
fn dump_shows_what_is_asked_for() {
    let dir = place();
    let path = dir.path().join("log");
    let (log, starts) = filled(&path, 30);
    log.truncate_back(starts[20]).unwrap();
    log.close().unwrap();
    let (from, to) = (starts[5].to_string(), format!("{:#x}", starts[8].0));
    let lines = |arguments: &[&str]| {
        let out = logforce(&path, "dump", arguments);
        assert_eq!(out.status.code(), Some(0), "{}", told(&out));
        text(&out.stdout)
            .lines()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let range = ["--from", &from, "--to", &to];
    assert_eq!(lines(&[&range[..], &["--records"]].concat()).len(), 3);
    assert_eq!(lines(&[&range[..], &["--batches"]].concat()).len(), 3);
    assert_eq!(lines(&["--limit", "4"]).len(), 4);
    assert_eq!(lines(&["--records"]).len(), 20, "ten were taken back");
    assert!(
        lines(&["--batches"])
            .iter()
            .any(|l| l.contains("takes back from"))
    );
    let hex = lines(&[
        "--records",
        "--limit",
        "1",
        "--data",
        "hex",
        "--data-bytes",
        "3",
    ]);
    assert!(hex[0].ends_with("1000 bytes: 726563…"), "{hex:?}");
    let none = lines(&["--records", "--limit", "1", "--data", "none"]);
    assert!(none[0].ends_with("1000 bytes"), "{none:?}");

    let out = logforce(&path, "dump", &["--json", "-", "--data", "hex"]);
    let report = json(&out);
    assert_eq!(report["schema"], "logforce-dump");
    assert_eq!(report["damages"], 0);
    let entries = report["entries"].as_array().unwrap();
    let records: Vec<&Value> = entries.iter().filter(|e| e["what"] == "record").collect();
    assert_eq!(records.len(), 20);
    assert_eq!(records[3]["lsn"], starts[3].0);
    assert_eq!(records[3]["data"].as_str().unwrap().len(), 2000);
    // What a batch and a record say of their place is where they are.
    let file = fs::read(path.join(records[3]["file"].as_str().unwrap())).unwrap();
    let offset = records[3]["offset"].as_u64().unwrap() as usize;
    let at = file[offset..offset + 64]
        .windows(9)
        .any(|w| w == b"record 3 ");
    assert!(at, "{}", records[3]);

    let out = logforce(&path, "dump", &["--csv", "-"]);
    let csv = text(&out.stdout);
    assert_eq!(csv.lines().count(), entries.len() + 1);
    assert!(csv.starts_with("what,lsn,end,file,offset,"), "{csv}");

    let out = logforce(&path, "dump", &["--raw", &starts[7].to_string()]);
    assert!(out.status.success() && out.stdout.len() == 1000);
    assert!(out.stdout.starts_with(b"record 7 ...") && out.stderr.is_empty());
    for (lsn, why) in [
        (starts[7].0 + 1, "no record begins"),
        (starts[25].0, "taken back"),
    ] {
        let out = logforce(&path, "dump", &["--raw", &lsn.to_string()]);
        assert_eq!(out.status.code(), Some(1));
        assert!(
            out.stdout.is_empty() && told(&out).contains(why),
            "{}",
            told(&out)
        );
    }
}

#[test]
fn a_flipped_bit_is_named_by_file_and_offset() {
    let dir = place();
    let path = dir.path().join("log");
    let (log, starts) = filled(&path, 60);
    log.close().unwrap();
    // In the middle of a record of the third segment.
    let hit = starts.iter().find(|l| l.0 > 2 * SEGMENT + 9000).unwrap();
    let file = &segments(&path)[2];
    flip(file, hit.0 - 2 * SEGMENT + 500);
    let out = logforce(
        &path,
        "verify",
        &[
            "--json",
            "-",
            "--csv",
            dir.path().join("d.csv").to_str().unwrap(),
        ],
    );
    assert_eq!(out.status.code(), Some(1), "{}", told(&out));
    let report = json(&out);
    assert_eq!(
        (&report["damages"], &report["records"]),
        (&1.into(), &59.into())
    );
    let damage = &report["damage"][0];
    let name = file.file_name().unwrap().to_str().unwrap();
    assert_eq!(damage["file"], name);
    let offset = damage["offset"].as_u64().unwrap();
    let (batch, record) = (offset + 2 * SEGMENT, hit.0);
    assert!(batch < record && record - batch < 4096, "{damage}");
    assert_eq!(damage["lsn"], batch);
    assert_eq!(damage["case"], "damaged");
    let csv = fs::read_to_string(dir.path().join("d.csv")).unwrap();
    assert_eq!(csv.lines().count(), 2, "{csv}");
    assert!(
        csv.starts_with("lsn,case,file,offset,found,durable_to\n"),
        "{csv}"
    );

    let printed = text(&logforce(&path, "verify", &[]).stdout);
    let place = format!("{} offset {offset}", file.display());
    assert!(
        printed.contains(&place) && printed.contains("DAMAGED in one place"),
        "{printed}"
    );
    assert!(
        printed
            .lines()
            .next()
            .unwrap()
            .contains("DAMAGED in one place"),
        "{printed}"
    );
    // Only who reads the log can know.
    for (arguments, status) in [
        (&["--scan"][..], 1),
        (&[], 0),
        (&["--scan", "--json", "-"], 1),
    ] {
        let out = logforce(&path, "stat", arguments);
        assert_eq!(out.status.code(), Some(status), "{}", told(&out));
    }
    let help = Command::new(env!("CARGO_BIN_EXE_logforce"))
        .args(["stat", "--help"])
        .output()
        .unwrap();
    assert!(text(&help.stdout).contains("Exit status: 0"));
    let out = logforce(&path, "dump", &[]);
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out.stdout).contains("DAMAGE") && text(&out.stdout).contains(&place));
    // What lies behind is still shown.
    assert!(text(&out.stdout).contains("record 59 "), "{}", told(&out));
}

/// Every segment has a damaged header: what only those say is said to be unknown.
#[test]
fn without_a_header_the_write_unit_is_not_known() {
    let dir = place();
    let path = dir.path().join("log");
    drop(filled(&path, 3));
    for segment in segments(&path) {
        flip(&segment, 20);
    }
    let said = text(&logforce(&path, "stat", &[]).stdout);
    let line = said.lines().find(|l| l.starts_with("write unit"));
    assert!(line.is_some_and(|l| l.contains("not known")), "{said}");
}

#[test]
fn a_missing_segment_is_damage() {
    for which in [0, 1, 3] {
        let dir = place();
        let path = dir.path().join("log");
        let (log, _) = filled(&path, 60);
        log.close().unwrap();
        // The last but one holds the log's end.
        let gone = segments(&path).remove(which);
        fs::remove_file(&gone).unwrap();
        let out = logforce(&path, "verify", &["--json", "-"]);
        assert_eq!(out.status.code(), Some(1), "{which}: {}", told(&out));
        let report = json(&out);
        assert_eq!(
            report["damage"][0]["case"], "segment-lost",
            "{which}: {report}"
        );
        assert_eq!(
            report["damage"][0]["lsn"].as_u64().unwrap() / SEGMENT,
            which as u64
        );
    }
}

#[test]
fn a_torn_tail_is_no_damage() {
    let dir = place();
    let (path, torn) = (dir.path().join("log"), dir.path().join("torn"));
    let (log, starts) = filled(&path, 10);
    // As after a crash: the copy was never closed.
    copy(&path, &torn);
    let end = log.tail_lsn();
    log.close().unwrap();
    flip(&segments(&torn)[0], starts[9].0 + 700);
    let out = logforce(&torn, "verify", &["--json", "-"]);
    assert_eq!(out.status.code(), Some(0), "{}", told(&out));
    let report = json(&out);
    assert_eq!(
        (&report["case"], &report["records"]),
        (&"torn-end".into(), &9.into())
    );
    assert!(report["end"].as_u64().unwrap() < end.0);
    let printed = told(&logforce(&torn, "verify", &[]));
    assert!(
        printed.contains("under way") && printed.contains("healthy"),
        "{printed}"
    );
    // It was acknowledged, in truth: nothing says so before a stamp follows.
    assert!(
        printed.contains("the last acknowledged batch, rotten"),
        "{printed}"
    );
    assert!(!printed.contains("never acknowledged"), "{printed}");
    // The one before it is known to have been durable.
    flip(&segments(&torn)[0], starts[8].0 + 700);
    flip(&segments(&torn)[0], starts[9].0 + 700);
    let out = logforce(&torn, "verify", &[]);
    let is_stamped = logforce::facts(dir.path())
        .unwrap()
        .assess(options_method(&torn), logforce::FileState::Zeroed)
        .is_some_and(|a| a.guarantee == logforce::Guarantee::PowerLoss);
    assert_eq!(
        out.status.code(),
        Some(i32::from(is_stamped)),
        "{}",
        told(&out)
    );
}

/// The method that a log there would have.
fn options_method(path: &std::path::Path) -> logforce::Method {
    let log = logforce::create_new(path.with_extension("other"), options()).unwrap();
    log.method()
}

/// The older slot does not know what was written since, so its word on the close is not believed.
#[test]
fn a_close_is_believed_from_both_slots_only() {
    let dir = place();
    let path = dir.path().join("log");
    let (log, _) = filled(&path, 3);
    log.close().unwrap();
    for (damaged, clean) in [(None, true), (Some(65_536), false), (Some(65_536), true)] {
        if let Some(offset) = damaged {
            // The second time it is made whole again.
            flip(&path.join("control"), offset);
        }
        for command in ["verify", "dump", "stat"] {
            let out = logforce(&path, command, &["--json", "-"]);
            assert_eq!(json(&out)["log"]["clean"], clean, "{command}");
            assert_eq!(json(&out)["log"]["control_whole"], clean, "{command}");
        }
    }
}

#[test]
fn what_is_no_log_is_told() {
    let dir = place();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir(at("empty")).unwrap();
    fs::create_dir(at("other")).unwrap();
    fs::write(at("other").join("control"), vec![7; 16384]).unwrap();
    fs::write(at("file"), "x").unwrap();
    for (name, why) in [
        ("nosuch", "does not exist"),
        ("empty", "holds no log"),
        ("other", "is no control file"),
        ("file", "is no directory"),
    ] {
        for command in ["verify", "dump", "stat"] {
            let out = logforce(&at(name), command, &["--json", "-"]);
            assert_eq!(
                out.status.code(),
                Some(1),
                "{command} {name}: {}",
                told(&out)
            );
            assert!(told(&out).contains(why), "{command} {name}: {}", told(&out));
            assert!(out.stdout.is_empty());
            let out = logforce(&at(name), command, &["--salvage"]);
            assert_eq!(
                out.status.code(),
                Some(1),
                "{command} {name}: {}",
                told(&out)
            );
        }
    }
    for arguments in [
        &["--json", "-", "--csv", "-"][..],
        &["--nosuch"],
        &["--from", "x"],
    ] {
        let out = logforce(&at("empty"), "dump", arguments);
        assert_eq!(out.status.code(), Some(2), "{}", told(&out));
    }
}

/// Whoever looks is not sent to the command that he has just given.
#[test]
fn two_segments_for_one_place_are_told() {
    let dir = place();
    let path = dir.path().join("log");
    let (log, _) = filled(&path, 10);
    log.close().unwrap();
    let copy = path.join("00000000000000ff.seg");
    fs::copy(&segments(&path)[0], &copy).unwrap();
    for command in ["verify", "dump", "stat"] {
        let out = logforce(&path, command, &[]);
        assert_eq!(out.status.code(), Some(1), "{}", told(&out));
        for part in ["00000000000000ff.seg", "move the copy away", "--salvage"] {
            assert!(told(&out).contains(part), "no '{part}' in {}", told(&out));
        }
        for part in ["logforce verify", "OnDamage"] {
            assert!(!told(&out).contains(part), "'{part}' in {}", told(&out));
        }
    }
    let out = logforce(&path, "verify", &["--salvage"]);
    assert!(told(&out).contains("move the copy away"), "{}", told(&out));
    assert!(!told(&out).contains("logforce verify"), "{}", told(&out));
}

#[test]
fn without_its_control_file_it_can_be_salvaged() {
    let dir = place();
    let path = dir.path().join("log");
    let (log, starts) = filled(&path, 40);
    log.close().unwrap();
    fs::remove_file(path.join("control")).unwrap();
    let out = logforce(&path, "verify", &[]);
    assert_eq!(out.status.code(), Some(1));
    assert!(told(&out).contains("--salvage"), "{}", told(&out));
    let out = logforce(&path, "dump", &["--salvage", "--records"]);
    assert_eq!(text(&out.stdout).lines().count(), 40, "{}", told(&out));
    let out = logforce(
        &path,
        "dump",
        &["--salvage", "--raw", &starts[11].to_string()],
    );
    assert!(out.stdout.starts_with(b"record 11 "), "{}", told(&out));
    let out = logforce(&path, "stat", &["--salvage", "--scan"]);
    assert!(
        out.status.success() && told(&out).contains("missing"),
        "{}",
        told(&out)
    );
    // No opening recovers it.
    for part in ["the next opening refuses it", "logforce salvage", "UNKNOWN"] {
        assert!(told(&out).contains(part), "no '{part}' in {}", told(&out));
    }
    for part in ["the next opening recovers", "scans at most"] {
        assert!(!told(&out).contains(part), "'{part}' in {}", told(&out));
    }
    let out = logforce(&path, "dump", &["--salvage", "--records"]);
    assert!(text(&out.stderr).contains("truncated at the front"));
}

#[test]
fn hostile_bytes_are_survived() {
    let dir = place();
    let mut x = 88_172_645_463_325_252_u64;
    let mut random = move || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x
    };
    let junk = dir.path().join("junk");
    fs::create_dir(&junk).unwrap();
    for name in [
        "control",
        "0000000000000000.seg",
        "0000000000010000.seg",
        "zzz.seg",
    ] {
        let bytes: Vec<u8> = (0..20_000).map(|_| random() as u8).collect();
        fs::write(junk.join(name), bytes).unwrap();
    }
    let path = dir.path().join("log");
    let (log, _) = filled(&path, 40);
    log.close().unwrap();
    let mut ends = Vec::new();
    for round in 0..12 / LESS {
        let broken = dir.path().join(format!("broken-{round}"));
        copy(&path, &broken);
        for file in segments(&broken)
            .into_iter()
            .chain([broken.join("control")])
        {
            let len = fs::metadata(&file).unwrap().len();
            // Mostly in the headers, where lengths are.
            for _ in 0..1 + random() % 4 {
                flip(
                    &file,
                    random() % if random().is_multiple_of(2) { 256 } else { len },
                );
            }
        }
        ends.push(broken);
    }
    for path in ends.iter().chain([&junk]) {
        for command in ["verify", "dump", "stat"] {
            for arguments in [&[][..], &["--salvage"]] {
                let out = logforce(path, command, arguments);
                let code = out.status.code().unwrap();
                assert!(code == 0 || code == 1, "{code} {}", told(&out));
                assert!(!told(&out).contains("panicked"), "{}", told(&out));
                if path == &junk {
                    assert_eq!(code, 1, "{}", told(&out));
                }
            }
        }
    }
}

#[cfg(unix)]
#[test]
fn unreadable_files_are_told() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    let dir = place();
    let path = dir.path().join("log");
    let (log, _) = filled(&path, 10);
    log.close().unwrap();
    for (what, mode) in [("0000000000000000.seg", 0o644), ("control", 0o644)] {
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        for entry in fs::read_dir(&path).unwrap() {
            fs::set_permissions(entry.unwrap().path(), fs::Permissions::from_mode(mode)).unwrap();
        }
        fs::set_permissions(path.join(what), fs::Permissions::from_mode(0o000)).unwrap();
        for name in ["verify", "dump", "stat"] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_logforce"));
            command.arg(name).arg(&path).stdin(Stdio::null());
            if rustix::process::geteuid().is_root() {
                command.uid(65534).gid(65534);
            }
            // Where the build itself is closed to others nothing can be shown.
            let Ok(out) = command.to_end() else { return };
            assert_eq!(out.status.code(), Some(1), "{name} {what}: {}", told(&out));
            let told = told(&out);
            assert!(
                told.contains(what) && told.contains("ermission denied"),
                "{name} {what}: {told}"
            );
        }
    }
}

/// A scanner or a backup may do that; when it is done with the file, so is the trouble.
#[cfg(windows)]
#[test]
fn a_file_that_somebody_has_open_for_himself_is_told() {
    use std::os::windows::fs::OpenOptionsExt;
    let dir = place();
    let path = dir.path().join("log");
    let (log, _) = filled(&path, 10);
    log.close().unwrap();
    for what in ["0000000000000000.seg", "control"] {
        let mut how = fs::File::options();
        let theirs = how.read(true).share_mode(0).open(path.join(what)).unwrap();
        for name in ["verify", "dump", "stat"] {
            let out = logforce(&path, name, &[]);
            let told = told(&out);
            assert_eq!(out.status.code(), Some(1), "{name} {what}: {told}");
            assert!(
                told.contains(what) && told.contains("os error 32"),
                "{name} {what}: {told}"
            );
            assert!(!told.contains("DAMAGE"), "{name} {what}: {told}");
        }
        drop(theirs);
        let out = logforce(&path, "verify", &[]);
        assert_eq!(out.status.code(), Some(0), "{what}: {}", told(&out));
    }
}

#[test]
fn a_closed_pipe_is_no_panic() {
    let dir = place();
    let path = dir.path().join("log");
    let (log, _) = filled(&path, 400);
    log.close().unwrap();
    for arguments in [
        &["dump"][..],
        &["dump", "--json", "-"],
        &["verify"],
        &["stat", "--csv", "-"],
    ] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_logforce"))
            .args(arguments)
            .arg(&path)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .start()
            .unwrap();
        drop(child.stdout.take());
        let out = child.wait_with_output().unwrap();
        assert_eq!(out.status.code(), Some(0), "{arguments:?}: {}", told(&out));
        assert!(
            !told(&out).contains("panicked") && !told(&out).contains("error"),
            "{}",
            told(&out)
        );
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_told() {
    let dir = place();
    let path = dir.path().join("log");
    let (log, _) = filled(&path, 5);
    log.close().unwrap();
    for command in ["dump", "verify", "stat"] {
        for flag in ["--json", "--csv"] {
            let out = logforce(&path, command, &[flag, "/dev/full"]);
            assert_eq!(
                out.status.code(),
                Some(1),
                "{command} {flag}: {}",
                told(&out)
            );
            assert!(
                told(&out).contains("cannot write /dev/full"),
                "{}",
                told(&out)
            );
        }
    }
}

/// A log that is being written, its front following, is never called damaged.
#[test]
fn a_log_in_use_is_healthy() {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
    let dir = place();
    let path = dir.path().join("log");
    let (log, _) = filled(&path, 10);
    let stop = AtomicBool::new(false);
    let written = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut number = 0_u64;
            while !stop.load(Relaxed) {
                let len = 100 + (number * 7919 % 9000) as usize;
                let done = log.commit(&vec![number as u8; len]).unwrap();
                number += 1;
                written.store(number, Relaxed);
                if number.is_multiple_of(50) {
                    log.truncate_front(done.end).unwrap();
                }
            }
        });
        // At the end it stops also when this one panics.
        struct Raise<'a>(&'a AtomicBool);
        impl Drop for Raise<'_> {
            fn drop(&mut self) {
                self.0.store(true, Relaxed);
            }
        }
        let raise = Raise(&stop);
        let rounds = 20 / LESS;
        let mut round = 0;
        // On a slow disk until it has come to something meanwhile.
        while round < rounds || (written.load(Relaxed) <= 50 && !writer.is_finished()) {
            round += 1;
            for command in ["verify", "dump", "stat"] {
                let out = logforce(&path, command, &[]);
                assert_eq!(
                    out.status.code(),
                    Some(0),
                    "round {round} {command}: {}",
                    told(&out)
                );
                if command == "stat" && round == rounds {
                    assert!(told(&out).contains("of the running log"), "{}", told(&out));
                }
                if command == "verify" {
                    assert!(told(&out).contains("open for writing"), "{}", told(&out));
                }
            }
        }
        drop(raise);
        writer.join().unwrap();
    });
    log.close().unwrap();
    let out = logforce(&path, "verify", &[]);
    assert!(told(&out).contains("closed in order"), "{}", told(&out));
}

/// What a running log wrote down is shown without asking it, and later as what it is.
#[test]
fn statistics_of_a_running_log() {
    let dir = place();
    let path = dir.path().join("log");
    let (log, _) = filled(&path, 10);
    let begun = std::time::Instant::now();
    let report = loop {
        let out = logforce(&path, "stat", &["--json", "-"]);
        let report = json(&out);
        if report["live"]["counters"]["records"] == 10 {
            break report;
        }
        assert!(begun.elapsed().as_secs() < 60, "{report}");
        std::thread::sleep(std::time::Duration::from_millis(100));
    };
    let live = &report["live"];
    assert_eq!(live["source"], "running");
    assert_eq!(live["pid"], std::process::id());
    assert_eq!(live["durable"], log.durable_lsn().0);
    assert_eq!(live["histograms"]["commit_ns"]["count"], 10);
    assert_eq!(live["histograms"]["batch_records"]["mean"], 1.0);
    assert!(live["age_seconds"].as_f64().unwrap() < 60.0, "{live}");
    assert!(
        live["commit_to_force_ratio"].as_f64().unwrap() > 0.5,
        "{live}"
    );
    let names = logforce::Counters::NAMES;
    assert_eq!(live["counters"].as_object().unwrap().len(), names.len());
    log.close().unwrap();

    let out = logforce(&path, "stat", &[]);
    let printed = text(&out.stdout);
    for part in [
        "of its last run",
        "10 records",
        "a force",
        "times its force",
    ] {
        assert!(printed.contains(part), "no '{part}' in {printed}");
    }
    let quiet = logforce::open_existing(&path, options().live_stats(false)).unwrap();
    let printed = text(&logforce(&path, "stat", &[]).stdout);
    assert!(printed.contains("of an earlier run"), "{printed}");
    quiet.close().unwrap();
    fs::write(path.join("live"), b"rubbish").unwrap();
    let out = logforce(&path, "stat", &["--json", "-"]);
    assert_eq!(out.status.code(), Some(0), "{}", told(&out));
    assert_eq!(json(&out)["live"], Value::Null);
}
