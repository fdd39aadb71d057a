//! Tests of a page file that is taken away while it is open: which displacements count, and how soon they are
//! detected.

use crate::common::*;
use logforce_core::Policy;
use logforce_device::{Directory, OpenFile, System, Whereabouts};
use logforce_pages::{CommitMode, Error, ErrorKind, Inspector, PageFile};
use logforce_testkit::{SimDisk, SimOptions, SimRuntime};
use std::path::Path;
use std::time::Duration;

/// Takes a file or directory away, as another program would.
type Taking = fn(&SimDisk, &dyn System);

fn dir(system: &dyn System) -> std::sync::Arc<dyn Directory> {
    system.directory(Path::new(PATH)).unwrap()
}

fn log_dir(system: &dyn System) -> std::sync::Arc<dyn Directory> {
    system.directory(&Path::new(PATH).join("log")).unwrap()
}

fn copy_over(dir: &dyn Directory, name: &str) {
    dir.open("copy", OpenFile::CREATE).unwrap();
    dir.rename("copy", name).unwrap();
}

/// Displacements that apply to both commit modes.
const WAYS: [(&str, Taking); 7] = [
    ("deleted or moved away", |disk, _| {
        disk.displace(PATH, Whereabouts::Gone);
    }),
    ("another directory is there", |disk, _| {
        disk.displace(PATH, Whereabouts::Replaced);
    }),
    ("'pages' was deleted or renamed", |_, system| {
        dir(system).remove("pages").unwrap();
    }),
    ("'pages' was deleted or renamed", |_, system| {
        dir(system).rename("pages", "pages.bak").unwrap();
    }),
    ("'pages' was replaced", |_, system| {
        copy_over(&*dir(system), "pages")
    }),
    ("'lock' was deleted or renamed", |_, system| {
        dir(system).remove("lock").unwrap();
    }),
    ("'lock' was replaced", |_, system| {
        copy_over(&*dir(system), "lock")
    }),
];

/// Additional displacements of a logged file.
const LOGGED: [(&str, Taking); 8] = [
    ("'map' was deleted or renamed", |_, system| {
        dir(system).remove("map").unwrap();
    }),
    ("'map' was deleted or renamed", |_, system| {
        dir(system).rename("map", "map.bak").unwrap();
    }),
    ("'map' was replaced", |_, system| {
        copy_over(&*dir(system), "map")
    }),
    ("deleted or moved away", |disk, _| {
        disk.displace(Path::new(PATH).join("log"), Whereabouts::Gone);
    }),
    ("another directory is there", |disk, _| {
        disk.displace(Path::new(PATH).join("log"), Whereabouts::Replaced);
    }),
    ("'control' was deleted", |_, system| {
        log_dir(system).remove("control").unwrap();
    }),
    ("'lock' was replaced", |_, system| {
        copy_over(&*log_dir(system), "lock")
    }),
    (".seg' was deleted", |_, system| {
        let names = log_dir(system).entries().unwrap();
        let mut names: Vec<_> = names.into_iter().map(|e| e.name).collect();
        names.sort();
        let segment = names.iter().find(|n| n.ends_with(".seg")).unwrap();
        log_dir(system).remove(segment).unwrap();
    }),
];

fn ways(mode: CommitMode) -> impl Iterator<Item = (&'static str, Taking)> {
    let logged: &[_] = match mode {
        CommitMode::Logged => &LOGGED,
        CommitMode::CopyOnWrite => &[],
    };
    WAYS.iter().chain(logged).copied()
}

/// Runs `body` for each commit mode and each displacement, with and without direct writes.
fn each(body: impl Fn(&SimDisk, &dyn System, &PageFile, &str, Taking)) {
    for mode in MODES {
        for (words, take) in ways(mode) {
            for direct in [true, false] {
                let method = match direct {
                    true => logforce_device::Method::DirectDsync,
                    false => logforce_device::Method::Fdatasync,
                };
                let sim = SimOptions {
                    direct,
                    ..SimOptions::default()
                };
                let disk = SimDisk::new(sim, 1);
                SimRuntime::run(1, |rt| {
                    // Uses large segments, so that nothing is prepared or stamped meanwhile.
                    let log = logforce_core::Options::new()
                        .method(method)
                        .segment_size(1 << 20)
                        .max_batch_size(16 << 10)
                        .buffer_size(64 << 10)
                        .idle_stamp(Duration::MAX)
                        .live_stats(false);
                    let options = options(mode).checkpoint_distance(1 << 20).log(log);
                    let file = open(rt, &disk, options).unwrap();
                    println!("{mode:?}, {words}, direct: {direct}");
                    body(&disk, &*disk.system(rt), &file, words, take);
                });
            }
        }
    }
}

fn pause(system: &dyn System, time: Duration) {
    let word = logforce_device::sync::AtomicU32::new(0);
    system.runtime().wait(&word, 0, Some(time));
}

fn commit(file: &PageFile, page_at: u64, tag: u64) -> Result<(), Error> {
    let mut transaction = file.begin()?;
    transaction.write(page_at, &page(tag))?;
    transaction.commit().map(drop)
}

#[track_caller]
fn assert_displaced<T>(answer: Result<T, Error>, words: &str) {
    let Err(e) = answer else {
        panic!("{words}: the commit was acknowledged");
    };
    assert_eq!(e.kind(), ErrorKind::Poisoned, "{e}");
    let Error::Poisoned(cause) = &e else {
        panic!("{e}");
    };
    assert_eq!(cause.kind(), ErrorKind::Displaced, "{e}");
    let Error::Displaced { path, .. } = &**cause else {
        panic!("{e}");
    };
    assert!(path.starts_with(PATH), "{e}");
    assert!(cause.to_string().contains(words), "{words}: {cause}");
    assert!(
        cause.to_string().contains("restore what was removed"),
        "{cause}"
    );
}

#[test]
fn noticed_within_a_second_of_commits() {
    for busy in [false, true] {
        each(|disk, system, file, words, take| {
            commit(file, 0, 1).unwrap();
            // All threads sleep, or have just checked.
            pause(system, Duration::from_secs(if busy { 0 } else { 60 }));
            commit(file, 0, 2).unwrap();
            pause(system, Duration::from_millis(if busy { 1 } else { 60_000 }));
            take(disk, system);
            let began = system.runtime().now();
            let refused = loop {
                match commit(file, 0, 3) {
                    Ok(()) => pause(system, Duration::from_millis(20)),
                    refused => break refused,
                }
                let took = system.runtime().now() - began;
                assert!(took < Duration::from_secs(1), "{words}: no check was made");
            };
            assert_displaced(refused, words);
            assert_displaced(file.checkpoint(), words);
            // Durable pages can still be read.
            let mut found = page(0);
            file.snapshot().unwrap().read(0, &mut found).unwrap();
            assert_ne!(found, page(0));
            assert_displaced(file.clone().close(), words);
        });
    }
}

#[test]
fn noticed_by_growth_a_checkpoint_and_the_close() {
    type Step = fn(&PageFile) -> Result<(), Error>;
    let steps: [(&str, Step); 4] = [
        ("close", |file| file.clone().close()),
        ("a checkpoint without anything to do", |file| {
            file.checkpoint()
        }),
        ("a checkpoint", |file| {
            let mut transaction = file.begin()?;
            transaction.write(0, &page(7))?;
            drop(transaction.submit()?);
            file.checkpoint()
        }),
        // Makes enough commits for a segment of the log, or for a step of the data file.
        ("growth", |file| {
            (0..40).try_for_each(|round| {
                let mut transaction = file.begin()?;
                (0..100).try_for_each(|n| transaction.write(round * 100 + n, &page(n)))?;
                transaction.commit().map(drop)
            })
        }),
    ];
    for (name, step) in steps {
        each(|disk, system, file, words, take| {
            commit(file, 0, 1).unwrap();
            file.checkpoint().unwrap();
            take(disk, system);
            println!("by {name}");
            assert_displaced(step(file), words);
        });
    }
}

/// Makes one commit that is not forced for an hour, and nothing afterwards.
#[test]
fn noticed_though_nothing_is_forced() {
    for policy in [
        Policy::Write {
            force_within: Duration::from_secs(3600),
        },
        Policy::Interval {
            within: Duration::from_secs(3600),
        },
    ] {
        each(|disk, system, file, words, take| {
            commit(file, 0, 1).unwrap();
            pause(system, Duration::from_secs(60));
            let mut transaction = file.begin().unwrap();
            transaction.write(0, &page(2)).unwrap();
            // A copy-on-write file checks again while the commit waits, a log once it is written.
            let is_early = file.mode() == CommitMode::Logged;
            if is_early {
                take(disk, system);
            }
            transaction.commit_with(policy).unwrap();
            if !is_early {
                pause(system, Duration::from_millis(1));
                take(disk, system);
            }
            // A log that only keeps a record in memory has written nothing, so there is nothing to check.
            let is_written =
                file.mode() == CommitMode::CopyOnWrite || matches!(policy, Policy::Write { .. });
            if is_written {
                pause(system, Duration::from_millis(900));
                assert_displaced(commit(file, 0, 3), words);
            }
            assert_displaced(file.clone().close(), words);
        });
    }
}

/// Without commits no thread wakes up or checks.
#[test]
fn an_idle_file_sleeps() {
    for mode in MODES {
        let disk = disk(1);
        SimRuntime::run(1, |rt| {
            let system = disk.system(rt);
            let file = open(rt, &disk, options(mode)).unwrap();
            commit(&file, 0, 1).unwrap();
            pause(&*system, Duration::from_secs(60));
            disk.displace(PATH, Whereabouts::Gone);
            pause(&*system, Duration::from_secs(3600));
            disk.displace(PATH, Whereabouts::Here);
            commit(&file, 0, 2).unwrap();
            file.close().unwrap();
        });
    }
}

/// Older versions of pages for readers are not used after closing, so losing them is not a displacement.
#[test]
fn without_the_file_of_versions_nothing_is_lost() {
    let disk = disk(1);
    SimRuntime::run(1, |rt| {
        let system = disk.system(rt);
        let file = open(rt, &disk, options(CommitMode::Logged)).unwrap();
        commit(&file, 0, 1).unwrap();
        file.checkpoint().unwrap();
        let old = file.snapshot().unwrap();
        for tag in 2..5 {
            commit(&file, 0, tag).unwrap();
            file.checkpoint().unwrap();
        }
        let _ = dir(&*system).remove("versions");
        pause(&*system, Duration::from_secs(2));
        commit(&file, 0, 5).unwrap();
        let mut found = page(0);
        old.read(0, &mut found).unwrap();
        assert_eq!(found, page(1));
        drop(old);
        file.close().unwrap();
        let file = open(rt, &disk, options(CommitMode::Logged)).unwrap();
        file.snapshot().unwrap().read(0, &mut found).unwrap();
        assert_eq!(found, page(5));
        file.close().unwrap();
    });
}

/// Another process would need only a new lock file if the data file and the log's control file were not
/// locked as well.
#[test]
fn a_deleted_lock_lets_no_second_opener_in() {
    for mode in MODES {
        let disk = disk(1);
        SimRuntime::run(1, |rt| {
            let system = disk.system(rt);
            let first = open(rt, &disk, options(mode)).unwrap();
            commit(&first, 0, 1).unwrap();
            let refuse = |why: &str| {
                let refused = open(rt, &disk, options(mode)).map(drop).unwrap_err();
                let is_locked = match &refused {
                    Error::Log(e) => e.kind() == logforce_core::ErrorKind::Locked,
                    e => e.kind() == ErrorKind::Locked,
                };
                assert!(is_locked, "{mode:?}, {why}: {refused}");
                let inspector = Inspector::open(disk.system(rt), PATH).unwrap();
                assert!(
                    inspector.summary().unwrap().in_use || why != "no lock",
                    "{mode:?}"
                );
            };
            dir(&*system).remove("lock").unwrap();
            refuse("no lock");
            if mode == CommitMode::Logged {
                log_dir(&*system).remove("lock").unwrap();
                refuse("no lock");
                // Restores the data file beside the log that is in use.
                replace(&disk, &*dir(&*system), PATH, "pages");
                refuse("another data file");
                let path = Path::new(PATH).join("log");
                replace(&disk, &*log_dir(&*system), path, "control");
            } else {
                replace(&disk, &*dir(&*system), PATH, "pages");
            }
            // The directory holds another page file now.
            let second = open(rt, &disk, options(mode)).unwrap();
            let began = system.runtime().now();
            while commit(&first, 0, 2).is_ok() {
                assert!(system.runtime().now() - began < Duration::from_secs(1));
                pause(&*system, Duration::from_millis(20));
            }
            assert_displaced(commit(&first, 0, 2), "");
            first.close().unwrap_err();
            commit(&second, 0, 3).unwrap();
            second.close().unwrap();
        });
    }
}

/// Replaces a file by a copy of it.
fn replace(disk: &SimDisk, dir: &dyn Directory, path: impl AsRef<Path>, name: &str) {
    let bytes = disk.file_bytes(&path, name).unwrap();
    disk.put_file(&path, "copy", &bytes);
    dir.rename("copy", name).unwrap();
}
