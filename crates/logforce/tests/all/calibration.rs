//! Measurements of the first opening: they are stored and shared, and cannot harm the log.

use crate::common::{assert_error, options, record};
use logforce::disk::calibration::{self, Origin};
use logforce::{ErrorKind, Method, Options};
use std::fs;
#[cfg(unix)]
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const STALE_FILE: &str = "calibration-0123456789abcdef.tmp";

/// Lock that makes the tests take turns. In one process only one opening measures at a time, and others give
/// up after a while.
static TURN: Mutex<()> = Mutex::new(());

struct Place {
    dir: TempDir,
    _turn: MutexGuard<'static, ()>,
}

impl Place {
    fn path(&self) -> &Path {
        self.dir.path()
    }
}

/// Returns a directory on the disk of the build. Returns `None`, and prints the reason, if nothing is
/// measured there.
fn place() -> Option<Place> {
    // Ignores the panic of another test, which leaves no bad state.
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let report = calibration::known_or_measured(dir.path(), None).unwrap();
    match report.origin {
        Some(Origin::Measured | Origin::Known) => Some(Place { dir, _turn: turn }),
        other => {
            logforce_testkit::skip!("{other:?}: {}", report.decision.why);
            None
        }
    }
}

fn measuring() -> Options {
    options().calibrate(true)
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn is_kept(dir: &Path) -> bool {
    let names = names(dir);
    assert!(
        !names.iter().any(|n| n.starts_with("calibration-")),
        "{names:?}"
    );
    names.iter().any(|n| n == "calibration")
}

#[test]
fn an_opening_uses_what_was_measured_and_keeps_it_beside_the_log() {
    let Some(home) = place() else { return };
    let dir = home.path().join("log");
    let log = logforce::create_new(&dir, measuring()).unwrap();
    log.commit(&record(1, 100)).unwrap();
    assert!(is_kept(&dir));
    let report = calibration::known(&dir, None).unwrap();
    assert_eq!(report.origin, Some(Origin::Known));
    assert_eq!(report.decision.method, log.recovered().method);
    assert_eq!(report.stored_in, [dir.join("calibration")]);
    assert!(!report.left_out.is_empty());
    // On a busy machine the time may be over before there are enough samples.
    assert!(!report.decision.figures.is_empty() || !report.decision.decided);
    log.close().unwrap();
    let kept = fs::read(dir.join("calibration")).unwrap();
    let log = logforce::open_existing(&dir, measuring()).unwrap();
    assert_eq!(log.recovered().method, report.decision.method);
    drop(log);
    assert_eq!(fs::read(dir.join("calibration")).unwrap(), kept);
}

/// Measuring takes at most 300 ms and one more operation. That may take seconds on a busy disk, but not in
/// every attempt.
#[test]
fn an_opening_does_not_wait_long_for_it() {
    let Some(home) = place() else { return };
    let spent = |attempt: u64| {
        let dir = home.path().join(attempt.to_string());
        drop(logforce::create_new(&dir, measuring()).unwrap());
        let report = calibration::known(&dir, None).unwrap();
        report.calibration.unwrap().spent
    };
    let least = (0..5).map(spent).min().unwrap();
    assert!(least < Duration::from_secs(2), "{least:?}");
}

#[test]
fn a_method_that_is_named_is_not_measured() {
    let Some(home) = place() else { return };
    // A method that is not the default on any system.
    let named = Method::Buffered;
    for (n, options) in [measuring().method(named), measuring().calibrate(false)]
        .into_iter()
        .enumerate()
    {
        let dir = home.path().join(n.to_string());
        let log = logforce::create_new(&dir, options).unwrap();
        let default = calibration::known(&dir, None)
            .unwrap()
            .facts
            .default_method();
        assert_eq!(log.recovered().method, [named, default][n]);
        assert!(!is_kept(&dir));
    }
}

#[test]
fn a_cache_is_made_and_shared() {
    let Some(home) = place() else { return };
    let cache = home.path().join("deep/er/cache");
    for name in ["a", "b"] {
        let dir = home.path().join(name);
        let options = measuring().calibration_cache(&cache);
        logforce::create_new(&dir, options).unwrap();
        assert!(!is_kept(&dir), "it is in the cache");
        assert!(is_kept(&cache));
    }
    #[cfg(unix)]
    {
        let mode = fs::metadata(&cache).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "for its owner only");
    }
}

#[test]
fn a_cache_that_cannot_be_used_does_no_harm() {
    let Some(home) = place() else { return };
    let file = home.path().join("file");
    fs::write(&file, "x").unwrap();
    // Names that no file can have.
    let never = if cfg!(windows) {
        "C:\\a|b\\c"
    } else {
        "/proc/x/y"
    };
    for (n, cache) in [file.join("cache"), file, PathBuf::new(), never.into()]
        .into_iter()
        .enumerate()
    {
        let dir = home.path().join(n.to_string());
        let options = measuring().calibration_cache(&cache);
        let log = logforce::create_new(&dir, options).unwrap();
        log.commit(&record(1, 100)).unwrap();
        assert!(is_kept(&dir), "beside the log instead of {cache:?}");
    }
}

#[test]
fn who_is_refused_measures_nothing() {
    let Some(home) = place() else { return };
    let dir = home.path().join("log");
    let log = logforce::create_new(&dir, options()).unwrap();
    let cache = home.path().join("cache");
    let asking = || measuring().calibration_cache(&cache);
    let began = Instant::now();
    assert_error(
        logforce::open_existing(&dir, asking()),
        ErrorKind::Locked,
        &[],
    );
    drop(log);
    let missing = home.path().join("nosuch");
    assert_error(
        logforce::open_existing(missing, asking()),
        ErrorKind::NoLog,
        &[],
    );
    let foreign = home.path().join("foreign");
    fs::create_dir(&foreign).unwrap();
    fs::write(foreign.join("letter"), "x").unwrap();
    assert_error(
        logforce::open_or_create(&foreign, asking()),
        ErrorKind::NotALog,
        &["letter"],
    );
    assert_error(
        logforce::create_new(&dir, asking()),
        ErrorKind::AlreadyExists,
        &[],
    );
    println!("{:?}", began.elapsed());
    assert!(!cache.exists() && !is_kept(&dir));
    assert_eq!(names(&foreign), ["letter"]);
}

#[test]
fn what_a_crashed_trial_left_is_no_foreign_file() {
    let Some(home) = place() else { return };
    let dir = home.path().join("log");
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join(STALE_FILE), [7; 100]).unwrap();
    fs::write(dir.join("calibration"), "rubbish").unwrap();
    logforce::create_new(&dir, options()).unwrap();
    assert!(
        !names(&dir).contains(&STALE_FILE.to_owned()),
        "it is cleared away"
    );
    calibration::measured(&dir, None, Duration::from_millis(50)).unwrap();
    assert!(is_kept(&dir));
}

#[test]
fn whatever_lies_there_under_the_name_the_log_opens() {
    let Some(home) = place() else { return };
    let secret = home.path().join("secret");
    fs::write(&secret, "untouched").unwrap();
    type Make = fn(&Path, &Path);
    let all: &[Make] = &[
        |at, _| fs::write(at, vec![b'['; 2 << 20]).unwrap(),
        |at, _| fs::write(at, [0xff; 999]).unwrap(),
        |at, _| fs::create_dir(at).unwrap(),
        #[cfg(unix)]
        |at, secret| symlink(secret, at).unwrap(),
        #[cfg(target_os = "linux")]
        |at, _| {
            let fifo = rustix::fs::FileType::Fifo;
            rustix::fs::mknodat(rustix::fs::CWD, at, fifo, 0o600.into(), 0).unwrap();
        },
    ];
    for (n, make) in all.iter().enumerate() {
        let dir = home.path().join(n.to_string());
        logforce::create_new(&dir, options()).unwrap();
        make(&dir.join("calibration"), &secret);
        let log = logforce::open_existing(&dir, measuring()).unwrap();
        log.commit(&record(1, 100)).unwrap();
        log.close().unwrap();
        let left: Vec<String> = names(&dir);
        assert!(!left.iter().any(|n| n.ends_with(".tmp")), "{left:?}");
    }
    assert_eq!(fs::read_to_string(&secret).unwrap(), "untouched");
}

#[cfg(unix)]
#[test]
fn a_place_that_cannot_be_written_to_is_no_error() {
    let Some(home) = place() else { return };
    let dir = home.path().join("readable");
    fs::create_dir(&dir).unwrap();
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o555)).unwrap();
    // Root can write nevertheless, so the directory is measured. Another user cannot create a file for direct
    // I/O, so there may be nothing to compare.
    let report = calibration::measured(&dir, None, Duration::from_millis(50)).unwrap();
    let measured = matches!(report.origin, Some(Origin::Measured));
    assert_eq!(measured, report.calibration.is_some());
    assert_eq!(names(&dir), [""; 0]);
    let missing = calibration::known(dir.join("nosuch"), None);
    assert_error(missing, ErrorKind::Io, &["nosuch"]);
}
