//! Tests of the reasons to stop a pipeline.

mod common;

use common::{changed, sample};
use logforce_report::Document;
use logforce_report::compare::{Verdict, compare, text};
use serde_json::{Value, json};

/// Returns the sample `inserts` with these fields of each row whose commits are forced multiplied by `factor`.
fn inserts(fields: &[&str], factor: f64) -> Document {
    changed("inserts", |v| {
        let rows = v["rows"].as_array_mut().into_iter().flatten();
        for row in rows.filter(|row| row["policy"] == 1) {
            for field in fields {
                if let Some(value) = row[*field].as_f64() {
                    row[*field] = (value * factor).into();
                }
            }
        }
    })
}

#[test]
fn what_is_called_slower_and_is_more_than_accepted_stops_a_pipeline() {
    let with = |low: f64, mid: f64, high: f64| {
        changed("journal", |v| {
            let mut row = v["rows"][1].clone();
            assert_eq!(row["method"], "fsync");
            row["ms_per_commit_p10"] = low.into();
            row["ms_per_commit"] = mid.into();
            row["ms_per_commit_p90"] = high.into();
            v["rows"] = json!([row]);
        })
    };
    let slower = |b: &Document, part| {
        let found = compare(("a", &with(0.9, 1.0, 1.1)), ("b", b)).unwrap();
        found.gate(part).slower.len()
    };
    assert_eq!(slower(&with(1.0, 1.3, 1.6), 0.1), 0, "they overlap");
    assert_eq!(slower(&with(1.15, 1.3, 1.6), 0.1), 0, "no control");
    assert_eq!(slower(&with(1.45, 1.6, 1.8), 0.1), 1, "60 % are printed");
    assert_eq!(slower(&with(1.45, 1.6, 1.8), 0.59), 1);
    assert_eq!(slower(&with(1.45, 1.6, 1.8), 0.61), 0);
}

/// Returns the sample `journal` with the times of the rows that `is_slow` accepts multiplied by `factor`.
fn journal(factor: f64, is_slow: impl Fn(&Value) -> bool) -> Document {
    changed("journal", |v| {
        let rows = v["rows"].as_array_mut().into_iter().flatten();
        for row in rows.filter(|row| is_slow(row)) {
            for field in ["ms_per_commit", "ms_per_commit_p10", "ms_per_commit_p90"] {
                if let Some(value) = row[field].as_f64() {
                    row[field] = (value * factor).into();
                }
            }
        }
    })
}

#[test]
fn rows_that_force_nothing_are_the_control() {
    let a = sample("journal");
    let is_control = |row: &Value| row["method"] == "buffered" || row["method"] == "direct";
    let b = journal(20.0, |row| !is_control(row));
    let found = compare(("a", &a), ("b", &b)).unwrap();
    assert_eq!((found.control.rows, found.count(Verdict::Slower)), (8, 25));
    assert_eq!(found.count(Verdict::Machine), 0);
    assert_eq!(found.control.movement, 1.02, "the least");
    assert_eq!(found.gate(0.1).slower.len(), 25);
    // If the rows that force nothing moved as well, the machine moved.
    let b = journal(20.0, |_| true);
    let found = compare(("a", &a), ("b", &b)).unwrap();
    assert_eq!(found.count(Verdict::Slower), 0);
    assert_eq!(found.count(Verdict::Machine), 33);
    let gate = found.gate(0.1);
    assert_eq!((gate.is_open(), gate.machine.len()), (true, 33));
    assert!(found.gate(20.0).machine.is_empty(), "more is accepted");
    let printed = text(&found, 120);
    for part in [
        "33 changed no more than the machine",
        "Control: 8 rows that force nothing moved by up to 20.0 times",
        "machine moved",
    ] {
        assert!(printed.contains(part), "no '{part}' in {printed}");
    }
    // Another disk is what was asked for: only writes to the system's cache are a control.
    let other = |factor| {
        let b = journal(factor, |row| row["method"] != "buffered");
        let mut value = serde_json::to_value(&b).unwrap();
        value["machine"]["device"] = "sdz".into();
        Document::from_value(value, "b").unwrap()
    };
    let found = compare(("a", &a), ("b", &other(20.0))).unwrap();
    assert_eq!((found.control.rows, found.count(Verdict::Slower)), (4, 29));
}

/// The rows of two runs beside builds: 90 % of the longer times were waits for a processor.
#[test]
fn waits_for_a_processor_are_no_loss() {
    let with = |ms: f64, wait: Value| {
        changed("journal", |v| {
            let rows = v["rows"].as_array_mut().into_iter().flatten();
            for row in rows.filter(|row| row["method"] == "fsync") {
                row["ms_per_commit"] = ms.into();
                row["ms_per_commit_p10"] = (ms * 0.95).into();
                row["ms_per_commit_p90"] = (ms * 1.05).into();
                row["cpu_wait_percent"] = wait.clone();
            }
        })
    };
    let a = with(0.4, json!(20.0));
    let verdicts = |b: &Document| {
        let found = compare(("a", &a), ("b", b)).unwrap();
        (found.count(Verdict::Slower), found.count(Verdict::Machine))
    };
    assert_eq!(verdicts(&with(3.8, json!(90.3))), (0, 4));
    assert_eq!(verdicts(&with(3.8, json!(10.0))), (4, 0));
    assert_eq!(verdicts(&with(3.8, Value::Null)), (4, 0));
}

/// With any noise, a row that is called slower by more than the threshold stops the pipeline.
#[test]
fn each_threshold_takes_effect_where_the_noise_ends() {
    let a = sample("inserts");
    for (factor, rows) in [(1.2, 0), (1.3, 33), (1.36, 33)] {
        let b = inserts(&["commits_per_s"], 1.0 / factor);
        let found = compare(("a", &a), ("b", &b)).unwrap();
        assert_eq!(found.count(Verdict::Slower), rows, "{factor}");
        assert_eq!(found.gate(0.1).slower.len(), rows, "{factor}");
        assert!(found.gate(0.4).is_open());
        let told = found.least_effective(0.1).unwrap();
        for part in [
            "In 100 of 100 rows the noise is larger than 10 %",
            "27.5 % or more in 83 rows without slices (~)",
        ] {
            assert!(told.contains(part), "{told}");
        }
    }
    let own = compare(("a", &a), ("b", &a)).unwrap();
    assert_eq!(own.least_effective(1000.0), None);
}

/// The seconds of the pairs, the main subject of `inserts`, are compared too.
#[test]
fn the_pairs_of_inserts_are_compared() {
    let fields = ["pairs_s", "pairs_s_p10", "pairs_s_p90"];
    let a = sample("inserts");
    let found = compare(("a", &a), ("b", &inserts(&fields, 3.0))).unwrap();
    let slower: Vec<_> = found.gate(1.9).slower;
    assert!(slower.len() > 3, "{slower:?}");
    assert!(
        slower
            .iter()
            .all(|p| p.field == "pairs_s" && p.row.ends_with("pairs in s"))
    );
    let differ = found.rows.iter().filter(|p| p.time_ratio != Some(1.0));
    // Two of the rows have slices that are too far apart.
    assert_eq!(differ.count(), slower.len() + 2);
    assert!(text(&found, 200).contains("pairs in s"));
    // Times of different numbers of pairs are not compared.
    let fewer = changed("inserts", |v| {
        v["command"] = "logforce bench inserts --pairs 50".into()
    });
    let found = compare(("a", &a), ("b", &fewer)).unwrap();
    assert!(found.rows.iter().all(|p| p.field == "commits_per_s"));
    assert_eq!(found.gate(9.0).not_comparable.len(), 25);
    assert!(text(&found, 200).contains("--pairs 500 and B with --pairs 50"));
}

#[test]
fn rows_that_failed_or_are_missing_are_told() {
    let a = sample("journal");
    let b = changed("journal", |v| {
        v["rows"][0]["error"] = "no space".into();
        v["rows"][0]["ms_per_commit"] = Value::Null;
        v["rows"].as_array_mut().unwrap().remove(5);
        v["machine"]["kernel"] = "7.0".into();
        v["interrupted"] = true.into();
    });
    let found = compare(("a", &a), ("b", &b)).unwrap();
    assert_eq!(
        (found.rows.len(), found.only_a.len(), found.only_b.len()),
        (32, 1, 0)
    );
    let gate = found.gate(10.0);
    assert_eq!((gate.slower.len(), gate.not_comparable.len()), (0, 1));
    assert_eq!(gate.failed.len(), 1);
    assert_eq!(
        (gate.failed[0].verdict, gate.failed[0].error.as_deref()),
        (Verdict::Failed, Some("no space"))
    );
    let printed = text(&found, 120);
    let words: Vec<&str> = printed.split_whitespace().collect();
    let printed = words.join(" ");
    for part in [
        "kernel (6.12.9 and 7.0)",
        "B was interrupted",
        "Only in A",
        "1 without a figure in B",
        "1 more of A cannot be compared",
    ] {
        assert!(printed.contains(part), "no '{part}' in {printed}");
    }
    let back = compare(("b", &b), ("a", &a)).unwrap();
    assert_eq!((back.count(Verdict::Recovered), back.only_b.len()), (1, 1));
    assert!(
        back.gate(10.0).is_open(),
        "more rows than before are not a loss"
    );
}

/// A figure of 0 means that B made no commit, which counts as a failure.
#[test]
fn a_figure_that_is_gone_stops_a_pipeline() {
    let a = sample("inserts");
    for value in [json!(0), json!(0.0), json!(-1.0), Value::Null] {
        let b = changed("inserts", |v| v["rows"][0]["commits_per_s"] = value.clone());
        let found = compare(("a", &a), ("b", &b)).unwrap();
        assert_eq!(found.gate(1e6).failed.len(), 1, "{value}");
        assert_eq!(found.count(Verdict::Unmeasured), 0, "{value}");
    }
    // A figure that A did not measure either is not a loss.
    let none = changed("inserts", |v| v["rows"][0]["commits_per_s"] = Value::Null);
    let gone = changed("inserts", |v| {
        v["rows"][0]["pairs_s"] = Value::Null;
        v["rows"][0]["commits_per_s"] = Value::Null;
    });
    let found = compare(("a", &none), ("b", &gone)).unwrap();
    assert_eq!(found.gate(1e6).failed.len(), 1, "its pairs");
    let found = compare(("a", &gone), ("b", &gone)).unwrap();
    assert!(found.gate(1e6).is_open());
}
