//! A copy of the files of a log that is being written.

use super::Result;
use crate::common::*;
use logforce::Log;
use std::fs;
use std::io::ErrorKind::NotFound;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::thread::sleep;
use std::time::Duration;

fn copy_files(from: &Path, to: &Path) -> std::io::Result<()> {
    // First: it names the segments there must be, and those are there by now.
    fs::copy(from.join("control"), to.join("control"))?;
    let mut segments = Vec::new();
    for file in fs::read_dir(from)? {
        let name = file?.file_name();
        if name.to_string_lossy().ends_with(".seg") {
            segments.push(name);
        }
    }
    // The newest first: it may prove durable what only a newer state of an older segment holds.
    segments.sort();
    for name in segments.iter().rev() {
        match fs::copy(from.join(name), to.join(name)) {
            Err(e) if e.kind() == NotFound => {} // truncated before the pin was there
            other => drop(other?),
        }
    }
    Ok(())
}

fn backup(log: &Log, to: &Path) -> Result<()> {
    for _ in 0..100 {
        let Ok(_pin) = log.pin(log.front_lsn()) else {
            sleep(Duration::from_millis(1)); // the front is being moved
            continue;
        };
        fs::create_dir(to)?;
        copy_files(log.path(), to)?;
        match read_all_of(to) {
            Ok(_) => return Ok(()),
            Err(_) => fs::remove_dir_all(to)?, // a commit came while its place was copied: again
        }
    }
    Err("no copy could be opened".into())
}

/// Fails where a strict opening would, or a record cannot be read.
fn read_all_of(dir: &Path) -> logforce::Result<u64> {
    let log = logforce::read_only(dir)?;
    let mut records = 0;
    for record in log.read_from(log.front_lsn())? {
        record?;
        records += 1;
    }
    Ok(records)
}

/// Ends the writer also where the test fails: else it would be waited for, for ever.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

#[test]
fn a_backup_has_what_was_acknowledged_before_it() -> Result<()> {
    let home = temp();
    let dir = home.path().join("log");
    let log = logforce::create_new(&dir, options())?;
    let (acknowledged, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let _stop = Stop(&stop);
        let writer = scope.spawn(|| {
            for n in 0.. {
                if stop.load(SeqCst) {
                    break;
                }
                let end = log.commit(&record(n, 3000)).unwrap().end;
                acknowledged.store(n + 1, SeqCst);
                if n % 100 == 99 {
                    log.truncate_front(end).unwrap();
                }
            }
        });
        while acknowledged.load(SeqCst) < 300 {
            assert!(!writer.is_finished());
            std::thread::yield_now();
        }
        for n in 0..10 {
            let before = acknowledged.load(SeqCst);
            let copy = home.path().join(format!("copy{n}"));
            backup(&log, &copy).unwrap();
            let copy = logforce::open_existing(copy, options()).unwrap();
            let found = read_all(&copy);
            let number = |data: &Vec<u8>| u64::from_le_bytes(data[..8].try_into().unwrap());
            // A truncation may leave a log empty for a moment.
            if let Some(first) = found.first().map(number) {
                let next = first + found.len() as u64;
                assert!(next >= before, "copy {n}: {next} of {before}");
                assert_holds(&copy, first, next, 3000);
            }
        }
    });
    Ok(())
}
