//! Logs that are moved away or replaced while they are open: the changes that count, those that do not, and
//! the time until they are noticed.

use logforce_core::{Error, ErrorKind, Log, Lsn, Method, OpenMode, Options, Policy};
use logforce_device::{
    Directory, FileIdentity, ForwardDirectory, OpenFile, Runtime, System, Whereabouts,
};
use logforce_testkit::{SimDisk, SimOptions, SimRuntime};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

/// Returns options with which only the location check runs by the clock.
fn options() -> Options {
    Options::new()
        .segment_size(1 << 20)
        .max_batch_size(16 << 10)
        .buffer_size(64 << 10)
        .idle_stamp(Duration::MAX)
        .live_stats(false)
}

fn pause(system: &dyn System, time: Duration) {
    let word = logforce_device::sync::AtomicU32::new(0);
    system.runtime().wait(&word, 0, Some(time));
}

fn in_simulation(body: impl Fn(&SimDisk, &dyn System)) {
    let disk = SimDisk::new(SimOptions::default(), 1);
    SimRuntime::run(1, |rt| body(&disk, &*disk.system(rt)));
}

fn open(system: &dyn System, options: Options) -> Log {
    Log::open(system, "/log", OpenMode::OpenOrCreate, options).unwrap()
}

#[track_caller]
fn assert_displaced<T>(answer: Result<T, Error>, words: &str) {
    let Err(e) = answer else {
        panic!("it was acknowledged");
    };
    let Error::Poisoned { cause, .. } = &e else {
        panic!("{e}");
    };
    assert_eq!(cause.kind(), ErrorKind::Displaced, "{e}");
    assert_eq!(cause.path(), Some(Path::new("/log")));
    assert!(cause.to_string().contains(words), "{words}: {cause}");
}

/// Function that removes or replaces files of the log, as another program might.
type Taking = fn(&SimDisk, &dyn Directory);

fn first_segment(dir: &dyn Directory) -> String {
    let mut names: Vec<_> = dir.entries().unwrap().into_iter().map(|e| e.name).collect();
    names.sort();
    names.into_iter().find(|n| n.ends_with(".seg")).unwrap()
}

fn copy_over(dir: &dyn Directory, name: &str) {
    dir.open("copy", OpenFile::CREATE).unwrap();
    dir.rename("copy", name).unwrap();
}

const WAYS: [(&str, Taking); 8] = [
    ("deleted or moved away", |disk, _| {
        disk.displace("/log", Whereabouts::Gone);
    }),
    ("another directory is there", |disk, _| {
        disk.displace("/log", Whereabouts::Replaced);
    }),
    ("'control' was deleted or renamed", |_, dir| {
        dir.remove("control").unwrap();
    }),
    ("'control' was replaced", |_, dir| copy_over(dir, "control")),
    ("'lock' was deleted or renamed", |_, dir| {
        dir.remove("lock").unwrap();
    }),
    ("'lock' was replaced", |_, dir| copy_over(dir, "lock")),
    (".seg' was deleted or renamed", |_, dir| {
        dir.remove(&first_segment(dir)).unwrap();
    }),
    (".seg' was replaced", |_, dir| {
        copy_over(dir, &first_segment(dir));
    }),
];

#[test]
fn noticed_within_a_second_of_commits() {
    let methods = [Method::DirectDsync, Method::Fdatasync];
    for (words, take) in WAYS {
        for method in methods {
            for busy in [false, true] {
                in_simulation(|disk, system| {
                    let log = open(system, options().method(method));
                    log.commit(b"before").unwrap();
                    // The log's threads are asleep with everything prepared, or have just checked the
                    // location.
                    pause(system, Duration::from_secs(if busy { 0 } else { 60 }));
                    log.commit(b"still there").unwrap();
                    pause(system, Duration::from_millis(if busy { 1 } else { 60_000 }));
                    take(disk, &*system.directory(Path::new("/log")).unwrap());
                    let began = system.runtime().now();
                    let refused = loop {
                        match log.commit(b"gone") {
                            Ok(_) => pause(system, Duration::from_millis(20)),
                            refused => break refused,
                        }
                        let took = system.runtime().now() - began;
                        assert!(took < Duration::from_secs(1), "{words}: not noticed");
                    };
                    assert_displaced(refused, words);
                    assert_displaced(log.set_meta(b"x"), words);
                    assert_displaced(log.close(), words);
                });
            }
        }
    }
}

/// The loss is noticed after a single commit, without further ones.
#[test]
fn noticed_though_nothing_more_is_committed() {
    in_simulation(|disk, system| {
        for policy in [
            Policy::Force,
            Policy::Write {
                force_within: Duration::from_secs(3600),
            },
        ] {
            let log = open(system, options());
            let from = log.durable_lsn();
            pause(system, Duration::from_secs(60));
            let mut follower = log.follow_lsn(from).unwrap();
            system.directory(Path::new("/log")).unwrap();
            disk.displace("/log", Whereabouts::Gone);
            log.commit_with(b"one", policy).unwrap();
            pause(system, Duration::from_millis(900));
            assert_displaced(log.append(b"two"), "deleted");
            // A follower gets the error as well.
            let reported = loop {
                if let Err(e) = follower.next_blocking().expect("an end with a reason") {
                    break e;
                }
            };
            assert_displaced(Err::<(), _>(reported), "deleted");
            disk.displace("/log", Whereabouts::Here);
            drop(log);
        }
    });
}

#[test]
fn noticed_by_a_stamp_a_segment_a_truncation_metadata_and_the_end() {
    type Step = fn(&Log, Lsn) -> Result<(), Error>;
    let steps: [(&str, Step); 4] = [
        ("close", |log, _| log.clone().close()),
        ("front", |log, at| log.truncate_front(at)),
        ("metadata", |log, _| log.set_meta(b"vote")),
        ("segment", |log, _| {
            (0..2000).try_for_each(|_| log.commit(&[7; 4000]).map(drop))
        }),
    ];
    for (name, step) in steps {
        for (words, take) in WAYS {
            in_simulation(|disk, system| {
                let log = open(system, options());
                let at = log.commit(b"before").unwrap();
                pause(system, Duration::from_secs(60));
                take(disk, &*system.directory(Path::new("/log")).unwrap());
                println!("{name}, {words}");
                assert_displaced(step(&log, at.end), words);
            });
        }
    }
    in_simulation(|disk, system| {
        let stamps = options().idle_stamp(Duration::from_millis(50));
        let log = open(system, stamps);
        pause(system, Duration::from_secs(60));
        log.commit(b"before").unwrap();
        disk.displace("/log", Whereabouts::Gone);
        pause(system, Duration::from_millis(200));
        assert_displaced(log.commit(b"after"), "deleted");
    });
}

/// Function that is called before each check of the directory's location (`None`) or of a name in it.
type Look = Arc<dyn Fn(&dyn Directory, Option<&str>) -> io::Result<()> + Send + Sync>;

/// A system in which a function is called before each check of the location.
struct Watched {
    inner: Arc<dyn System>,
    look: Look,
}

struct WatchedDirectory {
    inner: Arc<dyn Directory>,
    look: Look,
}

impl System for Watched {
    fn runtime(&self) -> Arc<dyn Runtime> {
        self.inner.runtime()
    }
    fn directory(&self, path: &Path) -> io::Result<Arc<dyn Directory>> {
        Ok(Arc::new(WatchedDirectory {
            inner: self.inner.directory(path)?,
            look: self.look.clone(),
        }))
    }
    fn make_directory(&self, path: &Path) -> io::Result<Arc<dyn Directory>> {
        self.inner.make_directory(path)?;
        self.directory(path)
    }
}

impl ForwardDirectory for WatchedDirectory {
    fn inner(&self) -> &dyn Directory {
        &*self.inner
    }

    fn whereabouts(&self) -> io::Result<Whereabouts> {
        (self.look)(&*self.inner, None)?;
        self.inner.whereabouts()
    }
    fn identity_of(&self, name: &str) -> io::Result<FileIdentity> {
        (self.look)(&*self.inner, Some(name))?;
        self.inner.identity_of(name)
    }
}

/// If the directory and a file in it are removed during a check, the directory is reported, not the file.
#[test]
fn taken_away_during_a_check() {
    for taken in ["control", "lock", ".seg"] {
        let disk = SimDisk::new(SimOptions::default(), 1);
        SimRuntime::run(1, |rt| {
            let armed = Arc::new(AtomicBool::new(false));
            let (taking, its_disk) = (armed.clone(), disk.clone());
            let look: Look = Arc::new(move |dir, name| {
                let name = name.filter(|name| name.ends_with(taken));
                if let Some(name) = name.filter(|_| taking.swap(false, SeqCst)) {
                    its_disk.displace("/log", Whereabouts::Gone);
                    dir.remove(name)?;
                }
                Ok(())
            });
            let system = Watched {
                inner: disk.system(rt),
                look,
            };
            let log = open(&system, options());
            log.commit(b"before").unwrap();
            pause(&system, Duration::from_secs(60));
            armed.store(true, SeqCst);
            while log.commit(b"gone").is_ok() {
                pause(&system, Duration::from_millis(20));
            }
            assert_displaced(log.close(), "the directory was deleted or moved away");
        });
    }
}

/// A check that is denied does not mean that the log is gone. A file that could not be checked when the log
/// was opened is still noticed when it is removed.
#[test]
fn a_look_that_fails_says_nothing() {
    let disk = SimDisk::new(SimOptions::default(), 1);
    SimRuntime::run(1, |rt| {
        let denies = Arc::new(AtomicBool::new(true));
        let denying = denies.clone();
        let system = Watched {
            inner: disk.system(rt),
            look: Arc::new(move |_, _| match denying.load(SeqCst) {
                true => Err(io::ErrorKind::PermissionDenied.into()),
                false => Ok(()),
            }),
        };
        for denied in [true, false] {
            denies.store(denied, SeqCst);
            let log = open(&system, options().segment_size(64 << 10));
            denies.store(true, SeqCst);
            for n in 0..100 {
                let at = log.commit(&[n; 4000]).unwrap();
                if n % 10 == 0 {
                    log.truncate_front(at.start).unwrap();
                    log.set_meta(&[n]).unwrap();
                }
                pause(&system, Duration::from_millis(100));
            }
            denies.store(false, SeqCst);
            log.commit(b"seen").unwrap();
            pause(&system, Duration::from_secs(2));
            log.commit(b"and found in its place").unwrap();
            log.close().unwrap();
        }
        denies.store(true, SeqCst);
        let log = open(&system, options());
        denies.store(false, SeqCst);
        let dir = system.directory(Path::new("/log")).unwrap();
        dir.remove("control").unwrap();
        assert_displaced(log.close(), "'control' was deleted");
    });
}

/// The log's own renames and removals are not mistaken for those of another program.
#[test]
fn its_own_changes_of_names_are_not_noticed() {
    for seed in 0..20 {
        let disk = SimDisk::new(SimOptions::default(), seed);
        SimRuntime::run(seed, |rt| {
            let system = disk.system(rt);
            let log = open(&*system, options().segment_size(64 << 10));
            for n in 0..400 {
                let at = log.commit(&[n as u8; 4000]).unwrap();
                if n % 3 == 0 {
                    log.truncate_front(at.end).unwrap();
                }
                pause(&*system, Duration::from_millis(n % 7 * 40));
            }
            assert!(log.stats().counters.segments_recycled > 0);
            log.close().unwrap();
        });
    }
}

/// Another process would need only a new lock file if the control file were not locked as well.
#[test]
fn a_deleted_lock_lets_no_second_writer_in() {
    in_simulation(|disk, system| {
        let log = open(system, options());
        log.commit(b"one").unwrap();
        let dir = system.directory(Path::new("/log")).unwrap();
        dir.remove("lock").unwrap();
        for _ in 0..2 {
            // The second attempt finds a lock file that no process holds.
            let again = Log::open(system, "/log", OpenMode::OpenExisting, options());
            assert_eq!(again.map(drop).unwrap_err().kind(), ErrorKind::Locked);
            let reader = logforce_core::Inspector::open(system, "/log").unwrap();
            assert!(reader.summary().in_use);
        }
        let bytes = disk.file_bytes("/log", "control").unwrap();
        disk.put_file("/log", "copy", &bytes);
        dir.rename("copy", "control").unwrap();
        // The control file is now a restored copy, so a second writer can open the log.
        let second = open(system, options());
        let began = system.runtime().now();
        while log.commit(b"two").is_ok() {
            assert!(system.runtime().now() - began < Duration::from_secs(1));
            pause(system, Duration::from_millis(20));
        }
        assert_displaced(log.commit(b"two"), "");
        second.commit(b"three").unwrap();
        second.close().unwrap();
    });
}
