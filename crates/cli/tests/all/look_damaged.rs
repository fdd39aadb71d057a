//! `dump`, `verify` and `stat` on damaged and truncated logs.

use crate::common::{place, text};
use crate::logs::{
    LESS, SEGMENT, all_output, copy, filled, flip, json, logforce, options, segments,
};
use std::fs;
use std::process::Command;

/// The anchor lies in the missing segment. No other segment is named for it.
#[test]
fn the_only_segment_is_lost() {
    let dir = place();
    let path = dir.path().join("log");
    filled(&path, 3).0.close().unwrap();
    let all = segments(&path);
    all.iter().for_each(|file| fs::remove_file(file).unwrap());
    let out = logforce(&path, "verify", &["--json", "-"]);
    assert_eq!(out.status.code(), Some(1), "{}", all_output(&out));
    let report = json(&out);
    let damage = report["damage"].as_array().unwrap();
    assert!(damage.len() > 1, "the anchor is not within: {report}");
    let names: Vec<&str> = all
        .iter()
        .map(|s| s.file_name().unwrap().to_str().unwrap())
        .collect();
    for one in damage {
        assert!(names.contains(&one["file"].as_str().unwrap()), "{report}");
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
    assert_eq!(out.status.code(), Some(1), "{}", all_output(&out));
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
    let next = format!("next: `logforce salvage {} NEW`", path.display());
    assert!(printed.contains(&next), "{printed}");
    // Only a command that reads the log finds it.
    for (arguments, status) in [
        (&["--scan"][..], 1),
        (&[], 0),
        (&["--scan", "--json", "-"], 1),
    ] {
        let out = logforce(&path, "stat", arguments);
        assert_eq!(out.status.code(), Some(status), "{}", all_output(&out));
    }
    let help = Command::new(env!("CARGO_BIN_EXE_logforce"))
        .args(["stat", "--help"])
        .output()
        .unwrap();
    assert!(text(&help.stdout).contains("Exit status: 0"));
    let out = logforce(&path, "dump", &[]);
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out.stdout).contains("DAMAGE") && text(&out.stdout).contains(&place));
    // Records after the damage are still shown.
    assert!(
        text(&out.stdout).contains("record 59 "),
        "{}",
        all_output(&out)
    );
}

/// If every segment has a damaged header, the write unit is reported as unknown.
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
        // The last but one segment holds the log's end.
        let gone = segments(&path).remove(which);
        fs::remove_file(&gone).unwrap();
        let out = logforce(&path, "verify", &["--json", "-"]);
        assert_eq!(out.status.code(), Some(1), "{which}: {}", all_output(&out));
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
    assert_eq!(out.status.code(), Some(0), "{}", all_output(&out));
    let report = json(&out);
    assert_eq!(
        (&report["case"], &report["records"]),
        (&"torn-end".into(), &9.into())
    );
    assert!(report["end"].as_u64().unwrap() < end.0);
    let printed = all_output(&logforce(&torn, "verify", &[]));
    assert!(
        printed.contains("in flight") && printed.contains("healthy"),
        "{printed}"
    );
    // The batch was acknowledged, but nothing shows this before a stamp follows.
    assert!(
        printed.contains("the last acknowledged batch would look the same"),
        "{printed}"
    );
    assert!(!printed.contains("never acknowledged"), "{printed}");
    // The batch before it is known to have been durable.
    flip(&segments(&torn)[0], starts[8].0 + 700);
    flip(&segments(&torn)[0], starts[9].0 + 700);
    let out = logforce(&torn, "verify", &[]);
    let is_stamped = logforce::disk::facts(dir.path())
        .unwrap()
        .assess(options_method(&torn), logforce::disk::FileState::Zeroed)
        .is_some_and(|a| a.guarantee == logforce::Guarantee::PowerLoss);
    assert_eq!(
        out.status.code(),
        Some(i32::from(is_stamped)),
        "{}",
        all_output(&out)
    );
}

/// Returns the method that a log there would have.
fn options_method(path: &std::path::Path) -> logforce::Method {
    let log = logforce::create_new(path.with_extension("other"), options()).unwrap();
    log.recovered().method
}

/// The older slot does not cover later writes, so its clean flag does not count.
#[test]
fn a_close_is_believed_from_both_slots_only() {
    let dir = place();
    let path = dir.path().join("log");
    let (log, _) = filled(&path, 3);
    log.close().unwrap();
    for (damaged, clean) in [(None, true), (Some(65_536), false), (Some(65_536), true)] {
        if let Some(offset) = damaged {
            // The second flip of the bit restores it.
            flip(&path.join("control"), offset);
        }
        for command in ["verify", "dump", "stat"] {
            let out = logforce(&path, command, &["--json", "-"]);
            assert_eq!(json(&out)["log"]["clean"], clean, "{command}");
            assert_eq!(json(&out)["log"]["control_whole"], clean, "{command}");
        }
    }
}

/// The advice does not name the command that the user has just run.
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
        assert_eq!(out.status.code(), Some(1), "{}", all_output(&out));
        for part in ["00000000000000ff.seg", "move the copy away", "--salvage"] {
            assert!(
                all_output(&out).contains(part),
                "no '{part}' in {}",
                all_output(&out)
            );
        }
        for part in ["logforce verify", "logforce repair"] {
            assert!(
                !all_output(&out).contains(part),
                "'{part}' in {}",
                all_output(&out)
            );
        }
    }
    let out = logforce(&path, "verify", &["--salvage"]);
    assert!(
        all_output(&out).contains("move the copy away"),
        "{}",
        all_output(&out)
    );
    assert!(
        !all_output(&out).contains("logforce verify"),
        "{}",
        all_output(&out)
    );
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
    assert!(
        all_output(&out).contains("--salvage"),
        "{}",
        all_output(&out)
    );
    let out = logforce(&path, "dump", &["--salvage", "--records"]);
    assert_eq!(
        text(&out.stdout).lines().count(),
        40,
        "{}",
        all_output(&out)
    );
    let out = logforce(
        &path,
        "dump",
        &["--salvage", "--raw", &starts[11].to_string()],
    );
    assert!(
        out.stdout.starts_with(b"record 11 "),
        "{}",
        all_output(&out)
    );
    let out = logforce(&path, "stat", &["--salvage", "--scan"]);
    assert!(
        out.status.success() && all_output(&out).contains("missing"),
        "{}",
        all_output(&out)
    );
    // No opening recovers it.
    for part in ["the next opening refuses it", "logforce salvage", "UNKNOWN"] {
        assert!(
            all_output(&out).contains(part),
            "no '{part}' in {}",
            all_output(&out)
        );
    }
    for part in ["the next opening recovers", "scans at most"] {
        assert!(
            !all_output(&out).contains(part),
            "'{part}' in {}",
            all_output(&out)
        );
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
            // Mostly in the headers, which hold lengths.
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
                assert!(code == 0 || code == 1, "{code} {}", all_output(&out));
                assert!(
                    !all_output(&out).contains("panicked"),
                    "{}",
                    all_output(&out)
                );
                if path == &junk {
                    assert_eq!(code, 1, "{}", all_output(&out));
                }
            }
        }
    }
}

/// The advice of the library is not followed by the same advice of the command.
#[test]
fn a_control_file_without_its_bytes() {
    let home = place();
    let path = home.path().join("log");
    filled(&path, 5).0.close().unwrap();
    fs::write(path.join("control"), vec![0; 1 << 18]).unwrap();
    for command in ["verify", "stat", "dump"] {
        let out = logforce(&path, command, &[]);
        let said = all_output(&out);
        assert_eq!(out.status.code(), Some(1), "{said}");
        assert_eq!(said.matches("--salvage").count(), 1, "{said}");
    }
}
