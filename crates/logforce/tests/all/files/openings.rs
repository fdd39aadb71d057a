//! Openings: modes, paths, guarantees, the method.

use super::{assert_error, contents, options};
use crate::common::temp;
use logforce::file::{ErrorKind, File};
use logforce::{Guarantee, Verdict};
use std::path::Path;

#[test]
fn create_create_new_and_neither() {
    let home = temp();
    let path = home.path().join("f");
    let existing = || options().create(false);
    let words = ["f", "Options::create"];
    assert_error(existing().open(&path), ErrorKind::NotFound, &words);
    let missing = File::options().lock(true).open(&path);
    assert_error(missing, ErrorKind::NotFound, &words);
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
    drop(options().create_new(true).open(&path).unwrap());
    let again = options().create_new(true).open(&path);
    assert_error(again, ErrorKind::AlreadyExists, &["create", "f"]);
    existing()
        .open(&path)
        .unwrap()
        .write_commit(b"abc", 0)
        .unwrap();
    assert_eq!(contents(&options().open(&path).unwrap()), b"abc");
}

#[test]
fn paths_that_are_not_of_a_file() {
    let home = temp();
    let missing = home.path().join("missing/f");
    assert_error(options().open(missing), ErrorKind::NotFound, &["missing"]);
    assert!(options().open(home.path()).is_err());
    for path in ["", "/", "..", "."] {
        let refused = options().open(Path::new(path));
        let e = refused.expect_err("not the path of a file");
        println!("{path:?}: {e}");
    }
    let below_a_file = home.path().join("f");
    drop(options().open(&below_a_file).unwrap());
    assert!(options().open(below_a_file.join("g")).is_err());
}

#[cfg(unix)]
#[test]
fn a_link_leads_to_the_file_that_is_meant() {
    let home = temp();
    let (link, file) = (home.path().join("link"), home.path().join("data"));
    std::os::unix::fs::symlink("data", &link).unwrap();
    let e = options().open(&link).expect_err("it leads nowhere");
    println!("{e}");
    drop(options().open(&file).unwrap());
    let opened = options().lock(true).open(&link).unwrap();
    opened.write_commit(b"abc", 0).unwrap();
    assert_eq!(std::fs::read(&file).unwrap(), b"abc");
    let second = options().lock(true).open(&file);
    assert_error(second, ErrorKind::Locked, &["data"]);
}

#[cfg(target_os = "linux")]
#[test]
fn memory_is_refused() {
    let Ok(home) = tempfile::tempdir_in("/dev/shm") else {
        logforce_testkit::skip!("no /dev/shm here");
        return;
    };
    let path = home.path().join("f");
    for options in [File::options(), File::options().aligned(true)] {
        let refused = options.clone().create(true).open(&path);
        let words = [
            "keeps files in memory",
            "Options::require(Guarantee::ProcessCrash)",
        ];
        assert_error(refused, ErrorKind::Unavailable, &words);
        assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
        let accepted = options.create(true).require(Guarantee::ProcessCrash);
        let file = accepted.open(&path).unwrap();
        assert_eq!(
            file.write_commit(&[1; 4096], 0).unwrap().guarantee,
            Guarantee::ProcessCrash
        );
        assert_eq!(file.verdict(), Verdict::Contradicted);
        assert!(file.evidence().contains("memory"));
        drop(file);
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn the_method_is_measured_once_for_each_kind_of_file() {
    let home = temp();
    let cache = home.path().join("cache");
    let open = |name: &str, aligned| {
        let options = File::options()
            .require(Guarantee::ProcessCrash)
            .create(true);
        let options = options.calibration_cache(&cache).aligned(aligned);
        options.open(home.path().join(name)).unwrap()
    };
    let (cached, aligned) = (open("cached", false), open("aligned", true));
    assert!(!cached.method().plan().direct);
    let known = logforce::disk::calibration::known(home.path(), Some(&cache)).unwrap();
    let Some(calibration) = known.calibration else {
        logforce_testkit::skip!("nothing is measured here");
        return;
    };
    // A log here would have the method of the aligned file.
    assert_eq!(calibration.decision.method, aligned.method());
    let stored = std::fs::read_to_string(cache.join("calibration")).unwrap();
    let entries = stored.matches("\"valid_for\"").count();
    assert_eq!(entries, 2, "{stored}");
    assert_eq!(open("again", false).method(), cached.method());
    assert_eq!(
        std::fs::read_to_string(cache.join("calibration")).unwrap(),
        stored
    );
}

#[test]
fn a_measurement_replaces_no_file_of_the_user() {
    let home = temp();
    let own = home.path().join("calibration");
    std::fs::write(&own, b"my own data").unwrap();
    let options = File::options()
        .require(Guarantee::ProcessCrash)
        .create(true);
    drop(options.clone().open(home.path().join("f")).unwrap());
    assert_eq!(std::fs::read(&own).unwrap(), b"my own data");
    drop(options.open(&own).unwrap());
    assert_eq!(std::fs::read(&own).unwrap(), b"my own data");
    let mut names: Vec<_> = std::fs::read_dir(home.path())
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .filter(|name| !name.ends_with(".calibration"))
        .collect();
    names.sort();
    assert_eq!(names, ["calibration", "f"]);
}

#[cfg(unix)]
#[test]
fn the_mode_of_a_new_file_is_set() {
    use std::os::unix::fs::PermissionsExt;
    let home = temp();
    let mode = |name: &str, options: logforce::file::Options| {
        let path = home.path().join(name);
        drop(options.open(&path).unwrap());
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    };
    assert_eq!(mode("a", options().file_mode(0o640)), 0o640);
    assert_eq!(mode("b", options()) & 0o077, 0);
}
