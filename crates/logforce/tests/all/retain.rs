//! Metadata, pins and the maximum log size on real files.

use crate::common::*;
use logforce::{CheckpointDue, CheckpointRequests, Error, ErrorKind, Log, Pin, Policy};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

fn soon(what: &str, mut is: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is() {
        assert!(start.elapsed() < Duration::from_secs(20), "never: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Returns the bytes of all segment files.
fn used(dir: &Path) -> u64 {
    let files = fs::read_dir(dir).unwrap().map(|e| e.unwrap());
    let segments = files.filter(|f| {
        let name = f.file_name().to_string_lossy().into_owned();
        name.ends_with(".seg") || name.ends_with(".spare")
    });
    // A file may be renamed or removed meanwhile.
    segments
        .filter_map(|f| f.metadata().ok())
        .map(|m| m.len())
        .sum()
}

#[test]
fn the_types_can_be_shared() {
    fn shared<T: Send + Sync>() {}
    shared::<Pin>();
    shared::<CheckpointDue>();
    shared::<CheckpointRequests>();
}

#[test]
fn metadata_stays() {
    let home = temp();
    for method in methods(home.path()) {
        let dir = home.path().join(method.name());
        let options = options().method(method);
        let log = logforce::open_or_create(&dir, options.clone()).unwrap();
        assert_eq!(log.meta(), None);
        log.set_meta(b"term 1").unwrap();
        assert_eq!(log.meta().as_deref(), Some(&b"term 1"[..]));
        let seen = logforce::read_only(&dir).unwrap().meta().unwrap();
        assert_eq!(seen.as_deref(), Some(&b"term 1"[..]));
        let too_long = log.set_meta(&[0; Log::MAX_META_LEN + 1]);
        assert_error(too_long, ErrorKind::InvalidInput, &["4001", "4000"]);
        log.commit(b"a record").unwrap();
        log.close().unwrap();
        let log = logforce::open_existing(&dir, options.clone()).unwrap();
        assert_eq!(log.meta().as_deref(), Some(&b"term 1"[..]));
        for n in 0..20 {
            log.set_meta(&vec![n; n as usize * 200]).unwrap();
        }
        drop(log);
        let log = logforce::open_existing(&dir, options).unwrap();
        assert_eq!(log.meta(), Some(vec![19; 3800]));
        let summary = logforce::inspect::open(&dir).unwrap().summary();
        assert_eq!((summary.meta_len, summary.meta_whole), (Some(3800), true));
        assert_eq!(read_all(&log), [b"a record"]);
    }
}

/// A control file from a version without metadata can be opened. It grows only at the first use of metadata.
#[test]
fn an_older_control_file_grows() {
    let home = temp();
    let dir = home.path().join("log");
    let log = logforce::create_new(&dir, options()).unwrap();
    log.commit(b"old").unwrap();
    log.close().unwrap();
    let control = dir.join("control");
    fs::OpenOptions::new()
        .write(true)
        .open(&control)
        .unwrap()
        .set_len(128 << 10)
        .unwrap();
    let log = logforce::open_existing(&dir, options()).unwrap();
    assert_eq!(log.meta(), None);
    assert_eq!(fs::metadata(&control).unwrap().len(), 128 << 10);
    log.set_meta(b"new").unwrap();
    assert_eq!(fs::metadata(&control).unwrap().len(), 256 << 10);
    drop(log);
    // Truncating the file again is damage now.
    let file = fs::OpenOptions::new().write(true).open(&control).unwrap();
    file.set_len(128 << 10).unwrap();
    let refused = logforce::open_existing(&dir, options());
    assert_error(refused, ErrorKind::Damaged, &["metadata", "control"]);
}

#[test]
fn threads_set_it() {
    let home = temp();
    let dir = home.path().join("log");
    let log = logforce::create_new(&dir, options()).unwrap();
    std::thread::scope(|s| {
        for t in 0..4u8 {
            let log = &log;
            s.spawn(move || (0..25).for_each(|n| log.set_meta(&[t, n]).unwrap()));
        }
        s.spawn(|| (0..200).for_each(|n| assert!(log.commit(&record(n, 9000)).is_ok())));
    });
    let last = log.meta();
    assert!(last.as_ref().is_some_and(|m| m[1] == 24), "{last:?}");
    log.close().unwrap();
    assert_eq!(
        logforce::open_existing(&dir, options()).unwrap().meta(),
        last
    );
}

#[test]
fn a_pin_holds_the_front() {
    let home = temp();
    let dir = home.path().join("log");
    let log = logforce::create_new(&dir, options().max_pinned_size(4_000_000)).unwrap();
    let at: Vec<_> = (0..400)
        .map(|n| log.commit(&record(n, 9000)).unwrap().start)
        .collect();
    let (pin, dead) = (log.pin(at[100]).unwrap(), log.pin(at[20]).unwrap());
    let before = used(&dir);
    log.truncate_front(at[200]).unwrap();
    assert_eq!(log.front_lsn(), at[20]);
    let mut behind = log.read_from(at[20]).unwrap();
    assert!(behind.next().unwrap().is_ok());
    log.truncate_front(at[390]).unwrap();
    assert!(dead.is_broken() && !pin.is_broken());
    assert_eq!(log.front_lsn(), at[100]);
    let cut_off = behind.find_map(|e| e.err()).unwrap();
    assert_eq!(cut_off.kind(), ErrorKind::Truncated, "{cut_off}");
    assert_error(dead.advance(at[399]), ErrorKind::Truncated, &[]);
    // The other pin's owner reads all pinned records, and drops the pin.
    for (n, found) in (100..).zip(log.read_from(at[100]).unwrap()) {
        let found = found.unwrap();
        assert!(found.data == record(n, 9000));
        pin.advance(found.end).unwrap();
    }
    soon("all is dropped", || log.front_lsn() == at[390]);
    soon("space", || used(&dir) < before / 2);
    log.close().unwrap();
}

#[test]
fn a_cap_without_an_owner() {
    let home = temp();
    let dir = home.path().join("log");
    let cap = 4 * SEGMENT;
    let log = logforce::create_new(&dir, options().max_log_size(cap)).unwrap();
    let (mut n, e) = fill_up(&log, 0, 9000);
    assert_eq!(e.kind(), ErrorKind::Full, "{e}");
    for round in 0..5 {
        assert_eq!(used(&dir), cap, "round {round}");
        assert_eq!(
            log.append(&record(n, 9000)).unwrap_err().kind(),
            ErrorKind::Full
        );
        let places: Vec<_> = log
            .read_from(log.front_lsn())
            .unwrap()
            .map(|e| e.unwrap())
            .collect();
        log.truncate_front(places[places.len() / 2].start).unwrap();
        let (more, e) = fill_up(&log, n, 9000);
        assert_eq!(e.kind(), ErrorKind::Full, "{e}");
        assert!(more > 10, "round {round}: {more}");
        n += more;
    }
    log.close().unwrap();
    let log = logforce::open_existing(&dir, options().max_log_size(cap)).unwrap();
    log.truncate_front(log.durable_lsn()).unwrap();
    assert!(fill_up(&log, n, 9000).0 > 50);
}

/// The checkpoint is a record of the log, for which its owner has reserved space.
#[test]
fn a_checkpoint_thread_keeps_the_log_below_its_cap() {
    let home = temp();
    let dir = home.path().join("log");
    let cap = 4 * SEGMENT;
    let log = logforce::create_new(&dir, options().max_log_size(cap)).unwrap();
    let mut requests = log.checkpoint_requests();
    let taken = std::thread::scope(|s| {
        let owner = s.spawn(|| {
            let mut taken = 0;
            let mut kept = Some(log.try_reserve(10).unwrap());
            let mut checkpoint = |due: CheckpointDue, everything: bool| {
                let mut to = due.truncate_to;
                if let Some(permit) = kept.take() {
                    let note = permit.submit(b"checkpoint", Policy::Force)?.wait()?;
                    assert!(note.start >= due.truncate_to);
                    // Truncates as much as needed, or everything.
                    to = [to, note.start][usize::from(everything)];
                }
                log.truncate_front(to)?;
                kept = log.try_reserve(10).ok();
                Ok::<(), Error>(())
            };
            while let Some(due) = requests.next_blocking() {
                taken += 1;
                assert_eq!(due.limit, cap);
                if let Err(e) = checkpoint(due, taken % 2 == 1) {
                    // The writers have ended, and the log was closed meanwhile.
                    assert_eq!(e.kind(), ErrorKind::Closed, "{e}");
                }
            }
            taken
        });
        let writers: Vec<_> = (0..3)
            .map(|t| {
                let (log, dir) = (&log, &dir);
                s.spawn(move || {
                    for n in 0..300 {
                        soon("room", || match log.commit(&record(t * 1000 + n, 9000)) {
                            Ok(_) => true,
                            Err(e) => {
                                assert_eq!(e.kind(), ErrorKind::Full, "{e}");
                                false
                            }
                        });
                        // A file that is renamed meanwhile may be listed twice.
                        assert!((0..5).any(|_| used(dir) <= cap));
                    }
                })
            })
            .collect();
        writers.into_iter().for_each(|w| w.join().unwrap());
        log.clone().close().unwrap();
        owner.join().unwrap()
    });
    // The test appends 8 MB to a log of 1 MiB.
    assert!(taken > 8, "{taken}");
}

/// Requests neither hold the log open nor outlive it.
#[test]
fn requests_do_not_hold_the_log_open() {
    let home = temp();
    let dir = home.path().join("log");
    let options = options().max_log_size(4 * SEGMENT);
    let log = logforce::create_new(&dir, options.clone()).unwrap();
    let mut requests = log.checkpoint_requests();
    assert!(requests.try_next().is_none());
    fill_up(&log, 0, 9000);
    assert!(requests.try_next().is_some_and(|due| due.path == dir));
    fill_up(&log, 0, 9000);
    drop(log);
    assert!(requests.next_blocking().is_none());
    let again = logforce::open_existing(&dir, options).unwrap();
    again.close().unwrap();
}
