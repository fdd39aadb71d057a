//! `logforce bench pairs`, with so little to do that it takes no time. Nothing here depends on how
//! fast the disk is.

use crate::common::{place, text};
use crate::runs::{assert_empty, command};
use logforce_testkit::process::Start;
use serde_json::Value;

const TINY: [&str; 12] = [
    "--pairs",
    "2",
    "--slice",
    "5",
    "--bulk",
    "2MiB",
    "--bulk-pairs",
    "2",
    "--log",
    "4MiB",
    "--memory",
    "4MiB",
];

#[test]
fn compares_everything() {
    let dir = place();
    let arguments = [&["pairs", "--json", "-"], &TINY[..]].concat();
    let out = command(dir.path(), &arguments).to_end().unwrap();
    let told = text(&out.stderr);
    if told.contains("not enough free space") {
        return;
    }
    assert!(out.status.success(), "{told}");
    let report: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(report["schema"], "logforce-pairs");
    let rows = report["rows"].as_array().unwrap();
    let names: Vec<&str> = rows.iter().map(|r| r["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "commit-16KiB",
            "commit-128B",
            "bulk",
            "open-after-kill",
            "open-after-close",
            "scan",
            "memory"
        ]
    );
    for row in rows {
        assert!(row["error"].is_null(), "{row}");
        assert!(row["value"].is_number() && row["met"].is_boolean(), "{row}");
    }
    assert_eq!(
        (&rows[0]["pairs"], &rows[2]["pairs"]),
        (&2.into(), &2.into())
    );
    assert!(told.contains("target ≤ 1.05: "), "{told}");
    assert_empty(dir.path());
    let document = include_str!("../../../../docs/cli-json.md");
    for name in rows[0].as_object().unwrap().keys() {
        assert!(
            document.contains(&format!("`{name}`")),
            "{name} is not documented"
        );
    }
}

#[test]
fn unusable_arguments_are_told() {
    let dir = place();
    for (arguments, why) in [
        (
            &["pairs", "--only", "speed"][..],
            "known: commits bulk recovery memory",
        ),
        (&["pairs", "--pairs", "0"], "'0' is no number from 1 to"),
        (&["pairs", "--bulk", "4GiB"], "at most 3GiB"),
        (&["pairs", "--dir", "nosuch"], "does not exist"),
    ] {
        let out = command(dir.path(), arguments).to_end().unwrap();
        assert_eq!(out.status.code(), Some(2), "{}", text(&out.stderr));
        assert!(text(&out.stderr).contains(why), "{}", text(&out.stderr));
    }
    let out = command(dir.path(), &["pairs", "--log", "900TiB"])
        .to_end()
        .unwrap();
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out.stderr).contains("not enough free space"));
    assert_empty(dir.path());
}
