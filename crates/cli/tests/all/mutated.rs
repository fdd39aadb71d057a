//! `dump`, `verify` and `stat` on mutated directories: logs with flipped bits, truncated, exchanged and
//! missing files, and forged headers with correct checksums. The commands end in bounded memory, with a
//! documented status, and write valid JSON.

use crate::common::{place, text};
use crate::mutants::{Numbers, files, lay_out, mutate};
use logforce::{Guarantee, Options};
use logforce_testkit::process::Start;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Number of mutated directories. Starting a program takes long on Windows.
const CASES: u64 = if cfg!(windows) { 10 } else { 100 };
/// Longest time of a command; a longer one counts as hanging.
const HANGS: Duration = Duration::from_secs(120);

#[cfg(target_os = "linux")]
fn limited(program: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -v 1048576; exec \"$@\"", "sh", program]);
    command
}

#[cfg(not(target_os = "linux"))]
fn limited(program: &str) -> Command {
    Command::new(program)
}

/// Runs the command on the log in `dir`, with at most 1 GiB of memory if the system has such a limit.
fn bounded(dir: &Path, words: &[&str], what: &str) -> Output {
    let out = |name: &str| dir.with_extension(name);
    let [stdout, stderr] = ["out", "err"].map(|n| fs::File::create(out(n)).unwrap());
    let mut child = limited(env!("CARGO_BIN_EXE_logforce"))
        .arg(words[0])
        .arg(dir)
        .args(&words[1..])
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(stderr)
        .start()
        .unwrap();
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if started.elapsed() > HANGS {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("{words:?} hangs: {what}");
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    let [stdout, stderr] = ["out", "err"].map(|n| fs::read(out(n)).unwrap());
    Output {
        status,
        stdout,
        stderr,
    }
}

/// Checks the output of a command. Returns true if it found the log whole.
fn check(words: &[&str], out: &Output, what: &str) -> bool {
    let stderr = text(&out.stderr);
    let what = format!("{words:?}: {}: {what}\n{stderr}", out.status);
    // There is no code after a signal, for example because an allocation failed.
    let code = out.status.code();
    // Only a missing record may give 4, because nothing else keeps the commands from reading.
    let is_sought = words.contains(&"--raw");
    assert!(
        matches!(code, Some(0 | 1)) || code == Some(4) && is_sought,
        "{what}"
    );
    assert!(!stderr.contains("panicked"), "{what}");
    let well = code == Some(0);
    assert!(well || !stderr.is_empty(), "silent: {what}");
    if !words.contains(&"--json") {
        return well;
    }
    if out.stdout.is_empty() {
        assert!(
            stderr.contains("error: "),
            "neither report nor error: {what}"
        );
        return false;
    }
    let report: Value = serde_json::from_slice(&out.stdout)
        .unwrap_or_else(|e| panic!("{e}: {what}\n{}", text(&out.stdout)));
    assert_eq!(report["schema"], format!("logforce-{}", words[0]));
    match words[0] {
        "verify" => assert_eq!(report["healthy"], well, "{what}"),
        "dump" => assert_eq!(report["damages"] == 0, well, "{what}"),
        _ => {}
    }
    well
}

#[test]
fn whatever_a_directory_holds_the_commands_end_well() {
    const COMMANDS: &[&[&str]] = &[
        &["verify", "--json", "-"],
        &["dump", "--json", "-", "--data", "hex"],
        &["dump", "--json", "-", "--salvage", "--data", "none"],
        &["stat", "--json", "-"],
        &["stat", "--scan"],
        &["dump", "--raw", "8192"],
    ];
    let place = place();
    let path = |name: &str| -> PathBuf { place.path().join(name) };
    let options = Options::new()
        .segment_size(64 << 10)
        .require(Guarantee::ProcessCrash);
    let log = logforce::create_new(path("log"), options).unwrap();
    for n in 0..40_u8 {
        log.commit(&[n; 1000]).unwrap();
    }
    log.set_meta(b"whatever").unwrap();
    // One log as after a crash, and one closed cleanly.
    let crashed = files(&path("log"));
    log.close().unwrap();
    let bases = [crashed, files(&path("log"))];
    for base in &bases {
        assert!(base.keys().filter(|n| n.ends_with(".seg")).count() >= 3);
    }
    let dir = path("case");
    let (mut well, mut ill) = (0, 0);
    for case in 0..CASES {
        let mut numbers = Numbers(case);
        let mut files = bases[numbers.below(2)].clone();
        let count = 1 + numbers.below(4);
        let done: Vec<String> = (0..count)
            .map(|_| mutate(&mut files, &mut numbers))
            .collect();
        let what = format!("case {case}: {}", done.join("; "));
        lay_out(&files, &dir);
        for words in COMMANDS {
            let out = bounded(&dir, words, &what);
            match check(words, &out, &what) {
                true => well += 1,
                false => ill += 1,
            }
        }
        assert_eq!(
            crate::mutants::files(&dir),
            files,
            "it changed something: {what}"
        );
    }
    // Both outcomes occur, so both are tested.
    assert!(well > CASES && ill > CASES, "{well} well, {ill} not");
}
