//! Full disks at every stage, for root and for an unprivileged user. The log refuses a record before it has
//! accepted any of it, keeps acknowledged records, and continues once there is space.

use crate::common::*;
use logforce::{Batch, ErrorKind, Log, Options, Tuning};
use logforce_testkit::process::Start;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

const DIR: &str = "LOGFORCE_TEST_DIR";
const LEN: usize = 9000;

/// Filesystems that overwrite in place: a prepared segment can always be written. With their sizes in MiB.
const IN_PLACE: [(&str, u64); 3] = [("ext4", 32), ("ext4-nojournal", 16), ("xfs", 300)];

/// Runs `subject` with a directory on a small filesystem of each kind, as root and as an unprivileged user.
fn on_each(disks: &[(&str, u64)], name: &str, subject: fn(&Path)) {
    if let Some(dir) = in_second_process(DIR) {
        return subject(&dir);
    }
    for (kind, mib) in disks {
        let home = open_to_all(temp());
        let Some(fs) = loop_fs(kind, *mib, &home) else {
            continue;
        };
        println!("{kind}");
        let own = fs.path().join("root");
        fs::create_dir(&own).unwrap();
        subject(&own);
        fs::remove_dir_all(own).unwrap();
        let theirs = fs.path().join("nobody");
        fs::create_dir(&theirs).unwrap();
        fs::set_permissions(&theirs, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        println!("{kind}, unprivileged");
        as_nobody(name, DIR, &theirs);
    }
}

/// A file that takes all the space of the filesystem. Dropping this removes the file.
pub(crate) struct Filler(PathBuf);

impl Filler {
    /// Leaves about `leave` bytes.
    pub(crate) fn new(dir: &Path, leave: u64) -> Filler {
        let path = dir.join("filler");
        let file = File::create(&path).unwrap();
        let mut len = 0;
        let mut step = 64 << 20;
        // Takes the remaining space in ever smaller pieces.
        while step >= 4096 {
            let flags = rustix::fs::FallocateFlags::empty();
            match rustix::fs::fallocate(&file, flags, len, step) {
                Ok(()) => len += step,
                Err(_) => step /= 2,
            }
        }
        file.set_len(len.saturating_sub(leave)).unwrap();
        // Also takes reserved space, which the filesystem gives out only to writes.
        if leave == 0
            && let Ok(mut small) = File::create(dir.join("filler-small"))
        {
            while small.write_all(&[1; 4096]).is_ok() {}
        }
        let _ = rustix::fs::syncfs(&file);
        Filler(dir.to_owned())
    }
}

impl Drop for Filler {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.0.join("filler"));
        let _ = fs::remove_file(self.0.join("filler-small"));
        // Some filesystems free the space only when the removal is synced.
        if let Ok(dir) = File::open(&self.0) {
            let _ = rustix::fs::syncfs(&dir);
        }
    }
}

fn opened(dir: &Path) -> Log {
    logforce::open_existing(dir, sized(SEGMENT)).unwrap()
}

#[track_caller]
fn no_space<T>(result: logforce::Result<T>) {
    let e = assert_error(result, ErrorKind::NoSpace, &["log", "free some"]);
    assert!(
        e.path()
            .is_some_and(|p| p.to_string_lossy().contains("log"))
    );
}

/// Opens a log, and repeats this until there is space: xfs frees the blocks of removed files in the
/// background, soon after the call that removed them.
fn once_there_is_space(open: impl Fn() -> logforce::Result<Log>) -> Log {
    for _ in 0..200 {
        match open() {
            Err(e) if e.kind() == ErrorKind::NoSpace => {
                std::thread::sleep(std::time::Duration::from_millis(25));
            }
            other => return other.unwrap(),
        }
    }
    open().unwrap()
}

/// The filesystem has free bytes but no inode: the error says so, and does not advise freeing bytes.
#[test]
fn no_inodes_left() {
    on_each(&[("ext4", 16)], "no_inodes_left", |home| {
        let dir = home.join("log");
        let log = logforce::create_new(&dir, sized(SEGMENT)).unwrap();
        let fillers = home.join("fillers");
        fs::create_dir(&fillers).unwrap();
        let mut names = (0..).map(|n: u32| fillers.join(n.to_string()));
        while names.next().is_some_and(|name| File::create(name).is_ok()) {}
        let mut acknowledged = 0;
        let full = loop {
            match log.commit(&record(acknowledged, LEN)) {
                Ok(_) => acknowledged += 1,
                Err(e) => break e,
            }
        };
        assert_eq!(full.kind(), ErrorKind::NoSpace, "{full}");
        for words in ["no inodes left", "remove files", "truncate_front"] {
            assert!(full.to_string().contains(words), "{full}");
        }
        let other = logforce::create_new(home.join("other"), sized(SEGMENT)).unwrap_err();
        assert_eq!(other.kind(), ErrorKind::NoSpace, "{other}");
        for words in ["no inodes left", "remove files"] {
            assert!(other.to_string().contains(words), "{other}");
        }
        fs::remove_dir_all(&fillers).unwrap();
        log.commit(&record(acknowledged, LEN)).unwrap();
        log.close().unwrap();
    });
}

#[test]
fn at_creation() {
    on_each(&IN_PLACE, "at_creation", |home| {
        let dir = home.join("log");
        let (mut failed, mut late) = (0, 0);
        // Gives the creation a little more space each time, so that it gets a little further.
        for leave in (0..=20).map(|n| n * (32 << 10)) {
            let filler = Filler::new(home, leave);
            match logforce::create_new(&dir, sized(SEGMENT)) {
                Ok(log) => {
                    // There may be no space for a second segment, but the first one works.
                    let at = log.commit(&record(0, 100)).unwrap();
                    assert_eq!(log.read_at(at.start).unwrap().data, record(0, 100));
                    log.close().unwrap();
                }
                Err(e) => {
                    failed += 1;
                    no_space::<()>(Err(e));
                    // It fails again, unless xfs has freed blocks meanwhile.
                    match logforce::open_or_create(&dir, sized(SEGMENT)) {
                        Ok(log) => {
                            late += 1;
                            log.close().unwrap();
                            fs::remove_dir_all(&dir).unwrap();
                        }
                        refused => no_space(refused),
                    }
                    drop(filler);
                    // The failed call succeeds when there is space.
                    let log = once_there_is_space(|| logforce::create_new(&dir, sized(SEGMENT)));
                    log.commit(&record(0, 100)).unwrap();
                    log.close().unwrap();
                }
            }
            let log = opened(&dir);
            assert_holds(&log, 0, 1, 100);
            drop(log);
            fs::remove_dir_all(&dir).unwrap();
        }
        println!("{failed} times without space, {late} of them there was some soon after");
        assert!((3..20).contains(&failed), "{failed}");
        assert!(late * 4 <= failed, "{late} of {failed}");
    });
}

#[test]
fn while_running() {
    on_each(&IN_PLACE, "while_running", |home| {
        let dir = home.join("log");
        let no_stamps = sized(SEGMENT).tuning(Tuning::new().idle_stamp(std::time::Duration::MAX));
        let log = logforce::create_new(&dir, no_stamps).unwrap();
        let filler = Filler::new(home, 2 << 20);
        let (mut n, e) = fill_up(&log, 0, LEN);
        no_space::<()>(Err(e));
        assert!(n > 50, "{n}");
        // A refused append loses nothing and does not stop the log, however often it happens.
        let tail = log.tail_lsn();
        for _ in 0..3 {
            no_space(log.commit(&record(n, LEN)));
            no_space(log.append(&record(n, 1 << 20)));
        }
        assert_eq!(log.tail_lsn(), tail, "nothing was accepted");
        assert_eq!(log.durable_lsn(), tail);
        assert_holds(&log, 0, n, LEN);

        // Frees space by truncating the front.
        let half: Vec<_> = log
            .read_from(log.front_lsn())
            .unwrap()
            .map(|e| e.unwrap())
            .collect();
        let at = n / 2;
        log.truncate_front(half[at as usize].start).unwrap();
        let (more, e) = fill_up(&log, n, LEN);
        no_space::<()>(Err(e));
        assert!(more > 20, "{more}");
        n += more;
        assert_holds(&log, at, n, LEN);

        // Frees space by removing another file.
        drop(filler);
        for _ in 0..100 {
            log.commit(&record(n, LEN)).unwrap();
            n += 1;
        }
        assert_holds(&log, at, n, LEN);
        log.close().unwrap();
        let log = opened(&dir);
        assert!(log.recovered().clean);
        assert_holds(&log, at, n, LEN);
    });
}

#[test]
fn many_threads_at_once() {
    on_each(&IN_PLACE[..1], "many_threads_at_once", |home| {
        let dir = home.join("log");
        let log = logforce::create_new(&dir, sized(SEGMENT)).unwrap();
        let filler = Filler::new(home, 1 << 20);
        let commit = |t: u64, n: u64| log.commit(&[&[t as u8][..], &record(n, LEN)].concat());
        let total: u64 = std::thread::scope(|s| {
            let threads: Vec<_> = (0..4)
                .map(|t| {
                    s.spawn(move || {
                        for n in 0.. {
                            if let Err(e) = commit(t, n) {
                                no_space::<()>(Err(e));
                                return n;
                            }
                        }
                        unreachable!()
                    })
                })
                .collect();
            threads.into_iter().map(|t| t.join().unwrap()).sum()
        });
        assert_eq!(read_all(&log).len() as u64, total);
        drop(filler);
        commit(9, 0).unwrap();
        log.close().unwrap();
        assert_eq!(read_all(&opened(&dir)).len() as u64, total + 1);
    });
}

#[test]
fn a_large_record_is_refused_whole() {
    on_each(&IN_PLACE, "a_large_record_is_refused_whole", |home| {
        let dir = home.join("log");
        let no_stamps = sized(SEGMENT).tuning(Tuning::new().idle_stamp(std::time::Duration::MAX));
        let log = logforce::create_new(&dir, no_stamps).unwrap();
        let filler = Filler::new(home, 2 << 20);
        log.commit(&record(0, LEN)).unwrap();
        let tail = log.tail_lsn();
        no_space(log.commit(&record(1, 6 << 20)));
        let large = [record(1, 3 << 20), record(2, 3 << 20)];
        no_space(log.append(large.iter().collect::<Batch>()));
        assert_eq!(log.tail_lsn(), tail);
        // A smaller record still fits.
        log.commit(&record(1, LEN)).unwrap();
        assert_holds(&log, 0, 2, LEN);
        drop(filler);
        let at = log.commit(&record(2, 6 << 20)).unwrap();
        log.close().unwrap();
        let log = opened(&dir);
        assert!(log.read_at(at.start).unwrap().data == record(2, 6 << 20));
    });
}

#[test]
fn closed_opened_and_truncated_while_full() {
    on_each(
        &IN_PLACE,
        "closed_opened_and_truncated_while_full",
        |home| {
            let dir = home.join("log");
            let log = logforce::create_new(&dir, sized(SEGMENT)).unwrap();
            let _filler = Filler::new(home, 1 << 20);
            let (mut n, e) = fill_up(&log, 0, LEN);
            no_space::<()>(Err(e));
            let _last = Filler::new_beside(home);
            log.close().unwrap();
            for round in 0..8 {
                let log = opened(&dir);
                assert!(log.recovered().clean, "round {round}");
                assert_holds(&log, 0, n, LEN);
                if round % 2 == 0 {
                    log.close().unwrap();
                }
            }
            let mut log = opened(&dir);
            no_space(log.commit(&record(n, 100_000)));
            let mut front = 0;
            for round in 0..3 {
                // Truncation frees the space of old segments, and new segments use it at once.
                let places: Vec<_> = log
                    .read_from(log.front_lsn())
                    .unwrap()
                    .map(|e| e.unwrap().start)
                    .collect();
                let half = places.len() / 2;
                log.truncate_front(places[half]).unwrap();
                front += half as u64;
                let (more, e) = fill_up(&log, n, LEN);
                no_space::<()>(Err(e));
                assert!(more > 10, "round {round}: {more}");
                n += more;
                assert_holds(&log, front, n, LEN);
                log.close().unwrap();
                log = opened(&dir);
                assert_holds(&log, front, n, LEN);
            }
            // Also truncates at the back.
            let last = log
                .read_from(log.front_lsn())
                .unwrap()
                .map(|e| e.unwrap().start)
                .last()
                .unwrap();
            log.truncate_back(last).unwrap();
            assert_holds(&log, front, n - 1, LEN);
        },
    );
}

impl Filler {
    /// Creates a second file that takes the space that was freed since.
    fn new_beside(dir: &Path) -> Filler {
        let dir = dir.join("beside");
        fs::create_dir_all(&dir).unwrap_or(());
        if !dir.exists() {
            // There is not even space for a directory.
            return Filler(dir);
        }
        Filler::new(&dir, 0)
    }
}

#[test]
fn a_process_dies_while_full() {
    const NAME: &str = "a_process_dies_while_full";
    const DIES: &str = "LOGFORCE_TEST_DIES";
    if let Some(dir) = in_second_process(DIES) {
        let log = opened(&dir);
        let (n, e) = fill_up(&log, read_all(&log).len() as u64, LEN);
        assert_eq!(e.kind(), ErrorKind::NoSpace);
        tell(&format!("\ncommitted {n}"));
        std::process::abort();
    }
    on_each(&IN_PLACE, NAME, |home| {
        let dir = home.join("log");
        logforce::create_new(&dir, sized(SEGMENT)).unwrap();
        let _filler = Filler::new(home, 1 << 20);
        let mut all = 0;
        for round in 0..4 {
            let output = again(NAME, DIES, &dir).current_dir("/").to_end().unwrap();
            let text = String::from_utf8_lossy(&output.stdout);
            let n: u64 = text
                .lines()
                .find_map(|l| l.strip_prefix("committed ")?.parse().ok())
                .unwrap_or_else(|| panic!("{output:?}"));
            all += n;
            assert_eq!(n > 0, round == 0, "{n}");
            assert_holds(&opened(&dir), 0, all, LEN);
        }
    });
}

/// On a copy-on-write filesystem even a write to a prepared segment can run out of space. Acknowledged
/// records stay nevertheless.
#[test]
fn copy_on_write() {
    on_each(&[("btrfs", 128)], "copy_on_write", |home| {
        let dir = home.join("log");
        let log = logforce::create_new(&dir, sized(SEGMENT)).unwrap();
        let filler = Filler::new(home, 4 << 20);
        let mut n = 0;
        let mut front = 0;
        let e = loop {
            match log.commit(&record(n, LEN)) {
                Ok(at) => {
                    n += 1;
                    if n % 100 == 0 && n < 1000 {
                        match log.truncate_front(at.start) {
                            Ok(()) => front = n - 1,
                            Err(e) => break e,
                        }
                    }
                }
                Err(e) => break e,
            }
        };
        println!("after {n}: {e}");
        let expected = [ErrorKind::NoSpace, ErrorKind::Poisoned];
        assert!(expected.contains(&e.kind()), "{e}");
        assert!(e.to_string().contains("No space"), "{e}");
        if e.kind() == ErrorKind::NoSpace {
            assert_holds(&log, front, n, LEN);
        } else {
            for part in ["Indeterminate", "open the log again"] {
                assert!(e.to_string().contains(part), "{e}");
            }
            assert!(!e.to_string().contains("try again"), "{e}");
            assert_eq!(e.to_string().matches("cannot ").count(), 1, "{e}");
            assert!(read_all(&log).len() as u64 >= n - front);
        }
        let closed = log.close();
        println!("closed: {closed:?}");
        drop(filler);
        let log = opened(&dir);
        let found = read_all(&log).len() as u64;
        // The record whose commit failed may be there, too.
        assert!((n - front..=n - front + 1).contains(&found), "{found}");
        assert_holds(&log, front, front + found, LEN);
        log.commit(b"on").unwrap();
    });
}

#[test]
fn default_sizes_on_a_disk_that_is_too_small() {
    on_each(
        &IN_PLACE[..2],
        "default_sizes_on_a_disk_that_is_too_small",
        |home| {
            let e = logforce::create_new(home.join("log"), Options::new());
            no_space(e);
        },
    );
}
