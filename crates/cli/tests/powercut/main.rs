//! `logforce powercut`: a complete run, and its failures. The test simulates the power cuts.

#[path = "../all/common/mod.rs"]
mod common;
mod hostile;
mod testbed;

use common::text;
use logforce::{ErrorKind, Options, Verdict, disk::cuts};
use logforce_testkit::process::Start;
use serde_json::Value;
use std::fs;
use std::io::Read;
use testbed::{METHOD, Rig, testbed, wipe_log, witness};

fn open_beside(testbed: &Rig) -> logforce::Result<logforce::Log> {
    let options = Options::new()
        .method(METHOD)
        .calibration_cache(testbed.path("cache"));
    logforce::open_or_create(testbed.path("somebodys.log"), options)
}

fn assert_documented(report: &Value) {
    let document = include_str!("../../../../docs/cli-json.md");
    for part in [report, &report["rounds"][0]] {
        for name in part.as_object().unwrap().keys() {
            let is_documented = document.contains(&format!("`{name}`"));
            assert!(is_documented, "{name} is not documented");
        }
    }
}

#[test]
fn a_log_that_keeps_everything_is_proven_and_one_that_does_not_is_contradicted() {
    let Some(testbed) = testbed() else { return };
    testbed.ready();
    let log = open_beside(&testbed).unwrap();
    assert_ne!(log.recovered().verdict, Verdict::Proven);
    drop(log);
    for (round, cuts) in [(2, 1), (3, 2)] {
        testbed.cut(round, "canary");
        let report = testbed.checked(0);
        assert_eq!(report["verdict"], "proven", "{report}");
        assert_eq!(
            (&report["cuts"], &report["lost"]),
            (&cuts.into(), &0.into())
        );
        assert!(report["expected"].as_u64().unwrap() > 0);
        assert!(report["control_lost"].as_u64().unwrap() > 0);
        let sum = format!("kept all of {} acknowledged commits", report["expected"]);
        assert!(report["conclusion"].as_str().unwrap().contains(&sum));
        assert_eq!(report["same_boot"], cfg!(target_os = "linux"));
        let files = [
            testbed.dir().join(cuts::NAME),
            testbed.path("cache").join(cuts::NAME),
        ];
        assert_eq!(
            report["recorded"],
            Value::from(files.map(|f| f.display().to_string()).to_vec())
        );
        assert_documented(&report);
        // A second check gives the same result and counts nothing twice.
        assert_eq!(testbed.checked(0)["expected"], report["expected"]);
        assert_eq!(cuts::recorded(testbed.path("cache")).unwrap()[0].cuts, cuts);
    }
    let log = open_beside(&testbed).unwrap();
    assert_eq!(log.recovered().verdict, Verdict::Proven);
    assert!(
        log.recovered()
            .evidence
            .starts_with("over 2 power cuts all of"),
        "{}",
        log.recovered().evidence
    );
    drop(log);

    testbed.cut(4, "canary");
    wipe_log(&testbed.dir());
    let report = testbed.checked(1);
    assert_eq!(report["verdict"], "contradicted", "{report}");
    assert!(report["lost"].as_u64().unwrap() > 0);
    assert!(!report["findings"].as_array().unwrap().is_empty());
    let said = testbed.refused_to_write(&[]);
    assert!(said.contains(&format!("is over: {METHOD} lost")), "{said}");
    for _ in 0..2 {
        let refused = open_beside(&testbed).map(drop).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unavailable);
        assert!(
            refused.to_string().contains("a power cut lost"),
            "{refused}"
        );
    }
}

#[test]
fn without_a_loss_in_the_control_phase_nothing_is_measured() {
    let Some(testbed) = testbed() else { return };
    for round in [1, 2] {
        let mut writer = testbed.write(&[]);
        testbed.reaches(round, 0, 50);
        writer.kill();
        let said = testbed.refused_to_write(&[]);
        assert!(said.contains("was not checked yet"), "{said}");
        let report = testbed.checked(3);
        assert_eq!(report["verdict"], "inconclusive");
        let conclusion = report["conclusion"].as_str().unwrap();
        assert!(conclusion.contains("has not shown yet"), "{conclusion}");
        assert!(conclusion.contains("Pull the plug"), "{conclusion}");
        let phases = report["rounds"].as_array().unwrap();
        assert!(phases.iter().all(|r| r["phase"] == "control"));
    }
    assert!(!testbed.path("cache").join(cuts::NAME).exists());
}

#[test]
fn a_round_without_a_cut_counts_as_nothing() {
    let Some(testbed) = testbed() else { return };
    testbed.ready();
    let mut writer = testbed.write(&[]);
    testbed.reaches(2, 300, 50);
    writer.kill();
    let report = testbed.checked(3);
    assert_eq!(report["verdict"], "inconclusive", "{report}");
    assert_eq!(
        (&report["cuts"], &report["without_cut"]),
        (&0.into(), &1.into())
    );
    assert!(
        report["conclusion"]
            .as_str()
            .unwrap()
            .contains("shows no power cut")
    );
    assert_eq!(report["recorded"], Value::Array(Vec::new()));
    testbed.cut(3, "canary");
    assert_eq!(testbed.checked(0)["verdict"], "proven");
}

#[test]
#[cfg(unix)]
fn a_writer_that_is_ended_in_order_leaves_a_void_round() {
    let Some(testbed) = testbed() else { return };
    let mut writer = testbed.write(&[]);
    testbed.reaches(1, 0, 5);
    let said = testbed.refused_to_write(&[]);
    assert!(
        said.contains("another `logforce powercut` is running"),
        "{said}"
    );
    let out = testbed.check(&[]);
    assert!(text(&out.stderr).contains("is running"), "{out:?}");
    writer.interrupt();
    assert_eq!(writer.ended(), 130);
    let mut said = String::new();
    writer
        .0
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    assert!(said.contains("no cut took place"), "{said}");
    let out = testbed.check(&[]);
    assert_eq!(out.status.code(), Some(4));
    assert!(text(&out.stderr).contains("ended without a cut"), "{out:?}");
    let mut timed = testbed.write(&["--for", "50ms"]);
    assert_eq!(timed.ended(), 0);
    let said = testbed.refused_to_write(&["--method", "buffered"]);
    assert!(
        said.contains(&format!("begun with --method {METHOD}")),
        "{said}"
    );
}

#[test]
fn a_log_that_vanished_is_a_loss_and_a_wrong_directory_is_none() {
    let Some(testbed) = testbed() else { return };
    testbed.ready();
    testbed.cut(2, "canary");
    let run = testbed.run_id().to_string();
    // Wrong directories of all kinds.
    let foreign = testbed.path("foreign");
    fs::create_dir(&foreign).unwrap();
    fs::write(foreign.join("letter"), "x").unwrap();
    let empty = testbed.path("empty");
    fs::create_dir(&empty).unwrap();
    for (dir, words) in [
        (testbed.path("nosuch"), "does not exist"),
        (empty, "is empty"),
        (foreign.clone(), "contains other files"),
    ] {
        let out = testbed.command("check", &dir, &[]).to_end().unwrap();
        assert_eq!(out.status.code(), Some(4));
        let said = text(&out.stderr);
        assert!(said.contains(words) && said.contains("--run ID"), "{said}");
    }
    let out = testbed.command("write", &foreign, &[]).to_end().unwrap();
    // The directory of another run.
    assert!(
        text(&out.stderr).contains("contains other files"),
        "{out:?}"
    );
    let other = "0123456789abcdef0123456789abcdef";
    let out = testbed.check(&["--run", other]);
    assert!(text(&out.stderr).contains("belongs to run"), "{out:?}");
    let stranger = witness(&testbed.path("another-store"));
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_logforce"));
    command.args(["powercut", "check", "--witness", &stranger.address]);
    let out = command.arg(testbed.dir()).to_end().unwrap();
    assert_eq!(out.status.code(), Some(4));
    assert!(text(&out.stderr).contains("does not know run"), "{out:?}");
    // None of these gave a verdict or changed anything.
    assert!(!testbed.path("cache").join(cuts::NAME).exists());
    // The right directory without its log, and then without anything.
    fs::remove_dir_all(testbed.dir()).unwrap();
    let out = testbed.check(&[]);
    assert_eq!(out.status.code(), Some(4));
    assert!(text(&out.stderr).contains("does not exist"), "{out:?}");
    let out = testbed.check(&["--run", &run, "--json", "-"]);
    assert_eq!(out.status.code(), Some(1), "{out:?}");
    let report: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(report["verdict"], "contradicted");
    assert_eq!(report["lost"], report["expected"]);
    assert_eq!(cuts::recorded(testbed.path("cache")).unwrap().len(), 1);
}

#[test]
fn a_log_whose_files_are_gone_is_a_loss() {
    let Some(testbed) = testbed() else { return };
    testbed.ready();
    testbed.cut(2, "canary");
    fs::remove_dir_all(testbed.dir().join("log")).unwrap();
    let report = testbed.checked(1);
    assert_eq!(report["verdict"], "contradicted", "{report}");
    assert_eq!(report["lost"], report["expected"]);
    let finding = report["findings"][0].as_str().unwrap();
    assert!(finding.contains("cannot be opened"), "{finding}");
}

#[test]
fn a_witness_that_goes_stops_the_writer_and_knows_it_all_when_it_is_back() {
    let Some(mut testbed) = testbed() else { return };
    testbed.ready();
    let mut writer = testbed.write(&[]);
    let seen = testbed.reaches(2, 300, 50);
    testbed.witness.process.kill();
    assert_eq!(writer.ended(), 4);
    let mut said = String::new();
    writer
        .0
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    for words in [
        "the witness at 127.0.0.1",
        "lost the connection",
        "commits",
        "same --store",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let out = testbed.check(&[]);
    assert_eq!(out.status.code(), Some(4));
    let said = text(&out.stderr);
    assert!(said.contains("cannot be reached"), "{said}");
    assert!(said.contains(&testbed.witness.address), "{said}");
    testbed.witness = witness(&testbed.path("store"));
    let known = testbed.round().unwrap();
    assert!(known.acknowledged >= seen.acknowledged, "{known:?}");
    let report = testbed.checked(3);
    assert_eq!(report["rounds"][1]["acknowledged"], known.acknowledged);
    assert_eq!(report["rounds"][1]["lost"], 0);
    testbed.cut(3, "canary");
    assert_eq!(testbed.checked(0)["verdict"], "proven");
    #[cfg(unix)]
    {
        testbed.witness.process.interrupt();
        assert_eq!(testbed.witness.process.ended(), 0);
    }
}

#[test]
fn two_witnesses_do_not_share_a_store() {
    let Some(testbed) = testbed() else { return };
    let mut second = std::process::Command::new(env!("CARGO_BIN_EXE_logforce"));
    second.args(["powercut", "witness", "--listen", "127.0.0.1:0", "--store"]);
    let out = second.arg(testbed.path("store")).to_end().unwrap();
    assert_eq!(out.status.code(), Some(4));
    assert!(
        text(&out.stderr).contains("another witness is using"),
        "{out:?}"
    );
}
