//! `dump`, `verify` and `stat` on whole logs, closed and in use.

use crate::common::{place, text};
use crate::logs::{LESS, all_output, filled, json, logforce, options};
use serde_json::Value;
use std::fs;

#[test]
fn a_healthy_log() {
    let dir = place();
    let path = dir.path().join("log");
    let (log, starts) = filled(&path, 100);
    log.close().unwrap();

    let out = logforce(&path, "verify", &[]);
    assert_eq!(out.status.code(), Some(0), "{}", all_output(&out));
    let printed = text(&out.stdout);
    for part in ["100 records", "healthy", "closed cleanly", "GB/s"] {
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
    // As in `doctor`: if times are meaningless here, the first note says so.
    let facts = json(&logforce(&path, "doctor", &["--passive", "--json", "-"]));
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
    assert_eq!(out.status.code(), Some(0), "{}", all_output(&out));
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
        assert_eq!(out.status.code(), Some(0), "{}", all_output(&out));
        text(&out.stdout)
            .lines()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let range = ["--from", &from, "--to", &to];
    assert_eq!(lines(&[&range[..], &["--records"]].concat()).len(), 3);
    assert_eq!(lines(&[&range[..], &["--batches"]].concat()).len(), 3);
    assert_eq!(lines(&["--limit", "4"]).len(), 4);
    assert_eq!(lines(&["--records"]).len(), 20, "ten were voided");
    assert!(
        lines(&["--batches"])
            .iter()
            .any(|l| l.contains("voids from"))
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
    // A batch and a record are at the reported offset of the file.
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
        (starts[25].0, "voided"),
    ] {
        let out = logforce(&path, "dump", &["--raw", &lsn.to_string()]);
        assert_eq!(out.status.code(), Some(4));
        assert!(
            out.stdout.is_empty() && all_output(&out).contains(why),
            "{}",
            all_output(&out)
        );
        // Quoted for a shell if the directory of the tests needs it.
        let shown = all_output(&out).replace(['\'', '"'], "");
        let advice = format!("`logforce dump {} --records`", path.display());
        assert!(shown.contains(&advice), "{shown}");
    }
}

/// A log that is written and truncated at its front meanwhile is never reported as damaged.
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
        // Stops the writer at the end, also after a panic.
        struct Raise<'a>(&'a AtomicBool);
        impl Drop for Raise<'_> {
            fn drop(&mut self) {
                self.0.store(true, Relaxed);
            }
        }
        let raise = Raise(&stop);
        let rounds = 20 / LESS;
        let mut round = 0;
        // On a slow disk it goes on until the writer has made progress.
        while round < rounds || (written.load(Relaxed) <= 50 && !writer.is_finished()) {
            round += 1;
            for command in ["verify", "dump", "stat"] {
                let out = logforce(&path, command, &[]);
                assert_eq!(
                    out.status.code(),
                    Some(0),
                    "round {round} {command}: {}",
                    all_output(&out)
                );
                if command == "stat" && round == rounds {
                    assert!(
                        all_output(&out).contains("of the running log"),
                        "{}",
                        all_output(&out)
                    );
                }
                if command == "verify" {
                    assert!(
                        all_output(&out).contains("open for writing"),
                        "{}",
                        all_output(&out)
                    );
                }
            }
        }
        drop(raise);
        writer.join().unwrap();
    });
    log.close().unwrap();
    let out = logforce(&path, "verify", &[]);
    assert!(
        all_output(&out).contains("closed cleanly"),
        "{}",
        all_output(&out)
    );
}

/// The statistics of a running log are read from its file, and later shown as those of its last run.
#[test]
fn statistics_of_a_running_log() {
    let dir = place();
    let path = dir.path().join("log");
    let (log, _) = filled(&path, 10);
    let begun = std::time::Instant::now();
    let report = loop {
        let out = logforce(&path, "stat", &["--json", "-"]);
        let report = json(&out);
        // A pause adds a stamp, which appears on the page of statistics a little later.
        let live = &report["live"];
        if live["counters"]["records"] == 10 && live["durable"] == log.durable_lsn().0 {
            break report;
        }
        assert!(begun.elapsed().as_secs() < 60, "{report}");
        std::thread::sleep(std::time::Duration::from_millis(100));
    };
    let live = &report["live"];
    assert_eq!(live["source"], "running");
    assert_eq!(live["pid"], std::process::id());
    assert_eq!(live["histograms"]["commit_ns"]["count"], 10);
    assert_eq!(live["histograms"]["batch_records"]["mean"], 1.0);
    assert!(live["age_seconds"].as_f64().unwrap() < 60.0, "{live}");
    assert!(
        live["commit_to_force_ratio"].as_f64().unwrap() > 0.5,
        "{live}"
    );
    let names = logforce::stats::Counters::NAMES;
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
    let quiet = logforce::open_existing(
        &path,
        options().tuning(logforce::Tuning::new().live_stats(false)),
    )
    .unwrap();
    let printed = text(&logforce(&path, "stat", &[]).stdout);
    assert!(printed.contains("of an earlier run"), "{printed}");
    quiet.close().unwrap();
    fs::write(path.join("live"), b"rubbish").unwrap();
    let out = logforce(&path, "stat", &["--json", "-"]);
    assert_eq!(out.status.code(), Some(0), "{}", all_output(&out));
    assert_eq!(json(&out)["live"], Value::Null);
}
