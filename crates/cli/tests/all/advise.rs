//! `logforce advise`, without servers.

use crate::common::{place, text};
use crate::logs::all_output;
use crate::runs::assert_empty;
use logforce_testkit::process::Start;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Systems whose snippet is a configuration that the command reads.
const CONFIGURED: [&str; 10] = [
    "postgresql",
    "mysql",
    "mariadb",
    "sqlite",
    "redis",
    "etcd",
    "kafka",
    "nats",
    "zookeeper",
    "cassandra",
];

fn advise(system: &str, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_logforce"))
        .args(["advise", "--for", system])
        .args(arguments)
        .stdin(Stdio::null())
        .to_end()
        .unwrap()
}

fn path(dir: &Path) -> &str {
    dir.to_str().unwrap()
}

/// Returns the report, and checks that the exit status follows from it.
fn report(system: &str, arguments: &[&str]) -> Value {
    let out = advise(system, &[arguments, &["--json", "-"]].concat());
    let report: Value =
        serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {}", all_output(&out)));
    let status = match report["answer"].as_str().unwrap() {
        "enough" => 0,
        "below" => 1,
        _ => 3,
    };
    assert_eq!(out.status.code(), Some(status), "{}", all_output(&out));
    report
}

fn names(list: &Value) -> Vec<&str> {
    let list = list.as_array().unwrap();
    list.iter().map(|s| s["name"].as_str().unwrap()).collect()
}

/// The snippet is printed, and the force of the system is measured.
#[test]
fn the_snippet_has_every_setting_and_what_it_costs() {
    let dir = place();
    let arguments = [path(dir.path())];
    let report = report("redis", &arguments);
    assert_eq!(
        names(&report["advice"]),
        ["appendonly", "appendfsync", "no-appendfsync-on-rewrite"]
    );
    let known = logforce::disk::facts(dir.path()).unwrap();
    let force = &report["advice"][1];
    assert_eq!(force["cost"]["forces_per_commit"], 1);
    match report["not_measured"].as_str() {
        Some(why) => logforce_testkit::skip!("{why}"),
        None => assert!(
            force["cost"]["ms_per_commit"].as_f64() > Some(0.0),
            "{force}"
        ),
    }
    assert_eq!(report["filesystem"], known.filesystem.as_str());
    let snippet = report["snippet"].as_str().unwrap();
    for line in [
        "appendonly yes",
        "appendfsync always",
        "no-appendfsync-on-rewrite no",
    ] {
        assert!(snippet.lines().any(|l| l == line), "{snippet}");
    }
    // A comment belongs to each line: what it survives, its default, the manual.
    let rest = |l: &&str| !l.is_empty() && !l.starts_with('#');
    assert_eq!(snippet.lines().filter(rest).count(), 3, "{snippet}");
    assert_eq!(snippet.matches("default:").count(), 3, "{snippet}");
    assert_empty(dir.path());
    let printed = advise("redis", &arguments);
    assert!(text(&printed.stdout).contains("\nappendfsync always\n"));
    assert_empty(dir.path());
}

/// The snippet, used as the configuration, is judged as the advice is.
#[test]
fn a_pasted_snippet_is_read_back() {
    let dir = place();
    let config = dir.path().join("configuration");
    for system in CONFIGURED {
        for asked in ["power-loss", "os-crash", "process-crash"] {
            fs::write(&config, "").unwrap();
            let arguments = [
                "--survive",
                asked,
                "--config",
                path(&config),
                path(dir.path()),
            ];
            let empty = report(system, &arguments);
            fs::write(&config, empty["snippet"].as_str().unwrap()).unwrap();
            let pasted = report(system, &arguments);
            assert_eq!(pasted["unread"], Value::Array(vec![]), "{system}");
            for advised in empty["advice"].as_array().unwrap() {
                let lines = pasted["in_force"].as_array().unwrap();
                let line = lines.iter().find(|l| l["name"] == advised["name"]).unwrap();
                // Kafka's setting is left unset.
                if !advised["line"].is_null() {
                    assert!(line["place"].is_string(), "{system} {line}");
                    let read = line["value"].as_str().unwrap();
                    let value = advised["value"].as_str().unwrap();
                    assert!(read.eq_ignore_ascii_case(value), "{system} {line}");
                }
                // The binary log is off by default.
                let has_effect = !line["note"].to_string().contains("without effect");
                if has_effect {
                    assert_eq!(line["answer"], advised["answer"], "{system} {line}");
                }
                assert_eq!(line["change"], Value::Null, "{system} {line}");
            }
        }
    }
}

#[test]
fn unsafe_settings_come_first_with_their_line_and_their_remedy() {
    let dir = place();
    let config = dir.path().join("postgresql.conf");
    fs::write(
        &config,
        "wal_sync_method = fdatasync\nsynchronous_commit = off\nfsync = on\nfull_page_writes = off\n",
    )
    .unwrap();
    let arguments = ["--config", path(&config), path(dir.path())];
    let found = report("postgresql", &arguments);
    assert_eq!(found["answer"], "below");
    let lines = found["in_force"].as_array().unwrap();
    // A setting that damages comes before one that loses.
    for (line, name, at, change) in [
        (&lines[0], "full_page_writes", ":4", "full_page_writes = on"),
        (
            &lines[1],
            "synchronous_commit",
            ":2",
            "synchronous_commit = on",
        ),
    ] {
        assert_eq!(
            (&line["name"], &line["answer"]),
            (&name.into(), &"below".into())
        );
        assert!(line["place"].as_str().unwrap().ends_with(at), "{line}");
        assert_eq!(line["change"], change);
    }
    assert_eq!(lines[0]["survives"]["beyond"], "damages");
    assert_eq!(lines[1]["survives"]["guarantee"], "nothing");
    assert_eq!(lines.len(), 5);
    // It still loses commits, and still damages, if only a crash of the process counts.
    let lenient = report(
        "postgresql",
        &[&arguments[..], &["--survive", "process-crash"]].concat(),
    );
    assert_eq!(lenient["answer"], "below");
    let printed = text(&advise("postgresql", &arguments).stdout);
    let order = [
        "BELOW     full_page",
        "BELOW     synchronous",
        "change to: synchronous_commit = on",
        // The disk decides whether it is ok.
        "wal_sync_method = ",
    ];
    let places: Vec<Option<usize>> = order.iter().map(|part| printed.find(part)).collect();
    assert!(
        places.iter().all(Option::is_some) && places.is_sorted(),
        "{printed}"
    );
}

#[test]
fn a_line_that_only_its_default_betters_is_to_be_removed() {
    let dir = place();
    let config = dir.path().join("my.cnf");
    fs::write(&config, "[mysqld]\ninnodb_flush_method = nosync\n").unwrap();
    let arguments = ["--config", path(&config), path(dir.path())];
    for system in ["mysql", "mariadb"] {
        let found = report(system, &arguments);
        if cfg!(target_os = "linux") {
            let line = &found["in_force"][0];
            assert_eq!(line["name"], "innodb_flush_method");
            assert_eq!(
                (&line["remove"], &line["change"]),
                (&true.into(), &Value::Null)
            );
            assert!(
                !found["snippet"]
                    .as_str()
                    .unwrap()
                    .contains("innodb_flush_method")
            );
        }
    }
}

/// Without the disk, no force counts as durable.
#[test]
fn a_directory_that_is_not_named_leaves_a_doubt() {
    let dir = place();
    let config = dir.path().join("configuration");
    for (configuration, words) in [
        ("appendonly yes\nappendfsync always\n", "is not named"),
        (
            "appendonly yes\nappendfsync always\ndir ./\n",
            "is relative",
        ),
        (
            "appendonly yes\nappendfsync always\ndir /nosuch\n",
            if cfg!(windows) {
                "is relative"
            } else {
                "cannot be opened"
            },
        ),
    ] {
        fs::write(&config, configuration).unwrap();
        let found = report("redis", &["--config", path(&config)]);
        assert_eq!(found["answer"], "doubtful");
        assert_eq!(found["directory"], Value::Null);
        assert!(
            found["disk_unseen"].as_str().unwrap().contains(words),
            "{found}"
        );
        let lenient = ["--config", path(&config), "--survive", "process-crash"];
        assert_eq!(report("redis", &lenient)["answer"], "enough");
    }
}

/// A setting can be without effect because of another one. If that one is to be changed, both count.
#[test]
fn a_setting_without_effect_is_judged_as_it_will_be() {
    let dir = place();
    let config = dir.path().join("configuration");
    for (system, configuration, name, words, answer) in [
        (
            "postgresql",
            "fsync = off\nwal_sync_method = nonsense\n",
            "wal_sync_method",
            "'nonsense' is not known",
            "doubtful",
        ),
        (
            "postgresql",
            "fsync = off\nsynchronous_commit = off\n",
            "synchronous_commit",
            "",
            "below",
        ),
        (
            "redis",
            "appendfsync no\n",
            "appendfsync",
            "without effect under appendonly = no: judged under appendonly = yes",
            "below",
        ),
        (
            "mysql",
            "[mysqld]\nskip_log_bin\nsync_binlog = 0\n",
            "sync_binlog",
            "without effect: log_bin = OFF",
            "enough",
        ),
    ] {
        fs::write(&config, configuration).unwrap();
        let found = report(system, &["--config", path(&config), path(dir.path())]);
        let lines = found["in_force"].as_array().unwrap();
        let line = lines.iter().find(|l| l["name"] == name).unwrap();
        let note = line["note"].as_str().unwrap_or_default();
        assert!(note.contains(words), "{line}");
        assert_eq!(line["answer"], answer, "{line}");
        assert_eq!(line["change"].is_string(), answer != "enough", "{line}");
    }
}

/// A doubt gives the status 3.
#[test]
fn what_is_not_understood_is_not_called_safe() {
    let dir = place();
    let config = dir.path().join("configuration");
    for (system, configuration, words) in [
        ("postgresql", "fsync = perhaps\n", "'perhaps' is not known"),
        ("postgresql", "fsync = 'on\n", "closing quote"),
        (
            "rocksdb",
            "[DBOptions]\n  manual_wal_flush=false\n",
            "each program sets it",
        ),
        ("mongodb", "storage:\n  journal:\n", "each program sets it"),
        ("cassandra", "{commitlog_sync: batch}\n", "separate line"),
        ("etcd", "unsafe-no-fsync:\n  true\n", "on one line"),
        ("etcd", "#!/bin/sh\nexec x\n", "it is neither YAML nor"),
        (
            "mariadb",
            "[mysqld1]\nsync_binlog=0\n",
            "the group [mysqld1] counts only",
        ),
        (
            "mysql",
            "[mysqld]\ninnodb_flush_log_at_trx=0\n",
            "write the whole name",
        ),
    ] {
        fs::write(&config, configuration).unwrap();
        let arguments = ["--config", path(&config), path(dir.path())];
        let found = report(system, &arguments);
        let answer = found["answer"].as_str().unwrap();
        // Cassandra's default loses commits.
        assert_ne!(answer, "enough", "{system}");
        let out = advise(system, &arguments);
        let printed = text(&out.stdout)
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        assert!(printed.contains(words), "{words}: {printed}");
    }
}

#[test]
fn a_database_of_sqlite_tells_its_journal() {
    let dir = place();
    let file = dir.path().join("x.db");
    let mut header = b"SQLite format 3\0\x10\0".to_vec();
    header.resize(100, 0);
    for (version, mode, answer, change) in [
        (2, "wal", "doubtful", Value::Null),
        // FULL is enough only with WAL.
        (1, "delete", "below", "PRAGMA journal_mode = WAL;".into()),
    ] {
        header[18] = version;
        fs::write(&file, &header).unwrap();
        let found = report("sqlite", &["--url", path(&file)]);
        assert_eq!(found["answer"], answer);
        assert_eq!(found["directory"], path(dir.path()));
        let lines = found["in_force"].as_array().unwrap();
        let line = |name: &str| lines.iter().find(|l| l["name"] == name).unwrap();
        assert_eq!(line("journal_mode")["value"], mode);
        assert_eq!(line("synchronous")["change"], change);
        assert_eq!(fs::read(&file).unwrap(), header);
    }
}

#[test]
#[cfg(target_os = "linux")]
fn in_memory_no_setting_helps() {
    let Ok(dir) = tempfile::tempdir_in("/dev/shm") else {
        logforce_testkit::skip!("there is no /dev/shm");
        return;
    };
    let known = logforce::disk::facts(dir.path()).unwrap();
    if known.kind != logforce::disk::FilesystemKind::Volatile {
        logforce_testkit::skip!("/dev/shm is {}", known.filesystem);
        return;
    }
    for system in ["postgresql", "kafka"] {
        let arguments = [path(dir.path())];
        let found = report(system, &arguments);
        assert_eq!(found["answer"], "below");
        assert!(
            found["sentence"]
                .as_str()
                .unwrap()
                .contains("whatever is set")
        );
        for advised in found["advice"].as_array().unwrap() {
            assert_eq!(
                advised["survives"]["guarantee"], "process-crash",
                "{advised}"
            );
            assert_eq!(advised["survives"]["promised"], "power-loss", "{advised}");
        }
        let enough = report(system, &[path(dir.path()), "--survive", "process-crash"]);
        assert_eq!(enough["answer"], "enough");
        assert_empty(dir.path());
    }
}

/// Every directory that holds acknowledged data counts.
#[test]
#[cfg(target_os = "linux")]
fn one_directory_in_memory_is_enough_to_lose() {
    let Ok(memory) = tempfile::tempdir_in("/dev/shm") else {
        logforce_testkit::skip!("there is no /dev/shm");
        return;
    };
    let known = logforce::disk::facts(memory.path()).unwrap();
    if known.kind != logforce::disk::FilesystemKind::Volatile {
        logforce_testkit::skip!("/dev/shm is {}", known.filesystem);
        return;
    }
    let dir = place();
    let config = dir.path().join("configuration");
    let logs = dir.path().join("pg_wal");
    std::os::unix::fs::symlink(memory.path(), &logs).unwrap();
    for (system, settings, weakest) in [
        (
            "mysql",
            "[mysqld]\ndatadir=<D>\ninnodb_log_group_home_dir=<M>\n",
            memory.path(),
        ),
        (
            "mysql",
            "[mysqld]\ndatadir=<D>\nlog_bin=<M>/bin\n",
            memory.path(),
        ),
        (
            "mariadb",
            "[mysqld]\ndatadir=<M>\ninnodb_log_group_home_dir=<D>\n",
            memory.path(),
        ),
        ("etcd", "data-dir: <D>\nwal-dir: <M>\n", memory.path()),
        ("etcd", "data-dir: <M>\nwal-dir: <D>\n", memory.path()),
        ("zookeeper", "dataDir=<M>\ndataLogDir=<D>\n", memory.path()),
        (
            "kafka",
            "log.flush.interval.messages=1\nlog.dirs=<D>, <M>\n",
            memory.path(),
        ),
        (
            "cassandra",
            "commitlog_sync: batch\ncommitlog_directory: <D>\ndata_file_directories:\n    - <D>\n    - <M>\n",
            memory.path(),
        ),
        ("postgresql", "data_directory = '<D>'\n", logs.as_path()),
    ] {
        let settings = settings.replace("<D>", path(dir.path()));
        fs::write(&config, settings.replace("<M>", path(memory.path()))).unwrap();
        let arguments = ["--config", path(&config)];
        for found in [
            report(system, &arguments),
            report(system, &[&arguments[..], &[path(dir.path())]].concat()),
        ] {
            assert_eq!(found["answer"], "below", "{system} {found}");
            assert_eq!(found["directory"], path(weakest), "{system}");
            assert_eq!(found["disk_unseen"], Value::Null, "{system}");
            assert!(found["notes"].to_string().contains("The weakest of"));
        }
    }
    // Nothing is known of a directory that cannot be opened.
    for (system, settings) in [
        ("mysql", "[mysqld]\ndatadir=<D>\nlog_bin=/nosuch/bin\n"),
        ("mysql", "[mysqld]\ninnodb_log_group_home_dir=<D>\n"),
        (
            "cassandra",
            "commitlog_sync: batch\ncommitlog_directory: <D>\n",
        ),
    ] {
        fs::write(&config, settings.replace("<D>", path(dir.path()))).unwrap();
        let found = report(system, &["--config", path(&config)]);
        assert_eq!(found["answer"], "doubtful", "{system} {found}");
        assert!(found["disk_unseen"].is_string(), "{system}");
    }
}

#[test]
fn what_cannot_be_used_is_refused() {
    let dir = place();
    let missing = dir.path().join("missing");
    let binary = dir.path().join("binary");
    fs::write(&binary, b"\x7fELF\0").unwrap();
    for (system, arguments, status, words) in [
        ("nosuch", &[][..], 2, "unknown system 'nosuch'"),
        ("redis", &["--survive", "nothing"], 2, "unknown failure"),
        (
            "redis",
            &["--url", "x", "--config", "y"],
            2,
            "cannot be used with",
        ),
        ("redis", &["--url", "http://h"], 2, "give redis://USER@HOST"),
        ("etcd", &["--url", "http://h"], 2, "--config FILE"),
        ("redis", &["--config", path(&missing)], 4, "No such file"),
        (
            "redis",
            &["--config", path(&binary)],
            4,
            "is not a text file",
        ),
        ("redis", &["--config", path(dir.path())], 4, "is not a file"),
        (
            "sqlite",
            &["--url", path(&binary)],
            4,
            "is not a database of SQLite",
        ),
        ("redis", &[path(&missing)], 4, "does not exist"),
        ("redis", &[path(&binary)], 4, "is not a directory"),
    ] {
        if cfg!(windows) && words == "No such file" {
            continue;
        }
        let out = advise(system, arguments);
        let printed = all_output(&out);
        assert_eq!(out.status.code(), Some(status), "{arguments:?} {printed}");
        assert!(printed.contains(words), "{words}: {printed}");
        assert!(out.stdout.is_empty(), "{printed}");
    }
}

#[test]
fn the_pages_name_every_field_and_every_setting() {
    let dir = place();
    let config = dir.path().join("x.conf");
    fs::write(&config, "appendonly no\n").unwrap();
    let report = report("redis", &["--config", path(&config), path(dir.path())]);
    let mut found = BTreeSet::new();
    fields(&report, &mut found);
    let document = include_str!("../../../../docs/cli-json.md");
    let start = document.find("## `logforce advise`").unwrap();
    let section = &document[start..];
    let section = &section[..section[1..].find("\n## ").unwrap() + 1];
    for name in found
        .iter()
        .filter(|n| !["schema", "version"].contains(&n.as_str()))
    {
        assert!(
            section.contains(&format!("`{name}`")),
            "{name} is not documented"
        );
    }
    assert!(document.contains("`logforce-advise`"));
    let page = include_str!("../../../../docs/advise.md");
    for system in logforce_systems::System::ALL {
        let settings = logforce_systems::settings::SystemSettings::of(system).settings;
        for setting in settings {
            let leaf = setting.name.split('.').next().unwrap();
            let is_named = [setting.name, leaf]
                .iter()
                .any(|n| page.contains(&format!("`{n}`")));
            assert!(
                is_named || setting.name == "defaultWriteConcern",
                "{}",
                setting.name
            );
        }
    }
}

fn fields(value: &Value, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                into.insert(name.clone());
                fields(value, into);
            }
        }
        Value::Array(values) => values.iter().for_each(|v| fields(v, into)),
        _ => {}
    }
}
