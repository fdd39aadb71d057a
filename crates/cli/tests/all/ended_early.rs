//! The built command when it is interrupted or killed, or when the reader of its output is gone.

use crate::common::{place, text};
use crate::methods::{cached, direct};
use crate::runs::{assert_empty, command};
use crate::tiny::{TINY, tiny};
use logforce_testkit::process::Start;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::Duration;

fn running(dir: &Path) -> Child {
    let methods = [cached(), direct()].join(",");
    let arguments = ["--seconds", "600", "--size", "4MiB", "--method", &methods];
    let mut child = command(dir, &arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .start()
        .unwrap();
    while fs::read_dir(dir).unwrap().next().is_none() {
        if let Some(ended) = child.try_wait().unwrap() {
            let mut said = String::new();
            child
                .stderr
                .take()
                .unwrap()
                .read_to_string(&mut said)
                .unwrap();
            panic!("it has made no file: {ended}: {said}");
        }
        sleep(Duration::from_millis(5));
    }
    child
}

#[cfg(unix)]
fn signal(child: &Child, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, signal).unwrap();
}

#[cfg(unix)]
#[test]
fn ctrl_c_removes_the_files_and_tells_what_was_measured() {
    for (wait, kind) in [
        (0, rustix::process::Signal::INT),
        (400, rustix::process::Signal::TERM),
    ] {
        let dir = place();
        let child = running(dir.path());
        sleep(Duration::from_millis(wait));
        signal(&child, kind);
        let out = child.wait_with_output().unwrap();
        let printed = text(&out.stdout) + &text(&out.stderr);
        // On a very fast disk the run may have ended before.
        if out.status.success() {
            continue;
        }
        assert_eq!(out.status.code(), Some(130), "{printed}");
        assert!(printed.to_lowercase().contains("interrupted"), "{printed}");
        assert_empty(dir.path());
    }
}

#[test]
fn what_kill_leaves_can_be_told_and_is() {
    let dir = place();
    let mut child = running(dir.path());
    // SIGKILL, or TerminateProcess.
    child.kill().unwrap();
    child.wait().unwrap();
    let left = fs::read_dir(dir.path()).unwrap().next();
    let Some(left) = left else { return };
    let name = left.unwrap().file_name().into_string().unwrap();
    assert!(
        name.starts_with(&format!("logforce-bench-{}-", child.id())),
        "{name}"
    );
    let out = tiny(dir.path(), &["--method", cached()]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert!(text(&out.stderr).contains(&name), "{}", text(&out.stderr));
}

#[test]
fn a_closed_pipe_is_no_panic() {
    for arguments in [&[][..], &["--json", "-"]] {
        let dir = place();
        let arguments = [arguments, &["--method", cached()], &TINY].concat();
        let mut child = command(dir.path(), &arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .start()
            .unwrap();
        drop(child.stdout.take());
        let mut printed = String::new();
        child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut printed)
            .unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0), "{printed}");
        assert!(
            !printed.contains("panicked") && !printed.contains("error"),
            "{printed}"
        );
        assert_empty(dir.path());
    }
}
