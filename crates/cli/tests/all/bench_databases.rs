//! `logforce bench inserts` of a build with databases. Servers that are not installed are left out.

use crate::common::{open_place, place, text};
use crate::runs::{Measured, assert_empty, assert_unusable, command, measured_in};
use std::collections::BTreeSet;
#[cfg(target_os = "linux")]
use std::path::Path;

const TINY: [&str; 9] = [
    "inserts",
    "--rounds",
    "2",
    "--pairs",
    "20",
    "--clients",
    "1,4",
    "--seconds",
    "0.02",
];

#[test]
fn every_system_that_is_there_has_rows_and_the_others_are_named() {
    let dir = open_place();
    let document = include_str!("../../../../docs/bench-json.md");
    let arguments = [&TINY[..], &["--servers"]].concat();
    let found = measured_in(&dir, &arguments, document, "## `logforce bench inserts`");
    let Some(Measured { text, report, rows }) = found else {
        return;
    };
    let systems: BTreeSet<&str> = rows.iter().filter_map(|r| r["system"].as_str()).collect();
    assert!(
        systems.contains("Logforce") && systems.contains("SQLite"),
        "{systems:?}"
    );
    let notes = report["notes"].to_string();
    for server in ["PostgreSQL", "MariaDB"] {
        let one_user = format!("{server} is not measured: servers do not run as root");
        let is_missing = cfg!(not(unix))
            || notes.contains(&format!("{server} is not installed"))
            || notes.contains(&one_user);
        if is_missing {
            logforce_testkit::skip!("{server} is not installed, or there is no user for it");
        }
        assert_eq!(
            systems.contains(server),
            !is_missing,
            "{systems:?}\n{notes}"
        );
    }
    for row in &rows {
        assert!(
            row["error"].is_null() && row["rows_checked"].as_u64() > Some(4),
            "{row}"
        );
        assert!(
            row["guarantee"].is_string() && row["evidence"].is_string(),
            "{row}"
        );
        assert_eq!(
            row["forces_per_commit"].is_null(),
            row["system"] != "Logforce",
            "{row}"
        );
    }
    let conclusion = report["conclusion"].as_str().unwrap();
    for system in systems {
        assert!(
            conclusion.contains(&format!("{system}: 20 inserts that are each forced")),
            "{conclusion}"
        );
        assert!(text.contains(&format!("\n{system}")), "{text}");
    }
}

/// The error comes before anything is measured, says what to check, and hides the password.
#[test]
fn a_url_that_leads_nowhere_is_refused() {
    for (flag, url, why) in [
        (
            "--postgres",
            "postgres://till:secret@%2Fnosuch/x",
            "PostgreSQL: connecting: error connecting to server: No such file or directory",
        ),
        (
            "--mysql",
            "mysql://till:secret@127.0.0.1:1/x",
            "MariaDB: connecting: Could not connect to address",
        ),
    ] {
        let dir = place();
        let arguments = [&TINY[..], &[flag, url]].concat();
        let out = command(dir.path(), &arguments).output().unwrap();
        let words = text(&out.stderr);
        assert_eq!(out.status.code(), Some(4), "{words}");
        assert!(words.contains(flag) && words.contains(why), "{words}");
        assert!(words.contains("check that the server runs"), "{words}");
        assert!(
            !words.contains("secret") && !words.contains("Error {"),
            "{words}"
        );
        assert!(out.stdout.is_empty(), "{}", text(&out.stdout));
        assert_empty(dir.path());
    }
}

/// The error comes before anything is measured, and hides the password.
#[test]
fn what_is_no_url_is_refused() {
    let dir = place();
    assert_unusable(
        dir.path(),
        &[
            (
                &["inserts", "--mysql", "foo://a:secret@h/x"],
                "give mysql://USER@HOST/DATABASE",
            ),
            (
                &["inserts", "--postgres", "nonsense"],
                "give postgres://USER@HOST/DATABASE",
            ),
        ],
    );
}

/// Returns the command lines that contain the name of `dir`: servers, their children, and guards.
#[cfg(target_os = "linux")]
fn processes_of(dir: &Path) -> Vec<String> {
    let name = dir.file_name().unwrap().to_string_lossy().into_owned();
    let of = |entry: std::fs::DirEntry| {
        let line = std::fs::read(entry.path().join("cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        line.contains(&name).then_some(line)
    };
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(of).collect()
}

#[cfg(target_os = "linux")]
mod ended {
    use super::*;
    use logforce_testkit::process::Start;
    use rustix::process::{Pid, Signal, kill_process};
    use std::collections::BTreeSet;
    use std::ffi::OsString;
    use std::process::{Child, Stdio};
    use std::time::{Duration, Instant};

    /// Longest wait. The guard ends in some seconds. A PostgreSQL without its files ends by itself in a
    /// minute.
    const PATIENCE: Duration = Duration::from_secs(40);

    fn until(what: &str, mut is_so: impl FnMut() -> bool) {
        let start = Instant::now();
        while !is_so() {
            assert!(start.elapsed() < PATIENCE, "{what}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Returns the running command once `file` exists below its temporary directory. Returns `None` and
    /// prints a line if the command ends before.
    fn under_way(dir: &Path, file: &str) -> Option<Child> {
        let arguments = [
            "inserts",
            "--servers",
            "--pairs",
            "1",
            "--rounds",
            "1",
            "--clients",
            "1",
            "--seconds",
            "0.2",
        ];
        let mut child = command(dir, &arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .start()
            .unwrap();
        let is_there = || {
            let inside = std::fs::read_dir(dir).unwrap().flatten();
            inside.into_iter().any(|e| e.path().join(file).exists())
        };
        let mut has_ended = false;
        until("nothing happens", || {
            has_ended = child.try_wait().unwrap().is_some();
            has_ended || is_there()
        });
        if has_ended {
            logforce_testkit::skip!(
                "the server of {file} is not installed, or there is no user for it"
            );
            return None;
        }
        Some(child)
    }

    fn send(child: &Child, signal: Signal) {
        kill_process(Pid::from_child(child), signal).unwrap();
    }

    fn is_empty(dir: &Path) -> bool {
        std::fs::read_dir(dir).unwrap().next().is_none()
    }

    /// Returns the shared memory of all PostgreSQL servers. Memory of other tests' servers goes when they
    /// end.
    fn shared_memory() -> BTreeSet<OsString> {
        let names = std::fs::read_dir("/dev/shm")
            .into_iter()
            .flatten()
            .flatten();
        let names = names.map(|e| e.file_name());
        names
            .filter(|n| n.to_string_lossy().starts_with("PostgreSQL."))
            .collect()
    }

    // The running servers make these files; the programs that set them up do not.
    /// A table that `initdb` makes with a temporary server, which has shared memory.
    const BOOTSTRAP: &str = "postgres/data/base/1/1247";
    const POSTGRES: &str = "postgres/data/postmaster.opts";
    const MARIADB: &str = "mariadb/pid";

    #[test]
    fn a_signal_ends_the_servers_and_leaves_nothing() {
        for (file, signal) in [
            // While its files are created, and while it runs.
            ("postgres/data", Signal::INT),
            (BOOTSTRAP, Signal::INT),
            ("mariadb/data", Signal::INT),
            (POSTGRES, Signal::TERM),
            (MARIADB, Signal::INT),
            (MARIADB, Signal::HUP),
        ] {
            let dir = open_place();
            let before = shared_memory();
            let Some(child) = under_way(dir.path(), file) else {
                return;
            };
            send(&child, signal);
            let out = child.wait_with_output().unwrap();
            let words = text(&out.stdout) + &text(&out.stderr);
            assert_eq!(out.status.code(), Some(130), "{file}: {words}");
            assert!(is_empty(dir.path()), "{file}");
            assert_eq!(processes_of(dir.path()), Vec::<String>::new(), "{file}");
            until("shared memory is left", || {
                shared_memory().is_subset(&before)
            });
        }
    }

    /// Only the guard is left to end them.
    #[test]
    fn a_command_that_is_killed_leaves_no_server_and_no_file() {
        for (file, twice) in [
            (POSTGRES, true),
            (POSTGRES, false),
            (BOOTSTRAP, false),
            (MARIADB, false),
            ("mariadb/data", false),
        ] {
            let dir = open_place();
            let before = shared_memory();
            let Some(mut child) = under_way(dir.path(), file) else {
                return;
            };
            match twice {
                true => {
                    send(&child, Signal::INT);
                    send(&child, Signal::INT);
                }
                false => send(&child, Signal::KILL),
            }
            child.wait().unwrap();
            until("a server or a file is left", || {
                is_empty(dir.path()) && processes_of(dir.path()).is_empty()
            });
            until("shared memory is left", || {
                shared_memory().is_subset(&before)
            });
        }
    }
}
