//! `logforce doctor` on real storage stacks: verdict, tree, exit status.

mod forgetful;

use crate::common::place;
use crate::logs::all_output;
use logforce_testkit::loopfs::{LoopFs, unmount};
use logforce_testkit::process::Start;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Examines the path, and returns the exit status and the document.
fn doctor(path: &Path, more: &[&str]) -> (i32, Value) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_logforce"));
    command.arg("doctor").arg(path).args(more);
    command.args(["--json", "-"]).stdin(Stdio::null());
    let out = command.to_end().unwrap();
    let document = serde_json::from_slice(&out.stdout);
    let document = document.unwrap_or_else(|e| panic!("{e}: {}", all_output(&out)));
    assert!(out.stderr.is_empty(), "{}", all_output(&out));
    (out.status.code().unwrap(), document)
}

/// Checks status and verdict, and that the sentence contains `words`.
#[track_caller]
fn is(
    (status, document): &(i32, Value),
    expected: i32,
    survives: &str,
    verdict: &str,
    words: &str,
) {
    let c = &document["conclusion"];
    let found = (
        *status,
        c["survives"].as_str().unwrap(),
        c["verdict"].as_str().unwrap(),
    );
    assert_eq!(found, (expected, survives, verdict), "{document:#}");
    let sentence = c["sentence"].as_str().unwrap();
    assert!(sentence.contains(words), "{words}: {sentence}");
}

/// Returns the names of the layers, each with its level.
fn layers(document: &Value) -> Vec<(u64, String)> {
    let stack = document["stack"].as_array().unwrap().iter();
    stack
        .map(|l| {
            (
                l["level"].as_u64().unwrap(),
                l["name"].as_str().unwrap().to_owned(),
            )
        })
        .collect()
}

fn test<'a>(document: &'a Value, name: &str) -> &'a Value {
    let tests = document["tests"].as_array().unwrap();
    tests
        .iter()
        .find(|t| t["name"] == name)
        .unwrap_or_else(|| panic!("{name}: {document:#}"))
}

/// A mount that is removed at the end.
struct Mount(PathBuf);

impl Mount {
    fn new(kind: &str, options: &str, source: &str, at: &Path) -> Option<Mount> {
        let mut mount = Command::new("mount");
        mount.args(["-t", kind, "-o", options, source]).arg(at);
        let out = mount.output().ok()?;
        if !out.status.success() {
            logforce_testkit::skip!("no {kind} with {options}: {}", all_output(&out).trim());
            return None;
        }
        Some(Mount(at.to_owned()))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = unmount(&self.0);
    }
}

fn sub(of: &Path, name: &str) -> PathBuf {
    let path = of.join(name);
    fs::create_dir(&path).unwrap();
    path
}

/// Returns the expected status, guarantee, verdict and words for a healthy filesystem on a loop device. Its file is
/// sparse, so that a write through the system's cache may fail unnoticed.
fn healthy(fs: &LoopFs) -> (i32, &'static str, &'static str, &'static str) {
    let dio = fs::read_to_string(format!("/sys/block/{}/loop/dio", fs.device())).unwrap();
    match dio.trim() {
        "0" => (
            3,
            "power-loss?",
            "unknown",
            "does not have all of its blocks yet",
        ),
        _ => (0, "power-loss", "declared", "by "),
    }
}

fn on_loop(kind: &str, size: u64, dir: &Path) -> Option<LoopFs> {
    match LoopFs::new(kind, size, dir) {
        Ok(fs) => Some(fs),
        Err(why) => {
            logforce_testkit::skip!("{why}");
            None
        }
    }
}

#[test]
fn memory_survives_nothing() {
    let home = place();
    for kind in ["tmpfs", "ramfs"] {
        let at = sub(home.path(), kind);
        let Some(mount) = Mount::new(kind, "rw", kind, &at) else {
            return;
        };
        let found = doctor(&mount.0, &[]);
        is(&found, 1, "process-crash", "contradicted", "in memory");
        assert_eq!(
            layers(&found.1),
            [(0, format!("{kind} on {}", at.display()))]
        );
        assert_eq!(
            test(&found.1, "force-costs")["passed"],
            false,
            "{:#}",
            found.1
        );
        assert!(found.1["machine"]["barriers"].is_null());
    }
}

#[test]
fn each_filesystem_on_a_loop_device() {
    let home = place();
    for (kind, size) in [
        ("ext4", 32),
        ("ext4-nojournal", 32),
        ("ext4-noload", 32),
        ("ext4-nobarrier", 32),
        ("xfs", 320),
        ("btrfs-nodatacow", 128),
    ] {
        let Some(fs) = on_loop(kind, size, home.path()) else {
            return;
        };
        let found = doctor(fs.path(), &[]);
        let (status, survives, verdict, words) = match kind {
            "ext4-nobarrier" => (1, "process-crash", "contradicted", "without barriers"),
            // The repair after a power cut may overwrite forced blocks.
            "ext4-nojournal" | "ext4-noload" => (3, "power-loss?", "unknown", "unknown"),
            _ => healthy(&fs),
        };
        is(&found, status, survives, verdict, words);
        let names = layers(&found.1);
        assert_eq!(names[0].0, 0);
        assert_eq!(names[1], (1, fs.device().to_owned()), "{names:?}");
        // The disk below the file of the loop device is the last layer. Without barriers nothing reaches it.
        let deepest = if kind == "ext4-nobarrier" { 2 } else { 3 };
        assert!(names.last().unwrap().0 >= deepest, "{names:?}");
        let notes = found.1["machine"]["notes"].as_array().unwrap().iter();
        let own: Vec<&str> = notes
            .filter_map(Value::as_str)
            .filter(|n| !n.starts_with("Below"))
            .collect();
        let says = |words: &str| own.iter().any(|n| n.contains(words));
        assert_eq!(
            says("mounted without its journal (no"),
            kind == "ext4-noload",
            "{own:?}"
        );
        assert_eq!(says("has no journal"), kind == "ext4-nojournal", "{own:?}");
        let arrive: Vec<&Value> = found.1["tests"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|t| t["name"] == "flushes-arrive")
            .collect();
        let devices = if kind == "ext4-nobarrier" { 1 } else { 2 };
        assert!(arrive.len() >= devices, "one for each device: {arrive:?}");
        let question = format!("Do the forces reach {}?", fs.device());
        let own = arrive.iter().find(|t| t["question"] == *question).unwrap();
        assert_eq!(own["passed"], kind != "ext4-nobarrier", "{own}");
        assert_eq!(
            fs::read_dir(fs.path())
                .unwrap()
                .filter(|e| e.as_ref().unwrap().file_name() != "lost+found")
                .count(),
            0,
            "nothing is left"
        );
    }
}

#[test]
fn an_overlay_is_its_upper_directory() {
    let home = place();
    let Some(fs) = on_loop("ext4", 32, home.path()) else {
        return;
    };
    let overlay = |name: &str, upper: &Path, more: &str| {
        let (lower, work) = (sub(fs.path(), &format!("l{name}")), upper.join("w"));
        let (upper, at) = (sub(upper, "u"), sub(home.path(), name));
        fs::create_dir(&work).unwrap();
        let options = format!(
            "lowerdir={},upperdir={},workdir={}{more}",
            lower.display(),
            upper.display(),
            work.display()
        );
        Mount::new("overlay", &options, "overlay", &at)
    };
    let of = |name: &str| sub(fs.path(), name);
    let Some(normal) = overlay("normal", &of("a"), "") else {
        return;
    };
    let found = doctor(&normal.0, &[]);
    let (status, survives, verdict, words) = healthy(&fs);
    is(&found, status, survives, verdict, words);
    assert_eq!(
        found.1["machine"]["device"],
        fs.device(),
        "that of the upper directory"
    );
    let names = layers(&found.1);
    assert!(
        names[1].1.contains("the overlay's upper directory"),
        "{names:?}"
    );
    assert_eq!(names[2], (2, fs.device().to_owned()), "{names:?}");
    if let Some(volatile) = overlay("volatile", &of("b"), ",volatile") {
        is(
            &doctor(&volatile.0, &[]),
            1,
            "process-crash",
            "contradicted",
            "drops every sync",
        );
    }
    let memory = sub(home.path(), "memory");
    let Some(memory) = Mount::new("tmpfs", "rw", "tmpfs", &memory) else {
        return;
    };
    let Some(upper) = overlay("upper", &memory.0, "") else {
        return;
    };
    is(
        &doctor(&upper.0, &[]),
        1,
        "process-crash",
        "contradicted",
        "tmpfs keeps files in memory",
    );
    drop((upper, memory));
}

#[test]
fn a_loop_on_a_loop_and_a_deleted_file() {
    let home = place();
    let Some(outer) = on_loop("ext4", 96, home.path()) else {
        return;
    };
    let Some(inner) = on_loop("ext4", 32, outer.path()) else {
        return;
    };
    let found = doctor(inner.path(), &["--passive"]);
    let names = layers(&found.1);
    let level = |name: &str| {
        names
            .iter()
            .find(|(_, n)| n == name)
            .map(|(level, _)| *level)
    };
    assert_eq!(
        (level(inner.device()), level(outer.device())),
        (Some(1), Some(3)),
        "{names:?}"
    );
    assert_eq!(found.0, healthy(&outer).0.max(healthy(&inner).0));
    fs::remove_file(inner.image()).unwrap();
    is(
        &doctor(inner.path(), &[]),
        1,
        "process-crash",
        "contradicted",
        "the file was deleted",
    );
}

#[test]
fn every_device_of_a_btrfs_raid_is_in_the_tree() {
    let home = place();
    let images = ["a", "b"].map(|name| home.path().join(name));
    let run = |program: &str, arguments: &[&str]| {
        let out = Command::new(program).args(arguments).output().ok()?;
        let text = String::from_utf8_lossy(&out.stdout).trim().to_owned();
        out.status.success().then_some(text)
    };
    let mut devices = Vec::new();
    for image in &images {
        fs::File::create(image).unwrap().set_len(128 << 20).unwrap();
        devices.extend(run(
            "losetup",
            &["--find", "--show", image.to_str().unwrap()],
        ));
    }
    let detach = || {
        devices
            .iter()
            .for_each(|d| drop(run("losetup", &["--detach", d])))
    };
    let [a, b] = &devices[..] else {
        detach();
        return logforce_testkit::skip!("no loop devices");
    };
    if run(
        "mkfs.btrfs",
        &["-q", "-f", "-m", "raid1", "-d", "raid1", a, b],
    )
    .is_none()
    {
        detach();
        return logforce_testkit::skip!("no mkfs.btrfs");
    }
    let at = sub(home.path(), "at");
    let mounted = Mount::new("btrfs", &format!("nodiscard,device={a},device={b}"), a, &at);
    let found = mounted.as_ref().map(|_| doctor(&at, &[]));
    drop(mounted);
    detach();
    let Some(found) = found else { return };
    let names = layers(&found.1);
    for device in &devices {
        let name = device.trim_start_matches("/dev/").to_owned();
        assert!(names.contains(&(1, name)), "{device}: {names:?}");
    }
    assert_eq!(found.0, 3, "{:#}", found.1);
}

/// The stack alone says only that a program decides. The test finds out that it does nothing.
#[test]
fn a_fuse_filesystem_that_ignores_fsync_is_found_out() {
    let home = place();
    let at = sub(home.path(), "fuse");
    let mounted = match forgetful::mount(&at) {
        Ok(mounted) => mounted,
        Err(why) => return logforce_testkit::skip!("no FUSE: {why}"),
    };
    is(
        &doctor(&at, &["--passive"]),
        3,
        "power-loss?",
        "unknown",
        "a program serves",
    );
    // Beside other work a write may seem as slow as a force, and then nothing is found out.
    let mut tries = (0..5).map(|_| doctor(&at, &[]));
    let found = tries.find(|found| found.0 == 1);
    let found = found.unwrap_or_else(|| doctor(&at, &[]));
    drop(mounted);
    is(
        &found,
        1,
        "power-loss?",
        "implausible",
        "does not reach a device",
    );
    assert_eq!(test(&found.1, "force-costs")["passed"], false);
}

#[test]
fn what_is_hidden_is_not_promised() {
    let dir = place();
    let program = env!("CARGO_BIN_EXE_logforce");
    for (hidden, words) in [
        ("/proc", "how it is mounted cannot be seen"),
        ("/sys", "it cannot be seen in /dev and /sys"),
    ] {
        let script =
            format!("mount -t tmpfs none {hidden} && exec \"$0\" doctor \"$1\" --passive --json -");
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "sh", "-c", &script, program])
            .arg(dir.path());
        let out = match command.output() {
            Ok(out) if !out.stdout.is_empty() => out,
            failed => return logforce_testkit::skip!("no mount namespace: {failed:?}"),
        };
        let document: Value = serde_json::from_slice(&out.stdout).unwrap();
        let found = (out.status.code().unwrap(), document);
        if found.1["kind"] == "volatile" {
            return logforce_testkit::skip!("the temporary directory is in memory");
        }
        assert_eq!(found.0, 3, "{:#}", found.1);
        assert!(
            found.1["conclusion"]["sentence"]
                .as_str()
                .unwrap()
                .contains(words),
            "{:#}",
            found.1
        );
        if hidden == "/proc" {
            assert!(
                found.1["machine"]["barriers"].is_null(),
                "unknown, and not `true`"
            );
        }
    }
}

#[test]
fn a_device_and_a_file_are_examined_too() {
    let home = place();
    let Some(fs) = on_loop("ext4", 32, home.path()) else {
        return;
    };
    let device = PathBuf::from(format!("/dev/{}", fs.device()));
    let found = doctor(&device, &[]);
    assert_eq!(
        (&found.1["target"], layers(&found.1)[0].clone()),
        (&"device".into(), (1, fs.device().to_owned()))
    );
    assert!(
        found.1["untested"]
            .as_str()
            .unwrap()
            .contains("because they write")
    );
    let file = fs.path().join("file");
    fs::write(&file, "x").unwrap();
    let found = doctor(&file, &[]);
    assert_eq!(found.1["target"], "file");
    assert_eq!(layers(&found.1)[1], (1, fs.device().to_owned()));
    // A container mounts single files: the directory says nothing about them.
    let memory = sub(home.path(), "memory");
    let Some(memory) = Mount::new("tmpfs", "rw", "tmpfs", &memory) else {
        return;
    };
    let inner = memory.0.join("inner");
    fs::write(&inner, "x").unwrap();
    let bound = Mount::new("none", "bind", inner.to_str().unwrap(), &file);
    let found = doctor(&file, &[]);
    drop(bound);
    is(
        &found,
        1,
        "process-crash",
        "contradicted",
        "tmpfs keeps files in memory",
    );
    assert!(
        found.1["untested"]
            .as_str()
            .unwrap()
            .contains("mounted by itself")
    );
    let mut command = Command::new(env!("CARGO_BIN_EXE_logforce"));
    let out = command.args(["doctor", "/dev/null"]).to_end().unwrap();
    assert_eq!(out.status.code(), Some(4));
    assert!(
        all_output(&out).contains("/dev/null is not a block device"),
        "{}",
        all_output(&out)
    );
}

#[test]
fn the_page_shows_verdict_layers_and_tests() {
    let (dir, home) = (place(), place());
    let page = home.path().join("page.html");
    let mut command = Command::new(env!("CARGO_BIN_EXE_logforce"));
    command
        .arg("doctor")
        .arg(dir.path())
        .arg("--report")
        .arg(&page);
    command.to_end().unwrap();
    let page = fs::read_to_string(page).unwrap();
    for part in [
        "A commit in",
        "The stack, from the filesystem down",
        "Does a force cost more than a write?",
        "fdatasync",
    ] {
        assert!(page.contains(part), "{part}");
    }
}
