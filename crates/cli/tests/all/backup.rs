//! `logforce backup` of logs. `pages.rs` tests backups of page files.

use crate::common::{place, text};
use crate::logs::{all_output, filled, flip, json, logforce, options, segments};
#[cfg(target_os = "linux")]
use logforce::pages::CommitMode;
use logforce_testkit::Rng;
#[cfg(target_os = "linux")]
use logforce_testkit::loopfs::LoopFs;
use logforce_testkit::process::Start;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

fn back_up(from: &Path, to: &Path, more: &[&str]) -> Output {
    let mut arguments = vec![to.to_str().unwrap(), "--require", "process-crash"];
    arguments.extend(more);
    logforce(from, "backup", &arguments)
}

#[test]
fn a_closed_log() {
    let dir = place();
    let (path, to) = (dir.path().join("log"), dir.path().join("to"));
    let (log, starts) = filled(&path, 150);
    log.truncate_front(starts[40]).unwrap();
    log.set_meta(b"vote").unwrap();
    log.close().unwrap();

    let out = back_up(&path, &to, &["--json", "-"]);
    assert_eq!(out.status.code(), Some(0), "{}", all_output(&out));
    let report = json(&out);
    assert_eq!(report["schema"], "logforce-backup");
    assert_eq!(
        (&report["kind"], &report["front"]),
        (&"log".into(), &starts[40].0.into())
    );
    let document = include_str!("../../../../docs/cli-json.md");
    for name in report.as_object().unwrap().keys() {
        assert!(document.contains(&format!("`{name}`")), "{name}");
    }
    let said = text(&out.stderr);
    assert!(said.contains("from LSN"), "{said}");

    // Every record is the same, at the same LSN.
    let records = |path: &Path| {
        let log = logforce::open_existing(path, options()).unwrap();
        let read = log.read_from(log.front_lsn()).unwrap();
        let records: Vec<_> = read.map(Result::unwrap).collect();
        (log.front_lsn(), log.id(), log.meta().unwrap(), records)
    };
    assert!(text(&logforce(&to, "verify", &[]).stdout).contains("110 records"));
    assert_eq!(records(&path), records(&to));
    // A second backup into the same directory.
    let refused = back_up(&path, &to, &[]);
    assert_eq!(refused.status.code(), Some(4));
    assert!(all_output(&refused).contains("not empty"));
    let inside = back_up(&path, &path.join("inside"), &[]);
    assert_eq!(inside.status.code(), Some(4));
    assert!(all_output(&inside).contains("own directory"));
    assert!(!path.join("inside").exists());
    // Any path that leads there is refused.
    let dots = dir.path().join("to/../log/inside");
    assert!(all_output(&back_up(&path, &dots, &[])).contains("own directory"));
    #[cfg(unix)]
    {
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(all_output(&back_up(&path, &link.join("inside"), &[])).contains("own directory"));
        assert!(all_output(&back_up(&link, &path.join("inside"), &[])).contains("own directory"));
    }
    assert!(!path.join("inside").exists());
    // A directory beside the log is accepted.
    let beside = back_up(&path, &path.join("../beside"), &[]);
    assert_eq!(beside.status.code(), Some(0), "{}", all_output(&beside));
    // A backup needs a log.
    let none = back_up(&dir.path().join("none"), &dir.path().join("x"), &[]);
    assert_eq!(none.status.code(), Some(4));
    let said = all_output(&none);
    assert!(
        said.contains("none") && said.contains("not exist"),
        "{said}"
    );
    assert!(!dir.path().join("x").exists());
    // Without its control file, the log can only be salvaged.
    std::fs::remove_file(path.join("control")).unwrap();
    let lost = back_up(&path, &dir.path().join("x"), &[]);
    assert_eq!(lost.status.code(), Some(4));
    let advice = format!("`logforce salvage {} NEW`", path.display());
    assert!(all_output(&lost).contains(&advice), "{}", all_output(&lost));
    let help = text(&logforce(&path, "backup", &["--help"]).stdout);
    let (_, statuses) = help.split_once("4 failed").unwrap();
    assert!(statuses.contains("control file"), "{statuses}");
}

/// A directory that does not survive a power cut is refused, with the option of the command that accepts it.
#[cfg(target_os = "linux")]
#[test]
fn into_memory() {
    let Ok(memory) = tempfile::tempdir_in("/dev/shm") else {
        return logforce_testkit::skip!("no /dev/shm");
    };
    let dir = place();
    let (path, pages) = (dir.path().join("log"), dir.path().join("pages"));
    filled(&path, 3).0.close().unwrap();
    crate::pages::made(&pages, CommitMode::CopyOnWrite);
    for from in [path, pages] {
        let to = memory.path().join("to");
        let out = logforce(&from, "backup", &[to.to_str().unwrap()]);
        let said = all_output(&out);
        if out.status.success() {
            return logforce_testkit::skip!("/dev/shm is not in memory");
        }
        assert_eq!(out.status.code(), Some(4), "{said}");
        let advice = "accept less with --require process-crash";
        assert!(said.contains(advice) && !said.contains("Options"), "{said}");
        assert!(!to.exists(), "{said}");
    }
}

/// Page files on a read-only mount can be read but not opened.
#[cfg(target_os = "linux")]
#[test]
fn page_files_on_a_read_only_mount() {
    let home = place();
    let fs = match LoopFs::new("ext4", 64, home.path()) {
        Ok(fs) => fs,
        Err(skip) => return logforce_testkit::skip!("{skip}"),
    };
    let modes = [CommitMode::Logged, CommitMode::CopyOnWrite];
    let at = |mode| fs.path().join(format!("{mode:?}"));
    for mode in modes {
        crate::pages::made(&at(mode), mode);
    }
    fs.remount("ro").unwrap();
    for mode in modes {
        let to = home.path().join(format!("{mode:?}"));
        let out = back_up(&at(mode), &to, &["--json", "-"]);
        assert_eq!(out.status.code(), Some(0), "{}", all_output(&out));
        let report = json(&out);
        let said = (&report["kind"], &report["pages"], &report["commit"]);
        assert_eq!(said, (&"page file".into(), &10.into(), &3.into()));
        let out = logforce(&to, "verify", &[]);
        assert_eq!(out.status.code(), Some(0), "{}", all_output(&out));
        let read = logforce::pages::read_only(&to).unwrap();
        assert_eq!(&read.page(2).unwrap()[..6], b"hellob", "{mode:?}");
    }
}

#[test]
fn rot_is_found_when_the_backup_is_made() {
    let dir = place();
    let (path, to) = (dir.path().join("log"), dir.path().join("to"));
    let (log, _) = filled(&path, 200);
    log.close().unwrap();
    let first = segments(&path)[0].clone();
    // A bit of the first record, which follows the batch of the opening.
    flip(&first, 2 * 4096 + 200);
    let out = back_up(&path, &to, &[]);
    let said = all_output(&out);
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(said.contains("salvage"), "{said}");
    assert!(!to.exists(), "nothing is left");
}

/// Raises a flag when it is dropped.
struct Raise<'a>(&'a AtomicBool);

impl Drop for Raise<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// Backups of a log that a program writes and truncates, killed at any moment. A killed backup leaves a
/// directory that does not open as a log, and the same command completes it.
#[test]
fn killed_beside_a_writer() {
    let dir = place();
    let path = dir.path().join("log");
    let (log, _) = filled(&path, 300);
    let (stop, next) = (AtomicBool::new(false), AtomicU64::new(0));
    // Under Wine the writer truncates records faster than a backup copies them.
    let truncates = AtomicBool::new(true);
    let (mut whole, mut cut) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(SeqCst) {
                let n = next.load(SeqCst);
                let mut record = n.to_le_bytes().to_vec();
                record.resize(3_000, 7);
                let at = log.commit(record).unwrap();
                next.store(n + 1, SeqCst);
                if n % 150 == 149 && truncates.load(SeqCst) {
                    log.truncate_front(at.end).unwrap();
                }
                std::thread::sleep(Duration::from_micros(500));
            }
        });
        // Also stops the writer if a check fails. Otherwise it would go on for ever.
        let _stop = Raise(&stop);
        let mut rng = Rng::new(1);
        for round in 0..12 {
            let to = dir.path().join(format!("to{round}"));
            let before = next.load(SeqCst);
            let mut child = Command::new(env!("CARGO_BIN_EXE_logforce"));
            child.arg("backup").args([&path, &to]);
            child.args(["--require", "process-crash"]);
            child.stdout(Stdio::null()).stderr(Stdio::null());
            let mut child = child.start().unwrap();
            std::thread::sleep(Duration::from_micros(rng.below(25_000)));
            child.kill().unwrap();
            let ended = child.wait().unwrap();
            let opened = logforce::read_only(&to);
            match &opened {
                Ok(_) => whole += 1,
                Err(e) => {
                    cut += 1;
                    assert!(!ended.success(), "it said that it was done: {e}");
                    assert_eq!(e.kind(), logforce::ErrorKind::NoLog, "{e}");
                    if to.join("control.backup").exists() {
                        let made = logforce::open_or_create(&to, options());
                        let e = made.expect_err("a new log is refused there");
                        assert!(e.to_string().contains("cut short"), "{e}");
                    }
                    truncates.store(!cfg!(windows), SeqCst);
                    let out = back_up(&path, &to, &[]);
                    truncates.store(true, SeqCst);
                    assert_eq!(out.status.code(), Some(0), "{}", all_output(&out));
                }
            }
            let copy = logforce::open_existing(&to, options()).unwrap();
            let read = copy.read_from(copy.front_lsn()).unwrap();
            let numbers: Vec<u64> = read
                .map(|r| r.unwrap().data)
                .filter(|data| data.len() == 3_000)
                .map(|data| u64::from_le_bytes(data[..8].try_into().unwrap()))
                .collect();
            assert!(numbers.windows(2).all(|w| w[0] + 1 == w[1]), "{round}");
            if let Some(last) = numbers.last() {
                // All records but the last one, which a stamp proves only later.
                assert!(last + 2 >= before, "{round}: {last} of {before}");
            }
        }
    });
    println!("{whole} were whole, {cut} cut short");
    assert!(cut > 0);
    log.close().unwrap();
}
