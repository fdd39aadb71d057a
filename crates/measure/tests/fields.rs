//! Field names of `--json` and `--csv`, on which readers rely. docs/bench-json.md documents them, and
//! none is renamed or removed without a new `version`.

use logforce_device::{FileState, Guarantee, Method, Verdict};
use logforce_measure::{Document, Kind, Row, SubjectKind, output};

const ROW: [&str; 27] = [
    "scenario",
    "subject",
    "method",
    "file_state",
    "threads",
    "bytes",
    "commits",
    "total_ms",
    "ms_per_commit",
    "ms_per_commit_p10",
    "ms_per_commit_p90",
    "p50_us",
    "p90_us",
    "p99_us",
    "p999_us",
    "max_us",
    "latencies_us",
    "commits_per_s",
    "device_writes_per_commit",
    "device_flushes_per_commit",
    "device_bytes_per_commit",
    "file_bytes_per_commit",
    "cpu_wait_percent",
    "guarantee",
    "verdict",
    "evidence",
    "error",
];

fn row() -> Row {
    Row {
        scenario: "journal".into(),
        subject: SubjectKind::Logforce.into(),
        method: Method::DirectDsync.into(),
        file_state: FileState::Zeroed.into(),
        threads: 4,
        bytes: 128,
        commits: Some(10),
        total_ms: Some(1.0),
        ms_per_commit: Some(0.1),
        ms_per_commit_p10: Some(0.1),
        ms_per_commit_p90: Some(0.1),
        p50_us: Some(1.0),
        guarantee: Some(Guarantee::PowerLoss),
        verdict: Some(Verdict::Declared),
        evidence: Some("a, \"b\"".to_owned()),
        each: vec![1.0],
        ..Row::of(Kind::Journal)
    }
}

#[test]
fn json_fields() {
    let machine = logforce_measure::machine::Machine {
        host: "here".into(),
        os: "linux".into(),
        kernel: "6".into(),
        arch: "x86_64".into(),
        cpus: 1,
        directory: "/data".into(),
        filesystem: "ext4".into(),
        volume: "uuid:1".into(),
        capacity: Some(1 << 30),
        mount_point: "/".into(),
        mount_options: "rw".into(),
        barriers: Some(true),
        device: None,
        model: None,
        write_cache: "unknown".into(),
        write_cache_source: "device".into(),
        write_cache_by: "",
        fua: None,
        rotational: None,
        logical_sector: None,
        physical_sector: None,
        write_unit: 4096,
        notes: vec![],
        caveat: None,
    };
    let (command, started) = ("logforce bench".into(), "2026-01-01T00:00:00Z".into());
    let mut report = Document::new(Kind::Journal, command, started, machine);
    report.conclusion = "none".into();
    report.rows = vec![row()];
    let mut bytes = Vec::new();
    output::json(&report, &mut bytes).unwrap();
    let text = str::from_utf8(&bytes).unwrap();
    let value: serde_json::Value = serde_json::from_str(text).unwrap();
    let keys = |v: &serde_json::Value| {
        let mut keys: Vec<String> = v.as_object().unwrap().keys().cloned().collect();
        keys.sort();
        keys
    };
    let sorted = |names: &[&str]| {
        let mut names: Vec<String> = names.iter().map(|&n| n.to_owned()).collect();
        names.sort();
        names
    };
    let top = [
        "schema",
        "version",
        "command",
        "started",
        "interrupted",
        "machine",
        "cpu",
        "conclusion",
        "recommended",
        "notes",
        "rows",
    ];
    assert_eq!(keys(&value), sorted(&top));
    let places = top.map(|name| text.find(&format!("\n  \"{name}\": ")));
    assert!(places.is_sorted(), "in this order: {text}");
    assert_eq!(keys(&value["rows"][0]), sorted(&ROW));
    let machine = [
        "os",
        "kernel",
        "arch",
        "cpus",
        "filesystem",
        "mount_point",
        "mount_options",
        "barriers",
        "device",
        "model",
        "write_cache",
        "write_cache_source",
        "fua",
        "rotational",
        "logical_sector",
        "physical_sector",
        "write_unit",
        "notes",
        "host",
        "directory",
        "volume",
        "capacity",
    ];
    assert_eq!(keys(&value["machine"]), sorted(&machine));
    assert_eq!(
        (value["schema"].as_str(), value["version"].as_u64()),
        (Some("logforce-bench"), Some(1))
    );
    let row = &value["rows"][0];
    for (name, text) in [
        ("subject", "logforce"),
        ("method", "direct+dsync"),
        ("file_state", "zeroed"),
        ("guarantee", "power-loss"),
        ("verdict", "declared"),
    ] {
        assert_eq!(row[name], text);
    }
    assert!(row["error"].is_null() && row["p99_us"].is_null());
    // The document names every field.
    let document = include_str!("../../../docs/bench-json.md");
    for name in ROW.into_iter().chain(top).chain(machine) {
        assert!(
            document.contains(&format!("`{name}`")),
            "docs/bench-json.md does not name {name}"
        );
    }
}

#[test]
fn csv_columns() {
    let mut bytes = Vec::new();
    output::csv(&[row()], true, &mut bytes).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let mut lines = text.lines();
    // A distribution is not a single value.
    let columns: Vec<&str> = ROW.into_iter().filter(|n| *n != "latencies_us").collect();
    assert_eq!(lines.next().unwrap(), columns.join(",") + ",interrupted");
    assert!(
        lines
            .next()
            .unwrap()
            .ends_with("power-loss,declared,\"a, \"\"b\"\"\",,true"),
        "{text}"
    );
    assert_eq!(lines.next(), None);
}
