//! Removal of every file of an open log and of open page files, on a real filesystem. The test lists the
//! directories, so that it also covers a new kind of file.

use crate::common::*;
use logforce::pages::{self, CommitMode, PageFile};
use logforce::{Log, Options, Tuning};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// An open log or page file.
enum Subject {
    Log(Log),
    /// With a reader, which keeps an older version in use and its file there.
    Pages(
        PageFile,
        #[expect(dead_code, reason = "kept")] pages::Snapshot,
    ),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Log,
    CopyOnWrite,
    Logged,
}

const KINDS: [Kind; 3] = [Kind::Log, Kind::CopyOnWrite, Kind::Logged];

/// Files that the next opening does not need: older versions of pages for readers, and a page of statistics.
const SCRATCH: [&str; 2] = ["versions", "live"];

/// Options with which nothing is prepared or stamped meanwhile: only the timed check remains.
fn quiet() -> Options {
    options()
        .segment_size(8 << 20)
        .tuning(Tuning::new().idle_stamp(Duration::MAX))
}

impl Kind {
    /// Makes a new one, with all the files that it can have.
    fn create(self, dir: &Path) -> Subject {
        let mode = match self {
            Kind::Log => {
                let log = logforce::create_new(dir, quiet()).unwrap();
                log.commit(b"the first").unwrap();
                return Subject::Log(log);
            }
            Kind::CopyOnWrite => CommitMode::CopyOnWrite,
            Kind::Logged => CommitMode::Logged,
        };
        let options = pages::Options::new()
            .mode(mode)
            .require(logforce::Guarantee::ProcessCrash)
            .cache_size(1 << 20)
            .log(quiet());
        let file = pages::create_new(dir, options).unwrap();
        commit_page(&file).unwrap();
        file.checkpoint().unwrap();
        let reader = file.latest().unwrap();
        commit_page(&file).unwrap();
        file.checkpoint().unwrap();
        Subject::Pages(file, reader)
    }
}

fn commit_page(file: &PageFile) -> pages::Result<()> {
    let mut transaction = file.begin()?;
    transaction.page_mut(0)?[0] ^= 1;
    transaction.commit().map(drop)
}

impl Subject {
    fn commit(&self) -> Result<(), String> {
        match self {
            Subject::Log(log) => log
                .commit(b"is anybody there?")
                .map(drop)
                .map_err(Self::of_log),
            Subject::Pages(file, _) => commit_page(file).map_err(Self::of_pages),
        }
    }

    fn close(self) -> Result<(), String> {
        match self {
            Subject::Log(log) => log.close().map_err(Self::of_log),
            Subject::Pages(file, _) => file.close().map_err(Self::of_pages),
        }
    }

    /// Checks that the error is that of a displacement, and returns its message.
    #[track_caller]
    fn of_log(e: logforce::Error) -> String {
        let logforce::Error::Poisoned { cause, .. } = &e else {
            panic!("{e}");
        };
        assert_eq!(cause.kind(), logforce::ErrorKind::Displaced, "{e}");
        e.to_string()
    }

    #[track_caller]
    fn of_pages(e: pages::Error) -> String {
        let pages::Error::Poisoned(cause) = &e else {
            panic!("{e}");
        };
        assert_eq!(cause.kind(), pages::ErrorKind::Displaced, "{e}");
        e.to_string()
    }

    /// Commits until a commit is refused, which has to happen soon.
    #[track_caller]
    fn commit_until_refused(&self) -> String {
        let began = Instant::now();
        loop {
            match self.commit() {
                Ok(()) => std::thread::sleep(Duration::from_millis(2)),
                Err(e) => return e,
            }
            // The check is due within a second; a busy machine takes longer.
            assert!(
                began.elapsed() < Duration::from_secs(60),
                "the loss was not noticed"
            );
        }
    }
}

/// An action of another program on a path, and the words of the resulting error.
type Doing = (&'static str, fn(&Path));

/// Repeats the action until the file is there. The file of the statistics has no name for a moment when it is
/// rewritten.
fn settled<T>(file: &Path, mut act: impl FnMut() -> std::io::Result<T>) {
    let mut tried = || {
        let result = act();
        // The thread that writes it may not run for a while on a busy machine.
        result
            .is_err()
            .then(|| std::thread::sleep(Duration::from_millis(1)));
        result.is_ok()
    };
    assert!(
        (0..10_000).any(|_| tried()),
        "{} stays away",
        file.display()
    );
}

/// Actions on a file.
const DOINGS: [Doing; 3] = [
    ("deleted or renamed", |file| {
        settled(file, || fs::remove_file(file));
    }),
    ("deleted or renamed", |file| {
        settled(file, || fs::rename(file, file.with_extension("bak")));
    }),
    ("replaced by another", |file| {
        // Restores the file as a tool does that copies a backup or edits in a copy.
        let copy = file.with_extension("copy");
        settled(file, || fs::copy(file, &copy));
        fs::rename(copy, file).unwrap();
    }),
];

/// Lists all files below a directory, by their paths in it.
fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = PathBuf::from(path.file_name().unwrap());
        match path.is_dir() {
            true => found.extend(files(&path).into_iter().map(|file| name.join(file))),
            false => found.push(name),
        }
    }
    found.sort();
    found
}

/// Runs the cases, a few at a time, because each sleeps for most of a second.
fn run<T: Sync>(cases: &[T], run: impl Fn(&T) + Sync) {
    for some in cases.chunks(3) {
        std::thread::scope(|scope| {
            for case in some {
                scope.spawn(|| run(case));
            }
        });
    }
}

#[test]
fn every_file_is_missed() {
    let mut cases = Vec::new();
    for kind in KINDS {
        let home = temp();
        let dir = home.path().join("subject");
        let subject = kind.create(&dir);
        let names = files(&dir);
        println!("{kind:?}: {names:?}");
        subject.close().unwrap();
        let doings = |name: PathBuf| DOINGS.map(|(words, take)| (kind, name.clone(), words, take));
        cases.extend(names.into_iter().flat_map(doings));
    }
    for (kind, count) in [(Kind::Log, 3), (Kind::CopyOnWrite, 2), (Kind::Logged, 7)] {
        let of_kind = cases.iter().filter(|case| case.0 == kind).count();
        assert!(
            of_kind >= 3 * count,
            "{kind:?} has fewer files than there are"
        );
    }
    run(&cases, |(kind, name, words, take)| {
        let home = temp();
        let dir = home.path().join("subject");
        let subject = kind.create(&dir);
        let file = name.file_name().unwrap().to_str().unwrap().to_owned();
        println!("{kind:?}, {}: {words}", name.display());
        take(&dir.join(name));
        if SCRATCH.contains(&&*file) {
            let began = Instant::now();
            while began.elapsed() < Duration::from_millis(1200) {
                subject.commit().unwrap();
                std::thread::sleep(Duration::from_millis(5));
            }
            return subject.close().unwrap();
        }
        let found = format!("'{file}' was {words}");
        let refused = subject.commit_until_refused();
        assert!(refused.contains(&found), "{found}: {refused}");
        assert!(subject.close().unwrap_err().contains(&found));
    });
}

/// Also without a commit in between.
#[test]
fn every_file_is_missed_by_the_close() {
    for kind in KINDS {
        let home = temp();
        let dir = home.path().join("listed");
        kind.create(&dir).close().unwrap();
        for (n, name) in files(&dir).into_iter().enumerate() {
            let file = name.file_name().unwrap().to_str().unwrap().to_owned();
            let dir = home.path().join(n.to_string());
            let subject = kind.create(&dir);
            if !dir.join(&name).exists() {
                // Only the other subject has this segment.
                continue;
            }
            fs::remove_file(dir.join(&name)).unwrap();
            let closed = subject.close();
            assert_eq!(closed.is_ok(), SCRATCH.contains(&&*file), "{closed:?}");
        }
    }
}

fn moved(dir: &Path) -> PathBuf {
    dir.with_extension("moved")
}

/// Actions on a directory.
const ALL_GONE: [Doing; 3] = [
    ("deleted or moved away", |dir| {
        fs::rename(dir, moved(dir)).unwrap();
    }),
    ("deleted or moved away", |dir| {
        fs::rename(dir, moved(dir)).unwrap();
        fs::remove_dir_all(moved(dir)).unwrap();
    }),
    ("deleted or moved away", |dir| {
        // A copy takes its name, and the check may run in between or not.
        let copied = Command::new("cp")
            .arg("-a")
            .args([dir, &dir.with_extension("copy")])
            .status();
        // The copy fails for a file of statistics or older versions that disappears meanwhile, and copies the
        // others.
        copied.unwrap();
        fs::rename(dir, moved(dir)).unwrap();
        fs::rename(dir.with_extension("copy"), dir).unwrap();
    }),
];

#[test]
fn the_directory_is_missed() {
    let mut cases = Vec::new();
    for kind in KINDS {
        for (words, take) in ALL_GONE {
            cases.push((kind, "", words, take));
            if kind == Kind::Logged {
                cases.push((kind, "log", words, take));
            }
        }
    }
    run(&cases, |(kind, within, words, take)| {
        let home = temp();
        let dir = home.path().join("subject");
        let subject = kind.create(&dir);
        let taken = dir.join(within).components().collect::<PathBuf>();
        take(&taken);
        let refused = subject.commit_until_refused();
        assert!(refused.contains(words), "{refused}");
        assert!(subject.close().unwrap_err().contains(words));
    });
}

/// Another filesystem is mounted over the directory, so that no process finds the files below.
#[cfg(target_os = "linux")]
#[test]
fn a_mount_over_the_directory() {
    struct Unmount(PathBuf);
    impl Drop for Unmount {
        fn drop(&mut self) {
            let _ = Command::new("umount").arg(&self.0).status();
        }
    }
    for kind in KINDS {
        let home = temp();
        let dir = home.path().join("subject");
        let subject = kind.create(&dir);
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "none"])
            .arg(&dir)
            .output();
        if !mounted.is_ok_and(|m| m.status.success()) {
            logforce_testkit::skip!("nothing can be mounted here");
            return;
        }
        let unmount = Unmount(dir);
        let refused = subject.commit_until_refused();
        assert!(refused.contains("another directory is there"), "{refused}");
        subject.close().unwrap_err();
        drop(unmount);
    }
}

/// Variable with the directory that a second process opens.
const SECOND: &str = "LOGFORCE_TEST_SECOND_OPENER";

/// Opens, in the second process, the subject that its parent has open.
#[test]
fn second_opener() {
    let Some(dir) = in_second_process(SECOND) else {
        return;
    };
    let is_log = dir.join("control").exists();
    let opened = match is_log {
        true => (logforce::open_existing(&dir, quiet()).map(drop)).map_err(|e| e.to_string()),
        false => {
            let options = pages::Options::new().require(logforce::Guarantee::ProcessCrash);
            let opened = pages::open_existing(&dir, options.log(quiet()));
            opened.map(drop).map_err(|e| e.to_string())
        }
    };
    println!("{}", opened.map_or_else(|e| e, |()| "opened".to_owned()));
}

#[track_caller]
fn second_process(dir: &Path) -> String {
    let output = again("second_opener", SECOND, dir).output().unwrap();
    assert_passed(&output);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The file that holds the data is locked as well, so that deleting `lock` lets no process in. A restored
/// copy of that file is another file.
#[cfg(target_os = "linux")]
#[test]
fn a_deleted_lock_lets_no_second_process_in() {
    for kind in KINDS {
        let home = temp();
        let dir = home.path().join("subject");
        let subject = kind.create(&dir);
        let remove_locks = || {
            let names = files(&dir).into_iter();
            for name in names.filter(|name| name.ends_with("lock")) {
                fs::remove_file(dir.join(name)).unwrap();
            }
        };
        remove_locks();
        // The second attempt finds a lock file that the first one made.
        for _ in 0..2 {
            let found = second_process(&dir);
            assert!(
                found.contains("already, in this process or"),
                "{kind:?}: {found}"
            );
        }
        for name in ["pages", "control", "log/control"].map(|name| dir.join(name)) {
            if name.exists() {
                fs::copy(&name, name.with_extension("copy")).unwrap();
                fs::rename(name.with_extension("copy"), &name).unwrap();
            }
        }
        let found = second_process(&dir);
        assert!(found.contains("opened"), "{kind:?}: {found}");
        let refused = subject.commit_until_refused();
        assert!(
            refused.contains("'lock' was") || refused.contains("was replaced"),
            "{refused}"
        );
        subject.close().unwrap_err();
    }
}
