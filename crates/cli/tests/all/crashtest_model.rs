//! `logforce crashtest --model`: without root, with `strace` only.

use crate::common::{is_missing_again, text};
use logforce_testkit::another_user;
use logforce_testkit::process::Start;
use rustix::fs::{AtFlags, CWD, FallocateFlags, Mode, OFlags, RenameFlags};
use rustix::process::{Pid, Signal};
use serde_json::Value;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Appends thirty numbers; `$2` is called with the directory and the file before each acknowledgement.
const APPEND: &str = "
n=0; while [ $n -lt 30 ]; do n=$((n+1)); echo $n >> \"$1/log\"; $2 \"$1\" \"$1/log\"; echo $n; done";
/// Replaces a file thirty times; `$2` is called with the new file before the rename, `$3` with the directory after it.
const REPLACE: &str = "
n=0; while [ $n -lt 30 ]; do n=$((n+1)); echo $n > \"$1/new\"; $2 \"$1/new\"; mv \"$1/new\" \"$1/value\"; \
$3 \"$1\"; echo $n; done";
/// Checks that the last acknowledged number is in the file. Starts no process, as the next one.
const LAST_IS_THERE: &str = "while read n; do last=$n; done; [ -n \"$last\" ] || exit 0; \
                             while read n; do [ $n != $last ] || exit 0; done < {}/log; \
                             echo \"$last is missing\"; exit 1";
/// Checks that the file holds the last acknowledged number or a later one.
const VALUE_IS_THERE: &str = "while read n; do last=$n; done; [ -n \"$last\" ] || exit 0; read n < {}/value; \
                              [ \"$n\" -ge $last ] || { echo \"older than $last\"; exit 1; }";

/// Runs the command without root's rights; returns its status, its text and its JSON. Returns `None` where something
/// that it needs is missing.
fn model(options: &[&str], check: &str, workload: &[&str]) -> Option<(i32, String, Value)> {
    let program = Path::new(env!("CARGO_BIN_EXE_logforce"));
    let mut command = another_user::unprivileged(program)?;
    let places = another_user::directory(env!("CARGO_TARGET_TMPDIR"));
    let place = tempfile::tempdir_in(places).unwrap();
    fs::set_permissions(&place, Permissions::from_mode(0o777)).unwrap();
    let out = command
        .env("TMPDIR", place.path())
        .args(["crashtest", "--model", "--json", "-"])
        .args(options)
        .args(["--check", check, "--"])
        .args(workload)
        .to_end()
        .unwrap();
    let status = out.status.code().unwrap();
    if status == 77 {
        logforce_testkit::skip!("{}", text(&out.stderr).replace('\n', " "));
        return None;
    }
    assert_eq!(fs::read_dir(&place).unwrap().count(), 0, "files are left");
    let json = serde_json::from_slice(&out.stdout).unwrap_or(Value::Null);
    Some((status, text(&out.stderr), json))
}

fn shell(states: &str, check: &str, script: &[&str]) -> Option<(i32, String, Value)> {
    let workload = [&["sh", "-c", script[0], "sh", "{}"], &script[1..]].concat();
    model(&["--states", states], check, &workload)
}

/// Returns the conclusion about the cause.
fn conclusion(json: &Value) -> &str {
    json["explanation"]["conclusion"].as_str().unwrap_or("")
}

#[test]
fn what_is_missing_is_named() {
    for (check, script, status, missing) in [
        // The file's fsync makes its data durable, not the name: ext4, xfs and btrfs forgive it.
        (
            LAST_IS_THERE,
            [APPEND, "true", ""],
            1,
            "fsync of log and fsync of the directory",
        ),
        (LAST_IS_THERE, [APPEND, "sync", ""], 0, ""),
        (LAST_IS_THERE, [APPEND, "sync -d", ""], 0, ""),
        (VALUE_IS_THERE, [REPLACE, "sync", "sync"], 0, ""),
        (
            VALUE_IS_THERE,
            [REPLACE, "sync", "true"],
            1,
            "acknowledgement: fsync of the directory.",
        ),
        (
            VALUE_IS_THERE,
            [REPLACE, "true", "sync"],
            1,
            "before a rename: fsync of the file",
        ),
    ] {
        let Some((ended, shown, json)) = shell("40", check, &script) else {
            return;
        };
        assert_eq!(ended, status, "{script:?}: {shown}");
        assert!(conclusion(&json).contains(missing), "{script:?}: {shown}");
        assert!(
            json["sentence"]
                .as_str()
                .unwrap()
                .contains("a model (strict POSIX)"),
            "{shown}"
        );
    }
}

#[test]
fn a_new_file_whose_directory_is_not_synced_is_lost() {
    let synced = APPEND.replace("$2 \"$1\" ", "$2 ");
    let places = another_user::directory(env!("CARGO_TARGET_TMPDIR"));
    let keep = tempfile::tempdir_in(places).unwrap();
    fs::set_permissions(&keep, Permissions::from_mode(0o777)).unwrap();
    let options = ["--states", "40", "--keep", keep.path().to_str().unwrap()];
    let workload = ["sh", "-c", &synced, "sh", "{}", "sync"];
    let Some((status, shown, json)) = model(&options, LAST_IS_THERE, &workload) else {
        return;
    };
    assert_eq!(status, 1, "{shown}");
    is_missing_again(Path::new(json["losses"][0]["kept"].as_str().unwrap()));
    // The file itself was synced.
    assert_eq!(
        json["explanation"]["dirty"],
        Value::Array(Vec::new()),
        "{json}"
    );
    assert!(
        conclusion(&json).contains("acknowledgement: fsync of the directory."),
        "{shown}"
    );
    let lost = &json["explanation"]["least"]["lost"];
    assert_eq!(
        lost[0]["name"], "creation of log in the directory",
        "{shown}"
    );
}

#[test]
fn a_failure_before_the_first_acknowledgement_accuses_no_sync() {
    let check = "[ -f {}/log ] || { echo no log; exit 1; }";
    let Some((status, shown, json)) = shell("100", check, &[APPEND, "sync"]) else {
        return;
    };
    assert_eq!(status, 1, "{shown}");
    assert!(
        json["sentence"]
            .as_str()
            .unwrap()
            .contains("nothing had been acknowledged"),
        "{json}"
    );
    assert_eq!(json["explanation"], Value::Null, "{json}");
}

#[test]
fn a_check_that_sees_nothing_proves_nothing() {
    let Some((status, shown, _)) = shell("10", ": {}", &[APPEND, "true"]) else {
        return;
    };
    assert_eq!(status, 3, "{shown}");
    assert!(shown.contains("noticed nothing"), "{shown}");
    // Each state has the file, or nothing was acknowledged.
    let create = format!("echo 0 > \"$1/log\"; sync; {APPEND}");
    let has_log = "[ ! -s {acked} ] || [ -s {}/log ]";
    let Some((status, shown, _)) = shell("10", has_log, &[&create, "true"]) else {
        return;
    };
    assert_eq!(status, 3, "{shown}");
    assert!(
        shown.contains("succeeded on a directory from before"),
        "{shown}"
    );
    let Some((status, shown, _)) = shell("5", "echo broken; exit 1; {}", &[APPEND, "sync", "sync"])
    else {
        return;
    };
    assert_eq!(status, 3, "{shown}");
    assert!(shown.contains("never succeeded"), "{shown}");
}

#[test]
fn an_acknowledgement_before_the_write_is_told_from_a_missing_sync() {
    let early = "n=0; while [ $n -lt 30 ]; do n=$((n+1)); echo $n; echo $n >> \"$1/log\"; sync \"$1/log\" \"$1\"; done";
    let Some((status, shown, json)) = shell("40", LAST_IS_THERE, &[early]) else {
        return;
    };
    assert_eq!(status, 1, "{shown}");
    assert!(
        conclusion(&json).contains("before it is written"),
        "{shown}"
    );
}

#[test]
fn options_of_the_disk_are_refused() {
    for option in [
        ["--cuts", "3"],
        ["--filesystem", "ext4"],
        ["--size", "1GiB"],
    ] {
        let Some((status, shown, _)) = model(&option, ": {}", &["true"]) else {
            return;
        };
        assert_eq!(status, 2, "{shown}");
        assert!(shown.contains(option[0]), "{shown}");
    }
}

#[test]
fn a_workload_that_acknowledges_nothing_is_told_why_and_ends() {
    for (script, why) in [
        ("printf 17; sleep 100", "without a newline"),
        ("setsid sleep 1234 & sleep 100", "buffers its output"),
        (
            "echo no such table >&2; exit 3",
            "exited with 3: no such table",
        ),
    ] {
        let workload = ["sh", "-c", script];
        let Some((status, shown, _)) = model(&["--patience", "1"], ": {}", &workload) else {
            return;
        };
        assert_eq!(status, 3, "{shown}");
        assert!(
            shown
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
                .contains(why),
            "{script}: {shown}"
        );
    }
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let line = |process: &Path| fs::read(process.join("cmdline")).unwrap_or_default();
    assert!(
        !processes
            .map(|p| p.path())
            .any(|p| line(&p) == b"sleep\x001234\0")
    );
}

/// Uses every call that the model follows, as number `n`.
fn change(dir: &Path, n: u64) -> io::Result<()> {
    let text = n.to_string();
    let made = dir.join(format!("made-{n}"));
    fs::create_dir(&made)?;
    let below = rustix::fs::open(&made, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?;
    let new = rustix::fs::openat(&below, "new", OFlags::CREATE | OFlags::RDWR, 0o644.into())?;
    let mut new = File::from(new);
    new.write_all(text.repeat(3000).as_bytes())?;
    new.write_all_at(b"over", 4090)?;
    new.seek(SeekFrom::Start(7))?;
    new.read_exact(&mut [0; 5])?;
    let mut copy = new.try_clone()?;
    copy.write_all(b"after the read")?;
    // The directory of an unsynced name moves, and an open directory keeps its files.
    let moved = dir.join("moved");
    let _ = fs::remove_dir_all(&moved);
    fs::rename(&made, &moved)?;
    fs::hard_link(moved.join("new"), dir.join(format!("link-{n}")))?;
    let unnamed = rustix::fs::openat(&below, ".", OFlags::TMPFILE | OFlags::RDWR, 0o600.into())?;
    File::from(unnamed.try_clone()?).write_all(b"without a name")?;
    let number = std::os::fd::AsRawFd::as_raw_fd(&unnamed);
    let path = format!("/proc/self/fd/{number}");
    rustix::fs::linkat(CWD, path, &below, "named", AtFlags::SYMLINK_FOLLOW)?;
    rustix::fs::copy_file_range(&new, Some(&mut 3), &unnamed, Some(&mut 20), 5000)?;
    rustix::fs::sendfile(&unnamed, &new, None, 100)?;
    rustix::fs::fallocate(&unnamed, FallocateFlags::empty(), 0, 9000)?;
    rustix::fs::fallocate(
        &unnamed,
        FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
        100,
        5000,
    )?;
    new.set_len(6000)?;
    new.set_len(6100)?;
    std::os::unix::fs::symlink(moved.join("named"), moved.join("pointer"))?;
    let mut appended = OpenOptions::new()
        .append(true)
        .open(moved.join("pointer"))?;
    let _ = appended.write_vectored(&[io::IoSlice::new(b"one"), io::IoSlice::new(b"two")])?;
    let links = [format!("link-{n}"), "exchanged".to_owned()];
    match n {
        1 => fs::rename(dir.join(&links[0]), dir.join(&links[1]))?,
        _ => {
            let paths = links.map(|name| dir.join(name));
            rustix::fs::renameat_with(CWD, &paths[0], CWD, &paths[1], RenameFlags::EXCHANGE)?;
            fs::remove_file(&paths[0])?;
        }
    }
    rustix::fs::renameat_with(
        &below,
        "new",
        CWD,
        dir.join(format!("out-{n}")),
        RenameFlags::NOREPLACE,
    )?;
    fs::write(dir.join("count"), text)?;
    std::thread::scope(|scope| {
        let writes = || new.write_all_at(b"by a thread", 8000);
        let ended = [scope.spawn(writes), scope.spawn(writes)].map(|t| t.join().unwrap());
        ended.into_iter().collect::<io::Result<()>>()
    })?;
    File::open(dir)?.sync_all()?;
    rustix::fs::syncfs(File::open(dir)?)?;
    Ok(())
}

/// The model compares its files with those of the run: this test is the workload, and runs as any user.
#[test]
fn every_call_is_followed() {
    if let (Some(dir), Some(acks)) = (
        std::env::var_os("CRASHTEST_DIR"),
        std::env::var_os("CRASHTEST_ACKS"),
    ) {
        let mut acks = OpenOptions::new().append(true).open(acks).unwrap();
        for n in 1..=20 {
            change(Path::new(&dir), n).unwrap();
            acks.write_all(format!("{n}\n").as_bytes()).unwrap();
        }
        std::process::exit(0);
    }
    let this = std::env::current_exe().unwrap();
    let name = "crashtest_model::every_call_is_followed";
    let check = "last=$(tail -n 1 {acked}); [ -z \"$last\" ] || [ -f {}/out-$last ]";
    let out = std::process::Command::new(env!("CARGO_BIN_EXE_logforce"))
        .args([
            "crashtest",
            "--model",
            "--acks",
            "file",
            "--states",
            "20",
            "--check",
            check,
            "--",
        ])
        .arg(this)
        .args(["--exact", name])
        .to_end()
        .unwrap();
    if out.status.code() == Some(77) {
        return logforce_testkit::skip!("{}", text(&out.stderr).replace('\n', " "));
    }
    assert_eq!(
        out.status.code(),
        Some(0),
        "{}",
        text(&out.stdout) + &text(&out.stderr)
    );
}

/// Returns the processes of which a word of the command line is `mark`.
fn processes(mark: &str) -> usize {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.map(|p| fs::read(p.path().join("cmdline")).unwrap_or_default());
    let has_mark = |line: &Vec<u8>| line.split(|b| *b == 0).any(|word| word == mark.as_bytes());
    lines.filter(has_mark).count()
}

/// Ends the command by a signal while its workload runs; returns its exit status, and its output.
fn ended_by(signal: Signal) -> Option<(Option<i32>, String)> {
    let mark = format!("{}-{}", std::process::id(), signal.as_raw());
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_logforce"));
    command.args(["crashtest", "--model", "--check", ": {}", "--", "sh", "-c"]);
    command.args(["echo 1 > {}/log; while sleep 0.1; do :; done", &mark]);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let wait_until = |is_so: &dyn Fn(usize) -> bool| {
        let until = Instant::now() + Duration::from_secs(20);
        while !is_so(processes(&mark)) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
        is_so(processes(&mark))
    };
    // The command itself, the shell around `strace`, `strace`, and the workload.
    let is_running = wait_until(&|count| count >= 4);
    let _ = rustix::process::kill_process(Pid::from_child(&child), signal);
    let out = child.wait_with_output().unwrap();
    if out.status.code() == Some(77) {
        logforce_testkit::skip!("{}", text(&out.stderr).replace('\n', " "));
        return None;
    }
    assert!(is_running, "{}", text(&out.stderr));
    assert!(wait_until(&|count| count == 0), "processes are left");
    Some((out.status.code(), text(&out.stderr)))
}

#[test]
fn nothing_is_left_however_the_command_ends() {
    let Some((status, _)) = ended_by(Signal::KILL) else {
        return;
    };
    assert_eq!(status, None);
    // It also removes the directory of the one before.
    let (status, shown) = ended_by(Signal::INT).unwrap();
    assert_eq!(status, Some(130), "{shown}");
    assert!(shown.contains("interrupted"), "{shown}");
    let namespace = fs::metadata("/proc/self/ns/pid").unwrap().ino().to_string();
    let is_left = |name: &str| {
        let suite = name.strip_prefix("logforce-crashtest-");
        let suite = suite.and_then(|suite| suite.strip_suffix("-model"));
        let mut numbers = suite.into_iter().flat_map(|suite| suite.split('-'));
        let process = numbers.next().unwrap_or_default();
        numbers.next() == Some(&namespace) && !Path::new("/proc").join(process).exists()
    };
    let names = fs::read_dir(std::env::temp_dir()).unwrap().flatten();
    let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
    assert_eq!(names.filter(|name| is_left(name)).count(), 0);
}
