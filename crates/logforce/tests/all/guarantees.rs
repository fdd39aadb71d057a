//! Guarantees that are not available: the opening fails with the reason, and names the option that accepts
//! less.

use crate::common::*;
use logforce::{Error, ErrorKind, Guarantee, Method, Options, Refused};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

fn opened(dir: &Path, options: Options) -> logforce::Result<logforce::Log> {
    logforce::open_or_create(dir, options)
}

#[track_caller]
fn refused(dir: &Path, options: Options, words: &[&str]) {
    let words = [words, &[dir.to_str().unwrap()]].concat();
    let e = assert_error(opened(dir, options), ErrorKind::Unavailable, &words);
    assert_eq!(e.path(), Some(dir));
    assert!(!dir.join("control").exists(), "nothing was made");
}

#[test]
fn in_memory_only_a_process_crash_is_survived() {
    let on_tmpfs = std::fs::read_to_string("/proc/mounts")
        .unwrap()
        .lines()
        .any(|l| l.split(' ').nth(1) == Some("/dev/shm") && l.split(' ').nth(2) == Some("tmpfs"));
    let Some(dir) = TempDir::new_in("/dev/shm").ok().filter(|_| on_tmpfs) else {
        logforce_testkit::skip!("no tmpfs at /dev/shm");
        return;
    };
    for wanted in [Guarantee::PowerLoss, Guarantee::OsCrash] {
        refused(
            dir.path(),
            sized(SEGMENT).require(wanted),
            &["in memory", "Options::require(Guarantee::ProcessCrash)"],
        );
    }
    let options = sized(SEGMENT).require(Guarantee::ProcessCrash);
    let log = opened(dir.path(), options.clone()).unwrap();
    assert_eq!(log.guarantee(), Guarantee::ProcessCrash);
    assert_eq!(log.commit(b"x").unwrap().guarantee, Guarantee::ProcessCrash);
    log.close().unwrap();
    assert_eq!(read_all(&opened(dir.path(), options).unwrap()), [b"x"]);
}

#[test]
fn a_method_without_barrier_does_not_survive_a_loss_of_power() {
    let dir = temp();
    refused(
        dir.path(),
        sized(SEGMENT).method(Method::Buffered),
        &["buffered", "ProcessCrash", "Options::require"],
    );
    let log = opened(
        dir.path(),
        sized(SEGMENT)
            .method(Method::Buffered)
            .require(Guarantee::ProcessCrash),
    )
    .unwrap();
    assert_eq!(log.guarantee(), Guarantee::ProcessCrash);
}

#[test]
fn without_barriers_a_sync_is_no_promise() {
    let home = temp();
    let Some(fs) = loop_fs("ext4-nobarrier", 64, &home) else {
        return;
    };
    let dir = fs.path().join("log");
    for method in [Method::Fsync, Method::Dsync, Method::DirectDsync] {
        refused(
            &dir,
            sized(SEGMENT).method(method),
            &[
                "without barriers",
                "Options::require(Guarantee::ProcessCrash)",
            ],
        );
    }
    // The loop device receives no flush, so the data of its file stays in the system's cache.
    let log = opened(&dir, sized(SEGMENT).require(Guarantee::ProcessCrash)).unwrap();
    assert_eq!(log.commit(b"x").unwrap().guarantee, Guarantee::ProcessCrash);
    drop(log);
    // If barriers are turned off later, the next opening notices.
    let home = temp();
    let Some(fs) = loop_fs("ext4", 64, &home) else {
        return;
    };
    let dir = fs.path().join("log");
    opened(&dir, sized(SEGMENT)).unwrap().close().unwrap();
    fs.remount("barrier=0").unwrap();
    let words = [
        "without barriers",
        "Options::require(Guarantee::ProcessCrash)",
    ];
    assert_error(opened(&dir, sized(SEGMENT)), ErrorKind::Unavailable, &words);
}

/// The kernel sends no flush to a device whose cache type was set to `write through`. So the caches below it
/// are not flushed.
#[test]
fn a_loop_device_that_drops_flushes_is_refused() {
    let home = temp();
    let Some(fs) = loop_fs("ext4", 64, &home) else {
        return;
    };
    let dir = fs.path().join("log");
    let log = opened(&dir, sized(SEGMENT)).unwrap();
    assert_eq!(log.guarantee(), Guarantee::PowerLoss);
    log.close().unwrap();
    let attribute = format!("/sys/block/{}/queue/write_cache", fs.device());
    if let Err(e) = std::fs::write(&attribute, "write through") {
        return logforce_testkit::skip!("{attribute}: {e}");
    }
    let refused = opened(&dir, sized(SEGMENT));
    let less = opened(&dir, sized(SEGMENT).require(Guarantee::ProcessCrash));
    std::fs::write(&attribute, "write back").unwrap();
    let says = format!("{} says `write through`", fs.device());
    let words = [
        &*says,
        "/image",
        "Options::require(Guarantee::ProcessCrash)",
    ];
    assert_error(refused, ErrorKind::Unavailable, &words);
    assert_eq!(less.unwrap().guarantee(), Guarantee::ProcessCrash);
}

#[test]
fn where_data_goes_through_the_journal_direct_is_not_the_default() {
    let home = temp();
    let Some(fs) = loop_fs("ext4-datajournal", 64, &home) else {
        return;
    };
    let dir = fs.path().join("log");
    let facts = logforce::disk::facts(fs.path()).unwrap();
    println!("direct: {:?}", facts.direct);
    let log = opened(&dir, sized(SEGMENT)).unwrap();
    assert_eq!(log.guarantee(), Guarantee::PowerLoss);
    if facts.direct.is_none() {
        assert_eq!(log.recovered().method, Method::Dsync);
        let direct = opened(
            &fs.path().join("other"),
            sized(SEGMENT).method(Method::DirectDsync),
        );
        let words = ["direct+dsync", "not offered", "Options::method"];
        let e = assert_error(direct, ErrorKind::Unavailable, &words);
        assert!(matches!(e, Error::Refused(Refused::Method { .. })));
    }
    for n in 0..40 {
        log.commit(&record(n, 20_000)).unwrap();
    }
    log.close().unwrap();
    assert_holds(&opened(&dir, sized(SEGMENT)).unwrap(), 0, 40, 20_000);
}

#[test]
fn a_filesystem_mounted_for_reading_only() {
    let home = temp();
    let Some(fs) = loop_fs("ext4", 64, &home) else {
        return;
    };
    let dir = fs.path().join("log");
    let log = opened(&dir, sized(SEGMENT)).unwrap();
    for n in 0..40 {
        log.commit(&record(n, 20_000)).unwrap();
    }
    log.close().unwrap();
    fs.remount("ro").unwrap();
    let words = [dir.to_str().unwrap(), "Read-only", "remount"];
    for open in [|d: &Path, o| logforce::open_existing(d, o), opened] {
        assert_error(open(&dir, sized(SEGMENT)), ErrorKind::Io, &words);
    }
    let new = fs.path().join("new");
    assert_error(
        opened(&new, sized(SEGMENT)),
        ErrorKind::Io,
        &["new", "Read-only"],
    );
    // Inspection still works.
    let seen = logforce::inspect::open(&dir).unwrap();
    let found = seen.walk(&mut |_| true).unwrap();
    assert_eq!((found.records, found.damages), (40, 0));
    fs.remount("rw").unwrap();
    assert_holds(&opened(&dir, sized(SEGMENT)).unwrap(), 0, 40, 20_000);
}

#[test]
fn made_read_only_while_open() {
    let home = temp();
    let Some(fs) = loop_fs("ext4", 64, &home) else {
        return;
    };
    let dir = fs.path().join("log");
    let log = opened(&dir, sized(SEGMENT)).unwrap();
    log.commit(&record(0, 100)).unwrap();
    // The kernel refuses this while files are open for writing.
    assert!(fs.remount("ro").is_err());
    log.commit(&record(1, 100)).unwrap();
    assert_holds(&log, 0, 2, 100);
}

/// A program can name every type that the facts contain.
#[test]
fn what_the_facts_say_can_be_passed_on() {
    use logforce::disk::{BlockDevice, DirectAlignment, Facts, FilesystemKind, Layer, WriteCache};

    struct Told {
        kind: FilesystemKind,
        cache: Option<WriteCache>,
        weakest: Guarantee,
        direct: Option<DirectAlignment>,
    }
    fn told(facts: &Facts) -> Told {
        let cache = |d: &BlockDevice| d.write_cache;
        let worth = |l: &Layer| l.synced.guarantee;
        Told {
            kind: facts.kind,
            cache: facts.device.as_ref().map(cache),
            weakest: facts
                .layers
                .iter()
                .map(worth)
                .min()
                .unwrap_or(Guarantee::PowerLoss),
            direct: facts.direct,
        }
    }
    let dir = TempDir::new().unwrap();
    let facts = logforce::disk::facts(dir.path()).unwrap();
    let told = told(&facts);
    assert_eq!(told.kind.name(), facts.kind.name());
    assert_eq!(told.cache.is_some(), facts.device.is_some());
    assert!(told.direct.is_none_or(|d| d.offset.is_power_of_two()));
    assert!(told.weakest <= Guarantee::PowerLoss);
}

/// A copy that leaves zeroes out, or shares its blocks with the original, is filled at opening. Otherwise a
/// commit would be the first write to its blocks, which a crash loses.
#[test]
fn a_copy_is_made_whole_before_it_is_written_to() {
    for (kind, mib, how) in [
        ("ext4", 32, "--sparse=always"),
        ("ext4-nojournal", 32, "--sparse=always"),
        ("xfs", 300, "--sparse=always"),
        ("xfs", 300, "--reflink=always"),
    ] {
        let home = temp();
        let Some(fs) = loop_fs(kind, mib, &home) else {
            continue;
        };
        let (dir, copy) = (fs.path().join("log"), fs.path().join("copy"));
        let direct = || options().method(Method::Direct);
        let log = logforce::create_new(&dir, direct()).unwrap();
        for n in 0..3 {
            log.commit(&record(n, 9000)).unwrap();
        }
        log.close().unwrap();
        let copied = Command::new("cp")
            .args(["-a", how])
            .args([&dir, &copy])
            .status();
        assert!(copied.unwrap().success(), "{kind}: cp {how}");
        let segment = copy.join("0000000000000000.seg");
        let blocks = || std::fs::metadata(&segment).unwrap().blocks() * 512;
        // xfs counts blocks that it has preallocated.
        assert!(kind == "xfs" || blocks() < SEGMENT, "{kind}");
        let free = || {
            let _ = rustix::fs::syncfs(File::open(fs.path()).unwrap());
            let found = rustix::fs::statvfs(fs.path()).unwrap();
            found.f_bfree * found.f_frsize
        };
        let before = free();
        let log = logforce::open_existing(&copy, direct()).unwrap();
        // The opening fills all but the part before the end of the log.
        let most = SEGMENT - (64 << 10);
        assert!(blocks() >= most, "{kind} {how}: {} bytes", blocks());
        let shared = how.contains("reflink");
        assert!(!shared || before - free() >= most / 2, "{kind} {how}");
        log.commit(&record(3, 9000)).unwrap();
        assert_eq!(log.read_from(log.front_lsn()).unwrap().count(), 4);
        log.close().unwrap();
    }
}

/// Direct writes to shared blocks must cover whole blocks, although a new file beside them may not need that.
#[test]
fn a_reflinked_page_file_and_its_original_take_commits() {
    use logforce::pages::{self, CommitMode};
    let home = temp();
    let Some(fs) = loop_fs("xfs", 300, &home) else {
        return;
    };
    for mode in [CommitMode::CopyOnWrite, CommitMode::Logged] {
        let dir = fs.path().join(format!("{mode:?}"));
        let copy = fs.path().join(format!("copy of {mode:?}"));
        let options = || pages::Options::new().mode(mode).page_size(512).direct(true);
        let commit = |file: &pages::PageFile, tag: u8| {
            let mut transaction = file.begin().unwrap();
            for n in 0..5 {
                transaction.page_mut(2 * n).unwrap().fill(tag);
            }
            transaction.commit().unwrap();
            file.checkpoint().unwrap();
        };
        let file = pages::create_new(&dir, options()).unwrap();
        commit(&file, 1);
        file.close().unwrap();
        let copied = Command::new("cp")
            .args(["-a", "--reflink=always"])
            .args([&dir, &copy])
            .status();
        assert!(copied.unwrap().success());
        for (at, tag) in [(&dir, 2), (&copy, 3)] {
            let file = pages::open_existing(at, options()).unwrap();
            commit(&file, tag);
            file.close().unwrap();
        }
        for (at, tag) in [(&dir, 2), (&copy, 3)] {
            let file = pages::open_existing(at, options()).unwrap();
            let mut page = [0; 512];
            file.latest().unwrap().read(8, &mut page).unwrap();
            assert_eq!(page, [tag; 512]);
            file.close().unwrap();
        }
    }
}
