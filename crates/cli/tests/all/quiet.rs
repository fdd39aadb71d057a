//! `--quiet`: the command prints only errors and the requested data.

use crate::common::{place, text};
use crate::logs::{filled, flip};
use crate::methods::cached;
use crate::tiny::tiny;
use logforce_testkit::process::Start;
use std::process::Command;

#[test]
fn a_measurement_says_nothing_and_writes_what_was_asked_for() {
    let dir = place();
    let out = tiny(dir.path(), &["--quiet", "--method", cached()]);
    assert!(out.status.success());
    assert_eq!(
        (text(&out.stdout), text(&out.stderr)),
        (String::new(), String::new())
    );
    let out = tiny(dir.path(), &["--quiet", "--method", cached(), "--csv", "-"]);
    assert!(text(&out.stdout).starts_with("scenario,") && text(&out.stderr).is_empty());
    let header = text(&out.stdout).lines().next().unwrap().to_owned();
    assert!(header.ends_with(",interrupted"), "{header}");
    assert!(
        text(&out.stdout)
            .lines()
            .skip(1)
            .all(|l| l.ends_with(",false"))
    );
}

#[test]
fn damage_is_a_status_and_a_failure_is_told_all_the_same() {
    let dir = place();
    let path = dir.path().join("log");
    let (log, _) = filled(&path, 40);
    log.close().unwrap();
    let verify = |path: &std::path::Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_logforce"));
        command.args(["verify", "-q"]).arg(path).to_end().unwrap()
    };
    let out = verify(&path);
    assert_eq!(
        (out.status.code(), out.stdout.len(), out.stderr.len()),
        (Some(0), 0, 0)
    );
    flip(&path.join("0000000000000000.seg"), 9000);
    let out = verify(&path);
    assert_eq!(
        (out.status.code(), out.stdout.len(), out.stderr.len()),
        (Some(1), 0, 0)
    );
    let out = verify(&dir.path().join("gone"));
    assert_eq!((out.status.code(), out.stdout.len()), (Some(4), 0));
    assert!(
        text(&out.stderr).contains("error: "),
        "{}",
        text(&out.stderr)
    );
}
